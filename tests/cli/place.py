"""A folder to run the real command in, and what waits for its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

from evopolicy.execution.sandbox.descendants import descendants

COMMAND = [sys.executable, "-m", "evopolicy.cli.main"]
TINY = [
    "benchmark=cartpole",
    "protocol=smoke",
    "budget.submissions=2",
    "budget.episodes=2",
    "tracking=off",
]
PATIENCE = 300.0
"""Seconds after which a thing that was waited for is taken to never happen. No verdict: only what
ends a hang."""


class Place:
    """A folder to run commands in, and a mark by which everything they start is found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "outputs"
        self.started: list[subprocess.Popen[str]] = []
        self.mark = uuid.uuid4().hex
        self.environment = {
            **os.environ,
            "EVOPOLICY_TEST_MARK": self.mark,
            "PYTHONPATH": str(folder),
        }

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert "Traceback" not in done.stdout + done.stderr
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def thinking(self, runs: int, command: subprocess.Popen[str]) -> None:
        """Return once the agents of so many Runs, by the name `command`, sleep: each has its
        process."""

        def all_sleep() -> bool:
            assert command.poll() is None, command.communicate()
            journals = [
                path.read_text()
                for path in self.output.glob("runs/cartpole/command/*/journal.jsonl")
            ]
            asleep = sum(_argv(pid)[0].endswith(b"sleep") for pid in self.marked())
            return sum("agent_started" in text for text in journals) == runs and asleep >= runs

        until(all_sleep)

    def cells(self) -> list[int]:
        """Of the marked, those that are the process of a cell."""
        found = {pid for pid in self.marked() if b"evopolicy.sweeps.cell" in _argv(pid)}
        return sorted(
            found.difference(*map(descendants, found))
        )  # a child that has yet to run its own program

    def marked(self) -> set[int]:
        """Living processes that have the mark in their environment, or a parent that has."""
        found: set[int] = set()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    found |= {int(entry.name), *descendants(int(entry.name))}
            except OSError:
                continue
        return {pid for pid in found if alive(pid)}


def until(happened: Callable[[], object]) -> None:
    """Wait for it, however slow the machine is."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def gone(pids: Collection[int]) -> None:
    """Wait until none of them lives."""
    until(lambda: not [pid for pid in pids if alive(pid)])


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _argv(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]
