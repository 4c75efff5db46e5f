"""Where tracking goes: the store behind a tracking URI, made and migrated once, whoever comes
first."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

from evopolicy.kernel.errors import ConfigError, TrackingError
from evopolicy.kernel.files.durable import move_durably, open_lock
from evopolicy.kernel.files.received import is_inside
from evopolicy.kernel.secrecy.secrets import MASK, NO_SECRETS, mask_uri
from evopolicy.tracking.moved import ARTIFACTS_FOLDER, settle

ARTIFACTS = ("standard", "full")
EXPERIMENT = "evopolicy"
VARIABLE = "MLFLOW_TRACKING_URI"
"""MLflow's own variable for the address of a store."""
LOCK = ".mlflow.lock"
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_SCHEMES = (*_DATABASES, "http", "https", "databricks")
_INHERITED = (
    "MLFLOW_RUN_ID",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_EXPERIMENT_NAME",
    "MLFLOW_ACTIVE_MODEL_ID",
    "_MLFLOW_ACTIVE_MODEL_ID",
)
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
_NOT_IN_URIS = str.maketrans({letter: f"%{ord(letter):02X}" for letter in "%?#"})
"""What means something in a URI; every other letter of a path stands for itself."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Tracking:
    """What a config says of tracking."""

    uri: str = ""
    """An MLflow tracking URI; '' for `sqlite:///<output>/mlflow.db`."""
    experiment: str = EXPERIMENT
    """MLflow experiment that holds the runs."""
    artifacts: str = "standard"
    """'standard' (permanent artifacts), or 'full': bulk traces and replays too."""

    def __post_init__(self) -> None:
        if self.artifacts not in ARTIFACTS:
            raise ConfigError(
                f"tracking.artifacts: one of {', '.join(ARTIFACTS)} is needed, found "
                f"'{self.artifacts}'"
            )
        if not self.experiment.strip():
            raise ConfigError("tracking.experiment: a name is needed, found ''")
        scheme = urlsplit(self.uri).scheme.partition("+")[0]
        if self.uri and self.uri != "databricks" and scheme not in _SCHEMES:
            raise ConfigError(
                f"tracking.uri: '{mask_uri(self.uri)}' is neither a database nor a server "
                f"({', '.join(_SCHEMES)}); MLflow writes to no plain folder any more, leave it "
                "empty for SQLite"
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, str]) -> Tracking:
        """As `Sweep.tracking` holds it; what is missing has its default."""
        return cls(
            values.get("uri", "") or "",
            values.get("experiment") or EXPERIMENT,
            values.get("artifacts") or "standard",
        )


@dataclass(frozen=True)
class Store:
    """A connection that is ready to log to."""

    uri: str
    client: Any
    """`mlflow.MlflowClient`."""
    experiment_id: str
    artifacts: str
    """As `Tracking.artifacts`."""
    lock: Path
    """Held while a run is looked up and created, so that two trackers never make two of it."""


def resolve_uri(tracking: Tracking, output: Path) -> str:
    """The URI to connect to: the configured one, or SQLite under `output`. Raises ConfigError as
    `whole_uri` does."""
    return whole_uri(tracking.uri) or sqlite_uri(output.resolve() / "mlflow.db")


def unused_variable(uri: str) -> str:
    """What to tell somebody who sets MLflow's VARIABLE and whose runs go to the output folder; ''
    where all is well."""
    given = os.environ.get(VARIABLE, "")
    if uri or not given:
        return ""
    return (
        f"note: {VARIABLE} is set and not followed: this goes to the output folder's own database;"
        f" 'tracking.uri=${{oc.env:{VARIABLE}}}' goes to {mask_uri(given)}"
    )


def whole_uri(uri: str) -> str:
    """`uri`, or where a record holds it without its password, what VARIABLE says. Raises
    ConfigError where it does not.

    What is written down never has the password: it is known to the command line and the environment
    alone."""
    if MASK not in uri:
        return uri
    given = os.environ.get(VARIABLE, "")
    if mask_uri(given) != uri:
        raise ConfigError(
            f"tracking.uri: '{uri}' is as the record has it, without its secret; give the whole "
            f"address again (tracking.uri=...), or put it into the variable {VARIABLE}"
        )
    return given


def sqlite_uri(path: Path) -> str:
    """The URI of the SQLite database in the file `path`, whatever the names of its folders."""
    quoted = str(path).translate(_NOT_IN_URIS)
    # Of a plain `sqlite:` URI MLflow makes the folder as it is written, quoted, where it is none;
    # else never.
    scheme = "sqlite" if quoted == str(path) else "sqlite+pysqlite"
    return f"{scheme}:///{quoted}"


def sqlite_file(uri: str) -> Path | None:
    """The file of a SQLite database's URI; None for any other store."""
    scheme, _, path = uri.partition(":///")
    return Path(unquote(path.partition("?")[0])) if scheme.partition("+")[0] == "sqlite" else None


def is_database(uri: str) -> bool:
    """Whether `uri` is opened directly, so that its tables are ours to create."""
    return urlsplit(uri).scheme.partition("+")[0] in _DATABASES


