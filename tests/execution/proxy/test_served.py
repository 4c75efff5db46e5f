"""What the proxy says it has served: tokens, answers by their ids, how the provider failed, what
was refused."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.provider import ModelProvider
from evopolicy.execution.proxy import request as proxy_request
from evopolicy.execution.proxy.log import MORE, ProviderSign, ProxyLog, proxy_usage_before
from evopolicy.execution.proxy.server import Proxy
from evopolicy.execution.proxy.trouble import trouble_of
from evopolicy.kernel.ports.protocols import AgentLimits
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import Usage
from evopolicy.kernel.run.prices import Price, PriceTable
from evopolicy.kernel.run.stream import PROXY_LOG
from tests.execution import upstream as up
from tests.execution.conftest import PATIENCE, becomes

NO_LIMITS = AgentLimits(None, None, 0)
PRICES = PriceTable(
    "2026-11-30", "a test", {"dear": Price(1000, 100, 2000, 10_000), "cheap": Price(1, 1, 1, 1)}
)
PATHS = (
    "POST /responses",
    "POST /messages",
    "POST /chat/completions",
    "POST /models/m:streamGenerateContent",
)
Serve = Callable[..., Proxy]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a provider that answers as told, and a proxy before it."""
    ends: list[Callable[[], None]] = []

    def start(answer: Any, limits: AgentLimits = NO_LIMITS, **options: Any) -> Proxy:
        upstream = up.Upstream(answer)
        logs = tmp_path / f"attempt-{len(ends) // 2 + 1}"
        logs.mkdir()
        provider = ModelProvider(
            upstream.url, options.pop("paths", PATHS), hosts=options.pop("hosts", ())
        )
        proxy = Proxy(
            provider,
            "",
            tmp_path / f"{logs.name}.sock",
            logs,
            limits=limits,
            prices=PRICES,
            **options,
        )
        ends.extend((upstream.close, proxy.close))
        return proxy

    yield start
    for end in reversed(ends):
        end()


def ask(tmp_path: Path, target: str = "/responses", body: Any = None, attempt: int = 1) -> int:
    """The status of one request whose answer is read as far as it comes; 0 where it is broken
    off."""
    client = up.Client(tmp_path / f"attempt-{attempt}.sock")
    try:
        client.request("POST", target, json.dumps(body or {"model": "m"}).encode())
        response = client.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        client.close()


def served(proxy: Proxy, count: int = 1) -> ProxyUsage:
    """What it says once `count` requests are in its log: each is written after its answer."""
    path = proxy.log._path
    assert becomes(lambda: path.exists() and path.read_bytes().count(b"\n") >= count), (
        f"{count} lines are needed"
    )
    return proxy.proxy_usage()


def events(*said: Any) -> Any:
    def answer(link: socket.socket, _: Any) -> None:
        link.sendall(
            up.EVENTS
            + b"".join(up.chunk(f"data: {json.dumps(event)}\n\n") for event in said)
            + b"0\r\n\r\n"
        )

    return answer


# --- the protocols --------------------------------------------------------------------------------

RESPONSES = (
    {"type": "response.created", "response": {"id": "resp_1", "error": None}},
    {
        "type": "response.completed",
        "response": {
            "id": "resp_1",
            "error": None,
            "usage": {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 5},
                "output_tokens": 4,
                "output_tokens_details": {"reasoning_tokens": 3},
            },
        },
    },
)
MESSAGES = (
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "usage": {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 1},
        },
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
)
CHAT = (
    {"id": "chat_1", "choices": [{"delta": {"content": "hello", "id": "no"}}]},
    {
        "id": "chat_1",
        "choices": [],
        "usage": {
            "prompt_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 5},
            "completion_tokens": 4,
        },
    },
)
GEMINI = (
    {"responseId": "gem_1", "candidates": [{"content": {"parts": [{"text": "hello"}]}}]},
    {
        "responseId": "gem_1",
        "usageMetadata": {
            "promptTokenCount": 9,
            "cachedContentTokenCount": 5,
            "candidatesTokenCount": 1,
            "thoughtsTokenCount": 3,
        },
    },
)


@pytest.mark.parametrize(
    ("target", "stream", "response", "reasoning"),
    [
        ("/responses", RESPONSES, "resp_1", 3), ("/messages", MESSAGES, "msg_1", 0),
        ("/chat/completions", CHAT, "chat_1", 0), ("/models/m:streamGenerateContent", GEMINI, "gem_1", 3),
    ],
)  # fmt: skip
def test_every_protocols_answers_are_counted_by_their_ids(
    serve: Serve, tmp_path: Path, target: str, stream: Any, response: str, reasoning: int
) -> None:
    proxy = serve(events(*stream))
    assert proxy.proxy_usage() == ProxyUsage(Usage(0, 0, 0, 0, 0, requests=0), answers=0)
    assert ask(tmp_path, target) == 200
    expected = ProxyUsage(
        Usage(4, 5, 0, 4, reasoning, requests=1), responses={response: 13}, answers=1
    )
    assert served(proxy) == expected
    proxy.close()
    assert proxy.proxy_usage() == expected, "also after it is closed"
    assert json.loads(proxy.log._path.read_text())["response"] == response


