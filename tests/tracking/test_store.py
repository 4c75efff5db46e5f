"""Finding, making and migrating the place that is logged to."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import ConfigError, TrackingError
from evopolicy.tracking.download import download
from evopolicy.tracking.follow import track
from evopolicy.tracking.store import (
    Store,
    Tracking,
    connect,
    open_existing,
    resolve_uri,
    unused_variable,
)

LOG_FROM_EIGHT_PROCESSES = """
import os, sys
from pathlib import Path
from evopolicy.tracking.store import Tracking, connect, forget_inherited
forget_inherited()
import mlflow  # once for all eight, so that they meet in the migration
def log_one_run(n):
    os.environ["MLFLOW_RUN_ID"] = "0" * 32
    store = connect(Tracking(), Path(sys.argv[1]))
    run = store.client.create_run(store.experiment_id, tags={"n": str(n)})
    store.client.log_metric(run.info.run_id, "score", float(n))
children = []
for n in range(8):
    child = os.fork()
    if child == 0:
        try:
            log_one_run(n)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


def test_without_a_uri_it_is_sqlite_under_the_output_folder(tmp_path: Path) -> None:
    assert resolve_uri(Tracking(), tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    assert resolve_uri(Tracking("http://h:1"), tmp_path) == "http://h:1"


@pytest.mark.parametrize("uri", ["mlruns", "file:///tmp/mlruns", "/tmp/x.db"])
def test_a_folder_is_refused_before_anything_starts(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"tracking.uri: .*leave it empty for SQLite"):
        Tracking(uri)


def test_unknown_artifacts_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"tracking\.artifacts: one of standard, full is needed, found 'all'"
    ):
        Tracking(artifacts="all")


def test_a_sweep_says_where_it_is_tracked() -> None:
    assert Tracking.from_mapping({}) == Tracking()
    given = {"uri": "http://h:1", "experiment": "mine", "artifacts": "full"}
    assert Tracking.from_mapping(given) == Tracking("http://h:1", "mine", "full")


