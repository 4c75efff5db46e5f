"""A Host killed at random moments of a small sweep, again and again: in the end it is the sweep
that nobody disturbed.

Which moments is settled by a round's number. `EVOPOLICY_CHAOS_ROUNDS=50 uv run pytest
tests/end_to_end/test_chaos.py` runs more of them."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis import find_runs
from evopolicy.execution.sandbox.descendants import descendants
from evopolicy.kernel.run.stream import is_kept, load_transcripts
from evopolicy.kernel.session.journal import read_journal
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.kernel.session.submission import read_graded
from tests.end_to_end.coding_run import needs_bubblewrap

pytestmark = [needs_bubblewrap, pytest.mark.slow]

ROUNDS = int(os.environ.get("EVOPOLICY_CHAOS_ROUNDS", "1"))
KILLS = 3
"""Of a round, at most: then its sweep may come to its end."""
SELECTORS = ("0:2", "2:4", "0,3")
AGENT = '''
import json, pathlib, subprocess, time

def call(*words):
    done = subprocess.run(["evopolicy-session", *words], capture_output=True, text=True)
    print(json.dumps({"text": " ".join(words) + ": " + (done.stdout or done.stderr)}), flush=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"state": "refused"}

SELECTORS = CHOSEN
POLICY = """
import time
def make_policy(context): return Still()
class Still:
    def act(self, observation):
        end = time.process_time() + 0.01
        while time.process_time() < end: pass
        return (VALUE if observation[2] < 0 else 1 - VALUE) if VALUE < 2 else int(observation[2] > 0)
