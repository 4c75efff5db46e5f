"""An MLflow experiment brought back as folders of Runs, which everything that reads records reads.

Under `<output>/downloads/<digest of store and experiment>/` lie
`runs/<benchmark>/<agent>/s<seed>-<identity>/`, and `sweeps/<name>/sweep.json` for each sweep that
was asked for. A Run that followed several selection rules is several MLflow runs: `runs/` has the
newest, whose journal holds all results, `other_rules/` the others, for their sweeps. A Run that has
not changed since is not downloaded again; one that changed replaces what was there, whole."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from evopolicy.kernel.errors import (
    ConfigError,
    ProgramError,
    RecordError,
    TrackingError,
    did_you_mean,
)
from evopolicy.kernel.files.program import capture
from evopolicy.kernel.files.received import read_part
from evopolicy.kernel.files.versioned import DOWNLOAD_FORMAT, SCHEMA_KEY, parse_object
from evopolicy.kernel.run.stream import PROXY_LOG, TRANSCRIPT
from evopolicy.kernel.run.sweep import SWEEP, Sweep, read_sweep, sweep_folder, write_sweep
from evopolicy.kernel.secrecy.secrets import mask_uri
from evopolicy.kernel.session.journal import JOURNAL
from evopolicy.kernel.session.record import RECORD, Run, load_run
from evopolicy.kernel.session.submission import OUTCOMES, submission_folder
from evopolicy.kernel.values import digest
from evopolicy.tracking.artifacts import Artifact, Artifacts
from evopolicy.tracking.cells import FOLDER, SET_ASIDE
from evopolicy.tracking.compare import sweep_tag
from evopolicy.tracking.files import EVALUATIONS, INITIAL, OUTCOME_FILES, PRIVATE, is_active
from evopolicy.tracking.log import ARTIFACTS, FILES, LINES
from evopolicy.tracking.store import Tracking, guarded, hold, open_existing, slug

DOWNLOADS = "downloads"
"""Under the output folder."""
STAMP = DOWNLOAD_FORMAT.name
"""In a downloaded Run's folder: which state of its MLflow run it is."""
_OTHER = "other_rules"
_STAGING = ".staging-"
_PAGE = 1_000
_TOPS = (RECORD, JOURNAL, "programs", "feedback", OUTCOME_FILES, EVALUATIONS, "agent")
_PLACES = (
    (re.compile(r"feedback/(\d{4,9})/(.+)"), r"submissions/\1/feedback/\2"),
    (re.compile(rf"{OUTCOME_FILES}/(\d{{4,9}})\.jsonl"), rf"submissions/\1/{OUTCOMES}"),
    (re.compile(rf"({EVALUATIONS}/(?:{'|'.join(PRIVATE)})/[0-9a-f]{{64}}\.jsonl)"), r"\1"),
    (
        re.compile(
            rf"(agent/attempt-\d{{1,9}}/(?:{re.escape(TRANSCRIPT)}|{re.escape(PROXY_LOG)}))"
        ),
        r"\1",
    ),
)
"""Where an artifact lies in a Run's folder; what matches none is not downloaded."""


@dataclass(frozen=True)
class Downloaded:
    """What an experiment was brought up to."""

    sources: tuple[Path, ...]
    """For `analysis.find_runs`: the experiment's folder, or that of the sweep in it."""
    fetched: int
    """Runs that were downloaded now."""
    kept: int
    """Runs that were there already, unchanged."""
    skipped: tuple[str, ...] = ()
    """One line for each Run that is left out, with the reason."""


