"""A Host killed at each journal step, or stopped by a full disk there: never a second charge, never
a lost Submission, and the same result in the end."""

from __future__ import annotations

import multiprocessing
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.run.run import run
from evopolicy.kernel.run.stream import is_kept
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.kernel.session.submission import read_graded
from tests.kernel.bench import WAIT, events, names
from tests.kernel.killed_host import (
    PROGRAMS,
    counted,
    killed,
    stage,
    with_full_disk,
    with_small_files,
)

pytestmark = pytest.mark.slow

UNKILLED = [
    "opened", "agent_started", "reserved", "published", "reserved", "published", "evicted", "reserved", "published",
    "evicted", "closed", "agent_ended", "handoff", "validated", "validated", "validated", "selected", "assessed",
    "ended",
]  # fmt: skip
LAST = UNKILLED.index("published", 6)
"""The last Submission's outcome: around it the two finish rules part."""
SPENT = range(LAST - 1, LAST + 5)


def steps(whens: Sequence[str], ats: Iterable[int], *more: str) -> list[Any]:
    return [
        pytest.param(at, when, *more, id="-".join([*more, when, str(at), UNKILLED[at]]))
        for at in ats
        for when in whens
    ]


EVERY = range(len(UNKILLED))


def apart(work: Callable[..., None], *arguments: Any) -> int:
    """The exit code of `work` in a process of its own: forked from a server that has one thread and
    all imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.kernel.killed_host"])
    process = context.Process(target=work, args=arguments)
    process.start()
    process.join(3 * WAIT)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError("the Host never ended")
    return process.exitcode


def outcome(finished: Run) -> dict[str, Any]:
    state, result = finished.state, finished.result
    return {
        "submissions": [
            (s.program, s.indices, s.status, s.score, s.units_used) for s in state.submissions
        ],
        "candidates": state.candidates,
        "validation": dict(result.validation),
        "selected": (result.selected, result.selected_submission),
        "assessment": result.assessment,
        "valid": (result.valid, result.reasons),
        "closed_by": state.closed_by,
    }


def charges(folder: Path) -> list[int]:
    return [event["submission"] for event in events(folder) if event["event"] == "reserved"]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is room: a Run makes everything it writes durable, and these tests are
    many Runs."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="evopolicy-test-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    finished = {}
    for finish in ("allow_early", "exhaust"):
        made = stage(tmp_path_factory.mktemp(finish), finish=finish)
        finished[finish] = run(made.plan())
    return finished


def test_the_steps_of_these_tests_are_those_of_a_run(unkilled: dict[str, Run]) -> None:
    for finished in unkilled.values():
        assert sorted(names(finished.folder)) == sorted(UNKILLED)
        assert finished.valid
        assert finished.result.selected_submission == 2
        assert finished.state.submissions[-1].units_used == sum((2, 3, 3))


@pytest.mark.parametrize(
    ("at", "when", "finish"),
    [
        *steps(["before", "after"], EVERY, "allow_early"),
        *steps(["before", "after"], SPENT, "exhaust"),
    ],
)
def test_an_agent_that_resumes_ends_as_if_nothing_had_happened(
    root: Path, unkilled: dict[str, Run], at: int, when: str, finish: str
) -> None:
    assert apart(killed, str(root), at, when, True, finish) == -9
    before = names(root / "run") if (root / "run" / "journal.jsonl").exists() else []
    made = stage(root, finish=finish)
    finished = run(made.plan())
    assert names(made.folder)[: len(before)] == before, "the journal is only ever added to"
    assert charges(made.folder) == [1, 2, 3]
    assert outcome(finished) == outcome(unkilled[finish])
    assert finished.state.agent_ended == "finished"
    assert_whole(finished)


@pytest.mark.parametrize(
    ("at", "when", "finish"),
    [*steps(["after"], EVERY, "allow_early"), *steps(["before", "after"], SPENT, "exhaust")],
)
def test_an_agent_that_cannot_resume_keeps_its_published_work_and_the_run_is_marked(
    root: Path, unkilled: dict[str, Run], at: int, when: str, finish: str
) -> None:
    assert apart(killed, str(root), at, when, False, finish) == -9
    folder = root / "run"
    before = load_run(folder)
    made = stage(root, resumes=False, finish=finish)
    begun = (folder / "agent" / "attempt-1" / "stdout.log").exists()
    finished = run(made.plan())
    charged = len(before.state.submissions)
    assert made.launcher.started == (0 if begun else 1)
    spent = finish == "exhaust" and charged == len(PROGRAMS)
    if not begun or before.state.closed_by or spent:
        assert outcome(finished) == outcome(unkilled[finish]), (
            "it had not begun, or had done all it could"
        )
        return
    assert (finished.finished, finished.valid) == (True, False)
    assert finished.result.reasons == ("host_killed", *(() if charged else ("nothing_published",)))
    assert (finished.state.agent_ended, finished.state.closed_by) == ("host_killed", "host_killed")
    assert charges(folder) == list(range(1, charged + 1))
    assert finished.state.candidates == tuple(charges(folder)), (
        "what was charged is published, even if killed meanwhile"
    )
    assert finished.result.assessment is not None
    meant = unkilled[finish].state.submissions
    assert [s.score for s in finished.state.submissions] == [s.score for s in meant[:charged]]


@pytest.mark.parametrize("resumes", [True, False])
def test_a_host_killed_again_and_again_still_gets_there(
    root: Path, unkilled: dict[str, Run], resumes: bool
) -> None:
    """Every Host dies four lines on, three of which only say that it took up the Run. The reasons
    survive it all."""
    for at in range(2, 100, 4):
        if apart(killed, str(root), at, "after", resumes, "allow_early") != -9:
            break
    finished = load_run(root / "run")
    assert finished.finished
    numbers = charges(finished.folder)
    assert numbers == list(range(1, len(numbers) + 1))
    if resumes:
        assert [s.score for s in finished.state.submissions] == [
            s.score for s in unkilled["allow_early"].state.submissions
        ]
        assert finished.result.assessment == unkilled["allow_early"].result.assessment
        assert finished.valid
    else:
        assert finished.result.reasons[0] == "host_killed"
        assert not finished.valid


ROUNDS = int(os.environ.get("EVOPOLICY_CHAOS_ROUNDS", "12"))
"""Of the tests that kill at any moment; more of them find more."""


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_a_host_killed_before_any_change_of_its_folder_ends_as_if_nothing_had_happened(
    root: Path, unkilled: dict[str, Run], operations: int, round_: int
) -> None:
    """Again and again, at moments the round's number settles, until one of its Hosts comes to its
    end."""
    moments = random.Random(round_)
    at = moments.randrange(operations)
    while apart(counted, str(root), at) == -9:
        at = moments.randrange(operations)
    finished = load_run(root / "run")
    assert outcome(finished) == outcome(unkilled["allow_early"])
    assert charges(finished.folder) == [1, 2, 3]
    assert_whole(finished)


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How often a Run that nobody kills changes its folder."""
    root = tmp_path_factory.mktemp("operations")
    assert apart(counted, str(root), -1) == 0
    return int((root / "operations").read_text())


