"""A core for each worker: it and its Policies take turns, so they are woken fastest where they last
ran."""

from __future__ import annotations

import contextlib
import os
import socket


def settle() -> socket.socket:
    """Keep this process and all it starts on one core that no other worker of this user keeps to;
    close to give it up.

    Where every core is kept the process stays free to move. The claim is a name in the kernel's own
    table, which forgets it when the process ends, however it ends."""
    with contextlib.suppress(OSError):
        # Woken processes wait for the running one to finish its turn: a worker then finds several
        # answers at once.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    for core in sorted(os.sched_getaffinity(0)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0evopolicy-core-{os.geteuid()}-{core}")
            os.sched_setaffinity(0, {core})
            return claim
        except OSError:
            claim.close()
    return socket.socket(socket.AF_UNIX)
