"""Compiled MuJoCo models, kept for the Environments to come.

Every Episode has a fresh Environment, and much of the cost of making one is reading meshes,
building hulls and drawing textures. An Environment writes into its model (welds, sites), so that
each is given a copy of the untouched one: a copy of memory, bit by bit what compiling gives."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEPT = 4
"""Models kept in one process, 9 to 12 MB each; a worker runs one task, which has one."""
_models: OrderedDict[tuple[str, bytes], Any] = OrderedDict()


@contextmanager
def compiled_once() -> Iterator[None]:
    """While it lasts, `mujoco.MjModel.from_xml_path` compiles a file it knows no second time.

    A file is known by its folder, which its meshes are looked for from, and its content: mazes come
    under a new name every time. Paths with assets of their own are compiled as ever."""
    import mujoco

    model_class: Any = mujoco.MjModel
    compile_model = model_class.from_xml_path

    def load(filename: str, assets: Any = None) -> Any:
        if assets:
            return compile_model(filename, assets)
        path = Path(filename)
        key = (str(path.parent), path.read_bytes())
        if key not in _models:
            _models[key] = compile_model(filename)
        _models.move_to_end(key)
        while len(_models) > KEPT:
            _models.popitem(last=False)
        return copy.copy(_models[key])

    model_class.from_xml_path = staticmethod(load)
    try:
        yield
    finally:
        model_class.from_xml_path = staticmethod(compile_model)
