"""Taking secrets out of the files an agent has left: within bounds, and what lies beyond them does
not stay."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from evopolicy.kernel.files import beneath
from evopolicy.kernel.secrecy.masking import Masking
from evopolicy.kernel.secrecy.secrets import Masker
from evopolicy.kernel.shown import clean

MAX_BYTES = 512 << 20
"""Read of all files together; holes in them are not counted, since nothing is in them."""
MAX_NAMES = 200_000
MAX_DEPTH = 200
"""Folders within each other."""
_CHUNK = 1 << 20
_MANY = 100_000
_OUR_TROUBLE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}
)
"""What no agent is to blame for: the Run stops and is resumed, rather than that files are lost."""


@dataclass
class Cut:
    """What could not be looked through for secrets and is gone for that: removed, or a file's
    end."""

    count: int = 0
    paths: list[str] = field(default_factory=list)
    """Of the first SHOWN, relative, with what of each: `x/big.bin (its first 4,096 of 9,999 bytes
    are kept)`."""

    SHOWN = 20

    def add(self, path: str, what: str) -> None:
        self.count += 1
        if self.count <= self.SHOWN:
            self.paths.append(f"{clean(path)} ({what})")


def mask_files(folder: Path, mask: Masker) -> Cut:
    """Mask what is below `folder` in place: files, their names, where links lead. Says what was
    cut.

    Nothing is followed, and a file with a second name, which may be one outside, is replaced by a
    masked copy. Of all files MAX_BYTES are read: what lies beyond (also MAX_NAMES names, MAX_DEPTH
    folders, and what cannot be read) is removed, because nobody knows whether a secret is in it.
    Raises OSError where the disk fails or is full."""
    walk = _Walk(mask)
    try:
        with beneath.opened(folder) as fd:
            walk.folder(fd, "", 0)
    except (FileNotFoundError, NotADirectoryError):
        pass
    return walk.cut


class _Walk:
    def __init__(self, mask: Masker) -> None:
        self._mask = mask
        self._bytes = MAX_BYTES
        self._names = MAX_NAMES
        self.cut = Cut()

    def folder(self, fd: int, prefix: str, depth: int) -> None:
        names = [name for name, _ in islice(beneath.names_in(fd), max(0, self._names))]
        self._names -= len(names)
        kept = {self._one(name, fd, prefix, depth) for name in sorted(names)}
        while self._names <= 0 and (more := self._others(fd, kept)):
            for name in more:
                self._remove(name, fd, prefix, "one name too many")

    def _others(self, fd: int, kept: Collection[str]) -> list[str]:
        return list(islice((name for name, _ in beneath.names_in(fd) if name not in kept), _MANY))

    def _one(self, name: str, fd: int, prefix: str, depth: int) -> str:
        """Mask what is at `name`. Returns the name it has now."""
        try:
            name = self._masked_name(name, fd)
            if beneath.is_folder(name, fd):
                self._enter(name, fd, prefix, depth + 1)
            else:
                self._file(name, fd, prefix)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in _OUR_TROUBLE:
                raise
            self._remove(name, fd, prefix, error.strerror or "cannot be read")
        return name

    def _enter(self, name: str, fd: int, prefix: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self._remove(name, fd, prefix, "nested too deep")
            return
        inner = beneath.entered(name, fd)
        try:
            self.folder(inner, f"{prefix}{name}/", depth)
        finally:
            os.close(inner)

    def _remove(self, name: str, fd: int, prefix: str, why: str) -> None:
        self.cut.add(prefix + name, why)
        beneath.remove(name, fd)

    def _masked_name(self, name: str, fd: int) -> str:
        raw = os.fsencode(name)
        if not self._mask.holds(raw):
            return name
        target = os.fsdecode(self._mask.data(raw).replace(b"/", b"_"))
        if beneath.status_of(target, fd) is not None:
            target = f"{target[:100]}-{secrets.token_hex(8)}"
        os.rename(name, target, src_dir_fd=fd, dst_dir_fd=fd)
        return target

    def _file(self, name: str, fd: int, prefix: str) -> None:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            if self._mask.holds(os.fsencode(os.readlink(name, dir_fd=fd))):
                os.unlink(name, dir_fd=fd)
        elif stat.S_ISREG(status.st_mode):
            with self._readable(name, fd) as file:
                self._regular(file, name, fd, prefix)

    def _readable(self, name: str, fd: int) -> AbstractContextManager[FileIO]:
        try:
            return beneath.reading(name, fd)
        except PermissionError:
            beneath.unlock(name, fd, 0o600)
            return beneath.reading(name, fd)

    def _regular(self, file: FileIO, name: str, fd: int, prefix: str) -> None:
        status, most = os.fstat(file.fileno()), self._bytes
        look = _Copy(file, None, self._mask, most)
        self._bytes -= look.read
        if look.whole and not look.masked:
            return
        with beneath.replacing(name, fd, stat.S_IMODE(status.st_mode) & 0o777) as target:
            _Copy(file, target, self._mask, look.read)
        if not look.whole:
            kept = f"its first {look.read:,} of {status.st_size:,} bytes are kept"
            self.cut.add(
                prefix + name, kept if look.read else f"{status.st_size:,} bytes, none of them kept"
            )


class _Copy:
    """A file masked into `target`, or looked through for secrets where there is none. Holes in it
    stay holes."""

    def __init__(self, file: FileIO, target: BinaryIO | None, mask: Masker, most: int) -> None:
        self.read = 0
        self.whole = True
        self.masked = False
        self._target = target
        end = 0
        for start, stop in _extents(file.fileno()):
            if target is not None:
                target.seek(start - end, os.SEEK_CUR)
            end = stop
            if stop - start > most - self.read:
                stop, self.whole = start + most - self.read, False
            self._extent(file, mask, start, stop)
            if not self.whole:
                break
        if target is not None:
            hole = os.fstat(file.fileno()).st_size - end if self.whole else 0
            target.truncate(target.seek(max(0, hole), os.SEEK_CUR))

    def _extent(self, file: FileIO, mask: Masker, start: int, stop: int) -> None:
        masking = Masking(mask)
        file.seek(start)
        while start < stop and (data := file.read(min(_CHUNK, stop - start))):
            start += len(data)
            self.read += len(data)
            self._put(masking.feed(data))
        self._put(masking.end())
        self.masked = self.masked or masking.masked

    def _put(self, data: bytes) -> None:
        if self._target is not None:
            self._target.write(data)


def _extents(fd: int) -> Iterator[tuple[int, int]]:
    """Where a file has data, from and to; the rest are holes, which read as zeros."""
    size, place = os.fstat(fd).st_size, 0
    while place < size:
        try:
            start = os.lseek(fd, place, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return
        place = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, place
