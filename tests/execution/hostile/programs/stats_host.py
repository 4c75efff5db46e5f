"""Asks whether files of the machine exist."""

import os
import sys

NAMES = ["/etc/passwd", "/etc/hostname", "/home", "/var/log", "/tmp", "/bin/sh", "/usr/bin/env", "/sys", "/proc"]
with open(os.path.join(os.path.dirname(__file__), "secrets.txt")) as secrets:
    NAMES += secrets.read().split()


def attack():
    shown = [os.path.realpath(place) for entry in sys.path if os.path.isdir(entry) for place in (entry, *_links(entry))]
    for name in NAMES:
        # A folder on the way to Python or to a package is there, whatever it is called.
        if os.path.lexists(name) and not any(place.startswith(f"{name}/") for place in shown):
            print("ESCAPED: knows of", name)


def _links(folder):
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        return []


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
