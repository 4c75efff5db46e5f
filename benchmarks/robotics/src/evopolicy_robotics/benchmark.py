"""A Gymnasium-Robotics task whose Environments share one compiled model and leave no file
behind."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from pathlib import Path
from typing import Any

from evopolicy.authoring import GymnasiumBenchmark
from evopolicy_robotics.models import compiled_once


class RoboticsBenchmark(GymnasiumBenchmark):
    """Plain `gymnasium.make`, but each model is compiled once in a process; results are the same to
    the byte."""

    def open(self, **options: Any) -> Any:
        for module in self.profile.imports:
            _import_quietly(module)
        with compiled_once():
            env = super().open(**options)
        # A maze writes its model to a file of its own for every Environment; once loaded, nobody
        # reads it again.
        written = getattr(env.unwrapped, "tmp_xml_file_path", None)
        if written is not None:
            Path(written).unlink(missing_ok=True)
        return env


def _import_quietly(name: str) -> None:
    """Import without the notice about other tasks that gymnasium-robotics prints on standard
    error."""
    if name not in sys.modules:
        with contextlib.redirect_stderr(io.StringIO()):
            importlib.import_module(name)
