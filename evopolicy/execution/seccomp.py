"""System-call filters, assembled to BPF and laid with ctypes: default-deny for Policies, a deny list for agents.

A filter is inherited by every thread and child and can never be lifted. Filters add up: the strictest answer wins.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evopolicy.execution.syscalls import LAST, NUMBERS
from evopolicy.kernel.errors import IsolationError

ALLOW = 0x7FFF0000
KILL = 0x80000000
EPERM = 0x00050000 | errno.EPERM
ENOSYS = 0x00050000 | errno.ENOSYS

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000
_AF_UNIX = 1
_SETUID, _SETGID = 0o4000, 0o2000

_LOAD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NR, _ARCH, _ARGS = 0, 4, 16

Code = list[tuple[int, int, int, int]]


@dataclass(frozen=True)
class Rule:
    """What a filter answers to one call: `answer` where argument `argument` is one of `values`, else `otherwise`.

    `mask` is applied to the low word of the argument before it is compared; without `argument` the answer is `answer`.
    """

    name: str
    answer: int = ALLOW
    argument: int | None = None
    values: tuple[int, ...] = ()
    mask: int = 0xFFFFFFFF
    otherwise: int = EPERM


def _words(text: str) -> list[str]:
    return text.split()


# Python asks a descriptor whether it is a terminal and sets close-on-exec; no other request has a use in a Policy.
_IOCTLS = (0x5401, 0x5451, 0x5450, 0x541B, 0x5421)
# Duplicates and flags only: locks on shared files and signals to a descriptor's owner would be channels.
_FCNTLS = (0, 1, 2, 3, 4, 1030, 1032)
# Names of threads and memory areas.
_PRCTLS = (15, 16, 0x53564D41)

_PLAIN = _words("""
read write readv writev pread64 pwrite64 preadv pwritev close close_range fstat stat lstat newfstatat statx lseek
mmap mprotect munmap brk mremap madvise msync membarrier
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause
access faccessat faccessat2 creat getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat
rename renameat renameat2 symlink symlinkat readlink readlinkat ftruncate fallocate fsync fdatasync sendfile
copy_file_range umask dup dup2 dup3 pipe pipe2 eventfd eventfd2 poll ppoll select pselect6
epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
getpid getppid gettid getuid geteuid getgid getegid getgroups getresuid getresgid getpgrp
set_tid_address set_robust_list rseq futex futex_waitv restart_syscall exit exit_group
nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getrusage getitimer setitimer alarm
timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime
getrandom uname sysinfo getcpu sched_yield sched_get_priority_max sched_get_priority_min getrlimit setrlimit
capget wait4 waitid arch_prctl get_mempolicy
""")

_OF_SELF = _words("getpgid getsid sched_getaffinity sched_getparam sched_getscheduler prlimit64")

# What the template needs after its filter is laid and its children must not have: `child_filter` takes them away.
_TEMPLATE = _words(
    "clone fork vfork kill tgkill prctl sendmsg recvmsg setsid landlock_create_ruleset landlock_add_rule "
    "landlock_restrict_self seccomp chmod fchmodat"
)


def template_filter() -> bytes:
    """The default-deny list of a template and its children: no sockets, no exec, no IPC.

    The template may change modes: it removes what Episodes leave.
    """
    rules = [Rule(name) for name in _PLAIN + _TEMPLATE]
    rules += [Rule(name, ALLOW, 0, (0,)) for name in _OF_SELF]
    rules += [
        Rule("fcntl", ALLOW, 1, _FCNTLS),
        Rule("ioctl", ALLOW, 1, _IOCTLS),
        # O_TRUNC with read-only access truncates, and the first Landlock versions do not see it.
        Rule("open", EPERM, 1, (_O_TRUNC,), _O_TRUNC | _O_ACCMODE, ALLOW),
        Rule("openat", EPERM, 2, (_O_TRUNC,), _O_TRUNC | _O_ACCMODE, ALLOW),
        Rule("clone3", ENOSYS),
        Rule("openat2", ENOSYS),
    ]
    return assemble(rules, EPERM)


def child_filter(pid: int) -> bytes:
    """What an Episode's process gives up on top of its template's filter: new processes, signals to all but itself."""
    rules = [Rule(name, EPERM) for name in _TEMPLATE if name not in ("clone", "kill", "tgkill", "prctl")]
    rules += [
        Rule("clone", ALLOW, 0, (_CLONE_THREAD,), _CLONE_THREAD),
        Rule("kill", ALLOW, 0, (pid,)),
        Rule("tgkill", ALLOW, 0, (pid,)),
        Rule("prctl", ALLOW, 0, _PRCTLS),
    ]
    return assemble(rules, ALLOW)


_AGENT_DENIED = _words("""
ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp mount umount2 move_mount fsopen fsconfig fsmount fspick
open_tree mount_setattr pivot_root chroot unshare setns bpf perf_event_open userfaultfd keyctl add_key request_key
io_uring_setup io_uring_enter io_uring_register init_module finit_module delete_module kexec_load kexec_file_load
reboot swapon swapoff sethostname setdomainname acct quotactl quotactl_fd syslog settimeofday clock_settime adjtimex
clock_adjtime name_to_handle_at open_by_handle_at lookup_dcookie fanotify_init process_madvise process_mrelease
migrate_pages move_pages iopl ioperm
""")


# Calls that give a file a mode, and which argument it is.
_MODES = (
    ("chmod", 1),
    ("fchmod", 1),
    ("fchmodat", 2),
    ("fchmodat2", 2),
    ("creat", 1),
    ("open", 2),
    ("openat", 3),
    ("mknod", 1),
    ("mknodat", 2),
)


def agent_filter(network: bool) -> bytes:
    """What an agent's processes give up: the kernel's doors, and every socket but Unix ones unless it has a network."""
    rules = [Rule(name, EPERM) for name in _AGENT_DENIED]
    # A file that runs with its owner's rights would be one of the Host's user on the Host's disk.
    bits = (_SETUID, _SETGID, _SETUID | _SETGID)
    rules += [Rule(name, EPERM, place, bits, _SETUID | _SETGID, ALLOW) for name, place in _MODES]
    rules.append(Rule("openat2", ENOSYS))  # Its mode lies in memory, where no filter looks; every caller falls back.
    if not network:
        rules += [Rule(name, ALLOW, 0, (_AF_UNIX,)) for name in ("socket", "socketpair")]
    return assemble(rules, ALLOW)


def assemble(rules: Sequence[Rule], default: int, machine: str | None = None) -> bytes:
    """BPF of `rules` for this machine. Raises IsolationError where the machine has no table."""
    machine = machine or platform.machine()
    if machine not in NUMBERS:
        raise IsolationError(f"no system-call filter for the machine '{machine}'; there are ones for {sorted(NUMBERS)}")
    numbers = NUMBERS[machine]
    code: Code = [(_LOAD, 0, 0, _ARCH), (_JEQ, 1, 0, _AUDIT[machine]), (_RET, 0, 0, KILL), (_LOAD, 0, 0, _NR)]
    if machine == "x86_64":
        code += [(_JGE, 0, 1, _X32), (_RET, 0, 0, ENOSYS)]
    for rule in rules:
        if rule.name in numbers:
            code += _branch(numbers[rule.name], rule)
    if default != ALLOW:
        code += [(_JGE, 0, 1, LAST + 1), (_RET, 0, 0, ENOSYS)]
    code.append((_RET, 0, 0, default))
    return b"".join(struct.pack("<HBBI", *line) for line in code)


def _branch(number: int, rule: Rule) -> Code:
    body = list(_answer(rule))
    return [(_JEQ, 0, len(body), number), *body]


def _answer(rule: Rule) -> Iterable[tuple[int, int, int, int]]:
    if rule.argument is None:
        yield _RET, 0, 0, rule.answer
        return
    yield _LOAD, 0, 0, _ARGS + 8 * rule.argument
    if rule.mask != 0xFFFFFFFF:
        yield _AND, 0, 0, rule.mask
    for value in rule.values:
        yield _JEQ, 0, 1, value
        yield _RET, 0, 0, rule.answer
    yield _RET, 0, 0, rule.otherwise


_SET_MODE_FILTER, _SPEC_ALLOW = 1, 4
_syscall = ctypes.CDLL(None, use_errno=True).syscall


NOBODY = 0x7FFFFFFF
"""A process id that stands for the one a filter is going to be laid in."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Filter:
    """A filter ready to be laid: assembled in one process, laid in the ones it forks."""

    def __init__(self, code: bytes) -> None:
        self._code = ctypes.create_string_buffer(code, len(code))
        self._program = _Program(len(code) // 8, ctypes.addressof(self._code))
        nobody = struct.pack("<I", NOBODY)
        self._places = [at for at in range(4, len(code), 8) if code[at : at + 4] == nobody]

    def lay(self, pid: int = 0) -> None:
        """Lay it on this process for ever, `pid` where `child_filter(NOBODY)` left a place for it. Raises OSError.

        The process must have given up new privileges.
        """
        for place in self._places:
            struct.pack_into("<I", self._code, place, pid)
        number, program = NUMBERS[platform.machine()]["seccomp"], ctypes.byref(self._program)
        # Without SPEC_ALLOW older kernels slow every process with a filter down; the very oldest do not know the flag.
        if all(_syscall(number, _SET_MODE_FILTER, flags, program) != 0 for flags in (_SPEC_ALLOW, 0)):
            error = ctypes.get_errno()
            raise OSError(error, f"seccomp refused a filter: {errno.errorcode.get(error, error)}")


def lay(code: bytes) -> None:
    """Lay `code` on this process for ever (it must have given up new privileges). Raises OSError."""
    Filter(code).lay()
