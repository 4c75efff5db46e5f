"""The Host's way between an agent's sandbox and its provider: a reverse proxy, or a tunnel to named hosts.

It listens on a Unix socket, holds the key, lets through what `proxy_rules` allows, streams answers as they come and
logs every request. It runs in threads of its own: whatever happens to a request is that request's affair alone.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import socket
import socketserver
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from evopolicy.execution.agent_network import allowed_hosts
from evopolicy.execution.proxy_rules import (
    MAX_BODY_BYTES,
    Turned,
    answer_headers,
    checked_body,
    pinned,
    request_headers,
    too_large,
)
from evopolicy.execution.proxy_upstream import Watch, connected, connected_socket, hang_up, unreachable
from evopolicy.execution.proxy_usage import ProxyLog, UsageReader
from evopolicy.execution.tunnel import carry
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports import AgentLimits, Provider

log = logging.getLogger(__name__)

IN_FLIGHT = 16
"""Requests read or at the provider at once; further ones are told to come back."""
CONNECTIONS = 64
"""Open at once, tunnels included; further ones are closed."""
READ_SECONDS = 60.0
"""For the agent to send its request."""
ANSWER_SECONDS = 600.0
"""Between two pieces of the provider's answer."""
BUSY_SECONDS = 2.0
LAST_SECONDS = 1.0
LEFT_BYTES = 16 << 20
"""Of an answer, read on for its usage after the agent left."""
_CHUNK = 1 << 16


