"""Traces as files: named columns, bounded rows with the rest counted, arrays for images."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evopolicy.authoring import (
    BenchmarkReference,
    Column,
    EpisodeResult,
    EpisodeSpec,
    Field,
    GymnasiumBenchmark,
    Profile,
    TraceRow,
    TraceWriter,
    rollout,
    traces,
)


def toy(kind: str = "flat", **profile: Any) -> GymnasiumBenchmark:
    text: dict[str, Any] = dict.fromkeys(("title", "goal", "scoring", "ending"), "text")
    base: dict[str, Any] = {
        "slug": "toy",
        "id": "test/Toy-v0",
        "env_id": "evopolicy-test/Toy-v0",
        "failure_score": -200.0,
        "columns": (Column("place", "m", "Where it is."),),
        "kwargs": {"kind": kind},
    }
    return GymnasiumBenchmark(
        Profile(**{**text, **base, **profile}), BenchmarkReference("nowhere:load")
    )


def played(
    benchmark: GymnasiumBenchmark, folder: Path, index: int = 7, steps: int = 5
) -> EpisodeResult:
    trace = folder / f"{index}.trace"
    outcome = rollout(
        benchmark, EpisodeSpec(index, 3, 4), lambda _: [0.25], trace=trace, steps=steps
    )
    return EpisodeResult(index, outcome, trace=trace)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_flat_trace_has_a_named_column_for_every_number(tmp_path: Path) -> None:
    benchmark = toy(
        observation_fields=(Field("position"), Field("steps")), action_fields=(Field("move"),)
    )
    artifacts = benchmark.artifacts([played(benchmark, tmp_path)], tmp_path)
    assert [(a.name, a.media_type, a.retention, a.episode) for a in artifacts] == [
        ("episodes/traces.json", "application/json", "permanent", None),
        ("episodes/0007.csv", "text/csv", "bulk", 7),
    ]
    rows = read(artifacts[1].path)
    assert list(rows[0]) == [
        "step",
        "position",
        "steps",
        "move",
        "reward",
        "terminated",
        "truncated",
        "place",
    ]
    assert [row["step"] for row in rows] == ["0", "1", "2", "3", "4", "5"]
    assert [row["move"] for row in rows] == ["", *["0.25"] * 5]
    assert float(rows[2]["position"]) - float(rows[1]["position"]) == pytest.approx(0.25)
    assert float(rows[2]["place"]) == pytest.approx(float(rows[2]["position"]), rel=1e-6)


def test_the_index_explains_columns_and_rows(tmp_path: Path) -> None:
    benchmark = toy()
    index = json.loads(
        benchmark.artifacts([played(benchmark, tmp_path)], tmp_path)[0].path.read_text()
    )
    assert {"name": "place", "unit": "m", "meaning": "Where it is."} in index["columns"]
    assert index["episodes"] == {"7": {"file": "0007.csv", "rows": 6, "omitted_rows": 0}}


def test_rows_between_head_and_tail_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "ROWS", 6)
    benchmark = toy()
    artifacts = benchmark.artifacts([played(benchmark, tmp_path, steps=12)], tmp_path)
    assert [row["step"] for row in read(artifacts[1].path)] == ["0", "1", "2", "10", "11", "12"]
    assert json.loads(artifacts[0].path.read_text())["episodes"]["7"]["omitted_rows"] == 7


def test_a_trace_as_long_as_the_bound_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "ROWS", 6)
    benchmark = toy()
    artifacts = benchmark.artifacts([played(benchmark, tmp_path, steps=5)], tmp_path)
    assert len(read(artifacts[1].path)) == 6
    assert json.loads(artifacts[0].path.read_text())["episodes"]["7"]["omitted_rows"] == 0


def test_episodes_over_the_total_are_named_and_the_pictured_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "TOTAL_BYTES", 1)
    benchmark = toy()
    results = [played(benchmark, tmp_path, index) for index in (1, 2, 3)]
    artifacts = traces.write_traces(benchmark.spec, benchmark.profile, results, tmp_path, first=[2])
    assert [a.episode for a in artifacts] == [None, 2]
    assert json.loads(artifacts[0].path.read_text())["episodes_not_written"] == [1, 3]


def test_a_row_whose_observation_was_over_the_trace_limit_has_empty_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evopolicy.kernel.trace.MAX_BYTES", 1)
    trace = tmp_path / "t.trace"
    with TraceWriter(trace) as writer:
        writer.write(TraceRow(0, np.zeros(2, np.float32), None, 0.0, False, False, {}))
        writer.write(
            TraceRow(
                1,
                np.zeros(2, np.float32),
                np.zeros(1, np.float32),
                1.5,
                False,
                False,
                {"place": 1.0},
            )
        )
    benchmark = toy()
    artifacts = benchmark.artifacts([EpisodeResult(0, trace=trace)], tmp_path)
    row = read(artifacts[1].path)[1]
    assert (row["observation_0"], row["action"], row["reward"], row["place"]) == (
        "",
        "0",
        "1.5",
        "",
    )


def test_whole_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    benchmark = toy("dict")
    trace = tmp_path / "t.trace"
    with TraceWriter(trace) as writer:
        observation = {"place": np.zeros(2, np.float32), "count": 123_456_789_012}
        writer.write(TraceRow(0, observation, None, 0.0, False, False, {}))
    artifacts = benchmark.artifacts([EpisodeResult(0, trace=trace)], tmp_path)
    assert read(artifacts[1].path)[0]["observation_count"] == "123456789012"


def test_images_become_arrays_of_equal_length(tmp_path: Path) -> None:
    benchmark = toy("image")
    artifacts = benchmark.artifacts([played(benchmark, tmp_path)], tmp_path)
    assert artifacts[1].name == "episodes/0007.npz"
    with np.load(artifacts[1].path, allow_pickle=False) as arrays:
        assert arrays["observation"].shape == (6, 32, 32, 3)
        assert arrays["observation"][3, 0, 0, 0] == 3
        assert arrays["action"].shape == (5, 1)
        assert arrays["step"].tolist() == [0, 1, 2, 3, 4, 5]
        assert np.isnan(arrays["place"][0])


def test_arrays_are_bounded_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "ARRAY_BYTES", 4 * 32 * 32 * 3)
    benchmark = toy("image")
    artifacts = benchmark.artifacts([played(benchmark, tmp_path, steps=9)], tmp_path)
    with np.load(artifacts[1].path) as arrays:
        assert arrays["step"].tolist() == [0, 1, 8, 9]
    assert json.loads(artifacts[0].path.read_text())["episodes"]["7"] == {
        "file": "0007.npz",
        "rows": 4,
        "omitted_rows": 6,
    }


def test_nothing_is_written_without_a_trace(tmp_path: Path) -> None:
    benchmark = toy()
    assert benchmark.artifacts([], tmp_path) == []
    assert (
        benchmark.artifacts([EpisodeResult(0), EpisodeResult(1, trace=tmp_path / "gone")], tmp_path)
        == []
    )
