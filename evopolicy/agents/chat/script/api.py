"""Asks a model by the Chat Completions protocol: one request, its answer streamed or whole, and
what errors mean."""

from __future__ import annotations

import email.utils
import http.client
import json
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, cast

MAX_ANSWER_BYTES = 64 << 20
MAX_RETRY_AFTER_SECONDS = 300.0
"""A server that wants a longer pause is left to the Host, which begins again later."""
PROGRESS_SECONDS = 30.0
_REASONING_KEYS = ("reasoning_content", "reasoning")
_CONTEXT = re.compile(
    r"context.{0,3}(length|window|size)|maximum context|max_model_len|too many tokens|prompt is too long"
    r"|input.{0,40}(too long|exceeds)|exceeds? the.{0,30}context|string_above_max_length",
    re.IGNORECASE,
)


class Failure(Exception):
    """A request that gave no answer. The text is the server's own reason, as far as it gave one."""

    def __init__(
        self,
        kind: str,
        text: str,
        *,
        status: int | None = None,
        retry: bool = False,
        after: float | None = None,
    ) -> None:
        super().__init__(text)
        self.kind = kind
        """As `kernel.transcript.ErrorKind`."""
        self.status = status
        self.retry = retry
        """Whether the same request may do better later."""
        self.after = after
        """Seconds the server asks to wait."""
        self.response_id = ""
        """Of an answer that broke off."""


@dataclass(frozen=True)
class Server:
    """Where the model is and how long to wait for it."""

    url: str
    """Base: `/chat/completions` is added."""
    key: str
    request_seconds: float
    """Without a byte from the server."""
    retries: int
    retry_seconds: float
    """Pause before the first retry; it doubles with each."""


@dataclass
class Call:
    """A use of a tool as the model wrote it."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class Answer:
    """One message of the model's, in the making or whole."""

    text: str = ""
    reasoning: str = ""
    reasoning_key: str = ""
    """The field the server gave it in; it is given back in the same."""
    refusal: str = ""
    calls: list[Call] = field(default_factory=list)
    id: str = ""
    finish: str = ""
    """The server's `finish_reason`; '' while none came."""
    usage: dict[str, Any] | None = None
    _indexed: dict[Any, Call] = field(default_factory=dict)
    """The newest call of each number the server gave."""

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take a whole answer, or one event of a stream. Raises Failure for an error inside it."""
        if event.get("error") or event.get("object") == "error":
            raise _error_in(event, None, None)
        self.id = self.id or _text(event.get("id"))
        if isinstance(event.get("usage"), dict):
            self.usage = event["usage"]
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        self.finish = _text(choice.get("finish_reason")) or self.finish
        piece = choice.get("delta") or choice.get("message")
        if not isinstance(piece, dict):
            return
        self.text += _text(piece.get("content"))
        self.refusal += _text(piece.get("refusal"))
        for key in _REASONING_KEYS:
            if words := _text(piece.get(key)):
                self.reasoning += words
                self.reasoning_key = key
                break  # some servers say it under both names
        calls = piece.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._feed_call(call)

    def _feed_call(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        name, given, index = _text(function.get("name")), _text(piece.get("id")), piece.get("index")
        call = (
            self._indexed.get(index)
            if type(index) is int
            else self.calls[-1]
            if self.calls
            else None
        )
        # Servers that do not count their calls, or call each of them 0, give every one an id or a
        # name.
        another = call is not None and (
            call.id not in ("", given) if given else bool(index is None and name)
        )
        if call is None or another:
            call = Call()
            self.calls.append(call)
            self._indexed[index] = call
        call.id, call.name = call.id or given, call.name + name
        arguments = function.get("arguments")
        call.arguments += json.dumps(arguments) if isinstance(arguments, dict) else _text(arguments)

    def size(self) -> int:
        """Characters so far."""
        return (
            len(self.text) + len(self.reasoning) + sum(len(call.arguments) for call in self.calls)
        )


def _text(value: Any) -> str:
    """`value` as a text: also a list of parts, as some servers give a message."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    # Half a surrogate pair can be neither written nor sent again.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


Say = Callable[..., None]
"""Prints an event: its type, then its fields."""


