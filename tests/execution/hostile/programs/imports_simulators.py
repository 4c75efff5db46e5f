"""Imports what would let it look into the Environment."""

import importlib
import sys

MODULES = (
    "gymnasium mujoco evopolicy_classic_control evopolicy_mujoco mlflow pandas pip hydra evopolicy.api "
    "evopolicy.build evopolicy.execution.engine.executor evopolicy.kernel.ports.pool tests.execution.toys"
).split()


def attack():
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        except OSError:
            continue
        print("ESCAPED: imported", name)
    if {"gymnasium", "mujoco", "tests.execution.toys"} & set(sys.modules):
        print("ESCAPED: a simulator is loaded")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