@pytest.mark.slow
def test_eight_processes_at_once_on_a_fresh_database_all_succeed(tmp_path: Path) -> None:
    environment = {**os.environ, "MLFLOW_EXPERIMENT_NAME": "somebody_elses"}
    command = [sys.executable, "-c", LOG_FROM_EIGHT_PROCESSES, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    store = connect(Tracking(), tmp_path)
    runs = store.client.search_runs([store.experiment_id])
    assert sorted(run.data.metrics["score"] for run in runs) == list(range(8))
    assert "somebody_elses" not in {e.name for e in store.client.search_experiments()}


def test_an_inherited_run_id_is_forgotten(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    connect(Tracking(), output)
    assert "MLFLOW_RUN_ID" not in os.environ


def test_the_experiment_is_made_once_and_found_again(store: Store, output: Path) -> None:
    assert connect(Tracking(), output).experiment_id == store.experiment_id
    experiment = store.client.get_experiment(store.experiment_id)
    assert experiment.name == "evopolicy"
    assert experiment.artifact_location == (output / "mlartifacts" / "evopolicy").as_uri()


def test_what_was_logged_lies_where_the_folder_is_when_that_is_moved_or_copied(
    tmp_path: Path,
) -> None:
    """It went on going to the old path, which was made again."""
    output = tmp_path / "first"
    store = connect(Tracking(), output)
    run_id = store.client.create_run(store.experiment_id).info.run_id
    store.client.log_text(run_id, "1", "first.txt")
    shutil.copytree(output, tmp_path / "copy")
    output.rename(tmp_path / "moved % it's")
    for place in (tmp_path / "moved % it's", tmp_path / "copy"):
        _, client = open_existing(Tracking(), place)
        assert [file.path for file in client.list_artifacts(run_id)] == ["first.txt"]
        again = connect(Tracking(), place)
        other = again.client.create_run(
            again.experiment_id
        ).info  # a process remembers where the first one's files are
        again.client.log_text(other.run_id, place.name, "second.txt")
        assert [path.read_text() for path in place.rglob("second.txt")] == [place.name]
        assert _named(place, output) == 0
    assert not output.exists()


def _named(place: Path, former: Path) -> int:
    """Experiments and runs that still name a former folder."""
    rows = sqlite3.connect(place / "mlflow.db").execute(
        "SELECT artifact_location FROM experiments UNION ALL SELECT artifact_uri FROM runs"
    )
    return sum(str(former) in row[0] for row in rows)


def test_a_variable_that_is_not_followed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@host:5000")
    assert unused_variable("sqlite:///x.db") == ""
    said = unused_variable("")
    assert (
        "is set and not followed" in said and "tracking.uri=${oc.env:MLFLOW_TRACKING_URI}" in said
    )
    assert "secret" not in said
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert unused_variable("") == ""


def test_an_experiment_that_was_deleted_is_named(store: Store, output: Path) -> None:
    store.client.delete_experiment(store.experiment_id)
    with pytest.raises(TrackingError, match="'evopolicy' was deleted"):
        connect(Tracking(), output)


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path, free_port: object) -> None:
    uri = f"http://me:secret@127.0.0.1:{free_port()}"  # type: ignore[operator]
    with pytest.raises(TrackingError, match="opening the store at http://") as caught:
        connect(Tracking(uri), tmp_path)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_database_whose_making_was_cut_off_is_migrated(tmp_path: Path) -> None:
    half = """
import sys, sqlalchemy
from alembic import command
from mlflow.store.db.utils import _get_alembic_config
from mlflow.store.tracking.dbmodels.initial_models import Base
uri = sys.argv[1]
engine = sqlalchemy.create_engine(uri)
Base.metadata.create_all(engine)
config = _get_alembic_config(uri)
with engine.begin() as connection:
    config.attributes["connection"] = connection
    command.upgrade(config, "+12")
"""
    uri = resolve_uri(Tracking(), tmp_path)
    subprocess.run([sys.executable, "-c", half, uri], check=True, capture_output=True)
    store = connect(Tracking(), tmp_path)
    assert store.client.get_experiment(store.experiment_id).name == "evopolicy"


def test_a_database_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    """A disk that was full within its making left one that nothing could open any more, by no
    command."""
    output = tmp_path / "output"
    full = """
import resource, signal, sys
from pathlib import Path
from evopolicy.kernel.errors import TrackingError
from evopolicy.tracking.store import Tracking, connect
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (220 << 10, resource.RLIM_INFINITY))
try:
    connect(Tracking(), Path(sys.argv[1]))
except TrackingError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", full, str(output)], capture_output=True, text=True, check=True
    )
    assert (
        "tracking: making the store at sqlite:///" in done.stdout
        and str(output / "mlflow.db") in done.stdout
    )
    assert not (output / "mlflow.db").exists()
    assert connect(Tracking(), output).experiment_id
    assert sorted(path.name for path in output.iterdir()) == [".mlflow.lock", "mlflow.db"]


def test_a_database_that_was_left_half_made_is_told_with_its_remedy(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute("CREATE TABLE _alembic_tmp_trace_tags (x TEXT)")
    with pytest.raises(
        TrackingError, match=r"delete it and run evopolicy track source=.*anew from the records"
    ):
        connect(Tracking(), tmp_path)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text(
        "this is no database at all, but it has some length to it" * 10
    )
    with pytest.raises(TrackingError, match="opening the store at sqlite:///"):
        connect(Tracking(), tmp_path)


HARD = "a%20b?c#d é@f;g&h=i+j"
"""A folder's name that means something else wherever it is put into a URI as it is."""


def test_a_database_lies_in_its_output_folder_whatever_that_is_called(
    tmp_path: Path, migrated: Path, records: Any, rank: Any
) -> None:
    (tmp_path / HARD).mkdir()
    asked = tmp_path / "elsewhere" / ".." / HARD
    shutil.copyfile(migrated, tmp_path / HARD / "mlflow.db")
    (tmp_path / "elsewhere").mkdir()
    folder = records.write_run(tmp_path / HARD)
    assert track(folder, asked, Tracking(), rank).missing == ()
    store = connect(Tracking(), asked)
    (run,) = store.client.search_runs([store.experiment_id])
    with sqlite3.connect(os.fsencode(tmp_path / HARD / "mlflow.db")) as database:
        assert database.execute("select run_uuid from runs").fetchall() == [(run.info.run_id,)]
    kept = store.client.download_artifacts(
        run.info.run_id, "programs/0001/policy.py", str(tmp_path)
    )
    assert Path(kept).read_text().startswith("# cma_es 0 1")
    assert (
        tmp_path
        / HARD
        / "mlartifacts"
        / "evopolicy"
        / run.info.run_id
        / "artifacts"
        / "record.json"
    ).is_file()
    assert download("evopolicy", asked, Tracking()).fetched == 1
    assert {path.name for path in tmp_path.iterdir()} == {HARD, "elsewhere", "policy.py"}


def test_a_database_that_is_not_there_is_named_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(
        TrackingError, match=re.escape(f"there is no database {tmp_path / HARD / 'mlflow.db'};")
    ):
        open_existing(Tracking(), tmp_path / HARD)
