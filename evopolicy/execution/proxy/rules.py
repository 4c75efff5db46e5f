"""What the Host's proxy lets through to a provider: paths, the model, tools; and what it takes from
and adds to it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode, urlsplit

from evopolicy.execution.proxy.sources import MAX_SAID, TooMuchSaid, plain, sources
from evopolicy.execution.proxy.usage import MAX_MARKS, has_few_marks
from evopolicy.kernel.ports.protocols import Provider


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Between the agent and the Host only, set anew by the Host, or read by some servers as another
# method or path.
_DROPPED_REQUEST = _words("""
host connection keep-alive proxy-connection te trailer transfer-encoding upgrade expect content-length accept-encoding
forwarded x-forwarded-for x-forwarded-host x-forwarded-proto
x-http-method x-http-method-override x-method-override x-original-url x-original-uri x-rewrite-url
""")
_DROPPED_ANSWER = _words("""
connection keep-alive proxy-connection transfer-encoding upgrade trailer content-length set-cookie date server
proxy-authenticate alt-svc
""")
# Whatever says who pays: the Host alone does.
_LOGINS = _words("""
authorization proxy-authorization x-api-key api-key x-goog-api-key x-goog-user-project cookie openai-organization
openai-project x-auth-token
""")
_QUERIES = _words(
    "alt beta api-version api_version client_version limit after after_id before_id pagesize "
    "pagetoken"
)
"""What providers' programs ask beside a path; a login or another method may be said there too."""
MAX_NAMES = 20_000
"""Keys of a body, and types and keys of its tools."""
_READ = _words("model models tools stream stream_options")
MAX_BODY_BYTES = 32 << 20
"""Of a request, as it comes and as it is written anew."""
_ONE_AT_A_TIME = threading.Lock()
"""A body taken apart is many times as large as its bytes."""


