"""One attempt of an agent: its process from its start to the end of everything it started, within
its limits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.clock import AgentClock
from evopolicy.kernel.errors import EvoPolicyError
from evopolicy.kernel.ports.protocols import (
    AgentIntegration,
    AgentLauncher,
    AgentLimits,
    AgentProcess,
    AgentSite,
)
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import (
    TOKENS,
    ErrorKind,
    Transcript,
    Usage,
    bounded,
    tool_calls,
    turns,
)
from evopolicy.kernel.run.endings import Ending, judged, words
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable
from evopolicy.kernel.run.stream import STDOUT, read_transcript
from evopolicy.kernel.session.failures import FINISHED
from evopolicy.kernel.session.session import Session
from evopolicy.kernel.session.state import Ledger, add_usage

POLL_SECONDS = 0.05
USAGE_SECONDS = 2.0
"""How often a growing stream is read for what the provider counts, where a limit is set on it."""
UNTOLD_ANSWERS = 2
"""That a stream which was cut may not tell of any more: the last one, and one of a side call."""
EXPLAINED_SHARE = 0.02
"""Of all tokens: providers count a session's own side calls, and round, differently from their
programs."""


@dataclass(frozen=True)
class AttemptSetup:
    """What starts an agent and what ends it."""

    agent: AgentIntegration
    launcher: AgentLauncher
    workspace: Path
    logs: Path
    """One folder per attempt is made under it, and the agent's `home/` while it is needed."""
    prompt: str
    seed: int
    limits: AgentLimits
    prices: PriceTable = NO_PRICES


@dataclass(frozen=True)
class AgentEnd:
    """How one attempt ended."""

    reason: str
    """'finished', 'exited', 'crashed', 'wall_time', 'idle', 'tokens', 'cost', 'requests',
    'context', 'refusal', 'authentication', 'unanswered', 'provider', 'host_failed'."""
    exit_code: int | None
    """None where the Host had to stop it."""
    thinking_seconds: float
    waiting_seconds: float
    """Time its provider failed, which is no thinking."""
    evaluating_seconds: float
    """Time its own calls waited for Evaluations."""
    error: str
    """The provider's own words, where it failed."""
    error_kind: ErrorKind
    usage: Usage
    """As its stream says, else as the Host's proxy counted."""
    steps: int
    """Messages in its transcript."""
    turns: int
    """Of them, the agent's own, at most the answers its proxy passed on; where its stream tells of
    none, those."""
    tool_calls: int
    session_id: str
    """The provider's session, to be resumed."""
    unexplained_tokens: int | None
    """Tokens the Host's proxy passed on that the stream does not tell of; None where it cannot be
    known."""


class NotStarted(Exception):
    """No agent was started; its cause says why."""


def run_attempt(
    setup: AttemptSetup, session: Session, socket: Path, attempt: int, ledger: Ledger
) -> AgentEnd:
    """Start the agent, wait until it has ended or a limit is met, end everything it started.

    `ledger` tells the Run as earlier attempts left it: what they used counts. Never waits for an
    Evaluation in flight.

    Raises NotStarted where there is no agent after all, whatever the reason.
    """
    logs, before = attempt_logs(setup.logs, attempt), ledger.state
    site = AgentSite(
        setup.workspace,
        socket,
        logs,
        setup.prompt,
        setup.seed,
        resumed=attempt > 1,
        session_id=before.agent_session,
        home=setup.logs / HOME,
    )
    with session.agent_clock() as clock:
        try:
            process = setup.launcher.start(site, setup.agent.invoke)
        except (EvoPolicyError, OSError) as error:
            raise NotStarted from error
        spending = _Spending(setup, logs, before.usage, process)
        try:
            spent = before.thinking_seconds + before.waiting_seconds
            reason, code = _watch(process, session, setup.limits, spending, spent, clock)
        finally:
            process.stop()
        used = clock.reading()
    end = Ending(
        reason,
        code,
        read_transcript(setup.agent, logs),
        process.proxy_usage(),
        setup.agent.provider,
        bool(before.usage.get("output_tokens")),
        len(ledger.state.submissions) > len(before.submissions),
        setup.limits.wall_seconds,
        logs,
    )
    return _agent_end(end, setup, used)


