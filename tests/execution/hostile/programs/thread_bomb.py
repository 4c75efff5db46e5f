"""Starts threads until there can be no more."""

import threading
import time


def attack():
    try:
        for _ in range(100_000):
            threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    except (RuntimeError, MemoryError):
        return
    print("ESCAPED: unlimited threads")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
