"""Cells as processes: shared cores, failures that stay their own, nothing left behind. Stub cells,
real processes."""

import json
import os
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from evopolicy.execution.sandbox.descendants import descendants
from evopolicy.kernel.run.owner import Ownership
from evopolicy.sweeps.board import Board, CellState
from evopolicy.sweeps.cell import Job
from evopolicy.sweeps.scheduler import Scheduler, Shares, Task
from tests.cli.place import gone

STUB = textwrap.dedent(
    """
    import json, os, signal, subprocess, sys, time
    job = json.load(open(sys.argv[1]))
    what = job["config"]["stub"]
    def end(**outcome):
        json.dump(outcome, open(job["outcome"], "w"))
    folder = os.path.dirname(job["outcome"])
    with open(os.path.join(folder, "log.txt"), "a") as log:
        log.write(f"{job['entry']} {job['workers']}\\n")
    if what == "fine":
        end(status="finished", valid=True, score=1.5)
    elif what == "failed":
        print("why it failed")
        end(status="failed", error="the reason")
        sys.exit(1)
    elif what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "killed once":
        mark = os.path.join(folder, "mark")
        if not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        end(status="finished", valid=True, score=2.0)
    elif what == "silent":
        sys.exit(3)
    elif what == "leaves a daemon":
        mark = os.path.join(folder, "daemon")
        child = f"import time; open({mark!r}, 'w').close(); time.sleep(600)"
        daemon = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
        subprocess.Popen([sys.executable, "-c", daemon], start_new_session=True)
        while not os.path.exists(mark):
            time.sleep(0.02)
        end(status="finished", valid=True)
    elif what == "hangs":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        open(os.path.join(folder, "hanging"), "w").close()
        time.sleep(600)
    """
)


def sweep(
    folder: Path, *stubs: str, cells: int = 2, cores: int = 4, retries: int = 1
) -> tuple[Board, Scheduler]:
    script = folder / "stub.py"
    script.write_text(STUB)
    states, tasks = [], []
    for number, stub in enumerate(stubs):
        states.append(CellState(f"agent{number}", "cartpole", 0, folder / f"run{number}"))
        config = {"stub": stub, "execution": {"workers": None}}
        job = Job(
            config,
            str(folder / f"run{number}"),
            f"agent{number}",
            "cartpole",
            0,
            None,
            str(folder / f"{number}.o"),
        )
        tasks.append(Task(job, folder / f"{number}.json", folder / f"{number}.log"))
    board = Board(states)
    return board, Scheduler(
        board,
        tasks,
        Shares(cells, cores, retries),
        command=lambda job: [sys.executable, str(script), str(job)],
    )


def test_a_failing_cell_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    board, scheduler = sweep(tmp_path, "failed", "fine", "fine")
    scheduler.run()
    assert [cell.status for cell in board.cells] == ["failed", "finished", "finished"]
    assert "the reason" in board.cells[0].error
    assert str(tmp_path / "0.log") in board.cells[0].error
    assert "why it failed" in (tmp_path / "0.log").read_text()
    assert not (tmp_path / "1.log").exists()
    assert board.cells[1].score == 1.5


def test_a_cell_another_command_works_on_is_looked_at_once_more_at_the_end(tmp_path: Path) -> None:
    """Two sweeps that share a cell: it failed in one of them, though the other finished it
    meanwhile."""
    board, scheduler = sweep(tmp_path, "fine", "fine", "fine", cells=1)
    others = [Ownership(cell.folder) for cell in board.cells[:2]]

    def tick() -> None:
        if board.cells[2].status != "pending":  # it may have ended by the first look
            others[0].close()

    scheduler.run(tick)
    others[1].close()
    assert [cell.status for cell in board.cells] == ["finished", "failed", "finished"]
    assert "another command works there" in board.cells[1].error
    assert board.cells[0].error == "" and board.cells[0].score == 1.5


def test_cells_share_the_cores_and_the_last_one_gets_what_is_free(tmp_path: Path) -> None:
    _, scheduler = sweep(tmp_path, "fine", "fine", "fine", cells=2, cores=4)
    scheduler.run()
    shares = dict(line.split() for line in (tmp_path / "log.txt").read_text().splitlines())
    assert shares["agent0"] == "2"
    assert shares["agent1"] in ("2", "4")
    assert set(shares.values()) <= {"2", "4"}


