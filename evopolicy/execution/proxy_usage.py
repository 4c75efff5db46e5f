"""Tokens a provider reports in its answers, and the proxy's log that keeps them."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MAX_KEPT_BYTES = 32 << 20
"""Of an answer that is one JSON text, or of one line of a stream of events; a longer one is not read for its usage."""
MAX_LINES = 100_000
LOG = "proxy.jsonl"
MORE = "proxy_more.json"
"""What the requests spent that have no line of their own."""
BYTES_A_TOKEN = 4
_TEXTS = frozenset(
    ("text", "content", "delta", "arguments", "partial_json", "thinking", "reasoning", "reasoning_content", "name")
)
# Paths that count tokens and spend none.
_COUNTS = re.compile(r"(count_?tokens|/input_tokens)$", re.IGNORECASE)
TOKENS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
"""Together all tokens of a request, as in `kernel.transcript`."""


class UsageReader:
    """Reads the usage of one answer while it passes by, whole or as server-sent events.

    What an answer does not report is estimated, one token for BYTES_A_TOKEN of text, unless it costs nothing.
    """

    def __init__(self, content_type: str, path: str = "", bytes_up: int = 0, status: int = 200) -> None:
        """`path`: what is asked; `bytes_up`: of the request's body."""
        self._free = status >= 400 or not bytes_up or bool(_COUNTS.search(path))
        self._bytes_up = bytes_up
        self._text = 0
        self._events = content_type.lower().startswith("text/event-stream")
        self._json = "json" in content_type.lower()
        self._buffer = bytearray()
        self._skipping = False
        self._said: dict[str, Any] = {}

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the answer. Never raises."""
        if not self._events:
            self._text += len(data)
        if self._events:
            for line in self._lines(data):
                self._line(line)
        elif self._json and len(self._buffer) <= MAX_KEPT_BYTES:
            self._buffer += data

    def _lines(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        if b"\n" in data:
            *lines, rest = self._buffer.split(b"\n")
            self._buffer = rest
            if self._skipping:
                self._skipping = False
                lines = lines[1:]
            yield from (bytes(line) for line in lines)
        if len(self._buffer) > MAX_KEPT_BYTES:
            self._buffer.clear()
            self._skipping = True

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        try:
            event = json.loads(line[5:])
        except (ValueError, RecursionError):
            return
        kind = str(_inner(event, "type"))
        if not kind.endswith((".done", ".completed")):  # they say again what was said
            self._text += _text_bytes(event)
        if b'"usage' in line:
            self._take(event)

    def _take(self, event: Any) -> None:
        for holder in (event, *(_inner(event, name) for name in ("response", "message"))):
            for name in ("usage", "usageMetadata"):
                usage = _inner(holder, name)
                if isinstance(usage, dict):
                    # A later event counts all that an earlier one did, in those of its fields it has.
                    self._said.update({key: value for key, value in usage.items() if value is not None})

    def usage(self, *, whole: bool = True) -> dict[str, int]:
        """Tokens by kind, as reported; with `estimated` where they are not, or not for the whole answer."""
        if not self._events and self._json:
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(bytes(self._buffer))
                self._take(event)
                self._text = _text_bytes(event)
            self._buffer.clear()
        found = tokens(self._said)
        if self._free or (whole and any(found.values())):
            return found
        if not any(found.get(kind) for kind in TOKENS if kind != "output_tokens"):
            found["input_tokens"] = self._bytes_up // BYTES_A_TOKEN
        found["output_tokens"] = max(found.get("output_tokens", 0), self._text // BYTES_A_TOKEN)
        return {**found, "estimated": True}


def _text_bytes(event: Any) -> int:
    """About the bytes of text a model wrote in `event`, in the words of all providers."""
    total, waiting = 0, [(event, False)]
    while waiting:
        value, counts = waiting.pop()
        if isinstance(value, str):
            total += len(value.encode("utf-8", "replace")) if counts else 0
        elif isinstance(value, dict):
            waiting += [(inner, name in _TEXTS) for name, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(inner, counts) for inner in value]
    return total


def _inner(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """A usage object of OpenAI's two forms, Anthropic's or Gemini's in the words of `kernel.transcript.Usage`."""
    if "promptTokenCount" in usage:
        cached, thoughts = _count(usage, "cachedContentTokenCount"), _count(usage, "thoughtsTokenCount")
        output = _count(usage, "candidatesTokenCount") + thoughts
        found = (_count(usage, "promptTokenCount") - cached, cached, 0, output, thoughts)
    elif "prompt_tokens" in usage:
        cached = _count(_inner(usage, "prompt_tokens_details"), "cached_tokens")
        thoughts = _count(_inner(usage, "completion_tokens_details"), "reasoning_tokens")
        found = (_count(usage, "prompt_tokens") - cached, cached, 0, _count(usage, "completion_tokens"), thoughts)
    elif "input_tokens" in usage or "output_tokens" in usage:
        inside = _count(_inner(usage, "input_tokens_details"), "cached_tokens")
        cached = inside or _count(usage, "cache_read_input_tokens")
        thoughts = _count(_inner(usage, "output_tokens_details"), "reasoning_tokens")
        written = _count(usage, "cache_creation_input_tokens")
        found = (_count(usage, "input_tokens") - inside, cached, written, _count(usage, "output_tokens"), thoughts)
    else:
        return {}
    return {name: max(0, count) for name, count in zip((*TOKENS, "reasoning_tokens"), found, strict=True)}


