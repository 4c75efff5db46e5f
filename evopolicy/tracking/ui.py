"""`evopolicy ui`: the MLflow server on the right store, and the two links that open on the
answer."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import urlopen

from evopolicy.kernel.errors import ConfigError, RecordError, TrackingError, did_you_mean
from evopolicy.kernel.run.sweep import SWEEP, Sweep, read_sweep, sweep_folder
from evopolicy.kernel.secrecy.secrets import mask_uri
from evopolicy.kernel.session.record import RECORD, RunRecord, read_record
from evopolicy.tracking.log import find_run
from evopolicy.tracking.moved import ARTIFACTS_FOLDER
from evopolicy.tracking.places import Makers
from evopolicy.tracking.project import identity
from evopolicy.tracking.store import QUIET, Store, Tracking, connect, is_database, resolve_uri
from evopolicy.tracking.views import plain_link, run_link, save_views, view_key, view_link

_LOOPBACK = "127.0.0.1"
_NAME = "evopolicy.localhost"
"""What browsers resolve to loopback by themselves. Under the usual names MLflow opens its assistant
over the charts."""
_START_SECONDS = 300.0


@dataclass(frozen=True)
class Links:
    """What to open."""

    base: str
    """The server."""
    agents: str
    """Agents compared; '' where no sweep is."""
    cells: str
    """Cells compared."""
    run: str = ""
    """A single Run."""

    def text(self) -> str:
        """For people."""
        lines = [f"this Run:        {self.run}"] if self.run else []
        lines += [f"agents compared: {self.agents}"] if self.agents else []
        return "\n".join([*lines, f"cells compared:  {self.cells}"])


@contextmanager
def serve(output: Path, tracking: Tracking, sweep: str = "", *, port: int = 0) -> Iterator[Links]:
    """The links into the store of `output`, while the context is open.

    A database gets a server of its own on loopback (`port` 0: a free one); a store that is a server
    is only linked to. `sweep` '' is the latest, or a single Run that was begun after it. Raises
    TrackingError where the server does not come up, ConfigError for an unknown sweep."""
    shown = find_sweep(output, sweep)
    uri = resolve_uri(tracking, output)
    if not is_database(uri):
        yield _links(_web_address(uri), tracking, output, shown, named=bool(sweep))
        return
    if not tracking.uri and not (output / "mlflow.db").is_file():
        connect(tracking, output)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_server(uri, output, port))
        found = _links(f"http://{_NAME}:{server.port}", tracking, output, shown, named=bool(sweep))
        if server.process.poll() is not None:  # it met a database that was only being migrated
            server = stack.enter_context(_server(uri, output, server.port))
        server.wait()
        yield found


def _links(
    base: str, tracking: Tracking, output: Path, sweep: Sweep | None, *, named: bool
) -> Links:
    store = connect(tracking, output)
    if sweep is not None:
        save_views(store, sweep)
    found = links(base, store, sweep)
    single = None if named else find_single(output, sweep)
    run_id = find_run(store, identity(single.record), "cell") if single else ""
    return replace(found, run=run_link(base, store.experiment_id, run_id)) if run_id else found


def run_ui(
    output: Path, tracking: Tracking, sweep: str = "", *, echo: Callable[[str], None] = print
) -> None:
    """Serve until interrupted, after telling the links through `echo`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with serve(output, tracking, sweep) as shown, contextlib.suppress(KeyboardInterrupt):
        echo(shown.text())
        if is_database(resolve_uri(tracking, output)):
            echo(f"Ctrl-C ends the server. ({_LOOPBACK} works in place of {_NAME} too.)")
            signal.pause()


def _web_address(uri: str) -> str:
    """The server's address without user and password. Raises TrackingError for one that no browser
    opens."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        raise TrackingError(
            f"ui: '{mask_uri(uri)}' is not the address of a server; open its own web page"
        )
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")


def links(base: str, store: Store, sweep: Sweep | None) -> Links:
    """The addresses for `sweep`, or for all cells where there is none."""
    if sweep is None:
        return Links(
            base,
            "",
            plain_link(base, store.experiment_id, "tags.kind = 'cell'", "attributes.start_time"),
        )
    agents, cells = (
        view_link(base, store.experiment_id, view_key(sweep.name, kind))
        for kind in ("agents", "cells")
    )
    return Links(base, agents, cells)


def find_sweep(output: Path, name: str = "") -> Sweep | None:
    """The sweep `name` of `output`, or the one begun last; None where there is none."""
    found = {path.parent.name: path.parent for path in output.glob(f"sweeps/*/{SWEEP}")}
    if name:
        if name not in found:
            raise ConfigError(
                f"sweep: '{name}' is not in {output / 'sweeps'}.{did_you_mean(name, found)}"
            )
        return read_sweep(sweep_folder(output, name))
    sweeps = []
    for folder in found.values():
        with contextlib.suppress(RecordError):
            sweeps.append(read_sweep(folder))
    return max(sweeps, key=lambda sweep: sweep.created, default=None)


@dataclass(frozen=True)
class Single:
    """A Run that no sweep has."""

    folder: Path
    record: RunRecord


def find_single(output: Path, sweep: Sweep | None) -> Single | None:
    """The Run begun last, where it is no sweep's and was begun after `sweep`; None where there is
    no such Run."""
    newest: Single | None = None
    for path in output.glob(f"runs/*/*/*/{RECORD}"):
        with contextlib.suppress(RecordError):
            record = read_record(path.parent)
            if newest is None or record.created > newest.record.created:
                newest = Single(path.parent, record)
    if newest is None or (sweep is not None and newest.record.created < sweep.created):
        return None
    makers = Makers(output)
    makers.refresh()
    place = newest.folder.relative_to(output).as_posix()
    return None if makers.of(place, newest.record.created) else newest


@contextmanager
def _server(uri: str, output: Path, port: int) -> Iterator[_Server]:
    """`mlflow server` on the database, ended with everything it started. It takes seconds to
    answer: `wait` for it."""
    port = port or _free_port()
    names = (_NAME, "localhost", _LOOPBACK)
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--host",
        _LOOPBACK,
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    environment = {
        **os.environ,
        **QUIET,
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_DEFAULT_ARTIFACT_ROOT": (output.resolve() / ARTIFACTS_FOLDER).as_uri(),
        "MLFLOW_SERVE_ARTIFACTS": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(f"{name}:{port}" for name in names),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": ",".join(f"http://{name}:{port}" for name in names),
    }
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield _Server(port, process, log.fileno())
        finally:
            _end(process)


@dataclass(frozen=True)
class _Server:
    port: int
    process: subprocess.Popen[bytes]
    log: int

    def wait(self) -> None:
        """Until it answers. Raises TrackingError where it ends instead or takes too long."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                text = os.pread(self.log, 1_000_000, 0).decode("utf-8", "replace").strip()
                reason = text.splitlines()[-1][:300] if text else "it said nothing"
                raise TrackingError(f"ui: the MLflow server ended at once ({reason})")
            with (
                contextlib.suppress(URLError, OSError),
                urlopen(f"http://{_LOOPBACK}:{self.port}/health", timeout=2),
            ):
                return
            time.sleep(0.1)
        raise TrackingError(
            f"ui: the MLflow server did not answer within {_START_SECONDS:.0f} s; is the machine "
            "busy?"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    for name in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])
