"""The proxy's log: a line for each request, and what this attempt and all attempts of the Run have
spent."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evopolicy.execution.proxy.usage import counted
from evopolicy.kernel.files.versioned import PROXY_FORMAT, SCHEMA_KEY
from evopolicy.kernel.ports.protocols import AgentLimits
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import TOKENS, ErrorKind, Usage
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable
from evopolicy.kernel.run.stream import PROXY_LOG

MAX_LINES = 100_000
MORE = "proxy_more.json"
"""What the requests spent that have no line of their own."""
_KINDS = (*TOKENS, "reasoning_tokens")


@dataclass(frozen=True)
class ProviderSign:
    """What one request tells of its provider."""

    trouble: ErrorKind
    """How it failed; '' where it answered."""
    began: float
    at: float
    """When it told so, in seconds of the same clock: requests end in another order."""
    words: str = ""


class _Provider:
    """How it has fared, by what requests tell of it one after the other."""

    def __init__(self) -> None:
        self.newest = ProviderSign("", 0.0, 0.0)
        self.answers = 0
        self.failing: float | None = None
        """Since when; None where it answers."""
        self.waited = 0.0

    def take(self, sign: ProviderSign) -> None:
        self.answers += not sign.trouble
        if sign.at < self.newest.at:
            return
        if self.failing is not None and not sign.trouble:
            self.waited += max(0.0, sign.began - self.failing)
        if not sign.trouble:
            self.failing = None
        elif self.failing is None and sign.trouble != "context":  # that one is its conversation's
            self.failing = max(sign.began, self.newest.at)
        self.newest = sign

    def failing_until(self, now: float) -> float:
        return now - self.failing if self.failing is not None else 0.0


class ProxyLog:
    """One JSON line a request, in `proxy.jsonl`; what was spent, against the Run's limits."""

    def __init__(self, folder: Path, limits: AgentLimits, prices: PriceTable = NO_PRICES) -> None:
        """`folder` is one attempt's; what its neighbours' logs count as spent is spent."""
        self._lock = threading.Lock()
        self._path = folder / PROXY_LOG
        self._limits = limits
        self._prices = prices
        self._lines = 0
        self.requests = 0
        """Over all attempts, as are the next two."""
        self.tokens = 0
        self.cost_usd = 0.0
        self._own: dict[str, Any] = dict.fromkeys(_KINDS, 0)
        self._own_requests = 0
        self._own_cost = 0.0
        self._priced = True
        self._estimated = False
        self._provider = _Provider()
        self._over: Literal["", "requests", "tokens", "cost"] = ""
        self._refused = ""
        self._responses: dict[str, int] = {}
        # The agent's home lies beside the attempts: nothing in it is a log.
        for path in folder.parent.glob(f"attempt-*/{PROXY_LOG}"):
            self._add_earlier(path)
        for path in folder.parent.glob(f"attempt-*/{MORE}"):
            more = _more(path)
            self.requests += int(more["requests"])
            self.tokens += int(more["tokens"])
            self.cost_usd += more["cost_usd"]
        self._more = _more(folder / MORE)

    def _add_earlier(self, path: Path) -> None:
        for line in path.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the line a killed Host was writing
            if isinstance(entry, dict) and "refused" not in entry:
                self.requests += 1
                self.tokens += _all(entry)
                self.cost_usd += self._cost(entry) or 0.0

    def _cost(self, entry: Mapping[str, Any]) -> float | None:
        """US dollars; None where its model has no price."""
        price = self._prices.price(str(entry.get("model", "")))
        return (
            price.cost({kind: counted(entry, kind) for kind in TOKENS})
            if price is not None
            else None
        )

    def begin(self) -> str:
        """Count one request that is passed on; '' or, where it may not be, the sentence why."""
        limits = self._limits
        with self._lock:
            if limits.requests is not None and self.requests >= limits.requests:
                self._over = "requests"
                return (
                    f"this Run's {limits.requests} requests to its provider are used up "
                    "(session.limits.requests)."
                )
            if limits.tokens is not None and self.tokens >= limits.tokens:
                self._over = "tokens"
                return f"this Run's {limits.tokens} tokens are used up (session.limits.tokens)."
            if limits.cost_usd is not None and self.cost_usd >= limits.cost_usd:
                self._over = "cost"
                return (
                    f"this Run's {limits.cost_usd:g} US dollars are used up "
                    "(session.limits.cost_usd)."
                )
            self.requests += 1
            self._own_requests += 1
            return ""

    def refuse(self, reason: str, *, aside: bool) -> None:
        """The proxy has refused a request itself; `aside`: one that asks no model, as for a list of
        them."""
        with self._lock:
            if not (aside and self._refused):
                self._refused = reason

    def write(self, entry: Mapping[str, Any], sign: ProviderSign | None = None) -> None:
        """Append `entry`; its tokens count. A disk that takes no more costs the line, not the
        request.

        `sign`: None where this request tells nothing of its provider.
        """
        with self._lock:
            spent, cost = _all(entry), self._cost(entry)
            self._count(entry, spent, cost)
            if sign is not None:
                self._provider.take(sign)
            self._lines += 1
            try:
                if self._lines > MAX_LINES:
                    raise OSError("the log is full")
                with self._path.open("a", encoding="utf-8") as file:
                    line = {SCHEMA_KEY: PROXY_FORMAT.newest, **entry, **_sign(sign)}
                    file.write(json.dumps(line) + "\n")
            except OSError:
                if "refused" not in entry:
                    self._add_more(spent, cost or 0.0)

    def _count(self, entry: Mapping[str, Any], spent: int, cost: float | None) -> None:
        self.tokens += spent
        self.cost_usd += cost or 0.0
        self._own_cost += cost or 0.0
        self._priced = self._priced and (cost is not None or not spent)
        self._estimated = self._estimated or bool(entry.get("estimated"))
        for kind in _KINDS:
            self._own[kind] += counted(entry, kind)
        response = entry.get("response")
        if response and (response in self._responses or len(self._responses) < MAX_LINES):
            self._responses[response] = self._responses.get(response, 0) + spent

    def _add_more(self, spent: int, cost: float) -> None:
        more = self._more
        self._more = {
            "requests": more["requests"] + 1,
            "tokens": more["tokens"] + spent,
            "cost_usd": more["cost_usd"] + cost,
        }
        whole = self._path.with_name(f"{MORE}.new")
        with contextlib.suppress(OSError):
            whole.write_text(json.dumps(self._more))
            whole.replace(self._path.with_name(MORE))

    def proxy_usage(self, *, seen: bool = True) -> ProxyUsage:
        """What this attempt's agent was served so far. Not `seen`: its requests and answers pass by
        unread."""
        with self._lock:
            usage = Usage()
            if seen:
                cost = round(self._own_cost, 6) if self._priced and self._own_cost else None
                usage = Usage(
                    **self._own,
                    cost_usd=cost,
                    cost_is_estimate=cost is not None,
                    requests=self._own_requests,
                )
            provider = self._provider
            failing = provider.failing_until(time.monotonic())
            return ProxyUsage(
                usage, self._estimated or not seen, provider.newest.trouble, self._over, dict(self._responses),
                provider.answers if seen else None, provider.newest.words, self._refused, failing,
                provider.waited + failing,
            )  # fmt: skip


