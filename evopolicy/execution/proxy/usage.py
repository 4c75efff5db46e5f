"""What a provider reports in its answers: tokens, the answer's id, and what went wrong."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from evopolicy.execution.proxy.trouble import message_of, trouble_of
from evopolicy.kernel.ports.transcript import TOKENS, ErrorKind

MAX_KEPT_BYTES = 32 << 20
"""Of an answer that is one JSON text, or of one line of a stream of events; a longer one is not
read for its usage."""
MAX_WORDS = 1 << 16
"""Of an answer that says what went wrong."""
MAX_ID = 200
BYTES_A_TOKEN = 4
DOUBTED = 8
"""So many times fewer tokens than the text has are not believed,"""
DOUBTED_BYTES = 4096
"""from a text of this length on: a short one may well be made of long tokens."""
_TEXTS = frozenset(
    (
        "text",
        "content",
        "delta",
        "arguments",
        "partial_json",
        "thinking",
        "reasoning",
        "reasoning_content",
        "name",
    )
)
_NOTHING = (b"data:", b"data: [DONE]", b"data:[DONE]")
# What an answer says again of its request.
_ECHOED = frozenset(("tools", "tool_choice", "instructions", "prompt"))
# Paths that count tokens and spend none.
_COUNTS = re.compile(r"(count_?tokens|/input_tokens)$", re.IGNORECASE)


class UsageReader:
    """Reads one answer while it passes by, whole or as server-sent events: its usage, its id, the
    error it tells of.

    What an answer does not report, or not credibly, is estimated, one token for BYTES_A_TOKEN of
    text, unless it costs nothing."""

    def __init__(
        self, content_type: str, path: str = "", bytes_up: int = 0, status: int = 200
    ) -> None:
        """`path`: what is asked; `bytes_up`: of the request's body."""
        # A 304 tells a program that what it has is still so; any other answer but a 2xx is none.
        self._failed = not (200 <= status < 300 or (status == 304 and not bytes_up))
        self._free = self._failed or not bytes_up or bool(_COUNTS.search(path))
        self._bytes_up = bytes_up
        self._text = 0
        self._events = content_type.lower().startswith("text/event-stream")
        self._json = "json" in content_type.lower()
        self._is_page = "html" in content_type.lower()
        self._buffer = bytearray()
        self._skipping = False
        self._said: dict[str, Any] = {}
        self._status = status
        self._words = bytearray()
        self.response = ""
        """The provider's id of the answer."""
        self.trouble: ErrorKind = ""
        """What an answer that came whole says went wrong; known for sure after `usage`."""
        self.heard = False
        """Whether there is something of a model's in it; likewise."""
        self.asks = bool(bytes_up) and not _COUNTS.search(path)
        """Whether the request is one to a model."""
        if self._failed:
            self.trouble = trouble_of(status, "")

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the answer. Never raises."""
        if (self._failed or not self.heard) and len(self._words) < MAX_WORDS:
            self._words += data[:MAX_WORDS]
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
                self._text += len(lines[0])
                lines = lines[1:]
            yield from (bytes(line) for line in lines)
        if len(self._buffer) > MAX_KEPT_BYTES:
            self._text += len(self._buffer)
            self._buffer.clear()
            self._skipping = True

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        try:
            event = json.loads(line[5:]) if has_few_marks(line) else None
        except (ValueError, RecursionError):
            event = None
        if event is None:
            self._text += len(line) if line.strip() not in _NOTHING else 0
            return
        kind, size = str(_inner(event, "type")), _text_bytes(event)
        self.heard = self.heard or bool(size)
        if not kind.endswith((".done", ".completed")):  # they say again what was said
            self._text += size
        if b'"usage' in line:
            self._take(event)
        if not self.response:
            self.response = _response(event)
        if b'"error"' in line:
            self._blame(event)

    def _blame(self, event: Any) -> None:
        """Note the error that an answer tells of which began well."""
        for holder in (event, _inner(event, "response")):
            error = _inner(holder, "error")
            if error:
                code = _inner(error, "code")
                words = json.dumps(error)[:MAX_WORDS]
                self.trouble = trouble_of(code if type(code) is int else 0, words)
                self._words[:] = words.encode()

    def _take(self, event: Any) -> None:
        for holder in (event, *(_inner(event, name) for name in ("response", "message"))):
            for name in ("usage", "usageMetadata"):
                usage = _inner(holder, name)
                if isinstance(usage, dict):
                    # A later event counts all that an earlier one did, in those of its fields it
                    # has.
                    self._said.update(
                        {key: value for key, value in usage.items() if value is not None}
                    )

    def usage(self, *, whole: bool = True) -> dict[str, int]:
        """Tokens by kind, as reported; with `estimated` where they are not, or not for the whole
        answer."""
        if not self._events and self._json and has_few_marks(self._buffer):
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(bytes(self._buffer))
                self._take(event)
                self._text = _text_bytes(event)
                self.heard = bool(self._text)
                self.response = _response(event)
                self._blame(event)
        if self._events:
            self._last()
        self._buffer.clear()
        if self._failed:
            self.trouble = trouble_of(self._status, self._words.decode("utf-8", "replace"))
            self.response = ""
        found = tokens(self._said)
        self.heard = not self._failed and (self.heard or any(found.values()))
        if self.trouble and not self._text and not found:
            return {}  # an answer that is nothing but an error costs nothing
        if self.asks and whole and not self.heard and not self.trouble:
            self.trouble = (
                "other" if self._is_page else "network"
            )  # another address than a model's, or a broken one
        if self._free or (whole and any(found.values()) and not self._is_doubted(found)):
            return found
        if not any(found.get(kind) for kind in TOKENS if kind != "output_tokens"):
            found["input_tokens"] = self._bytes_up // BYTES_A_TOKEN
        found["output_tokens"] = max(found.get("output_tokens", 0), self._text // BYTES_A_TOKEN)
        return {**found, "estimated": True}

    @property
    def words(self) -> str:
        """What an answer that failed says, or begins with."""
        return message_of(bytes(self._words))

    def _last(self) -> None:
        """Read what came after the last end of a line."""
        line = bytes(self._buffer)
        if line.startswith(b"data:") and not self._skipping:
            self._line(line)
        else:
            self._text += len(line)

    def _is_doubted(self, found: Mapping[str, int]) -> bool:
        """Whether fewer tokens are reported than the text that was seen can have been."""
        most = DOUBTED * BYTES_A_TOKEN * found.get("output_tokens", 0)
        return self._text >= DOUBTED_BYTES and self._text > most


MAX_MARKS = 2_000_000
"""Commas, colons and opening brackets in a JSON text, in its strings too: what it becomes in memory
is bounded."""


def has_few_marks(text: bytes | bytearray) -> bool:
    """Whether `text` may be taken apart."""
    return (
        len(text) <= MAX_MARKS
        or sum(text.count(mark) for mark in (b",", b":", b"[", b"{")) <= MAX_MARKS
    )


def _text_bytes(event: Any) -> int:
    """About the bytes of text a model wrote in `event`, in the words of all providers."""
    total, waiting = 0, [(event, False)]
    while waiting:
        value, counts = waiting.pop()
        if isinstance(value, str):
            total += len(value.encode("utf-8", "replace")) if counts else 0
        elif isinstance(value, dict):
            waiting += [
                (inner, name in _TEXTS) for name, inner in value.items() if name not in _ECHOED
            ]
        elif isinstance(value, list):
            waiting += [(inner, counts) for inner in value]
    return total


def _response(event: Any) -> str:
    """The id of the answer that `event` is, or is part of, in the words of all providers."""
    ids = (
        *(_inner(_inner(event, name), "id") for name in ("response", "message")),
        *(_inner(event, name) for name in ("responseId", "id")),
    )
    return next((found[:MAX_ID] for found in ids if isinstance(found, str)), "")


def _inner(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """A usage object of OpenAI's two forms, Anthropic's or Gemini's in the words of
    `kernel.transcript.Usage`."""
    if "promptTokenCount" in usage:
        cached, thoughts = (
            counted(usage, "cachedContentTokenCount"),
            counted(usage, "thoughtsTokenCount"),
        )
        output = counted(usage, "candidatesTokenCount") + thoughts
        found = (counted(usage, "promptTokenCount") - cached, cached, 0, output, thoughts)
    elif "prompt_tokens" in usage:
        cached = counted(_inner(usage, "prompt_tokens_details"), "cached_tokens")
        thoughts = counted(_inner(usage, "completion_tokens_details"), "reasoning_tokens")
        found = (
            counted(usage, "prompt_tokens") - cached,
            cached,
            0,
            counted(usage, "completion_tokens"),
            thoughts,
        )
    elif "input_tokens" in usage or "output_tokens" in usage:
        inside = counted(_inner(usage, "input_tokens_details"), "cached_tokens")
        cached = inside or counted(usage, "cache_read_input_tokens")
        thoughts = counted(_inner(usage, "output_tokens_details"), "reasoning_tokens")
        written = counted(usage, "cache_creation_input_tokens")
        found = (
            counted(usage, "input_tokens") - inside,
            cached,
            written,
            counted(usage, "output_tokens"),
            thoughts,
        )
    else:
        return {}
    return {
        name: max(0, count)
        for name, count in zip((*TOKENS, "reasoning_tokens"), found, strict=True)
    }


def counted(usage: Any, name: str) -> int:
    """`usage[name]` where it is a count, else 0."""
    count = _inner(usage, name)
    return count if type(count) is int and 0 <= count < 2**53 else 0
