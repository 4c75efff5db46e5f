"""A person as the engineer: the workspace is laid, the Run waits, outlives its Host and is told
from agents' Runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents import load_agent
from evopolicy.kernel.session.record import load_run
from tests.cli.place import TINY, Place, until

ASKED = ["agent=human", "agent.label=Ada", *TINY]
CLIENT = Path(sys.executable).with_name("evopolicy-session")


def session(workspace: Path, *words: str) -> dict[str, Any]:
    """What the person's shell in the workspace is told."""
    done = subprocess.run(
        [str(CLIENT), *words],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def opened(place: Place, attempt: int) -> Path:
    """The workspace, once its Run waits for the person again."""
    place_of = f"runs/cartpole/*/s*/agent/attempt-{attempt}/stdout.log"
    until(lambda: [*place.output.glob(place_of)])
    (log,) = place.output.glob(place_of)
    return log.parents[2] / "workspace"


@pytest.mark.slow
def test_a_person_works_from_any_shell_and_goes_on_after_the_host_was_killed(place: Place) -> None:
    first = place.start(*ASKED)
    workspace = opened(place, 1)
    assert session(workspace, "submit", "program", "--episodes", "0")["submission"]["score"] > 0
    for (
        pid
    ) in place.marked():  # the Host, its cell and its workers; the person's shell is none of them
        with_it = subprocess.run(["kill", "-9", str(pid)], capture_output=True, check=False)
        assert with_it.returncode == 0 or pid not in place.marked()
    first.communicate()

    second = place.start(*ASKED)
    assert opened(place, 2) == workspace
    assert f"cd {workspace.relative_to(place.folder)}; read TASK.md" in place.run("status").stdout
    (workspace / "program" / "note.txt").write_text("mine")
    session(workspace, "submit", "program", "--episodes", "1")
    session(workspace, "finish", "2")
    said, errors = second.communicate()
    assert second.returncode == 0, errors
    assert "it is a person's turn" in said

    run = load_run(workspace.parent)
    assert run.valid and run.state.agent_ended == "finished" and len(run.state.submissions) == 2
    record = run.record
    assert (record.entry, record.agent_isolation, record.agent_network) == (
        "Ada (human)",
        "none",
        "open",
    )
    assert record.isolation != "none"
    assert "Ada (human)" in place.run("table", "source=outputs").stdout
    place.run(*ASKED)  # reused: nobody is asked again
    assert load_run(workspace.parent).state.agent_attempts == 2


def test_ctrl_c_leaves_the_run_open_for_later(place: Place) -> None:
    command = place.start(*ASKED)
    workspace = opened(place, 1)
    command.send_signal(signal.SIGINT)
    assert command.wait() == 130
    assert not load_run(workspace.parent).finished


@pytest.mark.parametrize(
    ("label", "entry"), [("", "human"), ("human", "human"), ("Ada", "Ada (human)")]
)
def test_no_label_hides_a_person(label: str, entry: str) -> None:
    agent = load_agent(
        "human", {"name": "human", "label": label, "model": "", "program": "initial"}
    )
    assert agent.identity.label == entry