def _count(usage: Any, name: str) -> int:
    count = _inner(usage, name)
    return count if type(count) is int and 0 <= count < 2**53 else 0


def _more(path: Path) -> dict[str, int]:
    more: Any = None
    with contextlib.suppress(OSError, ValueError):
        more = json.loads(path.read_bytes())
    return {name: _count(more, name) for name in ("requests", "tokens")}


class ProxyLog:
    """One JSON line a request, in `proxy.jsonl`; what all attempts of this Run have spent so far."""

    def __init__(self, folder: Path) -> None:
        """`folder` is one attempt's; what its neighbours' logs count as spent is spent."""
        self._lock = threading.Lock()
        self._path = folder / LOG
        self._lines = 0
        self.requests = 0
        self.tokens = 0
        for path in folder.parent.glob(f"*/{LOG}"):
            self._add_earlier(path)
        for path in folder.parent.glob(f"*/{MORE}"):
            more = _more(path)
            self.requests += more["requests"]
            self.tokens += more["tokens"]
        self._more = _more(folder / MORE)

    def _add_earlier(self, path: Path) -> None:
        for line in path.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the line a killed Host was writing
            if isinstance(entry, dict) and "refused" not in entry:
                self.requests += 1
                self.tokens += sum(_count(entry, kind) for kind in TOKENS)

    def begin(self, requests: int | None, tokens: int | None) -> str:
        """Count one request that is passed on; '' or, where it may not be, the sentence why."""
        with self._lock:
            if requests is not None and self.requests >= requests:
                return f"this Run's {requests} requests to its provider are used up (session.limits.requests)."
            if tokens is not None and self.tokens >= tokens:
                return f"this Run's {tokens} tokens are used up (session.limits.tokens)."
            self.requests += 1
            return ""

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append `entry`; its tokens count. A disk that takes no more costs the line, not the request."""
        with self._lock:
            spent = sum(_count(entry, kind) for kind in TOKENS)
            self.tokens += spent
            self._lines += 1
            try:
                if self._lines > MAX_LINES:
                    raise OSError("the log is full")
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
            except OSError:
                if "refused" not in entry:
                    self._add_more(spent)

    def _add_more(self, spent: int) -> None:
        self._more = {"requests": self._more["requests"] + 1, "tokens": self._more["tokens"] + spent}
        whole = self._path.with_name(f"{MORE}.new")
        with contextlib.suppress(OSError):
            whole.write_text(json.dumps(self._more))
            whole.replace(self._path.with_name(MORE))
