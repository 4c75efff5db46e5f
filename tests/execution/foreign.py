"""What code that nobody here wrote may do, called in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evopolicy.kernel.errors import ConfigError

Tell = Callable[..., None]


def answers(_tell: Tell, **arguments: Any) -> Any:
    print("noise")
    return {
        "given": arguments,
        "folder": str(Path.cwd()),
        "terminal": sys.stdin.isatty(),
        "session": os.getsid(0),
    }


def refuses(_tell: Tell) -> None:
    raise ConfigError("it is the wrong one")


def raises(tell: Tell) -> None:
    tell("while it was made")
    raise RuntimeError("no simulator")


def exits(tell: Tell) -> None:
    tell("while it was made")
    sys.exit(3)


def exits_at_once(tell: Tell) -> None:
    tell("while it was made")
    os._exit(7)


def aborts(tell: Tell) -> None:
    tell("in step 2")
    print("the simulator gives up", file=sys.stderr, flush=True)
    os.abort()


def hangs(tell: Tell, mark: str) -> None:
    tell("in close")
    Path(mark).touch()
    time.sleep(3600)


def answers_too_much(_tell: Tell) -> str:
    return "x" * (1 << 21)


def moves(_tell: Tell, folder: str) -> str:
    os.chdir(folder)
    Path("written").touch()
    return str(Path.cwd())


def leaves_a_child(_tell: Tell) -> int:
    """One that has fled to a session of its own and would outlive its parent by an hour."""
    return subprocess.Popen(["sleep", "3600"], start_new_session=True).pid


def writes_what_is_no_answer(_tell: Tell) -> None:
    for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir() if int(entry.name) > 2]:
        try:
            os.write(fd, b"hello\n")
        except OSError:
            continue
