"""A place for whole commands, of which nothing stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for pid in place.marked():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in place.started:
        with process:  # its pipes are closed
            pass
