"""Programs written to break out: each ends in the right row of the failure table, and nothing else
is harmed."""

from __future__ import annotations

import dataclasses
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.ports.outcome import Outcome
from evopolicy.kernel.ports.protocols import Isolation, Limits
from tests.execution import toys
from tests.execution.conftest import stalled_in_act
from tests.execution.hostile.innocents import Innocents

PROGRAMS = Path(__file__).parent / "programs"
# So much time that no machine is too slow and no load too high for a Program whose end is another
# one.
LIMITS = Limits(
    act_seconds=30.0,
    episode_seconds=60.0,
    memory_bytes=256 << 20,
    output_bytes=2048,
    scratch_bytes=4 << 20,
    step_seconds=600.0,
    stall_factor=8.0,
)
# For those that use up whatever they are given of CPU time, and of wall time: 4 s for a call, 12 s
# for the Episode.
BUSY = dataclasses.replace(LIMITS, act_seconds=0.5, episode_seconds=1.5, stall_factor=1000.0)
STILL = dataclasses.replace(LIMITS, episode_seconds=90.0, stall_factor=4 / 30)

# What an Episode of each Program ends with: '' where it is played to its end. One of several where
# the kernel chooses the way it dies; never one that depends on how fast the machine is.
ENDS: dict[str, tuple[str, ...]] = {
    "aborts": ("died",),
    "abstract_socket": ("",),
    "busy_act": ("act_time",),
    "busy_episode": ("episode_time",),
    "busy_import": ("act_time",),
    "busy_make_policy": ("act_time",),
    "busy_reset": ("act_time",),
    "busy_threads": ("act_time",),
    "changes_files": ("",),
    "cached_pages": ("",),
    "closes_output": ("",),
    "counters": ("",),
    "daemon": ("",),
    "deep_folders": ("",),
    "deep_recursion": ("exception",),
    "deeper_recursion": ("died", "memory"),
    "endless_exception": ("exception",),
    "enormous_action": ("invalid_action",),
    "environment_state": ("",),
    "executes": ("",),
    "exits": ("died",),
    "fills_scratch": ("exception",),
    "fills_scratch_in_parts": ("exception",),
    "fills_scratch_with_names": ("exception",),
    "finds_processes": ("",),
    "futexes": ("",),
    "fork_bomb": ("",),
    "guesses_scratch": ("",),
    "imports_simulators": ("",),
    "infinite_action": ("invalid_action",),
    "kills_itself": ("died",),
    "leaves_files": ("",),
    "leaves_many_files": ("",),
    "locks": ("",),
    "long_double_action": ("invalid_action",),
    "looks_around": ("",),
    "lying_array": ("invalid_action",),
    "lying_index": ("invalid_action",),
    "lying_length": ("invalid_action",),
    "marks_descriptors": ("",),
    "memory_at_once": ("memory",),
    "memory_bomb": ("memory",),
    "memory_shared": ("memory",),
    "nan_action": ("invalid_action",),
    "negative_infinite_action": ("invalid_action",),
    "names_a_program_to_preload": ("",),
    "nested_action": ("invalid_action",),
    "opens_many": ("exception",),
    "patches": ("protocol",),
    "pretends_cpu_limit": ("died",),
    "print_much": ("",),
    "ptrace": ("",),
    "raises_limits": ("",),
    "raising_array": ("exception",),
    "reads_files": ("",),
    "searches_memory": ("",),
    "shared_memory": ("",),
    "shared_places": ("",),
    "signals": ("",),
    "silent_exception": ("exception",),
    "sleep": ("stalled",),
    "sleeps_in_every_call": ("stalled",),
    "sockets": ("",),
    "stats_host": ("",),
    "stop_itself": ("stalled",),
    "text_bomb_action": ("invalid_action",),
    "thread_bomb": ("",),
    "thread_swarm": ("",),
    "wire_ahead": ("protocol",),
    "wire_closed": ("protocol",),
    "wire_failure_of_an_array": ("protocol",),
    "wire_failure_too_deep": ("protocol",),
    "wire_flood": ("protocol",),
    "wire_garbage": ("protocol",),
    "wire_oversized": ("protocol",),
    "wire_replaced": ("protocol",),
    "wire_sends_descriptors": ("",),
    "wire_truncated": ("protocol",),
    "wire_unasked": ("protocol",),
    "wrong_dtype_action": ("invalid_action",),
    "wrong_shape_action": ("invalid_action",),
    "x32_calls": ("",),
}
# `none` holds nothing back; the limits of an Episode are kept there too.
AT_NONE = {
    "busy_act",
    "exits",
    "kills_itself",
    "memory_bomb",
    "sleep",
    "wire_garbage",
    "wire_closed",
    "fills_scratch",
}
# What only namespaces hold back, each with its sentence in docs/isolation.md.
NOT_AT_LANDLOCK = {
    "fills_scratch_in_parts": "It cannot bound a scratch folder as a whole, only each file in it.",
    "fills_scratch_with_names": "Nor can it bound how many files, folders and links there are.",
    "finds_processes": "It has no process table of its own",
    "stats_host": "It cannot hide that a path exists: `stat` works on any path.",
}
PHASES = {"busy_import": "import", "busy_make_policy": "make_policy", "busy_reset": "reset"}
WITH_LIMIT = {"act_time", "episode_time", "memory", "stalled"}
HIT_LIMITS = {"fills_scratch", "fills_scratch_in_parts", "fills_scratch_with_names", "opens_many"}


