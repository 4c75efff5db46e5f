"""One pass over Runs: which of their MLflow runs are behind the records, and bringing those up to date."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evopolicy.kernel.errors import RecordError, TrackingError
from evopolicy.kernel.journal import JOURNAL, Event, read_journal, write_durably
from evopolicy.kernel.record import Run, RunRecord, read_record
from evopolicy.kernel.state import fold
from evopolicy.kernel.sweep import SWEEP, Cell, Sweep
from evopolicy.tracking.compare import Comparison, Rank, colours, compare, project_agent, project_sweep, sweep_tag
from evopolicy.tracking.log import RunLog, open_run
from evopolicy.tracking.masking import mask, mask_uri
from evopolicy.tracking.project import TAG_LENGTH, Projection, last_time, project_cell
from evopolicy.tracking.store import Store, Tracking, connect, resolve_uri
from evopolicy.tracking.views import save_views

STATE = "mlflow.json"
LINES = "journal_lines"
"""Tag of a cell: how many lines of its journal its MLflow run holds whole."""
ARTIFACTS = "tracked_artifacts"
"""Tag of a cell: which artifacts were logged up to there, as `Tracking.artifacts`."""
FILES = "tracked_files"
"""Tag of a cell: which kinds of files were logged, as FILES_VERSION."""
FILES_VERSION = "2"
"""Raised when a Run's projection has more files: what an older one logged is then completed."""
FOLDER = "folder"
"""Tag of a sweep's cell: `Cell.run`."""
_IN_A_ROW = 2
"""Errors after which a pass is given up: the store is down, the rest would only wait for it."""


@dataclass
class Followed:
    """A Run as it was last read, and how much of it is logged."""

    folder: Path
    result_key: str = ""
    """Which of its results; '' for the record's own."""
    record: RunRecord | None = None
    events: list[Event] = field(default_factory=list)
    run: Run | None = None
    lines: int = 0
    """Journal lines that are whole in the store."""
    run_id: str = ""
    log: RunLog | None = None
    shown: tuple[object, ...] = ()
    """What was last brought to the store beside the journal: tags and failure."""
    error: str = ""
    _size: int = -1

    def refresh(self) -> None:
        """Read the journal if it grew. Raises RecordError for a record that cannot be read."""
        try:
            size = (self.folder / JOURNAL).stat().st_size
        except FileNotFoundError:
            return
        if size == self._size:
            return
        # Read again each time: a Run that goes on may follow another selection rule than before.
        record = read_record(self.folder).under(self.result_key)
        if self.record is not None and self.record.result_key != record.result_key:
            self.lines, self.run_id, self.log = 0, "", None
        self.record = record
        self.events = list(read_journal(self.folder))
        self.run = Run(self.folder, self.record, fold(self.events))
        self._size = size

    @property
    def ended(self) -> float | None:
        """When the Run ended under its own result key; Unix seconds."""
        if self.record is None or self.run is None or not self.run.finished:
            return None
        return last_time(self.events, "ended", self.record.result_key)


class CellTracker:
    """Brings the MLflow runs of single Runs up to date; connects when it first has to."""

    def __init__(self, output: Path, tracking: Tracking, *, rebuild: bool = False) -> None:
        self.output = output
        self.tracking = tracking
        self._rebuild = rebuild
        self._store: Store | None = None
        self._whole: set[Path] = set()
        self._followed: dict[Path, Followed] = {}
        """The Runs `step` was asked for."""

    @property
    def logged(self) -> int:
        """Runs that ended and are whole in the store."""
        return len(self._whole)

    def store(self) -> Store:
        """The store, opened once. Raises TrackingError."""
        if self._store is None:
            self._store = connect(self.tracking, self.output)
        return self._store

    def step(self, folder: Path) -> tuple[str, ...]:
        """Log the one Run in `folder`, outside any sweep, as far as it is. Returns what is missing and why."""
        followed = self._followed.setdefault(folder, Followed(folder))
        try:
            followed.refresh()
            self.push(followed)
        except (TrackingError, RecordError) as error:
            return (f"{folder}: {error}",)
        return ()

    def push(
        self, followed: Followed, *, parent: str = "", tags: Mapping[str, str] | None = None, failed: str | None = None
    ) -> None:
        """Bring one cell up to its journal. `failed`: why its sweep calls it failed.

        Raises TrackingError for the store's fault, RecordError for the record's.
        """
        if followed.record is None:
            return
        shown = (tuple(sorted((tags or {}).items())), failed)
        if followed.lines == len(followed.events) and followed.shown == shown:
            return
        projection = self._project(followed, followed.record, len(followed.events))
        if failed is not None and projection.status == "RUNNING":
            projection = _broken_off(projection, followed, failed)
        try:
            self._bring(followed, projection, parent, tags or {})
        except TrackingError:
            followed.log = None
            raise
        followed.lines, followed.shown, followed.error = len(followed.events), shown, ""
        if followed.ended is not None:
            self._whole.add(followed.folder)
            followed.log = None

    def _project(self, followed: Followed, record: RunRecord, lines: int) -> Projection:
        bulk = self.tracking.artifacts == "full"
        try:
            return project_cell(followed.folder, record, followed.events[:lines], bulk=bulk)
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise RecordError(f"{followed.folder}: cannot be read ({error!r})") from error

    def _bring(self, followed: Followed, projection: Projection, parent: str, tags: Mapping[str, str]) -> None:
        log = followed.log or self._open(followed, projection, parent)
        followed.log, followed.run_id = log, log.run_id
        if followed.lines < len(followed.events) or projection.status != log.status:
            log.push(projection)
            if "error" not in projection.tags:
                log.drop_tag("error")
            log.set_tag(ARTIFACTS, self.tracking.artifacts)
            log.set_tag(FILES, FILES_VERSION)
            log.set_tag(LINES, str(len(followed.events)))
        for key, value in tags.items():
            if not (key == "sweep" and "sweep" in log.tags):
                log.set_tag(key, value)

    def _open(self, followed: Followed, projection: Projection, parent: str) -> RunLog:
        """Its run, and what the last tracker says of how far it is."""
        log = open_run(self.store(), projection, parent=parent, known=followed.run_id)
        lines = log.tags.get(LINES, "")
        same = log.tags.get(ARTIFACTS) == self.tracking.artifacts and log.tags.get(FILES) == FILES_VERSION
        followed.lines = int(lines) if lines.isdigit() and same and not self._rebuild else 0
        if 0 < followed.lines < len(followed.events) and followed.record is not None:
            before = self._project(followed, followed.record, followed.lines)
            log.consider_uploaded(before.uploads)
            log.consider_traced(before.attempts)
        return log


def _place(cell: Cell) -> str:
    """Names one result of one Run."""
    return f"{cell.run} {cell.result_key}".strip()


def _broken_off(projection: Projection, followed: Followed, why: str) -> Projection:
    """A Run that its sweep has given up: it will not go on by itself."""
    ended = float(followed.events[-1]["time"]) if followed.events else projection.started
    tags = {**projection.tags, "error": mask(why)[:TAG_LENGTH] or "failed"}
    return replace(projection, status="FAILED", ended=ended, tags=tags)


class SweepTracker:
    """Brings a sweep's cells, its agents and itself up to date, pass by pass."""

    def __init__(self, output: Path, folder: Path, tracking: Tracking, rank: Rank, *, rebuild: bool = False) -> None:
        self._output = output
        self._folder = folder
        self._rank = rank
        self._cells = CellTracker(output, tracking, rebuild=rebuild)
        self._followed: dict[str, Followed] = {}
        self._logs: dict[str, RunLog] = {}
        """Of the sweep ('') and of its agents, by entry."""
        self._state = _State.read(folder, tracking, output)
        self._compared: tuple[object, ...] = ()
        self._views_saved = False
        self.worth_retrying = False
        """Whether what the last pass missed may work later: the store's fault, not the record's."""

    @property
    def logged(self) -> int:
        return self._cells.logged

    def step(self, sweep: Sweep) -> tuple[str, ...]:
        """One pass. Returns what is missing in the store, and why, one line each; never raises for that."""
        self.worth_retrying = False
        missing = self._refresh(sweep)
        try:
            parent = self._open_sweep(sweep)
            missing.extend(self._push_cells(sweep, parent))
            self._drop_former(sweep)
            missing.extend(self._push_comparison(sweep, parent))
        except TrackingError as error:
            self._logs.clear()
            self.worth_retrying = True
            missing.append(str(error))
        try:
            self._state.write(self._folder)
        except OSError as error:
            missing.append(f"{self._folder / STATE}: cannot be written ({error.strerror})")
        return tuple(dict.fromkeys(missing))

    def _refresh(self, sweep: Sweep) -> list[str]:
        missing = []
        for former in self._followed.keys() - {_place(cell) for cell in sweep.cells}:
            del self._followed[former]
        for cell in sweep.cells:
            followed = self._followed.get(_place(cell))
            if followed is None:
                followed = self._followed[_place(cell)] = Followed(self._output / cell.run, cell.result_key)
                followed.run_id = self._state.cells.get(_place(cell), "")
            try:
                followed.refresh()
            except RecordError as error:
                missing.append(f"{cell.run}: {error}")
        return missing

    def _open_sweep(self, sweep: Sweep) -> str:
        """The sweep's MLflow run, made before any cell so that cells lie under it."""
        if "" not in self._logs:
            bare = project_sweep(Comparison(sweep, {}, {}, sweep.created))
            self._logs[""] = open_run(self._cells.store(), bare, known=self._state.sweep)
            self._state.sweep = self._logs[""].run_id
            if "sweep" not in self._logs[""].tags:
                self._logs[""].push(replace(bare, points=(), uploads=(), ended=None, status="RUNNING"))
        if not self._views_saved:
            save_views(self._cells.store(), sweep)
            self._views_saved = True
        return self._state.sweep

    def _push_cells(self, sweep: Sweep, parent: str) -> list[str]:
        """Cells that failed before go last, so that one the store refuses holds up no other."""
        colour = colours(sweep)
        in_a_row = 0
        broken: list[str] = []
        for cell in sorted(sweep.cells, key=lambda c: bool(self._followed[_place(c)].error)):
            followed = self._followed[_place(cell)]
            tags = {"sweep": sweep.name, sweep_tag(sweep.name): "true", "mlflow.runColor": colour[cell.entry]}
            tags[FOLDER] = cell.run
            failed = cell.error if cell.status == "failed" else None
            if in_a_row >= _IN_A_ROW:
                followed.error = followed.error or ("the store did not answer" if followed.record else "")
                continue
            try:
                self._cells.push(followed, parent=parent, tags=tags, failed=failed)
                in_a_row = 0
            except TrackingError as error:
                followed.error, in_a_row = str(error), in_a_row + 1
            except RecordError as error:
                broken.append(f"{cell.run}: {error}")
            if followed.run_id:
                self._state.cells[_place(cell)] = followed.run_id
        behind = [f"{cell.run}: {why}" for cell in sweep.cells if (why := self._followed[_place(cell)].error)]
        self.worth_retrying = bool(behind)
        return behind + broken

    def _drop_former(self, sweep: Sweep) -> None:
        """A sweep that was defined anew under its name: what is no cell of it any more leaves its views."""
        for run in self._state.cells.keys() - {_place(cell) for cell in sweep.cells}:
            self._untag(self._state.cells.pop(run), sweep)
        for entry in self._state.agents.keys() - {cell.entry for cell in sweep.cells}:
            self._logs.pop(entry, None)
            self._untag(self._state.agents.pop(entry), sweep)

    def _untag(self, run_id: str, sweep: Sweep) -> None:
        nowhere = Projection("", "", "RUNNING", 0.0, tags={"kind": ""})
        open_run(self._cells.store(), nowhere, known=run_id).drop_tag(sweep_tag(sweep.name))

    def _push_comparison(self, sweep: Sweep, parent: str) -> list[str]:
        """The agents and the sweep itself, where a cell ended or its status changed since the last pass."""
        runs = [f.run for f in self._followed.values() if f.run is not None]
        ended = [time for f in self._followed.values() if (time := f.ended) is not None]
        statuses = tuple((cell.run, cell.status) for cell in sweep.cells)
        now = (statuses, tuple(sorted(ended)), len(runs))
        if now == self._compared:
            return []
        try:
            written = (self._folder / SWEEP).stat().st_mtime
            comparison = compare(sweep, runs, ended, written, self._rank)
        except Exception as error:
            return [f"rank scores of {sweep.name}: {error}"]
        for entry, rank in comparison.ranks.items():
            projection = project_agent(comparison, entry, rank)
            if entry not in self._logs:
                known = self._state.agents.get(entry, "")
                self._logs[entry] = open_run(self._cells.store(), projection, parent=parent, known=known)
                self._state.agents[entry] = self._logs[entry].run_id
            self._logs[entry].push(projection)
        self._logs[""].push(project_sweep(comparison))
        self._compared = now
        return []


