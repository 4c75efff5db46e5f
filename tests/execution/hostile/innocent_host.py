"""A Host in a process of its own, which plays Run after Run of an agent that means no harm, one
turn at each letter.

`python innocent_host.py ROOT LEVEL`: its agent takes letters from the pipe ROOT/agent/turns, `s` to
submit and `f` to finish. Each score, and how each Run ended, is a line of JSON on its standard
output."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from evopolicy import build
from evopolicy.config import RunConfig
from evopolicy.kernel.ports.protocols import Progress
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.presets import load_config

POOL = 4
AGENT = f"""
import os, pathlib, shutil, subprocess, sys, threading
sys.path.insert(0, str(pathlib.Path(shutil.which("evopolicy-session")).parent))
import client

here, there = client.find_session()
notes = [pathlib.Path(os.environ[name], "notes") for name in ("HOME", "TMPDIR", "EVOPOLICY_WORKSPACE")]
for note in notes:
    note.write_text("mine")
shutil.copytree("program", "mine")
shutil.copy(pathlib.Path(sys.argv[1], "policy.py"), "mine/policy.py")
turns = os.open(pathlib.Path(sys.argv[1], "turns"), os.O_RDONLY)
done = 0
while os.read(turns, 1) == b"s":
    assert [note.read_text() for note in notes] == ["mine"] * 3
    beside = threading.Thread(target=done.bit_length)
    beside.start()
    subprocess.run(["true"], check=True)
    beside.join()
    answer = client.ask(here, "submit", {{"path": "mine", "episodes": str(done % {POOL}), "detach": False}})
    while answer["submission"]["status"] == "running":
        answer = client.ask(here, "wait", {{}})
    done += 1
client.ask(here, "finish", {{"candidates": []}})
"""
# Whatever could come from another Episode, another Program or another's load has its part in what
# it chooses.
PROGRAM = """
import os, random, threading
import numpy as np

def make_policy(context): return Innocent(context.seed)

class Innocent:
    def __init__(self, seed):
        self.steps = seed % 7
    def act(self, observation):
        beside = threading.Thread(target=self.more)
        beside.start()
        beside.join()
        with open("steps", "a") as file:
            file.write("x")
        found = os.path.getsize("steps") + len(os.listdir(".")) + len(os.environ) + hash("innocent") % 100
        return int(self.steps + found + random.random() * 100 + np.random.random() * 100) % 2
    def more(self):
        self.steps += 1
"""


class Said:
    """Prints each score of a Run's Submissions."""

    def on_event(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "published":
            _say(
                {
                    "submission": event["submission"],
                    "score": event["score"],
                    "failures": event["failures"],
                }
            )

    def on_progress(self, progress: Progress) -> None: ...


def _say(found: Mapping[str, Any]) -> None:
    print(json.dumps(found), flush=True)


def told(run: Run) -> dict[str, Any]:
    """How a Run ended, by its record; nothing in it depends on how many Submissions it made."""
    found = load_run(run.folder)
    state, result = found.state, found.result
    measured = msgspec.to_builtins([result.validation, result.assessment])
    ended = [found.valid, state.agent_ended, state.agent_attempts]
    return {"ended": ended, "program": result.selected, "measured": measured}


def config_of(output: Path, level: str, agent: Mapping[str, Any], **more: Any) -> RunConfig:
    """A Run's config under which the same Program has the same scores, whoever its agent is."""
    return load_config(
        "smoke",
        output=str(output),
        benchmark="cartpole",
        budget={"submissions": 1000, "episodes": 1000},
        pool={"training": POOL, "validation": 2, "assessment": 4},
        feedback={"replays": False},
        execution={"isolation": level, "workers": 1},
        # It waits for as long as the cases beside it and after it take.
        session={"retries": 0, "limits": {"idle_seconds": None, "wall_seconds": None}},
        tracking="off",
        agent={"name": "command", **agent},
        **more,
    )


def main(root: Path, level: str) -> None:
    argv = ["{python}", "-B", str(root / "agent" / "agent.py"), str(root / "agent")]
    agent = {"argv": argv, "readable": [str(root / "agent")]}
    for seed in itertools.count():
        _say(told(build.run_cell(config_of(root / "output", level, agent, seed=seed), [Said()])))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
