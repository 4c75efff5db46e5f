"""One request of an agent's: checked, passed on to its provider, its answer handed on and
counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

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
from evopolicy.execution.proxy.tunnel import Way, carry, taken_over
from evopolicy.execution.proxy.upstream import (
    CONNECT_SECONDS,
    UNREACHED,
    connected,
    unreachable,
    way_to,
)
from evopolicy.execution.proxy.usage import UsageReader
from evopolicy.kernel.ports.transcript import TOKENS, ErrorKind

READ_SECONDS = 60.0
"""For the agent to send its request, and to take a piece of its answer."""
BUSY_SECONDS = 2.0
LAST_SECONDS = 1.0
LEFT_SECONDS = 60.0
LEFT_BYTES = 16 << 20
"""Of an answer, read on for its usage after the agent left."""
SILENT_SECONDS = 60.0
"""A provider that sends nothing for so long is to blame where the agent gives up."""
MAX_LINE_BYTES = 1 << 16
"""Of a request's first line, and of a header."""
_UNREACHED = ("provider_unreachable", "provider_silent")


class Exchange:
    """One request of the agent's and its answer."""

    def __init__(self, proxy: ProxyState, request: web.BaseRequest) -> None:
        self._proxy = proxy
        self._request = request
        self._entry: dict[str, Any] = {
            "time": round(time.time(), 6),
            "method": request.method[:20],
            "path": request.raw_path.partition("?")[0][:200],
        }
        self._trouble: ErrorKind | None = None
        """What this request tells of its provider: '' that it answers, None nothing."""
        self._words = ""
        """Where it failed: what it said."""
        self._moved = 0.0
        """When the provider was asked, or last sent something; 0 before."""

    async def answer(self) -> web.StreamResponse:
        """Answer it and write its line to the log."""
        proxy, entry, began = self._proxy, self._entry, time.monotonic()
        try:
            return await (self._connect() if proxy.tunnel else self._pass_on())
        except Turned as turned:
            if turned.code in _UNREACHED:
                self._trouble, self._words = "network", turned.reason
            elif turned.status != 429:  # of a moment
                proxy.log.refuse(turned.reason, aside=self._request.method != "POST")
            kind = "error" if turned.status in (502, 504) else "refused"
            entry |= {"status": turned.status, kind: turned.code}
            return await self._refused(turned)
        except (OSError, asyncio.CancelledError) as error:
            entry.setdefault("error", f"the agent left: {type(error).__name__}")
            if self._request.transport is not None:
                self._request.transport.abort()
            raise
        finally:
            sign = None
            if self._trouble is not None:
                base = "" if proxy.tunnel else proxy.provider.url.rstrip("/")
                words = f"{base}{entry['path']}: {self._words}" if self._trouble else ""
                sign = ProviderSign(self._trouble, began, max(began, self._moved), words)
            proxy.log.write({**entry, "seconds": round(time.monotonic() - began, 3)}, sign)

    async def _refused(self, turned: Turned) -> web.StreamResponse:
        request, response = self._request, refusal(turned)
        if request.method == "CONNECT":
            # aiohttp reads away nothing that comes behind it: closing over that would take the
            # answer from the agent.
            await response.prepare(request)
            await response.write_eof()
            if request.transport is not None:
                request.transport.write_eof()
                await asyncio.sleep(LAST_SECONDS)
        return response

    def _count(self) -> None:
        if over := self._proxy.log.begin():
            raise Turned(403, "limit", over)

    # --- a tunnel ---------------------------------------------------------------------------------

    async def _connect(self) -> web.StreamResponse:
        proxy, target = self._proxy, self._request.raw_path
        host = target.lower()
        if self._request.method != "CONNECT" or host not in proxy.hosts:
            allowed = ", ".join(sorted(proxy.hosts))
            raise Turned(
                403,
                "host_refused",
                f"'{target[:200]}' is not among the hosts of this Run: {allowed}.",
            )
        self._count()
        name, _, port = host.rpartition(":")
        try:
            far = await connected(name.strip("[]"), int(port))
        except UNREACHED as error:
            raise unreachable(error) from None
        up, down = Way(), Way()
        try:
            near = taken_over(self._request)
            near.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._entry["status"], self._trouble = 200, ""
            await carry(near, far, up, down, proxy.answer_seconds)
        except asyncio.CancelledError:
            pass  # one of its ends is gone
        finally:
            far.writer.close()
            self._entry |= {"bytes_up": up.total, "bytes": down.total}
        return web.Response()

    # --- the reverse proxy ------------------------------------------------------------------------

    async def _pass_on(self) -> web.StreamResponse:
        proxy, request = self._proxy, self._request
        path, target = pinned(proxy.provider, request.method, request.raw_path)
        # Before the body is read: what is held in memory is bounded by it.
        if proxy.in_flight.locked():
            raise Turned(
                429,
                "too_many",
                f"more than {proxy.at_once} requests at once are too many.",
                BUSY_SECONDS,
            )
        async with proxy.in_flight:
            encoding = request.headers.get("Content-Encoding", "")
            body = await self._body()
            # How long it takes is up to the agent: other requests go on meanwhile.
            model, body = await asyncio.to_thread(
                checked_body, proxy.provider, request.method, path, body, encoding
            )
            self._entry |= {"path": path, "model": model, "bytes_up": len(body)}
            self._count()
            async with await self._answered(target, body) as answer:
                usage = UsageReader(
                    answer.headers.get("Content-Type", ""), path, len(body), answer.status
                )
                return await self._stream(answer, usage)

    async def _body(self) -> bytes:
        """The request's body, bounded. Raises Turned."""
        request, body = self._request, bytearray()
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise too_large()
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async with asyncio.timeout(READ_SECONDS):
            while data := await request.content.readany():
                body += data
                if len(body) > MAX_BODY_BYTES:
                    raise too_large()
        return bytes(body)

    async def _answered(self, target: str, body: bytes) -> aiohttp.ClientResponse:
        """The answer's head. One that is not waited for any longer is being made all the same: an
        estimate counts."""
        proxy, method, seconds = self._proxy, self._request.method, self._proxy.answer_seconds
        url = URL(f"{URL(proxy.provider.url).origin()}{target}", encoded=True)
        headers = request_headers(proxy.provider, proxy.key, self._request.headers.items())
        if body:
            headers.append(("Content-Length", str(len(body))))
        try:
            async with asyncio.timeout(
                CONNECT_SECONDS + 2 * seconds
            ):  # also where the body is not taken
                return await proxy.session.request(
                    method,
                    url,
                    data=self._sent(body) if body else None,
                    headers=headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(connect=CONNECT_SECONDS, sock_read=seconds),
                    **way_to(url),
                )
        except asyncio.CancelledError:
            self._estimate(body)
            if self._moved and self._is_to_blame(left=True):
                self._trouble, self._words = (
                    "network",
                    f"silent for {time.monotonic() - self._moved:.0f} s",
                )
            raise
        except UNREACHED as error:
            turned = unreachable(error)
            if turned.code == "provider_silent":
                self._estimate(body)
            raise turned from None

    async def _sent(self, body: bytes) -> AsyncIterator[bytes]:
        """The body, when there is a connection to send it by."""
        self._moved = time.monotonic()
        yield body

    def _estimate(self, body: bytes) -> None:
        if self._moved:
            self._entry |= UsageReader("", self._entry["path"], len(body)).usage(whole=False)

    async def _stream(
        self, answer: aiohttp.ClientResponse, usage: UsageReader
    ) -> web.StreamResponse:
        """Hand on every piece as it comes. An answer that breaks off is broken off here too.

        When the agent leaves, the rest is read for its usage, as far as LEFT_SECONDS and LEFT_BYTES
        let it."""
        entry, request = self._entry, self._request
        entry["status"], entry["bytes"] = answer.status, 0
        headers = answer_headers(self._proxy.provider, answer.status, answer.headers.items())
        response = _ours(
            web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
        )
        response.content_length = (
            None if "Transfer-Encoding" in answer.headers else answer.content_length
        )
        whole, left, broken = False, False, ""
        try:
            try:
                await response.prepare(request)
                while data := await self._piece(answer, usage):
                    async with asyncio.timeout(READ_SECONDS):
                        await response.write(data)
                whole = True
                await response.write_eof()
            except (OSError, asyncio.CancelledError):
                left = True
                if not (whole or self._proxy.closing):
                    await self._rest(answer, usage)
                    whole = True
            except ValueError as error:  # a header that must not be sent
                raise unreachable(error) from None
        except _Broken as error:
            broken = str(error)
        finally:
            if broken:
                entry["error"] = broken
            if left:
                entry["error"] = "the agent left" + (
                    "" if whole else f"; {broken or 'not read to its end'}"
                )
            entry |= usage.usage(whole=whole)
            if usage.response and any(entry.get(kind) for kind in TOKENS):
                entry["response"] = usage.response
            if usage.asks:
                self._judge(
                    answer.status,
                    usage,
                    whole=whole,
                    broken=broken,
                    blamed=self._is_to_blame(left=left),
                )
        if left:
            raise ConnectionAbortedError
        if broken and request.transport is not None:
            request.transport.close()
        return response

    async def _piece(self, answer: aiohttp.ClientResponse, usage: UsageReader) -> bytes:
        """What comes next of the answer; nothing at its end. Raises _Broken."""
        try:
            data = await answer.content.readany()
        except TimeoutError:
            raise _Broken("the provider's answer stalled") from None
        except (*UNREACHED, RuntimeError) as error:
            raise _Broken(f"the provider's answer broke off: {type(error).__name__}") from None
        if data:
            self._entry["bytes"] += len(data)
            self._moved = time.monotonic()
            usage.feed(data)
        return data

    async def _rest(self, answer: aiohttp.ClientResponse, usage: UsageReader) -> None:
        """Read the answer to its end. Raises _Broken."""
        most = self._entry["bytes"] + LEFT_BYTES
        try:
            async with asyncio.timeout(LEFT_SECONDS):
                while await self._piece(answer, usage):
                    if self._entry["bytes"] > most:
                        raise _Broken("the rest of the answer is too long")
        except (TimeoutError, asyncio.CancelledError):
            raise _Broken("not read to its end") from None

    def _judge(
        self, status: int, usage: UsageReader, *, whole: bool, broken: str, blamed: bool
    ) -> None:
        """What this answer tells of its provider. One that the agent cut short tells that it
        answers."""
        if usage.trouble:
            what = (
                str(status)
                if status >= 300 or usage.heard
                else f"{status}, but no answer of a model's:"
            )
            self._trouble, self._words = usage.trouble, f"{what} {usage.words or 'not a word'}"
        elif whole or (usage.heard and not blamed):
            self._trouble = ""
        elif blamed:
            self._trouble, self._words = "network", broken or "its answer stalled"

    def _is_to_blame(self, *, left: bool) -> bool:
        """Whether the provider is, for an answer that did not come whole."""
        return not (left or self._proxy.closing) or time.monotonic() - self._moved >= SILENT_SECONDS


class _Broken(Exception):
    """The provider's answer broke off."""


def refusal(turned: Turned) -> web.StreamResponse:
    """What the proxy answers itself."""
    headers = {"Retry-After": f"{turned.retry_after:g}"} if turned.retry_after is not None else {}
    body = turned.body()
    return _ours(
        web.Response(
            status=turned.status, body=body, content_type="application/json", headers=headers
        )
    )


def _ours(response: web.StreamResponse) -> web.StreamResponse:
    response.headers["Server"] = "EvoPolicy"
    response.force_close()
    return response
