"""Programs: immutable, content-addressed snapshots of a source tree with `policy.py` at its
root."""

from __future__ import annotations

import difflib
import errno
import hashlib
import io
import os
import re
import shutil
import stat
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from evopolicy.kernel.errors import ProgramError, RecordError
from evopolicy.kernel.files import beneath
from evopolicy.kernel.files.durable import link_durably, make_folder, move_durably, sync_folder
from evopolicy.kernel.files.received import names_in
from evopolicy.kernel.shown import misleading

MAX_FILES = 1_000
MAX_FILE_BYTES = 16 * 2**20
MAX_TREE_BYTES = 64 * 2**20
MAX_FOLDERS = 3 * MAX_FILES
MAX_NAMES = 20 * MAX_FILES
"""Names looked at in all, with those that are left out: a folder of millions is refused before it
is listed."""
_DOMAIN = b"evopolicy/program/1"
_LEFT_OUT = {".git", "__pycache__"}
# (read, written), seconds since 1970. A file read at a time to come is not marked as read again by
# the usual kind of mount (relatime): otherwise the Episodes of a Program could tell each other
# something by what they read of it.
_TIMES = (4_102_444_800, 315_532_800)
_RESERVED = set('<>:"|?*')
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHER_KIND = (errno.ELOOP, errno.EINVAL, errno.ENXIO)
"""Of opening a link, what is not a regular file, and a socket."""
_CHANGED = "the tree changed while it was read; submit again when nothing writes to it"


@dataclass(frozen=True)
class Program:
    """The files of one snapshot. Equal digests mean equal files."""

    digest: str
    """64 hex digits."""
    files: Mapping[str, bytes]
    """Contents by POSIX path relative to the root, in sorted order."""

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(len(content) for content in self.files.values())


def capture(folder: Path, beneath: Path | None = None) -> Program:
    """Snapshot the tree at `folder`. Raises ProgramError, naming path and rule, for what a Program
    may not hold.

    With `beneath`, `folder` is relative to it and no link on the way from there is followed: an
    agent named it."""
    name = _shown(folder.as_posix() if beneath is not None else folder.name or ".")
    try:
        with _open_folder(folder, beneath) as handle:
            files = _read_tree(handle, name)
            if "policy.py" not in files:
                raise ProgramError(f"{name}: policy.py is missing at the Program's root")
            again = _read_tree(handle, name)
    except FileNotFoundError:
        raise ProgramError(f"{name}: there is no such folder") from None
    except OSError as error:
        raise ProgramError(f"{name}: {_unreadable(error)}") from None
    if files != again:
        raise ProgramError(f"{name}: {_CHANGED}")
    return Program(_digest(files), files)


def _unreadable(error: OSError) -> str:
    if isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP:
        return "is a file or goes through a symlink; name the real folder"
    return f"cannot be read ({error.strerror}); make it readable or remove it"


@contextmanager
def _open_folder(folder: Path, beneath: Path | None) -> Iterator[int]:
    """A descriptor of `folder`, opened part by part from `beneath` so that no part can be a
    link."""
    top = os.O_RDONLY | os.O_DIRECTORY if beneath is None else _FOLDER
    handles = [os.open(folder if beneath is None else beneath, top)]
    try:
        for part in folder.parts if beneath is not None else ():
            handles.append(os.open(part, _FOLDER, dir_fd=handles[-1]))
        yield handles[-1]
    finally:
        for handle in handles:
            os.close(handle)


@dataclass
class _Reading:
    """What one walk over a tree has found."""

    title: str
    stored: bool
    """Whether it was captured before, by the rules of its day: its digest tells that it is what it
    was."""
    files: dict[str, bytes] = field(default_factory=dict)
    folded: dict[str, str] = field(default_factory=dict)
    names: int = 0
    folders: int = 0
    size: int = 0

    def names_in(self, handle: int) -> list[str]:
        """The names in a folder that belong to a Program, sorted."""
        names: list[str] = []
        with os.scandir(handle) as entries:
            for entry in entries:
                self.names += 1
                if self.names > MAX_NAMES:
                    raise ProgramError(
                        f"{self.title}: holds more than {MAX_NAMES} names; make it smaller"
                    )
                if entry.name not in _LEFT_OUT and not entry.name.endswith(".pyc"):
                    names.append(entry.name)
        return sorted(names)

    def enter(self) -> None:
        self.folders += 1
        if self.folders > MAX_FOLDERS:
            raise ProgramError(
                f"{self.title}: holds more than {MAX_FOLDERS} folders; make it smaller"
            )

    def keep(self, path: str, content: bytes) -> None:
        self.files[path] = content
        self.size += len(content)
        if len(self.files) > MAX_FILES:
            raise ProgramError(f"{self.title}: holds more than {MAX_FILES} files; make it smaller")
        if self.size > MAX_TREE_BYTES:
            raise ProgramError(
                f"{path}: the Program exceeds {MAX_TREE_BYTES // 2**20} MiB in all; make it smaller"
            )


