"""Reads what is not its own."""

import os
import sys

import numpy as np

PACKAGES = os.path.dirname(os.path.dirname(os.path.realpath(np.__file__)))
NAMES = [
    "/etc/passwd",
    "/etc/hostname",
    "/etc/shadow",
    "/proc/self/maps",
    "/proc/self/environ",
    "/proc/1/cmdline",
    f"/proc/{os.getppid()}/maps",
    "/proc/mounts",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/dev/mem",
    "/root/.bashrc",
    os.path.join(os.path.dirname(os.__file__), "site-packages/pip/__init__.py"),
    os.path.join(PACKAGES, "gymnasium/__init__.py"),
    os.path.join(PACKAGES, "msgspec/__init__.py"),
]
for module in list(sys.modules.values()):
    file = getattr(module, "__file__", None) or ""
    if "evopolicy" in getattr(module, "__name__", "") and file:
        NAMES += [file, os.path.realpath(file)]
try:
    with open(os.path.join(os.path.dirname(__file__), "secrets.txt")) as secrets:
        NAMES += secrets.read().split()
except OSError:
    pass


def attack():
    for name in NAMES:
        try:
            with open(name, "rb") as file:
                file.read(1)
        except OSError:
            continue
        print("ESCAPED: read", name)
    for place in ("/", "/proc", "/tmp", "/home", PACKAGES, os.path.dirname(os.getcwd())):
        try:
            os.listdir(place)
        except OSError:
            continue
        print("ESCAPED: listed", place)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
