"""Drawing without a screen: which OpenGL works for MuJoCo, and the settings pygame needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

_PROBE = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 16, 16) as renderer:
    renderer.update_scene(data)
    assert renderer.render().shape == (16, 16, 3)
print("drawn")
"""
_SECONDS = 60


@lru_cache(maxsize=1)
def mujoco_gl() -> str:
    """`MUJOCO_GL` for drawing without a screen: what is set already, 'egl' or 'osmesa', proven by
    drawing; '' for none.

    Asked once per process.
    """
    chosen = os.environ.get("MUJOCO_GL", "").strip().lower()
    candidates = dict.fromkeys(
        name for name in (chosen, "egl", "osmesa") if name in ("egl", "osmesa")
    )
    return next((name for name in candidates if draws(name)), "")


def draws(name: str) -> bool:
    """Whether MuJoCo draws a picture with `MUJOCO_GL=name`, 'egl' or 'osmesa'.

    Tried in a process of its own, since a broken driver may abort the one it is loaded into.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYOPENGL_PLATFORM"} | {
        "MUJOCO_GL": name
    }
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and b"drawn" in done.stdout


@contextmanager
def settings(**values: str) -> Iterator[None]:
    """Environment variables for the while of a drawing; afterwards they are as before."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