def _read_tree(tree: int, title: str, *, stored: bool = False) -> dict[str, bytes]:
    """Contents by relative path, sorted. Walks by descriptors: no link put in a folder's place is
    ever followed."""
    reading = _Reading(title, stored)
    _walk(reading, tree, "")
    return dict(sorted(reading.files.items()))


def _walk(reading: _Reading, handle: int, prefix: str) -> None:
    """One folder. Never deep: a path has at most 240 characters."""
    for name in reading.names_in(handle):
        path = prefix + name
        _check_name(path, name)
        if not reading.stored and (character := misleading(name)):
            raise ProgramError(
                f"{_shown(path)}: the name may be taken for another one, by its {character}; "
                "rename it"
            )
        if (other := reading.folded.setdefault(path.casefold(), path)) != path:
            raise ProgramError(f"{path}: differs from {other} only in case; rename one")
        try:
            if not _is_folder(handle, path, name):
                reading.keep(path, _read_file(handle, path, name))
                continue
            reading.enter()
            inner = os.open(name, _FOLDER, dir_fd=handle)
            try:
                _walk(reading, inner, path + "/")
            finally:
                os.close(inner)
        except OSError as error:
            # It was listed a moment ago: gone, or another kind of thing by now.
            changed = (
                isinstance(error, FileNotFoundError | NotADirectoryError)
                or error.errno in _OTHER_KIND
            )
            raise ProgramError(
                f"{_shown(path)}: {_CHANGED if changed else _unreadable(error)}"
            ) from None


def _is_folder(handle: int, path: str, name: str) -> bool:
    """Raises ProgramError for what is neither a folder nor a regular file."""
    mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        return True
    if not stat.S_ISREG(mode):
        kind, remedy = "a special file", "remove it"
        if stat.S_ISLNK(mode):
            kind, remedy = "a symlink", "put a copy of what it leads to in its place"
        raise ProgramError(
            f"{_shown(path)}: is {kind}; a Program holds regular files only: {remedy}"
        )
    return False


def _check_name(path: str, name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise ProgramError(f"{_shown(path)}: the name is not UTF-8; rename it") from None
    if unicodedata.normalize("NFC", name) != name:
        raise ProgramError(f"{_shown(path)}: the name is not in Unicode form NFC; rename it")
    if any(
        c == "\\" or unicodedata.category(c) == "Cc" or c in _RESERVED for c in name
    ) or name.endswith((" ", ".")):
        raise ProgramError(
            f"{_shown(path)}: the name is not portable (backslash, control or reserved character)"
        )
    if len(path) > 240:
        raise ProgramError(
            f"{_shown(path[:60])}...: the path is longer than 240 characters; shorten it"
        )


def _shown(path: str) -> str:
    return (
        path.encode("unicode_escape", "surrogatepass").decode("ascii", "replace")
        if misleading(path)
        else path
    )


def _read_file(handle: int, path: str, name: str) -> bytes:
    """The bytes of a regular file, opened without following a link that took its place
    meanwhile."""
    with beneath.reading(name, handle) as file:
        content = beneath.first_bytes(file, MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ProgramError(f"{path}: is larger than {MAX_FILE_BYTES // 2**20} MiB; make it smaller")
    return content


def _digest(files: Mapping[str, bytes]) -> str:
    """SHA-256 over a domain tag and length-prefixed sorted paths and contents."""
    hasher = hashlib.sha256(_DOMAIN)
    for path in sorted(files):
        for part in (path.encode(), files[path]):
            hasher.update(len(part).to_bytes(8, "big"))
            hasher.update(part)
    return hasher.hexdigest()


@dataclass(frozen=True)
class ProgramStore:
    """Stores each Program once, read-only, under `root/<first two digits>/<digest>/`."""

    root: Path

    def folder(self, digest: str) -> Path:
        """Where the Program with `digest` lies (or would lie)."""
        return self.root / digest[:2] / digest

    def put(self, program: Program, *, durable: bool = True) -> Path:
        """Store `program` and return its folder. Two Hosts may do so at once.

        Not `durable`: for a store that is thrown away. Waiting for the disk costs a thousand files
        half a minute."""
        target = self.folder(program.digest)
        if target.is_dir():
            return target
        make_folder(target.parent)
        staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=target.parent))
        try:
            _write_tree(staging, program.files, durable=durable)
            if durable:
                move_durably(staging, target)
            else:
                staging.rename(target)
        except OSError:
            shutil.rmtree(staging, ignore_errors=True)
            if not target.is_dir():
                raise
        return target

    def get(self, digest: str) -> Program:
        """The stored Program. Raises RecordError where it is missing or no longer has its
        digest."""
        folder = self.folder(digest)
        if not folder.is_dir():
            raise RecordError(
                f"Program {digest[:12]} is not in {self.root.name}/; restore it from where the "
                "Run was made"
            )
        try:
            with _open_folder(folder, None) as handle:
                files = _read_tree(handle, folder.name, stored=True)
        except (ProgramError, OSError) as error:
            raise RecordError(
                f"Program {digest[:12]} cannot be read ({error}); restore it"
            ) from None
        if _digest(files) != digest:
            raise RecordError(f"Program {digest[:12]} was changed after it was stored; restore it")
        return Program(digest, files)


