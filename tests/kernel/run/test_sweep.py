"""Sweeps: what is written is what is read, and what cannot be read is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.run.sweep import (
    SCHEMA,
    SWEEP,
    Cell,
    Sweep,
    read_sweep,
    sweep_folder,
    write_sweep,
)

SWEPT = Sweep(
    SCHEMA, "first", 12.5,
    (Cell("runs/a/b/s0", "b", "a", 0, ("seed=0",), "failed", "why"), Cell("runs/a/c/s1", "c lr=1", "a", 1)),
    "core16", {"uri": "sqlite:///mlflow.db"},
)  # fmt: skip


def test_a_sweep_round_trips_and_is_replaced_whole(tmp_path: Path) -> None:
    write_sweep(tmp_path, Sweep(SCHEMA, "first", 1.0, ()))
    write_sweep(tmp_path, SWEPT)
    folder = sweep_folder(tmp_path, "first")
    assert read_sweep(folder) == SWEPT
    assert [path.name for path in folder.iterdir()] == [SWEEP]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("[1]", "a JSON object is needed, found a list"),
        ("{}", "schema None is unknown"),
        ('{"schema": 99}', "schema 99 is unknown, this evopolicy reads schema 1"),
        ('{"schema": 1, "name": 5}', "is corrupt"),
    ],
)
def test_a_sweep_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / SWEEP).write_text(text)
    with pytest.raises(RecordError, match=message):
        read_sweep(tmp_path)


def test_a_folder_without_one_is_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="so it is not a sweep's folder"):
        read_sweep(tmp_path)


def test_a_sweep_of_before_result_keys_is_read_as_the_records_own(tmp_path: Path) -> None:
    write_sweep(
        tmp_path, replace(SWEPT, cells=(replace(SWEPT.cells[0], result_key="abc"), SWEPT.cells[1]))
    )
    path = sweep_folder(tmp_path, "first") / SWEEP
    value = json.loads(path.read_text())
    assert value["cells"][0].pop("result_key") == "abc"
    path.write_text(json.dumps(value))
    assert [cell.result_key for cell in read_sweep(path.parent).cells] == ["", ""]
