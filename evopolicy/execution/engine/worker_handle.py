"""The Host's end of one Environment worker: start it, send it jobs, know what it was doing when it
died."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor as Threads
from pathlib import Path
from typing import Any

from evopolicy.execution.engine.control import (
    Job,
    Link,
    Message,
    PictureJob,
    WorkerBroken,
    WorkerConfig,
    WorkerReady,
)
from evopolicy.execution.engine.lane import shared_watch
from evopolicy.execution.sandbox import process
from evopolicy.kernel.errors import ExecutionError

_LOG_BYTES = 1 << 20
_LOG_SHOWN = 4_000
_CLOSE_SECONDS = 5.0


class WorkerHandle:
    """A worker's process. It may die at any time: `receive` then leaves `dead` set."""

    def __init__(self, config: WorkerConfig, log: Path, threads: Threads) -> None:
        """Starts it from `threads`, whose thread outlives it. Raises ExecutionError where it cannot
        be started."""
        self.jobs: dict[int, Job] = {}
        """What it was sent and has not answered, in order."""
        self.begun = time.monotonic()
        """When it last had nothing to do, or was ready at last: what a job sent alone is timed
        from."""
        self.ready = False
        self.broken: WorkerBroken | None = None
        self._log = log
        ours, theirs = socket.socketpair()
        shared = os.memfd_create("evopolicy-watch", os.MFD_CLOEXEC)
        os.ftruncate(shared, mmap.PAGESIZE)
        self._memory = mmap.mmap(shared, mmap.PAGESIZE)
        self._watch: Any = shared_watch(self._memory)
        try:
            # The kernel ties a worker's life to the thread that starts it, not to the process.
            self._process = threads.submit(_start, theirs.fileno(), shared, log).result()
        except OSError as error:
            ours.close()
            raise ExecutionError(f"an Environment worker cannot be started: {error}") from error
        finally:
            theirs.close()
            os.close(shared)
        self.link = Link(ours)
        self._tell(config)

    @property
    def dead(self) -> bool:
        return self.link.closed

    def _tell(self, message: Message) -> None:
        try:
            self.link.send(message)
        except OSError:
            self.link.closed = True

    def send(self, job: Job) -> None:
        """Give it a job."""
        if not self.jobs:
            self.begun = time.monotonic()
        self.jobs[job.job] = job
        self._tell(job)

    def flush(self) -> None:
        """Send what it had no room for, as far as it has some now."""
        try:
            self.link.flush()
        except OSError:
            self.link.closed = True

    def receive(self) -> Iterator[Message]:
        """What it answered; what concerns the worker itself is kept here."""
        for message in self.link.receive():
            if isinstance(message, WorkerReady):
                self.ready = True
                self.begun = time.monotonic()  # How long it took to start says nothing of its work.
            elif isinstance(message, WorkerBroken):
                self.broken = message
            else:
                self.jobs.pop(getattr(message, "job", -1), None)
                yield message

    def busy(self) -> tuple[int, float] | None:
        """(job, seconds so far) of the Environment's call that is running, None outside of one."""
        since = self._watch[0]
        return (int(self._watch[1]), time.monotonic() - since) if since else None

    def still(self) -> float:
        """Seconds since it last looked at anything, while it has Episodes to play; 0 otherwise."""
        drawing = any(isinstance(job, PictureJob) for job in self.jobs.values())
        if not self.ready or not self.jobs or drawing or self._watch[0]:
            return 0.0
        return time.monotonic() - max(float(self._watch[2]), self.begun)

    def overdue(self, picture_seconds: float) -> bool:
        """Whether it has been drawing for longer than that."""
        drawing = any(isinstance(job, PictureJob) for job in self.jobs.values())
        return self.ready and drawing and time.monotonic() - self.begun > picture_seconds

    def kill(self) -> None:
        """End it at once, and with it everything it started."""
        self.link.closed = True
        self.link.sock.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Let it end what it started; kill it where it does not."""
        self.link.sock.close()
        self.link.closed = True
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def obituary(self) -> str:
        """How it ended and the last it wrote."""
        try:
            code = self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -9
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        with contextlib.suppress(OSError):
            return f"{how}\n{self._log.read_bytes()[-_LOG_SHOWN:].decode('utf-8', 'replace')}"
        return how

    def trim_log(self) -> None:
        """Keep what an Environment writes to standard error within bounds."""
        with contextlib.suppress(OSError):
            if self._log.stat().st_size > _LOG_BYTES:
                os.truncate(self._log, 0)


def _start(control: int, shared: int, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "evopolicy.execution.engine.worker", str(control)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[control, shared],
            env={**environment(), "EVOPOLICY_WATCH": str(shared)},
            start_new_session=True,
        )


def environment() -> Mapping[str, str]:
    """Variables of a process that Environments run in."""
    # What the Host can import its workers can, wherever it found it; they are told the exact list
    # when they run.
    path = dict.fromkeys((str(Path(__file__).resolve().parents[3]), *filter(None, sys.path)))
    return {
        **os.environ,
        **process.ONE_THREAD,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONHASHSEED": "0",
        "SDL_VIDEODRIVER": "dummy",
        "SDL_AUDIODRIVER": "dummy",
    }
