"""What network an agent has: which settings go together, what is missing, what its environment says
of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from evopolicy.execution.agent.bubblewrap import PORT
from evopolicy.execution.proxy.host_proxy import host_proxy
from evopolicy.execution.proxy.rules import allowed_hosts
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentNetwork, Isolation, Provider

DUMMY_KEY = "held-by-the-host"
"""What the agent's program finds in place of a key."""
_INSTALL = "install the package 'bubblewrap' (`evopolicy doctor` shows what else is missing)"


def wanted(configured: AgentNetwork, provider: Provider | None) -> AgentNetwork:
    """The network an agent with `provider` is given: one without has none, unless `open` is
    asked."""
    return "none" if provider is None and configured != "open" else configured


def effective(
    isolation: Isolation, configured: AgentNetwork, provider: Provider | None
) -> AgentNetwork:
    """`wanted`, where `isolation` can give it.

    Raises AgentError where they do not go together: a network needs the process and network
    namespaces of bubblewrap."""
    network = wanted(configured, provider)
    if network == "none":
        if provider is None:
            return network
        raise AgentError(
            "execution.agent_network=none: this agent has to reach its provider; choose proxy, "
            "allowlist or open"
        )
    if network == "proxy" and provider is not None and provider.subscription:
        raise AgentError(
            "execution.agent_network=proxy: this agent asks with a subscription's login, which "
            "the Host's proxy cannot add; set execution.agent_network=allowlist"
        )
    if isolation == "bubblewrap" or (isolation == "none" and network == "open"):
        return network
    if isolation == "none":
        raise AgentError(
            f"execution.agent_network={configured} needs isolation bubblewrap, found none: "
            f"{_INSTALL}, or set execution.agent_network=open if this agent may do anything you "
            "can"
        )
    raise AgentError(
        f"an agent with a network (execution.agent_network={configured}) needs isolation "
        f"bubblewrap, found {isolation}: {_INSTALL}"
    )


def read_key(provider: Provider | None) -> str:
    """The provider's key from this process's environment; '' where it needs none. Raises
    AgentError."""
    if provider is None or not provider.key_variable:
        return ""
    key = os.environ.get(provider.key_variable, "")
    if not key.strip():
        raise AgentError(
            f"the environment has no key for {provider.url} in the variable "
            f"'{provider.key_variable}'; set it, or name another variable in the agent's config"
        )
    if not key.strip().isprintable() or not key.isascii():
        raise AgentError(
            f"the variable '{provider.key_variable}' holds what cannot be a key; set it anew"
        )
    return key.strip()


def read_variables(names: Iterable[str]) -> dict[str, str]:
    """The values of this process's environment that an agent is started with. Raises AgentError."""
    for name in names:
        if name not in os.environ:
            raise AgentError(
                f"the agent is to be started with the variable '{name}', which this environment "
                "does not have; set it, or take it out of agent.variables"
            )
    return {name: os.environ[name] for name in names}


def check(
    isolation: Isolation, configured: AgentNetwork, provider: Provider | None
) -> AgentNetwork:
    """All that can be checked before anything is spent; returns `effective`. Raises AgentError."""
    network = effective(isolation, configured, provider)
    read_key(provider)
    if provider is not None and network in ("proxy", "allowlist"):
        for host in allowed_hosts(provider) if network == "allowlist" else ():
            name, _, port = host.rpartition(":")
            host_proxy("https", name.strip("[]"), int(port) if port.isdigit() else 443)
        if network == "proxy":
            split = urlsplit(provider.url)
            host_proxy(
                split.scheme,
                split.hostname or "",
                split.port or (443 if split.scheme == "https" else 80),
            )
    return network


def variables(network: AgentNetwork, provider: Provider | None, key: str) -> Mapping[str, str]:
    """What the agent's environment says of its network. Only beside the proxy is the key itself in
    it."""
    variables: dict[str, str] = {}
    if provider is not None and provider.key_variable:
        variables[provider.agent_variable or provider.key_variable] = (
            DUMMY_KEY if network == "proxy" else key
        )
    if network == "allowlist":
        here = f"http://127.0.0.1:{PORT}"
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
            variables |= {name: here, name.lower(): here}
        variables |= {
            "NO_PROXY": "localhost,127.0.0.1",
            "no_proxy": "localhost,127.0.0.1",
            "NODE_USE_ENV_PROXY": "1",
        }
    return variables
