"""Leaves files wherever it can and looks for those of other Episodes."""

import glob
import os

PLACES = [
    os.path.dirname(__file__),
    os.path.dirname(os.path.dirname(__file__)),
    os.path.dirname(os.getcwd()),
    os.path.dirname(os.path.dirname(os.getcwd())),
    os.path.dirname(os.__file__),
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run",
    "/run/lock",
    "/dev/mqueue",
    os.path.expanduser("~root"),
    "/",
]


def attack():
    for place in PLACES:
        try:
            with open(os.path.join(place, "evopolicy-hostile-mark"), "x") as file:
                file.write("x")
            print("ESCAPED: wrote to", place)
        except OSError:
            pass
        if place != os.path.dirname(__file__) and glob.glob(os.path.join(place, "*")) and "lib/python" not in place:
            print("ESCAPED: listed", place)
    if os.listdir(".") not in ([], ["mark"]):
        print("ESCAPED: found files of another")
    with open("mark", "w") as file:
        file.write("x")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
