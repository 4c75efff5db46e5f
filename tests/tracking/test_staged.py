"""Files of a Run as they are laid for MLflow: nothing beyond what such a file may have is read or
logged."""

from __future__ import annotations

import os
import shutil
from itertools import takewhile
from pathlib import Path

import pytest

from evopolicy.kernel.files.program import Program, archived
from evopolicy.kernel.secrecy.secrets import NO_SECRETS
from evopolicy.kernel.session.journal import read_journal
from evopolicy.kernel.session.record import load_run
from evopolicy.tracking import files
from evopolicy.tracking.files import FILE_BYTES, Upload, stage
from evopolicy.tracking.follow import Report, track
from evopolicy.tracking.project import project_cell
from evopolicy.tracking.store import Tracking
from tests.records.make import OUTPUT
from tests.records.sets import SETS


@pytest.fixture
def received(tmp_path: Path) -> Path:
    shutil.copytree(SETS[-1] / OUTPUT, tmp_path / "received", symlinks=True)
    return tmp_path / "received"


def laid(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_what_a_run_is_logged_with_is_bounded_whatever_kind_of_file_it_is(
    received: Path, tmp_path: Path
) -> None:
    kinds = set[str]()
    for number, folder in enumerate(
        sorted(path.parent for path in received.glob("runs/*/*/*/record.json"))
    ):
        run = load_run(folder)
        shown = project_cell(folder, run.record, list(read_journal(folder)), bulk=True)
        uploads = [
            u
            for u in (*shown.uploads, *(u for m in shown.models for u in m.files))
            if u.source is not None
        ]
        kinds |= {upload.target.partition("/")[0] for upload in uploads}
        for upload in uploads:
            path = upload.top / str(upload.source)
            path.chmod(0o644)
            os.truncate(path, min(upload.most, FILE_BYTES) + 1)  # sparse: it takes no room
        told = stage(uploads, tmp_path / str(number), NO_SECRETS)
        assert len(told) == len(uploads) and laid(tmp_path / str(number)) == []
        for upload, line in zip(uploads, told, strict=True):
            most = min(upload.most, FILE_BYTES)
            assert (
                line
                == f"{upload.top / str(upload.source)}: has more than {most:,} bytes, which no "
                "such file has"
            )
    assert kinds >= {
        "programs",
        "feedback",
        "outcomes",
        "evaluations",
        "journal.jsonl",
        "agent",
        "policy.py",
    }


def test_a_program_is_read_once_however_often_it_was_submitted(
    received: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def counted(folder: Path, program: str) -> Program | None:
        read.append(program)
        return archived(folder, program)

    monkeypatch.setattr(files, "archived", counted)
    folder = next(received.glob("runs/*/cma_es/s0-*"))
    events = [
        dict(event)
        for event in takewhile(lambda event: event["event"] != "handoff", read_journal(folder))
    ]
    initial = load_run(folder).record.initial_program
    for event in events:
        if event["event"] == "reserved":
            event["program"] = initial
    uploads = project_cell(folder, load_run(folder).record, events).uploads
    assert {"programs/initial/policy.py", "programs/0001/policy.py", "programs/0004/policy.py"} <= {
        upload.target for upload in uploads
    }
    assert read == [initial]


def test_a_file_as_large_as_it_may_be_is_logged_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345\n")
    (tmp_path / "b").write_bytes(b"123456\n")
    told = stage(
        [Upload(n, top=tmp_path, source=n, most=6) for n in "ab"], tmp_path / "to", NO_SECRETS
    )
    assert told == [f"{tmp_path / 'b'}: has more than 6 bytes, which no such file has"]
    assert laid(tmp_path / "to") == ["a"] and (tmp_path / "to" / "a").read_bytes() == b"12345\n"


@pytest.mark.parametrize(("files_", "room"), [(2, 1 << 20), (9, 15)])
def test_all_files_of_a_run_are_bounded(
    files_: int, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILES", files_)
    monkeypatch.setattr(files, "RUN_BYTES", room)
    for name in "abc":
        (tmp_path / name).write_bytes(b"12345\n")
    (line,) = stage([Upload(n, top=tmp_path, source=n) for n in "abc"], tmp_path / "to", NO_SECRETS)
    assert line.startswith(f"{tmp_path / 'c'}: ") and laid(tmp_path / "to") == ["a", "b"]


def test_track_names_what_it_left_out_and_logs_the_rest(
    received: Path, tmp_path: Path, migrated: Path, rank: object
) -> None:
    (tmp_path / "out").mkdir()
    shutil.copyfile(migrated, tmp_path / "out" / "mlflow.db")
    folder = next(received.glob("runs/*/cma_es/s0-*"))
    large = next(folder.glob("submissions/*/feedback/feedback.json"))
    os.truncate(large, 2**28)
    report = track(folder, tmp_path / "out", Tracking(), rank)  # type: ignore[arg-type]
    assert report.logged == 1 and report.missing == ()
    assert report.left_out == (
        f"{large}: has more than {32 << 20:,} bytes, which no such file has",
    )
    assert report.text() == f"Left out of MLflow:\n  {report.left_out[0]}"


def test_a_report_says_nothing_where_nothing_is_missing() -> None:
    assert Report(1).text() == ""
    both = Report(0, ("a: not there",), "evopolicy track source=a", ("b: too large",))
    assert both.text().splitlines() == [
        "MLflow does not have everything (the records do, nothing is lost):",
        "  a: not there",
        "Log it later with: evopolicy track source=a",
        "Left out of MLflow:",
        "  b: too large",
    ]
