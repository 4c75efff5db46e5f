"""What all requests through one proxy share: its provider and key, its log, how many there are at
once."""

from __future__ import annotations

import asyncio

import aiohttp

from evopolicy.execution.proxy.log import ProxyLog
from evopolicy.execution.proxy.rules import allowed_hosts
from evopolicy.kernel.ports.protocols import Provider

IN_FLIGHT = 16
"""Requests read or at the provider at once; further ones are told to come back."""


class ProxyState:
    """See the module. But for the log, the loop's thread alone uses it."""

    def __init__(
        self, provider: Provider, key: str, log: ProxyLog, *, tunnel: bool, answer_seconds: float
    ) -> None:
        """`tunnel`: connect to `provider.hosts` and do nothing else. `answer_seconds`: between two
        pieces."""
        self.provider = provider
        self.key = key
        self.log = log
        self.tunnel = tunnel
        self.hosts = allowed_hosts(provider) if tunnel else frozenset[str]()
        self.answer_seconds = answer_seconds
        self.at_once = IN_FLIGHT
        self.in_flight = asyncio.Semaphore(IN_FLIGHT)
        self.session: aiohttp.ClientSession
        """What the provider is asked through, once the loop runs."""
        self.closing = False
        """Whether answers may break off because the Host hangs up."""
