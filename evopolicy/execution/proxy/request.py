"""One request of an agent's: checked, passed on to its provider, its answer handed on and counted."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from typing import Any, cast

from evopolicy.execution.proxy.log import ProviderSign
from evopolicy.execution.proxy.rules import (
    MAX_BODY_BYTES,
    Turned,
    answer_headers,
    checked_body,
    pinned,
    request_headers,
    too_large,
)
from evopolicy.execution.proxy.state import ProxyState
from evopolicy.execution.proxy.tunnel import carry
from evopolicy.execution.proxy.upstream import AgentPresence, connected, connected_socket, unreachable
from evopolicy.execution.proxy.usage import UsageReader
from evopolicy.kernel.ports.transcript import TOKENS, ErrorKind

READ_SECONDS = 60.0
"""For the agent to send its request."""
BUSY_SECONDS = 2.0
LAST_SECONDS = 1.0
LEFT_BYTES = 16 << 20
"""Of an answer, read on for its usage after the agent left."""
SILENT_SECONDS = 60.0
"""A provider that sends nothing for so long is to blame where the agent gives up."""
_UNREACHED = ("provider_unreachable", "provider_silent")
_CHUNK = 1 << 16


class Handler(BaseHTTPRequestHandler):
    """One request of the agent's, on a connection of its own."""

    protocol_version = "HTTP/1.1"
    timeout = READ_SECONDS
    _trouble: ErrorKind | None = None
    """What this request tells of its provider: '' that it answers, None nothing."""
    _words = ""
    """Where it failed: what it said."""
    _moved = 0.0
    """When the provider was asked, or last sent something."""
    server: Any

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
        proxy: ProxyState = self.server.state
        began = time.monotonic()
        entry: dict[str, Any] = {
            "time": round(time.time(), 6), "method": self.command[:20], "path": self.path.partition("?")[0][:200],
        }  # fmt: skip
        try:
            if proxy.tunnel:
                self._connect(proxy, entry)
            else:
                self._pass_on(proxy, entry)
        except Turned as turned:
            if turned.code in _UNREACHED:
                self._trouble, self._words = "network", turned.reason
            elif turned.status not in (429, 502):  # ours, of a moment
                proxy.log.refuse(turned.reason, aside=self.command != "POST")
            kind = "error" if turned.status in (502, 504) else "refused"
            entry |= {"status": turned.status, kind: turned.code}
            self._refuse(turned)
        except OSError as error:  # the agent hung up
            entry.setdefault("error", f"the agent left: {type(error).__name__}")
        finally:
            sign = None
            if self._trouble is not None:
                base = "" if proxy.tunnel else proxy.provider.url.rstrip("/")
                words = f"{base}{entry['path']}: {self._words}" if self._trouble else ""
                sign = ProviderSign(self._trouble, began, max(began, self._moved), words)
            proxy.log.write({**entry, "seconds": round(time.monotonic() - began, 3)}, sign)

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

    def _connect(self, proxy: ProxyState, entry: dict[str, Any]) -> None:
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
            entry["status"], self._trouble = 200, ""
            self.connection.setblocking(False)
            # What came along with the request is not the socket's any more.
            early = cast(BufferedReader, self.rfile).peek()
            entry["bytes_up"], entry["bytes"] = carry(self.connection, early, link, proxy.answer_seconds)

    # --- the reverse proxy -----------------------------------------------------------------------------------------

    def _pass_on(self, proxy: ProxyState, entry: dict[str, Any]) -> None:
        path, target = pinned(proxy.provider, self.command, self.path)
        # Before the body is read: what is held in memory is bounded by it.
        if not proxy.in_flight.acquire(blocking=False):
            raise Turned(429, "too_many", f"more than {proxy.at_once} requests at once are too many.", BUSY_SECONDS)
        link: http.client.HTTPConnection | None = None
        try:
            encoding = self.headers.get("Content-Encoding", "")
            model, body = checked_body(proxy.provider, self.command, path, self._body(), encoding)
            entry |= {"path": path, "model": model, "bytes_up": len(body)}
            _count(proxy)
            link, before, own = connected(proxy.provider.url, proxy.context)
            link.sock.settimeout(proxy.answer_seconds)
            with _held(proxy, link.sock), AgentPresence(self.connection, link.sock) as presence:
                answer = self._answered(proxy, link, before + target, body, own, presence, entry)
                usage = UsageReader(answer.getheader("Content-Type", ""), path, len(body), answer.status)
                self._stream(proxy, answer, entry, usage, presence)
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

    def _answered(
        self,
        proxy: ProxyState,
        link: http.client.HTTPConnection,
        target: str,
        body: bytes,
        own: dict[str, str],
        presence: AgentPresence,
        entry: dict[str, Any],
    ) -> http.client.HTTPResponse:
        """The answer's head. One that is not waited for any longer is being made all the same: an estimate counts."""
        self._moved = time.monotonic()
        try:
            return self._ask(proxy, link, target, body, own, presence)
        except ConnectionAbortedError:
            entry |= UsageReader("", entry["path"], len(body)).usage(whole=False)
            if self._is_to_blame(proxy, presence):
                self._trouble, self._words = "network", f"silent for {time.monotonic() - self._moved:.0f} s"
            raise
        except Turned as turned:
            if turned.code == "provider_silent":
                entry |= UsageReader("", entry["path"], len(body)).usage(whole=False)
            raise

    def _ask(
        self,
        proxy: ProxyState,
        link: http.client.HTTPConnection,
        target: str,
        body: bytes,
        own: dict[str, str],
        presence: AgentPresence,
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
            if presence.left or proxy.closing:
                raise ConnectionAbortedError("before the answer") from None
            raise unreachable(error) from None
        presence.answering = True
        return answer

    def _stream(
        self,
        proxy: ProxyState,
        answer: http.client.HTTPResponse,
        entry: dict[str, Any],
        usage: UsageReader,
        presence: AgentPresence,
    ) -> None:
        """Hand on every piece as it comes. An answer that breaks off is broken off here too.

        When the agent leaves, the rest is read for its usage, as far as `presence` and LEFT_BYTES let it.
        """
        entry["status"] = answer.status
        length = answer.length if not answer.chunked else None
        with self._leaving(presence):
            self._head(proxy, answer, length)
        whole, broken = False, ""
        try:
            total = self._pieces(answer, length, usage, presence, entry)
            whole = length is None or total >= length
            if not whole:
                broken = "the provider's answer was cut off"
            elif length is None and not presence.broken:
                with self._leaving(presence):
                    self.wfile.write(b"0\r\n\r\n")
        except _Broken as error:
            broken = str(error)
        finally:
            if broken:
                entry["error"] = broken
            if presence.broken or (broken and presence.left):
                entry["error"] = "the agent left" + ("" if whole else f"; {broken or 'not read to its end'}")
            entry |= usage.usage(whole=whole)
            if usage.response and any(entry.get(kind) for kind in TOKENS):
                entry["response"] = usage.response
            if usage.asks:
                self._judge(answer.status, usage, whole=whole, broken=broken, blamed=self._is_to_blame(proxy, presence))

    def _judge(self, status: int, usage: UsageReader, *, whole: bool, broken: str, blamed: bool) -> None:
        """What this answer tells of its provider. One that the agent cut short tells that it answers."""
        if usage.trouble:
            what = str(status) if status >= 300 or usage.heard else f"{status}, but no answer of a model's:"
            self._trouble, self._words = usage.trouble, f"{what} {usage.words or 'not a word'}"
        elif whole or (usage.heard and not blamed):
            self._trouble = ""
        elif blamed:
            self._trouble, self._words = "network", broken or "its answer stalled"

    def _pieces(
        self,
        answer: http.client.HTTPResponse,
        length: int | None,
        usage: UsageReader,
        presence: AgentPresence,
        entry: dict[str, Any],
    ) -> int:
        """Hand on the answer's body, as long as it is taken; returns its bytes. Raises _Broken."""
        total, rest = 0, 0
        while data := _piece(answer):
            total += len(data)
            entry["bytes"], self._moved = total, time.monotonic()
            usage.feed(data)
            if not presence.broken:
                with self._leaving(presence):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if length is None else data)
            else:
                rest += len(data)
                if rest > LEFT_BYTES:
                    raise _Broken("the rest of the answer is too long")
        entry["bytes"] = total
        return total

    def _is_to_blame(self, proxy: ProxyState, presence: AgentPresence) -> bool:
        """Whether the provider is, for an answer that did not come whole."""
        return not (presence.left or proxy.closing) or time.monotonic() - self._moved >= SILENT_SECONDS

    @contextlib.contextmanager
    def _leaving(self, presence: AgentPresence) -> Any:
        try:
            yield
        except OSError:
            presence.leave(broken=True)

    def _head(self, proxy: ProxyState, answer: http.client.HTTPResponse, length: int | None) -> None:
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


def _count(proxy: ProxyState) -> None:
    if over := proxy.log.begin():
        raise Turned(403, "limit", over)


@contextlib.contextmanager
def _held(proxy: ProxyState, link: socket.socket) -> Any:
    if not proxy.hold(link):
        raise Turned(502, "closing", "the Host is closing this Run, or too many connections are open.")
    try:
        yield
    finally:
        proxy.let_go(link)
