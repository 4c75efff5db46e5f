"""Looks at what it was given beside its Program."""

import os
import sys


def attack():
    for fd in range(4, 256):
        try:
            os.fstat(fd)
        except OSError:
            continue
        print("ESCAPED: descriptor", fd)
    known = {"HOME", "TMPDIR", "PATH", "TZ", "LC_ALL", "PYTHONHASHSEED"}
    for name in os.environ:
        if name not in known and not name.endswith("_THREADS"):
            print("ESCAPED: variable", name)
    if os.environ["HOME"] != os.getcwd() or len(sys.argv) != 1:
        print("ESCAPED: home or arguments")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
