"""Answers that it failed with a message so deep that it cannot be written out."""

import os
import struct
import time

import numpy as np

from evopolicy.kernel import wire

DEPTH = 980


class Policy:
    def act(self, observation):
        fields = [b"\x84", wire.encode("kind"), wire.encode("exception"), wire.encode("message")]
        fields += [b"\x91" * DEPTH, wire.encode(np.zeros(1)), wire.encode("traceback"), wire.encode("")]
        body = b"".join([*fields, wire.encode("limit"), wire.encode(None)])
        os.write(3, struct.pack("<IIB", len(body), 4, 19) + body)
        time.sleep(30)


def make_policy(context):
    return Policy()
