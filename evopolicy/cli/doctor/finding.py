"""What `evopolicy doctor` finds, and how it asks other programs: in processes of their own, for a
limited time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evopolicy.sweeps.processes import kill_tree

Verdict = Literal["ok", "warn", "no", "info"]


@dataclass(frozen=True)
class Finding:
    """One line of what doctor says."""

    name: str
    verdict: Verdict
    """'ok', 'warn' (it works, with a limit), 'no' (it is missing), or 'info' (worth knowing,
    neither good nor bad)."""
    detail: str
    remedy: str = ""
    """How to get it."""


@dataclass(frozen=True)
class Answer:
    """What a program said."""

    code: int | None
    """Exit code; None where it did not end in time or could not be started."""
    out: str
    error: str
    """Standard error, or why there is no answer."""

    @property
    def last_word(self) -> str:
        """The line a person should see of a program that failed."""
        lines = [line.strip() for line in (self.error or self.out).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


def ask(
    argv: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    told: str = "",
) -> Answer:
    """Run `argv` with `told` on its standard input, for `seconds` at most; then it and what it
    started are killed."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    except OSError as error:
        return Answer(None, "", error.strerror or str(error))
    with process:
        try:
            out, said = process.communicate(told, seconds)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            return Answer(None, "", f"did not answer within {seconds:g} s")
        except BaseException:
            kill_tree(process.pid)
            raise
    return Answer(process.returncode, out, said)
