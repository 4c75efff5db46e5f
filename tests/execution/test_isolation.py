"""Choosing a level, and the levels' parts."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from evopolicy.execution import bubblewrap, isolation, landlock, packages, seccomp
from evopolicy.execution.engine import LocalExecutor
from evopolicy.execution.isolation import Probed
from evopolicy.execution.syscalls import NUMBERS
from evopolicy.kernel.errors import IsolationError
from evopolicy.kernel.ports import Isolation
from tests.execution import toys
from tests.execution.conftest import LEVELS, LIMITS

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


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "none"])
@pytest.mark.parametrize("name", ["changes_files", "leaves_files", "reads_files", "signals", "sockets"])
def test_the_oldest_landlock_holds_too(
    name: str, level: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 1)
    shutil.copy(HOSTILE / f"{name}.py", tmp_path / "policy.py")
    with LocalExecutor(toys.reference(), LIMITS, workers=1, isolation=level) as engine:
        outcome = engine.evaluate(tmp_path, toys.episodes(1))[0].outcome
    assert outcome is not None and outcome.failure is None
    assert outcome.output.text == ""


needs_bubblewrap = pytest.mark.skipif(
    not isolation.probe_level("bubblewrap").works, reason="bubblewrap: the probe says it does not work on this machine"
)


def probed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str = "") -> Probed:
    """What the probe of bubblewrap finds where `bwrap` is this shell script; without one, where there is none."""
    if script:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(isolation, "_SYSCTLS", tmp_path)
    monkeypatch.setattr(landlock, "abi", lambda: 7)
    found: Probed = isolation.probe_level.__wrapped__("bubblewrap")
    return found


def test_without_bwrap_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = probed(monkeypatch, tmp_path)
    assert not found.works and "no program 'bwrap'" in found.detail and "package 'bubblewrap'" in found.remedy


@pytest.mark.parametrize(
    ("said", "sysctl", "value", "remedy"),
    [
        ("setting up uid map: Permission denied", "kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("Creating new namespace failed: No space left", "user/max_user_namespaces", "0", "user.max_user_namespaces"),
        (
            "No permissions to create new namespace",
            "kernel/unprivileged_userns_clone",
            "0",
            "unprivileged_userns_clone",
        ),
        ("Creating new namespace failed: Operation not permitted", "user/max_user_namespaces", "9", "in a container"),
        ("Unknown option --size", "user/max_user_namespaces", "9", "0.7 or newer"),
    ],
)
def test_a_bwrap_that_is_refused_is_told_by_its_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, sysctl: str, value: str, remedy: str
) -> None:
    (tmp_path / sysctl).parent.mkdir(parents=True)
    (tmp_path / sysctl).write_text(f"{value}\n")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = probed(monkeypatch, tmp_path, f"echo 'bwrap: {said}' >&2; exit 1")
    assert not found.works and said in found.detail
    assert remedy in found.remedy


def test_a_bwrap_that_isolates_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = f"""while [ "$1" != -- ]; do shift; done
shift
export PYTHONPATH={Path(isolation.__file__).parents[2]}:{Path(msgspec.__file__).parents[1]} TMPDIR={tmp_path}
exec "$@"
"""
    found = probed(monkeypatch, tmp_path, script)
    assert not found.works
    for hole in ("abstract socket", "a file of the Host", "signalling the Host", "process table", "process numbers"):
        assert hole in found.detail, found.detail


@needs_bubblewrap
def test_where_only_a_policys_sandbox_can_be_made_the_agents_is_refused_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where a container hides a part of `/proc`: no further one may be mounted."""
    said = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
    (tmp_path / "bwrap").write_text(
        f"""#!/bin/sh
case " $* " in *" --proc "*) echo "{said}" >&2; exit 1;; esac
exec {bubblewrap.find()} "$@"
"""
    )
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert isolation.probe_level.__wrapped__("bubblewrap").works
    found = isolation.probe_agent.__wrapped__()
    assert not found.works and found.detail == said
    assert "systempaths=unconfined" in found.remedy
    monkeypatch.setattr(isolation, "probe_agent", lambda: found)
    with pytest.raises(IsolationError, match=r"holds here for Policies, but an agent's.*Can't mount proc.*systempaths"):
        isolation.check_agent("bubblewrap")
    isolation.check_agent("landlock")