@pytest.fixture
def engine_for(
    make_engine: Callable[..., LocalExecutor], level: Isolation
) -> Callable[[str], LocalExecutor]:
    """The engine that tries a hostile Program, by the Program's name."""

    def find(name: str) -> LocalExecutor:
        limits = {"act_time": BUSY, "episode_time": BUSY, "stalled": STILL}.get(
            ENDS[name][0], LIMITS
        )
        return make_engine(isolation=level, limits=limits, steps=5)

    return find


@pytest.fixture
def hostile_engine(make_engine: Callable[..., LocalExecutor], level: Isolation) -> LocalExecutor:
    return make_engine(isolation=level, limits=LIMITS, steps=5)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0evopolicy-hostile-{secrets.token_hex(8)}")
    listener.listen()

    def make(name: str) -> Path:
        folder = tmp_path / "program"
        folder.mkdir()
        shutil.copy(PROGRAMS / f"{name}.py", folder / "policy.py")
        secret = tmp_path / "record.json"
        secret.write_text("pool secret")
        (folder / "secrets.txt").write_text(str(secret))
        (folder / "listener.txt").write_text(listener.getsockname()[1:].decode())
        (folder / "host.txt").write_text(str(os.getpid()))
        return folder

    with listener:
        yield make


def test_every_hostile_program_has_its_outcome() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(ENDS)


def test_what_landlock_does_not_hold_back_is_said_in_the_docs() -> None:
    said = " ".join((Path(__file__).parents[3] / "docs" / "isolation.md").read_text().split())
    assert [sentence for sentence in NOT_AT_LANDLOCK.values() if sentence not in said] == []


@pytest.mark.parametrize(
    "name",
    [
        "leaves_many_files",
        "shared_places",
        "guesses_scratch",
        "environment_state",
        "marks_descriptors",
        "searches_memory",
    ],
)
def test_what_an_episode_left_is_not_there_for_another_one_or_another_program(
    hostile_engine: LocalExecutor, level: Isolation, hostile: Callable[[str], Path], name: str
) -> None:
    """More Episodes than there are folders at `bubblewrap` (the engine's lanes and a few), then
    another Program."""
    if level == "none":
        pytest.skip("isolation 'none' keeps no Episode from another one's files")
    first = hostile(name)
    second = first.with_name("second")
    shutil.copytree(first, second)
    for folder in (first, second):
        for result in hostile_engine.evaluate(folder, toys.episodes(9)):
            assert result.outcome is not None
            _check(result.outcome, name)


