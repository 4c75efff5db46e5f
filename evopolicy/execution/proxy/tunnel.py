"""Carries bytes between two sockets until both ways have ended."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

LAST_SECONDS = 5.0
"""For what is still on its way to a far end that has said all it had to say."""
_CHUNK = 1 << 16


class _Way:
    """One way of a tunnel."""

    def __init__(self) -> None:
        self.total = 0
        self.moved = time.monotonic()
        """When it last carried something."""


def carry(near: socket.socket, early: bytes, far: socket.socket, seconds: float) -> tuple[int, int]:
    """Bytes carried from `near` to `far`, after `early` that was read of it already, and back.

    Ends when both ways have ended, soon after `far` has ended its own, or when nothing comes either way for `seconds`.
    """
    for end in (near, far):
        end.settimeout(seconds)
    up, down = _Way(), _Way()
    upward = threading.Thread(target=_one_way, args=(near, early, far, up, down), name="agent-tunnel", daemon=True)
    upward.start()
    _one_way(far, b"", near, down, up)
    upward.join(LAST_SECONDS)
    with contextlib.suppress(OSError):
        near.shutdown(socket.SHUT_RDWR)
    upward.join(LAST_SECONDS)
    return up.total, down.total


def _one_way(source: socket.socket, early: bytes, target: socket.socket, way: _Way, other: _Way) -> None:
    try:
        data = early or _received(source, other)
        while data:
            target.sendall(data)
            way.total += len(data)
            way.moved = time.monotonic()
            data = _received(source, other)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (target, source):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _received(source: socket.socket, other: _Way) -> bytes:
    """What comes next. Raises TimeoutError where nothing does and the `other` way is as quiet."""
    while True:
        began = time.monotonic()
        try:
            return source.recv(_CHUNK)
        except TimeoutError:
            if other.moved < began:
                raise
