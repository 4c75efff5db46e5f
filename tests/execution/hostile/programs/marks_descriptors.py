"""Marks the descriptors it has been given, whose flags are those of whoever else has the same open file."""

import fcntl
import os


def attack():
    flags = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in range(3)]
    for fd, before in enumerate(flags):
        if before & (os.O_NONBLOCK | os.O_APPEND):
            print("ESCAPED: another Episode's mark on descriptor", fd)
        fcntl.fcntl(fd, fcntl.F_SETFL, before | os.O_NONBLOCK | os.O_APPEND)


def make_policy(context):
    return Hostile()


class Hostile:
    begun = False

    def act(self, observation):
        if not self.begun:
            self.begun = True
            attack()
        return 1
