"""Reads and pushes what the kernel counts for all processes of a user, or of the machine."""

import ctypes
import os
import select
import signal
import time


def possible(what):
    try:
        return what() is not False
    except OSError:
        return False


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.getpid()
    for pid in [1, os.getppid(), *range(max(2, here - 30), here), *range(here + 1, here + 30)]:
        if possible(lambda: time.clock_gettime(~pid << 3 | 2)):
            print("ESCAPED: the CPU time of", pid)
    time.clock_gettime(time.pthread_getcpuclockid(__import__("threading").get_ident()))
    time.process_time()
    timer = ctypes.c_long()
    if libc.timer_create(1, None, ctypes.byref(timer)) == 0:
        print("ESCAPED: a timer, which all of the user's share a limit of")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN + 3})
    queued = sum(libc.kill(here, signal.SIGRTMIN + 3) == 0 for _ in range(50))
    kept = 0
    while signal.sigtimedwait({signal.SIGRTMIN + 3}, 0) is not None:
        kept += 1
    if kept > 1:
        print(f"ESCAPED: {kept} of {queued} signals in the queue all of the user's share")
    if libc.sysinfo(ctypes.create_string_buffer(256)) == 0:
        print("ESCAPED: how many processes the machine has")
    if possible(os.pipe):
        print("ESCAPED: a pipe, whose room tells how many the user has")
    if possible(select.epoll):
        print("ESCAPED: epoll, whose watches all of the user's share")
    if libc.fcntl(1, 1032) >= 0:
        print("ESCAPED: the room of its output's pipe")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
