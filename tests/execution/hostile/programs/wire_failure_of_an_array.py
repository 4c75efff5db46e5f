"""Answers that it failed with a body that is no report but an array."""

import os
import struct
import time

import numpy as np

from evopolicy.kernel import wire


class Policy:
    def act(self, observation):
        body = wire.encode(np.zeros(3))
        os.write(3, struct.pack("<IIB", len(body), 4, 19) + body)
        time.sleep(30)


def make_policy(context):
    return Policy()
