"""Whole sweeps by the real command, in processes of their own: reuse, failures, interrupts, and
what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from evopolicy.kernel.run.sweep import read_sweep, sweep_folder
from evopolicy.kernel.session.record import load_run
from evopolicy.sweeps.cell import Job
from evopolicy.sweeps.scheduler import Task
from evopolicy.sweeps.sweep import _write_jobs
from tests.cli.place import PATIENCE, TINY, Place, gone

pytestmark = pytest.mark.slow

BROKEN = """
import gymnasium, numpy, sys

class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(1, numpy.float32), {}
    def step(self, action):
        if sys.argv[0].endswith("worker.py"):  # it was whole when it was looked at
            raise RuntimeError("the simulator is broken")
        return numpy.zeros(1, numpy.float32), 0.0, False, False, {}

gymnasium.register("Broken-v0", entry_point=Broken, max_episode_steps=5)
"""


def test_a_sweep_runs_every_cell_and_the_same_command_reuses_them_all(place: Place) -> None:
    sweep = ["agent=baseline,random", *TINY, "sweep=night"]
    first = place.run(*sweep)
    assert "baseline" in first.stdout and "evopolicy table sweep=night" in first.stdout
    cells = read_sweep(sweep_folder(place.output, "night")).cells
    assert [cell.status for cell in cells] == ["finished", "finished"]
    assert [cell.entry for cell in cells] == ["baseline", "random"]
    journals = {
        cell.run: (place.output / cell.run / "journal.jsonl").read_bytes() for cell in cells
    }
    assert all(load_run(place.output / cell.run).valid for cell in cells)
    assert not list(place.output.glob("runs/*/*/*/live.json"))

    again = place.run(*sweep)
    assert "2 cells of 2 finished before and are reused" in again.stdout
    assert "random on cartpole, seed 0" in again.stdout
    assert [cell.status for cell in read_sweep(sweep_folder(place.output, "night")).cells] == [
        "reused",
        "reused",
    ]
    assert {
        cell.run: (place.output / cell.run / "journal.jsonl").read_bytes() for cell in cells
    } == journals

    more = place.run("agent=baseline,random,cma_es", *TINY, "sweep=night", "--dry-run")
    assert more.stdout.count("finished, reused") == 2 and "cma_es" in more.stdout
    assert "to run: 1 cell, 2 Episode units" in more.stdout
    assert "1 cell by earlier Runs here" in more.stdout
    assert "rank" in place.run("table", "sweep=night").stdout
    assert "2 of 2 cells done" in place.run("status").stdout
    assert not place.marked()
    assert sorted(path.name for path in place.folder.iterdir()) == ["outputs"]


def test_a_failing_cell_is_told_at_the_end_and_the_exit_code_says_so(place: Place) -> None:
    (place.folder / "broken_env.py").write_text(BROKEN)
    environment = [
        "benchmark=gymnasium",
        "benchmark.env_id=CartPole-v1,broken_env:Broken-v0",
        "benchmark.failure_score=0",
    ]
    done = place.run("agent=baseline", *environment, *TINY[1:], "sweep=mixed", code=1)
    assert "1 cell of 2 failed" in done.stdout and "the simulator is broken" in done.stdout
    good, bad = read_sweep(sweep_folder(place.output, "mixed")).cells
    assert (good.status, bad.status) == ("finished", "failed")
    assert (good.entry, bad.entry) == ("baseline", "baseline"), (
        "another id is another Benchmark, no axis"
    )
    assert "the simulator is broken" in bad.error
    assert "\n" not in bad.error
    assert not place.marked()


def test_an_environment_that_ends_its_process_is_told_before_anything_is_spent(
    place: Place,
) -> None:
    """The command ended without a word, and so did every other cell."""
    (place.folder / "gone_env.py").write_text("import os; os._exit(7)")
    environment = [
        "benchmark=gymnasium",
        "benchmark.env_id=CartPole-v1,gone_env:Gone-v0",
        "benchmark.failure_score=0",
    ]
    done = place.run("agent=baseline", *environment, *TINY[1:], "sweep=gone", code=2)
    assert "cell 2 (" in done.stderr
    assert (
        "'gone_env:Gone-v0' cannot be looked at: its process ended with exit code 7 while it was "
        "imported" in done.stderr
    )
    assert not (place.output / "runs").exists()


def test_a_single_run_prints_its_result_and_is_found_finished_the_next_time(place: Place) -> None:
    done = place.run("agent=random", *TINY)
    assert "held-out score" in done.stdout
    again = place.run("agent=random", *TINY)
    assert "finished already" in again.stdout and "held-out score" in again.stdout
    (folder,) = place.output.glob("runs/cartpole/random/*")
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_corrupt_record_is_named_before_anything_is_spent(place: Place) -> None:
    place.run("agent=random", *TINY)
    (record,) = place.output.glob("runs/cartpole/random/*/record.json")
    record.write_text("{")
    done = place.run("agent=random,baseline", *TINY, "sweep=next", code=2)
    assert "record.json" in done.stderr and "cell 1 (" in done.stderr
    assert not (place.output / "runs" / "cartpole" / "baseline").exists()


WAITING = [
    "agent=command",
    "agent.argv=[sleep,'600']",
    "seed=0,1",
    *TINY,
    "sweep=long",
    "launcher.cells=2",
]


def _waiting(place: Place) -> subprocess.Popen[str]:
    """A sweep of two cells whose agents sleep, once both do."""
    command = place.start(*WAITING)
    place.thinking(2, command)
    return command


def test_ctrl_c_ends_every_process_says_what_goes_on_and_resume_does(place: Place) -> None:
    command = _waiting(place)
    pids = place.marked()
    assert len(pids) > 3
    assert "2 running" in place.run("status", "sweep=long").stdout
    os.kill(command.pid, signal.SIGINT)
    out, err = command.communicate(timeout=PATIENCE)
    assert command.returncode == 130, out + err
    assert "evopolicy resume sweep=long" in err and "Traceback" not in out + err
    gone(pids | place.marked())
    assert [cell.status for cell in read_sweep(sweep_folder(place.output, "long")).cells] == [
        "pending",
        "pending",
    ]
    # The command agent cannot be started again in a half-done Run: what there is gets measured.
    done = place.run("resume", "sweep=long", code=1)
    assert "host_killed" in done.stdout
    assert not place.marked()


def test_killing_the_launcher_leaves_no_process(place: Place) -> None:
    command = _waiting(place)
    pids = place.marked()
    os.kill(command.pid, signal.SIGKILL)
    command.communicate(timeout=PATIENCE)
    gone(pids | place.marked())
    assert not place.marked()


def test_two_commands_never_run_one_sweep(place: Place) -> None:
    command = _waiting(place)
    refused = place.run(*WAITING, code=2)
    assert (
        f"another command is running the sweep 'long' (pid {command.pid}, since 20"
        in refused.stderr
    )
    assert "evopolicy --multirun agent=command" in refused.stderr
    os.kill(command.pid, signal.SIGTERM)
    command.communicate(timeout=PATIENCE)
    assert command.returncode == 130


def test_the_tracker_logs_the_sweep_and_ends(place: Place) -> None:
    done = place.run("-m", "agent=random", *TINY[:-1], "sweep=tracked")
    assert "warning" not in done.stdout
    assert (place.output / "mlflow.db").exists()
    state = json.loads((sweep_folder(place.output, "tracked") / "mlflow.json").read_text())
    assert state
    assert not (sweep_folder(place.output, "tracked") / "tracker.log").exists()
    assert not place.marked()


def test_a_tracker_that_fails_is_a_warning_with_the_command_that_rebuilds(place: Place) -> None:
    store = f"tracking.uri=sqlite:///{place.folder}/no/such/folder/x.db"
    (place.folder / "no").write_text("")
    done = place.run(
        "-m", "agent=random", *TINY[:-1], store, "sweep=untracked", "launcher.tracker_seconds=15"
    )
    assert "warning:" in done.stdout and "evopolicy track source=" in done.stdout
    assert all(
        cell.status == "finished"
        for cell in read_sweep(sweep_folder(place.output, "untracked")).cells
    )


def test_a_cell_that_is_asked_to_end_does_so_in_order(place: Place) -> None:
    command = _waiting(place)
    pids = place.marked()
    cells = place.cells()
    assert len(cells) == 2
    for cell in cells:
        os.kill(cell, signal.SIGTERM)
    out, err = command.communicate(timeout=PATIENCE)
    assert command.returncode == 1, out + err
    assert out.count("interrupted; the same command goes on with it") >= 2 and "killed" not in out
    assert not list(place.output.glob("runs/*/*/*/live.json"))
    gone(pids)


def test_resume_goes_on_with_the_cells_of_the_newest_command_alone(tmp_path: Path) -> None:
    def tasks(first: int, *names: str) -> list[Task]:
        return [
            Task(
                Job({}, name, name, "cartpole", 0, None, ""),
                tmp_path / f"{n:04d}.json",
                tmp_path / "log",
            )
            for n, name in enumerate(names, first)
        ]

    def written() -> list[str]:
        return [
            msgspec.json.decode(path.read_bytes(), type=Job).entry
            for path in sorted(tmp_path.glob("*.json"))
        ]

    _write_jobs(tasks(1, "a", "b", "c"))
    assert written() == ["a", "b", "c"]
    _write_jobs(tasks(1, "d", "e"))
    assert written() == ["d", "e"]
    _write_jobs(tasks(3, "f"))
    assert written() == ["d", "e", "f"], "a later batch of a sweeper's keeps those before"
    _write_jobs(tasks(2, "g"))
    assert written() == ["d", "g"]