@dataclass
class _Cell:
    """The MLflow run of a Run."""

    run: Any
    newest: bool = True
    """Whether no other MLflow run has a later result of the same Run."""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def same_run(self) -> tuple[str, int]:
        """Equal for the results of one Run."""
        return self.tags.get("run") or self.tags.get("key", ""), int(self.run.info.start_time or 0)

    @property
    def ended(self) -> bool:
        return str(self.run.info.status) in ("FINISHED", "FAILED")

    @property
    def age(self) -> tuple[bool, int, int]:
        """Larger for the later of two results of one Run; what has not ended yet comes before all
        that has."""
        lines = self.tags.get(LINES, "")
        return self.ended, int(lines) if lines.isdecimal() else 0, int(self.run.info.end_time or 0)

    @property
    def place(self) -> PurePosixPath:
        """Below `runs/` or `other_rules/`."""
        names = [slug(self.tags.get(tag, ""))[:80] for tag in ("benchmark", "agent")]
        seed = slug(self.tags.get("seed", ""))[:20]
        return PurePosixPath(
            *names, f"s{seed}-{slug(self.tags.get('identity', self.run.info.run_id))[:16]}"
        )

    @property
    def stamp(self) -> str:
        """Another one whenever there is something new to download."""
        info = self.run.info
        told = [self.tags.get(name, "") for name in (LINES, ARTIFACTS, FILES)]
        return digest(
            "evopolicy/download-stamp/1", [info.run_id, info.status, info.end_time or 0, *told]
        )

    @property
    def name(self) -> str:
        return str(self.run.info.run_name or self.run.info.run_id)


