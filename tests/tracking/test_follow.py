"""A sweep in MLflow: followed while it runs, rebuilt from records, with the same result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import RecordError, TrackingError
from evopolicy.kernel.run.owner import Ownership
from evopolicy.kernel.run.sweep import Cell, Sweep, read_sweep, sweep_folder
from evopolicy.tracking.cells import CellTracker
from evopolicy.tracking.compare import agent_identity, sweep_identity
from evopolicy.tracking.follow import follow_sweep, track
from evopolicy.tracking.log import RunLog
from evopolicy.tracking.store import Store, Tracking, connect
from evopolicy.tracking.tracker import STATE, SweepTracker

Dump = Callable[[Store], dict[str, Any]]


class Script:
    """What happens while a tracker sleeps: one step at a time, then nothing."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.steps = list(steps)
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        if self.steps:
            self.steps.pop(0)()

    def clock(self) -> float:
        return self.slept


def statuses(output: Path, name: str, status: str, records: Any) -> None:
    sweep = read_sweep(sweep_folder(output, name))
    cells = [replace(cell, status=status) for cell in sweep.cells]
    records.write_cells(output, name, cells, tracking=sweep.tracking)


def cells(store: Store, dump: Dump) -> list[Any]:
    return [logged for logged in dump(store).values() if logged.tags["kind"] == "cell"]


def test_a_settled_sweep_is_logged_whole(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], rank: Any, dump: Dump
) -> None:
    sweep = make_sweep()
    report = follow_sweep(output, sweep.name, rank)
    assert (report.logged, report.missing, report.text()) == (8, (), "")
    found = dump(store)
    assert sorted(logged.tags["kind"] for logged in found.values()) == ["agent"] * 2 + [
        "cell"
    ] * 8 + ["sweep"]
    assert all(logged.status == "FINISHED" for logged in found.values())
    assert all(logged.tags["sweep.quick"] == "true" for logged in found.values())
    agent = found[agent_identity("quick", "cma_es")]
    latest = {key: history[-1][2] for key, history in agent.metrics.items()}
    assert latest["rank_score"] == 1.0
    assert latest["cartpole/heldout"] == 150.5
    assert (latest["cells/done"], latest["cells/total"]) == (4, 4)
    assert agent.tags["cells"] == "4 of 4"


def test_cells_and_agents_lie_under_the_sweep(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], rank: Any
) -> None:
    follow_sweep(output, make_sweep(seeds=1).name, rank)
    runs = store.client.search_runs([store.experiment_id])
    top = [run for run in runs if run.data.tags["kind"] == "sweep"]
    assert len(top) == 1
    parents = {
        run.data.tags.get("mlflow.parentRunId") for run in runs if run.data.tags["kind"] != "sweep"
    }
    assert parents == {top[0].info.run_id}


def test_programs_are_ready_models_with_their_scores(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], rank: Any, dump: Dump
) -> None:
    follow_sweep(output, make_sweep(agents=["cma_es"], benchmarks=["cartpole"], seeds=1).name, rank)
    (cell,) = cells(store, dump)
    assert {status for status, _ in cell.models.values()} == {"READY"}
    assert cell.models["cma_es-cartpole-s0-0001"][1] == {
        "submission/score": 80.0,
        "validation/score": 70.0,
    }
    best = cell.models["cma_es-cartpole-s0-0002"][1]
    assert best["heldout/score"] == 100.0
    assert [value for _, _, value in cell.metrics["submission/score"]] == [80.0, 100.0]
    assert [value for _, _, value in cell.metrics["validation/score"]] == [70.0, 90.0]
    (run,) = [
        r for r in store.client.search_runs([store.experiment_id]) if r.data.tags["kind"] == "cell"
    ]
    assert len(run.outputs.model_outputs) == 2


def test_the_rank_table_is_an_artifact_of_the_sweep(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], rank: Any, dump: Dump
) -> None:
    follow_sweep(output, make_sweep(seeds=1).name, rank)
    sweep = dump(store)[sweep_identity("quick")]
    assert list(sweep.artifacts) == ["rank.html", "rank.json", "rank.md", "sweep.json"]
    assert "| cma\\_es |" in sweep.tags["mlflow.note.content"]


