"""Every change of a Run's folder is on disk before the journal goes on, and every effect comes
after its event.

Seen at the system's own calls during a whole Run, so that whatever is written in future is held to
it as well."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.run.run import run
from evopolicy.kernel.session.journal import JOURNAL, Journal
from evopolicy.kernel.session.record import FeedbackConfig
from tests.kernel.bench import AgentCalls, Stage, Tally

_LISTENING: list[Recorder] = []
_WRITES = os.O_WRONLY | os.O_RDWR


class Recorder:
    """What is not on disk yet below `root`, and what happened in which order."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.entries: set[str] = set()
        """Names made, renamed or linked since their folder was synced."""
        self.contents: set[str] = set()
        """Files opened for writing since they were synced."""
        self.order: list[str] = []
        self.lasting: set[str] = set()
        """Folders that were synced, as seen from `root`."""

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            self._written(arguments[0])
        elif event == "os.mkdir":
            self._made(_at(arguments[0], arguments[2]))
        elif event == "os.symlink":
            self._made(_at(arguments[1], arguments[2]))
        elif event == "os.rename":
            self._moved(_at(arguments[0], arguments[2]), _at(arguments[1], arguments[3]))
        elif event in ("os.remove", "os.rmdir"):
            self._gone(_at(arguments[0], arguments[1]))

    def _written(self, path: Any) -> None:
        if isinstance(path, str | Path) and str(path).startswith(self.root):
            if not os.path.lexists(path):
                self._made(str(path))
            self.contents.add(str(path))

    def _made(self, path: str) -> None:
        if path.startswith(self.root) and not os.path.lexists(path):
            self.entries.add(path)

    def _moved(self, source: str, target: str) -> None:
        for known in (self.entries, self.contents):
            below = {path for path in known if path == source or path.startswith(f"{source}/")}
            known -= below
            known |= {
                target + path.removeprefix(source)
                for path in below
                if path != source or known is self.contents
            }
        if target.startswith(self.root):
            self.entries.add(target)
            self.order.append(f"moved {target.removeprefix(self.root)}")

    def _gone(self, path: str) -> None:
        for known in (self.entries, self.contents):
            known -= {one for one in known if one == path or one.startswith(f"{path}/")}
        if path.startswith(self.root):
            self.order.append(f"removed {path.removeprefix(self.root)}")

    def synced(self, path: str) -> None:
        self.contents.discard(path)
        self.entries -= {one for one in self.entries if os.path.dirname(one) == path}  # noqa: PTH120 (text)
        if path.startswith(self.root):
            self.lasting.add(path.removeprefix(self.root) or "/")

    def unsafe(self) -> set[str]:
        """What a loss of power would take, but for what nobody has been told of and what is the
        agent's own."""

        def counts(path: str) -> bool:
            parts = Path(path.removeprefix(self.root)).parts[1:]
            hidden = any(part.startswith(".") for part in parts)
            agents = parts[:2] == ("run", "workspace") or path.endswith(
                ("stdout.log", "stdout.times")
            )
            return not hidden and not agents and "initial" not in parts

        return {
            path
            for path in (*self.entries, *self.contents)
            if counts(path) and not path.endswith(JOURNAL)
        }


def _at(path: Any, folder: Any) -> str:
    """The whole path of a call's name and folder descriptor."""
    place = os.fsdecode(path)
    if isinstance(folder, int) and folder >= 0 and not place.startswith("/"):
        return f"{os.readlink(f'/proc/self/fd/{folder}')}/{place}"  # noqa: PTH115
    return place


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for recorder in _LISTENING:
        recorder.audit(event, arguments)


