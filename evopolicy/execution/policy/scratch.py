"""Scratch folders of a fork server's Episodes: one slot for each at a time, emptied by a process
that forks none.

An Episode makes its own folder in its slot, under a name it draws itself. Its fork server never
learns that name, nor any name in it: what a fork server has in memory, each later Episode is born
with."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import struct
from itertools import islice
from pathlib import Path
from typing import NoReturn

from evopolicy.execution.sandbox import confine as sandbox
from evopolicy.execution.sandbox import process
from evopolicy.kernel.files.folders import remove

_FEW = 16
_REAP_MS = 5
_RETRIES = 3
_ORDER = struct.Struct("<I")
"""To the sweeper: the number of a slot to empty."""
_DONE = struct.Struct("<I?")
"""From it: the number, and whether it is empty."""


def make(slot: str) -> str:
    """A new empty folder in `slot`, by the Episode's own process: no other one can guess its
    name."""
    scratch = f"{slot}/{secrets.token_hex(8)}"
    os.mkdir(scratch, 0o700)  # noqa: PTH102 (once per Episode: no Path object)
    return scratch


Pipes = tuple[int, int, int, int]


def pipes() -> Pipes:
    """What `Slots` and its sweeper speak through: made before a fork server is confined, which may
    make none."""
    return (*os.pipe(), *os.pipe())


class Slots:
    """Folders below `root`: `count` mounts, each with a bound on its size, or (0) as many as are
    needed, made here."""

    def __init__(self, root: str, count: int, pipes: Pipes) -> None:
        """Whatever another fork server left in the mounts is removed first. Raises OSError."""
        self._root = root
        self._bounded = count > 0
        self._count = count
        self._free: list[int] = []
        self._sweeping: set[int] = set(range(count))
        read_orders, self._orders = pipes[:2]
        self.news, tell = pipes[2:]
        """`news` can be read when a slot is free again, or the sweeper gone: call `reap`."""
        parent = os.getpid()
        self._sweeper = process.patient_fork()
        if self._sweeper == 0:
            _sweep_on_order(parent, root, read_orders, tell)
        os.close(read_orders)
        os.close(tell)
        for slot in self._sweeping:
            os.write(self._orders, _ORDER.pack(slot))

    def take(self) -> int | None:
        """The number of an empty slot; None while none is free. Raises OSError where there will
        never be one."""
        if self._free:
            return self._free.pop()
        if not self._bounded:
            os.mkdir(self.path(self._count), 0o700)  # noqa: PTH102 (no Path object in a fork server)
            self._count += 1
            return self._count - 1
        if self._count == 0:
            raise OSError("no scratch folder could be emptied")
        return None

    def path(self, slot: int) -> str:
        return f"{self._root}/{slot}"

    def untouched(self, slot: int) -> None:
        """No Episode has begun in it."""
        self._free.append(slot)

    def give_back(self, slot: int) -> None:
        """The Episode of `slot` is gone. Does not wait for what it left."""
        self._sweeping.add(slot)
        with contextlib.suppress(OSError):  # Where the sweeper is gone, `reap` says so.
            os.write(self._orders, _ORDER.pack(slot))

    def reap(self) -> None:
        """Take back what is empty. Raises OSError where the sweeper is gone: another fork server
        has another one."""
        message = os.read(self.news, _DONE.size)
        if len(message) < _DONE.size:
            raise OSError("what empties the scratch folders has ended")
        slot, empty = _DONE.unpack(message)
        self._sweeping.discard(slot)
        if empty:
            self._free.append(slot)
        elif self._bounded:
            self._count -= 1  # What cannot be emptied is not used again.

    def end(self) -> None:
        """Stop emptying anything."""
        os.kill(self._sweeper, signal.SIGKILL)  # Its number is its own until it is waited for.

    def close(self) -> None:
        """After `end`: wait for the sweeper."""
        os.close(self._orders)
        os.close(self.news)
        os.waitpid(self._sweeper, 0)


def _sweep_on_order(parent: int, root: str, orders: int, tell: int) -> NoReturn:
    """Be the sweeper, until the fork server is gone."""
    try:
        process.die_with_parent(parent)
        orders, tell = _only(orders, tell)
        _Sweeper(root, orders, tell).serve()
    finally:
        os._exit(0)


def _only(*fds: int) -> list[int]:
    """`fds`, all others closed: an end of an Episode's wire held here would hide from the worker
    that it has ended."""
    moved = [os.dup2(fd, sandbox.OPEN_FILES - 1 - at) for at, fd in enumerate(fds)]
    os.closerange(3, min(moved))
    return moved


class _Sweeper:
    """Empties slots: those with little in them at once, each of the others by a process of its
    own."""

    def __init__(self, root: str, orders: int, tell: int) -> None:
        self._root = root
        self._orders = orders
        self._tell = tell
        self._children: dict[int, int] = {}
        """Process -> the slot it empties."""

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._orders, select.POLLIN)
        while True:
            if poll.poll(_REAP_MS if self._children else None):
                order = os.read(self._orders, _ORDER.size)
                if not order:
                    return
                self._empty(*_ORDER.unpack(order))
            for pid in list(self._children):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self._say(self._children.pop(pid), status == 0)

    def _say(self, slot: int, empty: bool) -> None:
        os.write(self._tell, _DONE.pack(slot, empty))

    def _empty(self, slot: int) -> None:
        path = f"{self._root}/{slot}"
        if _tidied(path):
            self._say(slot, True)
            return
        parent = os.getpid()
        try:
            pid = process.plain_fork()
        except OSError:
            _swept(path)
            self._say(slot, _tidied(path))
            return
        if pid:
            self._children[pid] = slot
            return
        try:
            process.die_with_parent(parent)
            os.closerange(3, sandbox.OPEN_FILES)
            _swept(path)
        finally:
            os._exit(not _tidied(path))


def _tidied(slot: str) -> bool:
    """Whether `slot` is empty now: folders with a few files in them or none are removed at once."""
    try:
        with os.scandir(slot) as entries:
            folders = [entry.path for entry in entries]
        for folder in folders:
            with os.scandir(folder) as entries:
                found = list(islice(entries, _FEW + 1))
            if len(found) > _FEW or any(entry.is_dir(follow_symlinks=False) for entry in found):
                return False
            for entry in found:
                os.unlink(entry.path)  # noqa: PTH108 (once per Episode: no Path objects)
            os.rmdir(folder)  # noqa: PTH106
    except OSError:
        return False
    return True


def _swept(slot: str) -> None:
    for _ in range(_RETRIES):  # One of the fork server before may be at its last step there.
        with os.scandir(slot) as entries:
            left = [Path(entry.path) for entry in entries]
        for path in left:
            remove(path)
