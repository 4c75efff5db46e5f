"""One Run in MLflow: which of its results are behind its record, and bringing those up to date."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from evopolicy.kernel.errors import RecordError, TrackingError
from evopolicy.kernel.run.owner import is_owned
from evopolicy.kernel.run.waiting import waiting
from evopolicy.kernel.session.journal import JOURNAL, Event, read_journal
from evopolicy.kernel.session.record import RECORD, Run, RunRecord, read_record, state_of
from evopolicy.tracking.log import ARTIFACTS, FILES, LINES, PARENT, RunLog, open_run
from evopolicy.tracking.masking import mask
from evopolicy.tracking.places import Makers, kept_aside
from evopolicy.tracking.project import (
    RECORD_DIGEST,
    TAG_LENGTH,
    Projection,
    identity,
    last_time,
    project_cell,
)
from evopolicy.tracking.store import Store, Tracking, connect

FILES_VERSION = "3"
"""Raised when a Run's projection has more files or other metrics: what an older one logged is then
brought up to it."""
LINES_MOST = 1_000_000
"""Of a journal, all of which is held."""
FOLDER = "folder"
"""Tag of a sweep's cell: `Cell.run`."""
SET_ASIDE = "set_aside"
"""Tag of a Run that was run again, in its place another one: 'true'. It is no sweep's any more."""
COLOUR = "mlflow.runColor"
_OF_SWEEPS = "sweep."
WAITING = "waiting"
"""Tag of a Run that is held up, while it is: by what, and since when."""


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
    _read: tuple[int, ...] = ()

    def refresh(self) -> bool:
        """Read the Run if it changed. Whether it is another one now; raises RecordError where it
        cannot be read."""
        try:
            here = self._state()
            if here == self._read:
                return False
            # Read again each time: a Run that goes on may follow another selection rule than
            # before.
            record = read_record(self.folder).under(self.result_key)
            events = list(islice(read_journal(self.folder), LINES_MOST + 1))
            if len(events) > LINES_MOST:
                raise RecordError(
                    f"{self.folder / JOURNAL}: has more than {LINES_MOST:,} lines, which are not "
                    "logged"
                )
            if self._state()[:4] != here[:4]:
                # the record of one Run and the journal of another: the next pass reads again
                return False
        except FileNotFoundError:
            return False
        another = self.record is None or identity(self.record) != identity(record)
        if another and self.record is not None:
            self._forget()
        self.record, self.events = record, events
        self.run = Run(self.folder, record, state_of(events, self.folder))
        self._read = here
        return another

    def _forget(self) -> None:
        """What is known of it in the store is of another Run."""
        self.lines, self.run_id, self.log, self.shown, self.error = 0, "", None, (), ""

    def _state(self) -> tuple[int, ...]:
        """Which files they are, and how long the journal is. Raises FileNotFoundError where there
        is none."""
        journal = (self.folder / JOURNAL).lstat()
        record = (
            (self.folder / RECORD).lstat() if os.path.lexists(self.folder / RECORD) else journal
        )
        return record.st_ino, record.st_mtime_ns, journal.st_dev, journal.st_ino, journal.st_size

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
        self._followed: dict[tuple[Path, str], Followed] = {}
        """The Runs `step` was asked for, by folder and result key."""
        self.left_out: dict[str, None] = {}
        """What was too large to be logged, a sentence each, in order."""
        self._aside: set[Path] = set()
        """Runs kept aside that are logged."""
        self.makers = Makers(output)

    @property
    def logged(self) -> int:
        """Runs that ended and are whole in the store."""
        return len(self._whole)

    def store(self) -> Store:
        """The store, opened once. Raises TrackingError."""
        if self._store is None:
            self._store = connect(self.tracking, self.output)
        return self._store

    def step(self, folder: Path, result_key: str = "") -> tuple[str, ...]:
        """Log the one Run in `folder`, outside any sweep, as far as it is. Returns what is missing
        and why."""
        key = (folder, result_key)
        followed = self._followed.setdefault(key, Followed(folder, result_key))
        try:
            if followed.refresh():
                self.push_aside(lambda place: place == _place_of(self.output, folder))
            self.push(followed)
        except (TrackingError, RecordError) as error:
            return (f"{folder}: {error}",)
        return ()

    def push_aside(
        self, mine: Callable[[str], bool], makers: Mapping[str, str] | None = None
    ) -> list[str]:
        """Log the Runs that were kept aside when another one took their place, each once.

        `mine`: whether a place is asked for. `makers`: MLflow runs by the names of sweeps; a Run
        that one of them made lies under it. Returns what cannot be read; raises TrackingError."""
        broken: list[str] = []
        for place, folder in kept_aside(self.output):
            if folder in self._aside or not mine(place):
                continue
            try:
                record = read_record(folder)
                for key in ("", *record.other_rules):
                    followed = Followed(folder, key)
                    followed.refresh()
                    maker = self.makers.of(place, record.created)
                    parent = (makers or {}).get(maker, "")
                    self.push(
                        followed, parent=parent, tags={"sweep": maker} if parent else {}, aside=True
                    )
            except RecordError as error:
                broken.append(f"{folder.relative_to(self.output)}: {error}")
                continue
            self._aside.add(folder)
        return broken

    def push(
        self,
        followed: Followed,
        *,
        parent: str = "",
        tags: Mapping[str, str] | None = None,
        failed: str | None = None,
        aside: bool = False,
    ) -> None:
        """Bring one cell up to its journal, with `tags`, under `parent` where one is given.

        `failed`: why its sweep calls it failed; `aside`: another Run took its place. A Run without
        a journal's line is none yet. Raises TrackingError for the store's fault, RecordError for
        the record's."""
        if followed.record is None or not followed.events:
            return
        tags = {**(tags or {}), **_held_up(followed, failed)}
        shown = (parent, tuple(sorted(tags.items())), failed, followed.record)
        if followed.lines == len(followed.events) and followed.shown == shown:
            return
        projection = self._project(followed, followed.record, len(followed.events))
        if failed is not None and projection.status == "RUNNING":
            projection = _broken_off(projection, followed, failed)
        try:
            deleted = self._bring(followed, projection, parent, tags, aside)
        except TrackingError:
            followed.log = None
            raise
        followed.lines, followed.shown, followed.error = len(followed.events), shown, ""
        if followed.ended is not None:
            followed.log = None
            if not deleted and not aside:
                self._whole.add(followed.folder)

    def _project(self, followed: Followed, record: RunRecord, lines: int) -> Projection:
        bulk = self.tracking.artifacts == "full"
        try:
            return project_cell(followed.folder, record, followed.events[:lines], bulk=bulk)
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise RecordError(f"{followed.folder}: cannot be read ({error!r})") from error

    def _bring(
        self,
        followed: Followed,
        projection: Projection,
        parent: str,
        tags: Mapping[str, str],
        aside: bool,
    ) -> bool:
        """Whether somebody deleted its run: then nothing is logged."""
        log = followed.log or self._open(followed, projection, parent)
        followed.log, followed.run_id = log, log.run_id
        if log.deleted:
            return True
        older = log.tags.get(FILES, FILES_VERSION) != FILES_VERSION
        if log.contradicts(projection, metrics=self._rebuild or older):
            log = followed.log = log.replaced(projection)
            followed.run_id, followed.lines = log.run_id, 0
        whole = _is_whole(followed, log, projection)
        log.push(projection, facts_only=whole)
        self.left_out.update(dict.fromkeys(log.left_out))
        if not whole:
            log.set_tag(ARTIFACTS, self.tracking.artifacts)
            log.set_tag(FILES, FILES_VERSION)
            log.set_tag(LINES, str(len(followed.events)))
        wanted = {
            **tags,
            **({PARENT: parent} if parent else {}),
            **({SET_ASIDE: "true"} if aside else {}),
        }
        for key, value in wanted.items():
            log.set_tag(key, value)
        stale = (
            [key for key in log.tags if key.startswith(_OF_SWEEPS)] + [FOLDER, COLOUR]
            if aside
            else [SET_ASIDE]
        )
        for key in [*stale, *({WAITING} - wanted.keys())]:
            log.drop_tag(key)
        return False

    def _open(self, followed: Followed, projection: Projection, parent: str) -> RunLog:
        """Its run, and what the last tracker says of how far it is."""
        log = open_run(
            self.store(), projection, parent=parent, known=followed.run_id, revive=self._rebuild
        )
        lines = log.tags.get(LINES, "")
        same = (
            log.tags.get(ARTIFACTS) == self.tracking.artifacts
            and log.tags.get(FILES) == FILES_VERSION
        )
        followed.lines = int(lines) if lines.isdigit() and same and not self._rebuild else 0
        if (
            followed.lines
            and followed.record is not None
            and not _is_whole(followed, log, projection)
        ):
            before = self._project(followed, followed.record, followed.lines)
            # What is made of the record says what that says now, not what it said then.
            log.consider_uploaded(upload for upload in before.uploads if upload.source is not None)
            log.consider_traced(before.attempts)
        return log


def _held_up(followed: Followed, failed: str | None) -> dict[str, str]:
    """What holds up a Run that goes on, as long as it lasts."""
    going_on = failed is None and followed.ended is None and is_owned(followed.folder)
    held = waiting(followed.folder, time.time()) if going_on else None
    if held is None:
        return {}
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(held.since))
    return {WAITING: mask(f"{held.what}, since {since}")[:TAG_LENGTH]}


def _is_whole(followed: Followed, log: RunLog, projection: Projection) -> bool:
    """Whether all of the journal and the record as it is are in the run."""
    same = log.tags.get(RECORD_DIGEST) == projection.tags[RECORD_DIGEST]
    return same and followed.lines == len(followed.events)


def _place_of(output: Path, folder: Path) -> str:
    """As `Cell.run`, '' for a folder outside the output's."""
    folder, output = folder.resolve(), output.resolve()
    return folder.relative_to(output).as_posix() if folder.is_relative_to(output) else ""


def _broken_off(projection: Projection, followed: Followed, why: str) -> Projection:
    """A Run that its sweep has given up: it will not go on by itself."""
    ended = float(followed.events[-1]["time"]) if followed.events else projection.started
    tags = {**projection.tags, "error": mask(why)[:TAG_LENGTH] or "failed"}
    return replace(
        projection, status="FAILED", ended=ended, tags=tags, absent=projection.absent - {"error"}
    )
