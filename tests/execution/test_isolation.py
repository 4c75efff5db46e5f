"""Choosing a level, and the levels' parts."""

from __future__ import annotations

import platform
import shutil
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from evopolicy.execution import isolation, landlock, seccomp
from evopolicy.execution.engine import LocalExecutor
from evopolicy.execution.isolation import Probed
from evopolicy.execution.syscalls import NUMBERS
from evopolicy.kernel.errors import IsolationError
from evopolicy.kernel.ports import Isolation
from tests.execution import toys
from tests.execution.conftest import LIMITS

HOSTILE = Path(__file__).parent / "hostile" / "programs"
needs_landlock = pytest.mark.skipif(
    not isolation.probe_level("landlock").works, reason="landlock: the probe says it does not work on this machine"
)


def works(*levels: Isolation) -> Callable[[Isolation], Probed]:
    return lambda level: Probed(level, level in levels, "because", "a remedy")


def test_auto_takes_the_strongest_level_that_was_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "probe_level", works("landlock", "bubblewrap"))
    assert isolation.choose("auto", False) == "bubblewrap"
    monkeypatch.setattr(isolation, "probe_level", works("landlock"))
    assert isolation.choose("auto", False) == "landlock"


def test_where_nothing_is_proven_it_fails_closed_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "probe_level", works())
    for allowed in (False, True):
        with pytest.raises(IsolationError, match=r"bubblewrap: because \(a remedy\); landlock: because"):
            isolation.choose("auto", allowed)


def test_a_level_asked_for_by_name_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "probe_level", works("landlock"))
    with pytest.raises(IsolationError, match="bubblewrap"):
        isolation.choose("bubblewrap", True)


@needs_landlock
def test_a_probe_that_finds_a_hole_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    readable = Path(shutil.__file__)
    monkeypatch.setattr(isolation, "probe_paths", lambda: (readable, Path("/dev/null")))
    found = isolation.probe_level.__wrapped__("landlock")
    assert not found.works and found.detail == "reading /dev/null was possible"


@needs_landlock
@pytest.mark.parametrize("name", ["changes_files", "leaves_files", "reads_files", "signals", "sockets"])
def test_the_oldest_landlock_holds_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 1)
    shutil.copy(HOSTILE / f"{name}.py", tmp_path / "policy.py")
    with LocalExecutor(toys.reference(), LIMITS, workers=1, isolation="landlock") as engine:
        outcome = engine.evaluate(tmp_path, toys.episodes(1))[0].outcome
    assert outcome is not None and outcome.failure is None
    assert outcome.output.text == ""


def test_rights_grow_with_the_version_and_never_shrink() -> None:
    rights = [landlock.handled(version) for version in range(1, 8)]
    assert rights[0] == (1 << 13) - 1
    assert all(newer | older == newer for older, newer in pairwise(rights))


# --- filters -----------------------------------------------------------------------------------------------------


def answer(code: bytes, machine: str, name: str, *arguments: int, table: str = "") -> int:
    """What the kernel would answer: BPF run here, as far as the filters use it."""
    number = NUMBERS[machine][name]
    audit = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[table or machine]
    data = struct.pack("<IIQ6Q", number, audit, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    lines = list(struct.iter_unpack("<HBBI", code))
    at, value = 0, 0
    while True:
        kind, yes, no, constant = lines[at]
        at += 1
        if kind == 0x06:
            return int(constant)
        if kind == 0x20:
            value = struct.unpack_from("<I", data, constant)[0]
        elif kind == 0x54:
            value &= constant
        else:
            at += yes if (value == constant if kind == 0x15 else value >= constant) else no


MACHINES = ("x86_64", "aarch64")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], bytes], str], bytes]]:
    def build(make: Callable[[], bytes], machine: str) -> bytes:
        monkeypatch.setattr(platform, "machine", lambda: machine)
        return make()

    yield build


@pytest.mark.parametrize("machine", MACHINES)
def test_a_policys_calls_are_refused_unless_they_are_listed(
    both: Callable[[Callable[[], bytes], str], bytes], machine: str
) -> None:
    template = both(seccomp.template_filter, machine)
    child = both(lambda: seccomp.child_filter(77), machine)

    def allowed(name: str, *arguments: int) -> bool:
        strictest = min(answer(code, machine, name, *arguments) for code in (template, child))
        return strictest == seccomp.ALLOW

    assert allowed("read") and allowed("futex") and allowed("mmap")
    assert allowed("clone", 0x003D0F00) and not allowed("clone", 0x01200011)
    assert allowed("kill", 77, 9) and not allowed("kill", 78, 9) and not allowed("tgkill", 1, 1, 9)
    assert allowed("prlimit64", 0) and not allowed("prlimit64", 5)
    assert allowed("openat", 0, 0, 0) and allowed("openat", 0, 0, 0o1001) and not allowed("openat", 0, 0, 0o1000)
    assert allowed("fcntl", 3, 1) and not allowed("fcntl", 3, 6)
    for name in ("socket", "execve", "ptrace", "mount", "keyctl", "bpf", "recvmsg", "seccomp", "setsid"):
        assert not allowed(name), name
    assert answer(template, machine, "clone3") == seccomp.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_by_another_table_end_the_process(
    both: Callable[[Callable[[], bytes], str], bytes], machine: str
) -> None:
    other = MACHINES[1 - MACHINES.index(machine)]
    assert answer(both(seccomp.template_filter, machine), machine, "read", table=other) == seccomp.KILL


def test_an_agent_has_other_sockets_than_unix_ones_only_with_a_network() -> None:
    machine = platform.machine()
    for network in (False, True):
        code = seccomp.agent_filter(network)
        assert answer(code, machine, "socket", 1) == seccomp.ALLOW
        assert (answer(code, machine, "socket", 2) == seccomp.ALLOW) == network
        assert answer(code, machine, "ptrace") == seccomp.EPERM
        assert answer(code, machine, "execve") == seccomp.ALLOW


def test_a_machine_without_a_table_is_refused_by_name() -> None:
    with pytest.raises(IsolationError, match="riscv64"):
        seccomp.assemble([], seccomp.EPERM, "riscv64")
