"""Reads Runs and sweeps from disk. Nothing else in analysis touches a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, overload

from evopolicy.kernel.errors import RecordError, did_you_mean
from evopolicy.kernel.files.program import archived
from evopolicy.kernel.files.received import is_inside, lines_of, names_in, read_part
from evopolicy.kernel.files.versioned import PROXY_FORMAT, parse_object
from evopolicy.kernel.ports.outcome import Graded
from evopolicy.kernel.ports.pool import SPLITS
from evopolicy.kernel.run.agreement import contradictions, heldout_contradiction
from evopolicy.kernel.run.stream import PROXY_LOG, attempts_in
from evopolicy.kernel.run.sweep import SWEEP, Cell, read_sweep, run_of
from evopolicy.kernel.session.journal import JOURNAL
from evopolicy.kernel.session.record import RECORD, Run, load_run, run_part
from evopolicy.kernel.session.submission import OUTCOMES, read_graded, submission_name

if TYPE_CHECKING:
    from evopolicy.analysis.records.frames import Frames


_DEPTH = 32
"""Folders below a source in which Runs are looked for."""


@dataclass(frozen=True)
class Unreadable:
    """A folder or file that should hold a part of a Run and cannot be read."""

    folder: Path
    """The Run's folder."""
    reason: str
    """One sentence that names the file."""


@dataclass(frozen=True)
class Found(Sequence[Run]):
    """The Runs of one or more sources, finished or not; a sequence of them."""

    runs: tuple[Run, ...]
    cells: tuple[Cell, ...] = ()
    """What the sweeps among the sources have planned, started or not; () where there is no sweep
    among them."""
    unreadable: tuple[Unreadable, ...] = ()
    """Corrupt Runs, those of an unknown schema and those that contradict themselves: named, never
    fatal."""

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        return self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)


Compared = Literal["none", "heldout", "every"]
"""Which scores of a Run have to be those of its Episodes: none, the one that tables show, or all of
them."""


def find_runs(*sources: Path | str, compared: Compared = "heldout") -> Found:
    """The Runs under every source: a Run's folder, a sweep's, an output folder, or any folder above
    Runs.

    A Run named twice is loaded once, in a sweep with the result it has under that sweep's rule;
    sweeps of different rules name different results of it. Of a sweep, every planned cell is
    reported, whether it has begun or not.

    A Run whose journal tells other scores than its Episodes come to is one that cannot be read.
    `compared` says which; for "every" all its Episodes are read. Raises RecordError for a source
    that does not exist, holds neither Run nor sweep, or is a corrupt sweep."""
    folders: dict[Path, Path] = {}
    keys: dict[Path, dict[str, None]] = {}
    cells: dict[tuple[str, str], Cell] = {}
    for source in sources:
        found, planned = _expand(Path(source))
        for folder, key in found:
            folders.setdefault(folder.resolve(), folder)
            keys.setdefault(folder.resolve(), {})[key] = None
        cells.update(
            {
                (cell.run, cell.result_key): cell
                for cell in planned
                if (cell.run, cell.result_key) not in cells
            }
        )
    runs: list[Run] = []
    unreadable: list[Unreadable] = []
    for place, folder in folders.items():
        # Where a sweep says which result is meant, a source that names the Run alone asks for no
        # other one.
        asked = [key for key in keys[place] if key] or [""]
        try:
            run = load_run(folder)
            wrong = _contradiction(run, asked, compared)
        except (RecordError, OSError) as error:
            wrong = str(error)
        if wrong:
            unreadable.append(Unreadable(folder, wrong))
        else:
            runs.extend(run.under(key) for key in asked)
    return Found(tuple(runs), tuple(cells.values()), tuple(unreadable))


def _contradiction(run: Run, keys: Sequence[str], compared: Compared) -> str:
    """The first there is, by the rules of `keys`."""
    if compared == "every":
        return next(contradictions(run), "")
    return next(
        (
            told
            for key in keys
            if compared == "heldout" and (told := heldout_contradiction(run, key))
        ),
        "",
    )