def connect(tracking: Tracking, output: Path) -> Store:
    """Open the store, create and migrate its database and experiment where they are missing.

    Any number of processes may do so at once. Raises TrackingError where it cannot be reached or
    written."""
    uri = resolve_uri(tracking, output)
    for name in ("mlflow.db", ARTIFACTS_FOLDER) if not tracking.uri else ():
        if not is_inside(output, output / name):
            raise TrackingError(
                f"tracking: {output / name} is a link out of its folder; name the store: "
                "tracking.uri=URI"
            )
    forget_inherited()
    try:
        output.mkdir(parents=True, exist_ok=True)
        with hold(output / LOCK):
            if not tracking.uri:
                _make_whole(output.resolve() / "mlflow.db")
            client = _client(uri, own=not tracking.uri)
            if not tracking.uri:
                settle(output.resolve() / "mlflow.db")
            experiment_id = _experiment(
                client, tracking.experiment, _artifact_root(uri, tracking, output)
            )
    except OSError as error:
        raise TrackingError(
            f"tracking: {output} cannot be written ({error.strerror}); choose another output"
        ) from None
    return Store(uri, client, experiment_id, tracking.artifacts, output / LOCK)


def reach(tracking: Tracking, output: Path) -> None:
    """Open the store and ask it something, changing nothing in it. Raises TrackingError where it
    does not answer."""
    uri = resolve_uri(tracking, output)
    forget_inherited()
    guarded(uri, "opening the store", _open_client, uri)


def open_existing(tracking: Tracking, output: Path) -> tuple[str, Any]:
    """The URI and a client of a store that is there already; nothing is created in it.

    Raises TrackingError where there is none or it does not answer.
    """
    uri = resolve_uri(tracking, output)
    file = sqlite_file(uri)
    if file is not None and not file.is_file():
        raise TrackingError(
            f"tracking: there is no database {file}; name the store: tracking.uri=URI, or its "
            "output="
        )
    forget_inherited()
    client = _client(uri, own=not tracking.uri)
    if file is not None and not tracking.uri and is_inside(output, file):
        settle(file)
    return uri, client


def forget_inherited() -> None:
    """Drop what would put our runs inside somebody else's, and silence MLflow's telemetry, before
    it is imported."""
    for name in _INHERITED:
        os.environ.pop(name, None)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the file lock at `path`; waits for whoever has it."""
    with open_lock(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def guarded(uri: str, what: str, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """The result of `call`; anything MLflow raises becomes a TrackingError of one sentence."""
    try:
        return call(*args, **kwargs)
    except TrackingError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = NO_SECRETS.text(lines[0].replace(uri, mask_uri(uri)))[:300]
        raise TrackingError(f"tracking: {what} at {mask_uri(uri)} failed ({reason})") from error


def _make_whole(path: Path) -> None:
    """Make our own database at `path` where there is none: whole or not at all.

    MLflow creates one in many steps that nothing takes back: of one that was cut, by a full disk or
    a kill, it can make nothing any more."""
    if path.exists():
        return
    staging = path.with_name(f".{path.name}.staging")
    for name in (staging.name, f"{staging.name}-journal"):
        path.with_name(name).unlink(missing_ok=True)
    guarded(sqlite_uri(path), "making the store", _open_client, sqlite_uri(staging))
    move_durably(staging, path)


def _client(uri: str, own: bool) -> Any:
    """An open client. A database of our `own` that an older MLflow made is migrated."""
    try:
        return guarded(uri, "opening the store", _open_client, uri)
    except TrackingError as error:
        outdated, cut = "out-of-date database schema" in str(error), "already exists" in str(error)
        if not own or not (outdated or cut):
            raise
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", uri]
    if (
        cut
        or subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, check=False
        ).returncode
        != 0
    ):
        path = sqlite_file(uri) or Path()
        command_line = shlex.join(["evopolicy", "track", f"source={path.parent}"])
        raise TrackingError(
            f"tracking: {path} cannot be migrated; delete it and run {command_line}, "
            "which makes it anew from the records"
        )
    return guarded(uri, "opening the store", _open_client, uri)


def _open_client(uri: str) -> Any:
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    client.search_experiments(max_results=1)
    return client


def _experiment(client: Any, name: str, artifact_root: str | None) -> str:
    """Its id; created where it is missing, also when somebody else creates it meanwhile."""
    uri = client.tracking_uri
    found = guarded(uri, "looking up the experiment", client.get_experiment_by_name, name)
    if found is None:
        try:
            tags = {"mlflow.experimentKind": "custom_model_development"}
            return str(
                guarded(
                    uri,
                    "creating the experiment",
                    client.create_experiment,
                    name,
                    artifact_root,
                    tags,
                )
            )
        except TrackingError:
            found = guarded(uri, "looking up the experiment", client.get_experiment_by_name, name)
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise TrackingError(
            f"tracking.experiment: '{name}' was deleted in {mask_uri(uri)}; restore it there or "
            "choose another name"
        )
    return str(found.experiment_id)


def _artifact_root(uri: str, tracking: Tracking, output: Path) -> str | None:
    """A folder beside the records for a database we open ourselves; a server decides for itself."""
    if not is_database(uri):
        return None
    return (output.resolve() / ARTIFACTS_FOLDER / slug(tracking.experiment)).as_uri()


def slug(text: str) -> str:
    """`text` as a file or tag name: letters, digits, `.`, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "unnamed"
