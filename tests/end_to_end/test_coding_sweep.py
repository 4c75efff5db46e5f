"""One command over three coding agents, against the scripted provider: three comparable cells in
MLflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.run.sweep import read_sweep, sweep_folder
from tests.agents.cli.programs import BIN, needs
from tests.agents.model_server.engineer import Tokens
from tests.agents.model_server.server import ModelServer, model_server
from tests.end_to_end.coding_run import KEY, KEY_VARIABLE, MODEL, holding, needs_bubblewrap

AGENTS = ("codex", "claude_code", "chat")
pytestmark = [
    pytest.mark.slow,
    needs_bubblewrap,
    needs(*AGENTS),
    pytest.mark.xdist_group("coding_sweep"),
]
Swept = tuple[Path, subprocess.CompletedProcess[str], ModelServer]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swept]:
    output = tmp_path_factory.mktemp("sweep") / "output"
    environment = {
        **os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", KEY_VARIABLE: KEY, "COLUMNS": "120",
    }  # fmt: skip
    with model_server() as server:
        command = [
            *(sys.executable, "-m", "evopolicy.cli.main", "-m", f"agent={','.join(AGENTS)}", "benchmark=cartpole"),
            f"agent.base_url={server.url}/v1", f"agent.model={MODEL}", f"agent.key_variable={KEY_VARIABLE}",
            "protocol=smoke", "sweep=three", f"output={output}",
        ]  # fmt: skip
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=600,
            env=environment,
            cwd=output.parent,
            check=False,
        )
        yield output, done, server


def test_the_sweep_ends_well_for_all_three(swept: Swept) -> None:
    output, done, server = swept
    assert done.returncode == 0, done.stdout + done.stderr
    assert [cell.status for cell in read_sweep(sweep_folder(output, "three")).cells] == [
        "finished"
    ] * 3
    assert "Traceback" not in done.stdout + done.stderr
    assert {answer.key for answer in server.answers} == {KEY}
    assert holding(output, KEY) == [] and KEY not in done.stdout + done.stderr


@pytest.fixture(scope="module")
def cells(swept: Swept) -> dict[str, dict[str, Any]]:
    """The cells in MLflow, by agent: tags, metrics and the number of spans of their trace."""
    output, done, _ = swept
    assert done.returncode == 0, done.stdout + done.stderr
    script = f"""
import json
from mlflow.tracking import MlflowClient
client = MlflowClient("sqlite:///{output}/mlflow.db")
experiment = client.get_experiment_by_name("evopolicy").experiment_id
found = {{}}
for run in client.search_runs([experiment], max_results=100):
    if run.data.tags["kind"] == "cell":
        traces = client.search_traces(locations=[experiment], run_id=run.info.run_id)
        spans = [span.name for trace in traces for span in trace.data.spans]
        found[run.data.tags["agent"]] = {{"tags": run.data.tags, "metrics": run.data.metrics, "spans": spans}}
print(json.dumps(found))
"""
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert told.returncode == 0, told.stderr
    found: dict[str, dict[str, Any]] = json.loads(told.stdout.splitlines()[-1])
    return found


def test_mlflow_has_one_cell_an_agent_that_reached_the_same(
    cells: dict[str, dict[str, Any]],
) -> None:
    assert sorted(cells) == sorted(AGENTS)
    metrics = {agent: cell["metrics"] for agent, cell in cells.items()}
    assert {agent: values["heldout/score"] for agent, values in metrics.items()} == dict.fromkeys(
        AGENTS, 500.0
    )
    # The same work in the same words: what is counted of it can be compared.
    shared = set.intersection(*(set(values) for values in metrics.values()))
    assert {name for name in shared if "tokens" in name} >= {
        "usage/input_tokens",
        "usage/output_tokens",
    }


def test_what_mlflow_says_of_tokens_is_what_the_server_served(
    swept: Swept, cells: dict[str, dict[str, Any]]
) -> None:
    ends = {"codex": "/responses", "claude_code": "/messages", "chat": "/chat/completions"}
    for agent, cell in cells.items():
        served = sum((a.tokens for a in swept[2].answers if a.path.endswith(ends[agent])), Tokens())
        told = [
            cell["metrics"].get(f"usage/{kind}_tokens", 0) for kind in ("input", "cached", "output")
        ]
        assert told == [served.fresh, served.cached, served.output], agent


def test_each_cell_has_its_transcript_as_a_trace(cells: dict[str, dict[str, Any]]) -> None:
    for agent, cell in cells.items():
        assert len(cell["spans"]) > 7, agent
