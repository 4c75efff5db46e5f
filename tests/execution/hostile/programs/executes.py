"""Runs other programs."""

import ctypes
import os
import subprocess


def attack():
    for start in (
        lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: os.execv("/bin/true", ["true"]),
        lambda: os.popen("true").read(),
        lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"]),
    ):
        try:
            start()
        except OSError:
            continue
        print("ESCAPED: ran a program")
    if os.system("true") == 0:
        print("ESCAPED: system")
    if ctypes.CDLL(None).syscall(322, -100, b"/bin/true", 0, 0, 0) == 0:
        print("ESCAPED: execveat")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
