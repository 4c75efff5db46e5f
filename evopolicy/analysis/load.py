"""Reads Runs and sweeps from disk. Nothing else in analysis touches a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, overload

import msgspec

from evopolicy.kernel.errors import RecordError, did_you_mean
from evopolicy.kernel.evaluation import Graded
from evopolicy.kernel.feedback import FEEDBACK
from evopolicy.kernel.journal import JOURNAL
from evopolicy.kernel.pool import SPLITS
from evopolicy.kernel.program import Program, diff
from evopolicy.kernel.record import RECORD, Run, load_run
from evopolicy.kernel.stream import PROXY_LOG, load_transcripts
from evopolicy.kernel.submission import OUTCOMES, read_graded, submission_folder
from evopolicy.kernel.sweep import SWEEP, Cell, read_sweep
from evopolicy.kernel.transcript import Transcript

if TYPE_CHECKING:
    from evopolicy.analysis.frames import Frames


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
    """What the sweeps among the sources have planned, started or not; () where there is no sweep among them."""
    unreadable: tuple[Unreadable, ...] = ()
    """Corrupt Runs and those of an unknown schema: named, never fatal."""

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        return self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)


def find_runs(*sources: Path | str) -> Found:
    """The Runs under every source: a Run's folder, a sweep's, an output folder, or any folder above Runs.

    A Run named twice is loaded once, in a sweep with the result it has under that sweep's rule; sweeps of different
    rules name different results of it. Of a sweep, every planned cell is reported, whether it has begun or not.
    Raises RecordError for a source that does not exist, holds neither Run nor sweep, or is a corrupt sweep.
    """
    folders: dict[Path, Path] = {}
    keys: dict[Path, dict[str, None]] = {}
    cells: dict[tuple[str, str], Cell] = {}
    for source in sources:
        found, planned = _expand(Path(source))
        for folder, key in found:
            folders.setdefault(folder.resolve(), folder)
            keys.setdefault(folder.resolve(), {})[key] = None
        cells.update(
            {(cell.run, cell.result_key): cell for cell in planned if (cell.run, cell.result_key) not in cells}
        )
    runs: list[Run] = []
    unreadable: list[Unreadable] = []
    for place, folder in folders.items():
        try:
            run = load_run(folder)
        except (RecordError, OSError) as error:
            unreadable.append(Unreadable(folder, str(error)))
            continue
        # Where a sweep says which result is meant, a source that names the Run alone asks for no other one.
        runs.extend(run.under(key) for key in [key for key in keys[place] if key] or [""])
    return Found(tuple(runs), tuple(cells.values()), tuple(unreadable))


def _expand(source: Path) -> tuple[list[tuple[Path, str]], tuple[Cell, ...]]:
    """Folders of Runs under `source` with the result key that is meant, and the cells planned where it is a sweep."""
    if source.name in (RECORD, JOURNAL, SWEEP) and source.is_file():
        source = source.parent
    if not source.is_dir():
        raise RecordError(f"source: {source} is no folder.{_near(source)}")
    if (source / SWEEP).is_file():
        return _sweep_runs(source)
    root = source / "runs" if (source / "runs").is_dir() and not _is_run(source) else source
    folders = list(_walk(root))
    if not folders:
        if sweeps := sorted(path.parent.name for path in source.glob(f"*/{SWEEP}")):
            raise RecordError(f"source: {source} holds several sweeps; name one of them: {', '.join(sweeps)}")
        raise RecordError(f"source: {source} holds no Run; name a Run's folder, a sweep's or the output folder")
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
    for cell in sweep.cells:
        path = PurePosixPath(cell.run)
        if path.is_absolute() or ".." in path.parts:
            raise RecordError(f"{folder / SWEEP}: the cell '{cell.run}' lies outside the output folder; repair it")
    return [(output / cell.run, cell.result_key) for cell in sweep.cells if _is_run(output / cell.run)], sweep.cells


def _is_run(folder: Path) -> bool:
    return (folder / RECORD).is_file() or (folder / JOURNAL).is_file()


def _walk(root: Path) -> Iterator[Path]:
    """Folders of Runs in a stable order. What lies inside a Run (an agent's own files) is never taken for another."""
    for current, folders, _ in os.walk(root):
        if _is_run(Path(current)):
            folders.clear()
            yield Path(current)
        else:
            folders.sort()


def cell_of(run: Path, cells: Iterable[Cell], result_key: str = "") -> Cell | None:
    """The planned cell whose Run lies in the folder `run`, if any: a cell's path is relative to the output folder.

    `result_key`: which result of the Run it must be, where cell and caller both say.
    """
    parts = run.parts
    for cell in cells:
        if not cell.run.endswith(run.name) or (result_key and cell.result_key not in ("", result_key)):
            continue
        tail = PurePosixPath(cell.run).parts
        if parts[-len(tail) :] == tail:
            return cell
    return None


# --- what lies beside the journal --------------------------------------------------------------------------------


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
    """Every Episode of `run`'s result that is on disk: training from its Submissions, the private splits from its
    evaluations, which may hold more: what another selection rule or a larger split had measured.

    Files that are missing (not written yet, or pruned) are left out; corrupt ones are named in the second list.
    """
    paths: list[tuple[Path, str, str, int | None]] = [
        (submission_folder(run.folder, s.id) / OUTCOMES, "training", s.program, s.id) for s in run.state.submissions
    ]
    for private in SPLITS:
        paths.extend(
            (path, private, path.stem, None) for path in sorted((run.folder / "evaluations" / private).glob("*.jsonl"))
        )
    files: list[EpisodeFile] = []
    unreadable: list[Unreadable] = []
    for path, split, program, submission in paths:
        # Only a regrade measures the others on purpose; elsewhere they are what another rule had selected.
        other = split == "assessment" and run.result.assessment and program != run.result.selected
        other = other and not run.record.parent
        if other or not path.is_file():
            continue
        try:
            graded = _read(path)
            if submission is None:
                graded = tuple(one for one in graded if one.outcome.index < getattr(run.record.pool, split))
            files.append(EpisodeFile(split, program, submission, graded))
        except RecordError as error:
            unreadable.append(Unreadable(run.folder, str(error)))
    return files, unreadable


def _read(path: Path) -> tuple[Graded, ...]:
    try:
        return tuple(read_graded(path))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror})") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: is corrupt ({error}); restore it from a copy") from None


