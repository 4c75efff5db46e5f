"""A Host that a test starts in a process of its own: a whole Run of an agent that plants what a
plan says.

`python planted_host.py ROOT LEVEL PLAN [killed]`; with `killed` it dies when the second Submission
is published. With TRACED in its environment, it and every Python process it starts writes down what
names it opens, makes or removes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evopolicy import build
from evopolicy.agents.command.integration import Command
from evopolicy.kernel.ports.protocols import AgentTask, Invocation, Progress
from evopolicy.presets import load_config

KEY = "sk-0123456789abcdefghijklmnop"
KINDS = ("link to a file", "link to the journal", "full folder", "pipe")
AGENT = f"""
import contextlib, json, os, pathlib, shutil, subprocess, sys
plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
work, home = pathlib.Path.cwd(), pathlib.Path.home()
key = "sk-" + "{KEY[3:]}"

def session(*words):
    done = subprocess.run(["evopolicy-session", *words], capture_output=True, text=True)
    print(done.stdout, done.stderr, flush=True)
    return done.stdout

def plant(rotation, shallow):
    for number, (where, folder, name) in enumerate(plan["places"]):
        place = (work if where == "workspace" else home) / folder / name
        if not shallow and (where, str(place.relative_to(work if where == "workspace" else home))) in containers:
            continue
        with contextlib.suppress(OSError):
            if place.is_symlink() or not place.is_dir():
                place.unlink(missing_ok=True)
            else:
                shutil.rmtree(place)
            if not place.parent.is_dir() or place.parent.is_symlink():
                continue
            kind = (number + rotation) % {len(KINDS)}
            if kind == 0:
                place.symlink_to(plan["victim"])
            elif kind == 1:
                up = len(place.parent.relative_to(work if where == "workspace" else home).parts)
                place.symlink_to("../" * (up + (1 if where == "workspace" else 2)) + "journal.jsonl")
            elif kind == 2:
                (place / "inner").mkdir(parents=True)
                (place / "inner" / "file").write_text(key)
            else:
                os.mkfifo(place)

containers = {{(where, folder) for where, folder, _ in plan["places"]}}
for folder in (work / "z", home / "z"):
    folder.mkdir(exist_ok=True)
    (folder / "z.sh").write_text("echo " + key)
done = len(json.loads(session("status"))["submissions"])
if done < 2:
    if done == 0:
        shutil.copytree("program", "mine")
        session("submit", "mine", "--episodes", "0:1")
    plant(plan["rotation"], False)
    session("submit", "mine", "--episodes", "1:2")
plant(plan["rotation"] + 1, True)
session("finish")
"""


class Killed:
    """Ends the Host when its second Submission is published."""

    def on_event(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "published" and event["submission"] == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_progress(self, progress: Progress) -> None: ...


def main(root: Path, level: str, plan: Path, killed: bool) -> None:
    (root / "agent").mkdir(exist_ok=True)
    (root / "agent" / "agent.py").write_text(AGENT)
    (root / "agent" / "plan.json").write_text(plan.read_text())
    (root / "skill").mkdir(exist_ok=True)
    (root / "skill" / "SKILL.md").write_text("how")
    (root / "login").write_text('{"token": "a-login-of-somebody"}')
    invoke = Command.invoke

    def with_home(self: Command, task: AgentTask) -> Invocation:
        """As a coding agent's: a login in its home, and what is kept of it."""
        home = {".tool/auth.json": root / "login"}
        return replace(invoke(self, task), home=home, collect=("**",))

    Command.invoke = with_home  # type: ignore[method-assign]
    config = load_config(
        "smoke",
        output=str(root / "output"),
        benchmark="cartpole",
        pool={"training": 4, "validation": 0, "assessment": 1},
        selection={"rule": "last"},
        feedback={"visibility": "full", "bulk_bytes": 1, "replays": False},
        prompt={"skills": [str(root / "skill")]},
        execution={"isolation": level, "allow_unisolated": level == "none", "workers": 1},
        tracking="off",
        session={"block_seconds": 600},  # the agent asks once, however busy the machine is
        agent={
            "name": "command",
            "argv": [
                "{python}",
                "-B",
                str(root / "agent" / "agent.py"),
                str(root / "agent" / "plan.json"),
            ],
            "readable": [str(root / "agent")],
            "resumes": True,
        },
    )
    run = build.run_cell(config, [Killed()] if killed else [])
    print(
        json.dumps({"folder": str(run.folder), "valid": run.valid, "ended": run.state.agent_ended})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), "killed" in sys.argv[4:])
