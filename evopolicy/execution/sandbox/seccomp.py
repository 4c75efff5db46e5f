"""System-call filters, assembled to BPF and installed with ctypes: lists of what Policies and what
agents may call.

A filter is inherited by every thread and child and can never be lifted. Filters add up: the
strictest answer wins. What neither list names is refused, and what is newer than the table of calls
is ENOSYS, as by an older kernel."""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evopolicy.execution.sandbox import seccomp_notify
from evopolicy.execution.sandbox.syscalls import LAST, NUMBERS
from evopolicy.kernel.errors import IsolationError

ALLOW = 0x7FFF0000
NOTIFY = 0x7FC00000
"""Ask whoever holds the filter's listener (`seccomp_notify`)."""
KILL = 0x80000000
NOTHING = 0x00050000
"""Say that it is done, and do nothing."""
EPERM, EAGAIN, EINVAL, ENOSYS = (
    NOTHING | number for number in (errno.EPERM, errno.EAGAIN, errno.EINVAL, errno.ENOSYS)
)

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000
_AF_UNIX = 1
_SETUID, _SETGID = 0o4000, 0o2000

_LOAD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NR, _ARCH, _ARGS = 0, 4, 16

Code = list[tuple[int, int, int, int]]


@dataclass(frozen=True)
class Rule:
    """What a filter answers to one call: `answer` where argument `argument` is one of `values`,
    else `otherwise`.

    `mask` is applied to the low word of the argument before it is compared; without `argument` the
    answer is `answer`. Without `otherwise` the rules after it are looked at."""

    name: str
    answer: int = ALLOW
    argument: int | None = None
    values: tuple[int, ...] = ()
    mask: int = 0xFFFFFFFF
    otherwise: int | None = EPERM


def _words(text: str) -> list[str]:
    return text.split()


# Python asks a descriptor whether it is a terminal and sets close-on-exec; no other request has a
# use in a Policy.
_IOCTLS = (0x5401, 0x5451, 0x5450, 0x541B, 0x5421)
# Duplicates and flags only: locks on shared files and signals to a descriptor's owner would be
# channels.
_FCNTLS = (0, 1, 2, 3, 4, 1030)
# Names of threads and memory areas.
_PRCTLS = (15, 16, 0x53564D41)
# What allocators say of their own memory. Others move pages of files in and out of the cache all
# processes share.
_ADVICE = (0, 1, 2, 4, 8, 14, 15, 16, 17, 102, 103)
_MAP_LOCKED, _MAP_HUGETLB = 0x2000, 0x40000
# All that a C library passes for a new thread: glibc, musl. Anything less has descriptors or
# folders of its own.
_THREAD = (0x003D0F00, 0x007D0F00)
_CLONE_THREAD = 0x00010000
_NEW_NAMESPACES = 0x7E020000

_PLAIN = _words("""
read write readv writev pread64 pwrite64 preadv pwritev close close_range fstat stat lstat newfstatat statx lseek
mprotect munmap brk mremap msync membarrier
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause
access faccessat faccessat2 creat getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat
rename renameat renameat2 symlink symlinkat readlink readlinkat ftruncate fallocate fsync fdatasync sendfile
copy_file_range umask dup dup2 dup3 eventfd eventfd2 poll ppoll select pselect6
getpid getppid gettid getuid geteuid getgid getegid getgroups getresuid getresgid getpgrp
set_tid_address set_robust_list rseq restart_syscall exit exit_group
nanosleep gettimeofday time times getrusage getitimer setitimer alarm
timerfd_create timerfd_settime timerfd_gettime
getrandom uname getcpu sched_yield sched_get_priority_max sched_get_priority_min getrlimit setrlimit
capget wait4 waitid arch_prctl get_mempolicy
""")

_OF_SELF = _words("getpgid getsid sched_getaffinity sched_getparam sched_getscheduler prlimit64")

# What the fork server needs under its own filter and its children must not have: `child_filter`
# takes them away.
_FORK_SERVER = _words(
    "fork vfork kill tgkill prctl sendmsg recvmsg setsid landlock_create_ruleset landlock_add_rule "
    "landlock_restrict_self seccomp chmod fchmod fchmodat"
)

_FUTEX_COMMAND, _FUTEX_PRIVATE = 0x7F, 0x80
_FUTEX_WAITS, _FUTEX_WAKES, _FUTEX_MOVES = (0, 9), (1, 10), (3, 4, 5)
_PRIVATE = Rule("futex", ALLOW, 1, (_FUTEX_PRIVATE,), _FUTEX_PRIVATE, None)
# The newer calls say in memory, or by other numbers, whether they are private; no C library needs
# them.
_NEWER_FUTEXES = [
    Rule(name, ENOSYS) for name in _words("futex_waitv futex_wait futex_wake futex_requeue")
]
FUTEXES = [
    _PRIVATE,
    Rule("futex", EAGAIN, 1, _FUTEX_WAITS, _FUTEX_COMMAND, None),
    Rule("futex", NOTHING, 1, _FUTEX_WAKES, _FUTEX_COMMAND, ENOSYS),
    *_NEWER_FUTEXES,
]
"""No waiting on a futex that is not private to the process: one on a page of a file joins all who
see the file.

A wait comes back at once, as it does where the value has changed: joining a thread, which C
libraries do so, looks again and again until the thread has ended. Nobody can be waiting, so that
whatever wakes, the end of a thread among it, wakes nobody. """

