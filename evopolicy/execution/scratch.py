"""Scratch folders of a template's Episodes, kept in one of two ways: made for each, or mounted once with a bound."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Protocol

from evopolicy.execution import process, sandbox
from evopolicy.execution.folders import remove

_FEW = 16


class Scratches(Protocol):
    """Where a template has the scratch folders of its Episodes."""

    @property
    def busy(self) -> bool:
        """Whether `reap` has something to wait for."""

    def take(self) -> str | None:
        """A new empty folder; None while none is free."""

    def give_back(self, scratch: str) -> None:
        """The Episode of `scratch` is gone. Does not wait for what it left."""

    def reap(self) -> None:
        """Look after what was given back."""

    def end(self) -> None:
        """Stop looking after anything."""


class MadeFolders:
    """One folder per Episode below `root`. The worker removes what an Episode left: `left` tells it the name."""

    busy = False

    def __init__(self, root: str, left: Callable[[str], None]) -> None:
        self._root = root
        self._left = left

    def take(self) -> str:
        scratch = f"{self._root}/{secrets.token_hex(8)}"
        os.mkdir(scratch, 0o700)  # noqa: PTH102 (once per Episode: no Path object)
        return scratch

    def give_back(self, scratch: str) -> None:
        try:
            os.rmdir(scratch)  # noqa: PTH106 (once per Episode: no Path object)
        except OSError:
            self._left(scratch.rpartition("/")[2])

    def reap(self) -> None:
        pass

    def end(self) -> None:
        pass


def _slot(scratch: str) -> str:
    return scratch.rpartition("/")[0]


def _tidied(scratch: str) -> bool:
    """Removes a folder with a few files in it or none: quicker done than a process started that does it."""
    try:
        with os.scandir(scratch) as entries:
            found = list(islice(entries, _FEW + 1))
        if len(found) > _FEW or any(entry.is_dir(follow_symlinks=False) for entry in found):
            return False
        for entry in found:
            os.unlink(entry.path)  # noqa: PTH108 (once per Episode: no Path objects)
        os.rmdir(scratch)  # noqa: PTH106
    except OSError:
        return False
    return True


class BoundedSlots:
    """Mounts below `root`, each with a bound on its size, used again once a process of their own has emptied them.

    The Episode's folder is a new one inside the mount: its times tell nothing of the Episode before, and no Episode
    can guess another one's name.
    """

    def __init__(self, root: str, count: int) -> None:
        """Whatever another template left in them is removed first."""
        self._free: list[str] = []
        self._sweeping: dict[int, str] = {}
        self._count = count
        for number in range(count):
            slot = f"{root}/{number}"
            with os.scandir(slot) as entries:
                left = [entry.path for entry in entries]
            if left:
                self._sweep(left[0])
            else:
                self._free.append(slot)

    @property
    def busy(self) -> bool:
        return bool(self._sweeping)

    def take(self) -> str | None:
        if not self._free:
            if self._count == 0:
                raise OSError("no scratch folder could be emptied")
            return None
        scratch = f"{self._free.pop()}/{secrets.token_hex(8)}"
        os.mkdir(scratch, 0o700)  # noqa: PTH102 (once per Episode: no Path object)
        return scratch

    def give_back(self, scratch: str) -> None:
        if _tidied(scratch):
            self._free.append(_slot(scratch))
        else:
            self._sweep(scratch)

    def reap(self) -> None:
        for pid, scratch in list(self._sweeping.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == 0:
                continue
            del self._sweeping[pid]
            if status == 0:
                self._free.append(_slot(scratch))
            else:
                self._count -= 1  # What cannot be emptied is not used again.

    def end(self) -> None:
        for pid in self._sweeping:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _sweep(self, scratch: str) -> None:
        parent = os.getpid()
        pid = process.plain_fork()
        if pid:
            self._sweeping[pid] = scratch
            return
        try:
            process.die_with_parent(parent)
            # An end of an Episode's wire held here would hide from the worker that the Episode has ended.
            os.closerange(3, sandbox.OPEN_FILES)
            remove(Path(scratch))
        finally:
            os._exit(os.path.lexists(scratch))