def ask(server: Server, body: Mapping[str, Any], say: Say) -> Answer:
    """The answer to `body`, tried again where that may help. Raises Failure."""
    for attempt in range(server.retries + 1):
        try:
            return ask_once(server, body, say)
        except Failure as failure:
            wanted = (
                failure.after if failure.after is not None else server.retry_seconds * 2**attempt
            )
            longer = failure.after is not None and wanted > MAX_RETRY_AFTER_SECONDS
            if not failure.retry or attempt == server.retries or longer:
                raise
            pause = wanted if failure.after is not None else wanted * random.uniform(0.8, 1.2)
            say(
                "retry", kind=failure.kind, status=failure.status, text=str(failure)[:2000], attempt=attempt + 1,
                wait_seconds=round(pause, 3), response_id=failure.response_id,
            )  # fmt: skip
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def ask_once(server: Server, body: Mapping[str, Any], say: Say) -> Answer:
    """The answer to one request. Raises Failure."""
    answer = Answer()
    try:
        with _opened(server, body) as response:
            if "event-stream" in response.headers.get("Content-Type", ""):
                _read_stream(response, answer, say)
            else:
                _read_whole(response, answer)
    except Failure as failure:
        failure.response_id = answer.id
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        broken = Failure("network", f"connection: {type(error).__name__}: {reason}", retry=True)
        broken.response_id = answer.id
        raise broken from None
    return answer


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key goes to the named server alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opened(server: Server, body: Mapping[str, Any]) -> http.client.HTTPResponse:
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
    if server.key:
        headers["Authorization"] = f"Bearer {server.key}"
    url = server.url.rstrip("/") + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        opener = urllib.request.build_opener(_NoRedirect)
        return cast(http.client.HTTPResponse, opener.open(request, timeout=server.request_seconds))
    except urllib.error.HTTPError as error:
        with error:
            answer = error.read(65536)
            try:
                event = json.loads(answer)
            except ValueError:
                event = {"error": answer.decode("utf-8", "replace").strip()[:2000]}
            raise _error_in(event, error.code, _retry_after(error.headers)) from None


def _read_whole(response: http.client.HTTPResponse, answer: Answer) -> None:
    data = response.read(MAX_ANSWER_BYTES + 1)
    if len(data) > MAX_ANSWER_BYTES:
        raise _too_long()
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        raise Failure(
            "network", "connection: the answer is not JSON, or was cut off", retry=True
        ) from None
    if not isinstance(event, dict) or not (event.get("choices") or event.get("error")):
        raise Failure("other", f"the answer has no choices: {data[:300]!r}")
    answer.feed(event)
    answer.finish = answer.finish or "stop"


def _read_stream(response: http.client.HTTPResponse, answer: Answer, say: Say) -> None:
    printed = time.monotonic()
    for data in _events(response):
        if data == b"[DONE]":
            answer.finish = answer.finish or "stop"
            break
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise Failure(
                "network", f"stream error: an event is not JSON: {data[:200]!r}", retry=True
            ) from None
        if isinstance(event, dict):
            answer.feed(event)
        if time.monotonic() - printed > PROGRESS_SECONDS:
            printed = time.monotonic()
            say("progress", characters=answer.size())
    if not answer.finish:
        raise Failure("network", "stream ended before its answer did", retry=True)


def _events(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The data of each server-sent event; all servers write it in one line."""
    size = 0
    while line := response.readline(MAX_ANSWER_BYTES):
        size += len(line)
        if size > MAX_ANSWER_BYTES:
            raise _too_long()
        if line.startswith(b"data:") and (data := line[5:].strip()):
            yield data


def _too_long() -> Failure:
    return Failure("other", f"the answer is longer than {MAX_ANSWER_BYTES >> 20} MiB")


def _error_in(event: Any, status: int | None, after: float | None) -> Failure:
    """What a server's error, sent as a whole answer or inside a stream, means."""
    error = event.get("error") if isinstance(event, dict) else None
    error = error if isinstance(error, dict) else {"message": error or event}
    code = error.get("code") or (event.get("code") if isinstance(event, dict) else None)
    if status is None and type(code) is int and 400 <= code < 600:
        status = code
    message = error.get("message")
    words = message if isinstance(message, str) else json.dumps(error)
    named = [str(word) for word in (code, error.get("type")) if word and str(word) not in words]
    text = f"{f'{status}: ' if status else ''}{words[:2000]}{f' ({chr(44).join(named)})' if named else ''}"
    kind, retry = _meaning(status, text, str(code))
    return Failure(kind, text, status=status, retry=retry, after=after)


def _meaning(status: int | None, words: str, code: str) -> tuple[str, bool]:
    """The kind of a failure, and whether the same request may do better later."""
    if status == 429 or (status is None and re.search("rate.?limit", words, re.IGNORECASE)):
        spent = code in ("insufficient_quota", "billing_hard_limit_reached")
        return ("authentication", False) if spent else ("rate_limit", True)
    if status == 413 or (status in (400, 422, 500, None) and _CONTEXT.search(words)):
        return "context", False
    if status in (401, 402) or (status == 403 and "EvoPolicy:" not in words):
        return "authentication", False
    if status == 408:
        return "network", True
    if status is None or status >= 500:
        return (
            "network" if code in ("provider_unreachable", "provider_silent") else "overload"
        ), status != 501
    if re.search("content.?(policy|filter)", words, re.IGNORECASE):
        return "refusal", False
    return "other", False


def _retry_after(headers: Message) -> float | None:
    """Seconds a server asks to wait: a number, milliseconds of their own, or a date."""
    for name, unit in (("Retry-After-Ms", 1000.0), ("Retry-After", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if seconds >= 0:
            return seconds
    try:
        when = email.utils.parsedate_to_datetime(headers.get("Retry-After", ""))
        return max(0.0, when.timestamp() - time.time())
    except (TypeError, ValueError):
        return None