sys.addaudithook(_hook)  # for good: there is no way to take one back


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    made = Recorder(tmp_path.resolve())
    fsync, append = os.fsync, Journal.append

    def syncing(handle: int) -> None:
        fsync(handle)
        made.synced(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115
        made.order.append(f"fsync {os.readlink(f'/proc/self/fd/{handle}').removeprefix(made.root)}")  # noqa: PTH115

    def appending(self: Journal, event: str, **content: Any) -> Any:
        before = made.unsafe()
        place = len(made.order)
        line = append(self, event, **content)
        assert not before, f"'{event}' is written and these are not on disk yet: {sorted(before)}"
        assert f"fsync /run/{JOURNAL}" in made.order[place:], f"'{event}' is told and not on disk"
        made.order.append(
            f"event {event} {content.get('submission', content.get('attempt', ''))}".strip()
        )
        return line

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(Journal, "append", appending)
    _LISTENING.append(made)
    yield made
    _LISTENING.remove(made)


def whole_run(root: Path, recorder: Recorder) -> Stage:
    """A Run with every kind of event and file, whose steps are told to `recorder`."""

    def agent(call: AgentCalls) -> None:
        recorder.order.append("agent runs")
        for number, (value, selector) in enumerate(((2, "0:2"), (5, "2:5"), (3, "5")), 1):
            assert call.submit(value, selector)["submission"]["status"] == "published"
            recorder.order.append(f"answered {number}")
        call("finish", candidates=[3, 1])
        recorder.order.append("answered finish")

    made = Stage(
        root.resolve(),
        [agent],
        benchmark=Tally(artifact_names=["bulk"]),
        feedback=FeedbackConfig("full", 1_500, False),
    )
    evaluate = made.executor.evaluate
    private = {episode.seed: "validation" for episode in made.planned.validation}
    private |= {episode.seed: "assessment" for episode in made.planned.assessment}
    count = iter(range(1, 100))

    def told(program: Path, episodes: Any, **more: Any) -> Any:
        split = private.get(episodes[0].seed)
        recorder.order.append(f"evaluates {split or next(count)}")
        return evaluate(program, episodes, **more)

    made.executor.evaluate = told  # type: ignore[method-assign]
    return made


ORDER: list[tuple[str, str]] = [
    ("event agent_started 1", "agent runs"),
    *((f"event reserved {n}", f"evaluates {n}") for n in (1, 2, 3)),
    *((f"event published {n}", f"moved /run/workspace/feedback/000{n}") for n in (1, 2, 3)),
    *((f"event published {n}", f"answered {n}") for n in (1, 2, 3)),
    *((f"moved /run/submissions/000{n}/feedback", f"event published {n}") for n in (1, 2, 3)),
    *((f"moved /run/submissions/000{n}/outcomes.jsonl", f"event published {n}") for n in (1, 2, 3)),
    ("event evicted", "removed /run/submissions/0001/feedback/bulk"),
    ("event evicted", "removed /run/workspace/feedback/0001/bulk"),
    ("event closed", "answered finish"),
    ("event agent_ended", "moved /run/agent/attempt-1/transcript.json"),
    ("moved /run/agent/attempt-1/transcript.json", "event handoff"),
    ("event handoff", "evaluates validation"),
    ("event selected 2", "evaluates assessment"),
    ("event assessed", "event ended"),
]
"""What comes first, and what only after it."""


def test_nothing_is_told_before_it_is_on_disk_and_nothing_done_before_it_is_told(
    tmp_path: Path, recorder: Recorder
) -> None:
    made = whole_run(tmp_path, recorder)
    assert run(made.plan()).valid
    for first, then in ORDER:
        assert first in recorder.order, first
        assert then in recorder.order, then
        assert recorder.order.index(first) < recorder.order.index(then), (first, then)
    assert recorder.unsafe() == set()
    needed = ("/", "/run", "/programs", "/run/programs", "/run/submissions", "/run/submissions/0001",
              "/run/evaluations", "/run/evaluations/validation", "/run/evaluations/assessment",
              "/run/agent", "/run/agent/attempt-1")  # fmt: skip
    assert set(needed) <= recorder.lasting


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda folder: (folder / "made").mkdir(), "/made"),
        (lambda folder: (folder / "file").write_bytes(b"x"), "/file"),
        (lambda folder: (folder / "link").symlink_to("file"), "/link"),
        (lambda folder: (folder / "there").rename(folder / "moved"), "/moved"),
    ],
)
def test_the_recorder_sees_what_is_not_on_disk(
    tmp_path: Path, recorder: Recorder, change: Callable[[Path], Any], seen: str
) -> None:
    """Each way by which a folder changes: a check that cannot fail would hold nothing."""
    place = tmp_path.resolve()
    (place / "there").mkdir()
    recorder.entries.clear()
    change(place)
    assert str(place) + seen in recorder.unsafe()
