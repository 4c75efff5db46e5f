"""Makes a small set of whole records with the code of the commit it runs on: `python -m
tests.records.make FOLDER`.

One output folder: a sweep of two offline cells, a Run of a coding agent against the scripted
provider, an invalid one (its provider was down), one whose Host was killed, a regrade of the sweep,
and `numbers.json`, which says what each of them comes to as that commit reads it. Made once for
each version of the records, and never again: see docs/records.md."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from evopolicy import build
from evopolicy.analysis import find_runs
from evopolicy.kernel.session.record import Run
from evopolicy.presets import load_config
from tests.agents.model_server.faults import Fault
from tests.agents.model_server.server import model_server

OUTPUT, SWEEP, REGRADE, NUMBERS = "output", "tiny", "again", "numbers.json"
KEY_VARIABLE = "SCRIPTED_PROVIDER_KEY"
POOL = {"training": 4, "validation": 2, "assessment": 4}
SMALL = (
    "protocol=smoke",
    *(f"pool.{split}={size}" for split, size in POOL.items()),
    "execution.workers=1",
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.chdir(folder)  # every path in a record is relative then
    os.environ[KEY_VARIABLE] = "a-key-of-the-scripted-provider"
    _command(
        "agent=cma_es",
        "benchmark=cartpole",
        "seed=0,1",
        f"sweep={SWEEP}",
        "tracking=off",
        *SMALL,
        "-m",
    )
    with model_server() as server:
        _coding_run(server.url, seed=10)
    with model_server(Fault("status", status=503)) as server:
        _coding_run(server.url, seed=11)
    subprocess.run(
        [sys.executable, "-m", "tests.records.make", "--killed"], env=_environment(), check=False
    )
    _command(
        "regrade", f"sweep={SWEEP}", "pool.assessment=6", f"name={REGRADE}", "execution.workers=1"
    )
    _trim(Path(OUTPUT))
    Path(NUMBERS).write_text(json.dumps(numbers(Path(OUTPUT)), indent=1, sort_keys=True) + "\n")


def _trim(output: Path) -> None:
    """The workspace of a Run that has ended is read by nobody."""
    for run in find_runs(output):
        if run.finished:
            shutil.rmtree(run.folder / "workspace")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)}


def _command(*words: str) -> None:
    start = "import sys; from evopolicy.cli.main import main; sys.exit(main())"
    words = (*words, f"output={OUTPUT}")
    subprocess.run([sys.executable, "-c", start, *words], env=_environment(), check=True)


def _coding_run(url: str, seed: int) -> None:
    agent = {
        "name": "chat",
        "model": "scripted-1",
        "base_url": f"{url}/v1",
        "key_variable": KEY_VARIABLE,
        "retries": 0,
    }
    execution = {"agent_network": "proxy", "workers": 1}
    build.run_cell(
        _config(agent, seed, execution=execution, session={"retries": 1, "backoff_seconds": 0.01})
    )


def _config(agent: dict[str, Any], seed: int, **settings: Any) -> Any:
    return load_config(
        "smoke",
        output=OUTPUT,
        agent=agent,
        benchmark="cartpole",
        seed=seed,
        pool=POOL,
        tracking="off",
        **settings,
    )


class _Killer:
    """Kills its own Host once the first Submission is published."""

    def on_event(self, event: Any) -> None:
        if event["event"] == "published":
            os.kill(os.getpid(), signal.SIGKILL)

    def on_progress(self, _: Any) -> None:
        """Nothing to do."""


def numbers(output: Path) -> dict[str, Any]:
    """What the records under `output` come to, by each Run's folder."""
    found = [*find_runs(output), *find_runs(output / "regrades" / REGRADE)]
    return {run.folder.relative_to(output).as_posix(): _numbers(run) for run in found}


def _numbers(run: Run) -> dict[str, Any]:
    state, result = run.state, run.result
    measured = result.assessment
    return {
        "finished": run.finished,
        "valid": run.valid,
        "reasons": list(result.reasons),
        "entry": run.record.entry,
        "seed": run.record.seed,
        "isolation": run.record.isolation,
        "scores": [s.score for s in state.submissions],
        "units": [s.units_used for s in state.submissions],
        "programs": [s.program for s in state.submissions],
        "selected": result.selected_submission,
        "heldout": [measured.mean, measured.standard_error] if measured else None,
        "ended": state.agent_ended,
        "attempts": state.agent_attempts,
        "turns": state.turns,
        "tool_calls": state.tool_calls,
        "usage": dict(state.usage),
        "thinking_seconds": state.thinking_seconds,
    }


if __name__ == "__main__":
    if sys.argv[1] == "--killed":
        build.run_cell(_config({"name": "cma_es"}, 2, execution={"workers": 1}), [_Killer()])
    else:
        main(Path(sys.argv[1]).absolute())
