"""Processes of a command: each in a session of its own, and gone with everything it started when
the command is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from evopolicy.execution.sandbox import process
from evopolicy.execution.sandbox.descendants import children, descendants, kill_descendants, send

_FOREIGN = ("MLFLOW_RUN_ID", "HYDRA_FULL_ERROR")


class Child:
    """A started process. Its standard input is a pipe that ends when this process does, however
    that happens."""

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """`descriptors` of ours are the child's too, under the same numbers."""
        inherited = {key: value for key, value in os.environ.items() if key not in _FOREIGN}
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                start_new_session=True,
                pass_fds=descriptors,
                env={**inherited, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Exit code (negative: the signal), or None while it runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """Ask it to stop and to end what it started."""
        self._signal(signal.SIGINT)

    def write(self, data: bytes) -> None:
        """To its standard input, which stays open. What has ended already takes nothing."""
        with suppress(OSError):
            if self._process.stdin:
                self._process.stdin.write(data)
                self._process.stdin.flush()

    def close_input(self) -> None:
        """End its standard input: it may end now."""
        with suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or None when it still runs after `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self, grace_seconds: float) -> None:
        """Wait up to `grace_seconds` for it, then kill it and everything it started."""
        if self.wait(grace_seconds) is None:
            kill_tree(self.pid)
        self.close()

    def close(self) -> None:
        """Reap it, once it has ended, and what is left of its process group."""
        self._process.wait()
        self.close_input()
        _kill_group(self.pid)

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)


def become_reaper(wanted: bool = True) -> None:
    """Make orphans of our children our own, so that none of them outlives us unseen. Linux only;
    elsewhere nothing."""
    if sys.platform == "linux":
        process.adopt_orphans(wanted)


def kill_tree(pid: int) -> None:
    """Kill `pid` and everything it started. Stopped first, so that nothing new is started
    meanwhile."""
    send(pid, signal.SIGSTOP)
    for child in descendants(pid):
        send(child, signal.SIGKILL)
    send(pid, signal.SIGKILL)


class Reaper:
    """Finds what cells leave behind: everything under this process but its earlier children and the
    cells that run."""

    def __enter__(self) -> Reaper:
        become_reaper()
        self._bystanders = frozenset(children().get(os.getpid(), []))
        return self

    def __exit__(self, *_: object) -> None:
        become_reaper(False)

    def kill_orphans(self, running: Sequence[int]) -> None:
        """Kill and reap processes that an ended cell has left to us, and what those leave, until
        none is."""
        spared = self._bystanders.union(running)
        while orphans := [
            child for child in children().get(os.getpid(), []) if child not in spared
        ]:
            for orphan in orphans:
                kill_tree(orphan)
                with suppress(ChildProcessError):
                    os.waitpid(orphan, 0)


def end_with_parent(grace_seconds: float = 20.0) -> None:
    """Call in a child: when the command is gone, interrupt ourselves, then end everything we
    started, and us."""
    become_reaper()

    def watch() -> None:
        try:
            os.read(0, 1)
        except OSError:
            pass
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(grace_seconds)
        kill_descendants()
        os._exit(130)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
