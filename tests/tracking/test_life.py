"""Whatever happens to Runs, sweeps, trackers and the store: what was followed is what the records
say."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.run.sweep import Cell, read_sweep, sweep_folder
from evopolicy.kernel.session.record import RunRecord, load_run, new_id, read_record, write_record
from evopolicy.tracking.cells import CellTracker
from evopolicy.tracking.follow import track
from evopolicy.tracking.log import RunLog
from evopolicy.tracking.store import Store, Tracking, connect
from evopolicy.tracking.tracker import STATE, SweepTracker

Dump = Callable[[Store], dict[str, Any]]
STEPS = ("opened", "submission 1", "submission 2", "agent_ended", "validated", "ended")
AGENTS = ("baseline", "cma_es", "random")
BEGUN = 1_700_000_000.0


class Killed(BaseException):
    """What kill -9 is to the code it stops."""


class Life:
    """An output folder in which things happen, each by the chance that `random` gives, and its
    trackers."""

    def __init__(
        self, output: Path, records: Any, lay_attempt: Callable[..., Path], rank: Any, seed: int
    ) -> None:
        self.output, self.records, self.lay_attempt, self.rank = output, records, lay_attempt, rank
        self.random = random.Random(seed)
        self.now = BEGUN
        self.at: dict[str, int] = {}
        """How far each agent's Run is, as a place in STEPS."""
        self.trackers: dict[str, SweepTracker] = {}
        self.told: list[str] = []
        for agent in AGENTS[:2]:
            self.begin(agent)
        self.sweeps: dict[str, tuple[float, int]] = {"zeta": (BEGUN - 5, 2)}
        """When each was begun, and of how many agents it is."""

    def record(self, agent: str) -> RunRecord:
        self.now += 1_000
        made: RunRecord = self.records.a_record(agent, created=self.now, id=new_id())
        return made

    def folder(self, agent: str) -> Path:
        record = self.records.a_record(agent)
        return self.output / "runs" / "cartpole" / agent / f"s0-{record.key[:12]}"

    def write(self, agent: str, record: RunRecord | None = None) -> None:
        record = record or read_record(self.folder(agent)).under("")
        valid = int(record.id, 16) % 3 != 0
        fault = "529 overloaded" if int(record.id, 16) % 2 else ""
        self.records.write_run(
            self.output, record, until=STEPS[self.at[agent]], valid=valid, fault=fault
        )
        if self.at[agent] >= STEPS.index("agent_ended"):
            self.lay_attempt(self.folder(agent), number=2 if fault else 1, stdout="all of it")

    # --- what may happen --------------------------------------------------------------------------

    def begin(self, agent: str) -> None:
        self.at[agent] = 0
        self.write(agent, self.record(agent))

    def goes_on(self) -> None:
        agent = self.random.choice([*self.at])
        for _ in range(self.random.randint(1, 3)):
            if self.at[agent] + 1 < len(STEPS):
                self.at[agent] += 1
                self.write(agent)

    def is_run_again(self) -> None:
        """Set aside, whether invalid or not, and begun anew, at once or later."""
        agent = self.random.choice([*self.at])
        folder = self.folder(agent)
        if not load_run(folder).finished:
            return
        aside = self.output / "invalid" / folder.relative_to(self.output / "runs")
        number = 1 + len([*aside.parent.glob(f"{aside.name}-*")])
        aside.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(aside.with_name(f"{aside.name}-{number}"))
        if self.random.random() < 0.5:
            self.step()
        self.begin(agent)

    def is_resumed_by_another_config(self) -> None:
        agent = self.random.choice([*self.at])
        folder = self.folder(agent)
        record = read_record(folder)
        if not load_run(folder).finished:
            config = {**record.config, "session": {"retries": self.random.randint(1, 9)}}
            write_record(folder, record.followed_by(replace(record, config=config)))

    def another_sweep_takes_it_up(self) -> None:
        self.now += 1_000
        self.sweeps.setdefault("alpha", (self.now, 2))

    def a_sweep_grows(self) -> None:
        name = self.random.choice([*self.sweeps])
        self.sweeps[name] = (self.sweeps[name][0], 3)
        if AGENTS[2] not in self.at and self.random.random() < 0.5:
            self.begin(AGENTS[2])

    def tracker_is_killed(self) -> None:
        left = self.random.randint(1, 40)
        original = RunLog._call

        def dies(log: RunLog, what: str, call: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and self.random.random() < 0.5:
                raise Killed
            result = original(log, what, call, *args, **kwargs)
            if left <= 0:
                raise Killed
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunLog, "_call", dies)
            try:
                self.step()
            except Killed:
                pass
        self.trackers.clear()

    def tracker_begins_anew(self) -> None:
        self.trackers.clear()
        if self.random.random() < 0.3:
            for state in self.output.glob(f"sweeps/*/{STATE}"):
                state.unlink()

    def a_run_is_deleted_in_the_ui(self) -> None:
        store = connect(Tracking(), self.output)
        runs = store.client.search_runs([store.experiment_id])
        if runs:
            store.client.delete_run(self.random.choice(list(runs)).info.run_id)

    # --- trackers ---------------------------------------------------------------------------------

    def lay_sweeps(self) -> None:
        for name, (created, count) in self.sweeps.items():
            cells = [self.cell(agent, name) for agent in AGENTS[:count]]
            folder = sweep_folder(self.output, name)
            if not folder.exists() or list(read_sweep(folder).cells) != cells:
                self.records.write_cells(self.output, name, cells, created=created)

    def cell(self, agent: str, sweep: str) -> Cell:
        folder = self.folder(agent)
        if not (folder / "record.json").exists():
            record = self.records.a_record(agent)
            return Cell(
                folder.relative_to(self.output).as_posix(),
                agent,
                "cartpole",
                0,
                result_key=record.result_key,
            )
        made: Cell = self.records.cell_of(
            self.output, folder, "finished" if load_run(folder).finished else "running"
        )
        return (
            replace(made, status="reused")
            if sweep == "alpha" and made.status == "finished"
            else made
        )

    def step(self) -> None:
        self.lay_sweeps()
        for name in self.sweeps:
            folder = sweep_folder(self.output, name)
            if name not in self.trackers:
                self.trackers[name] = SweepTracker(self.output, folder, Tracking(), self.rank)
            tracker = self.trackers[name]
            missing = tracker.step(read_sweep(folder))
            if missing and tracker.worth_retrying:  # a run was deleted under it
                missing = tracker.step(read_sweep(folder))
            assert missing == ()

    def goes_by(self, events: int) -> None:
        weights: Mapping[Callable[[], None], int] = {
            self.goes_on: 6, self.step: 5, self.is_run_again: 2, self.is_resumed_by_another_config: 1,
            self.another_sweep_takes_it_up: 1, self.a_sweep_grows: 1, self.tracker_is_killed: 3,
            self.tracker_begins_anew: 1, self.a_run_is_deleted_in_the_ui: 1,
        }  # fmt: skip
        for _ in range(events):
            what = self.random.choices([*weights], [*weights.values()])[0]
            self.told.append(what.__name__)
            what()
        for _ in range(2):
            self.step()