def _expand(source: Path) -> tuple[list[tuple[Path, str]], tuple[Cell, ...]]:
    """Folders of Runs under `source` with the result key that is meant, and the cells planned where
    it is a sweep."""
    if source.name in (RECORD, JOURNAL, SWEEP) and source.is_file():
        source = source.parent
    if not source.is_dir():
        raise RecordError(f"source: {source} is not a folder.{_near(source)}")
    if (source / SWEEP).is_file():
        return _sweep_runs(source)
    runs = source / "runs"
    root = runs if runs.is_dir() and is_inside(source, runs) and not _is_run(source) else source
    folders = list(_walk(root))
    if not folders:
        if sweeps := sorted(path.parent.name for path in source.glob(f"*/{SWEEP}")):
            raise RecordError(
                f"source: {source} holds several sweeps; name one of them: {', '.join(sweeps)}"
            )
        raise RecordError(
            f"source: {source} holds no Run; name a Run's folder, a sweep's or the output folder"
        )
    return [(folder, "") for folder in folders], ()


def _near(source: Path) -> str:
    try:
        names = [path.name for path in source.parent.iterdir() if path.is_dir()]
    except OSError:
        return " Check the path."
    near = did_you_mean(source.name, names)
    # Where none is near, the folders that happen to lie there say nothing.
    return near if near.startswith(" Did you mean") else " Check the path."


def _sweep_runs(folder: Path) -> tuple[list[tuple[Path, str]], tuple[Cell, ...]]:
    sweep = read_sweep(folder)
    output = folder.absolute().parent.parent
    return [
        (run_of(output, cell), cell.result_key)
        for cell in sweep.cells
        if _is_run(output / cell.run)
    ], sweep.cells


def _is_run(folder: Path) -> bool:
    return (folder / RECORD).is_file() or (folder / JOURNAL).is_file()


def _walk(root: Path) -> Iterator[Path]:
    """Folders of Runs in a stable order. What lies inside a Run (an agent's own files) is never
    taken for another."""
    deepest = len(root.parts) + _DEPTH
    for current, folders, _ in os.walk(root):
        here = Path(current)
        if _is_run(here):
            folders.clear()
            yield here
        elif len(here.parts) >= deepest:
            folders.clear()
        else:
            folders.sort()


def cell_of(run: Path, cells: Iterable[Cell], result_key: str = "") -> Cell | None:
    """The planned cell whose Run lies in the folder `run`, if any: a cell's path is relative to the
    output folder.

    `result_key`: which result of the Run it must be, where cell and caller both say.
    """
    parts = run.parts
    for cell in cells:
        if not cell.run.endswith(run.name) or (
            result_key and cell.result_key not in ("", result_key)
        ):
            continue
        tail = PurePosixPath(cell.run).parts
        if parts[-len(tail) :] == tail:
            return cell
    return None


# --- what lies beside the journal -----------------------------------------------------------------


@dataclass(frozen=True)
class EpisodeFile:
    """The Episodes of one Submission, or of one Program on a private split."""

    split: str
    """'training', 'validation' or 'assessment'."""
    program: str
    """Digest."""
    submission: int | None
    """None on the private splits."""
    graded: tuple[Graded, ...]


