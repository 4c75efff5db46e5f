"""Sends itself the signal by which the kernel ends who used too much CPU time."""

import os
import signal


class Policy:
    def act(self, observation):
        os.kill(os.getpid(), signal.SIGXCPU)
        return 0


def make_policy(context):
    return Policy()