def comparable(found: Mapping[str, Any]) -> dict[str, Any]:
    """For cells everything; for agents and the sweep the last values: how often they were updated
    differs."""
    result = {}
    for identity, logged in found.items():
        if logged.tags["kind"] != "cell":
            logged = replace(
                logged,
                metrics={key: history[-1][2] for key, history in logged.metrics.items()},
                end=None,
            )
        result[identity] = logged
    return result


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """In which fields two dumps differ."""
    found = [
        f"{one.get(identity) or other[identity]} is in one only"
        for identity in one.keys() ^ other.keys()
    ]
    for identity in one.keys() & other.keys():
        for field in fields(one[identity]):
            left, right = getattr(one[identity], field.name), getattr(other[identity], field.name)
            if isinstance(left, Mapping) and left != right:
                keys = [
                    key for key in left.keys() | right.keys() if left.get(key) != right.get(key)
                ]
                left, right = ({key: one.get(key) for key in keys} for one in (left, right))
            if left != right:
                found.append(f"{one[identity].name} {identity[:6]}: {field.name} {left} != {right}")
    return found


@pytest.fixture
def life(
    output: Path, records: Any, lay_attempt: Callable[..., Path], rank: Any
) -> Callable[..., Life]:
    return lambda seed: Life(output, records, lay_attempt, rank, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 4))
def test_a_store_that_followed_equals_one_rebuilt_from_the_records(
    seed: int,
    output: Path,
    store: Store,
    migrated: Path,
    life: Callable[..., Life],
    rank: Any,
    dump: Dump,
) -> None:
    lived = life(seed)
    lived.goes_by(24)
    story = ", ".join(lived.told)
    followed = comparable(dump(store))
    (output / "other").mkdir()
    shutil.copyfile(migrated, output / "other" / "m.db")
    elsewhere = Tracking(f"sqlite:///{output / 'other' / 'm.db'}")
    assert track(output, output, elsewhere, rank).missing == ()
    rebuilt = comparable(dump(connect(elsewhere, output)))
    here = {identity: logged for identity, logged in rebuilt.items() if identity in followed}
    assert differences(followed, here) == [], story
    deleted = {
        run.data.tags["identity"]
        for run in store.client.search_runs([store.experiment_id], run_view_type=2)
    }
    assert rebuilt.keys() - followed.keys() <= deleted, story
    assert track(output, output, Tracking(), rank).missing == ()
    assert differences(comparable(dump(store)), rebuilt) == [], story
    models = store.client.search_logged_models([store.experiment_id])
    assert len(models) == sum(len(logged.models) for logged in rebuilt.values()), story


def test_a_run_that_is_run_again_in_the_place_of_another_is_a_run_of_its_own(
    output: Path, store: Store, records: Any, rank: Any, dump: Dump
) -> None:
    """Also where the tracker looks away meanwhile, and both journals are of one length when it
    looks."""
    record = records.a_record(id="first")
    folder = records.write_run(output, record, scores=(10.0, 20.0), valid=False)
    records.write_cells(output, "again", [records.cell_of(output, folder)])
    tracker = SweepTracker(output, sweep_folder(output, "again"), Tracking(), rank)
    sweep = read_sweep(sweep_folder(output, "again"))
    assert tracker.step(sweep) == ()
    aside = output / "invalid" / "cartpole" / "cma_es" / f"{folder.name}-1"
    aside.parent.mkdir(parents=True)
    folder.rename(aside)
    records.write_run(
        output, replace(record, id="second", created=record.created + 100), scores=(30.0, 40.0)
    )
    for again in (tracker, SweepTracker(output, sweep_folder(output, "again"), Tracking(), rank)):
        assert again.step(sweep) == ()
        found = {
            logged.tags["run"]: logged
            for logged in dump(store).values()
            if logged.tags["kind"] == "cell"
        }
        scores = {
            run: [row[2] for row in logged.metrics["submission/score"]]
            for run, logged in found.items()
        }
        assert scores == {"first": [10.0, 20.0], "second": [30.0, 40.0]}
        first, second = found["first"].tags, found["second"].tags
        assert (first["valid"], first["reasons"], first["set_aside"]) == (
            "false",
            "provider",
            "true",
        )
        assert (second["valid"], second["sweep.again"]) == ("true", "true")
        assert (
            not {"reasons", "set_aside"} & second.keys()
            and not {"sweep.again", "folder"} & first.keys()
        )
        assert found["first"].parent == found["second"].parent != ""


@pytest.mark.parametrize(
    ("tag", "value", "believed"),
    [
        ("seed", "0", True),
        ("tracked_files", "1", False),
        ("tracked_files", "99", False),
        ("tracked_artifacts", "full", False),
        ("journal_lines", "x", False),
        ("journal_lines", "3", False),
        ("record_digest", "another", False),
    ],
)
def test_what_another_tracker_says_is_there_is_believed_only_where_it_says_all(
    tag: str, value: str, believed: bool, output: Path, store: Store, records: Any
) -> None:
    folder = records.write_run(output)
    assert CellTracker(output, Tracking()).step(folder) == ()
    (run,) = store.client.search_runs([store.experiment_id])
    config = output / "mlartifacts" / "evopolicy" / run.info.run_id / "artifacts" / "config.json"
    config.unlink()
    store.client.set_tag(run.info.run_id, tag, value)
    assert CellTracker(output, Tracking()).step(folder) == ()
    assert config.exists() is not believed
    assert CellTracker(output, Tracking(), rebuild=True).step(folder) == ()
    assert config.exists()


