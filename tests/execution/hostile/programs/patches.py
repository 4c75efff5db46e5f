"""Patches everything it finds in its process."""

import builtins
import importlib
import random
import sys

import numpy as np

if hasattr(builtins, "left_by_another") or hasattr(np, "left_by_another"):
    print("ESCAPED: state of another Episode")
builtins.left_by_another = np.left_by_another = True


def attack():
    for name in list(sys.modules):
        if name.startswith("evopolicy"):
            module = sys.modules[name]
            for key, value in list(vars(module).items()):
                if isinstance(value, bytes | int):
                    setattr(module, key, type(value)())
    random.seed(0)
    np.random.seed(0)
    importlib.invalidate_caches()
    sys.path.clear()


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
