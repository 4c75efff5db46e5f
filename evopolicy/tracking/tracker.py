"""One pass over a sweep: which of its MLflow runs are behind the records, and bringing those up to
date."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

from evopolicy.kernel.errors import RecordError, TrackingError
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.files.received import read_part
from evopolicy.kernel.files.versioned import SCHEMA_KEY, STORE_FORMAT, parse_object
from evopolicy.kernel.run.sweep import SWEEP, Cell, Sweep, run_of
from evopolicy.kernel.secrecy.secrets import mask_uri
from evopolicy.tracking.cells import COLOUR, FOLDER, CellTracker, Followed
from evopolicy.tracking.compare import (
    Comparison,
    Rank,
    agent_identity,
    colours,
    compare,
    project_agent,
    project_sweep,
    sweep_identity,
    sweep_tag,
)
from evopolicy.tracking.log import PARENT, RunLog, find_run, open_run, tagged_runs
from evopolicy.tracking.places import place_of
from evopolicy.tracking.project import Projection
from evopolicy.tracking.store import Tracking, resolve_uri
from evopolicy.tracking.views import save_views

STATE = STORE_FORMAT.name
_IN_A_ROW = 2
"""Errors after which a pass is given up: the store is down, the rest would only wait for it."""


class _Under(TypedDict):
    parent: str
    tags: dict[str, str]


class SweepTracker:
    """Brings a sweep's cells, its agents and itself up to date, pass by pass."""

    def __init__(
        self, output: Path, folder: Path, tracking: Tracking, rank: Rank, *, rebuild: bool = False
    ) -> None:
        self._output = output
        self._folder = folder
        self._rank = rank
        self._rebuild = rebuild
        self._cells = CellTracker(output, tracking, rebuild=rebuild)
        self._followed: dict[str, Followed] = {}
        self._logs: dict[str, RunLog] = {}
        """Of the sweep ('') and of its agents, by entry."""
        self._state = _State.read(folder, tracking, output)
        self._compared: tuple[object, ...] = ()
        self._views_saved = False
        self._parents: dict[str, str] = {}
        """MLflow runs of sweeps that made cells of this one, '' where the store has none."""
        self._retag = True
        """Whether a run may have the sweep's tag that is no part of it."""
        self.worth_retrying = False
        """Whether what the last pass missed may work later: the store's fault, not the record's."""

    @property
    def logged(self) -> int:
        return self._cells.logged

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(self._cells.left_out)

    def step(self, sweep: Sweep) -> tuple[str, ...]:
        """One pass. Returns what is missing in the store, and why, one line each; never raises for
        that."""
        self.worth_retrying = False
        missing = self._refresh(sweep)
        try:
            parent = self._open_sweep(sweep)
            missing.extend(self._push_aside(sweep, parent))
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
        self._cells.makers.refresh()
        missing = []
        for former in self._followed.keys() - {place_of(cell) for cell in sweep.cells}:
            del self._followed[former]
            self._retag = True
        for cell in sweep.cells:
            followed = self._followed.get(place_of(cell))
            fresh = followed is None or followed.record is None
            if followed is None:
                followed = self._followed[place_of(cell)] = Followed(
                    self._output / cell.run, cell.result_key
                )
                followed.run_id = self._state.cells.get(place_of(cell), "")
            try:
                run_of(self._output, cell)
                self._retag |= followed.refresh() and not fresh
            except RecordError as error:
                missing.append(f"{cell.run}: {error}")
        return missing

    def _open_sweep(self, sweep: Sweep) -> str:
        """The sweep's MLflow run, made before any cell so that cells lie under it."""
        if "" not in self._logs:
            bare = project_sweep(Comparison(sweep, {}, {}, sweep.created))
            log = open_run(self._cells.store(), bare, known=self._state.sweep, revive=self._rebuild)
            self._logs[""], self._state.sweep = log, log.run_id
            if "sweep" not in log.tags and not log.deleted:
                log.push(replace(bare, points=(), uploads=(), ended=None, status="RUNNING"))
        if not self._views_saved:
            save_views(self._cells.store(), sweep)
            self._views_saved = True
        return self._state.sweep

    def _push_cells(self, sweep: Sweep, parent: str) -> list[str]:
        """Cells that failed before go last, so that one the store refuses holds up no other."""
        colour = colours(sweep)
        in_a_row = 0
        broken: list[str] = []
        for cell in sorted(sweep.cells, key=lambda c: bool(self._followed[place_of(c)].error)):
            followed = self._followed[place_of(cell)]
            tags = {sweep_tag(sweep.name): "true", COLOUR: colour[cell.entry], FOLDER: cell.run}
            failed = cell.error if cell.status == "failed" else None
            if in_a_row >= _IN_A_ROW:
                followed.error = followed.error or (
                    "the store did not answer" if followed.record else ""
                )
                continue
            try:
                self._cells.push(
                    followed, failed=failed, **self._under(sweep, cell, followed, parent, tags)
                )
                in_a_row = 0
            except TrackingError as error:
                followed.error, in_a_row = str(error), in_a_row + 1
            except RecordError as error:
                broken.append(f"{cell.run}: {error}")
            if followed.run_id:
                self._state.cells[place_of(cell)] = followed.run_id
        behind = [
            f"{cell.run}: {why}"
            for cell in sweep.cells
            if (why := self._followed[place_of(cell)].error)
        ]
        self.worth_retrying = bool(behind)
        return behind + broken

    def _under(
        self, sweep: Sweep, cell: Cell, followed: Followed, parent: str, tags: dict[str, str]
    ) -> _Under:
        """Where a cell lies: under the sweep that made its Run, and under this one where the store
        has not that."""
        created = followed.record.created if followed.record else sweep.created
        maker = self._cells.makers.of(place_of(cell), created) or sweep.name
        if maker != sweep.name:
            if maker not in self._parents:
                self._parents[maker] = find_run(self._cells.store(), sweep_identity(maker), "sweep")
            if self._parents[maker]:
                parent = self._parents[maker]
            else:
                maker = sweep.name
        return {"parent": parent, "tags": {**tags, "sweep": maker}}

    def _push_aside(self, sweep: Sweep, parent: str) -> list[str]:
        """The Runs in whose place cells of this sweep are, or will be."""
        places = {cell.run for cell in sweep.cells}
        self._parents[sweep.name] = parent
        return self._cells.push_aside(places.__contains__, self._parents)

    def _drop_former(self, sweep: Sweep) -> None:
        """What has this sweep's tag and is no part of it (any more) leaves its views: it was
        defined anew, or a Run took another's place."""
        entries = {cell.entry for cell in sweep.cells}
        for entry in self._state.agents.keys() - entries:
            self._logs.pop(entry, None)
            del self._state.agents[entry]
            self._retag = True
        for place in self._state.cells.keys() - {place_of(cell) for cell in sweep.cells}:
            del self._state.cells[place]
        if not self._retag:
            return
        mine = {followed.run_id for followed in self._followed.values()}
        mine |= {agent_identity(sweep.name, entry) for entry in entries}
        waiting = {cell.run for cell in sweep.cells if not self._followed[place_of(cell)].run_id}
        store = self._cells.store()
        for run in tagged_runs(store, sweep_tag(sweep.name)):
            tags = run.data.tags
            known = {"cell": run.info.run_id, "agent": tags.get("identity")}.get(
                tags.get("kind", "")
            )
            if known is not None and known not in mine and tags.get(FOLDER) not in waiting:
                RunLog(store, run).drop_tag(sweep_tag(sweep.name))
        self._retag = False

    def _push_comparison(self, sweep: Sweep, parent: str) -> list[str]:
        """The agents and the sweep itself, where a cell ended or its status changed since the last
        pass."""
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
            self._bring(entry, project_agent(comparison, entry, rank), parent)
        self._bring("", project_sweep(comparison), "")
        self._compared = now
        return []

    def _bring(self, entry: str, projection: Projection, parent: str) -> None:
        """Bring the run of an entry, or of the sweep (''), up to `projection`; one that was deleted
        is left alone."""
        if entry not in self._logs:
            known = self._state.agents.get(entry, "")
            self._logs[entry] = open_run(
                self._cells.store(), projection, parent=parent, known=known, revive=self._rebuild
            )
        log = self._logs[entry]
        if not log.deleted and entry and log.contradicts(projection, metrics=True):
            log = self._logs[entry] = log.replaced(projection)
        if entry:
            self._state.agents[entry] = log.run_id
        if not log.deleted:
            log.push(projection)
            if parent:
                log.set_tag(PARENT, parent)


@dataclass
class _State:
    """`sweeps/<name>/mlflow.json`: where the sweep is in which store. It may be deleted: runs are
    found again."""

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
        place = hashlib.sha256(f"{mask_uri(uri)}\n{tracking.experiment}".encode()).hexdigest()[:32]
        fresh = cls(place, mask_uri(tracking.uri) or "sqlite under the output folder")
        try:
            value = STORE_FORMAT.upgraded(
                parse_object(read_part(folder, STATE, STORE_FORMAT.bytes)), STATE
            )
            if value["place"] != place:
                return fresh
            return cls(
                place, fresh.uri, str(value["sweep"]), dict(value["agents"]), dict(value["cells"])
            )
        except (OSError, ValueError, KeyError, TypeError, RecordError):
            return fresh

    def write(self, folder: Path) -> None:
        value = {
            SCHEMA_KEY: STORE_FORMAT.newest,
            "place": self.place,
            "uri": self.uri,
            "sweep": self.sweep,
        }
        text = json.dumps({**value, "agents": self.agents, "cells": self.cells}, indent=2) + "\n"
        if text != self._written:
            write_durably(folder / STATE, text.encode())
            self._written = text
