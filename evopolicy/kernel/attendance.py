"""Attending an agent's process: from its start to the end of everything it started, within its limits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.ports import AgentIntegration, AgentLauncher, AgentLimits, AgentProcess, AgentSite
from evopolicy.kernel.session import Session
from evopolicy.kernel.state import RunState, add_usage
from evopolicy.kernel.transcript import TOKENS, Transcript, Usage

POLL_SECONDS = 0.05
PROVIDER_ERRORS = frozenset({"rate_limit", "overload", "network"})
MAX_LINE = 64 * 2**20
USAGE_SECONDS = 2.0
"""How often a growing stream is read for what the provider counts, where a limit is set on it."""


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


def attend(attendance: Attendance, session: Session, socket: Path, attempt: int, before: RunState) -> AgentEnd:
    """Start the agent, wait until it has ended or a limit is met, end everything it started.

    `before` is the Run as earlier attempts left it: what they used counts. Never waits for an Evaluation in flight.
    """
    logs = attempt_logs(attendance.logs, attempt)
    site = AgentSite(attendance.workspace, socket, logs, attendance.prompt, attendance.seed, attempt > 1)
    started, blocked = time.monotonic(), session.blocked_seconds
    spending = _Spending(attendance.agent, attendance.limits, logs, before.usage)
    process = attendance.launcher.start(site, attendance.agent.invoke)
    try:
        thought_from = started - before.thinking_seconds
        reason, code = _watch(process, session, attendance.limits, spending, thought_from, blocked)
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
    process: AgentProcess,
    session: Session,
    limits: AgentLimits,
    spending: _Spending,
    thought_from: float,
    blocked: float,
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
        thinking = now - thought_from - (session.blocked_seconds - blocked)
        if limits.wall_seconds is not None and thinking > limits.wall_seconds:
            return "wall_time", None
        if over := spending.over(now):
            return over, None
        if _idle(process, session, limits, now):
            return "idle", None


class _Spending:
    """What the provider has counted over all attempts, against the limits on tokens and cost."""

    def __init__(self, agent: AgentIntegration, limits: AgentLimits, logs: Path, before: Mapping[str, Any]) -> None:
        self._agent = agent
        self._limits = limits
        self._logs = logs
        self._before = before
        self._size = 0
        self._next = 0.0

    def over(self, now: float) -> str:
        """'tokens' or 'cost' where that limit is passed, else ''. Reads the stream only where it grew."""
        limits = self._limits
        if (limits.tokens is None and limits.cost_usd is None) or now < self._next:
            return ""
        try:
            size = (self._logs / "stdout.log").stat().st_size
        except FileNotFoundError:
            return ""
        if size == self._size:
            return ""
        self._size = size
        usage = add_usage(self._before, msgspec.to_builtins(read_transcript(self._agent, self._logs).usage))
        ended = time.monotonic()
        self._next = ended + max(USAGE_SECONDS, 10 * (ended - now))  # a long stream takes a tenth of the time at most
        if limits.tokens is not None and sum(usage.get(kind) or 0 for kind in TOKENS) > limits.tokens:
            return "tokens"
        return "cost" if limits.cost_usd is not None and (usage.get("cost_usd") or 0.0) > limits.cost_usd else ""


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
