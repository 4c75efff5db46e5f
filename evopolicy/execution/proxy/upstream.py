"""The Host's end towards a provider: by the Host's own proxy where it has one, and watched while the agent waits."""

from __future__ import annotations

import base64
import contextlib
import http.client
import ipaddress
import select
import socket
import ssl
import threading
import time
import urllib.request
from types import TracebackType
from urllib.parse import SplitResult, unquote, urlsplit

from evopolicy.execution.proxy.rules import Turned
from evopolicy.kernel.errors import AgentError

CONNECT_SECONDS = 30.0
LEFT_SECONDS = 60.0
"""How long an answer is read on for its usage after the agent left."""
LOOK_SECONDS = 0.2


def host_proxy(scheme: str, host: str, port: int) -> SplitResult | None:
    """What HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY of this process say of the way to `host`; None: straight.

    This machine itself is asked straight, whatever they say. Raises AgentError for a proxy of another kind.
    """
    proxies = urllib.request.getproxies()
    url = proxies.get(scheme) or proxies.get("all") or ""
    if not url or _is_local(host) or urllib.request.proxy_bypass(f"{host}:{port}"):
        return None
    try:
        split = urlsplit(url if "://" in url else f"http://{url}")
        good = split.scheme == "http" and bool(split.hostname) and split.port != 0
    except ValueError:
        good = False
    if not good:
        raise AgentError(
            f"the proxy that {scheme.upper()}_PROXY or ALL_PROXY names for {host} is none that can be used here:"
            " 'http://name:port' is needed; set it so, or name the host in NO_PROXY"
        )
    return split


def _is_local(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def connected(url: str, context: ssl.SSLContext | None) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
    """A connection for requests to `url`, what goes before their targets, and headers for the Host's own proxy.

    With a `context` it is TLS, inside a tunnel where there is a proxy. Raises Turned.
    """
    split = urlsplit(url)
    host, port = split.hostname or "", split.port or (443 if context else 80)
    by = _proxy_or_turned(split.scheme, host, port)
    link: http.client.HTTPConnection
    near = (by.hostname or "", by.port or 80) if by else (host, port)
    before, headers = "", _login(by)
    if context is not None:
        link = http.client.HTTPSConnection(*near, timeout=CONNECT_SECONDS, context=context)
        if by is not None:
            link.set_tunnel(host, port, headers)
            headers = {}
    else:
        link = http.client.HTTPConnection(*near, timeout=CONNECT_SECONDS)
        before = f"http://{split.netloc}" if by is not None else ""
    _connect(link)
    return link, before, headers


def connected_socket(host: str, port: int) -> socket.socket:
    """A plain connection to `host`, for a tunnel. Raises Turned."""
    by = _proxy_or_turned("https", host, port)
    if by is None:
        try:
            return socket.create_connection((host, port), CONNECT_SECONDS)
        except OSError as error:
            raise unreachable(error) from None
    link = http.client.HTTPConnection(by.hostname or "", by.port or 80, timeout=CONNECT_SECONDS)
    link.set_tunnel(host, port, _login(by))
    _connect(link)
    return link.sock


def _proxy_or_turned(scheme: str, host: str, port: int) -> SplitResult | None:
    try:
        return host_proxy(scheme, host, port)
    except AgentError as error:
        raise Turned(502, "provider_unreachable", f"{error}.") from None


def _login(by: SplitResult | None) -> dict[str, str]:
    if by is None or not by.username:
        return {}
    login = f"{unquote(by.username)}:{unquote(by.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def _connect(link: http.client.HTTPConnection) -> None:
    try:
        link.connect()
    except (OSError, http.client.HTTPException) as error:
        link.close()
        raise unreachable(error) from None


def unreachable(error: Exception) -> Turned:
    """What an `error` on the way to the provider is to the agent."""
    if isinstance(error, TimeoutError):
        return Turned(504, "provider_silent", "the provider does not answer in time.")
    what = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    if str(error).startswith("Tunnel connection failed"):  # the words of http.client
        what = f"the Host's own proxy: {str(error)[:100].strip()}"
    return Turned(502, "provider_unreachable", f"the provider cannot be reached ({what}).")


def hang_up(link: socket.socket) -> None:
    """End `link` both ways, also while another thread reads it."""
    with contextlib.suppress(OSError):
        # Of an SSLSocket, its own shutdown would let that thread read on without TLS.
        socket.socket.shutdown(link, socket.SHUT_RDWR)


class AgentPresence:
    """Looks, while the provider is waited for, whether the agent is still there.

    One that leaves before the answer begins ends the request; one that leaves later leaves LEFT_SECONDS to its rest.
    """

    def __init__(self, agent: socket.socket, provider: socket.socket) -> None:
        self._agent, self._provider = agent, provider
        self._done = threading.Event()
        self._left_at: float | None = None
        self.answering = False
        """To be set once the answer has begun."""
        self.broken = False
        self._thread = threading.Thread(target=self._look, name="agent-presence", daemon=True)

    @property
    def left(self) -> bool:
        return self._left_at is not None

    def leave(self, *, broken: bool = False) -> None:
        """The agent takes no more; `broken`: it cannot be written to either."""
        self.broken = self.broken or broken
        if self._left_at is None:
            self._left_at = time.monotonic()

    def __enter__(self) -> AgentPresence:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        poll = select.poll()
        # The sandbox's forwarder ends only its own way when the agent's connection is closed.
        poll.register(self._agent, select.POLLRDHUP)
        while not self._done.wait(LOOK_SECONDS):
            if not self.left and poll.poll(0):
                self.leave()
            if self._left_at is None:
                continue
            if not self.answering or time.monotonic() > self._left_at + LEFT_SECONDS:
                hang_up(self._provider)
                return