class Turned(Exception):
    """A request the proxy answers itself: HTTP status, a word for programs, a sentence for the
    agent."""

    def __init__(
        self, status: int, code: str, reason: str, retry_after: float | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason
        self.retry_after = retry_after

    def body(self) -> bytes:
        """In the form all providers' programs read their errors in."""
        error = {
            "type": "permission_error" if self.status == 403 else "api_error",
            "code": self.code,
        }
        payload = {"type": "error", "error": {**error, "message": f"EvoPolicy: {self.reason}"}}
        return json.dumps(payload).encode()


def allowed_hosts(provider: Provider) -> frozenset[str]:
    """`name:port` in lower case of what may be connected to at `allowlist`."""
    if provider.hosts:
        return frozenset(
            host.lower() if ":" in host else f"{host.lower()}:443" for host in provider.hosts
        )
    split = urlsplit(provider.url)
    return frozenset({f"{split.hostname}:{split.port or (443 if split.scheme == 'https' else 80)}"})


def pinned(provider: Provider, method: str, target: str) -> tuple[str, str]:
    """Path as the agent named it and target as the provider is asked for it. Raises Turned for one
    not allowed."""
    path, _, query = target.partition("?")
    if f"{method} {path}" not in provider.paths:
        allowed = ", ".join(provider.paths)
        _refuse(
            "path_refused",
            f"'{method} {path[:200]}' is not among what this Run may ask at {provider.url}: "
            f"{allowed} (agent.base_url, or agent.provider.paths of agent=command).",
        )
    pairs = [(name, value) for name, value in parse_qsl(query, True) if name.lower() in _QUERIES]
    whole = urlsplit(provider.url).path.rstrip("/") + path
    return path, f"{whole}?{urlencode(pairs)}" if pairs else whole


def checked_body(
    provider: Provider, method: str, path: str, body: bytes, encoding: str
) -> tuple[str, bytes]:
    """Model and body of a request, written anew: no two readers understand it differently. Raises
    Turned."""
    if method != "POST":
        return "", b""
    if encoding.strip().lower() not in ("", "identity"):
        raise Turned(
            415,
            "encoding_refused",
            f"a body with Content-Encoding '{encoding[:40]}' cannot be checked here.",
        )
    if not has_few_marks(body):
        raise too_large(f"{MAX_MARKS} commas, colons and brackets")
    with _ONE_AT_A_TIME:
        return _taken_apart(provider, path, body)


def too_large(most: str = f"{MAX_BODY_BYTES >> 20} MiB") -> Turned:
    return Turned(413, "too_large", f"a body has {most} at most.")


def _taken_apart(provider: Provider, path: str, body: bytes) -> tuple[str, bytes]:
    try:
        value = json.loads(body, parse_constant=_no_number)
        if isinstance(value, dict) and value.get("stream") and path.endswith("/completions"):
            options = value.get("stream_options")
            # OpenAI's chat form reports a stream's tokens only where it is asked to.
            value["stream_options"] = {
                **(options if isinstance(options, dict) else {}),
                "include_usage": True,
            }
        written = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        raise Turned(400, "body_refused", "the body is no JSON that can be checked here.") from None
    if len(written) > MAX_BODY_BYTES:
        raise too_large()
    if not isinstance(value, dict):
        raise Turned(400, "body_refused", "the body has to be a JSON object.")
    for name in value:
        # Some servers read keys whatever their case.
        if (same := name.lower()) != name and same in _READ:
            raise Turned(400, "body_refused", f"the key '{name}' has to be '{same}'.")
    if isinstance(value.get("prompt"), dict):
        _refuse(
            "tool_refused", "a prompt kept at the provider may bring tools outside the sandbox."
        )
    hosted = tuple(plain(tool) for tool in provider.refused_tools)
    for number, name in enumerate(_named(value)):
        if number >= MAX_NAMES:
            _refuse("tool_refused", f"more than {MAX_NAMES} keys and tools cannot be checked here.")
        if plain(name[:200]).startswith(hosted):
            _refuse(
                "tool_refused",
                f"'{name[:80]}' works outside the sandbox and is not allowed in this Run.",
            )
    _check_sources(value)
    return _model(provider, path, value), written


def _check_sources(body: Mapping[str, Any]) -> None:
    try:
        source = next(sources(body), None)
    except TooMuchSaid:
        _refuse(
            "source_refused",
            f"more than {MAX_SAID} parts of what the model is told cannot be checked here.",
        )
    if source is not None:
        _refuse(
            "source_refused",
            f"'{source[:80]}' would be fetched outside the sandbox: send what it holds as 'data:'.",
        )


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _model(provider: Provider, path: str, body: Mapping[str, Any]) -> str:
    """The model a request names: in its body or, as Gemini's, in its path."""
    named = next((name for name in provider.models if f"/{name}:" in f"{path}:"), None)
    model = body.get("model", named)
    if provider.models and (not _is_of(provider, model) or "models" in body):
        wanted = " or ".join(f"'{name}'" for name in provider.models)
        found = f"'{model[:80]}'" if isinstance(model, str) else "none"
        _refuse(
            "model_refused",
            f"this Run's model is {wanted} (agent.model); the request names {found}.",
        )
    return model[:200] if isinstance(model, str) else ""


def _is_of(provider: Provider, model: Any) -> bool:
    """Whether `model` is one the Run may ask, or a dated snapshot of one: what it is resolved to by
    its program."""
    return isinstance(model, str) and any(
        model == name or re.fullmatch(rf"{re.escape(name)}[-@]20\d{{2}}-?\d{{2}}-?\d{{2}}", model)
        for name in provider.models
    )


def _named(body: Mapping[str, Any]) -> Iterator[str]:
    """What a request brings that may work elsewhere: its own keys, and each tool's type and keys.

    A tool's name and what lies deeper are the agent's own words: a tool of its own may be called as
    it likes."""
    yield from body
    # Some models are given their tools as an item of what they are told.
    content = body.get("input")
    items = (
        [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    )
    waiting = [body.get("tools"), *(item.get("tools") for item in items)]
    while waiting:
        tools = waiting.pop()
        for tool in tools if isinstance(tools, list) else (tools,):
            if isinstance(tool, dict):
                yield from tool
                kind = tool.get("type")
                if isinstance(kind, str):
                    yield kind
                waiting.append(tool.get("tools"))


def _refuse(code: str, reason: str) -> NoReturn:
    raise Turned(403, code, reason)


def request_headers(
    provider: Provider, key: str, headers: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The agent's headers without its logins and the connection's own, with the Host's key."""
    dropped = _DROPPED_REQUEST | _LOGINS | {provider.key_header.lower()}
    kept = [(name, value) for name, value in headers if name.lower() not in dropped]
    kept.append(("Accept-Encoding", "identity"))  # what comes back is read for its usage
    if key:
        kept.append((provider.key_header, provider.key_form.replace("{key}", key)))
    return kept


def answer_headers(
    provider: Provider, status: int, headers: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The provider's headers without the connection's own; a 429 that does not say so says when to
    come back."""
    kept = [(name, value) for name, value in headers if name.lower() not in _DROPPED_ANSWER]
    bare = not any(name.lower() in ("retry-after", "retry-after-ms") for name, _ in kept)
    if status == 429 and bare and provider.retry_after_seconds is not None:
        kept.append(("Retry-After", f"{provider.retry_after_seconds:g}"))
    return kept
