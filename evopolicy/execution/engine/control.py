"""What Host and workers say to each other: MessagePack over a Unix socket, both ends ours."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import MSG_DONTWAIT, socket
from typing import Any

import msgspec

from evopolicy.execution.policy.handles import ZygotePlan
from evopolicy.execution.sandbox.confine import SandboxConfig
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.benchmark import Artifact, BenchmarkReference, EpisodeSpec
from evopolicy.kernel.ports.outcome import CheckReport, EpisodeResult
from evopolicy.kernel.ports.protocols import Limits

_HEAD = struct.Struct("<I")


@dataclass(frozen=True)
class WorkerConfig:
    """The first message to a worker."""

    parent: int
    """Process id of the Host: the worker ends with it."""
    path: list[str]
    """The Host's `sys.path`: what it can import, its workers can."""
    reference: BenchmarkReference
    limits: Limits
    sandbox: SandboxConfig
    plan: ZygotePlan
    policy_path: tuple[str, ...]
    packages: tuple[str, ...]


@dataclass(frozen=True)
class EpisodeJob:
    """Host to worker: play this Episode. Answered by EpisodeDone or EpisodeLost of the same
    number."""

    job: int
    """Number that the answer repeats."""
    program: Path
    episode: EpisodeSpec
    trace: Path | None
    """File to write its trace to; None for no trace."""


@dataclass(frozen=True)
class CheckJob:
    """Host to worker: load the Program on observations sampled by `seed`. Answered by CheckDone."""

    job: int
    program: Path
    seed: int


@dataclass(frozen=True)
class PictureJob:
    """Host to worker: render this Episode's `trace` into `folder`. Answered by PicturesDone."""

    job: int
    episode: EpisodeSpec
    trace: Path
    folder: Path


Job = EpisodeJob | CheckJob | PictureJob


@dataclass(frozen=True)
class WorkerReady:
    """The worker has loaded the Benchmark."""


@dataclass(frozen=True)
class WorkerBroken:
    """The worker cannot work, ever: the Benchmark cannot be loaded."""

    message: str
    traceback: str


@dataclass(frozen=True)
class EpisodeDone:
    """Worker to Host: an Episode was played, to its end or to its Policy's or Environment's
    failure."""

    job: int
    result: EpisodeResult


@dataclass(frozen=True)
class EpisodeLost:
    """The Episode's process could not be kept: neither the Policy nor the Environment is to
    blame."""

    job: int
    message: str


@dataclass(frozen=True)
class CheckDone:
    """Worker to Host: what a check found."""

    job: int
    report: CheckReport


@dataclass(frozen=True)
class PicturesDone:
    """Worker to Host: what was rendered; nothing where the Environment cannot draw or failed to."""

    job: int
    artifacts: list[Artifact]


Message = (
    WorkerConfig
    | EpisodeJob
    | CheckJob
    | PictureJob
    | WorkerReady
    | WorkerBroken
    | EpisodeDone
    | EpisodeLost
    | CheckDone
    | PicturesDone
)
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in Message.__args__}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _restore(kind: Any, value: Any) -> Any:
    return Path(value) if issubclass(kind, Path) else value


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_envelope = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])


LARGEST = 1 << 28
"""Bytes of one message. What is larger is refused before it is sent."""


class TooLarge(ExecutionError):
    """A message over LARGEST."""


class Link:
    """One end of the socket between the Host and a worker. Neither end ever blocks on writing: the
    other may as well.

    What the other end has no room for waits here. It stays little: a worker has no more jobs than
    it was given lanes for, and answers each once."""

    def __init__(self, sock: socket) -> None:
        """`sock` is a connected stream socket; its owner closes it."""
        self.sock = sock
        self._held = bytearray()
        self._unsent: deque[memoryview] = deque()
        self.closed = False
        """The other end is gone."""

    @property
    def blocked(self) -> bool:
        """Whether bytes wait for the other end to read: call `flush` when the socket can be
        written."""
        return bool(self._unsent)

    def send(self, message: Message) -> None:
        """Send what there is room for, keep the rest. Raises TooLarge; OSError when the other end
        is gone."""
        body = _encoder.encode((type(message).__name__, message))
        if len(body) > LARGEST:
            raise TooLarge(f"a message of {len(body)} bytes; at most {LARGEST} can be sent")
        self._unsent.append(memoryview(_HEAD.pack(len(body)) + body))
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as there is room. Raises OSError when the other end is gone."""
        while self._unsent:
            part = self._unsent[0]
            try:
                sent = self.sock.send(part, MSG_DONTWAIT)
            except BlockingIOError:
                return
            if sent < len(part):
                self._unsent[0] = part[sent:]
            else:
                self._unsent.popleft()

    def finish(self) -> None:
        """Send what waits, however long it takes: for the last message of a worker."""
        for part in self._unsent:
            self.sock.sendall(part)
        self._unsent.clear()

    def receive(self, wait: bool = False) -> Iterator[Message]:
        """The messages that have arrived; with `wait`, blocks for the first bytes."""
        while True:
            try:
                data = self.sock.recv(1 << 18, 0 if wait else MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.closed = True
                break
            self._held += data
            if wait or len(data) < 1 << 18:
                break
        yield from self._whole()

    def _whole(self) -> Iterator[Message]:
        while len(self._held) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._held)
            if size > LARGEST:
                # No message of ours: whatever the other end is, it is none of ours any more.
                self.closed = True
                return
            if len(self._held) < _HEAD.size + size:
                return
            body = bytes(self._held[_HEAD.size : _HEAD.size + size])
            del self._held[: _HEAD.size + size]
            name, raw = _envelope.decode(body)
            yield msgspec.msgpack.decode(raw, type=_TYPES[name], dec_hook=_restore)
