"""The Host's way between an agent's sandbox and its provider: a reverse proxy, or a tunnel to named
hosts.

It listens on a Unix socket, holds the key, lets through what `proxy.rules` allows, streams answers
as they come and logs every request. It runs in a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from evopolicy.execution.proxy.log import ProxyLog
from evopolicy.execution.proxy.request import MAX_LINE_BYTES, READ_SECONDS, Exchange, refusal
from evopolicy.execution.proxy.rules import Turned
from evopolicy.execution.proxy.state import ProxyState
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.protocols import AgentLimits, Provider
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable

log = logging.getLogger(__name__)

CONNECTIONS = 64
"""Open at once, tunnels included; further ones are closed."""
ANSWER_SECONDS = 600.0
"""Between two pieces of the provider's answer."""
CLOSE_SECONDS = 3.0
"""For requests that were hung up on to be counted."""


class Proxy:
    """A running proxy; its thread ends with `close`, or with the Host."""

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

        `prices`: what cost is counted by. `tunnel`: connect to `provider.hosts` and do nothing
        else.

        Raises ExecutionError where the socket cannot be made.
        """
        self.log = ProxyLog(logs, limits, prices)
        self.state = ProxyState(
            provider, key, self.log, tunnel=tunnel, answer_seconds=answer_seconds
        )
        context = ssl.create_default_context() if urlsplit(provider.url).scheme == "https" else True
        try:
            listener = _bound(path)
        except OSError as error:
            raise ExecutionError(
                f"the proxy's socket cannot be made ({error}); set TMPDIR to a local folder"
            ) from None
        self._closing = asyncio.Event()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(
            target=self._run, args=(listener, context), name="agent-proxy", daemon=True
        )
        self._thread.start()

    def proxy_usage(self) -> ProxyUsage:
        """What it has passed on so far. A tunnel's requests are not counted: they pass by
        unread."""
        return self.log.proxy_usage(seen=not self.state.tunnel)

    def close(self) -> None:
        """Hang up on everyone. Waits for nobody at the other end."""
        with contextlib.suppress(RuntimeError):  # closed before
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(2 * CLOSE_SECONDS)

    def _run(self, listener: socket.socket, context: ssl.SSLContext | bool) -> None:
        # What goes wrong on one connection is that connection's affair.
        self._loop.set_exception_handler(
            lambda _, what: log.debug("%s", what, exc_info=what.get("exception"))
        )
        with self._runner:
            self._runner.run(self._serve(listener, context))

    async def _serve(self, listener: socket.socket, context: ssl.SSLContext | bool) -> None:
        server = web.Server(self._answer, handler_cancellation=True)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, force_close=True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        ) as self.state.session:
            listening = await self._loop.create_server(
                lambda: _Connection(server, self._loop), sock=listener, backlog=CONNECTIONS
            )
            await self._closing.wait()
            self.state.closing = True
            listening.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=CLOSE_SECONDS)
            for connection in server.connections:
                if connection.transport is not None:
                    connection.transport.abort()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await Exchange(self.state, request).answer()
        except Exception:
            log.debug("a request of the agent failed", exc_info=True)
            raise


class _Connection(web.RequestHandler):
    """One of the agent's connections."""

    __slots__ = ("_server",)

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,
            keepalive_timeout=READ_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._server.connections) > CONNECTIONS and self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: Any,  # noqa: ARG002
        status: int = 500,
        *args: Any,  # noqa: ARG002
        **named: Any,  # noqa: ARG002
    ) -> web.StreamResponse:
        """What cannot be read as a request is refused as any other."""
        return refusal(Turned(status, "request_refused", "the request cannot be read."))


def _bound(path: Path) -> socket.socket:
    # An address of a Unix socket holds about 107 bytes, so a longer path is named by its folder's
    # descriptor.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        listener.listen(CONNECTIONS)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener
