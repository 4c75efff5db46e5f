"""The command's side of tracking: starts the tracker late, waits for it at the end, and never fails
because of it."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from evopolicy.config import TrackingConfig
from evopolicy.kernel.run.sweep import sweep_folder
from evopolicy.kernel.secrecy.secrets import mask_uri
from evopolicy.sweeps.processes import Child, kill_tree
from evopolicy.sweeps.tracker import Order

_START_AFTER_SECONDS = 5.0
"""Importing MLflow takes seconds of a core: the first cells start before it."""
_AT_ONCE_SECONDS = 0.5
"""A wait that needs no word."""


def tracking_mapping(config: TrackingConfig) -> dict[str, str]:
    """Where the tracker logs; {} where tracking is off. Raises ConfigError for a URI MLflow cannot
    write to.

    Its URI may hold a password: it is told to the tracker and written nowhere; `Sweep.tracking` has
    `written_tracking`."""
    if not config.enabled:
        return {}
    from evopolicy.tracking.store import Tracking, whole_uri

    mapping = {
        "uri": whole_uri(config.uri or ""),
        "experiment": config.experiment,
        "artifacts": config.artifacts,
    }
    Tracking.from_mapping(mapping)
    return mapping


def say_where(mapping: Mapping[str, str]) -> None:
    """Tell somebody whose environment names another store than the config that the config
    counts."""
    from evopolicy.tracking.store import unused_variable

    if mapping and (note := unused_variable(mapping["uri"])):
        print(note)


def written_tracking(mapping: Mapping[str, str]) -> dict[str, str]:
    """`mapping` as a file may hold it."""
    return {key: mask_uri(value) if key == "uri" else value for key, value in mapping.items()}


class Follower:
    """The one tracker process of a command."""

    def __init__(
        self,
        output: Path,
        tracking: Mapping[str, str],
        log: Path,
        *,
        sweep: str = "",
        run: str = "",
    ) -> None:
        self._order = Order(str(output), tracking, sweep, run)
        self._log = log
        self._child: Child | None = None
        self._due = time.monotonic() + _START_AFTER_SECONDS

    @property
    def pids(self) -> list[int]:
        return [self._child.pid] if self._child else []

    def tick(self) -> None:
        """Start it, once it is time."""
        if self._child is None and time.monotonic() >= self._due:
            self.start()

    def start(self) -> None:
        if self._child is not None or not self._order.tracking:
            return
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.unlink(missing_ok=True)
        self._child = Child([sys.executable, "-m", "evopolicy.sweeps.tracker"], self._log)
        self._child.write(msgspec.json.encode(self._order) + b"\n")

    def finish(self, seconds: float) -> str:
        """Let it log the rest, for `seconds` at most. Returns what to tell the user; '' where all
        is logged."""
        self.start()
        if self._child is None:
            return ""
        if self._order.run:
            self._child.close_input()
        code = self._child.wait(min(_AT_ONCE_SECONDS, seconds))
        if code is None:
            print(f"\nFinishing the tracking database, {self._store()} ...", flush=True)
            code = self._child.wait(seconds)
        if code is None:
            kill_tree(self._child.pid)
        self._child.close()
        self._child = None
        if code == 0:
            self._log.unlink(missing_ok=True)
            return ""
        return self._warning(code)

    def _store(self) -> str:
        return mask_uri(self._order.tracking.get("uri", "")) or str(
            Path(self._order.output) / "mlflow.db"
        )

    def stop(self, seconds: float = 10.0) -> None:
        """The command was interrupted: have it log what there is, and end it."""
        if self._child is not None:
            self._child.close_input()
            self._child.end(seconds)
            self._child = None

    def _warning(self, code: int | None) -> str:
        said = self._log.read_text("utf-8", "replace").strip() if self._log.exists() else ""
        if code == 1 and said and len(said) < 2_000:
            return said
        what = (
            "did not catch up in time"
            if code is None
            else f"ended with exit code {code} (its output: {self._log})"
        )
        source = self._order.run or sweep_folder(Path(self._order.output), self._order.sweep)
        command = shlex.join(["evopolicy", "track", f"source={source}"])
        return f"MLflow's tracker {what}; the records are whole: {command}"
