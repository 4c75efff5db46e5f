"""Builds command lines of bubblewrap (`bwrap`): what the level of that name adds to what Landlock and seccomp do.

The environment is the one `bwrap` itself is started with: values on a command line are seen by the whole machine.
"""

from __future__ import annotations

import shutil
from pathlib import Path


def find() -> Path | None:
    """The `bwrap` of this machine's PATH."""
    found = shutil.which("bwrap")
    return Path(found) if found else None


def base(program: str, *, network: bool = False) -> list[str]:
    """argv of `program` (a `bwrap`) up to its mounts: every namespace its own, no capability, an empty root, a `/dev`.

    With `network` the machine's network stays. Ends with whoever starts it; add mounts, then the command.
    """
    spaces = ["user", "pid", "ipc", "uts", "cgroup-try", *([] if network else ["net"])]
    unshared = [f"--unshare-{space}" for space in spaces]
    return [
        program,
        *unshared,
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--hostname",
        "sandbox",
        "--dev",
        "/dev",
    ]