@pytest.mark.parametrize(
    ("whole", "response"),
    [
        ({"id": "resp_2", "error": None, "usage": {"input_tokens": 2, "output_tokens": 3}}, "resp_2"),
        ({"id": "msg_2", "type": "message", "usage": {"input_tokens": 2, "output_tokens": 3}}, "msg_2"),
        ({"id": "chat_2", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3}}, "chat_2"),
        ({"responseId": "gem_2", "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 3}}, "gem_2"),
    ],
)  # fmt: skip
def test_answers_that_come_at_once_have_ids_too(
    serve: Serve, tmp_path: Path, whole: Any, response: str
) -> None:
    proxy = serve(up.says(whole))
    assert [ask(tmp_path) for _ in range(2)] == [200, 200]
    assert served(proxy, 2).responses == {response: 10}, "one id, two answers"


def test_tokens_that_are_not_reported_are_said_to_be_estimated(
    serve: Serve, tmp_path: Path
) -> None:
    proxy = serve(up.says({"choices": [{"message": {"content": "y" * 400}}]}))
    ask(tmp_path)
    assert served(proxy).estimated and served(proxy).usage.output_tokens == 100


# --- how the provider failed ----------------------------------------------------------------------


def cut(link: socket.socket, _: Any) -> None:
    link.sendall(up.EVENTS + up.chunk('data: {"a": 1}\n\n'))
    up.reset(link)


def short(link: socket.socket, _: Any) -> None:
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello")


def stalled(link: socket.socket, _: Any) -> None:
    link.sendall(up.EVENTS + up.chunk('data: {"a": 1}\n\n'))
    link.recv(1)


def refused(status: str, **error: Any) -> Any:
    return up.says({"type": "error", "error": error}, status)


FAULTS = [
    (refused("429 Too Many Requests", message="slow down"), "rate_limit"),
    (refused("500 Internal Server Error"), "overload"), (refused("503 Unavailable"), "overload"),
    (refused("529 Overloaded"), "overload"), (refused("401 Unauthorized"), "authentication"),
    (refused("402 Payment Required"), "authentication"), (refused("403 Forbidden"), "authentication"),
    (refused("408 Request Timeout"), "network"), (refused("404 Not Found", message="no such model"), "other"),
    (refused("400 Bad Request", code="context_length_exceeded"), "context"),
    (refused("400 Bad Request", message="prompt is too long: 210000 tokens > 200000 maximum"), "context"),
    (refused("400 Bad Request", message="The input token count (1) exceeds the maximum"), "context"),
    (refused("400 Bad Request", message="API key not valid. Please pass a valid API key."), "authentication"),
    (refused("400 Bad Request", message="unknown field"), "other"),
    (events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), "overload"),
    (events(RESPONSES[0], {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}}),
     "rate_limit"),
    (events(RESPONSES[0], {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded"}}}),
     "context"),
    (events({"error": {"code": 503, "status": "UNAVAILABLE"}}), "overload"),
    (cut, "network"), (short, "network"), (stalled, "network"), (lambda link, _: up.reset(link), "network"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "trouble"), FAULTS)
def test_a_fault_is_told_until_the_next_success(
    serve: Serve, tmp_path: Path, fault: Any, trouble: str
) -> None:
    answers = [fault, up.says({"usage": {"input_tokens": 1, "output_tokens": 1}})]
    seconds = 0.5 if fault is stalled else PATIENCE
    proxy = serve(lambda link, asked: answers.pop(0)(link, asked), answer_seconds=seconds)
    ask(tmp_path)
    proxy.state.answer_seconds = PATIENCE
    assert served(proxy).trouble == trouble
    assert json.loads(proxy.log._path.read_text().splitlines()[0])["trouble"] == trouble
    assert ask(tmp_path) == 200
    assert served(proxy, 2).trouble == ""


def test_a_provider_that_cannot_be_reached_is_the_networks_trouble(tmp_path: Path) -> None:
    proxy = Proxy(
        ModelProvider("http://127.0.0.1:1", PATHS),
        "",
        tmp_path / "attempt-1.sock",
        tmp_path,
        limits=NO_LIMITS,
    )
    assert ask(tmp_path) == 502
    assert served(proxy).trouble == "network"
    proxy.close()


def test_what_the_proxy_itself_refuses_is_no_trouble_and_costs_nothing(
    serve: Serve, tmp_path: Path
) -> None:
    proxy = serve(refused("429 Too Many Requests"))
    ask(tmp_path)
    assert ask(tmp_path, "/files") == 403
    assert ask(tmp_path, body={"tools": [{"type": "web_search"}]}) == 403
    found = served(proxy, 3)
    assert (found.trouble, found.over, found.usage.requests) == ("rate_limit", "", 1)


def test_an_overloaded_answer_without_a_word_costs_nothing(serve: Serve, tmp_path: Path) -> None:
    proxy = serve(
        events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    )
    ask(tmp_path, body={"x": "y" * 4000})
    assert served(proxy).usage == Usage(0, 0, 0, 0, 0, requests=1)


@pytest.mark.parametrize(("seconds", "trouble"), [(3600.0, ""), (0.0, "network")])
def test_an_agent_that_gives_up_blames_only_a_provider_that_was_silent_for_long(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, trouble: str
) -> None:
    monkeypatch.setattr(proxy_request, "SILENT_SECONDS", seconds)
    asked, over = threading.Event(), threading.Event()

    def silent(_link: socket.socket, _: Any) -> None:
        asked.set()
        over.wait(PATIENCE)

    proxy = serve(silent)
    client = up.Client(tmp_path / "attempt-1.sock")
    client.request("POST", "/responses", b"{}")
    assert asked.wait(PATIENCE)
    client.close()
    assert served(proxy).trouble == trouble
    over.set()


def test_a_request_that_the_host_hangs_up_on_is_counted_and_not_the_providers_fault(
    serve: Serve, tmp_path: Path
) -> None:
    over = threading.Event()

    def slow(link: socket.socket, _: Any) -> None:
        link.sendall(up.EVENTS + up.chunk(f"data: {json.dumps(MESSAGES[0])}\n\n"))
        over.wait(PATIENCE)

    proxy = serve(slow)
    client = up.Client(tmp_path / "attempt-1.sock")
    client.request("POST", "/messages", b"{}")
    assert client.getresponse().read1(10)
    proxy.close()
    found = proxy.proxy_usage()
    assert (found.usage.input_tokens, found.usage.cached_tokens, found.trouble) == (4, 5, "")
    over.set()
    client.close()


def test_words_that_only_sound_like_a_fault_are_none() -> None:
    assert trouble_of(400, "the field 'quota' is unknown") == "other"
    assert trouble_of(0, '{"code": "something new"}') == "other"
    assert trouble_of(413, "") == "context"


# --- limits ---------------------------------------------------------------------------------------


def test_cost_over_the_cap_is_refused_and_earlier_attempts_count(
    serve: Serve, tmp_path: Path
) -> None:
    usage = up.says({"id": "a", "usage": {"input_tokens": 100, "output_tokens": 10}})  # 0.2 dollars
    limits = replace(NO_LIMITS, cost_usd=0.35)
    first = serve(usage, limits)
    assert ask(tmp_path, body={"model": "dear"}) == 200
    assert (
        served(first).usage.cost_usd == pytest.approx(0.2) and served(first).usage.cost_is_estimate
    )
    first.close()
    second = serve(usage, limits)
    assert second.proxy_usage().usage.requests == 0 and second.log.cost_usd == pytest.approx(0.2)
    assert ask(tmp_path, body={"model": "cheap"}, attempt=2) == 200
    assert served(second).over == "" and served(second).usage.cost_usd == pytest.approx(0.00011)
    assert ask(tmp_path, body={"model": "dear-20261101"}, attempt=2) == 200
    served(second, 2)
    assert ask(tmp_path, body={"model": "cheap"}, attempt=2) == 403
    assert served(second, 3).over == "cost" and served(second, 3).usage.requests == 2
    assert "session.limits.cost_usd" in second.log.begin()


def test_the_cost_of_a_model_without_a_price_is_not_known(serve: Serve, tmp_path: Path) -> None:
    proxy = serve(
        up.says({"usage": {"input_tokens": 100, "output_tokens": 10}}),
        replace(NO_LIMITS, cost_usd=0.1),
    )
    assert ask(tmp_path, body={"model": "cheap"}) == 200
    assert ask(tmp_path, body={"model": "new"}) == 200
    assert served(proxy, 2).usage.cost_usd is None and served(proxy, 2).over == ""


@pytest.mark.parametrize("limit", ["requests", "tokens"])
def test_the_limit_that_refused_a_request_is_named(
    serve: Serve, tmp_path: Path, limit: str
) -> None:
    usage = up.says({"usage": {"input_tokens": 1, "output_tokens": 1}})
    proxy = serve(usage, replace(NO_LIMITS, **{limit: 1}))
    assert ask(tmp_path) == 200
    assert served(proxy).over == ""
    assert ask(tmp_path) == 403
    assert served(proxy, 2).over == limit
    assert served(proxy, 2).trouble == ""


def test_cost_without_a_line_of_its_own_is_spent_in_the_next_attempt_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evopolicy.execution.proxy.log.MAX_LINES", 1)
    for name in ("attempt-1", "attempt-2"):
        (tmp_path / name).mkdir()
    first = ProxyLog(tmp_path / "attempt-1", NO_LIMITS, PRICES)
    for _ in range(3):
        first.begin()
        first.write({"model": "dear", "input_tokens": 100, "output_tokens": 10})
    assert ProxyLog(tmp_path / "attempt-2", NO_LIMITS, PRICES).cost_usd == pytest.approx(0.6)


def sign(trouble: Any, began: float, at: float) -> ProviderSign:
    return ProviderSign(trouble, began, at, "its words")


def test_the_newest_sign_tells_how_the_provider_is_in_whatever_order_requests_end(
    tmp_path: Path,
) -> None:
    (tmp_path / "attempt-1").mkdir()
    log = ProxyLog(tmp_path / "attempt-1", NO_LIMITS)
    log.write({"status": 200}, sign("", 2.0, 3.0))
    log.write({"status": 500}, sign("overload", 1.0, 2.0))
    assert (log.proxy_usage().trouble, log.proxy_usage().waited_seconds) == ("", 0)
    log.write({"status": 500}, sign("overload", 3.0, 4.0))
    assert (log.proxy_usage().trouble, log.proxy_usage().words, log.proxy_usage().answers) == (
        "overload",
        "its words",
        1,
    )
    assert log.proxy_usage().failing_seconds > 0
    log.write({"status": 500}, sign("rate_limit", 10.0, 11.0))
    log.write({"status": 200}, sign("", 13.0, 20.0))
    log.write({}, None)
    assert (log.proxy_usage().trouble, log.proxy_usage().failing_seconds) == ("", 0)
    assert log.proxy_usage().waited_seconds == 10, (
        "from the first request that failed to the one that was answered"
    )


def test_the_log_of_a_killed_host_tells_of_the_provider_what_the_proxy_knew(tmp_path: Path) -> None:
    """An attempt it cut short had all its waiting counted as thinking, and calls at once as
    turns."""
    (tmp_path / "attempt-1").mkdir()
    log = ProxyLog(tmp_path / "attempt-1", NO_LIMITS)
    requests = [
        ("", 2.0, 3.0),
        ("overload", 1.0, 2.0),
        ("overload", 3.0, 4.0),
        ("", 13.0, 20.0),
        (None, 21.0, 22.0),
    ]
    for trouble, began, at in requests:
        log.begin()
        log.write(
            {"time": began, "seconds": at - began},
            None if trouble is None else sign(trouble, began, at),
        )
    known, read = log.proxy_usage(), proxy_usage_before(tmp_path / "attempt-1")
    assert read is not None
    assert (read.trouble, read.answers, read.waited_seconds) == (
        known.trouble,
        known.answers,
        known.waited_seconds,
    )
    assert (read.answers, read.waited_seconds) == (2, 10)
    log.begin()
    log.write({"time": 30.0, "seconds": 5.0}, sign("rate_limit", 30.0, 35.0))
    assert (read := proxy_usage_before(tmp_path / "attempt-1"))
    assert (read.trouble, read.failing_seconds, read.waited_seconds) == ("rate_limit", 5, 15)


def test_nothing_in_the_agents_home_is_taken_for_a_log(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "attempt-1").mkdir()
    for name in (PROXY_LOG, MORE):
        (tmp_path / "home" / name).write_text('{"requests": 9, "tokens": 9, "input_tokens": 9}\n')
    log = ProxyLog(tmp_path / "attempt-1", NO_LIMITS)
    assert (log.requests, log.tokens) == (0, 0)


def test_a_tunnel_counts_nothing_and_tells_whether_its_hosts_are_reached(
    serve: Serve, tmp_path: Path
) -> None:
    proxy = serve(up.says({}), tunnel=True, hosts=("localhost:1",))
    client = up.Client(tmp_path / "attempt-1.sock")
    client.request("CONNECT", "localhost:1")
    assert client.getresponse().status == 502
    client.close()
    said = served(proxy)
    assert (said.usage, said.trouble, said.answers) == (Usage(), "network", None)
    assert said.words.startswith("localhost:1: the provider cannot be reached")
