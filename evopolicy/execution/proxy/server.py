"""The Host's way between an agent's sandbox and its provider: a reverse proxy, or a tunnel to named hosts.

It listens on a Unix socket, holds the key, lets through what `proxy.rules` allows, streams answers as they come and
logs every request. It runs in threads of its own: whatever happens to a request is that request's affair alone.
"""

from __future__ import annotations

import logging
import os
import socketserver
import threading
from pathlib import Path
from typing import Any

from evopolicy.execution.proxy.log import ProxyLog
from evopolicy.execution.proxy.request import Handler
from evopolicy.execution.proxy.state import CONNECTIONS, ProxyState
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.protocols import AgentLimits, Provider
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable

log = logging.getLogger(__name__)

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
        self.log = ProxyLog(logs, limits, prices)
        self.state = ProxyState(provider, key, self.log, tunnel=tunnel, answer_seconds=answer_seconds)
        try:
            self._server = _listening(path, self.state)
        except OSError as error:
            raise ExecutionError(f"the proxy's socket cannot be made ({error}); set TMPDIR to a local folder") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="agent-proxy", daemon=True)
        self._thread.start()

    def proxy_usage(self) -> ProxyUsage:
        """What it has passed on so far. A tunnel's requests are not counted: they pass by unread."""
        return self.log.proxy_usage(seen=not self.state.tunnel)

    def close(self) -> None:
        """Hang up on everyone. Waits for nobody at the other end."""
        self.state.hang_up()
        self._server.shutdown()
        self._server.server_close()
        with self._server.idle:
            self._server.idle.wait_for(lambda: self._server.busy == 0, CLOSE_SECONDS)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS

    def __init__(self, address: str, state: ProxyState) -> None:
        self.state = state
        self.idle = threading.Condition()
        self.busy = 0
        """Requests that are being answered."""
        super().__init__(address, Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 (socketserver's)
        return self.state.hold(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self.idle:
            self.busy += 1
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            with self.idle:
                self.busy -= 1
                self.idle.notify_all()
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        self.state.let_go(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (socketserver's)
        log.debug("a request of the agent failed", exc_info=True)


def _listening(path: Path, state: ProxyState) -> _Server:
    # An address of a Unix socket holds about 107 bytes, so a longer path is named by its folder's descriptor.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        return _Server(f"/proc/self/fd/{folder}/{path.name}", state)
    finally:
        os.close(folder)