def _agent_end(end: Ending, setup: AttemptSetup, used: Mapping[str, float]) -> AgentEnd:
    transcript, proxied, reason = end.transcript, end.proxied, judged(end)
    waited = waited_of(used["thinking"], proxied)
    return AgentEnd(
        reason,
        end.exit_code,
        round(used["thinking"] - waited, 3),
        round(waited, 3),
        used["evaluating"],
        words(end, reason),
        end.kind,
        setup.prices.estimated(joined_usage(transcript.usage, proxied), setup.agent.identity.model),
        len(transcript.steps),
        counted_turns(transcript, proxied),
        tool_calls(transcript),
        transcript.session_id,
        unexplained(transcript, proxied),
    )


def waited_of(thinking: float, proxied: ProxyUsage | None) -> float:
    """Of the seconds an agent was at work, those in which its provider failed."""
    return min(proxied.waited_seconds if proxied else 0.0, thinking)


def counted_turns(transcript: Transcript, proxied: ProxyUsage | None) -> int:
    """Never more than answers of its model: a stream that tells several calls of one answer apart
    has more messages."""
    answers = (proxied.answers if proxied else None) or 0
    return min(turns(transcript) or answers, answers or turns(transcript))


HOME = "home"


def attempt_logs(logs: Path, attempt: int) -> Path:
    return logs / f"attempt-{attempt}"


def joined_usage(reported: Usage, proxied: ProxyUsage | None) -> Usage:
    """What the Host's proxy counted where the provider told all of it, else what the stream
    reports, else its estimate.

    A stream leaves out what its program never got: answers that broke off, requests of the agent's
    own; and one that goes on with a session may count what was before. The cost is the program's
    figure where it says one for the same tokens, or for fewer."""
    if proxied is None or proxied.usage.output_tokens is None:
        return reported
    proxied = replace(proxied, usage=bounded(proxied.usage))
    counted, streamed = (
        all_tokens(msgspec.to_builtins(usage)) for usage in (proxied.usage, reported)
    )
    by_stream = streamed == counted or (proxied.estimated and reported.output_tokens)
    merged = msgspec.to_builtins(reported if by_stream else proxied.usage)
    merged["tokens_are_estimate"] = bool(
        merged["tokens_are_estimate"] or (proxied.estimated and not by_stream)
    )
    if reported.cost_usd is not None and streamed <= counted:
        merged |= {
            "cost_usd": reported.cost_usd,
            "cost_is_estimate": reported.cost_is_estimate or streamed < counted,
        }
    requests = reported.requests if proxied.usage.requests is None else proxied.usage.requests
    return msgspec.convert({**merged, "requests": requests}, Usage)


def unexplained(transcript: Transcript, proxied: ProxyUsage | None) -> int | None:
    """Tokens of requests that `transcript` does not tell of; None where it cannot be known.

    By the ids of answers where the stream names them, else by the totals where it ends with them,
    else by how many answers there were beside how many messages and calls: an agent that ends
    itself before its totals hides nothing."""
    if proxied is None or proxied.usage.output_tokens is None:
        return None  # what passes through a tunnel is not counted
    more = all_tokens(msgspec.to_builtins(proxied.usage)) - all_tokens(
        msgspec.to_builtins(transcript.usage)
    )
    totals_agree = transcript.completed and transcript.usage.output_tokens is not None and more <= 0
    if (
        transcript.response_ids and not totals_agree
    ):  # a broken answer, or a failed compaction, has an id of its own
        streamed = set(transcript.response_ids)
        return sum(
            tokens for response, tokens in proxied.responses.items() if response not in streamed
        )
    if not transcript.completed or transcript.usage.output_tokens is None or proxied.estimated:
        answers, known = len(proxied.responses), turns(transcript) + tool_calls(transcript)
        spare = answers - known
        if spare <= UNTOLD_ANSWERS:
            return None
        return all_tokens(msgspec.to_builtins(proxied.usage)) * spare // answers
    return max(0, more)


