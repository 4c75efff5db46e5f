"""The Host's end towards a provider: how it is reached, by the Host's own proxy where it has one,
or why not."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import Any
from urllib.parse import SplitResult, unquote

import aiohttp
from yarl import URL

from evopolicy.execution.proxy.host_proxy import host_proxy
from evopolicy.execution.proxy.rules import Turned
from evopolicy.execution.proxy.tunnel import Stream
from evopolicy.kernel.errors import AgentError

CONNECT_SECONDS = 30.0
UNREACHED = (OSError, EOFError, ValueError, aiohttp.ClientError, asyncio.LimitOverrunError)
"""What goes wrong on the way to a provider."""
_REFUSED = "the Host's own proxy: Tunnel connection failed:"


def way_to(url: URL) -> dict[str, Any]:
    """What aiohttp is told of the way to `url`. Raises Turned."""
    by = _proxy_or_turned(url.scheme, url.host or "", url.port or 80)
    if by is None:
        return {}
    login = _login(by)
    headers = {"Proxy-Authorization": login} if login else None
    return {"proxy": f"http://{by.netloc.rpartition('@')[2]}", "proxy_headers": headers}


async def connected(host: str, port: int) -> Stream:
    """A plain connection to `host`, for a tunnel. Raises UNREACHED and Turned."""
    by = _proxy_or_turned("https", host, port)
    near = (by.hostname, by.port or 80) if by else (host, port)
    async with asyncio.timeout(CONNECT_SECONDS):
        stream = Stream(*await asyncio.open_connection(*near))
        try:
            if by is not None:
                await _through(stream, f"{host}:{port}", _login(by))
        except BaseException:
            stream.writer.close()
            raise
    return stream


async def _through(stream: Stream, target: str, login: str) -> None:
    words = f"Proxy-Authorization: {login}\r\n" if login else ""
    stream.writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{words}\r\n".encode())
    head = await stream.reader.readuntil(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].partition(b" ")[2].decode("latin-1")
    if not status.startswith("200"):
        raise OSError(f"{_REFUSED} {status}")


def _proxy_or_turned(scheme: str, host: str, port: int) -> SplitResult | None:
    try:
        return host_proxy(scheme, host, port)
    except AgentError as error:
        raise Turned(502, "provider_unreachable", f"{error}.") from None


def _login(by: SplitResult) -> str:
    """The value of its header; '' for none."""
    if not by.username:
        return ""
    return aiohttp.encode_basic_auth(unquote(by.username), unquote(by.password or ""))


def unreachable(error: Exception) -> Turned:
    """What an `error` on the way to the provider is to the agent."""
    if isinstance(error, TimeoutError):
        return Turned(504, "provider_silent", "the provider does not answer in time.")
    what = type(error).__name__
    if isinstance(error, aiohttp.ClientHttpProxyError):
        what = f"{_REFUSED} {error.status} {error.message}"[:130].strip()
    elif isinstance(error, OSError):
        # asyncio tells the address in place of what a number means; TLS has numbers of its own.
        number = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
        what = (
            os.strerror(number)
            if number > 0
            else error.strerror or str(error)[:130].strip() or what
        )
    return Turned(502, "provider_unreachable", f"the provider cannot be reached ({what}).")