@needs_bubblewrap
def test_an_agent_that_is_told_of_holes_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_LOOK", "print('[\"its loopback carries nothing\"]')")
    found = isolation.probe_agent.__wrapped__()
    assert not found.works and found.detail == "its loopback carries nothing" and found.remedy


def test_bubblewrap_needs_landlock_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    found = isolation.probe_level.__wrapped__("bubblewrap")
    assert not found.works and "no Landlock" in found.detail and "lsm" in found.remedy


@needs_bubblewrap
def test_a_sandbox_holds_the_runtime_the_allowed_packages_and_its_bounded_folders(tmp_path: Path) -> None:
    runtime, allowed = packages.runtime(), packages.resolve(("numpy",))
    (tmp_path / "told").write_text("seen")
    program = bubblewrap.find()
    assert program is not None
    command = bubblewrap.nursery(program, runtime, allowed.links.values(), tmp_path, {}, 2, 1 << 16)
    hidden = [folder for folder in Path(runtime.folders[0]).glob("*-packages") if any(folder.iterdir())]
    own = [path for path in allowed.links.values() if any(path.is_relative_to(folder) for folder in hidden)]
    script = f"""
import json, os
seen = open("{bubblewrap.SEEN}/told").read()
print(seen, sorted(os.listdir("/scratch")), os.listdir("/code"), os.path.exists("/proc"))
print(all(os.path.isdir(path) for path in {[str(path) for path in allowed.links.values()]!r}))
print(sum(len(os.listdir(folder)) for folder in {[str(folder) for folder in hidden]!r}) == {len(own)})
print(os.path.exists("/etc/passwd"), os.path.exists({str(tmp_path)!r}), os.path.exists({str(Path(__file__))!r}))
for path in ("/x", "/dev/x", "/dev/shm/x", "{bubblewrap.SEEN}/x", {str(runtime.folders[0] / "x")!r}):
    try:
        os.mkdir(path)
    except OSError:
        continue
    print("made", path)
"""
    done = subprocess.run([*command, "-S", "-c", script], capture_output=True, text=True, check=False, env={})
    lines = done.stdout.splitlines()
    assert lines[:4] == ["seen ['0', '1'] [] False", "True", "True", "False False False"], done
    assert lines[4:] == []


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a part of Linux")
def test_an_agent_makes_no_file_that_runs_with_its_owners_rights(tmp_path: Path) -> None:
    code = """
import os
from evopolicy.execution import process, seccomp
process.give_up_privileges()
seccomp.lay(seccomp.agent_filter(False))
open("file", "w").close()
os.chmod("file", 0o755)
def possible(what):
    try:
        what()
    except PermissionError:
        return False
    return True
descriptor = os.open("file", os.O_RDWR)
folder = os.open(".", os.O_RDONLY)
print([
    possible(lambda: os.chmod("file", 0o4755)),
    possible(lambda: os.chmod("file", 0o2755)),
    possible(lambda: os.fchmod(descriptor, 0o6755)),
    possible(lambda: os.chmod("file", 0o4755, dir_fd=folder)),
    possible(lambda: os.open("born", os.O_CREAT | os.O_WRONLY, 0o4755)),
    possible(lambda: os.mknod("made", 0o104755)),
], oct(os.stat("file").st_mode))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"{[False] * 6} 0o100755", done.stderr


def test_a_machine_without_a_table_is_refused_by_name() -> None:
    with pytest.raises(IsolationError, match="riscv64"):
        seccomp.assemble([], seccomp.EPERM, "riscv64")
