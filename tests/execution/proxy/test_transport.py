"""What the proxy makes of connections: what cannot be read, comes too slowly, is not taken, ends on
one side only."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution.proxy import request as proxy_request
from evopolicy.execution.proxy import server as proxy_server
from evopolicy.execution.proxy.server import Proxy
from evopolicy.kernel.ports.protocols import AgentLimits, Provider
from evopolicy.kernel.run.stream import PROXY_LOG
from tests.execution import upstream as up
from tests.execution.conftest import PATIENCE, becomes

HEAD = b"POST /chat HTTP/1.1\r\nHost: x\r\n"
Start = Callable[..., Proxy]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a provider that answers as told, and a proxy before it."""
    with contextlib.ExitStack() as ends:

        def start(answer: up.Answer, **options: Any) -> Proxy:
            upstream = ends.enter_context(up.provider(answer))
            provider = Provider(
                upstream.url,
                ("POST /chat",),
                refused_tools=(),
                hosts=(f"localhost:{upstream.port}",),
            )
            limits = AgentLimits(None, None, 0)
            return ends.enter_context(
                contextlib.closing(
                    Proxy(provider, "", tmp_path / "s", tmp_path, limits=limits, **options)
                )
            )

        yield start


@contextlib.contextmanager
def connection(tmp_path: Path, *sent: bytes) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(PATIENCE)
        link.connect(str(tmp_path / "s"))
        for data in sent:
            link.sendall(data)
        yield link


