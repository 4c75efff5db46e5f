"""Looks for processes that are not its own."""

import os


def attack():
    for pid in (1, os.getppid(), os.getpid(), "self"):
        if os.path.exists(f"/proc/{pid}"):
            print("ESCAPED: knows of process", pid)
    with open(os.path.join(os.path.dirname(__file__), "host.txt")) as file:
        host = int(file.read())
    if abs(os.getppid() - host) < 5_000 and host > 10_000:
        print("ESCAPED: has the process numbers of the machine")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