def assert_whole(finished: Run) -> None:
    """Nothing derived is missing or half there, and nothing half made is left."""
    attempts = sorted((finished.folder / "agent").glob("attempt-*"))
    assert [path for path in attempts if (path / "stdout.log").exists() and not is_kept(path)] == []
    left = [
        path for path in finished.folder.rglob(".*") if path.name.endswith((".staging", ".copy"))
    ]
    assert left == []
    copies = finished.folder / "workspace" / "feedback"
    for submission in finished.state.published:
        ours, theirs = finished.feedback(submission.id), copies / f"{submission.id:04d}"
        assert _files(ours) == _files(theirs)
        assert "feedback.json" in _files(ours)
        assert len(read_graded(ours.parent / "outcomes.jsonl")) == len(submission.indices)


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_usage_that_was_printed_before_the_host_was_killed_is_counted(root: Path) -> None:
    at = UNKILLED.index("closed")
    assert apart(killed, str(root), at, "after", True, "allow_early") == -9
    finished = run(stage(root).plan())
    assert finished.state.usage["input_tokens"] == 100
    assert (finished.state.agent_ended, finished.valid) == ("finished", True)


# --- a full disk ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "part"),
    [
        *(pytest.param(at, 0.5, id=f"half-{at}-{UNKILLED[at]}") for at in EVERY),
        *(
            pytest.param(at, part, id=f"{part}-{at}-{UNKILLED[at]}")
            for at in (2, 3, 10, 12)
            for part in (0.0, 1.0)
        ),
    ],
)
def test_a_full_disk_says_so_in_one_sentence_and_the_run_goes_on_later(
    root: Path, unkilled: dict[str, Run], at: int, part: float
) -> None:
    assert apart(with_full_disk, str(root), at, part) == 3
    said = (root / "said").read_text()
    assert said == "RecordError: run: the Run stopped (No space left on device); nothing is lost: " \
                   "mend that and run the command again"  # fmt: skip
    finished = run(stage(root).plan())
    assert outcome(finished) == outcome(unkilled["allow_early"])
    assert charges(finished.folder) == [1, 2, 3]


@pytest.mark.parametrize("most_bytes", [200, 700, 1_200, 1_700, 2_200, 2_700])
def test_the_systems_own_limit_on_file_size_is_such_a_disk(
    root: Path, unkilled: dict[str, Run], most_bytes: int
) -> None:
    """Which file meets the limit first is the kernel's business: a Program, the record, Feedback or
    the journal."""
    assert apart(with_small_files, str(root), most_bytes) == 3
    finished = run(stage(root).plan())
    assert outcome(finished) == outcome(unkilled["allow_early"])
    assert charges(finished.folder) == [1, 2, 3]
