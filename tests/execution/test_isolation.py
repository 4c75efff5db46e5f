"""Choosing a level, and the levels' parts."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise, product
from pathlib import Path

import msgspec
import pytest

from evopolicy.execution import isolation
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.execution.isolation import Probed
from evopolicy.execution.sandbox import bubblewrap, landlock, packages, seccomp
from evopolicy.execution.sandbox.syscalls import LAST, NUMBERS
from evopolicy.kernel.errors import ConfigError, IsolationError
from evopolicy.kernel.ports.protocols import Isolation
from tests.execution import toys
from tests.execution.conftest import LEVELS, LIMITS

HOSTILE = Path(__file__).parent / "hostile" / "programs"
needs_landlock = pytest.mark.skipif(
    not isolation.probe_level("landlock").works,
    reason="landlock: the probe says it does not work on this machine",
)


def works(*levels: Isolation) -> Callable[[Isolation], Probed]:
    return lambda level: Probed(level, level in levels, "because", "a remedy")


def test_auto_takes_the_strongest_level_that_was_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "probe_level", works("landlock", "bubblewrap"))
    assert isolation.choose("auto", False) == "bubblewrap"
    monkeypatch.setattr(isolation, "probe_level", works("landlock"))
    assert isolation.choose("auto", False) == "landlock"


def test_where_nothing_is_proven_it_fails_closed_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "probe_level", works())
    for allowed in (False, True):
        with pytest.raises(
            IsolationError, match=r"bubblewrap: because \(a remedy\); landlock: because"
        ):
            isolation.choose("auto", allowed)


def test_a_level_asked_for_by_name_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "probe_level", works("landlock"))
    with pytest.raises(IsolationError, match="bubblewrap"):
        isolation.choose("bubblewrap", True)


def test_isolation_is_never_left_out_without_a_word() -> None:
    with pytest.raises(IsolationError, match="allow_unisolated"):
        isolation.choose("none", False)
    assert isolation.choose("none", True) == "none"


def test_an_unknown_level_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'landlock'"):
        isolation.choose("landlok", True)  # type: ignore[arg-type]


@needs_landlock
def test_a_probe_that_finds_a_hole_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    readable = Path(shutil.__file__)
    monkeypatch.setattr(isolation, "probe_paths", lambda: (readable, Path("/dev/null")))
    found = isolation.probe_level.__wrapped__("landlock")
    assert not found.works and found.detail == "reading /dev/null was possible"


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "none"])
@pytest.mark.parametrize(
    "name", ["changes_files", "leaves_files", "reads_files", "signals", "sockets"]
)
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
    not isolation.probe_level("bubblewrap").works,
    reason="bubblewrap: the probe says it does not work on this machine",
)


def probed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str = "") -> Probed:
    """What the probe of bubblewrap finds where `bwrap` is this shell script; without one, where
    there is none."""
    if script:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(isolation, "_SYSCTLS", tmp_path)
    monkeypatch.setattr(landlock, "abi", lambda: 7)
    found: Probed = isolation.probe_level.__wrapped__("bubblewrap")
    return found


def test_without_bwrap_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = probed(monkeypatch, tmp_path)
    assert (
        not found.works
        and "no program 'bwrap'" in found.detail
        and "package 'bubblewrap'" in found.remedy
    )


@pytest.mark.parametrize(
    ("said", "sysctl", "value", "remedy"),
    [
        (
            "setting up uid map: Permission denied",
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "AppArmor",
        ),
        (
            "Creating new namespace failed: No space left",
            "user/max_user_namespaces",
            "0",
            "user.max_user_namespaces",
        ),
        (
            "No permissions to create new namespace",
            "kernel/unprivileged_userns_clone",
            "0",
            "unprivileged_userns_clone",
        ),
        (
            "Creating new namespace failed: Operation not permitted",
            "user/max_user_namespaces",
            "9",
            "in a container",
        ),
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


def test_a_bwrap_that_isolates_nothing_is_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = f"""while [ "$1" != -- ]; do shift; done
shift
export PYTHONPATH={Path(isolation.__file__).parents[2]}:{Path(msgspec.__file__).parents[1]} TMPDIR={tmp_path}
exec "$@"
"""
    found = probed(monkeypatch, tmp_path, script)
    assert not found.works
    for hole in (
        "abstract socket",
        "a file of the Host",
        "signalling the Host",
        "process table",
        "process numbers",
    ):
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
    with pytest.raises(
        IsolationError,
        match=r"holds here for Policies, but an agent's.*Can't mount proc.*systempaths",
    ):
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
def test_a_sandbox_holds_the_runtime_the_allowed_packages_and_its_bounded_folders(
    tmp_path: Path,
) -> None:
    runtime, allowed = packages.runtime(), packages.resolve(("numpy",))
    (tmp_path / "told").write_text("seen")
    program = bubblewrap.find()
    assert program is not None
    command = bubblewrap.zygote(program, runtime, allowed.links.values(), tmp_path, {}, 2, 1 << 16)
    hidden = [
        folder for folder in Path(runtime.folders[0]).glob("*-packages") if any(folder.iterdir())
    ]
    own = [
        path
        for path in allowed.links.values()
        if any(path.is_relative_to(folder) for folder in hidden)
    ]
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
    done = subprocess.run(
        [*command, "-S", "-c", script], capture_output=True, text=True, check=False, env={}
    )
    lines = done.stdout.splitlines()
    assert lines[:4] == ["seen ['0', '1'] [] False", "True", "True", "False False False"], done
    assert lines[4:] == []


def test_rights_grow_with_the_version_and_never_shrink() -> None:
    rights = [landlock.handled(version) for version in range(1, 8)]
    assert rights[0] == (1 << 13) - 1
    assert all(newer | older == newer for older, newer in pairwise(rights))


# --- filters --------------------------------------------------------------------------------------


def answer(code: bytes, machine: str, name: str, *arguments: int, table: str = "") -> int:
    """What the kernel would answer: BPF run here, as far as the filters use it."""
    return run(code, machine, NUMBERS[machine][name], *arguments, table=table)


def run(code: bytes, machine: str, number: int, *arguments: int, table: str = "") -> int:
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
    fork_server = both(seccomp.fork_server_filter, machine)
    child = both(lambda: seccomp.child_filter(77), machine)

    def allowed(name: str, *arguments: int) -> bool:
        strictest = min(answer(code, machine, name, *arguments) for code in (fork_server, child))
        return strictest == seccomp.ALLOW

    def told(name: str, *arguments: int) -> int:
        return min(answer(code, machine, name, *arguments) for code in (fork_server, child))

    assert (
        allowed("read") and allowed("mmap", 0, 0, 0, 0x22) and not allowed("mmap", 0, 0, 0, 0x40022)
    )
    assert not allowed("mmap", 0, 0, 0, 0x2022)
    # A new thread is asked for, as a C library makes one and no other way; a process is refused.
    assert [told("clone", flags) for flags in (0x003D0F00, 0x007D0F00)] == [seccomp.NOTIFY] * 2
    for flags in (0x01200011, 0x003D0B00, 0x003D0F00 | 0x10000000, 0x00010F00, 0x4111):
        assert told("clone", flags) == seccomp.EPERM
    assert answer(fork_server, machine, "clone", 0x01200011) == seccomp.ALLOW
    for operation in range(14):
        assert allowed("futex", 0, operation | 128) and allowed("futex", 0, operation | 128 | 256)
        shared = {0: seccomp.EAGAIN, 9: seccomp.EAGAIN, 1: seccomp.NOTHING, 10: seccomp.NOTHING}
        for flag in (0, 256):
            assert told("futex", 0, operation | flag) == shared.get(operation, seccomp.ENOSYS)
    for name in ("futex_waitv", "futex_wait", "futex_wake", "futex_requeue", "clone3", "openat2"):
        assert told(name) == seccomp.ENOSYS
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        assert all(allowed(name, number) for number in range(12)) and allowed(
            name, ~0 << 3 & 0xFFFFFFFF | 2
        )
        assert all(allowed(name, ~number << 3 & 0xFFFFFFFF | 6) for number in (1, 4711))
        for number in (1, 77, 4711):
            assert [told(name, ~number << 3 & 0xFFFFFFFF | kind) for kind in range(4)] == [
                seccomp.EINVAL
            ] * 4
    assert allowed("madvise", 0, 0, 4) and not any(
        allowed("madvise", 0, 0, advice) for advice in (3, 12, 20, 21, 22)
    )
    assert allowed("kill", 77, 9) and not allowed("kill", 78, 9) and not allowed("tgkill", 1, 1, 9)
    assert allowed("prlimit64", 0) and not allowed("prlimit64", 5)
    assert (
        allowed("openat", 0, 0, 0)
        and allowed("openat", 0, 0, 0o1001)
        and not allowed("openat", 0, 0, 0o1000)
    )
    assert [number for number in range(2048) if allowed("fcntl", 3, number)] == [
        0,
        1,
        2,
        3,
        4,
        1030,
    ]
    for name in (
        "timer_create",
        "pipe2",
        "epoll_create1",
        "sysinfo",
        "preadv2",
        "mincore",
        "flock",
        "shmget",
    ):
        assert not allowed(name), name
    for name in (
        "socket",
        "execve",
        "ptrace",
        "mount",
        "keyctl",
        "bpf",
        "recvmsg",
        "seccomp",
        "setsid",
    ):
        assert not allowed(name), name
    assert answer(fork_server, machine, "clone3") == seccomp.ENOSYS


# What a Policy may call, whatever its arguments. Nothing comes to this list by itself.
PLAIN = """
access alarm arch_prctl brk capget chdir close close_range copy_file_range creat dup dup2 dup3 eventfd eventfd2 exit
exit_group faccessat faccessat2 fallocate fchdir fdatasync fstat fsync ftruncate get_mempolicy getcpu getcwd getdents64
getegid geteuid getgid getgroups getitimer getpgrp getpid getppid getrandom getresgid getresuid getrlimit getrusage
gettid gettimeofday getuid lseek lstat membarrier mkdir mkdirat mprotect mremap msync munmap nanosleep newfstatat pause
poll ppoll pread64 preadv pselect6 pwrite64 pwritev read readlink readlinkat readv rename renameat renameat2
restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait
sched_get_priority_max sched_get_priority_min sched_yield select sendfile set_robust_list set_tid_address setitimer
setrlimit sigaltstack stat statx symlink symlinkat time timerfd_create timerfd_gettime timerfd_settime times umask
uname unlink unlinkat wait4 waitid write writev
""".split()  # noqa: SIM905
BY_ARGUMENT = """
clock_getres clock_gettime clock_nanosleep clone fcntl futex getpgid getsid ioctl kill madvise mmap open openat prctl
prlimit64 sched_getaffinity sched_getparam sched_getscheduler tgkill
""".split()  # noqa: SIM905


@pytest.mark.parametrize("machine", MACHINES)
def test_a_policys_list_is_the_whole_of_what_it_may_call(
    both: Callable[[Callable[[], bytes], str], bytes], machine: str
) -> None:
    filters = (
        both(seccomp.fork_server_filter, machine),
        both(lambda: seccomp.child_filter(77), machine),
    )
    names = {number: name for name, number in NUMBERS[machine].items()}
    odd = (0, 0, 0, 0, 0, 0), (0xFFFFFFFF,) * 6, (0x7FFFFFF1,) * 6, (0x5A5A5A58,) * 6
    for number in range(1024):
        told = {
            min(run(code, machine, number, *arguments) for code in filters) for arguments in odd
        }
        name = names.get(number, "")
        if name in PLAIN:
            assert told == {seccomp.ALLOW}, name
        elif name not in BY_ARGUMENT:
            assert told <= {seccomp.EPERM, seccomp.ENOSYS}, (number, name)
        if number > LAST:
            assert told == {seccomp.ENOSYS}


def test_the_table_knows_every_call_this_machines_kernel_headers_name() -> None:
    """Those of the machine the tests run on; the table is of a newer kernel than most."""
    header = next((path for path in map(Path, HEADERS) if path.exists()), None)
    if header is None or platform.machine() != "x86_64":
        pytest.skip("the kernel's headers are not installed for x86_64")
    named = dict(re.findall(r"^#define __NR_(\w+)\s+(\d+)", header.read_text(), re.MULTILINE))
    table = NUMBERS["x86_64"]
    assert {
        name: table.get(name) for name, number in named.items() if table.get(name) != int(number)
    } == {}


HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("namespaces", [True, False])
def test_every_call_of_the_table_is_settled_for_agents_and_no_other_is_let_through(
    both: Callable[[Callable[[], bytes], str], bytes], machine: str, namespaces: bool
) -> None:
    code = both(lambda: seccomp.agent_filter(namespaces), machine)
    names = {number: name for name, number in NUMBERS[machine].items()}
    denied = seccomp.AGENT_DENIED | (frozenset() if namespaces else seccomp.AGENT_DENIED_BESIDE)
    assert denied <= {name for table in NUMBERS.values() for name in table}
    for number in range(1024):
        name = names.get(number, "")
        told = run(code, machine, number)
        if number > LAST:
            assert told == seccomp.ENOSYS
        elif not name or name in denied:
            assert told == seccomp.EPERM, (number, name)
        elif name in (
            "clone3",
            "openat2",
            "futex_waitv",
            "futex_wait",
            "futex_wake",
            "futex_requeue",
        ):
            assert told == seccomp.ENOSYS, name
        elif name not in ("socket", "socketpair"):
            assert told == seccomp.ALLOW, name
    # Whoever adds to the table looks at each new call here.
    assert len(names) == {"x86_64": 383, "aarch64": 325}[machine]


def test_an_agent_can_call_nothing_that_outlives_it_or_tells_who_reads(
    both: Callable[[Callable[[], bytes], str], bytes],
) -> None:
    for machine, namespaces in product(MACHINES, (True, False)):
        code = both(partial(seccomp.agent_filter, namespaces), machine)

        def told(name: str, *arguments: int, code: bytes = code, machine: str = machine) -> int:
            return answer(code, machine, name, *arguments)

        for space in (
            0x20000,
            0x02000000,
            0x04000000,
            0x08000000,
            0x10000000,
            0x20000000,
            0x40000000,
        ):
            assert told("clone", space | 17) == seccomp.EPERM
        for flags in (0x01200011, 0x003D0F00, 0x00050F00, 0x4111):
            assert told("clone", flags) == seccomp.ALLOW
        assert (
            told("fcntl", 3, 1024) == told("fcntl", 3, 1026) == seccomp.EPERM
        )  # a lease; a folder's watch
        assert told("fcntl", 3, 6) == told("fcntl", 3, 1031) == seccomp.ALLOW
        assert [told("inotify_add_watch", 3, 0, mask) for mask in (0x01, 0x10, 0x20, 0xFFF)] == [
            seccomp.EPERM
        ] * 4
        assert told("inotify_add_watch", 3, 0, 0xFCE) == seccomp.ALLOW
        assert (
            told("preadv2", 3, 0, 0, 0, 0, 8) == seccomp.ENOSYS and told("preadv2") == seccomp.ALLOW
        )
        assert told("madvise", 0, 0, 21) == told("madvise", 0, 0, 20) == seccomp.EINVAL
        assert told("clock_gettime", ~4711 << 3 & 0xFFFFFFFF | 2) == seccomp.EINVAL
        assert (
            told("ioctl", 3, 0x40086602) == seccomp.EPERM
            and told("ioctl", 3, 0x5401) == seccomp.ALLOW
        )
        of_others = seccomp.ALLOW if namespaces else seccomp.EPERM
        for name in (
            "prlimit64",
            "sched_setaffinity",
            "sched_setscheduler",
            "sched_setparam",
            "sched_setattr",
        ):
            assert told(name, 0) == seccomp.ALLOW and told(name, 1) == of_others


@pytest.mark.parametrize("machine", MACHINES)
def test_what_an_agents_keeper_is_asked_and_what_stands_in_for_it(
    both: Callable[[Callable[[], bytes], str], bytes], machine: str
) -> None:
    counted, uncounted = (
        both(seccomp.counted_filter, machine),
        both(seccomp.uncounted_filter, machine),
    )
    processes = [name for name in ("clone", "fork", "vfork") if name in NUMBERS[machine]]
    for name in processes:
        assert answer(counted, machine, name) == answer(uncounted, machine, name) == seccomp.ALLOW
    for flags in (0x003D0F00, 0x00010000, 0x00010011):
        assert answer(counted, machine, "clone", flags) == seccomp.NOTIFY
    for operation in range(14):
        assert answer(counted, machine, "futex", 0, operation | 128) == seccomp.ALLOW
        asked = {0: seccomp.NOTIFY, 9: seccomp.NOTIFY} | dict.fromkeys(
            (1, 3, 4, 5, 10), seccomp.ALLOW
        )
        assert answer(counted, machine, "futex", 0, operation) == asked.get(
            operation, seccomp.ENOSYS
        )
        instead = {0: seccomp.EAGAIN, 9: seccomp.EAGAIN, 1: seccomp.NOTHING, 10: seccomp.NOTHING}
        assert answer(uncounted, machine, "futex", 0, operation) == instead.get(
            operation, seccomp.ENOSYS
        )


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_by_another_table_end_the_process(
    both: Callable[[Callable[[], bytes], str], bytes], machine: str
) -> None:
    other = MACHINES[1 - MACHINES.index(machine)]
    assert (
        answer(both(seccomp.fork_server_filter, machine), machine, "read", table=other)
        == seccomp.KILL
    )


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
from evopolicy.execution.sandbox import process
from evopolicy.execution.sandbox import seccomp
process.give_up_privileges()
seccomp.install(seccomp.agent_filter(False))
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
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == f"{[False] * 6} 0o100755", done.stderr


def test_a_machine_without_a_table_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(IsolationError, match="riscv64"):
        seccomp.assemble([], seccomp.EPERM)
