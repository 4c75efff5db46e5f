"""Lets other threads use the time."""

import threading
import time


def spin():
    while True:
        pass


def attack():
    for _ in range(4):
        threading.Thread(target=spin, daemon=True).start()
    time.sleep(60)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