def download(name: str, output: Path, tracking: Tracking) -> Downloaded:
    """Bring the experiment `name`, or one sweep of it (`EXPERIMENT/SWEEP`), up to date under
    `output`.

    `tracking.uri` names the store, '' the output folder's own. Runs that have not ended, those
    without a journal and those that cannot be read are left out and named. Raises ConfigError for
    an empty name, TrackingError for a store, experiment or sweep that is not there, and where no
    Run can be had at all."""
    if not name.strip("/ "):
        raise ConfigError(
            "source: 'mlflow:' names no experiment; write mlflow:EXPERIMENT or "
            "mlflow:EXPERIMENT/SWEEP"
        )
    uri, client = open_existing(tracking, output)
    experiment, sweep = _resolve(uri, client, name)
    asked = [mask_uri(uri), str(experiment.experiment_id), str(experiment.name)]
    folder = output / DOWNLOADS / digest("evopolicy/download/1", asked)[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold(folder / ".lock"):
            return _Download(uri, client, str(experiment.experiment_id), folder).bring(name, sweep)
    except OSError as error:
        raise TrackingError(
            f"downloads: {folder} cannot be written ({error.strerror}); choose another output"
        ) from None


def _resolve(uri: str, client: Any, name: str) -> tuple[Any, str]:
    """The experiment, and the sweep in it that is meant, '' for all. Names of experiments may have
    slashes."""
    before, _, last = name.rpartition("/")
    for experiment, sweep in ((name, ""), (before, last)):
        found = experiment and guarded(
            uri, "looking up the experiment", client.get_experiment_by_name, experiment
        )
        if found and found.lifecycle_stage == "active":
            return found, sweep
    known = guarded(uri, "listing experiments", client.search_experiments, max_results=_PAGE)
    names = [str(one.name) for one in known]
    near = did_you_mean(name, names)
    if before and not near.startswith(" Did you mean"):
        near = did_you_mean(before, names)
    raise TrackingError(f"source: there is no experiment '{name}' in {mask_uri(uri)}.{near}")


@dataclass
class _Download:
    """One experiment's folder, while nobody else writes to it."""

    uri: str
    client: Any
    experiment_id: str
    folder: Path

    def bring(self, name: str, sweep: str) -> Downloaded:
        self._sweep_up()
        cells = self._cells()
        wanted = (
            [cell for cell in cells if sweep_tag(sweep) in cell.tags]
            if sweep
            else [c for c in cells if c.newest]
        )
        planned = self._planned(sweep) if sweep else None
        fetched = kept = 0
        there: list[_Cell] = []
        skipped: list[str] = []
        for cell in wanted:
            try:
                fresh = self._bring(cell)
            except (TrackingError, RecordError, ValueError, TypeError) as error:
                shutil.rmtree(self._place(cell), ignore_errors=True)
                skipped.append(f"{cell.name}: {error}")
                continue
            there.append(cell)
            fetched, kept = fetched + fresh, kept + (not fresh)
        if not there and not planned:
            why = f": {skipped[0]}" if skipped else ""
            raise TrackingError(f"source: mlflow:{name} holds no Run that can be downloaded{why}")
        sources = self._sources(sweep, planned, there)
        return Downloaded(sources, fetched, kept, tuple(skipped))

    def _cells(self) -> list[_Cell]:
        """All Runs of the experiment, each marked whether it is the newest of its results."""
        runs = [run for run in self._search("cell") if SET_ASIDE not in run.data.tags]
        cells = [_Cell(run, tags=dict(run.data.tags)) for run in runs]
        best: dict[tuple[str, int], _Cell] = {}
        for cell in cells:
            if cell.same_run not in best or cell.age > best[cell.same_run].age:
                best[cell.same_run] = cell
        places: dict[PurePosixPath, _Cell] = {}
        for cell in cells:
            cell.newest = best[cell.same_run] is cell
            places.setdefault(cell.place, cell)
        self._rearrange(places)
        return list(places.values())

    def _search(self, kind: str) -> Iterator[Any]:
        token: str | None = None
        while True:
            clause = f"tags.kind = '{kind}'"
            page = guarded(
                self.uri,
                "listing runs",
                self.client.search_runs,
                [self.experiment_id],
                clause,
                max_results=_PAGE,
                page_token=token,
            )
            yield from page
            token = page.token
            if not token:
                return

    def _place(self, cell: _Cell, *, other: bool = False) -> Path:
        return self.folder / ("runs" if cell.newest is not other else _OTHER) / cell.place

    def _rearrange(self, places: Mapping[PurePosixPath, _Cell]) -> None:
        """Move what was the newest result of its Run and is not any more, and drop what the store
        has no more."""
        for cell in places.values():
            before, now = self._place(cell, other=True), self._place(cell)
            if before.is_dir():
                shutil.rmtree(now, ignore_errors=True)
                now.parent.mkdir(parents=True, exist_ok=True)
                before.rename(now)
        for top in ("runs", _OTHER):
            for path in (self.folder / top).glob("*/*/*"):
                if PurePosixPath(path.relative_to(self.folder / top)) not in places:
                    shutil.rmtree(path)

    def _sweep_up(self) -> None:
        """What a download that was killed has left."""
        for path in self.folder.glob(f"{_STAGING}*"):
            shutil.rmtree(path)

    # --- one Run ----------------------------------------------------------------------------------

    def _bring(self, cell: _Cell) -> bool:
        """Whether it had to be downloaded. Raises TrackingError or RecordError: it is to be left
        out."""
        if not cell.ended:
            raise TrackingError("has not ended yet")
        place = self._place(cell)
        if _stamp(place) == cell.stamp:
            return False
        staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.folder))
        try:
            arriving = staging / "run"
            self._fetch(cell, arriving)
            stamp = {
                SCHEMA_KEY: DOWNLOAD_FORMAT.newest,
                "run_id": cell.run.info.run_id,
                "stamp": cell.stamp,
            }
            (arriving / STAMP).write_text(json.dumps(stamp) + "\n")
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                place.rename(staging / "before")
            arriving.rename(place)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return True

    def _fetch(self, cell: _Cell, folder: Path) -> None:
        artifacts = Artifacts.of(self.uri, self.client, cell.run)
        files = {artifact.path: artifact for artifact in artifacts.files(_TOPS)}
        if JOURNAL not in files or RECORD not in files:
            raise TrackingError(
                f"its {JOURNAL if RECORD in files else RECORD} is not in MLflow: it never ended"
            )
        artifacts.fetch([(files[name], folder / name) for name in (RECORD, JOURNAL)])
        try:
            run = load_run(folder)
        except RecordError as error:
            raise RecordError(str(error).replace(f"{folder}/", "")) from None
        if (run.record.key, run.record.result_key) != (
            cell.tags.get("key"),
            cell.tags.get("result_key"),
        ):
            raise TrackingError(f"its {RECORD} is of another Run than its tags say")
        programs = dict(_programs(run, files))
        artifacts.fetch(
            [*_laid(files, folder), *((files[path], folder / to) for path, to in programs.items())]
        )
        for name in dict.fromkeys(path.split("/")[1] for path in programs.values()):
            _restore_program(folder / "programs" / name, name)
        for submission in run.state.published:
            _restore_names(submission_folder(folder, submission.id) / "feedback")

    # --- a sweep ----------------------------------------------------------------------------------

    def _planned(self, sweep: str) -> Sweep | None:
        """The sweep as it was logged; None where MLflow does not hold its file."""
        runs = list(self._search("sweep"))
        run = next((run for run in runs if run.data.tags.get("sweep") == sweep), None)
        if run is None:
            near = did_you_mean(sweep, [run.data.tags.get("sweep", "") for run in runs])
            raise TrackingError(f"source: the experiment has no sweep '{sweep}'.{near}")
        artifacts = Artifacts.of(self.uri, self.client, run)
        found = artifacts.files([SWEEP])
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=self.folder) as staging:
            artifacts.fetch([(artifact, Path(staging) / SWEEP) for artifact in found])
            return read_sweep(Path(staging)) if found else None

    def _sources(
        self, sweep: str, planned: Sweep | None, there: Sequence[_Cell]
    ) -> tuple[Path, ...]:
        if not sweep:
            return (self.folder,)
        if planned is None:  # logged before sweeps' files were
            return tuple(self._place(cell) for cell in there)
        places = {
            (cell.tags.get(FOLDER), cell.tags.get("result_key")): self._place(cell)
            .relative_to(self.folder)
            .as_posix()
            for cell in there
        }
        cells = []
        for cell in planned.cells:
            mine = (
                place
                for (run, key), place in places.items()
                if run == cell.run and cell.result_key in ("", key)
            )
            cells.append(replace(cell, run=next(mine, cell.run)))
        name = slug(sweep)
        write_sweep(self.folder, replace(planned, name=name, cells=tuple(cells), tracking={}))
        return (sweep_folder(self.folder, name),)


