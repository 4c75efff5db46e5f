"""Signals its fork server, its siblings and everybody else."""

import ctypes
import os


def attack():
    here = os.getpid()
    for pid in [os.getppid(), 1, -1, 0, *range(here - 20, here), *range(here + 1, here + 20)]:
        for number in (0, 9, 19):
            try:
                os.kill(pid, number)
            except OSError:
                continue
            print("ESCAPED: signalled", pid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sigqueue(os.getppid(), 9, 0) == 0:
        print("ESCAPED: sigqueue")
    if libc.syscall(434, os.getppid(), 0) >= 0:
        print("ESCAPED: pidfd_open")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