"""
while (status := call("status"))["state"] not in ("finished", "refused"):
    number = len(status["submissions"])
    if status["state"] == "running":
        call("wait")
    elif number < len(SELECTORS):
        time.sleep(0.2)
        program = pathlib.Path("program", "policy.py")
        program.write_text(POLICY.replace("VALUE", str(number)))
        call("submit", "program", "--episodes", SELECTORS[number])
    else:
        call("finish", "3", "1")
'''.replace("CHOSEN", repr(SELECTORS))


def command(output: Path) -> list[str]:
    script = script_of(output)  # part of a cell's key, so the same for all of these sweeps
    start = "import sys; from evopolicy.cli.main import main; sys.exit(main())"
    words = [
        "agent=command", f'agent.argv=["{{python}}","{script}"]', f"agent.readable=[{script.parent}]",
        "agent.resumes=true", "benchmark=cartpole", "seed=0,1", "protocol=smoke", "pool.training=4",
        "pool.validation=2", "pool.assessment=3", "budget.submissions=3", "budget.episodes=6", "execution.workers=1",
        "execution.isolation=bubblewrap", "session.block_seconds=0.2", "sweep=chaos", f"output={output}",
        "launcher.cells=2", "-m",
    ]  # fmt: skip
    return [sys.executable, "-c", start, *words]


def script_of(output: Path) -> Path:
    return output.parents[1] / "agent" / "agent.py"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)}


@contextlib.contextmanager
def started(output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (output.parent / "said").open("ab") as said:
        process = subprocess.Popen(command(output), env=environment(), stdout=said, stderr=said)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def lines(output: Path) -> int:
    """How far the sweep is: events in the journals of its Runs."""
    return sum(path.read_bytes().count(b"\n") for path in output.glob("runs/*/*/*/journal.jsonl"))


def killed(output: Path, moment: random.Random, whole: int) -> bool:
    """Start the sweep, or go on with it, and kill it when it has come to a moment; False where it
    ended before."""
    here = lines(output)
    until = here + 1 + moment.randrange(max(1, (whole - here) // 2))
    pause, of_a_cell = moment.choice((0.0, 0.02, 0.1, 0.4)), moment.random() < 0.4
    with started(output) as process:
        while lines(output) < until:
            if process.poll() is not None:
                return False
            time.sleep(0.005)
        time.sleep(pause)
        victims = [pid for pid in descendants(process.pid) if is_cell(pid)] if of_a_cell else []
        for pid in victims[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victims:
            process.wait(240)  # it goes on with the other cell and says that this one failed
        return True


def is_cell(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"evopolicy.sweeps.cell\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def to_the_end(output: Path) -> None:
    with started(output) as process:
        assert process.wait(280) == 0, (output.parent / "said").read_text()[-4000:]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("chaos") / "undisturbed" / "output"
    output.parent.mkdir()
    script_of(output).parent.mkdir()
    script_of(output).write_text(AGENT)
    to_the_end(output)
    return output


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_a_sweep_whose_host_is_killed_again_and_again_is_the_one_nobody_disturbed(
    undisturbed: Path, round_: int
) -> None:
    output = undisturbed.parents[1] / f"round-{round_}" / "output"
    output.parent.mkdir()
    moment, whole = random.Random(round_), lines(undisturbed)
    kills = 0
    while kills < KILLS and killed(output, moment, whole):
        kills += 1
    to_the_end(output)
    print(f"round {round_}: {kills} kills")
    ours, theirs = runs_of(output), runs_of(undisturbed)
    assert {name: outcome(run) for name, run in ours.items()} == {
        name: outcome(run) for name, run in theirs.items()
    }
    assert_clocks(ours.values())
    for run in ours.values():
        assert_transcripts(run)
    assert logged(output) == logged(undisturbed)


def runs_of(output: Path) -> dict[str, Run]:
    return {
        str(run.folder.relative_to(output)): run
        for run in (load_run(one.folder) for one in find_runs(output))
    }


def outcome(run: Run) -> dict[str, Any]:
    state, result = run.state, run.result
    charged = [
        event["submission"] for event in read_journal(run.folder) if event["event"] == "reserved"
    ]
    return {
        "charges": (charged, [s.units_used for s in state.submissions]),
        "submissions": [
            (s.program, s.indices, s.status, s.score, dict(s.failures)) for s in state.submissions
        ],
        "graded": [
            read_graded(run.feedback(s.id).parent / "outcomes.jsonl") for s in state.submissions
        ],
        "ended": (state.closed_by, state.named, state.agent_ended, state.candidates),
        "validation": dict(result.validation),
        "assessment": (result.selected, result.selected_submission, result.assessment),
        "valid": (run.valid, result.reasons),
    }


def assert_clocks(runs: Iterable[Run]) -> None:
    """An agent is charged no second for which its calls waited, nor one that it did not live.

    Between an event of the journal and the clock's standing lies what a disk takes to keep the
    event: most of what was waited counts, not all of it to a hundredth, which is another thing on a
    busy machine."""
    waited, stood = (
        math.fsum(seconds)
        for seconds in zip(*(clock for run in runs for clock in clocks_of(run)), strict=True)
    )
    assert waited > 0 and stood >= waited / 2, (waited, stood)


def clocks_of(run: Run) -> Iterator[tuple[float, float]]:
    """Of each attempt: for how long its calls waited, by the journal's times, and for how long its
    clock stood."""
    attempt: list[Mapping[str, Any]] = []
    for event in read_journal(run.folder):
        if event["event"] == "agent_started":
            attempt = []
        attempt.append(event)
        if event["event"] == "agent_ended" and "thinking_seconds" in event:
            clocks = [one["clock"] for one in attempt if "clock" in one]
            assert not clocks or event["evaluating_seconds"] >= clocks[-1]["evaluating"]
            lived = event["time"] - attempt[0]["time"]
            assert event["thinking_seconds"] + event["evaluating_seconds"] <= lived + 0.01, (
                run.folder,
                attempt,
            )
            yield sum(end - begin for begin, end in waits(attempt)), event["evaluating_seconds"]


def waits(attempt: list[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
    """Begin and end of each wait that came to its end while its agent was at work, by the journal's
    times."""
    begun: float | None = None
    for event in attempt:
        if event["event"] == "wait_began" or (event["event"] == "reserved" and event.get("waits")):
            begun = event["time"]
        elif (
            event["event"] in ("wait_ended", "published") and "clock" in event and begun is not None
        ):
            yield begun, event["time"]
            begun = None


def assert_transcripts(run: Run) -> None:
    attempts = sorted((run.folder / "agent").glob("attempt-*"))
    assert [path for path in attempts if (path / "stdout.log").exists() and not is_kept(path)] == []
    told = [step.text for transcript in load_transcripts(run.folder) for step in transcript.steps]
    assert sum(text.startswith("finish") for text in told) >= 1
    for number in range(1, len(SELECTORS) + 1):
        assert any(f'"id": {number}' in text or f'"id":{number}' in text for text in told)
    left = [
        path
        for path in run.folder.rglob(".*")
        if path.name.endswith((".staging", ".copy")) or path.name == "home"
    ]
    assert left == []


def logged(output: Path) -> dict[str, Any]:
    """What the MLflow store has of each cell, but for times and what an agent's further attempts
    change."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{output / 'mlflow.db'}")
    found = {}
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id], "tags.kind = 'cell'"):
            metrics = {
                name: [
                    (point.step, point.value)
                    for point in client.get_metric_history(run.info.run_id, name)
                ]
                for name in run.data.metrics
                if not name.startswith(("time/", "usage/", "agent/", "system/"))
            }
            tags = {
                name: value
                for name, value in run.data.tags.items()
                if name in ("valid", "reasons", "status")
            }
            found[str(run.info.run_name)] = (metrics, tags, run.info.status)
    return found