def read_episodes(run: Run) -> tuple[list[EpisodeFile], list[Unreadable]]:
    """Every Episode of `run`'s result that is on disk: training from its Submissions, the private
    splits from its evaluations, which may hold more: what another selection rule or a larger split
    had measured.

    Files that are missing (not written yet, or pruned) are left out; corrupt ones are named in the
    second list."""
    paths: list[tuple[str, str, str, int | None]] = [
        (submission_name(s.id, OUTCOMES), "training", s.program, s.id)
        for s in run.state.submissions
    ]
    files: list[EpisodeFile] = []
    unreadable: list[Unreadable] = []
    for private in SPLITS:
        try:
            names = names_in(run.folder, f"evaluations/{private}")
        except RecordError as error:
            unreadable.append(Unreadable(run.folder, str(error)))
            continue
        graded_names = [name for name in names if name.endswith(".jsonl")]
        paths.extend(
            (f"evaluations/{private}/{name}", private, name[: -len(".jsonl")], None)
            for name in graded_names
        )
    for path, split, program, submission in paths:
        # Only a regrade measures the others on purpose; elsewhere they are what another rule had
        # selected.
        other = split == "assessment" and run.result.assessment and program != run.result.selected
        if other and not run.record.parent:
            continue
        try:
            graded = _read(run, path)
        except RecordError as error:
            unreadable.append(Unreadable(run.folder, str(error)))
            continue
        if submission is None:
            graded = tuple(
                one for one in graded if one.outcome.index < getattr(run.record.pool, split)
            )
        if graded:
            files.append(EpisodeFile(split, program, submission, graded))
    return files, unreadable


def _read(run: Run, name: str) -> tuple[Graded, ...]:
    top, part = run_part(run.folder, name)
    return tuple(read_graded(top / part, top))


def read_requests(run: Run) -> list[Mapping[str, Any]]:
    """What the Host's proxy passed on for `run`, in order: `time`, `model` and tokens by kind.

    Lines that are cut or of a newer version are left out, and so is a log that cannot be read.
    """
    found: list[Mapping[str, Any]] = []
    try:
        attempts = attempts_in(run.folder)
    except RecordError:
        return []
    for number in attempts:
        found.extend(_requests(run, f"agent/attempt-{number}/{PROXY_LOG}"))
    return sorted(found, key=lambda entry: float(entry["time"]))


REQUESTS = 1_000_000
"""Lines of one log that are looked at."""


def _requests(run: Run, name: str) -> Iterator[Mapping[str, Any]]:
    try:
        data = read_part(*run_part(run.folder, name), PROXY_FORMAT.bytes)
    except (RecordError, FileNotFoundError):
        return
    for line in islice(lines_of(data), REQUESTS):
        try:
            entry = PROXY_FORMAT.upgraded(parse_object(line), name)
        except (ValueError, RecordError):
            continue
        if "refused" not in entry and type(entry.get("time")) in (int, float):
            yield entry


SOURCE_BYTES = 1_000_000
"""A module of a Program larger than this is no source a person wrote; its text is left out of the
frames."""
DATA_BYTES = 100_000
"""A data file larger than this is left out likewise."""


@dataclass(frozen=True)
class ProgramFiles:
    """A Program as its archived folder holds it."""

    files: int
    bytes: int
    source: Mapping[str, str]
    """Text of its Python modules by relative path."""
    data: Mapping[str, str]
    """Text of its other files by relative path: of those that are text, up to DATA_BYTES each."""


def read_program(run: Run, digest: str) -> ProgramFiles | None:
    """The Program `digest` of `run`; None where its files are not there any more.

    Raises RecordError for what is no Program, or not that one's.
    """
    program = archived(run.folder, digest)
    if program is None:
        return None
    source = {
        path: content.decode("utf-8", "replace")
        for path, content in program.files.items()
        if path.endswith(".py") and len(content) <= SOURCE_BYTES
    }
    return ProgramFiles(len(program.files), program.size, source, dict(_texts(program.files)))


def _texts(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    for path, content in files.items():
        if not path.endswith(".py") and len(content) <= DATA_BYTES:
            with suppress(UnicodeDecodeError):
                yield path, content.decode()


def load_frames(runs: Iterable[Run], *, episodes: bool = True, programs: bool = True) -> Frames:
    """Typed frames of `runs` (a Found keeps its planned and unreadable cells); see `frames.COLUMNS`
    for the columns.

    `episodes=False` and `programs=False` leave those two frames empty and their files unread.
    """
    from evopolicy.analysis.records.frames import build_frames

    return build_frames(runs, episodes=episodes, programs=programs)
