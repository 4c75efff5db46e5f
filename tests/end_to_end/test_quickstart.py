"""The README's first command, on two of its Benchmarks and one seed: from the command line to the
table and MLflow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicy.analysis import entry_ranks, find_runs
from evopolicy.kernel.run.sweep import read_sweep, sweep_folder

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("quickstart")]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quickstart")


def evopolicy(*arguments: str, output: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evopolicy.cli.main", *arguments, f"output={output}"]
    environment = {**os.environ, "COLUMNS": "120"}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=900,
        env=environment,
        cwd=output,
        check=False,
    )


@pytest.fixture(scope="module")
def swept(output: Path) -> subprocess.CompletedProcess[str]:
    return evopolicy(
        "-m", "experiment=quickstart", "benchmark=cartpole,pendulum", "seed=0", output=output
    )


def test_one_command_ends_with_the_table_and_the_way_to_mlflow(
    swept: subprocess.CompletedProcess[str],
) -> None:
    assert swept.returncode == 0, swept.stdout + swept.stderr
    table = swept.stdout.partition("rank")[2]
    assert [word for word in ("cma_es", "baseline", "random") if word not in table] == []
    assert "evopolicy ui sweep=quickstart" in swept.stdout
    assert "Traceback" not in swept.stdout + swept.stderr


def test_cma_es_beats_the_initial_program_on_held_out_episodes(
    swept: subprocess.CompletedProcess[str], output: Path
) -> None:
    assert swept.returncode == 0
    heldout = {
        (run.record.entry, run.record.benchmark.slug): run.result.assessment.mean
        for run in find_runs(sweep_folder(output, "quickstart"))
        if run.valid and run.result.assessment
    }
    assert len(heldout) == 6
    for benchmark in ("cartpole", "pendulum"):
        assert (
            heldout["cma_es", benchmark]
            > heldout["baseline", benchmark]
            > heldout["random", benchmark]
        )


def test_mlflow_holds_the_sweep_the_agents_and_the_cells(
    swept: subprocess.CompletedProcess[str], output: Path
) -> None:
    assert swept.returncode == 0
    script = f"""
from mlflow.tracking import MlflowClient
client = MlflowClient("sqlite:///{output}/mlflow.db")
experiment = client.get_experiment_by_name("evopolicy").experiment_id
runs = client.search_runs([experiment], max_results=100)
kinds = [run.data.tags["kind"] for run in runs]
print(sorted(kinds))
for run in runs:
    if run.data.tags["kind"] == "agent":
        print(run.data.tags["agent"], run.data.metrics["rank_score"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    lines = done.stdout.splitlines()
    assert lines[0] == str(["agent"] * 3 + ["cell"] * 6 + ["sweep"]), done.stderr
    runs = find_runs(sweep_folder(output, "quickstart"))
    ranks = entry_ranks(list(runs), read_sweep(sweep_folder(output, "quickstart")).cells)
    assert sorted(lines[1:]) == sorted(
        f"{entry} {rank.rank_score}" for entry, rank in ranks.items()
    )


def test_the_same_command_reuses_every_cell(
    swept: subprocess.CompletedProcess[str], output: Path
) -> None:
    assert swept.returncode == 0
    again = evopolicy(
        "-m",
        "experiment=quickstart",
        "benchmark=cartpole,pendulum",
        "seed=0",
        "tracking=off",
        output=output,
    )
    assert again.returncode == 0
    assert [cell.status for cell in read_sweep(sweep_folder(output, "quickstart")).cells] == [
        "reused"
    ] * 6
    assert (
        swept.stdout.partition("rank")[2].splitlines()[:6]
        == again.stdout.partition("rank")[2].splitlines()[:6]
    )