# Numbers below zero name the CPU time of a process: here only this one (-6 to -8) or one of its
# threads.
_CLOCKS = [
    rule
    for name in _words("clock_gettime clock_getres clock_nanosleep")
    for rule in (
        Rule(name, ALLOW, 0, (0,), 1 << 31, None),
        Rule(name, ALLOW, 0, (2**32 - 6, 2**32 - 7, 2**32 - 8), otherwise=None),
        Rule(name, ALLOW, 0, (4, 5, 6), 7, EINVAL),
    )
]


def fork_server_filter() -> bytes:
    """The default-deny list of a fork server and its children: no sockets, no exec, no IPC.

    The fork server may change modes: it removes what Episodes leave.
    """
    rules = [
        *FUTEXES,
        *_CLOCKS,
        # A new thread is counted by whoever holds the listener; the fork server's own processes are
        # no threads.
        Rule("clone", NOTIFY, 0, _THREAD, otherwise=ALLOW),
        Rule("mmap", ALLOW, 3, (0,), _MAP_LOCKED | _MAP_HUGETLB, EINVAL),
        Rule("madvise", ALLOW, 2, _ADVICE, otherwise=EINVAL),
        Rule("fcntl", ALLOW, 1, _FCNTLS),
        Rule("ioctl", ALLOW, 1, _IOCTLS),
        # O_TRUNC with read-only access truncates, and the first Landlock versions do not see it.
        Rule("open", EPERM, 1, (_O_TRUNC,), _O_TRUNC | _O_ACCMODE, ALLOW),
        Rule("openat", EPERM, 2, (_O_TRUNC,), _O_TRUNC | _O_ACCMODE, ALLOW),
        Rule("clone3", ENOSYS),
        Rule("openat2", ENOSYS),
        *(Rule(name, ALLOW, 0, (0,)) for name in _OF_SELF),
        *(Rule(name) for name in _PLAIN + _FORK_SERVER),
    ]
    return assemble(rules, EPERM)


def child_filter(pid: int) -> bytes:
    """What an Episode's process gives up on top of its fork server's list: new processes, signals
    to all but itself."""
    rules = [Rule(name, EPERM) for name in _FORK_SERVER if name not in ("kill", "tgkill", "prctl")]
    rules += [
        Rule("clone", ALLOW, 0, _THREAD),
        Rule("kill", ALLOW, 0, (pid,)),
        Rule("tgkill", ALLOW, 0, (pid,)),
        Rule("prctl", ALLOW, 0, _PRCTLS),
    ]
    return assemble(rules, ALLOW)


AGENT_DENIED = frozenset(
    _words("""
ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp get_robust_list mount umount2 move_mount fsopen fsconfig
fsmount fspick open_tree open_tree_attr mount_setattr statmount listmount pivot_root chroot unshare setns bpf
perf_event_open userfaultfd uprobe uretprobe keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff sethostname setdomainname acct
quotactl quotactl_fd syslog settimeofday clock_settime adjtimex clock_adjtime name_to_handle_at open_by_handle_at
fanotify_init fanotify_mark process_madvise process_mrelease migrate_pages move_pages iopl ioperm modify_ldt vhangup
lsm_set_self_attr file_setattr
mincore cachestat
io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel
_sysctl afs_syscall create_module epoll_ctl_old epoll_wait_old get_kernel_syms getpmsg lookup_dcookie nfsservctl putpmsg
query_module security sysfs tuxcall uselib ustat vserver
""")
)
"""Refused to every agent: doors of the kernel's; who has read what; counters all users share; and
calls of old."""

AGENT_DENIED_BESIDE = frozenset(
    _words("""
shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semtimedop semctl
mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
setpriority ioprio_set
inotify_init inotify_init1
""")
)
"""Refused on top where an agent has no namespaces: what outlives its Run, what reaches other
processes, and watches.

No Landlock refuses to watch a folder that may not be listed: the making of another Run's socket
would tell its name. """


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


_LEASE, _NOTIFY_FOLDER = 1024, 1026
# Sets what a file system keeps of a file beside its mode, and types into a terminal.
_AGENT_IOCTLS = (0x40086602, 0x401C5820, 0x40087602, 0x5412, 0x541C)
# A watch for these tells of whoever reads: all sandboxes read the same libraries.
_SEEN_READING = 0x31
_PAGED_OUT = (20, 21)
_NO_WAIT = 8


