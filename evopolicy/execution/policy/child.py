"""An Episode's process after the fork: confine it, import the Program here and nowhere else, answer
until killed.

Nothing in it is trusted by the worker: what it says is bounded and checked, what it uses is counted
from outside."""

from __future__ import annotations

import errno
import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from evopolicy.execution.policy import scratch, tracebacks
from evopolicy.execution.sandbox import confine as sandbox
from evopolicy.execution.sandbox import landlock, process
from evopolicy.execution.wire import codec
from evopolicy.execution.wire.frames import (
    ACT,
    ACTION,
    DONE,
    EXIT_WIRE,
    FAILED,
    IMPORT,
    MAKE,
    READY,
    ChildWire,
)
from evopolicy.kernel import wire
from evopolicy.kernel.errors import InvalidAction
from evopolicy.kernel.policy import BoundPolicy, PolicyContext, bind
from evopolicy.kernel.spaces import Space

WIRE_FD = 3

# How a process of ours ends that could not be confined.
EXIT_SETUP = 97


@dataclass(frozen=True)
class Task:
    """The public description of the Benchmark, as every Policy of it is told."""

    observation_space: Space
    action_space: Space
    parameters: Mapping[str, Any]
    max_steps: int
    largest_action: int
    """Bytes of an encoded Action; a larger one is invalid."""


@dataclass(frozen=True)
class EpisodeSetup:
    """All an Episode's process is given by its fork server."""

    confinement: sandbox.Confinement
    task: Task
    decode: Callable[[memoryview], Any]
    program: str
    shadowed: tuple[str, ...]
    """Modules loaded already whose names the Program uses for its own files."""


@dataclass(frozen=True)
class EpisodeResources:
    """What is one Episode's own."""

    slot: str
    """Where it makes its scratch folder."""
    domain: landlock.Ruleset | None
    wire_fd: int
    output_fd: int
    parent: int
    """The fork server's process id."""


def run(setup: EpisodeSetup, resources: EpisodeResources) -> NoReturn:
    """Be the Episode's process. Never returns."""
    try:
        own = _settle(setup, resources)
        channel = ChildWire(WIRE_FD)
        channel.send(0, READY, wire.encode(os.getpid()))
    except BaseException as error:
        # The worker reads the captured output for the reason: nothing of the Program has run yet.
        try:
            os.write(2, f"the sandbox cannot be applied: {error}\n".encode("utf-8", "replace"))
        finally:
            os._exit(EXIT_SETUP)
    _answer(channel, Player(setup, own), setup)


def _settle(setup: EpisodeSetup, resources: EpisodeResources) -> str:
    """Confine this process; returns its scratch folder."""
    process.die_with_parent(resources.parent)
    os.setsid()
    # The fork server's own is one for all of its processes, flags and all.
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    os.dup2(resources.output_fd, 1)
    os.dup2(resources.output_fd, 2)
    own = scratch.make(resources.slot)
    os.chdir(own)
    os.environ["HOME"] = os.environ["TMPDIR"] = own
    if resources.domain is not None:
        resources.domain.allow(own, landlock.CHANGE)
    sandbox.confine_child(setup.confinement, resources.domain)
    # After the rules were applied: their descriptor may have this number.
    os.dup2(resources.wire_fd, WIRE_FD)
    os.closerange(WIRE_FD + 1, sandbox.OPEN_FILES)
    for name in setup.shadowed:
        sys.modules.pop(name, None)
    return own


class Player:
    """The Policy of one Episode behind the worker's questions."""

    def __init__(self, setup: EpisodeSetup, own_folder: str) -> None:
        self._setup = setup
        self._scratch = own_folder
        self._seed = 0
        self._module: Any = None
        self._policy: BoundPolicy | None = None
        self.act: Callable[[Any], Any] = self._not_made
        """Given by the Program once its Policy is made."""

    def _not_made(self, _observation: Any) -> Any:
        raise RuntimeError("act before make_policy")

    def prepare(self, kind: int, body: memoryview) -> None:
        """Import the Program, make its Policy, reset it: one step per question. Raises whatever the
        Program raises."""
        if kind == IMPORT:
            self._seed = int(wire.decode(body))
            random.seed(self._seed)
            np.random.seed(self._seed % 2**32)
            self._module = import_module("policy")
        elif kind == MAKE:
            task = self._setup.task
            context = PolicyContext(
                task.observation_space,
                task.action_space,
                task.parameters,
                self._seed,
                task.max_steps,
            )
            self._policy = bind(self._module, context)
            self.act = self._policy.act
        elif self._policy is not None:
            self._policy.reset()

    def describe(self, error: BaseException) -> bytes:
        """The body of FAILED for what the Program raised."""
        sandbox.make_room_to_report()
        places = tracebacks.Places(self._setup.program, {self._scratch: "$TMPDIR", **_installed()})
        config = self._setup.confinement.config
        more, limit = tracebacks.hit_limit(error, sandbox.file_limits(config))
        report: dict[str, Any] = {
            "kind": "exception",
            "message": places.relative(tracebacks.message(error)) + more,
            "traceback": tracebacks.program_traceback(error, places),
            "limit": limit,
        }
        if isinstance(error, MemoryError) and (
            other := tracebacks.no_memory_error(error, config.memory_bytes)
        ):
            report["message"] += other
        elif isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            report |= {"kind": "memory", "limit": config.memory_bytes}
        return wire.encode(report)


def _installed() -> dict[str, str]:
    """The folders of packages and of Python, so that messages of imports name no folder of this
    machine."""
    folders = {str(module.__file__).rsplit("/", 2)[0] for module in (np, os) if module.__file__}
    return dict.fromkeys(sorted(folders, key=len, reverse=True), "python")


def _answer(channel: ChildWire, player: Player, setup: EpisodeSetup) -> NoReturn:
    flushes: tuple[Callable[[], None], ...] = (sys.stdout.flush, sys.stderr.flush)
    decode, encode, largest = setup.decode, codec.encode_action, setup.task.largest_action
    while True:
        try:
            number, kind, body = channel.receive()
        except OSError:
            os._exit(EXIT_WIRE)
        try:
            if kind == ACT:
                action = player.act(decode(body))
                try:
                    answer, reply = ACTION, encode(action, largest)
                except InvalidAction as error:
                    report = {
                        "kind": "invalid_action",
                        "message": str(error),
                        "traceback": "",
                        "limit": None,
                    }
                    answer, reply = FAILED, wire.encode(report)
            else:
                player.prepare(kind, body)
                answer, reply = DONE, b""
        except BaseException as error:
            answer, reply = FAILED, _described(player, error)
        try:
            for flush in flushes:
                flush()
        except BaseException:
            flushes = ()  # The Program closed or broke its own output.
        try:
            channel.send(number, answer, reply)
        except OSError:
            os._exit(EXIT_WIRE)


def _described(player: Player, error: BaseException) -> bytes:
    try:
        return player.describe(error)
    except BaseException:
        kind = "memory" if isinstance(error, MemoryError) else "exception"
        return wire.encode(
            {"kind": kind, "message": type(error).__name__, "traceback": "", "limit": None}
        )
