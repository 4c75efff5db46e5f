"""What all requests through one proxy share: its provider and key, its log, its open connections."""

from __future__ import annotations

import socket
import ssl
import threading
from urllib.parse import urlsplit

from evopolicy.execution.proxy.log import ProxyLog
from evopolicy.execution.proxy.rules import allowed_hosts
from evopolicy.execution.proxy.upstream import hang_up
from evopolicy.kernel.ports.protocols import Provider

IN_FLIGHT = 16
"""Requests read or at the provider at once; further ones are told to come back."""
CONNECTIONS = 64
"""Open at once, tunnels included; further ones are closed."""


class ProxyState:
    """See the module. Threads of all requests use it at once."""

    def __init__(self, provider: Provider, key: str, log: ProxyLog, *, tunnel: bool, answer_seconds: float) -> None:
        """`tunnel`: connect to `provider.hosts` and do nothing else. `answer_seconds`: between two pieces."""
        self.provider = provider
        self.key = key
        self.log = log
        self.tunnel = tunnel
        self.hosts = allowed_hosts(provider) if tunnel else frozenset[str]()
        self.answer_seconds = answer_seconds
        self.at_once = IN_FLIGHT
        self.in_flight = threading.BoundedSemaphore(IN_FLIGHT)
        self.context = ssl.create_default_context() if urlsplit(provider.url).scheme == "https" else None
        self._links: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def hold(self, link: socket.socket) -> bool:
        """Keep `link` so that `hang_up` can end it. False where there are too many, or the proxy is closed."""
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

    def hang_up(self) -> None:
        """End every connection, and let no further one be held."""
        with self._lock:
            self._closed, links = True, list(self._links)
        for link in links:
            hang_up(link)
