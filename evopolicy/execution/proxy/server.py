"""The Host's way between an agent's sandbox and its provider: a reverse proxy, or a tunnel to named hosts.

It listens on a Unix socket, holds the key, lets through what `proxy.rules` allows, streams answers as they come and
logs every request. It runs in threads of its own: whatever happens to a request is that request's affair alone.
"""

from __future__ import annotations

import logging
import os
import socket
import socketserver
import ssl
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evopolicy.execution.proxy.log import ProxyLog
from evopolicy.execution.proxy.request import Handler
from evopolicy.execution.proxy.rules import allowed_hosts
from evopolicy.execution.proxy.upstream import hang_up
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.protocols import AgentLimits, Provider
from evopolicy.kernel.ports.served import Served
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable

log = logging.getLogger(__name__)

IN_FLIGHT = 16
"""Requests read or at the provider at once; further ones are told to come back."""
CONNECTIONS = 64
"""Open at once, tunnels included; further ones are closed."""
ANSWER_SECONDS = 600.0
"""Between two pieces of the provider's answer."""
CLOSE_SECONDS = 3.0
"""For requests that were hung up on to be counted."""


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
        prices: PriceTable = NO_PRICES,
        tunnel: bool = False,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Listen on the socket `path`, log to the folder `logs`.

        `prices`: what cost is counted by. `tunnel`: connect to `provider.hosts` and do nothing else.

        Raises ExecutionError where the socket cannot be made.
        """
        self.provider = provider
        self.key = key
        self.hosts = allowed_hosts(provider) if tunnel else frozenset[str]()
        self.tunnel = tunnel
        self.answer_seconds = answer_seconds
        self.log = ProxyLog(logs, limits, prices)
        self.at_once = IN_FLIGHT
        self.in_flight = threading.BoundedSemaphore(IN_FLIGHT)
        self.context = ssl.create_default_context() if urlsplit(provider.url).scheme == "https" else None
        self._links: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._idle = threading.Condition()
        self._busy = 0
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

    @property
    def closing(self) -> bool:
        """Whether answers may break off because the Host hangs up."""
        return self._closed

    def serve(self, request: Any) -> None:
        """Answer the one request on the connection `request`."""
        with self._idle:
            self._busy += 1
        try:
            self._server.finish_request(request, "")
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def served(self) -> Served:
        """What it has passed on so far. A tunnel's requests are not counted: they pass by unread."""
        return self.log.served(seen=not self.tunnel)

    def close(self) -> None:
        """Hang up on everyone. Waits for nobody at the other end."""
        with self._lock:
            self._closed, links = True, list(self._links)
        for link in links:
            hang_up(link)
        self._server.shutdown()
        self._server.server_close()
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, CLOSE_SECONDS)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS

    def __init__(self, address: str, proxy: Proxy) -> None:
        self.proxy = proxy
        super().__init__(address, Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 (socketserver's)
        return self.proxy.hold(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            self.proxy.serve(request)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)

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
