"""Carries bytes between two streams until both ways have ended."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from aiohttp import web

LAST_SECONDS = 5.0
"""For what is still on its way to a far end that has said all it had to say."""
_CHUNK = 1 << 16


class Stream(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Way:
    """One way of a tunnel."""

    def __init__(self) -> None:
        self.total = 0

    async def carry(self, source: Stream, target: Stream) -> None:
        """Until `source` ends. A way that breaks breaks the other too."""
        try:
            while data := await source.reader.read(_CHUNK):
                target.writer.write(data)
                await target.writer.drain()
                self.total += len(data)
            target.writer.write_eof()
        except OSError:
            for end in (source, target):
                end.writer.transport.abort()


async def carry(near: Stream, far: Stream, up: Way, down: Way, seconds: float) -> None:
    """Carry what comes from `near` `up` to `far`, and back.

    Ends when both ways have ended, soon after `far` has ended its own, or when nothing comes either
    way for `seconds`."""
    upward = asyncio.create_task(up.carry(near, far))
    downward = asyncio.create_task(down.carry(far, near))
    try:
        waiting, before = {upward, downward}, 0
        while downward in waiting:
            ended, waiting = await asyncio.wait(
                waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended and before == (before := up.total + down.total):
                return
        await asyncio.wait({upward}, timeout=LAST_SECONDS)
    finally:
        for task in (upward, downward):
            task.cancel()
        for end in (near, far):
            end.writer.close()


class _Near(asyncio.StreamReaderProtocol):
    """Takes a connection over from aiohttp, which is told only that it has ended."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._before.connection_lost(exc)


def taken_over(request: web.BaseRequest) -> Stream:
    """The connection of a CONNECT, without HTTP from here on."""
    before: Any = request.protocol
    transport: Any = request.transport
    if transport is None:
        raise ConnectionResetError("before the tunnel")
    reader = asyncio.StreamReader()
    protocol = _Near(reader, before)
    protocol.connection_made(transport)
    transport.set_protocol(protocol)
    before.set_parser(reader)  # what came along with the request is not the transport's any more
    return Stream(
        reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    )