def _stamp(place: Path) -> str:
    """Of the Run that was downloaded to `place`; '' where there is none."""
    try:
        value = parse_object(read_part(place, STAMP, DOWNLOAD_FORMAT.bytes))
        return str(DOWNLOAD_FORMAT.upgraded(value, STAMP)["stamp"])
    except (OSError, ValueError, KeyError, RecordError):
        return ""


def _laid(files: Mapping[str, Artifact], folder: Path) -> Iterator[tuple[Artifact, Path]]:
    """Each artifact with its place, the Programs' left out."""
    for path, artifact in files.items():
        for pattern, place in _PLACES:
            if match := pattern.fullmatch(path):
                yield artifact, folder / match.expand(place)


def _programs(run: Run, files: Mapping[str, Artifact]) -> Iterator[tuple[str, str]]:
    """Path of each file of a Program among the artifacts and in the Run's folder; each Program
    once."""
    first = {run.record.initial_program: INITIAL}
    for submission in run.state.submissions:
        first.setdefault(submission.program, f"{submission.id:04d}")
    tops = {
        f"programs/{name}": program
        for program, name in first.items()
        if re.fullmatch(r"[0-9a-f]{64}", program)
    }
    for path in files:
        parts = path.split("/")
        program = tops.get("/".join(parts[:2]))
        if program and len(parts) > 2:
            yield path, "/".join(["programs", program, *parts[2:]])


def _restore_program(folder: Path, program: str) -> None:
    """Give files the names they have in the Program: its digest tells which of them end in `.txt`
    by themselves.

    A Program with a secret in it was logged without it, so that nothing has its digest; its files
    are kept."""
    with contextlib.suppress(ProgramError):
        if capture(folder).digest == program:
            return
    _restore_names(folder)


def _restore_names(folder: Path) -> None:
    """Take the `.txt` away from what a browser would run, which tracking puts behind its name."""
    for path in sorted(folder.rglob("*.txt")):
        name = path.with_suffix("")
        if is_active(name.name) and not name.exists():
            path.rename(name)
