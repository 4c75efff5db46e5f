"""Traces, reads and limits its fork server."""

import ctypes
import os
import resource


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    there = os.getppid()
    if libc.ptrace(16, there, 0, 0) == 0:
        print("ESCAPED: ptrace")
    if libc.process_vm_readv(there, 0, 0, 0, 0, 0) >= 0:
        print("ESCAPED: process_vm_readv")
    try:
        resource.prlimit(there, resource.RLIMIT_CPU, (1, 1))
        print("ESCAPED: prlimit")
    except OSError:
        pass
    try:
        os.setpriority(os.PRIO_PROCESS, there, 19)
        print("ESCAPED: setpriority")
    except OSError:
        pass
    try:
        os.sched_setaffinity(there, {0})
        print("ESCAPED: sched_setaffinity")
    except OSError:
        pass


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
