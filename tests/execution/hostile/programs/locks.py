"""Locks and watches files that other Episodes use, to tell them something."""

import ctypes
import fcntl
import os
import signal


def attack():
    for path in (__file__, os.__file__):
        with open(path) as file:
            for lock in (
                lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB),
                lambda: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB),
                lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK),
                lambda: fcntl.fcntl(file, fcntl.F_NOTIFY, fcntl.DN_ACCESS),
                lambda: fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid()),
                lambda: fcntl.fcntl(3, fcntl.F_SETSIG, signal.SIGKILL),
            ):
                try:
                    lock()
                except OSError:
                    continue
                print("ESCAPED: a lock, lease or owner on", path)
    if ctypes.CDLL(None).inotify_init() >= 0:
        print("ESCAPED: inotify_init")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