def test_two_sweeps_of_other_rules_share_a_run_and_each_shows_its_own_result(
    output: Path, store: Store, records: Any, rank: Any, dump: Dump
) -> None:
    folder = records.write_run(output, heldout=(190.0, 210.0))
    before = records.cell_of(output, folder)
    records.write_cells(output, "before", [before])
    follow_sweep(output, "before", rank)
    records.follow_rule(folder, "another", heldout=(10.0, 30.0))
    records.write_cells(output, "after", [records.cell_of(output, folder)])
    follow_sweep(output, "after", rank)
    track(sweep_folder(output, "before"), output, Tracking(), rank)
    found = dump(store)
    for name, mean in (("before", 200.0), ("after", 20.0)):
        (cell,) = [logged for logged in cells(store, dump) if logged.tags["sweep"] == name]
        assert [value for _, _, value in cell.metrics["heldout/score"]] == [mean]
        assert found[agent_identity(name, "cma_es")].metrics["cartpole/heldout"][-1][2] == mean


def test_a_sweep_defined_anew_under_another_rule_leaves_the_former_result(
    output: Path, store: Store, records: Any, rank: Any, dump: Dump
) -> None:
    folder = records.write_run(output)
    records.write_cells(output, "same", [records.cell_of(output, folder)])
    follow_sweep(output, "same", rank)
    records.follow_rule(folder, "another", heldout=(10.0, 30.0))
    records.write_cells(output, "same", [records.cell_of(output, folder)])
    follow_sweep(output, "same", rank)
    (kept,) = [logged for logged in cells(store, dump) if "sweep.same" in logged.tags]
    assert kept.tags["result_key"] == "another"


def test_it_follows_a_growing_run_to_its_end(
    output: Path, store: Store, records: Any, rank: Any, dump: Dump
) -> None:
    folder = records.write_run(output, until="opened")
    records.write_cells(output, "grow", [records.cell_of(output, folder, "running")])
    seen: list[tuple[str, int]] = []

    def look() -> None:
        (cell,) = cells(store, dump)
        seen.append((cell.status, len(cell.metrics.get("submission/score", ()))))

    def goes_on(until: str) -> Callable[[], object]:
        return lambda: (look(), records.write_run(output, until=until))

    script = Script(
        goes_on("submission 1"),
        goes_on("submission 2"),
        goes_on("assessed"),
        goes_on("ended"),
        lambda: (look(), statuses(output, "grow", "finished", records)),
    )
    report = follow_sweep(output, "grow", rank, sleep=script.sleep, clock=script.clock)
    assert seen == [("RUNNING", 0), ("RUNNING", 1), ("RUNNING", 2), ("RUNNING", 2), ("FINISHED", 2)]
    assert report.logged == 1
    (cell,) = cells(store, dump)
    assert cell.end is not None


def comparable(found: Mapping[str, Any]) -> dict[str, Any]:
    """For cells everything; for agents and the sweep the last values: how often they were updated
    differs."""
    result = {}
    for identity, logged in found.items():
        if logged.tags["kind"] != "cell":
            last = {key: history[-1][2] for key, history in logged.metrics.items()}
            logged = replace(logged, metrics=last, end=None)
        result[identity] = logged
    return result


def test_a_rebuilt_store_equals_a_followed_one(
    output: Path, store: Store, migrated: Path, records: Any, rank: Any, dump: Dump
) -> None:
    folders = [
        records.write_run(output, records.a_record(agent), until="opened")
        for agent in ("baseline", "cma_es")
    ]
    records.write_cells(
        output, "grow", [records.cell_of(output, folder, "running") for folder in folders]
    )

    def goes_on(agent: str, until: str) -> Callable[[], object]:
        return lambda: records.write_run(output, records.a_record(agent), until=until)

    script = Script(
        goes_on("cma_es", "submission 1"),
        goes_on("baseline", "validated"),
        goes_on("baseline", "ended"),
        goes_on("cma_es", "ended"),
        lambda: statuses(output, "grow", "finished", records),
    )
    follow_sweep(output, "grow", rank, sleep=script.sleep, clock=script.clock)
    other = output / "other"
    other.mkdir()
    (other / "m.db").write_bytes(migrated.read_bytes())
    tracking = Tracking(f"sqlite:///{other / 'm.db'}")
    report = track(sweep_folder(output, "grow"), output, tracking, rank)
    assert report.missing == ()
    assert comparable(dump(connect(tracking, output))) == comparable(dump(store))


def test_rebuilding_into_a_store_that_has_it_changes_nothing(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], rank: Any, dump: Dump
) -> None:
    sweep = make_sweep(seeds=1)
    follow_sweep(output, sweep.name, rank)
    before = dump(store)
    (sweep_folder(output, sweep.name) / STATE).unlink()
    track(output, output, Tracking(), rank)
    follow_sweep(output, sweep.name, rank)
    assert dump(store) == before
    assert len(store.client.search_logged_models([store.experiment_id])) == 8


