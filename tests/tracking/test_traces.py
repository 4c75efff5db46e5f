"""Attempts as MLflow traces, in a real store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.session.record import Run
from evopolicy.tracking.cells import CellTracker
from evopolicy.tracking.follow import follow_sweep, track
from evopolicy.tracking.log import RunLog
from evopolicy.tracking.store import Store, Tracking, connect
from evopolicy.tracking.traces import cost, tokens

USAGE = {
    "input_tokens": 1000, "cached_tokens": 5000, "output_tokens": 1200, "cost_usd": 0.5, "cost_is_estimate": True,
}  # fmt: skip


def traces(store: Store) -> list[Any]:
    return list(store.client.search_traces(locations=[store.experiment_id]))


def the_run(store: Store) -> Any:
    (run,) = store.client.search_runs([store.experiment_id], "tags.kind = 'cell'")
    return run


@pytest.fixture
def run(make_run: Callable[..., Run], lay_attempt: Callable[..., Path]) -> Run:
    run = make_run(usage=USAGE)
    lay_attempt(
        run.folder, stdout='{"type": "start"}\n', stderr="Bearer sk-abcdefghijklmnopqrstuvwxyz\n"
    )
    return run


def test_the_trace_is_whole_timed_and_linked_to_its_run(
    run: Run, output: Path, store: Store, rank: Any
) -> None:
    assert track(run.folder, output, Tracking(), rank).missing == ()
    (trace,) = traces(store)
    mine = f"attributes.run_id = '{the_run(store).info.run_id}'"
    (linked,) = store.client.search_traces(locations=[store.experiment_id], filter_string=mine)
    assert linked.info.trace_id == trace.info.trace_id
    assert (trace.info.request_time, trace.info.execution_duration) == (1_700_000_001_000, 6_000)
    assert trace.info.state.value == "OK"
    assert trace.info.tags["mlflow.traceName"] == "cma_es · cartpole · s0 · attempt 1"
    assert trace.info.token_usage["total_tokens"] == 7200
    assert trace.info.cost["total_cost"] == 0.5
    spans = {span.name: span for span in trace.data.spans}
    assert len(trace.data.spans) == 12
    assert spans["edit"].status.status_code.value == "ERROR"
    assert spans["edit"].status.description == "no such file"
    assert (spans["edit"].end_time_ns - spans["edit"].start_time_ns) == 100_000_000
    assert spans["Evaluation of Submission 1"].parent_id == spans["Submission 1"].span_id
    assert spans["Evaluation of Submission 1"].attributes["score"] == 100.0
    assert spans["turn 1"].attributes["reasoning"] == "What balances a pole?"


def test_streams_are_artifacts_without_secrets(
    run: Run, output: Path, store: Store, rank: Any, dump: Any
) -> None:
    track(run.folder, output, Tracking(), rank)
    (logged,) = dump(store).values()
    found = [name for name in logged.artifacts if name.startswith("agent/")]
    assert found == [
        f"agent/attempt-1/{name}" for name in ("stderr.log", "stdout.log", "transcript.json")
    ]
    stderr = store.client.download_artifacts(
        the_run(store).info.run_id, "agent/attempt-1/stderr.log"
    )
    assert Path(stderr).read_text() == "Bearer ***\n"


def test_doing_it_twice_logs_nothing_twice(
    run: Run, output: Path, store: Store, rank: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracing.client import TracingClient

    track(run.folder, output, Tracking(), rank)
    before = traces(store)
    monkeypatch.setattr(
        TracingClient, "log_spans", lambda *_: pytest.fail("what is there was logged again")
    )
    track(run.folder, output, Tracking(), rank)
    assert [trace.to_json() for trace in traces(store)] == [trace.to_json() for trace in before]


@pytest.mark.parametrize("broken", ["log_spans", "start_trace"])
def test_an_error_midway_is_made_good_by_the_next_pass(
    broken: str, run: Run, output: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracing.client import TracingClient

    original = TracingClient.log_spans

    def breaks(self: Any, *arguments: Any) -> None:
        if broken == "log_spans":
            original(self, arguments[0], arguments[1][:5])
        raise RuntimeError("the store went away")

    tracker = CellTracker(output, Tracking())
    with monkeypatch.context() as patch:
        patch.setattr(TracingClient, broken, breaks)
        (missing,) = tracker.step(run.folder)
    assert "logging a trace at sqlite:" in missing
    assert the_run(store).info.status == "FINISHED", "a trace holds up nothing else"
    assert tracker.step(run.folder) == ()
    (trace,) = traces(store)
    assert len(trace.data.spans) == 12
    assert len({span.span_id for span in trace.data.spans}) == 12
    assert (trace.info.request_time, trace.info.execution_duration) == (1_700_000_001_000, 6_000)
    assert trace.info.request_preview == "cma_es on cartpole, seed 0, attempt 1"
    assert trace.info.token_usage["total_tokens"] == 7200


def test_a_run_logged_anew_takes_its_trace_along(
    run: Run, output: Path, store: Store, rank: Any
) -> None:
    track(run.folder, output, Tracking(), rank)
    store.client.delete_run(the_run(store).info.run_id)
    track(run.folder, output, Tracking(), rank)
    (trace,) = traces(store)
    assert trace.info.trace_metadata["mlflow.sourceRun"] == the_run(store).info.run_id


def test_a_store_that_keeps_no_spans_gets_them_as_a_file(
    run: Run, output: Path, store: Store, rank: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracing.client import TracingClient

    def unsupported(*_: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(TracingClient, "log_spans", unsupported)
    assert track(run.folder, output, Tracking(), rank).missing == ()
    (trace,) = traces(store)
    assert len(trace.data.spans) == 12


def test_a_sweep_follows_attempts_as_they_end(
    output: Path, store: Store, records: Any, lay_attempt: Callable[..., Path], rank: Any
) -> None:
    folder = records.write_run(output, until="submission 2")
    records.write_cells(output, "grow", [records.cell_of(output, folder, "running")])
    seen: list[int] = []

    def goes_on(_: float) -> None:
        seen.append(len(traces(store)))
        if len(seen) == 1:
            records.write_run(output, until="agent_ended")
            lay_attempt(folder)
        else:
            records.write_run(output)
            records.write_cells(output, "grow", [records.cell_of(output, folder)])

    assert follow_sweep(output, "grow", rank, sleep=goes_on).missing == ()
    assert (seen[:2], len(traces(store))) == ([0, 1], 1)


def test_a_transcript_that_comes_after_the_journal_was_read_is_not_forgotten(
    output: Path,
    store: Store,
    records: Any,
    lay_attempt: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = records.write_run(output, until="agent_ended")
    assert CellTracker(output, Tracking()).step(folder) == ()
    lay_attempt(folder)
    records.write_run(output)
    assert CellTracker(output, Tracking()).step(folder) == (), (
        "another tracker, told how far the first one came"
    )
    assert len(traces(store)) == 1
    monkeypatch.setattr(
        RunLog, "_push_traces", lambda *_: pytest.fail("what is whole was pushed again")
    )
    assert CellTracker(output, Tracking()).step(folder) == ()


def test_named_variables_are_masked_in_traces_too(
    output: Path,
    store: Store,
    make_run: Any,
    make_record: Any,
    lay_attempt: Any,
    transcript: Any,
    rank: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GATE", "It balances.")
    run = make_run(make_record("codex", config={"agent": {"key_variable": "GATE"}}))
    lay_attempt(run.folder, transcript)
    track(run.folder, output, Tracking(), rank)
    (trace,) = traces(store)
    assert "It balances." not in trace.to_json()
    assert "***" in trace.to_json()
    path = store.client.download_artifacts(
        the_run(store).info.run_id, "agent/attempt-1/transcript.json"
    )
    assert json.loads(Path(path).read_text())["steps"][-1]["text"] == "***"


@pytest.mark.slow
def test_a_server_gets_the_same_trace_as_a_database(
    run: Run, output: Path, store: Store, rank: Any, tracking_server: Callable[..., Any]
) -> None:
    track(run.folder, output, Tracking(), rank)
    with tracking_server() as uri:
        there = Tracking(uri)
        for _ in range(2):
            assert track(run.folder, output, there, rank).missing == ()
        (over_http,) = traces(connect(there, output))
    (direct,) = traces(store)
    for trace in (over_http, direct):
        for span in trace.data.spans:
            assert span.trace_id == trace.info.trace_id
    assert _comparable(over_http) == _comparable(direct)


def _comparable(trace: Any) -> Any:
    info = trace.info
    spans = {
        span.span_id: (
            span.parent_id, span.name, span.span_type, span.start_time_ns, span.end_time_ns, span.inputs, span.outputs,
            span.status.status_code, span.attributes.get("score"), span.attributes.get("reasoning"),
        )
        for span in trace.data.spans
    }  # fmt: skip
    previews = (info.request_preview, info.response_preview)
    return (
        info.trace_id,
        info.request_time,
        info.execution_duration,
        info.token_usage,
        info.cost,
        previews,
        spans,
    )


def test_tokens_are_counted_as_mlflow_does() -> None:
    assert tokens({"output_tokens": None, "requests": 3}) == {}
    assert tokens({"input_tokens": 1, "cached_tokens": 2, "cache_write_tokens": 4, "output_tokens": 8}) == {
        "input_tokens": 7, "output_tokens": 8, "total_tokens": 15,
        "cache_read_input_tokens": 2, "cache_creation_input_tokens": 4,
    }  # fmt: skip
    assert (cost({"cost_usd": None}), cost({"cost_usd": 0.5})) == ({}, {"total_cost": 0.5})