def dies_after(calls: int, work: Callable[[], object]) -> bool:
    """Do `work` until the store has been called so often. Whether it was."""
    left, original = calls, RunLog._call

    def dies(log: RunLog, what: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal left
        result = original(log, what, function, *args, **kwargs)
        left -= 1
        if left == 0:
            raise Killed
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunLog, "_call", dies)
        try:
            work()
        except Killed:
            return True
    return False


@pytest.mark.slow
def test_killed_at_any_call_a_tracker_never_told_of_what_was_not_there(
    output: Path, records: Any, lay_attempt: Callable[..., Path], dump: Dump
) -> None:
    """What is there whole is said last of all: lines, models that are ready, traces."""
    for call in range(1, 40):
        where = Tracking(experiment=f"call-{call}")
        folder = records.write_run(output, records.a_record(seed=call, id=f"{call}"), fault="529")
        lay_attempt(folder, number=2, stdout="all of it")
        if not dies_after(call, partial(CellTracker(output, where).step, folder)):
            break
        store = connect(where, output)
        (run,) = store.client.search_runs([store.experiment_id])
        told = run.data.tags.get("journal_lines")
        if told is None:
            assert CellTracker(output, where).step(folder) == ()
        before = dump(store)
        assert CellTracker(output, where, rebuild=True).step(folder) == ()
        assert differences(before, dump(store)) == [], (
            f"killed after call {call}, lines told: {told}"
        )
    assert call > 12


def test_a_tag_that_no_longer_holds_goes_and_one_of_a_persons_stays(
    output: Path, store: Store, records: Any, dump: Dump
) -> None:
    folder = records.write_run(output, until="opened", fault="529 overloaded")
    tracker = CellTracker(output, Tracking())
    assert tracker.step(folder) == ()
    (logged,) = dump(store).values()
    assert (logged.tags["agent_error"], logged.tags["terminal_reason"]) == (
        "529 overloaded",
        "provider",
    )
    (run,) = store.client.search_runs([store.experiment_id])
    store.client.set_tag(run.info.run_id, "mine", "a note")
    store.client.set_tag(run.info.run_id, "version.gone", "1")
    records.write_run(output, until="agent_ended", fault="529 overloaded")
    assert CellTracker(output, Tracking()).step(folder) == ()
    (logged,) = dump(store).values()
    assert not {"agent_error", "agent_error_kind", "version.gone"} & logged.tags.keys()
    assert logged.tags["terminal_reason"] == "finished"
    assert (logged.tags["mine"], logged.tags["agent_attempts"]) == ("a note", "2")


def test_a_run_that_says_what_mlflow_cannot_take_back_is_made_anew_and_keeps_what_a_person_said(
    output: Path, store: Store, records: Any, rank: Any, dump: Dump
) -> None:
    """Two Runs mixed in one, as trackers before did it; with a param of a config that is no
    more."""
    folder = records.write_run(output)
    assert CellTracker(output, Tracking()).step(folder) == ()
    right = dump(store)
    (run,) = store.client.search_runs([store.experiment_id])
    store.client.log_metric(run.info.run_id, "submission/score", 9_999.0, step=8)
    store.client.log_param(run.info.run_id, "agent.former", "1")
    store.client.log_metric(run.info.run_id, "my_own", 1.0)
    store.client.set_tag(run.info.run_id, "mine", "a note")
    assert track(folder, output, Tracking(), rank).missing == ()
    found = dump(store)
    assert [logged.tags.pop("mine") for logged in found.values()] == ["a note"]
    assert differences(found, right) == []
    assert len(store.client.search_logged_models([store.experiment_id])) == 2