class Killed(BaseException):
    """What kill -9 is to the code it stops."""


@pytest.mark.parametrize("call", range(1, 16, 3))
def test_killed_at_any_call_it_goes_on_without_doubling(
    call: int,
    output: Path,
    store: Store,
    records: Any,
    rank: Any,
    dump: Dump,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records.write_cells(output, "kill", [records.cell_of(output, records.write_run(output))])
    calls = 0
    original = RunLog._call

    def dies(self: RunLog, what: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        result = original(self, what, function, *args, **kwargs)
        calls += 1
        if calls == call:
            raise Killed
        return result

    monkeypatch.setattr(RunLog, "_call", dies)
    with pytest.raises(Killed):
        follow_sweep(output, "kill", rank)
    monkeypatch.undo()
    report = follow_sweep(output, "kill", rank)
    assert report.missing == ()
    found = dump(store)
    assert len(found) == len(store.client.search_runs([store.experiment_id])) == 3
    (cell,) = cells(store, dump)
    assert [value for _, _, value in cell.metrics["submission/score"]] == [100.0, 200.0]
    assert all(len({row[:2] for row in rows}) == len(rows) for rows in cell.metrics.values())
    assert len(cell.models) == len(store.client.search_logged_models([store.experiment_id])) == 2
    assert cell.status == "FINISHED"


FOLLOW = """
import sys, time
from pathlib import Path
from evopolicy.tracking.follow import follow_sweep
output = Path(sys.argv[1])
def rank(runs, cells):
    (output / "alive").touch()
    return {}
follow_sweep(output, "kill", rank, sleep=lambda s: time.sleep(0.02))
"""


@pytest.mark.slow
def test_a_tracker_killed_for_real_leaves_nothing_that_stops_the_next_one(
    output: Path, store: Store, records: Any, rank: Any, dump: Dump
) -> None:
    folder = records.write_run(output, until="submission 1")
    records.write_cells(output, "kill", [records.cell_of(output, folder, "running")])
    process = subprocess.Popen([sys.executable, "-c", FOLLOW, str(output)])
    while not (output / "alive").exists():
        assert process.poll() is None
        time.sleep(0.05)
    records.write_run(output)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    statuses(output, "kill", "finished", records)
    assert follow_sweep(output, "kill", rank).missing == ()
    (cell,) = cells(store, dump)
    assert (cell.status, len(cell.metrics["submission/score"])) == ("FINISHED", 2)


def test_a_reused_cell_keeps_its_parent_and_gains_the_new_sweeps_tag(
    output: Path,
    store: Store,
    make_sweep: Callable[..., Sweep],
    records: Any,
    rank: Any,
    dump: Dump,
) -> None:
    first = make_sweep("first", agents=["cma_es"], benchmarks=["cartpole"], seeds=1)
    follow_sweep(output, "first", rank)
    records.write_cells(output, "second", [replace(cell, status="reused") for cell in first.cells])
    follow_sweep(output, "second", rank)
    (cell,) = cells(store, dump)
    assert (cell.tags["sweep.first"], cell.tags["sweep.second"], cell.tags["sweep"]) == (
        "true",
        "true",
        "first",
    )
    runs = {run.info.run_id: run for run in store.client.search_runs([store.experiment_id])}
    (logged,) = [run for run in runs.values() if run.data.tags["kind"] == "cell"]
    assert runs[logged.data.tags["mlflow.parentRunId"]].data.tags["sweep"] == "first"


def test_a_cell_that_failed_is_failed_and_says_why(
    output: Path, store: Store, records: Any, rank: Any, dump: Dump
) -> None:
    folder = records.write_run(output, until="submission 1")
    never = Cell(
        "runs/cartpole/random/s0-none",
        "random",
        "cartpole",
        0,
        status="failed",
        error="no such model",
    )
    cell = records.cell_of(output, folder, "failed", "the Host was killed")
    records.write_cells(output, "bad", [cell, never])
    report = follow_sweep(output, "bad", rank)
    assert report.missing == ()
    (logged,) = cells(store, dump)
    assert (logged.status, logged.tags["error"]) == ("FAILED", "the Host was killed")
    assert dump(store)[agent_identity("bad", "random")].status == "FAILED"
    records.write_run(output)
    records.write_cells(output, "bad", [replace(cell, status="finished", error=""), never])
    follow_sweep(output, "bad", rank)
    (logged,) = cells(store, dump)
    assert (logged.status, logged.tags.get("error")) == ("FINISHED", None)


def test_a_corrupt_record_is_reported_and_holds_up_no_other(
    output: Path, make_sweep: Callable[..., Sweep], rank: Any
) -> None:
    sweep = make_sweep(seeds=1)
    (output / sweep.cells[1].run / "record.json").write_text("{")
    report = follow_sweep(output, sweep.name, rank)
    assert report.logged == 3
    assert len(report.missing) == 1 and sweep.cells[1].run in report.missing[0]
    assert "evopolicy track source=" in report.text()


def test_rank_scores_that_cannot_be_computed_leave_the_cells_logged(
    output: Path, make_sweep: Callable[..., Sweep]
) -> None:
    def broken(*_: object) -> Any:
        raise ValueError("no ranks today")

    report = follow_sweep(output, make_sweep(seeds=1).name, broken)
    assert report.logged == 4
    assert report.missing == ("rank scores of quick: no ranks today",)


def test_a_store_that_is_down_is_tried_again_and_then_reported(
    tmp_path: Path, make_sweep: Callable[..., Sweep], rank: Any, free_port: Callable[[], int]
) -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    sweep = make_sweep(agents=["cma_es"], benchmarks=["cartpole"], seeds=1, tracking={"uri": uri})
    script = Script()
    report = follow_sweep(
        tmp_path, sweep.name, rank, sleep=script.sleep, clock=script.clock, patience_seconds=5.0
    )
    assert script.slept >= 5.0
    assert report.logged == 0
    assert len(report.missing) == 1 and uri in report.missing[0]
    assert (
        report.command
        == f"evopolicy track source={sweep_folder(tmp_path, sweep.name)} 'tracking.uri={uri}'"
    )


@pytest.mark.slow
def test_a_server_that_comes_up_late_gets_everything(
    output: Path,
    make_sweep: Callable[..., Sweep],
    rank: Any,
    dump: Dump,
    tracking_server: Callable[..., Any],
    free_port: Callable[[], int],
) -> None:
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    sweep = make_sweep(seeds=1, tracking={"uri": uri, "artifacts": "full"})
    server = tracking_server(port)
    script = Script(lambda: server.__enter__())
    try:
        report = follow_sweep(output, sweep.name, rank, sleep=script.sleep, clock=script.clock)
        assert report.missing == ()
        assert report.logged == 4
        over_http = comparable(dump(connect(Tracking.from_mapping(sweep.tracking), output)))
    finally:
        server.__exit__(None, None, None)
    track(output, output, Tracking(artifacts="full"), rank)
    assert over_http == comparable(dump(connect(Tracking(), output)))


def test_stop_ends_it_after_one_last_pass(
    output: Path, store: Store, records: Any, rank: Any, dump: Dump
) -> None:
    folder = records.write_run(output, until="submission 1")
    records.write_cells(output, "stop", [records.cell_of(output, folder, "running")])
    logs = folder / "agent" / "attempt-1"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "proxy.jsonl").write_text('{"time": 0, "status": 429, "trouble": "rate_limit"}\n')
    with Ownership(folder):  # a command works on it
        report = follow_sweep(output, "stop", rank, stop=lambda: True)
    assert report.missing == ()
    (cell,) = cells(store, dump)
    assert cell.status == "RUNNING"
    assert cell.tags["waiting"] == (
        "its provider does not answer (429, rate_limit), and its agent asks again, since "
        "1970-01-01 00:00:00 UTC"
    )
    follow_sweep(output, "stop", rank, stop=lambda: True)
    (cell,) = cells(store, dump)
    assert "waiting" not in cell.tags, "nobody works on it any more"


def test_a_sweep_defined_anew_drops_what_it_no_longer_has(
    output: Path,
    store: Store,
    make_sweep: Callable[..., Sweep],
    records: Any,
    rank: Any,
    dump: Dump,
) -> None:
    sweep = make_sweep(seeds=1)
    follow_sweep(output, sweep.name, rank)
    kept = [cell for cell in sweep.cells if cell.entry == "cma_es"]
    records.write_cells(output, sweep.name, kept)
    follow_sweep(output, sweep.name, rank)
    shown = [x for x in dump(store).values() if x.tags.get("sweep.quick") == "true"]
    assert sorted((x.tags["kind"], x.tags.get("agent", "")) for x in shown) == [
        ("agent", "cma_es"),
        ("cell", "cma_es"),
        ("cell", "cma_es"),
        ("sweep", ""),
    ]


def test_what_an_older_version_called_by_another_name_is_there_once(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], rank: Any, dump: Dump
) -> None:
    """The Benchmark's name came last, which MLflow's charts cut off."""
    sweep = make_sweep(agents=["cma_es"], benchmarks=["cartpole"], seeds=1)
    follow_sweep(output, sweep.name, rank)
    before = dump(store)
    for run in store.client.search_runs([store.experiment_id]):
        for former in ("heldout/cartpole", "pendulum/heldout"):
            store.client.log_metric(run.info.run_id, former, 100.0, step=0)
        store.client.log_metric(run.info.run_id, "my_own", 1.0)
        if run.data.tags["kind"] == "cell":
            store.client.set_tag(run.info.run_id, "tracked_files", "2")
    assert follow_sweep(output, sweep.name, rank).missing == ()
    found = [run for run in dump(store).values() if run.tags["kind"] != "sweep"]
    assert len(found) == 2
    for run in found:
        assert "cartpole/heldout" in run.metrics
        assert not {"heldout/cartpole", "pendulum/heldout"} & run.metrics.keys()
    assert before.keys() == dump(store).keys()


