"""Passes state on in the environment of the process, and of those it comes from."""

import ctypes
import os

if "EVOPOLICY_HOSTILE" in os.environ or ctypes.CDLL(None).getenv(b"EVOPOLICY_HOSTILE"):
    print("ESCAPED: found state of another Episode")


def attack():
    os.environ["EVOPOLICY_HOSTILE"] = os.environ["TZ"] = os.environ["PATH"] = "state"
    ctypes.CDLL(None).setenv(b"EVOPOLICY_HOSTILE", b"state", 1)
    for process in (os.getppid(), 1, "self"):
        try:
            with open(f"/proc/{process}/environ", "r+b") as file:
                file.write(b"EVOPOLICY_HOSTILE=state")
        except OSError:
            continue
        print("ESCAPED: wrote to the environment of", process)


if os.environ.get("TZ") == "state" or os.environ.get("PATH") == "state":
    print("ESCAPED: found changed variables")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
