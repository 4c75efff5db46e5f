"""Output folders with a migrated database in them: migrating one takes seconds, so it is done once
and copied."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname, urlopen

import pytest

from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript, Usage
from evopolicy.kernel.run.stream import write_transcript
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.record import Run
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
    """Entries by name; each has the mean of its valid held-out scores, and the last name the best
    rank."""
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
    artifacts: Mapping[str, bytes]
    models: Mapping[str, tuple[str, Mapping[str, float]]]
    """Status and last metrics, by name."""
    parent: str
    """Identity."""
    traces: tuple[str, ...]


def dump(store: Store) -> dict[str, Logged]:
    """All runs of the store's experiment by their identity."""
    client = store.client
    models = client.search_logged_models([store.experiment_id])
    found = {}
    runs = client.search_runs([store.experiment_id], run_view_type=3)
    identities = {run.info.run_id: run.data.tags["identity"] for run in runs}
    traces = client.search_traces(locations=[store.experiment_id], include_spans=False)
    for run in runs:
        if run.info.lifecycle_stage != "active":
            continue
        run_id = run.info.run_id
        assert run.data.tags["identity"] not in found, "two runs of one identity"
        keep = {k: v for k, v in run.data.tags.items() if k not in ("mlflow.parentRunId",)}
        found[run.data.tags["identity"]] = Logged(
            run.info.run_name,
            run.info.status,
            run.info.end_time,
            keep,
            dict(run.data.params),
            {
                key: tuple(
                    sorted(
                        (m.step, m.timestamp, m.value)
                        for m in client.get_metric_history(run_id, key)
                    )
                )
                for key in sorted(run.data.metrics)
            },
            _files(client, run),
            {
                m.name: (str(m.status), {x.key: x.value for x in m.metrics or ()})
                for m in models
                if m.source_run_id == run_id
            },
            identities.get(run.data.tags.get("mlflow.parentRunId", ""), ""),
            tuple(
                sorted(
                    t.info.trace_id
                    for t in traces
                    if t.info.trace_metadata["mlflow.sourceRun"] == run_id
                )
            ),
        )
    return found


def _files(client: Any, run: Any) -> dict[str, bytes]:
    place = urlsplit(run.info.artifact_uri)
    if place.scheme not in ("", "file"):
        with TemporaryDirectory() as folder:
            return _below(Path(client.download_artifacts(run.info.run_id, "", folder)))
    return _below(Path(url2pathname(place.path)))


def _below(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(name="dump")
def dump_fixture() -> Callable[[Store], dict[str, Logged]]:
    return dump


@pytest.fixture
def tracking_server(
    tmp_path: Path, migrated: Path, free_port: Callable[[], int]
) -> Callable[..., Any]:
    """`with tracking_server() as uri`: a real MLflow server on loopback with a database of its
    own."""

    @contextmanager
    def run(port: int = 0) -> Iterator[str]:
        folder = tmp_path / "server"
        folder.mkdir(exist_ok=True)
        if not (folder / "m.db").exists():
            shutil.copyfile(migrated, folder / "m.db")
        port = port or free_port()
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
        command += [
            "--backend-store-uri",
            f"sqlite:///{folder / 'm.db'}",
            "--artifacts-destination",
            str(folder / "a"),
        ]
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
            while True:  # a hang is ended by the test's own limit
                assert process.poll() is None, "the MLflow server ended"
                try:
                    urlopen(f"http://127.0.0.1:{port}/health", timeout=60).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 9)
            process.wait()

    return run


@pytest.fixture
def free_port() -> Iterator[Callable[[], int]]:
    """Ports on loopback where nobody listens, and that nobody else is given until the test has
    ended.

    Each is held by a socket that is bound and never listens: the kernel hands it to no other, who
    connects is refused, and a server that allows the address to be used again, as all do, may still
    listen there."""
    with contextlib.ExitStack() as held:

        def port() -> int:
            holder = held.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            return int(holder.getsockname()[1])

        yield port


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
"""Of the Run that `write_run` makes: its attempt begins at second 1, its Submissions are from 2 to
3 and 4 to 5."""


def lay_attempt(
    folder: Path, transcript: Transcript = A_TRANSCRIPT, number: int = 1, **streams: str
) -> Path:
    """What an attempt leaves in the Run's folder: its transcript and its streams, by their names
    without suffix."""
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
