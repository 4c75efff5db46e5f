"""A Host that is killed, or whose disk fills, at a chosen journal step: what tests start in a
process of its own."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from evopolicy.kernel.run.run import run
from evopolicy.kernel.session.journal import Event, Journal
from evopolicy.kernel.session.record import FeedbackConfig
from tests.kernel.bench import BUDGET, AgentCalls, FunctionAgent, Stage, Tally

PROGRAMS = ((2, "0:2"), (5, "2:5"), (3, "0,5,1"))
"""Value and selector of the Submissions the agent makes, in order: exactly the budget."""


def goes_on(call: AgentCalls) -> None:
    """Makes the Submissions that are still missing, waiting for what runs, and finishes: an agent
    that can resume."""
    while (status := call("status"))["state"] != "finished":
        if status["state"] == "running":
            call("wait")
        elif len(status["submissions"]) < len(PROGRAMS):
            call.submit(*PROGRAMS[len(status["submissions"])])
        else:
            call.say(usage={"input_tokens": 100})
            call("finish", candidates=[3, 1])


def stage(root: Path, *, resumes: bool = True, finish: str = "allow_early") -> Stage:
    """The Run of these tests. Bulk artifacts and a small room for them, so that every kind of event
    is written."""
    return Stage(
        root,
        [goes_on],
        benchmark=Tally(artifact_names=["bulk"]),
        budget=replace(BUDGET, submissions=3, episodes=8, finish=finish),
        feedback=FeedbackConfig("full", 1_500, replays=False),
        agent=FunctionAgent(resumes=resumes),
    )


def killed(root: str, at: int, when: str, resumes: bool, finish: str) -> None:
    """Run until the journal's event `at`, and die right before or right after it is on disk."""
    append = Journal.append

    def dying(self: Journal, event: str, **content: Any) -> Event:
        if when == "before" and len(self.events) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        line = append(self, event, **content)
        if when == "after" and line["n"] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    Journal.append = dying  # type: ignore[method-assign]
    run(stage(Path(root), resumes=resumes, finish=finish).plan())


OPERATIONS = ("fsync", "rename", "replace", "mkdir", "symlink", "unlink", "rmdir")
"""By which the Host's folder changes for good."""


def counted(root: str, at: int) -> None:
    """Run, and die right before the file operation `at`, from 0; where it comes to its end, say how
    many there were."""
    done = iter(range(10**9))

    def dying(operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **more: Any) -> Any:
            if next(done) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*arguments, **more)

        return operate

    for name in OPERATIONS:
        setattr(os, name, dying(getattr(os, name)))
    run(stage(Path(root)).plan())
    (Path(root) / "operations").write_text(str(next(done)))


def with_small_files(root: str, most_bytes: int) -> None:
    """Run where no file may grow past `most_bytes`; prints nothing, exits 3 and leaves the sentence
    in `said`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    said_exit(root, lambda: run(stage(Path(root)).plan()))


def with_full_disk(root: str, at: int, part: float) -> None:
    """Run on a disk that takes only a part of the journal's event `at` and nothing after it."""
    write = Journal._write

    def full(self: Journal, data: bytes) -> None:
        if len(self.events) < at:
            return write(self, data)
        self._file.write(data[: int(len(data) * part)])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    Journal._write = full  # type: ignore[method-assign]
    said_exit(root, lambda: run(stage(Path(root)).plan()))


def said_exit(root: str, work: Callable[[], object]) -> None:
    try:
        work()
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        handle = os.open(Path(root) / "said", os.O_WRONLY | os.O_CREAT)
        os.write(handle, text.encode()[:400])
        os._exit(3)
    os._exit(0)
