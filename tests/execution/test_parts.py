"""The engine's small parts: codec, frames, output, tracebacks, folders, packages."""

from __future__ import annotations

import ast
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evopolicy
from evopolicy.execution.policy import handles, scratch
from evopolicy.execution.policy.output import Capture
from evopolicy.execution.policy.scratch import Slots
from evopolicy.execution.policy.tracebacks import Places, program_traceback
from evopolicy.execution.sandbox import packages
from evopolicy.execution.wire import codec
from evopolicy.execution.wire.frames import ACT, HEAD, ChildWire, Wire, pack
from evopolicy.kernel import spaces, wire
from evopolicy.kernel.errors import ConfigError, InvalidAction
from evopolicy.kernel.files import beneath
from evopolicy.kernel.files.folders import HeldFolder, remove
from evopolicy.kernel.wire import WireError
from tests.execution.conftest import PATIENCE
from tests.execution.toys import ACTIONS, OBSERVATIONS

# --- codec ----------------------------------------------------------------------------------------


def same(left: Any, right: Any) -> bool:
    """Equal in value, type, dtype and shape, all the way down."""
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray)
            and left.dtype == right.dtype
            and np.array_equal(left, right)
        )
    if isinstance(left, dict):
        return isinstance(right, dict) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple):
        return isinstance(right, tuple) and all(
            same(a, b) for a, b in zip(left, right, strict=True)
        )
    return type(left) is type(right) and bool(left == right)


@pytest.mark.parametrize("name", sorted(OBSERVATIONS))
def test_an_observation_arrives_as_it_was_sent(name: str) -> None:
    space = OBSERVATIONS[name]
    observation = space.sample(np.random.default_rng(3))
    body, tail = codec.observation_encoder(space)(observation)
    whole = body + (bytes(tail) if tail is not None else b"")
    assert same(codec.observation_decoder(space)(memoryview(whole)), observation)
    wire.decode(whole)  # It is MessagePack whichever way it was made.


@pytest.mark.parametrize(
    ("name", "observation"),
    [("vector", np.zeros(4)), ("vector", "text"), ("nested", {"at": np.zeros(2)}), ("nested", 3)],
)
def test_an_observation_of_another_space_is_refused(name: str, observation: Any) -> None:
    with pytest.raises(codec.ObservationRefused):
        codec.observation_encoder(OBSERVATIONS[name])(observation)


@pytest.mark.parametrize("name", sorted(ACTIONS))
@pytest.mark.parametrize("clip", [False, True])
def test_the_fast_reader_and_the_kernels_check_agree(name: str, clip: bool) -> None:
    space = ACTIONS[name]
    read = codec.action_reader(space, clip=clip)
    tried: list[Any] = [space.sample(np.random.default_rng(seed)) for seed in range(20)]
    tried += [
        0,
        2,
        3,
        -1,
        1.0,
        1.5,
        np.int64(1),
        True,
        [1.0, -1.0],
        [1.0000001, 0.0],
        [1.1, 0],
        [np.nan, 0.0],
    ]
    tried += [
        np.array([1.00000001, 0]),
        np.array([1e300, 0]),
        np.array([[0.0, 0.0]]),
        np.zeros(2, np.int32),
    ]
    for action in tried:
        results: list[Any] = []
        for check in (read, lambda body: spaces.cast_action(space, wire.decode(body), clip=clip)):
            try:
                results.append(check(codec.encode_action(action, 1 << 16)))
            except InvalidAction as error:
                results.append(str(error))
        assert same(results[0], results[1]), action


# --- frames ---------------------------------------------------------------------------------------


def test_frames_arrive_whole_however_they_were_cut() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        end = Wire(ours, 1 << 20)
        frame = pack(7, ACT, b"x" * 100_000)
        for at in range(0, len(frame), 33_333):
            assert end.receive() is None
            theirs.sendall(frame[at : at + 33_333])
        assert end.receive() == (7, ACT, b"x" * 100_000)


