"""A record whose journal tells other scores than its own files come to is named, and no table shows
it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis import find_runs
from evopolicy.cli.main import main
from evopolicy.kernel.run.agreement import contradictions, heldout_contradiction
from evopolicy.kernel.session.journal import read_journal
from evopolicy.kernel.session.record import load_run
from evopolicy.tracking.project import CONTRADICTS, project_cell
from tests.records.make import OUTPUT, SWEEP
from tests.records.sets import SETS, told

Lines = list[dict[str, Any]]


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(SETS[-1] / OUTPUT, tmp_path / OUTPUT, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return Path(OUTPUT)


@pytest.fixture
def folder(output: Path) -> Path:
    """Of a Run of the sweep."""
    (found,) = output.glob("runs/*/cma_es/s0-*")
    return found


def edit(path: Path, change: Callable[[Lines], object]) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def first(lines: Lines, event: str) -> dict[str, Any]:
    return next(line for line in lines if line["event"] == event)


def in_journal(event: str, *way: str, value: Any) -> Callable[[Path], None]:
    """Sets a field of the first such event."""

    def change(folder: Path) -> None:
        def one(lines: Lines) -> None:
            inner = first(lines, event)
            for key in way[:-1]:
                inner = inner[key]
            inner[way[-1]] = value

        edit(folder / "journal.jsonl", one)

    return change


def in_file(pattern: str, change: Callable[[Lines], object]) -> Callable[[Path], None]:
    return lambda folder: edit(min(folder.glob(pattern)), change)


def score_of_first(lines: Lines) -> None:
    lines[0]["score"] += 1e-9


def index_of_first(lines: Lines) -> None:
    lines[0]["outcome"]["index"] = 3


def failed_first(lines: Lines) -> None:
    lines[0]["outcome"].update(ending="failed", failure={"kind": "died", "message": "x"})


def shown(folder: Path) -> None:
    path = folder / "submissions" / "0001" / "feedback" / "feedback.json"
    path.chmod(0o644)
    path.write_text(json.dumps({**json.loads(path.read_text()), "score": 999.0}))


HELDOUT: dict[str, tuple[Callable[[Path], None], str]] = {
    "mean": (
        in_journal("assessed", "measurement", "mean", value=500.5),
        r"Assessment of the Program \w+ came to 500.5, but evaluations/assessment/\w+.jsonl comes to \d",
    ),
    "standard error": (
        in_journal("assessed", "measurement", "standard_error", value=0.125),
        "standard error 0.125",
    ),
    "no standard error": (
        in_journal("assessed", "measurement", "standard_error", value=None),
        "error None, but",
    ),
    "failed": (
        in_journal("assessed", "measurement", "failed", value=1),
        "had 1 failed Episodes.* tells 0",
    ),
    "fewer Episodes": (
        in_journal("assessed", "measurement", "episodes", value=2),
        "had 2 Episodes.* holds 4 of them",
    ),
    "more Episodes": (
        in_journal("assessed", "measurement", "episodes", value=2**53),
        r"had \d{16} Ep.* holds 4 of",
    ),
    "no Episodes": (
        in_journal("assessed", "measurement", "episodes", value=0),
        "had 0 Episodes, but .* holds 4",
    ),
    "a score in the file": (
        in_file("evaluations/assessment/*.jsonl", score_of_first),
        "but evaluations/ass",
    ),
    "a line less in the file": (
        in_file("evaluations/assessment/*.jsonl", list.pop),
        "had 4 Episodes.* holds 3 of",
    ),
    "a line twice": (
        in_file("evaluations/assessment/*.jsonl", index_of_first),
        "had 4 Episodes, but .* holds 3 of",
    ),
    "a failure in the file": (
        in_file("evaluations/assessment/*.jsonl", failed_first),
        "0 failed Episodes.*tells 1",
    ),
}
OTHERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "validated": (
        in_journal("validated", "measurement", "mean", value=500.5),
        "Validation of .* came to 500.5, but",
    ),
    "published": (
        in_journal("published", "score", value=999.0),
        r"Submission 1 scored 999.0, but submissions/0001/feedback/feedback.json shows \d",
    ),
    "failures": (
        in_journal("published", "failures", value={"died": 1}),
        "1 had the failures {'died': 1}, but .* {}",
    ),
    "the Episodes": (
        in_file("submissions/0001/outcomes.jsonl", index_of_first),
        r"was of the Episodes 0:2, but .*3,1",
    ),
    "a training score": (
        in_file("submissions/0001/outcomes.jsonl", score_of_first),
        "0001/outcomes.jsonl comes to",
    ),
    "Feedback": (
        shown,
        "Submission 1 scored .*, but submissions/0001/feedback/feedback.json shows 999.0",
    ),
}


@pytest.mark.parametrize("kept", SETS, ids=lambda path: path.name)
def test_records_of_every_version_agree_with_themselves(kept: Path) -> None:
    found = {name: list(contradictions(load_run(kept / OUTPUT / name))) for name in told(kept)}
    assert not any(found.values()), found


@pytest.mark.parametrize("kind", HELDOUT)
def test_a_heldout_score_that_is_not_that_of_its_episodes_is_left_out_of_the_table(
    kind: str, folder: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table showed it, whatever the file said."""
    change, message = HELDOUT[kind]
    change(folder)
    (one,) = find_runs(folder).unreadable
    assert (
        one.reason
        == heldout_contradiction(load_run(folder))
        == next(contradictions(load_run(folder)))
    )
    assert re.search(message, one.reason), one.reason
    if kind == "mean":
        assert main(["table", f"sweep={SWEEP}", f"output={output}"]) == 1
        out, err = capsys.readouterr()
        assert "1/2" in out, "the mean is that of the other Run"
        assert (
            "left out of the table: " in err
            and f"{folder}/journal.jsonl: says that Assessment" in err
        )


