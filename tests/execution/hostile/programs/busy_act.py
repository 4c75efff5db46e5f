"""Never answers, and ignores every signal it may."""

import contextlib
import signal


def attack():
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