def test_a_frame_larger_than_the_socket_waits_for_its_reader() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        end, large = Wire(ours, 1 << 20), np.arange(4_000_000, dtype=np.uint8)
        end.send(1, ACT, b"head", large.data)
        large[:] = 0  # What was not sent yet is a copy.
        assert end.blocked
        got = bytearray()
        while end.blocked or len(got) < HEAD.size + 4 + large.nbytes:
            end.flush()
            got += theirs.recv(1 << 20)
        assert got[HEAD.size : HEAD.size + 4] == b"head"
        assert got[-5:] == (np.arange(4_000_000, dtype=np.uint8)[-5:]).tobytes()


@pytest.mark.parametrize("junk", [b"\xff" * 9, pack(1, ACT) + b"more"])
def test_what_is_no_single_frame_is_refused(junk: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(junk)
        with pytest.raises(WireError):
            Wire(ours, 1000).receive()


def test_the_childs_end_reads_large_frames_and_small_ones() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = ChildWire(theirs.fileno())
        for size in (0, 3, 150_000):
            ours.sendall(pack(size, ACT, b"z" * size))
            number, kind, body = child.receive()
            assert (number, kind, bytes(body)) == (size, ACT, b"z" * size)


# --- output and tracebacks ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 10, 100, 101, 100_000])
def test_output_keeps_both_ends_and_counts_the_rest(size: int) -> None:
    reading, writing = os.pipe()
    capture = Capture(reading, 100)
    data = (b"0123456789" * (size // 10 + 1))[:size]
    for at in range(0, size, 777):
        os.write(writing, data[at : at + 777])
        assert capture.drain()
    os.close(writing)
    output = capture.close()
    assert output.omitted_bytes == max(size - 100, 0)
    if size <= 100:
        assert output.text == data.decode()
    else:
        assert output.text.startswith(data[:50].decode()) and output.text.endswith(
            data[-50:].decode()
        )
    assert capture.close() is output


def test_a_traceback_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("def act():\n    raise ValueError(__file__)\n")
    scope: dict[str, Any] = {"__file__": str(tmp_path / "policy.py")}
    exec(compile((tmp_path / "policy.py").read_text(), scope["__file__"], "exec"), scope)
    try:
        scope["act"]()
    except ValueError as error:
        text = program_traceback(error, Places(str(tmp_path), {}))
    assert text.splitlines()[1:] == [
        '  File "policy.py", line 2, in act',
        "    raise ValueError(__file__)",
        "ValueError: policy.py",
    ]


# --- folders --------------------------------------------------------------------------------------


def test_a_held_folder_is_left_alone_and_an_abandoned_one_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    held = HeldFolder("a")
    abandoned = HeldFolder("b")
    (abandoned.path / "file").touch()
    os.close(abandoned._lock)  # What the kernel does when a Host is killed.
    HeldFolder("c").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        held.path.name,
        f"{held.path.name}.lock",
    ]
    held.close()
    held.close()
    assert list(tmp_path.iterdir()) == []


def test_a_tree_is_removed_whatever_its_depth_and_modes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    here = Path.cwd()
    os.chdir(root)
    try:
        for depth in range(1100):
            Path("d").mkdir()
            os.chdir("d")
            if depth % 100 == 0:
                Path("file").touch()
                Path("link").symlink_to(tmp_path)
                Path().chmod(0o300)
    finally:
        os.chdir(here)
    remove(root)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_a_million_names_is_emptied_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beneath, "_PART", 3)
    root = tmp_path / "root"
    for number in range(10):
        inner = root / f"folder-{number}" / "inner"
        inner.mkdir(parents=True)
        (root / f"file-{number}").touch()
        for name in "abcdefg":
            (inner / name).touch()
    remove(root)
    assert list(tmp_path.iterdir()) == []


# --- scratch folders ------------------------------------------------------------------------------


@pytest.fixture
def slots(tmp_path: Path) -> Iterator[Callable[..., Slots]]:
    """A function that makes so many mounts' folders (0: none, they are made) with a sweeper of
    their own."""
    made = []

    def make(count: int) -> Slots:
        for number in range(count):
            (tmp_path / str(number)).mkdir(exist_ok=True)
        made.append(Slots(str(tmp_path), count, scratch.pipes()))
        return made[-1]

    yield make
    for kept in made:
        kept.end()
        kept.close()


def until_free(kept: Slots) -> int:
    while (slot := kept.take()) is None:
        kept.reap()
    return slot


@pytest.mark.parametrize("count", [0, 1])
def test_a_slot_is_used_again_once_it_is_empty(slots: Callable[..., Slots], count: int) -> None:
    kept = slots(count)
    names = set()
    for depth in range(4):
        slot = until_free(kept)
        folder = Path(scratch.make(kept.path(slot)))
        assert [path.name for path in Path(kept.path(slot)).iterdir()] == [folder.name]
        assert count == 0 or kept.take() is None
        names.add(folder.name)
        for name in "ab"[:depth]:
            (folder / name).touch()
        if depth == 3:
            (folder / "c" / "d").mkdir(parents=True)
            (folder / "c").chmod(0)
        kept.give_back(slot)
        kept.reap()
        assert list(Path(kept.path(slot)).iterdir()) == []
    assert len(names) == 4 and until_free(kept) == 0


def test_what_the_fork_server_before_left_is_removed_before_a_folder_is_given_out(
    slots: Callable[..., Slots], tmp_path: Path
) -> None:
    (tmp_path / "0" / "old" / "files").mkdir(parents=True)
    kept = slots(1)
    assert kept.take() is None
    assert until_free(kept) == 0 and list((tmp_path / "0").iterdir()) == []


def test_a_sweeper_that_ends_is_an_error_of_its_fork_server(slots: Callable[..., Slots]) -> None:
    kept = slots(1)
    kept.end()
    with pytest.raises(OSError, match="has ended"):
        while True:
            kept.reap()


def test_what_empties_a_folder_holds_no_descriptor_open(
    slots: Callable[..., Slots], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evopolicy.execution.policy.scratch.remove", lambda _path: time.sleep(600))
    ours, theirs = socket.socketpair()
    try:
        kept = slots(1)  # Its sweeper is forked now, and what it forks later.
        slot = until_free(kept)
        (Path(scratch.make(kept.path(slot))) / "inner").mkdir()
        kept.give_back(slot)
        assert kept.take() is None
        theirs.close()
        ours.settimeout(PATIENCE)
        assert ours.recv(1) == b""  # nobody else has the other end
    finally:
        ours.close()


def test_where_no_bounded_folder_can_be_emptied_it_is_said(
    slots: Callable[..., Slots], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evopolicy.execution.policy.scratch.remove", lambda _path: None)
    kept = slots(1)
    slot = until_free(kept)
    (Path(scratch.make(kept.path(slot))) / "inner").mkdir()
    kept.give_back(slot)
    with pytest.raises(OSError, match="no scratch folder could be emptied"):
        until_free(kept)


def test_the_address_space_is_known_without_a_process_table() -> None:
    script = (
        "from evopolicy.execution.sandbox import process\nprocess.tried_virtual_bytes()\n"
        "print(process.virtual_bytes() - process.tried_virtual_bytes())\n"
        "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[0] == "
        "resource.RLIM_INFINITY)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    difference, free = done.stdout.split()
    assert abs(int(difference)) <= 1 << 20
    assert free == str(resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY)


CONFINED = """
import ctypes
from evopolicy.execution.sandbox import confine as sandbox
libc = ctypes.CDLL(None)
before = libc.prctl(3, 0, 0, 0, 0)
sandbox.confine_fork_server(sandbox.SandboxConfig("none", 0, (), (), 1 << 32, 1 << 20, 60.0), (), ())
print(before, libc.prctl(3, 0, 0, 0, 0))
"""


def test_a_fork_server_leaves_no_core_and_may_be_traced_by_nobody_of_its_user() -> None:
    """What the kernel calls dumpable; a limit of 0 on cores binds no handler that takes them over a
    pipe."""
    done = subprocess.run(
        [sys.executable, "-c", CONFINED], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "1 0\n"


# --- forks ----------------------------------------------------------------------------------------

FORKS = """
import os, sys, threading
from evopolicy.execution.sandbox.process import plain_fork

sys.setswitchinterval(1e-6)
over = threading.Event()
def busy():
    while not over.is_set():
        sum(range(100))
for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
for _ in range(60):
    pid = plain_fork()
    if pid == 0:
        for _ in range(1000):
            sum(range(10))
        os._exit(0)
    print(os.waitpid(pid, 0)[1])
over.set()
"""


def test_a_process_forked_beside_busy_threads_does_not_wait_for_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == ["0"] * 60


# --- packages -------------------------------------------------------------------------------------


def test_a_view_holds_the_packages_their_libraries_and_what_they_need(tmp_path: Path) -> None:
    found = packages.resolve(("scipy",))
    assert {"scipy", "numpy"} <= set(found.names)
    found.link_into(tmp_path / "view")
    for name, target in found.links.items():
        assert (tmp_path / "view" / name).resolve() == target
    libraries = Path(np.__file__).parent.with_name("numpy.libs")
    assert libraries.is_dir() == ("numpy.libs" in found.links)


def test_a_package_that_is_not_installed_is_named_with_a_near_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'numpy'"):
        packages.resolve(("nunpy",))


def test_the_runtime_holds_no_installed_packages() -> None:
    runtime = packages.runtime()
    assert runtime.python.is_file() and not runtime.python.is_symlink()
    assert any(path.name == "json" for path in runtime.readable)
    installed = [Path(entry) for entry in sys.path if entry.endswith("-packages")]
    for path in runtime.readable:
        assert not any(folder == path or folder.is_relative_to(path) for folder in installed), path


def test_modules_a_program_names_are_found_without_running_it(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(
        "import os, scipy.linalg as la\nfrom scipy.special import (expit,\n    logit)\nraise "
        "SystemExit\n"
        "def f():\n    from scipy import optimize\n    import gymnasium\n"
    )
    found = list(handles.named_modules(tmp_path, frozenset({"numpy", "scipy"})))
    assert {"scipy.linalg", "scipy.special", "scipy", "scipy.optimize"} <= set(found)
    assert not any(name.startswith(("os", "gymnasium")) for name in found)


# --- cores and compiled code ----------------------------------------------------------------------

SETTLES = """
import os
from evopolicy.execution.engine import cores
before = os.sched_getaffinity(0)
first = cores.settle()
one = os.sched_getaffinity(0)
os.sched_setaffinity(0, before)
second = cores.settle()
two = os.sched_getaffinity(0)
free = before in (one, two)  # others on this machine may keep to all cores, and give one up meanwhile
print(len(one) == 1 or one == before, one.isdisjoint(two) or free)
"""


def test_workers_settle_on_different_cores_and_stay_free_where_all_are_taken() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SETTLES], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "True True\n"


def test_modules_are_imported_from_compiled_code_and_from_source_where_there_is_none(
    tmp_path: Path,
) -> None:
    program, code = tmp_path / "program", tmp_path / "code"
    (program / "inner").mkdir(parents=True)
    code.mkdir()
    (program / "compiled_here.py").write_text("from inner import part\nvalue = part.value\n")
    (program / "inner" / "part.py").write_text("value = 4\n")
    (program / "broken_here.py").write_text("def f(:\n")
    script = f"""
import sys, pathlib
from evopolicy.execution.policy import compiled
from evopolicy.execution.sandbox import confine as sandbox
config = sandbox.SandboxConfig("none", 0, (), (), 1 << 32, 1 << 20, 60.0)
compiled.compile_all(sandbox.Confinement(config, (), None), {str(program)!r}, {str(code)!r})
made = len(list(pathlib.Path({str(code)!r}).iterdir()))
sys.path.insert(0, {str(program)!r})
for name in ("compiled_here.py", "inner/part.py"):
    pathlib.Path({str(program)!r}, name).write_text("value = 5  # A Program never changes; this shows what is read.")
import compiled_here
try:
    import broken_here
except SyntaxError as error:
    print(made, compiled_here.value, error.filename == {str(program / "broken_here.py")!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "2 4 True\n"


# --- waiting --------------------------------------------------------------------------------------


def test_nothing_here_waits_by_epoll() -> None:
    """Its watches are bounded for all processes of a user: an agent of the same user may have taken
    every one."""
    found = set()
    for path in Path(evopolicy.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.attr] if isinstance(node, ast.Attribute) else []
            names += (
                [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            )
            if {"epoll", "EpollSelector", "DefaultSelector"} & set(names):
                found.add(path.name)
    assert found == set()
