"""Calls the session client as a subprocess and says on standard output, one JSON object a line,
what was done."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class SessionRefused(Exception):
    """The session client did not exit with 0; the text is its reason and remedy."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class CannotWork(Exception):
    """The agent itself cannot go on; the text says what to mend."""


@dataclass(frozen=True)
class SessionClient:
    """An agent's side of the Session."""

    command: Sequence[str]
    """argv of the session client."""
    workspace: Path

    def call(self, *argv: str) -> dict[str, Any]:
        """The client's JSON answer. Raises SessionRefused."""
        done = subprocess.run(
            [*self.command, *argv], cwd=self.workspace, capture_output=True, text=True, check=False
        )
        answer = _object(done.stdout)
        failed = done.returncode != 0 or answer is None
        submission = (answer or {}).get("submission")
        say(
            "session",
            argv=list(argv),
            result=answer,
            failed=failed,
            submission=submission.get("id")
            if argv[0] == "submit" and isinstance(submission, dict)
            else None,
        )
        if failed or answer is None:
            error = (answer or {}).get("error", {})
            text = (
                done.stderr.strip()
                or f"the session client exited with {done.returncode} and said nothing"
            )
            raise SessionRefused(str(error.get("code", "")), text)
        return answer

    def status(self) -> dict[str, Any]:
        """What stands, once nothing is being evaluated any more."""
        return self._settle(self.call("status"))

    def submit(self, selector: str, folder: str = "program") -> dict[str, Any]:
        """Submit and wait. The answer's `submission` is published (with a score) or failed."""
        return self._settle(self.call("submit", folder, "--episodes", selector))

    def finish(self, candidates: Sequence[int] = ()) -> None:
        """End the Session, naming `candidates` best first, unless it has ended by itself."""
        if self.call("status").get("state") != "finished":
            self.call("finish", *(str(number) for number in candidates))

    def _settle(self, answer: dict[str, Any]) -> dict[str, Any]:
        pause = 0.0
        while (answer.get("submission") or {}).get("status") == "running":
            time.sleep(pause)
            pause = min(0.5, pause + 0.05)  # a Host that answers at once is not asked without end
            answer = self.call("wait")
        return answer


def say(step: str, text: str = "", **more: Any) -> None:
    """Print one line of the agent's stream."""
    print(json.dumps({"step": step, **({"text": text} if text else {}), **more}), flush=True)


def run(work: Callable[[SessionClient, dict[str, Any], int], None], options: str) -> None:
    """Do `work(session, options, seed)` as the file `options` says and exit: 0 when done, 1 when it
    could not."""
    payload = json.loads(Path(options).read_text(encoding="utf-8"))
    session = SessionClient(payload["session_command"], Path(payload["workspace"]))
    try:
        work(session, {**payload["options"], "staging": payload["staging"]}, payload["seed"])
    except (SessionRefused, CannotWork) as error:
        say("error", str(error))
        print(error, file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        say("error", f"{type(error).__name__}: {error}")
        raise
    say("done")


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
