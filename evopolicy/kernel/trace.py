"""Traces: the steps of one Episode, streamed to a file as they happen and read back one by one."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from evopolicy.kernel import wire
from evopolicy.kernel.errors import RecordError

MAX_BYTES = 256 * 2**20
_HEAD = struct.Struct("<I")


class TraceRow(NamedTuple):
    """Row 0 is the reset: its action is None and its reward 0; row n holds the n-th Action and what
    it led to."""

    step: int
    observation: Any
    action: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class TraceWriter:
    """Appends rows to `path`; past MAX_BYTES only their Actions. Memory never grows with the
    Episode."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._left = MAX_BYTES

    def write(self, row: TraceRow) -> None:
        frame = wire.encode(row)
        if self._left < len(frame) + _HEAD.size:
            # Actions alone are kept past the limit, so that a replay can still be stepped to the
            # end.
            frame = wire.encode(row._replace(observation=None, info={}))
        self._left -= len(frame) + _HEAD.size
        self._file.write(_HEAD.pack(len(frame)))
        self._file.write(frame)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()


def read_trace(path: Path) -> Iterator[TraceRow]:
    """The rows of `path` in order. Raises RecordError where a frame is cut or malformed."""
    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            if len(head) < _HEAD.size:
                raise RecordError(f"trace {path.name} is cut inside a frame's length")
            (size,) = _HEAD.unpack(head)
            frame = file.read(size)
            if len(frame) < size:
                raise RecordError(f"trace {path.name} is cut inside a frame")
            yield TraceRow(*wire.decode(frame))
