"""Runs that mean no harm, of another Host on the same machine, while tests do their worst beside
them."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evopolicy.kernel.ports.protocols import Isolation
from tests.execution.hostile import innocent_host
from tests.execution.hostile.innocent_host import AGENT, POOL, PROGRAM

TURNS = 15 * POOL
"""Submissions of a Run, but of the first, which is played alone and makes one for each Episode of
the pool."""
SECONDS = 300
"""After which a Host that says nothing is taken for one that was harmed."""


class Innocents:
    """Whole Runs one after the other, whose every score is to be what it was when nothing else was
    there.

    One Host plays them all. Its agent waits in its sandbox, with its Session and its Policies'
    processes, and makes one Submission, or ends its Run, for each `beside`."""

    def __init__(self, root: Path, level: Isolation) -> None:
        agent = root / "agent"
        agent.mkdir()
        (agent / "agent.py").write_text(AGENT)
        (agent / "policy.py").write_text(PROGRAM)
        os.mkfifo(agent / "turns")
        self.output = root / "output"
        self._turns = os.open(agent / "turns", os.O_RDWR)
        self._errors = root / "stderr"
        with self._errors.open("wb") as errors:
            self._host = subprocess.Popen(
                [sys.executable, innocent_host.__file__, str(root), level],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[3]), *sys.path)),
                },
            )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._done = 0
        self.alone = [self._first("s") for _ in range(POOL)]
        self.ended_alone = self._first("f")
        assert [told["failures"] for told in self.alone] == [{}] * POOL, self.alone
        assert self.ended_alone["ended"] == [True, "finished", 1], self.ended_alone

    @property
    def host(self) -> int:
        """The Host's process number: all that it started is below it."""
        return self._host.pid

    @property
    def run(self) -> Path:
        """Folder of the Run that goes on; its agent has made a Submission."""
        if self._done == 0:
            self._turn()
        return max(
            self.output.glob("runs/*/*/s*"), key=lambda path: int(path.name[1:].partition("-")[0])
        )

    @contextmanager
    def beside(self, *, ends: bool = False) -> Iterator[None]:
        """One Submission goes on meanwhile, or, with `ends` and once there were enough, the Run's
        end.

        It ends as it would alone, and so will the next one, which comes after it.
        """
        if ends and self._done == 0:
            self._turn()
        letter = "f" if ends or self._done == TURNS else "s"
        self._ask(letter)
        try:
            yield
        finally:  # else the next one would be given it
            told, right = self._answer(), self.ended_alone
            if letter == "s":
                right = self.alone[self._done % POOL] | {"submission": self._done + 1}
            self._done = self._done + 1 if letter == "s" else 0
        assert told == right, f"{told} is not as alone, {right}: {self._errors.read_text()[-4000:]}"

    def _turn(self) -> None:
        with self.beside():
            pass

    def close(self) -> None:
        """One Submission, and the end of the Run, after everything else; nothing is left of the
        Host then."""
        try:
            self._turn()
            with self.beside(ends=True):
                pass
        finally:
            self._host.send_signal(signal.SIGINT)
            try:
                self._host.wait(60)
            except subprocess.TimeoutExpired:
                self._host.kill()
                self._host.wait()
            os.close(self._turns)

    def _first(self, letter: str) -> Any:
        self._ask(letter)
        return self._answer()

    def _ask(self, letter: str) -> None:
        os.write(self._turns, letter.encode())

    def _answer(self) -> Any:
        try:
            line = self._lines.get(timeout=SECONDS)
        except queue.Empty:
            line = b""
        assert line, f"the innocent Host said nothing more: {self._errors.read_text()[-4000:]}"
        return json.loads(line)

    def _read(self) -> None:
        assert self._host.stdout is not None
        with self._host.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")
