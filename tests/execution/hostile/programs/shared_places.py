"""Passes state on by whatever place Episodes might share."""

import os

import numpy as np

PLACES = ["/dev/shm", "/tmp", "/var/tmp", "/run", "/code", "/scratch", "/evopolicy", "/dev", "/dev/pts", "/dev/mqueue"]
PLACES += [os.path.dirname(np.__file__), os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(os.getcwd()))]
PLACES += [f"{os.path.dirname(os.__file__)}/site-packages", os.path.dirname(os.getcwd()), os.path.dirname(__file__)]


def attack():
    for place in PLACES:
        path = os.path.join(place, "evopolicy-hostile-state")
        if os.path.lexists(path):
            print("ESCAPED: found state at", place)
        for make in (lambda: os.mkdir(path), lambda: os.symlink("state", path), lambda: os.mkfifo(path)):
            try:
                make()
            except OSError:
                continue
            print("ESCAPED: left state at", place)
    if os.listdir("."):
        print("ESCAPED: found state in its scratch folder")
    os.makedirs("state/of/this")


def make_policy(context):
    return Hostile()


class Hostile:
    begun = False

    def act(self, observation):
        if not self.begun:
            self.begun = True
            attack()
        return 1
