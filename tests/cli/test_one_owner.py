"""One command at a time works on a Run, however it is named; the others harm nothing and say who
does."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

import evopolicy
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.run.owner import is_owned
from evopolicy.kernel.session.record import load_run
from evopolicy.sweeps.live import LIVE
from tests.cli.place import PATIENCE, TINY, Place, gone

pytestmark = pytest.mark.slow

UNHURRIED = f"""
import threading, time
pause = time.sleep
time.sleep = lambda seconds: pause({PATIENCE} if threading.current_thread().name == "end-with-parent" else seconds)
"""
"""Of a cell whose command is gone: it has as long for an orderly end as a busy machine takes."""
SLEEPING = ["agent=command", "agent.argv=[sleep,'6000']", *TINY]


def sleeping(place: Place, *words: str) -> tuple[subprocess.Popen[str], Path]:
    """The command of a Run whose agent sleeps, and its folder."""
    command = place.start(*SLEEPING, *words)
    place.thinking(1, command)
    (folder,) = place.output.glob("runs/*/*/s*")
    return command, folder


def contents(output: Path) -> dict[str, bytes]:
    """Of every file but what goes on: the journal, and where the Run is."""
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.rglob("*")
        if path.is_file() and path.name != LIVE and "sweeps" not in path.parts
    }


def test_the_same_run_asked_for_in_any_way_is_refused_and_the_first_goes_on(place: Place) -> None:
    command, folder = sleeping(place)
    before, live = contents(place.output), (folder / LIVE).read_bytes()
    asked = {
        "single": place.run(*SLEEPING, code=1).stderr,
        "resume": place.run("resume", f"source={folder.relative_to(place.folder)}", code=1).stderr,
        "sweep": place.run("-m", *SLEEPING, "sweep=other", code=1).stdout,
    }
    with pytest.raises(RecordError) as refused:
        evopolicy.run(
            {"name": "command", "argv": ["sleep", "6000"]},
            "cartpole",
            protocol="smoke",
            budget={"submissions": 2, "episodes": 2},
            output=str(place.output),
        )
    asked["python"] = str(refused.value)
    for way, said in asked.items():
        assert f"another command works there (pid {command.pid}, since 20" in said, (way, said)
        assert "evopolicy agent=command" in said, (way, said)
    assert contents(place.output) == before
    assert (folder / LIVE).read_bytes() == live and command.poll() is None
    assert "1 running" in place.run("status").stdout
    os.kill(command.pid, signal.SIGINT)
    out, err = command.communicate(timeout=PATIENCE)
    assert command.returncode == 130, out + err
    assert not is_owned(folder) and not load_run(folder).finished


def test_what_an_interrupted_command_says_to_type_can_be_typed_whatever_the_output_is_called(
    place: Place,
) -> None:
    place.output = place.folder / "a %20b?"
    command, folder = sleeping(place, f"output={place.output.name}")
    os.kill(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=PATIENCE)
    words = shlex.split(said.partition(" or: ")[2])
    assert words == ["evopolicy", "resume", f"source={folder.relative_to(place.folder)}"], said


def test_a_killed_command_leaves_no_owner_and_the_next_goes_on_at_once(place: Place) -> None:
    command, folder = sleeping(place)
    pids = place.marked()
    os.kill(command.pid, signal.SIGKILL)
    command.communicate(timeout=PATIENCE)
    done = place.run(
        *SLEEPING, code=1
    )  # waits for what the killed one started; such an agent cannot go on
    assert "host_killed" in done.stdout
    gone(pids)
    assert load_run(folder).finished and not is_owned(folder)
    assert "nothing is running" in place.run("status").stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_command_that_was_started_to_ignore_interrupts_ends_its_cells_all_the_same(
    place: Place, number: signal.Signals
) -> None:
    """As `nohup` and `&` in a script do it: what a command ignores, the processes it starts begin
    by ignoring too."""
    (place.folder / "sitecustomize.py").write_text(UNHURRIED)
    earlier = signal.signal(number, signal.SIG_IGN)
    try:
        command, folder = sleeping(place)
    finally:
        signal.signal(number, earlier)
    pids = place.marked()
    if number == signal.SIGHUP:
        os.kill(command.pid, signal.SIGHUP)
        assert "1 running" in place.run("status").stdout and command.poll() is None
    assert len(place.cells()) == 1
    os.kill(command.pid, signal.SIGKILL)
    command.communicate(timeout=PATIENCE)
    gone(pids)
    # By the interrupt, not by the kill that comes after it: an orderly end takes `live.json` away.
    assert not (folder / LIVE).exists()