def rest(link: socket.socket) -> bytes:
    """What comes until the other end closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := link.recv(1 << 16):
            received += data
    return received


def asks(tmp_path: Path) -> bytes:
    with connection(tmp_path, HEAD + b"Content-Length: 2\r\n\r\n{}") as link:
        return rest(link)


def lines(tmp_path: Path, count: int = 1) -> list[dict[str, Any]]:
    path = tmp_path / PROXY_LOG
    assert becomes(lambda: path.exists() and path.read_bytes().count(b"\n") >= count), (
        f"{count} lines are needed"
    )
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- what is no request, or too large a one -------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01" * 9, b"FOO /chat HTTP/1.1\r\nHost: x\r\n\r\n", b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT x:99999999 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", HEAD + b"Content-Length: two\r\n\r\n{}",
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n",
        HEAD + b"X: x\r\n" * 200 + b"\r\n",
    ],
    ids=lambda sent: str(sent[:40]),
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_the_proxys_words_and_harms_no_other(
    start: Start, tmp_path: Path, sent: bytes
) -> None:
    start(up.says({}))
    with connection(tmp_path, sent) as link:
        said = rest(link)
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"400" and b"aiohttp" not in head
    assert json.loads(body)["error"]["message"] == "EvoPolicy: the request cannot be read."
    assert asks(tmp_path).startswith(b"HTTP/1.1 200")


def test_a_long_header_and_a_long_target_pass(start: Start, tmp_path: Path) -> None:
    asked: list[up.Asked] = []

    def answer(link: socket.socket, this: up.Asked) -> None:
        asked.append(this)
        up.says({})(link, this)

    start(answer)
    head = HEAD.replace(b"/chat", b"/chat?beta=" + b"b" * 30_000) + b"X-Long: " + b"x" * 60_000
    with connection(tmp_path, head + b"\r\nContent-Length: 2\r\n\r\n{}") as link:
        assert rest(link).startswith(b"HTTP/1.1 200")
    assert (len(asked[0].headers["x-long"]), len(asked[0].target)) == (
        60_000,
        len("/chat?beta=") + 30_000,
    )


def test_headers_reach_the_other_end_in_their_order_and_as_often_as_they_are_there(
    start: Start, tmp_path: Path
) -> None:
    def answer(link: socket.socket, _: up.Asked) -> None:
        link.sendall(b"HTTP/1.1 200 Fine\r\nB: 1\r\nA: 2\r\nB: 3\r\n")
        link.sendall(b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx")

    start(answer)
    said = asks(tmp_path)
    assert said.startswith(
        b"HTTP/1.1 200 Fine\r\nB: 1\r\nA: 2\r\nB: 3\r\nContent-Encoding: gzip\r\n"
    )
    assert said.endswith(b"\r\n\r\nxx"), "nothing is unpacked"


def test_a_header_that_must_not_be_sent_is_the_providers_fault(
    start: Start, tmp_path: Path
) -> None:
    start(
        lambda link, _: link.sendall(b"HTTP/1.1 200 OK\r\nX: a\x01b\r\nContent-Length: 2\r\n\r\n{}")
    )
    assert asks(tmp_path).startswith(b"HTTP/1.1 502")
    assert lines(tmp_path)[0]["error"] == "provider_unreachable"


def test_an_agent_that_waits_to_be_told_to_go_on_is_told(start: Start, tmp_path: Path) -> None:
    start(up.says({}))
    with connection(tmp_path, HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n") as link:
        assert link.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(b"{}")
        assert rest(link).startswith(b"HTTP/1.1 200")


def test_one_request_a_connection_is_answered(start: Start, tmp_path: Path) -> None:
    start(up.says({"ok": 1}))
    with connection(tmp_path, (HEAD + b"Content-Length: 2\r\n\r\n{}") * 3) as link:
        assert rest(link).count(b"HTTP/1.1 200") == 1
    assert len(lines(tmp_path)) == 1


# --- too slow, too many ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"", b"POST /chat HT", HEAD + b"Content-Length: 9\r\n\r\n{"], ids=str
)
def test_a_request_that_does_not_come_in_time_is_hung_up_on(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    for module in (proxy_request, proxy_server):
        monkeypatch.setattr(module, "READ_SECONDS", 0.05)
    start(up.says({}))
    with connection(tmp_path, sent) as link:
        rest(link)
    if b"\r\n\r\n" in sent:
        assert lines(tmp_path)[0]["error"].startswith("the agent left")


def test_an_answer_that_is_not_taken_is_hung_up_on_and_paid_for(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_request, "READ_SECONDS", 0.5)
    start(
        up.says(
            {"content": "x" * (4 << 20), "usage": {"prompt_tokens": 1, "completion_tokens": 10**6}}
        )
    )
    with connection(tmp_path, HEAD + b"Content-Length: 2\r\n\r\n{}") as link:
        (line,) = lines(tmp_path)
        assert line["error"] == "the agent left" and line["output_tokens"] == 10**6
        assert len(rest(link)) < 4 << 20


def test_connections_over_the_bound_are_closed(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_server, "CONNECTIONS", 2)
    start(up.says({}))
    with connection(tmp_path, b"POST") as first, connection(tmp_path, b"POST"):
        with connection(tmp_path) as third:
            assert rest(third) == b""
        first.close()
        assert becomes(lambda: asks(tmp_path).startswith(b"HTTP/1.1 200"))


def test_a_tunnel_that_is_refused_is_read_on_until_the_agent_has_the_answer(
    start: Start, tmp_path: Path
) -> None:
    start(up.says({}), tunnel=True)
    with connection(tmp_path, b"CONNECT other:443 HTTP/1.1\r\nHost: x\r\n\r\n") as link:
        assert link.recv(1 << 16).startswith(b"HTTP/1.1 403")
        link.sendall(b"said too early")
        assert rest(link) == b""


# --- one end that is gone -------------------------------------------------------------------------


def test_a_tunnel_whose_near_end_has_said_all_carries_what_the_far_end_says(
    start: Start, tmp_path: Path
) -> None:
    proxy = start(up.says({}), tunnel=True)
    with socket.create_server(("127.0.0.1", 0)) as far:
        host = f"localhost:{far.getsockname()[1]}"
        proxy.state.hosts = frozenset({host})
        with connection(tmp_path, f"CONNECT {host} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) as near:
            with far.accept()[0] as end:
                assert near.recv(1000).startswith(b"HTTP/1.1 200")
                near.shutdown(socket.SHUT_WR)
                assert end.recv(100) == b"", "the end is carried too"
                end.sendall(b"y" * 10_000)
            assert len(rest(near)) == 10_000
    (line,) = lines(tmp_path)
    assert (line["bytes_up"], line["bytes"], line["answered"]) == (
        0,
        10_000,
        True,
    ) and "error" not in line


def test_closing_counts_each_request_once_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    asked, over = threading.Semaphore(0), threading.Event()

    def answer(link: socket.socket, this: up.Asked) -> None:
        if this.json:
            link.sendall(up.EVENTS + up.chunk('data: {"usage": {"prompt_tokens": 7}}\n\n'))
        asked.release()
        over.wait(PATIENCE)

    with contextlib.ExitStack() as links:
        before = _open()
        proxy = start(answer)
        streaming = links.enter_context(
            connection(tmp_path, HEAD + b'Content-Length: 7\r\n\r\n{"a":1}')
        )
        left = links.enter_context(connection(tmp_path, HEAD + b'Content-Length: 7\r\n\r\n{"a":1}'))
        links.enter_context(connection(tmp_path, HEAD + b"Content-Length: 2\r\n\r\n{}"))
        links.enter_context(connection(tmp_path, b"POST"))
        assert streaming.recv(1000) and left.recv(1000)
        assert all(asked.acquire(timeout=PATIENCE) for _ in range(3))
        left.close()
        proxy.close()
        over.set()
    found = lines(tmp_path, 3)
    assert len(found) == 3 and sorted(line.get("input_tokens", 0) for line in found) == [0, 7, 7]
    assert all("left" in line["error"] for line in found) and not any(
        "trouble" in line for line in found
    )
    assert not any(thread.name == "agent-proxy" for thread in threading.enumerate())
    # The provider's own listener and its thread are this test's.
    assert becomes(lambda: _open() <= before + 1), "descriptors are left"
    proxy.close()


def _open() -> int:
    """The sockets and whatever else this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_nothing_of_the_transport_is_imported_before_an_agent_needs_a_network() -> None:
    program = "import sys, evopolicy.execution.agent.launcher; print('aiohttp' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert found.stdout == "False\n"
