"""The Host's own proxy: whether it is on the way to a provider, by this process's environment."""

from __future__ import annotations

import contextlib
import ipaddress
import urllib.request
from urllib.parse import SplitResult, urlsplit

from evopolicy.kernel.errors import AgentError


def host_proxy(scheme: str, host: str, port: int) -> SplitResult | None:
    """What HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY of this process say of the way to
    `host`; None: straight.

    This machine itself is asked straight, whatever they say. Raises AgentError for a proxy of
    another kind."""
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
            f"the proxy that {scheme.upper()}_PROXY or ALL_PROXY names for {host} is none that "
            "can be used here: 'http://name:port' is needed; set it so, or name the host in "
            "NO_PROXY"
        )
    return split


def _is_local(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"
