"""A model provider on loopback: four protocols, one scripted engineer, and faults when told. It
calls nobody."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from tests.agents.model_server import chat, engineer, gemini, messages, responses
from tests.agents.model_server.engineer import PLAN, REFUSAL, Tokens
from tests.agents.model_server.faults import WORDS, Fault

PROTOCOLS: tuple[ModuleType, ...] = (chat, gemini, messages, responses)
MAX_STALL_SECONDS = 900.0


@dataclass(frozen=True)
class Answer:
    """One request and what became of it, in the order they were answered."""

    path: str
    model: str
    key: str
    """As the request brought it, in whichever header."""
    side: bool
    """A request that offers no shell: a title, a summary."""
    fault: str
    """Kind of the fault it met; '' for none."""
    status: int
    tokens: Tokens
    """What the answer said it used; of one that broke off, nothing."""
    id: str


class ModelServer(ThreadingHTTPServer):
    """Listens at `url` on a free port; what it answered is in `answers`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, fault: Fault | None, plan: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.fault = fault
        self.plan = tuple(plan)
        self.answers: list[Answer] = []
        self.unknown: list[str] = []
        """Requests for what it does not have."""
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._asked = 0
        self._works = 0

    def tokens(self, *, side: bool = False) -> Tokens:
        """All it served, without the side calls or of those alone."""
        return sum((answer.tokens for answer in self.answers if answer.side == side), Tokens())

    def number(self, side: bool) -> tuple[int, Fault | None]:
        """The number of a new request, and the fault it meets."""
        with self._lock:
            self._asked += 1
            if side:
                return self._asked, None
            self._works += 1
            fault = self.fault
            return self._asked, fault if fault and fault.meets(self._works - 1) else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


@contextlib.contextmanager
def model_server(fault: Fault | None = None, plan: Sequence[str] = PLAN) -> Iterator[ModelServer]:
    """A server that listens while the context is open."""
    server = ModelServer(fault, plan)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _status(protocol: ModuleType, fault: Fault) -> int:
    """What an answer that meets `fault` begins with, 0 for a connection that is dropped before."""
    return {"status": fault.status, "context": int(protocol.CONTEXT[0]), "drop": 0}.get(
        fault.kind, 200
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def do_GET(self) -> None:
        self._unknown()

    def do_HEAD(self) -> None:
        self._unknown()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = urlsplit(self.path).path
        for protocol in PROTOCOLS:
            if re.search(rf"{protocol.PATH}$", path):
                return self._answer(protocol, path, body)
            if re.search(rf"{getattr(protocol, 'COUNTS', 'no such path')}$", path):
                return self._json(
                    200, protocol.counted(engineer.tokens(protocol.conversation(path, body)))
                )
        return self._unknown()

    def _unknown(self) -> None:
        self.server.unknown.append(f"{self.command} {self.path}")
        self._json(404, {"error": {"message": "There is nothing here."}})

    def _answer(self, protocol: ModuleType, path: str, body: dict[str, Any]) -> None:
        asked = protocol.conversation(path, body)
        side = engineer.shell_of(asked.tools) is None
        number, fault = self.server.number(side)
        used = replace(engineer.tokens(asked), **dict.fromkeys(protocol.UNTOLD, 0))
        said = engineer.reply(asked, self.server.plan)
        answer = Answer(
            path,
            asked.model,
            self._key(),
            side,
            fault.kind if fault else "",
            200,
            used,
            f"{number:04d}",
        )
        if fault and fault.kind == "refusal":
            fault, said = None, REFUSAL
        # Kept before it is sent: whoever has the answer may look at once.
        if fault is not None:
            self.server.answers.append(
                replace(answer, status=_status(protocol, fault), tokens=Tokens())
            )
            return self._fail(protocol, fault, protocol.stream(said, used, asked.model, answer.id))
        self.server.answers.append(answer)
        if asked.stream:
            return self._events(protocol.stream(said, used, asked.model, answer.id))
        return self._json(200, protocol.whole(said, used, asked.model, answer.id))

    def _fail(self, protocol: ModuleType, fault: Fault, events: list[bytes]) -> None:
        """Answer badly."""
        if fault.kind == "status":
            return self._json(
                fault.status,
                protocol.failure(fault.status, *WORDS[fault.status]),
                fault.retry_after,
            )
        if fault.kind == "context":
            return self._json(protocol.CONTEXT[0], protocol.failure(*protocol.CONTEXT))
        if fault.kind == "drop":
            return self._reset()
        self._head(200, "text/event-stream", "Transfer-Encoding: chunked")
        if fault.kind == "stall":
            self.server.closing.wait(MAX_STALL_SECONDS)
        elif fault.kind == "malformed":
            for event in events:
                self._chunk(event[: len(event) // 2].rstrip() + b"\n\n")
            self._chunk(b"")
        else:
            for event in events[: max(1, len(events) // 2)]:
                self._chunk(event)
            if fault.kind == "end":
                self._chunk(b"")
        if fault.kind == "cut":
            self._reset()
        self.close_connection = True
        return None

    def _events(self, events: list[bytes]) -> None:
        self._head(200, "text/event-stream", "Transfer-Encoding: chunked")
        for event in events:
            self._chunk(event)
        self._chunk(b"")

    def _json(self, status: int, value: Any, retry_after: float | None = None) -> None:
        data = json.dumps(value).encode()
        more = [f"Retry-After: {retry_after:g}"] if retry_after is not None else []
        self._head(status, "application/json", f"Content-Length: {len(data)}", *more)
        self.wfile.write(data if self.command != "HEAD" else b"")

    def _head(self, status: int, kind: str, *lines: str) -> None:
        self.send_response_only(status)
        for line in (f"Content-Type: {kind}", *lines):
            name, _, value = line.partition(": ")
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()  # it holds the connection open
        self.connection.close()
        self.close_connection = True

    def _key(self) -> str:
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or bearer

    def log_message(self, *args: Any) -> None:
        """Nothing is printed."""
