"""Floods the wire and waits."""

import os
import time


def attack():
    os.set_blocking(3, False)
    try:
        while True:
            os.write(3, b"\x00" * 65536)
    except BlockingIOError:
        time.sleep(3600)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