def _sign(sign: ProviderSign | None) -> dict[str, Any]:
    """What a line says of what its request tells of the provider."""
    if sign is None:
        return {}
    return {"trouble": sign.trouble} if sign.trouble else {"answered": True}


def _read_sign(entry: Mapping[str, Any]) -> ProviderSign | None:
    """As it was told, but for the words; None where the line has none, as those of before there
    were any."""
    began, seconds = entry.get("time"), entry.get("seconds")
    if not isinstance(began, int | float) or not isinstance(seconds, int | float):
        return None
    if entry.get("answered") is True or isinstance(entry.get("trouble"), str):
        return ProviderSign(entry.get("trouble", ""), began, began + seconds)
    return None


def proxy_usage_before(folder: Path) -> ProxyUsage | None:
    """What the log in an attempt's `folder` says was passed on; None where there is none, or only
    of a tunnel."""
    try:
        lines = (folder / PROXY_LOG).read_text(errors="replace").splitlines()
    except OSError:
        return None
    totals: dict[str, Any] = dict.fromkeys(_KINDS, 0)
    requests, estimated, responses, provider, last = 0, False, dict[str, int](), _Provider(), 0.0
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the line a killed Host was writing
        if not isinstance(entry, dict) or "refused" in entry or entry.get("method") == "CONNECT":
            continue
        requests += 1
        estimated = estimated or bool(entry.get("estimated"))
        for kind in _KINDS:
            totals[kind] += counted(entry, kind)
        if isinstance(entry.get("response"), str):
            responses[entry["response"]] = responses.get(entry["response"], 0) + _all(entry)
        if sign := _read_sign(entry):
            provider.take(sign)
            last = max(last, sign.at)
    if not requests:
        return None
    failing = provider.failing_until(last)
    return ProxyUsage(
        Usage(**totals, requests=requests), estimated, provider.newest.trouble, responses=responses,
        answers=provider.answers or None, failing_seconds=failing, waited_seconds=provider.waited + failing,
    )  # fmt: skip


def _all(entry: Mapping[str, Any]) -> int:
    return sum(counted(entry, kind) for kind in TOKENS)


def _more(path: Path) -> dict[str, float]:
    more: Any = None
    with contextlib.suppress(OSError, ValueError):
        more = json.loads(path.read_bytes())
    cost = more.get("cost_usd") if isinstance(more, dict) else None
    return {
        **{name: counted(more, name) for name in ("requests", "tokens")},
        "cost_usd": cost if isinstance(cost, int | float) and 0 <= cost < 1e9 else 0.0,
    }