def test_a_killed_cell_is_tried_once_more_and_its_second_end_counts(tmp_path: Path) -> None:
    board, scheduler = sweep(tmp_path, "killed once", "fine")
    scheduler.run()
    assert [cell.status for cell in board.cells] == ["finished", "finished"]
    assert board.cells[0].score == 2.0
    attempts = (tmp_path / "log.txt").read_text().splitlines()
    assert [line for line in attempts if line.startswith("agent0")] == ["agent0 2", "agent0 4"]


def test_a_cell_killed_again_fails_and_says_that_memory_may_be_why(tmp_path: Path) -> None:
    board, scheduler = sweep(tmp_path, "killed")
    scheduler.run()
    assert board.cells[0].status == "failed"
    assert "memory" in board.cells[0].error and "launcher.cells" in board.cells[0].error


def test_a_cell_that_ends_without_a_word_fails_with_its_exit_code(tmp_path: Path) -> None:
    board, scheduler = sweep(tmp_path, "silent")
    scheduler.run()
    assert board.cells[0].status == "failed"
    assert "exit code 3" in board.cells[0].error


def test_a_daemon_a_cell_leaves_behind_is_ended_with_it_and_with_its_children(
    tmp_path: Path,
) -> None:
    before = set(descendants(os.getpid()))
    _, scheduler = sweep(tmp_path, "leaves a daemon")
    scheduler.run()
    assert set(descendants(os.getpid())) <= before


def test_a_reused_cell_is_not_started(tmp_path: Path) -> None:
    board, _ = sweep(tmp_path, "failed", "fine")
    board.cells[0].status = "reused"
    _, scheduler = sweep(tmp_path, "failed", "fine")
    scheduler = Scheduler(board, scheduler._tasks, Shares(2, 2, 0), command=scheduler._command)
    scheduler.run()
    assert [cell.status for cell in board.cells] == ["reused", "finished"]


def test_an_interrupt_ends_everything_and_what_ran_is_pending_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evopolicy.sweeps.scheduler._STOP_SECONDS", 0.3)
    before = set(descendants(os.getpid()))
    board, scheduler = sweep(tmp_path, "hangs", "hangs", "fine")

    def interrupt() -> None:
        while not (tmp_path / "hanging").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        scheduler.run()
    assert [cell.status for cell in board.cells] == ["pending"] * 3
    assert set(descendants(os.getpid())) <= before


def test_cells_end_when_the_launcher_is_killed(tmp_path: Path) -> None:
    """The real `end_with_parent`, in a process whose parent dies of SIGKILL."""
    cell = (
        "from evopolicy.sweeps.processes import end_with_parent; import os, subprocess, sys, time\n"
    )
    cell += "end_with_parent(0.2)\n"
    cell += (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], "
        "start_new_session=True)\n"
    )
    cell += "print(os.getpid(), flush=True)\n"
    cell += "try:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    time.sleep(600)"
    parent = textwrap.dedent(
        f"""
        import os, signal, sys
        from pathlib import Path
        from evopolicy.sweeps.processes import Child
        child = Child([sys.executable, "-c", {cell!r}], Path({str(tmp_path / "log")!r}))
        while not Path({str(tmp_path / "log")!r}).read_text().strip():
            pass
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    import subprocess

    before = set(descendants(os.getpid()))
    subprocess.run([sys.executable, "-c", parent], check=False)
    pid = int((tmp_path / "log").read_text().split()[0])
    gone([pid])
    gone(set(descendants(os.getpid())) - before)
    assert set(descendants(os.getpid())) <= before


def test_the_job_tells_the_cell_its_share_and_keeps_workers_the_config_names(
    tmp_path: Path,
) -> None:
    board, scheduler = sweep(tmp_path, "fine")
    task = scheduler._tasks[0]
    named = Job(
        {**task.job.config, "execution": {"workers": 3}}, *list(vars(task.job).values())[1:]
    )
    scheduler = Scheduler(
        board, [Task(named, task.file, task.log)], Shares(1, 4, 0), command=scheduler._command
    )
    scheduler.run()
    assert json.loads(task.file.read_text())["workers"] is None
