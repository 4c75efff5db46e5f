"""A scripted provider on loopback: each connection is one request, answered by a function of the
test's."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Asked:
    """What the provider was asked."""

    method: str
    target: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[socket.socket, Asked], None]


class Upstream:
    """A provider listening at `url`; what it was asked is in `asked`."""

    def __init__(self, answer: Answer, context: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self._answer = answer
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://localhost:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            if self._context:
                link = self._context.wrap_socket(link, server_side=True)
            with link:
                asked = _read(link)
                self.asked.append(asked)
                self._answer(link, asked)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _read(link: socket.socket) -> Asked:
    received = b""
    while b"\r\n\r\n" not in received:
        data = link.recv(65536)
        if not data:
            raise ValueError("no request")
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    while len(body) < int(headers.get("content-length", "0")):
        body += link.recv(65536)
    method, target, _ = first.split(" ")
    return Asked(method, target, headers, body)


@contextlib.contextmanager
def provider(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[Upstream]:
    upstream = Upstream(answer, context)
    try:
        yield upstream
    finally:
        upstream.close()


def says(value: Any, status: str = "200 OK", *headers: str) -> Answer:
    """Answers every request with the JSON of `value`."""

    def answer(link: socket.socket, _: Asked) -> None:
        body = json.dumps(value).encode()
        lines = [
            f"HTTP/1.1 {status}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *headers,
        ]
        link.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return answer


def chunk(text: str) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text.encode()), text.encode())


def reset(link: socket.socket) -> None:
    """Close so that the other end sees its connection reset."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


class Client(http.client.HTTPConnection):
    """Talks HTTP over a Unix socket, as the forwarder in a sandbox does."""

    def __init__(self, path: Path) -> None:
        super().__init__("agent", timeout=240)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(240)
        self.sock.connect(str(self._path))