class Proxy:
    """A running proxy; its threads end with `close`, or with the Host."""

    def __init__(
        self,
        provider: Provider,
        key: str,
        path: Path,
        logs: Path,
        *,
        limits: AgentLimits,
        tunnel: bool = False,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Listen on the socket `path`. `tunnel`: connect to `provider.hosts` and do nothing else.

        Raises ExecutionError where the socket cannot be made.
        """
        self.provider = provider
        self.key = key
        self.limits = limits
        self.hosts = allowed_hosts(provider) if tunnel else frozenset[str]()
        self.tunnel = tunnel
        self.answer_seconds = answer_seconds
        self.log = ProxyLog(logs)
        self.in_flight = threading.BoundedSemaphore(IN_FLIGHT)
        self.context = ssl.create_default_context() if urlsplit(provider.url).scheme == "https" else None
        self._links: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._server = _listening(path, self)
        except OSError as error:
            raise ExecutionError(f"the proxy's socket cannot be made ({error}); set TMPDIR to a local folder") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="agent-proxy", daemon=True)
        self._thread.start()

    def hold(self, link: socket.socket) -> bool:
        """Keep `link` so that `close` can end it. False where there are too many, or the proxy is closed."""
        with self._lock:
            if self._closed or len(self._links) >= 2 * CONNECTIONS:
                return False
            self._links.add(link)
            return True

    def let_go(self, link: socket.socket) -> None:
        with self._lock:
            self._links.discard(link)

    def close(self) -> None:
        """Hang up on everyone. Waits for nobody at the other end."""
        with self._lock:
            self._closed, links = True, list(self._links)
        for link in links:
            hang_up(link)
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS

    def __init__(self, address: str, proxy: Proxy) -> None:
        self.proxy = proxy
        super().__init__(address, _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 (socketserver's)
        return self.proxy.hold(request)

    def shutdown_request(self, request: Any) -> None:
        self.proxy.let_go(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (socketserver's)
        log.debug("a request of the agent failed", exc_info=True)


def _listening(path: Path, proxy: Proxy) -> _Server:
    # An address of a Unix socket holds about 107 bytes, so a longer path is named by its folder's descriptor.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        return _Server(f"/proc/self/fd/{folder}/{path.name}", proxy)
    finally:
        os.close(folder)


class _Handler(BaseHTTPRequestHandler):
    """One request of the agent's, on a connection of its own."""

    protocol_version = "HTTP/1.1"
    timeout = READ_SECONDS
    server: _Server

    def handle(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.handle_one_request()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (http.server's)
        pass  # what it would say holds nothing the log has not

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._answer  # every method is answered, and logged, the same way
        raise AttributeError(name)

    def _answer(self) -> None:
        self.close_connection = True
        proxy, began = self.server.proxy, time.monotonic()
        entry: dict[str, Any] = {
            "time": round(time.time(), 3), "method": self.command[:20], "path": self.path.partition("?")[0][:200],
        }  # fmt: skip
        try:
            if proxy.tunnel:
                self._connect(proxy, entry)
            else:
                self._pass_on(proxy, entry)
        except Turned as turned:
            kind = "error" if turned.status in (502, 504) else "refused"
            entry |= {"status": turned.status, kind: turned.code}
            self._refuse(turned)
        except OSError as error:  # the agent hung up
            entry.setdefault("error", f"the agent left: {type(error).__name__}")
        finally:
            proxy.log.write({**entry, "seconds": round(time.monotonic() - began, 3)})

    def _refuse(self, turned: Turned) -> None:
        body = turned.body()
        with contextlib.suppress(OSError):
            self.send_response_only(turned.status)
            if turned.retry_after is not None:
                self.send_header("Retry-After", f"{turned.retry_after:g}")
            for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.connection.shutdown(socket.SHUT_WR)
            # What the agent still sends is read away: closing over it would take the answer from it.
            self.connection.settimeout(LAST_SECONDS)
            for _ in range(4 * MAX_BODY_BYTES // _CHUNK):
                if not self.connection.recv(_CHUNK):
                    break

    # --- a tunnel --------------------------------------------------------------------------------------------------

    def _connect(self, proxy: Proxy, entry: dict[str, Any]) -> None:
        host = self.path.lower()
        if self.command != "CONNECT" or host not in proxy.hosts:
            allowed = ", ".join(sorted(proxy.hosts))
            raise Turned(403, "host_refused", f"'{self.path[:200]}' is not among the hosts of this Run: {allowed}.")
        _count(proxy)
        name, _, port = host.rpartition(":")
        try:
            link = connected_socket(name.strip("[]"), int(port))
        except ValueError as error:
            raise unreachable(error) from None
        with link, _held(proxy, link):
            self.send_response_only(200, "Connection established")
            self.end_headers()
            entry["status"] = 200
            self.connection.setblocking(False)
            # What came along with the request is not the socket's any more.
            early = cast(BufferedReader, self.rfile).peek()
            entry["bytes_up"], entry["bytes"] = carry(self.connection, early, link, proxy.answer_seconds)

    # --- the reverse proxy -----------------------------------------------------------------------------------------

    def _pass_on(self, proxy: Proxy, entry: dict[str, Any]) -> None:
        path, target = pinned(proxy.provider, self.command, self.path)
        # Before the body is read: what is held in memory is bounded by it.
        if not proxy.in_flight.acquire(blocking=False):
            raise Turned(429, "too_many", f"more than {IN_FLIGHT} requests at once are too many.", BUSY_SECONDS)
        link: http.client.HTTPConnection | None = None
        try:
            encoding = self.headers.get("Content-Encoding", "")
            model, body = checked_body(proxy.provider, self.command, path, self._body(), encoding)
            entry |= {"path": path, "model": model, "bytes_up": len(body)}
            _count(proxy)
            link, before, own = connected(proxy.provider.url, proxy.context)
            link.sock.settimeout(proxy.answer_seconds)
            with _held(proxy, link.sock), Watch(self.connection, link.sock) as watch:
                try:
                    answer = self._ask(proxy, link, before + target, body, own, watch)
                except ConnectionAbortedError:
                    entry |= UsageReader("", path, len(body)).usage(whole=False)
                    raise
                usage = UsageReader(answer.getheader("Content-Type", ""), path, len(body), answer.status)
                self._stream(proxy, answer, entry, usage, watch)
        finally:
            if link is not None:
                link.close()
            proxy.in_flight.release()

    def _body(self) -> bytes:
        """The request's body, bounded. Raises Turned."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        length = self.headers.get("Content-Length", "0")
        if not length.isascii() or not length.isdigit():
            raise Turned(400, "body_refused", "the Content-Length is no number.")
        if int(length) > MAX_BODY_BYTES:
            raise too_large()
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the request's body was cut off")
        return body

    def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            try:
                size = int(self.rfile.readline(100).split(b";")[0], 16)
            except ValueError:
                raise Turned(400, "body_refused", "the body's chunks cannot be read.") from None
            if size < 0 or len(body) + size > MAX_BODY_BYTES:
                raise too_large()
            if size == 0:
                while self.rfile.readline(1000).strip():
                    pass
                return bytes(body)
            body += self.rfile.read(size)
            self.rfile.readline(100)

    def _ask(
        self,
        proxy: Proxy,
        link: http.client.HTTPConnection,
        target: str,
        body: bytes,
        own: dict[str, str],
        watch: Watch,
    ) -> http.client.HTTPResponse:
        try:
            link.putrequest(self.command, target, skip_accept_encoding=True)
            for name, value in (*request_headers(proxy.provider, proxy.key, self.headers.items()), *own.items()):
                link.putheader(name, value)
            if self.command == "POST":
                link.putheader("Content-Length", str(len(body)))
            link.endheaders(body)
            answer = link.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            if watch.left:
                raise ConnectionAbortedError("before the answer") from None
            raise unreachable(error) from None
        watch.answering = True
        return answer

    def _stream(
        self,
        proxy: Proxy,
        answer: http.client.HTTPResponse,
        entry: dict[str, Any],
        usage: UsageReader,
        watch: Watch,
    ) -> None:
        """Hand on every piece as it comes. An answer that breaks off is broken off here too.

        When the agent leaves, the rest is read for its usage, as far as `watch` and LEFT_BYTES let it.
        """
        entry["status"] = answer.status
        length = answer.length if not answer.chunked else None
        with self._leaving(watch):
            self._head(proxy, answer, length)
        total, rest, whole = 0, 0, False
        try:
            while data := _piece(answer):
                total += len(data)
                usage.feed(data)
                if not watch.broken:
                    with self._leaving(watch):
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if length is None else data)
                else:
                    rest += len(data)
                    if rest > LEFT_BYTES:
                        raise _Broken("the rest of the answer is too long")
            whole = length is None or total >= length
            if not whole:
                entry["error"] = "the provider's answer was cut off"
            elif length is None and not watch.broken:
                with self._leaving(watch):
                    self.wfile.write(b"0\r\n\r\n")
        except _Broken as broken:
            entry["error"] = str(broken)
        finally:
            if watch.broken:
                entry["error"] = "the agent left" + ("" if whole else "; " + entry.get("error", "not read to its end"))
            entry |= {"bytes": total, **usage.usage(whole=whole)}

    @contextlib.contextmanager
    def _leaving(self, watch: Watch) -> Any:
        try:
            yield
        except OSError:
            watch.leave(broken=True)

    def _head(self, proxy: Proxy, answer: http.client.HTTPResponse, length: int | None) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer_headers(proxy.provider, answer.status, answer.getheaders()):
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()


class _Broken(Exception):
    """The provider's answer broke off."""


def _piece(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read1(_CHUNK)
    except TimeoutError:
        raise _Broken("the provider's answer stalled") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _Broken(f"the provider's answer broke off: {type(error).__name__}") from None


def _count(proxy: Proxy) -> None:
    if over := proxy.log.begin(proxy.limits.requests, proxy.limits.tokens):
        raise Turned(403, "limit", over)


@contextlib.contextmanager
def _held(proxy: Proxy, link: socket.socket) -> Any:
    if not proxy.hold(link):
        raise Turned(502, "closing", "the Host is closing this Run, or too many connections are open.")
    try:
        yield
    finally:
        proxy.let_go(link)
