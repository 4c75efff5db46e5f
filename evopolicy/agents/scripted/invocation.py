"""What the agents that need no provider share: a small script copied into the sandbox, and its
stream read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from evopolicy.agents.streams.stream import numbered_json_lines
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentTask, Invocation
from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript

_AGENTS = Path(__file__).parents[1]
_MAIN = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scripts.scripted.session import run
from scripts.{agent}.script import work

run(work, sys.argv[1])
"""


def script_invocation(
    task: AgentTask,
    agent: str,
    options: Mapping[str, Any],
    *,
    packages: Sequence[str] = (),
    folders: Mapping[str, Path] | None = None,
) -> Invocation:
    """Run `evopolicy.agents.<agent>.script` in the agent's sandbox. It reaches the Host as any
    agent does.

    It is copied there with `scripted/session.py` and `scripted/budget.py`, in folders as here below
    `scripts/`, and imports nothing else of EvoPolicy."""
    payload = {
        "workspace": str(task.workspace),
        "staging": str(task.staging),
        "session_command": list(task.session_command),
        "seed": task.seed,
        "options": dict(options),
    }
    scripts = [
        Path("scripted", "session.py"),
        Path("scripted", "budget.py"),
        Path(agent, "script.py"),
    ]
    files = {f"scripts/{path}": (_AGENTS / path).read_text(encoding="utf-8") for path in scripts}
    files |= {
        "main.py": _MAIN.format(agent=agent),
        **{f"scripts/{folder}__init__.py": "" for folder in ("", "scripted/", f"{agent}/")},
        "options.json": json.dumps(payload, indent=2, sort_keys=True) + "\n",
    }
    return Invocation(
        argv=(
            str(task.python),
            "-u",
            "-B",
            str(task.staging / "main.py"),
            str(task.staging / "options.json"),
        ),
        files=files,
        folders=dict(folders or {}),
        packages=tuple(packages),
    )


def package_versions(agent: str, packages: Sequence[str]) -> dict[str, str]:
    """Installed versions. Raises AgentError, with the command that mends it, for a package that is
    missing."""
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise AgentError(
                f"agent '{agent}' needs the package '{package}', which is not installed: pip "
                f"install {package}"
            ) from None
    return versions


def read_script(lines: Iterable[str]) -> Transcript:
    """The transcript of a script's JSON lines: `{"step": ..., "text": ...}`, as
    `scripted/session.py` prints them."""
    steps: list[Step] = []
    unknown: dict[str, int] = {}
    completed, error, malformed = False, "", 0
    for line, event in numbered_json_lines(lines):
        if event is None or not isinstance(event.get("step"), str):
            malformed += 1
            continue
        kind, text = event["step"], str(event.get("text", ""))
        if kind == "session":
            steps.append(_session_step(event, len(steps), line))
        elif kind in ("note", "done", "error"):
            steps.append(Step("agent", text, line=line))
        else:
            unknown[kind[:80]] = unknown.get(kind[:80], 0) + 1
        completed = kind == "done"
        error = text if kind == "error" else error
    return Transcript(
        tuple(steps),
        completed=completed and not error,
        error=error,
        error_kind="other" if error else "",
        unknown_events=unknown,
        malformed_lines=malformed,
    )


def _session_step(event: Mapping[str, Any], number: int, line: int) -> Step:
    argv = event.get("argv") if isinstance(event.get("argv"), list) else []
    result = event.get("result")
    call = ToolCall(
        id=str(number),
        name="evopolicy-session",
        arguments={"argv": argv},
        result=None if result is None else json.dumps(result, sort_keys=True),
        failed=bool(event.get("failed")),
        line=line,
        result_line=line,
    )
    submission = event.get("submission")
    return Step(
        "agent",
        calls=(call,),
        submission=submission if type(submission) is int else None,
        line=line,
    )