def read_requests(run: Run) -> list[Mapping[str, Any]]:
    """What the Host's proxy passed on for `run`, in order: `time`, `model` and tokens by kind; cut lines left out."""
    found: list[Mapping[str, Any]] = []
    for path in sorted(run.folder.glob(f"agent/attempt-*/{PROXY_LOG}")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                entry = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(entry, dict) and "refused" not in entry and isinstance(entry.get("time"), int | float):
                found.append(entry)
    return sorted(found, key=lambda entry: float(entry["time"]))


SOURCE_BYTES = 1_000_000
"""A module of a Program larger than this is no source a person wrote; its text is left out of the frames."""


@dataclass(frozen=True)
class ProgramFiles:
    """A Program as its archived folder holds it."""

    files: int
    bytes: int
    source: Mapping[str, str]
    """Text of its Python modules by relative path."""


def read_program(run: Run, digest: str) -> ProgramFiles | None:
    """The Program `digest` of `run`; None where its files are not there any more."""
    folder = run.program(digest)
    if not folder.is_dir():
        return None
    count = total = 0
    source: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        size = path.stat().st_size
        count, total = count + 1, total + size
        if path.suffix == ".py" and size <= SOURCE_BYTES:
            source[path.relative_to(folder).as_posix()] = path.read_text("utf-8", "replace")
    return ProgramFiles(count, total, source)


# --- what a report shows of it -----------------------------------------------------------------------------------

FEEDBACK_BYTES = 32 << 20
"""A larger feedback.json is named, not read."""
PICTURES: Mapping[str, bytes] = {"image/gif": b"GIF8", "image/png": b"\x89PNG"}
"""Media types that are read as pictures, and how their files begin: no other kind is ever shown by a browser."""
DIFF_BYTES = 256 << 10
"""Of one file, each before and after: a larger one is named in a diff, not compared."""
DIFF_LINES = 4_000


@dataclass(frozen=True)
class Attached:
    """An artifact of Feedback."""

    name: str
    media_type: str
    size: int
    """Bytes."""
    episode: int | None
    """Public index it belongs to, where it belongs to one."""
    there: bool
    """False where it was evicted or pruned."""
    picture: bytes | None = None
    """Its content, where it is a GIF or PNG that was asked for."""


@dataclass(frozen=True)
class FeedbackFiles:
    """The Feedback of one Submission, as the agent got it."""

    content: Mapping[str, Any]
    """Of feedback.json; empty where it cannot be read."""
    artifacts: tuple[Attached, ...] = ()
    problem: str = ""
    """Why it is not there: one sentence."""


def read_feedback(run: Run, submission: int, picture_bytes: int) -> FeedbackFiles:
    """The Feedback of a published Submission, with the content of pictures of at most `picture_bytes` each."""
    folder = run.feedback(submission)
    path = folder / FEEDBACK
    try:
        if path.stat().st_size > FEEDBACK_BYTES:
            return FeedbackFiles({}, problem=f"{FEEDBACK} has {path.stat().st_size:,} bytes and is not shown")
        content = json.loads(path.read_bytes())
        rows = [_attached(folder, row, picture_bytes) for row in content.get("artifacts", ())]
    except FileNotFoundError:
        return FeedbackFiles({}, problem="its Feedback is not there any more")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return FeedbackFiles({}, problem=f"{FEEDBACK} cannot be read ({type(error).__name__})")
    return FeedbackFiles(content, tuple(rows))


def _attached(folder: Path, row: Mapping[str, Any], picture_bytes: int) -> Attached:
    name, media_type, episode = str(row["file"]), str(row["media_type"]), row.get("episode")
    path = folder / name
    inside = path.resolve().is_relative_to(folder.resolve()) and path.is_file()
    size = path.stat().st_size if inside else int(row["bytes"])
    picture = path.read_bytes() if inside and media_type in PICTURES and size <= picture_bytes else None
    if picture is not None and not picture.startswith(PICTURES[media_type]):
        picture = None
    return Attached(name, media_type, size, episode if isinstance(episode, int) else None, inside, picture)


@dataclass(frozen=True)
class Transcripts:
    """What the agent did, an attempt each."""

    attempts: tuple[Transcript, ...] = ()
    problem: str = ""
    """Why they are not there, where they cannot be read: one sentence."""


def read_transcripts(run: Run) -> Transcripts:
    """The transcripts of `run`, in the order of its attempts; one that is missing is left out."""
    try:
        return Transcripts(tuple(load_transcripts(run.folder)))
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        return Transcripts(problem=f"the transcript cannot be read ({type(error).__name__}: {error})")


@dataclass(frozen=True)
class Changes:
    """How one Program of a Run differs from another."""

    text: str = ""
    """Unified diff."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By path, why a file that differs is not compared."""
    problem: str = ""
    """Why there is none, where a Program's files are gone."""


def read_changes(run: Run, before: str | None, after: str) -> Changes:
    """The difference from the Program `before` (None: from nothing) to `after`, digests of Programs of `run`."""
    if before == after:
        return Changes()
    folders = [run.program(digest) for digest in (before, after) if digest is not None]
    if gone := [folder.name for folder in folders if not folder.is_dir()]:
        return Changes(problem=f"the files of Program {gone[0][:12]} are not there any more")
    try:
        old, new = _regular(folders[0]) if before is not None else {}, _regular(folders[-1])
        left_out, kept = dict[str, str](), (dict[str, bytes](), dict[str, bytes]())
        for name in sorted({*old, *new}):
            sizes = [files[name].stat().st_size for files in (old, new) if name in files]
            contents = [files[name].read_bytes() if name in files else None for files in (old, new)]
            if contents[0] == contents[1]:
                continue
            if max(sizes) > DIFF_BYTES or any((one or b"").count(b"\n") > DIFF_LINES for one in contents):
                words = " to ".join("nothing" if one is None else f"{len(one):,} bytes" for one in contents)
                left_out[name] = f"from {words}, too large to compare"
                continue
            for files, content in zip(kept, contents, strict=True):
                if content is not None:
                    files[name] = content
        return Changes(diff(Program(before, kept[0]) if before else None, Program(after, kept[1])), left_out)
    except OSError as error:
        return Changes(problem=f"the Programs cannot be read ({error.strerror})")


def _regular(folder: Path) -> dict[str, Path]:
    paths = (path for path in folder.rglob("*") if not path.is_symlink() and path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths}


def load_frames(runs: Iterable[Run], *, episodes: bool = True, programs: bool = True) -> Frames:
    """Typed frames of `runs` (a Found keeps its planned and unreadable cells); see `frames.COLUMNS` for the columns.

    `episodes=False` and `programs=False` leave those two frames empty and their files unread.
    """
    from evopolicy.analysis.frames import build_frames

    return build_frames(runs, episodes=episodes, programs=programs)
