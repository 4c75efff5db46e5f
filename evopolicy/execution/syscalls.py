"""Numbers of the system calls a filter names, for x86_64 and aarch64. Source: the kernel's asm/unistd headers."""

from __future__ import annotations

_TABLE = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296 70,
close 3 57, close_range 436 436, fstat 5 80, stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291, lseek 8 62,
mmap 9 222, mprotect 10 226, munmap 11 215, brk 12 214, mremap 25 216, madvise 28 233, msync 26 227,
membarrier 324 283, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
rt_sigsuspend 130 133, rt_sigtimedwait 128 137, sigaltstack 131 132, pause 34 -, access 21 -, faccessat 269 48,
faccessat2 439 439, open 2 -, openat 257 56, creat 85 -, getdents64 217 61, getcwd 79 17, chdir 80 49,
fchdir 81 50, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38,
renameat2 316 276, symlink 88 -, symlinkat 266 36, readlink 89 -, readlinkat 267 78, ftruncate 77 46,
fallocate 285 47, fsync 74 82, fdatasync 75 83, sendfile 40 71, copy_file_range 326 285, umask 95 166, dup 32 23,
dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59, eventfd 284 -, eventfd2 290 19, poll 7 -, ppoll 271 73,
select 23 -, pselect6 270 72, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -,
epoll_pwait 281 22, epoll_pwait2 441 441, getpid 39 172, getppid 110 173, gettid 186 178, getuid 102 174,
geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158, getresuid 118 148, getresgid 120 150,
getpgrp 111 -, getpgid 121 155, getsid 124 156, set_tid_address 218 96, set_robust_list 273 99, rseq 334 293,
futex 202 98, futex_waitv 449 449, restart_syscall 219 128, exit 60 93, exit_group 231 94, nanosleep 35 101,
clock_nanosleep 230 115, clock_gettime 228 113, clock_getres 229 114, gettimeofday 96 169, time 201 -,
times 100 153, getrusage 98 165, getitimer 36 102, setitimer 38 103, alarm 37 -, timer_create 222 107,
timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109, timer_delete 226 111,
timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87, getrandom 318 278, uname 63 160,
sysinfo 99 179, getcpu 309 168, sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121,
sched_getscheduler 145 120, sched_get_priority_max 146 125, sched_get_priority_min 147 126, getpriority 140 141,
getrlimit 97 163, setrlimit 160 164, capget 125 90, wait4 61 260, waitid 247 95, arch_prctl 158 -,
get_mempolicy 239 236, clone 56 220, clone3 435 435, fork 57 -, vfork 58 -, kill 62 129, tgkill 234 131,
tkill 200 130, prctl 157 167, fcntl 72 25, ioctl 16 29, prlimit64 302 261, sendmsg 46 211, recvmsg 47 212,
setsid 112 157, setpgid 109 154, landlock_create_ruleset 444 444, landlock_add_rule 445 445,
landlock_restrict_self 446 446, seccomp 317 277, openat2 437 437, execve 59 221, execveat 322 281, socket 41 198,
socketpair 53 199, ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, pidfd_open 434 434,
pidfd_getfd 438 438, pidfd_send_signal 424 424, kcmp 312 272, mount 165 40, umount2 166 39, move_mount 429 429,
fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, open_tree 428 428, mount_setattr 442 442,
pivot_root 155 41, chroot 161 51, unshare 272 97, setns 308 268, bpf 321 280, perf_event_open 298 241,
userfaultfd 323 282, keyctl 250 219, add_key 248 217, request_key 249 218, io_uring_setup 425 425,
io_uring_enter 426 426, io_uring_register 427 427, init_module 175 105, finit_module 313 273,
delete_module 176 106, kexec_load 246 104, kexec_file_load 320 294, reboot 169 142, swapon 167 224,
swapoff 168 225, sethostname 170 161, setdomainname 171 162, acct 163 89, quotactl 179 60, quotactl_fd 443 443,
syslog 103 116, settimeofday 164 170, clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266,
name_to_handle_at 303 264, open_by_handle_at 304 265, lookup_dcookie 212 18, fanotify_init 300 262,
process_madvise 440 440, process_mrelease 448 448, migrate_pages 256 238, move_pages 279 239,
rt_tgsigqueueinfo 297 240, capset 126 91, chmod 90 -, fchmod 91 52, fchmodat 268 53,
fchmodat2 452 452, mknod 133 -, mknodat 259 33, iopl 172 -, ioperm 173 -, modify_ldt 154 -
"""

LAST = 449
"""The newest call the table knows; a filter answers ENOSYS above it, so that a C library falls back."""

NUMBERS: dict[str, dict[str, int]] = {"x86_64": {}, "aarch64": {}}
"""Machine (as `platform.machine()` says it) -> name -> number; a call a machine does not have is left out."""

for _entry in _TABLE.replace("\n", " ").split(","):
    _name, _x86, _arm = _entry.split()
    NUMBERS["x86_64"][_name] = int(_x86)
    if _arm != "-":
        NUMBERS["aarch64"][_name] = int(_arm)
