"""The Run's folder: what is written is what is loaded, and what cannot be loaded is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.ports.protocols import AgentIdentity
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import (
    RECORD,
    RunRecord,
    load_run,
    new_id,
    output_of_run,
    read_record,
    write_record,
)
from tests.kernel.bench import Stage


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    agent = AgentIdentity("label", "name", "model", {"temperature": 0.5})
    return replace(
        Stage(tmp_path / "stage").record(),
        agent=agent,
        axes={"b": "2", "a": "1"},
        config={"x": [1, None]},
    )


def test_a_record_round_trips(record: RunRecord, tmp_path: Path) -> None:
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record


def test_an_older_record_without_an_id_has_an_identity_that_follows_from_it(
    record: RunRecord, tmp_path: Path
) -> None:
    write_record(tmp_path, record)
    value = json.loads((tmp_path / RECORD).read_bytes())
    del value["id"]
    (tmp_path / RECORD).write_text(json.dumps(value))
    assert read_record(tmp_path).identity == record.identity
    again = replace(record, created=record.created + 1)
    assert len({record.identity, again.identity, replace(record, key="other").identity}) == 3


def test_a_run_keeps_its_identity_under_another_rule(record: RunRecord) -> None:
    made = replace(record, id=new_id())
    newer = replace(made, id=new_id(), result_key="another", created=made.created + 1)
    assert (
        made.followed_by(newer).identity
        == made.under("another").identity
        == made.identity
        != newer.identity
    )


def test_an_entry_is_the_label_times_every_swept_axis(record: RunRecord) -> None:
    assert record.entry == "label a=1 b=2"
    assert replace(record, axes={}).entry == "label"


def change(folder: Path, **changes: Any) -> None:
    value = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps({**value, **changes}))


@pytest.mark.parametrize("schema", [0, 2, "1", None])
def test_an_unknown_schema_is_refused_by_name(
    record: RunRecord, tmp_path: Path, schema: object
) -> None:
    write_record(tmp_path, record)
    change(tmp_path, schema=schema)
    with pytest.raises(
        RecordError,
        match=f"record.json: schema {schema!r} is unknown, this evopolicy reads schema 1",
    ):
        read_record(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\udcff"])
def test_a_corrupt_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=r"record\.json: "):
        read_record(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{"seed": "x"}, {"budget": {}}, {"agent": None}, {"selection": {"rule": "gone", "tie_break": "latest"}},
     {"pool": {"kind": "derived", "training": 0, "validation": 0, "assessment": 0, "seed": 0}}],
)  # fmt: skip
def test_a_wrong_field_is_a_corrupt_record(
    record: RunRecord, tmp_path: Path, changes: dict[str, Any]
) -> None:
    write_record(tmp_path, record)
    change(tmp_path, **changes)
    with pytest.raises(
        RecordError, match=r"record.json: is corrupt \(.*\); restore the Run's folder"
    ):
        read_record(tmp_path)


def test_a_folder_without_a_record_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"has no record.json, so it is not a Run's folder"):
        load_run(tmp_path)


def test_a_run_loads_with_what_its_journal_adds_up_to(record: RunRecord, tmp_path: Path) -> None:
    write_record(tmp_path, record)
    journal = Journal(tmp_path)
    journal.append("opened", key=record.key)
    journal.append("reserved", submission=1, program="ab" * 32, selector="0:2", units=2)
    run = load_run(str(tmp_path))
    assert (run.finished, run.valid, run.state.submissions[0].indices) == (False, False, (0, 1))
    assert run.feedback(3) == tmp_path / "submissions" / "0003" / "feedback"
    measured = {"mean": 1.0, "standard_error": 0.5, "episodes": 3, "failed": 0}
    journal.append("selected", result="another", program="ab" * 32, submission=None)
    journal.append("assessed", result="another", program="ab" * 32, measurement=measured)
    journal.append("ended", result="another", valid=True, reasons=[])
    assert not load_run(tmp_path).finished, "only the result under the record's own rule counts"
    journal.append("ended", result=record.result_key, valid=False, reasons=["provider"])
    assert (load_run(tmp_path).finished, load_run(tmp_path).valid) == (True, False)


def test_a_runs_output_folder_is_three_above_its_own_and_a_run_that_lies_in_none_is_its_own() -> (
    None
):
    assert output_of_run(Path("/data/out/runs/cartpole/random/s0-1")) == Path("/data/out")
    assert output_of_run(Path("/data/received")) == Path("/data/received")