@pytest.mark.parametrize("kind", OTHERS)
def test_another_score_that_is_not_that_of_its_episodes_is_found_where_all_are_read(
    kind: str, folder: Path
) -> None:
    change, message = OTHERS[kind]
    change(folder)
    assert not find_runs(folder).unreadable, "the held-out score is still that of its Episodes"
    (one,) = find_runs(folder, compared="every").unreadable
    assert re.search(message, one.reason), one.reason


def test_a_file_that_is_not_there_or_cannot_be_read_contradicts_nothing(folder: Path) -> None:
    (path,) = folder.glob("evaluations/assessment/*.jsonl")
    path.write_text("{\n")
    assert list(contradictions(load_run(folder))) == []
    shutil.rmtree(folder / "evaluations")
    shutil.rmtree(folder / "submissions")
    assert (
        list(contradictions(load_run(folder))) == []
        and len(find_runs(folder, compared="every")) == 1
    )


def test_each_verb_leaves_such_a_run_out_and_names_it(
    folder: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A score that no table shows: reports and regrades do."""
    change, message = OTHERS["published"]
    change(folder)
    assert main(["table", f"sweep={SWEEP}", f"output={output}"]) == 0
    for words in (
        ["report", f"sweep={SWEEP}", f"output={output}", "to=page.html"],
        [
            "regrade",
            f"sweep={SWEEP}",
            f"output={output}",
            "splits=assessment",
            "execution.workers=1",
            "name=mine",
        ],
    ):
        capsys.readouterr()
        assert main(words) == 1
        assert re.search(message, " ".join("".join(capsys.readouterr()).split())), words
    assert len(find_runs(output / "regrades" / "mine")) == 1


def test_verify_names_every_contradiction(
    folder: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", f"sweep={SWEEP}", f"output={output}"]
    assert main(words) == 0
    assert capsys.readouterr().out == "2 of 2 Runs agree with their own files\n"
    for change, _ in (HELDOUT["mean"], OTHERS["published"], OTHERS["validated"]):
        change(folder)
    link = folder / "programs" / load_run(folder).state.submissions[0].program
    link.unlink()
    link.symlink_to("/etc")
    (folder / "submissions" / "0002" / "outcomes.jsonl").write_text("{\n")
    assert main(words) == 1
    out, err = capsys.readouterr()
    *lines, last = out.splitlines()
    assert last == "1 of 2 Runs agree with their own files" and not err
    kinds = (
        "Submission 1 scored 999.0",
        "Validation of",
        "Assessment of",
        "0002/outcomes.jsonl: is corrupt",
        "a link",
    )
    assert [any(kind in line for line in lines) for kind in kinds] == [True] * 5 and len(lines) == 6
    (folder / "record.json").write_text("{")
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == "1 of 2 Runs agree with their own files\n" and "record.json" in err


def test_a_sweeps_status_shows_no_score_that_is_not_its_episodes(
    folder: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    HELDOUT["mean"][0](folder)
    main(["status", f"sweep={SWEEP}", f"output={output}"])
    assert "500" not in capsys.readouterr().out


def test_what_is_logged_of_such_a_run_says_so(folder: Path) -> None:
    def tagged() -> str:
        return project_cell(folder, load_run(folder).record, list(read_journal(folder))).tags.get(
            CONTRADICTS, ""
        )

    assert tagged() == ""
    HELDOUT["mean"][0](folder)
    assert re.match(
        r"journal.jsonl: says that Assessment of the Program \w+ came to 500.5, but evaluations/",
        tagged(),
    )
