"""Carries bytes between two sockets until both ways have ended."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Protocol

LAST_SECONDS = 5.0
"""For what is still on its way to a far end that has said all it had to say."""
_CHUNK = 1 << 16


class _Reader(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _Socket:
    def __init__(self, source: socket.socket) -> None:
        self._source = source

    def read1(self, size: int, /) -> bytes:
        return self._source.recv(size)


def carry(near: socket.socket, read_near: _Reader, far: socket.socket, seconds: float) -> tuple[int, int]:
    """Bytes carried from `near` (read through its buffer `read_near`) to `far`, and back.

    Ends when both ways have ended, soon after `far` has ended its own, or when nothing comes for `seconds`.
    """
    for end in (near, far):
        end.settimeout(seconds)
    up = [0]
    upward = threading.Thread(target=_one_way, args=(read_near, far, near, up), name="agent-tunnel", daemon=True)
    upward.start()
    down = [0]
    _one_way(_Socket(far), near, far, down)
    upward.join(LAST_SECONDS)
    with contextlib.suppress(OSError):
        near.shutdown(socket.SHUT_RDWR)
    upward.join(LAST_SECONDS)
    return up[0], down[0]


def _one_way(source: _Reader, target: socket.socket, other: socket.socket, total: list[int]) -> None:
    try:
        while data := source.read1(_CHUNK):
            target.sendall(data)
            total[0] += len(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (target, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
