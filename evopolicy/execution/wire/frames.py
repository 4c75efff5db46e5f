"""Frames between a worker and an Episode's process: a head (length, number, kind) and a MessagePack
body.

The worker asks with a numbered frame and the process answers with the same number: anything else is
no answer."""

from __future__ import annotations

import os
import struct
from collections import deque
from socket import socket

from evopolicy.kernel.wire import WireError

HEAD = struct.Struct("<IIB")
_HEAD, _unpack = HEAD.size, HEAD.unpack_from

# What the worker asks ...
IMPORT, MAKE, RESET, ACT = 1, 2, 3, 4
# ... and what comes back.
READY, DONE, ACTION, FAILED = 16, 17, 18, 19

EXIT_WIRE = 98
"""Exit code of a process whose wire is closed or broken."""

_CHUNK = 1 << 18
# Every page a fresh process touches costs more than what it is touched for: its buffer grows when
# it has to.
_FIRST = 1 << 12
_JOIN = 1 << 13


Frame = tuple[int, int, bytes]
"""(number, kind, body)."""


def pack(number: int, kind: int, body: bytes = b"") -> bytes:
    """One whole frame."""
    return HEAD.pack(len(body), number, kind) + body


class Wire:
    """The worker's end: never blocks, holds what did not fit, refuses what is larger than `limit`
    bytes."""

    __slots__ = ("_held", "_limit", "_needed", "_unsent", "sock")

    # One worker is one thread and reads one frame at a time: all its wires share the buffer they
    # read into.
    _buffer = bytearray(_CHUNK)
    _view = memoryview(_buffer)

    def __init__(self, sock: socket, limit: int) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._limit = limit
        self._held = bytearray()
        self._needed = 0
        self._unsent: deque[memoryview] = deque()

    @property
    def blocked(self) -> bool:
        """Whether bytes wait for the process to read: call `flush` when the socket can be
        written."""
        return bool(self._unsent)

    def send(
        self, number: int, kind: int, body: bytes = b"", tail: memoryview | None = None
    ) -> bool:
        """Send one frame of `body` and then `tail`, or hold what does not fit: False, call `flush`
        when it can be sent.

        A process that is gone is noticed by `receive`.
        """
        size = len(body) if tail is None else len(body) + tail.nbytes
        head = HEAD.pack(size, number, kind) + body
        try:
            sent = self.sock.send(head) if tail is None else self.sock.sendmsg((head, tail))
        except BlockingIOError:
            sent = 0
        except OSError:
            return True
        if sent == _HEAD + size:
            return True
        # Copied: the Environment may write its next observation into the same array.
        self._unsent.append(memoryview(head + bytes(tail) if tail is not None else head)[sent:])
        return False

    def flush(self) -> None:
        """Send what was held, as far as it goes."""
        try:
            while self._unsent:
                part = self._unsent[0]
                sent = self.sock.send(part)
                if sent < len(part):
                    self._unsent[0] = part[sent:]
                    return
                self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()

    def receive(self) -> Frame | None:
        """The next frame, None while it is not all there. Raises EOFError once the process is gone,
        or WireError."""
        try:
            count = self.sock.recv_into(self._buffer)
        except BlockingIOError:
            return None
        except OSError:
            raise EOFError from None
        if count == 0:
            raise EOFError
        if count >= _HEAD and not self._held:  # the usual answer comes whole
            size, number, kind = _unpack(self._buffer)
            if count == _HEAD + size:
                return number, kind, bytes(self._view[_HEAD:count])
        self._held += self._view[:count]
        return self._take()

    def _take(self) -> Frame | None:
        held = self._held
        if len(held) < HEAD.size:
            return None
        size, number, kind = HEAD.unpack_from(held)
        if size > self._limit:
            raise WireError(f"a frame of {size} bytes; at most {self._limit} are allowed")
        if len(held) < HEAD.size + size:
            return None
        if len(held) > HEAD.size + size:
            raise WireError(f"{len(held) - HEAD.size - size} bytes after the answer")
        self._held = bytearray()
        return number, kind, bytes(held[HEAD.size :])


class ChildWire:
    """The process's end: blocking, by plain reads and writes, since a Policy may call nothing of
    sockets."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = bytearray(_FIRST)
        self._view = memoryview(self._buffer)

    def receive(self) -> tuple[int, int, memoryview]:
        """(number, kind, body); the body is valid until the next call. Ends the process when the
        worker is gone."""
        have = os.readv(self.fd, (self._buffer,))
        while have < HEAD.size:
            have += self._read(self._view[have:])
        size, number, kind = HEAD.unpack_from(self._buffer)
        total = HEAD.size + size
        if total > len(self._buffer):
            self._buffer = bytearray(self._buffer) + bytes(total - len(self._buffer))
            self._view = memoryview(self._buffer)
        while have < total:
            have += self._read(self._view[have:total])
        return number, kind, self._view[HEAD.size : total]

    def _read(self, part: memoryview) -> int:
        count = os.readv(self.fd, (part,))
        if count == 0:
            os._exit(EXIT_WIRE)
        return count

    def send(self, number: int, kind: int, body: bytes = b"") -> None:
        frame = memoryview(HEAD.pack(len(body), number, kind) + body)
        sent = os.write(self.fd, frame)
        while sent < len(frame):
            sent += os.write(self.fd, frame[sent:])
