"""Asks whether files of the machine exist."""

import os

NAMES = ["/etc/passwd", "/etc/hostname", "/home", "/var/log", "/tmp", "/bin/sh", "/usr/bin/env", "/sys", "/proc"]
with open(os.path.join(os.path.dirname(__file__), "secrets.txt")) as secrets:
    NAMES += secrets.read().split()


def attack():
    for name in NAMES:
        if os.path.lexists(name):
            print("ESCAPED: knows of", name)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