@dataclass
class _State:
    """`sweeps/<name>/mlflow.json`: where the sweep is in which store. It may be deleted: runs are found again."""

    place: str
    """Digest of the store and experiment; another one begins anew."""
    uri: str
    sweep: str = ""
    agents: dict[str, str] = field(default_factory=dict)
    cells: dict[str, str] = field(default_factory=dict)
    _written: str = ""

    @classmethod
    def read(cls, folder: Path, tracking: Tracking, output: Path) -> _State:
        uri = resolve_uri(tracking, output)
        place = hashlib.sha256(f"{uri}\n{tracking.experiment}".encode()).hexdigest()[:32]
        fresh = cls(place, mask_uri(tracking.uri) or "sqlite under the output folder")
        try:
            value: dict[str, Any] = json.loads((folder / STATE).read_bytes())
            if value["place"] != place:
                return fresh
            return cls(place, fresh.uri, str(value["sweep"]), dict(value["agents"]), dict(value["cells"]))
        except (OSError, ValueError, KeyError, TypeError):
            return fresh

    def write(self, folder: Path) -> None:
        value = {"schema": 1, "place": self.place, "uri": self.uri, "sweep": self.sweep}
        text = json.dumps({**value, "agents": self.agents, "cells": self.cells}, indent=2) + "\n"
        if text != self._written:
            write_durably(folder / STATE, text.encode())
            self._written = text
