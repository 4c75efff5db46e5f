"""Output folders with a migrated database in them: migrating one takes seconds, so it is done once and copied."""

from __future__ import annotations

import fcntl
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from evopolicy.kernel.record import Run
from evopolicy.kernel.stream import write_transcript
from evopolicy.kernel.sweep import Cell
from evopolicy.kernel.transcript import Step, ToolCall, Transcript, Usage
from evopolicy.tracking.store import QUIET, Store, Tracking, connect, forget_inherited


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Other people's packages warn while they are imported; one worker imports them once."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))
            item.add_marker(pytest.mark.xdist_group("mlflow"))


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty migrated database."""
    folder = tmp_path_factory.getbasetemp().parent / "migrated"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            forget_inherited()
            from mlflow import MlflowClient

            MlflowClient(f"sqlite:///{folder / 'mlflow.db'}").search_experiments(max_results=1)
            (folder / "done").touch()
    return folder / "mlflow.db"


@pytest.fixture
def output(tmp_path: Path, migrated: Path) -> Path:
    """An output folder (`tmp_path`, where `make_run` writes) whose database is ready."""
    shutil.copyfile(migrated, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture
def store(output: Path) -> Store:
    return connect(Tracking(), output)


@dataclass(frozen=True)
class FakeRank:
    """As `evopolicy.analysis.EntryRank`, for what tracking asks of one."""

    rank_score: float | None = 0.5
    wins: int = 1
    top2: int = 2
    benchmarks: int = 2
    cells_done: int = 0
    cells_total: int = 4
    failures: int = 0
    policy_failures: int = 3
    wall_seconds: float = 19.0
    usage: Mapping[str, float] = field(default_factory=lambda: {"output_tokens": 1200.0})
    heldout: Mapping[str, float] = field(default_factory=dict)


def fake_ranks(runs: Sequence[Run], cells: Sequence[Cell]) -> dict[str, FakeRank]:
    """Entries by name; each has the mean of its valid held-out scores, and the last name the best rank."""
    ranks = {}
    entries = sorted({cell.entry for cell in cells}, reverse=True)
    for place, entry in enumerate(entries):
        mine = [run for run in runs if run.record.entry == entry and run.valid]
        heldout: dict[str, list[float]] = {}
        for run in mine:
            assert run.result.assessment is not None
            heldout.setdefault(run.record.benchmark.slug, []).append(run.result.assessment.mean)
        ranks[entry] = FakeRank(
            rank_score=1 - place / max(len(entries) - 1, 1) if mine else None,
            cells_done=len(mine),
            cells_total=sum(cell.entry == entry for cell in cells),
            failures=sum(cell.entry == entry and cell.status == "failed" for cell in cells),
            heldout={benchmark: sum(scores) / len(scores) for benchmark, scores in heldout.items()},
        )
    return ranks


@pytest.fixture
def rank() -> Callable[..., Any]:
    return fake_ranks


@dataclass(frozen=True)
class Logged:
    """Everything of one MLflow run that two ways of logging must agree on."""

    name: str
    status: str
    end: int | None
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, tuple[tuple[int, int, float], ...]]
    """Step, milliseconds and value, by key."""
    artifacts: tuple[str, ...]
    models: Mapping[str, tuple[str, Mapping[str, float]]]
    """Status and last metrics, by name."""


def dump(store: Store) -> dict[str, Logged]:
    """All runs of the store's experiment by their identity."""
    client = store.client
    models = client.search_logged_models([store.experiment_id])
    found = {}
    for run in client.search_runs([store.experiment_id]):
        run_id = run.info.run_id
        keep = {k: v for k, v in run.data.tags.items() if k not in ("mlflow.parentRunId",)}
        found[run.data.tags["identity"]] = Logged(
            run.info.run_name,
            run.info.status,
            run.info.end_time,
            keep,
            dict(run.data.params),
            {
                key: tuple(sorted((m.step, m.timestamp, m.value) for m in client.get_metric_history(run_id, key)))
                for key in sorted(run.data.metrics)
            },
            tuple(sorted(_files(client, run_id, ""))),
            {
                m.name: (str(m.status), {x.key: x.value for x in m.metrics or ()})
                for m in models
                if m.source_run_id == run_id
            },
        )
    return found


def _files(client: Any, run_id: str, path: str) -> Iterator[str]:
    for item in client.list_artifacts(run_id, path):
        if item.is_dir:
            yield from _files(client, run_id, item.path)
        else:
            yield item.path


@pytest.fixture(name="dump")
def dump_fixture() -> Callable[[Store], dict[str, Logged]]:
    return dump


@pytest.fixture
def tracking_server(tmp_path: Path, migrated: Path) -> Callable[..., Any]:
    """`with tracking_server() as uri`: a real MLflow server on loopback with a database of its own."""

    @contextmanager
    def run(port: int = 0) -> Iterator[str]:
        folder = tmp_path / "server"
        folder.mkdir(exist_ok=True)
        if not (folder / "m.db").exists():
            shutil.copyfile(migrated, folder / "m.db")
        port = port or free_port()
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{folder / 'm.db'}", "--artifacts-destination", str(folder / "a")]
        import os

        environment = {**os.environ, **QUIET, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            for _ in range(1_800):
                assert process.poll() is None, "the MLflow server ended"
                try:
                    urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 9)
            process.wait()

    return run


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(name="free_port")
def free_port_fixture() -> Callable[[], int]:
    return free_port


A_TRANSCRIPT = Transcript(
    steps=(
        Step("user", "Read TASK.md.", seconds=0.0),
        Step(
            "agent",
            "I read the **task**.",
            reasoning="What balances a pole?",
            seconds=0.4,
            calls=(ToolCall("c1", "shell", {"command": "cat TASK.md"}, "the task", started=0.5, ended=0.625),),
        ),
        Step(
            "agent",
            "A first try.",
            seconds=0.75,
            submission=1,
            calls=(
                ToolCall("c2", "edit", {"path": "policy.py"}, "no such file", failed=True, started=0.8, ended=0.9),
                ToolCall(
                    "c3", "shell", {"command": "evopolicy-session submit program"}, '{"submission": 1}',
                    started=0.95, ended=2.25,
                ),
            ),
        ),
        Step("agent", "It balances.", seconds=4.5),
    ),
    usage=Usage(1000, 5000, None, 1200),
    completed=True,
    session_id="sess-1",
    seconds=4.5,
)  # fmt: skip
"""Of the Run that `write_run` makes: its attempt begins at second 1, its Submissions are from 2 to 3 and 4 to 5."""


def lay_attempt(folder: Path, transcript: Transcript = A_TRANSCRIPT, number: int = 1, **streams: str) -> Path:
    """What an attempt leaves in the Run's folder: its transcript and its streams, by their names without suffix."""
    logs = folder / "agent" / f"attempt-{number}"
    logs.mkdir(parents=True, exist_ok=True)
    write_transcript(logs, transcript)
    names = {"stdout": "stdout.log", "stderr": "stderr.log", "proxy": "proxy.jsonl"}
    for name, text in streams.items():
        (logs / names[name]).write_text(text)
    return logs


@pytest.fixture(name="lay_attempt")
def lay_attempt_fixture() -> Callable[..., Path]:
    return lay_attempt


@pytest.fixture
def transcript() -> Transcript:
    return A_TRANSCRIPT