def is_unexplained(tokens: int | None, usage: Mapping[str, Any]) -> bool:
    """Whether so many tokens beside a Run's `usage` are more than counting differently can be."""
    return bool(tokens) and tokens > EXPLAINED_SHARE * all_tokens(usage)  # type: ignore[operator]


def all_tokens(usage: Mapping[str, Any]) -> int:
    return sum(usage.get(kind) or 0 for kind in TOKENS)


def _watch(
    process: AgentProcess,
    session: Session,
    limits: AgentLimits,
    spending: _Spending,
    thought_before: float,
    clock: AgentClock,
) -> tuple[str, int | None]:
    closed: float | None = None
    while True:
        code = process.wait(POLL_SECONDS)
        now = time.monotonic()
        if code is not None:
            return FINISHED if session.finished else "exited" if code == 0 else "crashed", code
        if session.failure is not None:
            return "host_failed", None
        if session.finished:
            closed = closed or now
            if now - closed > limits.finish_grace_seconds:
                return FINISHED, None
            continue
        if (
            limits.wall_seconds is not None
            and thought_before + clock.thinking > limits.wall_seconds
        ):
            return "wall_time", None
        if over := spending.over(now):
            return over, None
        if _idle(process, session, limits, now):
            return "idle", None


class _Spending:
    """What the provider has counted over all attempts, against the limits on requests, tokens and
    cost."""

    def __init__(
        self, setup: AttemptSetup, logs: Path, before: Mapping[str, Any], process: AgentProcess
    ) -> None:
        self._setup = setup
        self._logs = logs
        self._before = before
        self._process = process
        self._seen: tuple[int, int] = (0, 0)
        self._next = 0.0

    def over(self, now: float) -> str:
        """'requests', 'tokens' or 'cost' where that limit is passed, else ''. Reads only what
        grew."""
        limits = self._setup.limits
        if (limits.requests, limits.tokens, limits.cost_usd) == (
            None,
            None,
            None,
        ) or now < self._next:
            return ""
        proxied, size = self._process.proxy_usage(), _size(self._logs / STDOUT)
        if proxied is not None and proxied.over:
            return proxied.over
        seen = (size, (proxied.usage.requests or 0) if proxied else 0)
        if seen == self._seen:
            return ""
        self._seen = seen
        usage = self._so_far(proxied)
        ended = time.monotonic()
        self._next = ended + max(
            USAGE_SECONDS, 10 * (ended - now)
        )  # a long stream takes a tenth of the time at most
        if limits.tokens is not None and all_tokens(usage) > limits.tokens:
            return "tokens"
        return (
            "cost"
            if limits.cost_usd is not None and (usage.get("cost_usd") or 0.0) > limits.cost_usd
            else ""
        )

    def _so_far(self, proxied: ProxyUsage | None) -> dict[str, Any]:
        """Of all attempts: of this one, what its stream says or its proxy counted, whichever is
        more."""
        limits, prices = self._setup.limits, self._setup.prices
        reported = Usage()
        if limits.tokens is not None or limits.cost_usd is not None:
            reported = read_transcript(self._setup.agent, self._logs).usage
        ways = [reported] if proxied is None else [reported, proxied.usage]
        model = self._setup.agent.identity.model
        counted = [msgspec.to_builtins(prices.estimated(way, model)) for way in ways]
        most = max(counted, key=all_tokens)
        costs = [usage["cost_usd"] for usage in counted if usage["cost_usd"] is not None]
        requests = proxied.usage.requests if proxied else reported.requests
        return add_usage(
            self._before, {**most, "cost_usd": max(costs, default=None), "requests": requests}
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _idle(process: AgentProcess, session: Session, limits: AgentLimits, now: float) -> bool:
    if limits.idle_seconds is None or session.running:
        return False
    return now - max(process.last_output(), session.last_call) > limits.idle_seconds