def archived(folder: Path, digest: str) -> Program | None:
    """The Program `digest` as the Run in `folder` keeps it; None where its files are not there any
    more.

    A link under its name is followed to a store of Programs alone, and only to files that have the
    digest. Files that lie in the Run's folder itself may be others (a download leaves secrets out):
    the Program's own digest says so. Raises RecordError for what is no digest, a link to anything
    else, and what is no Program."""
    if not _DIGEST.fullmatch(digest):
        raise RecordError(
            f"{folder}: '{_shown(digest[:70])}' is not a Program's digest (64 hexadecimal digits)"
        )
    stored = folder / "programs" / digest
    try:
        with _open_folder(Path("programs"), folder) as programs:
            linked = stat.S_ISLNK(os.stat(digest, dir_fd=programs, follow_symlinks=False).st_mode)
            if linked and PurePosixPath(os.readlink(digest, dir_fd=programs)).parts[-3:] != (
                "programs", digest[:2], digest,
            ):  # fmt: skip
                raise RecordError(f"{stored}: is a link, and not to a store of Programs; remove it")
            handle = os.open(
                digest, (_FOLDER & ~os.O_NOFOLLOW) if linked else _FOLDER, dir_fd=programs
            )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"{stored}: {_unreadable(error)}") from None
    try:
        files = _read_tree(handle, digest[:12])
    except (ProgramError, OSError) as error:
        raise RecordError(f"{stored}: is not a Program ({error})") from None
    finally:
        os.close(handle)
    program = Program(_digest(files), files)
    if linked and program.digest != digest:
        raise RecordError(
            f"{stored}: the files it leads to are not those of its digest; restore them or remove "
            "it"
        )
    return program


def archived_names(folder: Path) -> list[str]:
    """The digests of the Programs that the Run in `folder` keeps, or links. Raises RecordError."""
    return [name for name in names_in(folder, "programs") if _DIGEST.fullmatch(name)]


def _write_tree(folder: Path, files: Mapping[str, bytes], *, durable: bool) -> None:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        target.chmod(0o444)
        os.utime(target, _TIMES)
    inner = {
        parent
        for path in files
        for parent in (folder / path).parents
        if parent.is_relative_to(folder)
    }
    for inner_folder in sorted(inner, reverse=True):
        if durable:
            sync_folder(inner_folder)
        os.utime(inner_folder, _TIMES)
    folder.chmod(0o755)


def link_program(folder: Path, store: ProgramStore, digest: str) -> None:
    """Link a stored Program from a Run's `programs/`, relative, so that the output folder can be
    moved."""
    link = folder / "programs" / digest
    if link.is_symlink() or link.exists():
        return
    make_folder(link.parent)
    link_durably(link, os.path.relpath(store.folder(digest).resolve(), link.parent.resolve()))


def diff(before: Program | None, after: Program) -> str:
    """Unified diff of the text files; of others, one line that says they changed."""
    old = before.files if before else {}
    parts: list[str] = []
    for path in sorted(set(old) | set(after.files)):
        a, b = old.get(path), after.files.get(path)
        if a == b:
            continue
        try:
            lines = (_lines(a), _lines(b))
        except UnicodeDecodeError:
            parts.append(f"Binary file {path} differs\n")
            continue
        if not a and not b:
            parts.append(f"Empty file {path} {'added' if a is None else 'removed'}\n")
        parts.extend(
            line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(*lines, f"a/{path}", f"b/{path}")
        )
    return "".join(parts)


def _lines(content: bytes | None) -> list[str]:
    """Lines of a text file as an editor counts them; `str.splitlines` would also split at form
    feeds and the like."""
    return list(io.StringIO((content or b"").decode(), newline="\n"))
