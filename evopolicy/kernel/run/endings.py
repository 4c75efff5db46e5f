"""How an attempt of an agent's ended: by its exit, its stream, and what the Host's proxy saw of its
provider.

What an agent could do is a score; what kept it from trying never is. What the proxy refused or its
provider answered is known to the Host, so that decides before the words of the agent's program,
which takes one for the other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from evopolicy.kernel.ports.protocols import Provider
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import ErrorKind, Transcript, tool_calls
from evopolicy.kernel.session.failures import AUTHENTICATION, FINISHED, PROVIDER, UNANSWERED

PROVIDER_ERRORS = frozenset({"rate_limit", "overload", "network"})
WAITED_SHARE = 0.1
"""Of the wall time: a provider that has failed for so long of it is not the agent's doing."""
_STDERR_BYTES = 65_536
_BEGINS = re.compile(r"(?i)\W*(error|unknown|invalid|unexpected|fatal|cannot)\b")
"""How a line begins that says why a program ends, among a page of help."""
_TELLING = re.compile(
    r"error|unknown|invalid|unexpected|cannot|can't|not found|no such|fail|denied|refus",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Ending:
    """All that is known of an attempt once nothing of it runs."""

    reason: str
    """What ended it, as the Host saw it."""
    exit_code: int | None
    transcript: Transcript
    proxied: ProxyUsage | None
    provider: Provider | None
    """None: the agent asks no model."""
    answered_before: bool
    """Whether an earlier attempt of the Run was answered."""
    submitted: bool
    """Whether this one has made a Submission."""
    wall_seconds: float | None
    logs: Path

    @property
    def seen(self) -> ProxyUsage | None:
        """What the proxy has read of its requests; None where they passed by unread, or there is
        none."""
        return (
            self.proxied if self.proxied is not None and self.proxied.answers is not None else None
        )

    @property
    def kind(self) -> ErrorKind:
        """Why its provider did not answer: as the proxy saw it, before what its program makes of
        that."""
        kind, trouble = self.transcript.error_kind, self.proxied.trouble if self.proxied else ""
        if kind in ("context", "refusal"):
            return kind
        if (
            trouble
            and not self.transcript.completed
            and (self.seen is not None or kind in ("", "other"))
        ):
            return trouble
        return "other" if self.seen is not None and kind == "authentication" else kind

    @property
    def unheard(self) -> bool:
        """Whether its model said nothing at all."""
        if (
            self.provider is None
            or self.submitted
            or tool_calls(self.transcript)
            or self.kind == "refusal"
        ):
            return False
        if self.seen is not None:
            return self.seen.answers == 0
        exit_tells = self.transcript.completed is None and self.reason == "exited"
        return not (self.transcript.completed or exit_tells or self.transcript.usage.output_tokens)


def judged(end: Ending) -> str:
    """The reason it ended with, a word of `MEANINGS`."""
    if end.reason in (FINISHED, "host_failed"):
        return end.reason
    failing = end.seen.trouble if end.seen else ""
    over = end.proxied.over if end.proxied else ""
    if over and (end.answered_before or not end.unheard) and failing not in PROVIDER_ERRORS:
        return over
    if end.unheard:
        return _unheard(end)
    if end.reason == "wall_time":
        return _failed(end) if _failed_long(end) else end.reason
    if end.reason not in ("exited", "crashed", "idle"):
        return end.reason
    if failed := _failed(end):
        return failed
    if end.kind in ("context", "refusal"):
        return end.kind
    if end.transcript.error and not end.transcript.completed and failing == "other":
        return UNANSWERED
    return "crashed" if end.reason == "exited" and end.transcript.completed is False else end.reason


def _failed(end: Ending) -> str:
    """'' where its provider did not."""
    return (
        PROVIDER
        if end.kind in PROVIDER_ERRORS
        else AUTHENTICATION
        if end.kind == "authentication"
        else ""
    )


def _unheard(end: Ending) -> str:
    trouble = end.seen.trouble if end.seen else ""
    asked = end.seen is None or bool(end.seen.usage.requests)
    if not asked:
        return UNANSWERED  # whatever its program takes that for
    silent = end.seen is not None and not trouble
    if trouble in PROVIDER_ERRORS or silent:
        return PROVIDER
    if trouble == "authentication":
        return AUTHENTICATION
    return _failed(end) or UNANSWERED


def _failed_long(end: Ending) -> bool:
    """Whether its provider has failed to the very end, and for longer than a moment."""
    if not _failed(end):
        return False
    return end.seen is None or end.seen.failing_seconds >= WAITED_SHARE * (end.wall_seconds or 0.0)


def words(end: Ending, reason: str) -> str:
    """What is to be said of why it ended so, in the provider's own words where it is the one that
    failed."""
    error, seen = end.transcript.error, end.seen
    if seen is not None and reason == seen.over:
        return seen.refused
    if reason == "crashed" and not error:
        return _last_words(end.logs)
    if reason not in (PROVIDER, AUTHENTICATION, UNANSWERED):
        return error
    if seen is not None and (seen.words or (seen.refused and reason == UNANSWERED)):
        return seen.words or seen.refused
    if seen is not None and not seen.usage.requests:
        how = (
            "had to be stopped"
            if end.exit_code is None
            else f"ended with exit code {end.exit_code}"
        )
        last = " ".join(error.split()) or _last_words(end.logs) or "it says nothing"
        return f"its program {how} before it asked its model anything: {last}"
    if seen is not None and reason == PROVIDER and not seen.answers:
        where = end.provider.url if end.provider else "its provider"
        return f"{where}: no answer to {seen.usage.requests} of its requests"
    return error or _last_words(end.logs)


def remedy(end_reason: str, error: str, provider: Provider | None) -> str:
    """What to change where a model cannot be asked as it is configured."""
    if end_reason == AUTHENTICATION:
        variable = provider.key_variable if provider else ""
        key = f"put a key that may into {variable} (agent.key_variable)"
        return (
            key if variable else "log in again, or name the variable of a key in agent.key_variable"
        )
    if "before it asked" in error:
        return "see agent.arguments, agent.cli and agent.configuration"
    return "see agent.model, agent.effort, agent.base_url and agent.arguments"


def _last_words(logs: Path) -> str:
    """The end of what it said on standard error, else of its output."""
    for name in ("stderr.log", "stdout.log"):
        try:
            with (logs / name).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _STDERR_BYTES))
                lines = [
                    line.strip()
                    for line in file.read().decode(errors="replace").splitlines()
                    if line.strip()
                ]
        except OSError:
            continue
        if lines:
            telling = [line for line in lines if _BEGINS.match(line)] or [
                line for line in lines if _TELLING.search(line)
            ]
            return " / ".join((telling or lines)[-3:])[:600]
    return ""
