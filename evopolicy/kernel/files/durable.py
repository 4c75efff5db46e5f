"""Writing that lasts: whole or not at all, and on disk together with the folder entry that leads to
it.

Whatever the journal, or another file of a record, refers to is made by these functions: after a
loss of power the name is there, and what it names is complete."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_durably(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, whole or not at all. Its folder is made where it is not there.
    Raises OSError."""
    make_folder(path.parent)
    staging = path.with_name(f".{path.name}.staging")
    try:
        staging.unlink(missing_ok=True)
        # A folder may come from anybody: a link under that name is replaced, never written through.
        with os.fdopen(os.open(staging, _NEW, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
    except BaseException:
        with suppress(OSError):
            staging.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Have the folder `path` there, and every folder above it, each of them durable. Raises
    OSError."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def move_durably(source: Path, target: Path) -> None:
    """Rename `source`, whose content is on disk already, to `target` in a folder that is there.
    Raises OSError."""
    source.rename(target)
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def link_durably(link: Path, to: str) -> None:
    """Make the symbolic link `link` to `to`; its folder is made where it is not there. Raises
    OSError."""
    make_folder(link.parent)
    link.symlink_to(to)
    sync_folder(link.parent)


def sync_tree(folder: Path) -> None:
    """Make everything below `folder` durable, and its own entry; links are not followed. Raises
    OSError."""
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if not path.is_symlink():
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        sync_folder(Path(root))
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the entries of `folder` durable: what was made in it, renamed or removed. Raises
    OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_lock(path: Path) -> FileIO:
    """The lock file at `path`, made where it is not there; a link is not followed. Raises
    OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return FileIO(os.open(path, flags, 0o666), "r+")