def test_a_run_deleted_in_the_ui_stays_deleted_until_it_is_tracked_again(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], rank: Any, dump: Dump
) -> None:
    sweep = make_sweep(agents=["cma_es"], benchmarks=["cartpole"], seeds=1)
    follow_sweep(output, sweep.name, rank)
    before = dump(store)
    for run in store.client.search_runs([store.experiment_id]):
        store.client.delete_run(run.info.run_id)
    assert follow_sweep(output, sweep.name, rank).missing == ()
    assert dump(store) == {}
    track(output, output, Tracking(), rank)
    assert dump(store) == before
    assert len(store.client.search_logged_models([store.experiment_id])) == 2


def test_a_run_outside_any_sweep_is_tracked(
    output: Path, store: Store, make_run: Any, rank: Any, dump: Dump
) -> None:
    run = make_run()
    assert track(run.folder, output, Tracking(), rank).logged == 1
    (cell,) = cells(store, dump)
    assert (cell.status, cell.name) == ("FINISHED", "cma_es · cartpole · s0")
    assert "sweep" not in cell.tags


def test_a_run_outside_any_sweep_is_followed_while_it_grows(
    output: Path, store: Store, records: Any, dump: Dump
) -> None:
    tracker = CellTracker(output, Tracking())
    for until, logged in (("opened", 0), ("submission 1", 1), ("submission 1", 1), ("ended", 2)):
        assert tracker.step(records.write_run(output, until=until)) == ()
        (cell,) = cells(store, dump)
        assert len(cell.metrics.get("submission/score", ())) == logged
    assert (cell.status, tracker.logged) == ("FINISHED", 1)