@pytest.mark.parametrize("name", sorted(ENDS))
def test_a_hostile_program_ends_in_its_row(
    engine_for: Callable[[str], LocalExecutor],
    level: Isolation,
    hostile: Callable[[str], Path],
    innocents: Callable[[Isolation], Innocents],
    name: str,
) -> None:
    if level == "none" and name not in AT_NONE:
        pytest.skip(f"isolation 'none' does not hold back '{name}'")
    if level == "landlock" and name in NOT_AT_LANDLOCK:
        pytest.skip(f"isolation 'landlock': {NOT_AT_LANDLOCK[name]}")
    if name == "deep_recursion" and sys.version_info >= (3, 14):
        pytest.skip("Python counts recursion differently")
    engine, folder = engine_for(name), hostile(name)
    with innocents(level).beside() if level != "none" else nullcontext():
        results = stalled_in_act(lambda: engine.evaluate(folder, toys.episodes(2)))
    for result in results:
        assert result.fault is None
        assert result.outcome is not None
        _check(result.outcome, name)


def test_a_folder_named_like_a_module_is_not_read_as_one(
    hostile_engine: LocalExecutor, hostile: Callable[[str], Path]
) -> None:
    folder = hostile("exits")
    (folder / "data.py").mkdir()
    (folder / "data.py" / "numbers.txt").write_text("1 2 3")
    for result in hostile_engine.evaluate(folder, toys.episodes(2)):
        assert result.fault is None


def _check(outcome: Outcome, name: str) -> None:
    failure = outcome.failure
    kind = failure.kind if failure else ""
    assert kind in ENDS[name], failure
    assert "ESCAPED" not in outcome.output.text, outcome.output.text
    assert len(outcome.output.text) < LIMITS.output_bytes + 200
    if failure is None:
        assert (outcome.ending, outcome.length) == ("terminated", 5)
        return
    assert failure.phase == PHASES.get(name, "act")
    assert 0 < len(failure.message) < 2000 and len(failure.traceback) < 20_000
    assert (failure.limit is not None) == (failure.kind in WITH_LIMIT) or name in HIT_LIMITS
    if name in HIT_LIMITS:
        assert failure.limit is not None and str(int(failure.limit)) in failure.message


def test_the_other_episodes_of_an_evaluation_are_unharmed(
    engine_for: Callable[[str], LocalExecutor], hostile: Callable[[str], Path], tmp_path: Path
) -> None:
    """One Program, hostile by seed: every second Episode kills, floods, bombs or hangs."""
    engine = engine_for("busy_act")
    folder = hostile("sleep")
    (folder / "policy.py").write_text(
        "import os, random\n"
        "from importlib import import_module\n"
        "def make_policy(context):\n"
        "    bad = context.seed % 2\n"
        "    name = ['wire_flood', 'memory_bomb', 'exits', 'busy_act', 'aborts'][context.seed % "
        "5]\n"
        "    return import_module(name).make_policy(context) if bad else Calm()\n"
        "class Calm:\n"
        "    def act(self, observation): return 1\n"
    )
    for path in PROGRAMS.glob("*.py"):
        shutil.copy(path, folder)
    results = engine.evaluate(folder, toys.episodes(16))
    calm = [result.outcome for result in results if result.index % 2 == 0]
    expected = engine.evaluate(_calm(tmp_path), toys.episodes(16))
    assert calm == [result.outcome for result in expected if result.index % 2 == 0]
    ends = {
        result.index: result.outcome and result.outcome.failure
        for result in results
        if result.index % 2
    }
    assert all(ends.values()), [result for result in results if not ends.get(result.index, True)]


def _calm(tmp_path: Path) -> Path:
    folder = tmp_path / "calm"
    folder.mkdir()
    (folder / "policy.py").write_text(
        "def make_policy(context): return Calm()\nclass Calm:\n    def act(self, observation): "
        "return 1\n"
    )
    return folder