def agent_filter(namespaces: bool) -> bytes:
    """What an agent's processes may call: all but the kernel's doors; without `namespaces` no
    sockets but Unix ones."""
    # A file that runs with its owner's rights would be one of the Host's user on the Host's disk.
    bits = (_SETUID, _SETGID, _SETUID | _SETGID)
    rules = [
        *_CLOCKS,
        *_NEWER_FUTEXES,
        Rule("clone", ALLOW, 0, (0,), _NEW_NAMESPACES),
        Rule("fcntl", EPERM, 1, (_LEASE, _NOTIFY_FOLDER), otherwise=ALLOW),
        Rule("ioctl", EPERM, 1, _AGENT_IOCTLS, otherwise=ALLOW),
        Rule("inotify_add_watch", ALLOW, 2, (0,), _SEEN_READING),
        Rule("madvise", EINVAL, 2, _PAGED_OUT, otherwise=ALLOW),
        *(Rule(name, ALLOW, 5, (0,), _NO_WAIT, ENOSYS) for name in ("preadv2", "pwritev2")),
        *(Rule(name, EPERM, place, bits, _SETUID | _SETGID, ALLOW) for name, place in _MODES),
        # Their modes and flags lie in memory, where no filter looks; every caller falls back.
        Rule("openat2", ENOSYS),
        Rule("clone3", ENOSYS),
    ]
    denied = AGENT_DENIED
    if not namespaces:
        denied |= AGENT_DENIED_BESIDE
        rules += [Rule(name, ALLOW, 0, (_AF_UNIX,)) for name in ("socket", "socketpair")]
        # Of itself alone: by number they reach every process of the Host's user.
        of_self = (
            "prlimit64",
            "sched_setaffinity",
            "sched_setscheduler",
            "sched_setparam",
            "sched_setattr",
        )
        rules += [Rule(name, ALLOW, 0, (0,)) for name in of_self]
    names = (
        {name for table in NUMBERS.values() for name in table}
        - denied
        - {rule.name for rule in rules}
    )
    return assemble([*rules, *(Rule(name) for name in sorted(names))], EPERM)


def counted_filter() -> bytes:
    """What an agent's processes ask whoever keeps them for: a new thread, and a futex that is
    shared.

    Programs of all kinds wait on one, to join a thread or for a lock of several processes. A new
    process is not asked for: a signal that comes while it waits for the answer would end the call,
    and a shell's `a | b` with it. Who makes a thread blocks signals meanwhile, as C libraries do.
    """
    rules = [
        _PRIVATE,
        Rule("futex", NOTIFY, 1, _FUTEX_WAITS, _FUTEX_COMMAND, None),
        Rule("futex", ALLOW, 1, (*_FUTEX_WAKES, *_FUTEX_MOVES), _FUTEX_COMMAND, ENOSYS),
        Rule("clone", NOTIFY, 0, (_CLONE_THREAD,), _CLONE_THREAD, ALLOW),
    ]
    return assemble(rules, ALLOW)


def uncounted_filter() -> bytes:
    """In its place where the kernel lets nobody be asked, because this machine's own sandbox has a
    listener."""
    return assemble(FUTEXES, ALLOW)


def assemble(rules: Sequence[Rule], default: int) -> bytes:
    """BPF of `rules` for this machine. Raises IsolationError where the machine has no table."""
    machine = platform.machine()
    if machine not in NUMBERS:
        raise IsolationError(
            f"no system-call filter for the machine '{machine}'; there are ones for "
            f"{sorted(NUMBERS)}"
        )
    numbers = NUMBERS[machine]
    code: Code = [
        (_LOAD, 0, 0, _ARCH),
        (_JEQ, 1, 0, _AUDIT[machine]),
        (_RET, 0, 0, KILL),
        (_LOAD, 0, 0, _NR),
    ]
    if machine == "x86_64":
        code += [(_JGE, 0, 1, _X32), (_RET, 0, 0, ENOSYS)]
    for rule in rules:
        if rule.name in numbers:
            answer = list(_answer(rule))
            code += [(_JEQ, 0, len(answer), numbers[rule.name]), *answer]
    code += [(_JGE, 0, 1, LAST + 1), (_RET, 0, 0, ENOSYS)]
    code.append((_RET, 0, 0, default))
    return b"".join(struct.pack("<HBBI", *line) for line in code)


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
    # What comes after this rule looks for the call's number again.
    yield (_LOAD, 0, 0, _NR) if rule.otherwise is None else (_RET, 0, 0, rule.otherwise)


NOBODY = 0x7FFFFFFF
"""A process id that stands for the one a filter is going to be installed in."""


class Filter:
    """A filter ready to be installed: assembled in one process, installed in the ones it forks."""

    def __init__(self, code: bytes) -> None:
        self._code = bytearray(code)
        nobody = struct.pack("<I", NOBODY)
        self._places = [at for at in range(4, len(code), 8) if code[at : at + 4] == nobody]

    def install(self, pid: int = 0) -> None:
        """Install it on this process for ever, `pid` where `child_filter(NOBODY)` left a place for
        it. Raises OSError.

        The process must have given up new privileges.
        """
        for place in self._places:
            struct.pack_into("<I", self._code, place, pid)
        seccomp_notify.install(bytes(self._code))


def install(code: bytes) -> None:
    """Install `code` on this process for ever (it must have given up new privileges). Raises
    OSError."""
    seccomp_notify.install(code)