def test_an_output_folder_is_tracked_whole(
    output: Path,
    store: Store,
    make_sweep: Callable[..., Sweep],
    records: Any,
    rank: Any,
    dump: Dump,
) -> None:
    make_sweep(seeds=1)
    records.write_run(output, records.a_record("alone"))
    assert track(output, output, Tracking(), rank).logged == 5
    assert len(cells(store, dump)) == 5


def test_a_folder_that_is_none_of_these_is_refused_before_a_store_is_opened(
    output: Path, rank: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (output / "x").mkdir()
    monkeypatch.setattr(
        "evopolicy.tracking.follow.connect",
        lambda *_: pytest.fail("a store was opened for nothing"),
    )
    with pytest.raises(
        RecordError, match=r"source: .* is not a folder of a Run, a sweep or an output"
    ):
        track(output / "x", output, Tracking(), rank)


def test_two_trackers_of_one_sweep_are_refused(
    output: Path, make_sweep: Callable[..., Sweep], rank: Any
) -> None:
    sweep = make_sweep(agents=["cma_es"], benchmarks=["cartpole"], seeds=1)
    refused: list[str] = []

    def ranks_while_tracking(*_: object) -> dict[str, Any]:
        with pytest.raises(TrackingError) as caught:
            track(sweep_folder(output, sweep.name), output, Tracking(), rank)
        refused.append(str(caught.value))
        return {}

    follow_sweep(output, sweep.name, ranks_while_tracking)
    assert refused == [
        "tracking: another tracker is at work on the sweep quick; try again when it has ended"
    ]


def test_full_artifacts_are_added_when_asked_later(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], rank: Any, dump: Dump
) -> None:
    sweep = make_sweep(agents=["cma_es"], benchmarks=["cartpole"], seeds=1)
    follow_sweep(output, sweep.name, rank)
    tracker = SweepTracker(
        output, sweep_folder(output, sweep.name), Tracking(artifacts="full"), rank
    )
    assert tracker.step(sweep) == ()
    (cell,) = cells(store, dump)
    assert "feedback/0001/trace.npz" in cell.artifacts
