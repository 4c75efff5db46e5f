"""Attending an agent's process: from its start to the end of everything it started, within its limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicy.kernel.ports import AgentIntegration, AgentLauncher, AgentLimits, AgentProcess, AgentSite
from evopolicy.kernel.session import Session
from evopolicy.kernel.transcript import Transcript, Usage

POLL_SECONDS = 0.05
PROVIDER_ERRORS = frozenset({"rate_limit", "overload", "network"})
MAX_LINE = 64 * 2**20


@dataclass(frozen=True)
class Attendance:
    """What starts an agent and what ends it."""

    agent: AgentIntegration
    launcher: AgentLauncher
    workspace: Path
    logs: Path
    """One folder per attempt is made under it."""
    prompt: str
    seed: int
    limits: AgentLimits


@dataclass(frozen=True)
class AgentEnd:
    """How one attempt ended."""

    reason: str
    """'finished', 'exited', 'crashed', 'wall_time', 'idle', 'tokens', 'cost', 'provider', 'host_failed'."""
    exit_code: int | None
    """None where the Host had to stop it."""
    thinking_seconds: float
    evaluating_seconds: float
    """Time its own calls waited for Evaluations."""
    error: str
    """The provider's own words, where it failed."""
    usage: Usage
    steps: int
    """Messages in its transcript."""


def attend(attendance: Attendance, session: Session, socket: Path, attempt: int, thought: float) -> AgentEnd:
    """Start the agent, wait until it has ended or a limit is met, end everything it started.

    `thought` is the time earlier attempts have used of its wall time. Never waits for an Evaluation in flight.
    """
    logs = attempt_logs(attendance.logs, attempt)
    site = AgentSite(attendance.workspace, socket, logs, attendance.prompt, attendance.seed, attempt > 1)
    started, blocked = time.monotonic(), session.blocked_seconds
    process = attendance.launcher.start(site, attendance.agent.invoke)
    try:
        reason, code = _watch(process, session, attendance.limits, started, blocked, thought)
    finally:
        process.stop()
    evaluating = session.blocked_seconds - blocked
    transcript = read_transcript(attendance.agent, logs)
    return AgentEnd(
        _judge(reason, transcript),
        code,
        round(time.monotonic() - started - evaluating, 3),
        round(evaluating, 3),
        transcript.error,
        transcript.usage,
        len(transcript.steps),
    )


def attempt_logs(logs: Path, attempt: int) -> Path:
    return logs / f"attempt-{attempt}"


def read_transcript(agent: AgentIntegration, logs: Path) -> Transcript:
    """What an attempt printed, as far as it is there. A reader that fails costs the transcript, never the Run."""
    try:
        return agent.read(_lines(logs / "stdout.log"))
    except Exception as error:
        return Transcript(error=f"the transcript cannot be read: {type(error).__name__}: {error}", error_kind="other")


def _watch(
    process: AgentProcess, session: Session, limits: AgentLimits, started: float, blocked: float, thought: float
) -> tuple[str, int | None]:
    closed: float | None = None
    while True:
        code = process.wait(POLL_SECONDS)
        now = time.monotonic()
        if code is not None:
            return "finished" if session.finished else "exited" if code == 0 else "crashed", code
        if session.failure is not None:
            return "host_failed", None
        if session.finished:
            closed = closed or now
            if now - closed > limits.finish_grace_seconds:
                return "finished", None
            continue
        thinking = thought + now - started - (session.blocked_seconds - blocked)
        if limits.wall_seconds is not None and thinking > limits.wall_seconds:
            return "wall_time", None
        if _idle(process, session, limits, now):
            return "idle", None


def _idle(process: AgentProcess, session: Session, limits: AgentLimits, now: float) -> bool:
    if limits.idle_seconds is None or session.running:
        return False
    return now - max(process.last_output(), session.last_call) > limits.idle_seconds


def _judge(reason: str, transcript: Transcript) -> str:
    """An agent that left before it finished because its provider failed is not to blame."""
    if reason in ("exited", "crashed") and transcript.error_kind in PROVIDER_ERRORS:
        return "provider"
    return reason


def _lines(path: Path) -> Iterator[str]:
    """The lines an agent printed, undecodable bytes replaced, none longer than MAX_LINE characters."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        while line := file.readline(MAX_LINE):
            yield line
