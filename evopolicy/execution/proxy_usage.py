"""Tokens a provider reports in its answers, and the proxy's log that keeps them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MAX_KEPT_BYTES = 32 << 20
"""Of an answer that is one JSON text, or of one line of a stream of events; a longer one is not read for its usage."""
MAX_LINES = 100_000
LOG = "proxy.jsonl"
TOKENS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
"""Together all tokens of a request, as in `kernel.transcript`."""


class UsageReader:
    """Reads the usage of one answer while it passes by, whole or as server-sent events."""

    def __init__(self, content_type: str) -> None:
        self._events = content_type.lower().startswith("text/event-stream")
        self._json = "json" in content_type.lower()
        self._buffer = bytearray()
        self._skipping = False
        self._said: dict[str, Any] = {}

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the answer. Never raises."""
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
        if line.startswith(b"data:") and b'"usage' in line:
            self._take(line[5:])

    def _take(self, text: bytes) -> None:
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            return
        for holder in (event, *(_inner(event, name) for name in ("response", "message"))):
            for name in ("usage", "usageMetadata"):
                usage = _inner(holder, name)
                if isinstance(usage, dict):
                    # A later event counts all that an earlier one did, in those of its fields it has.
                    self._said.update({key: value for key, value in usage.items() if value is not None})

    def usage(self) -> dict[str, int]:
        """Tokens by kind, as far as reported; empty where nothing was."""
        if not self._events and self._json:
            self._take(bytes(self._buffer))
            self._buffer.clear()
        return tokens(self._said)


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
            self.tokens += sum(_count(entry, kind) for kind in TOKENS)
            self._lines += 1
            if self._lines > MAX_LINES:
                return
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
            except OSError:
                pass
