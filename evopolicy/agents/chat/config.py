"""Options of `chat`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evopolicy.agents.config import AgentConfig, at_least, check_variable_names
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.run.prices import Price

_OURS = ("model", "messages", "tools", "stream", "stream_options")
"""Keys of a request that the loop alone sets."""


@dataclass(frozen=True)
class ChatConfig(AgentConfig):
    """Limits on time, tokens and cost are `session.limits`, skills `prompt.skills`. No secret's
    value is in it."""

    base_url: str
    """Of the server; `/chat/completions` is added: 'http://127.0.0.1:8000/v1'."""
    key_variable: str
    """Variable of your environment that holds the API key; '' for a server that needs none."""
    variables: tuple[str, ...]
    """Further variables of your environment its shell has, by name."""
    effort: str
    """`reasoning_effort` of each request, in the server's own words; '' to send none."""
    temperature: float | None
    """null: the server's own."""
    top_p: float | None
    """null: the server's own."""
    max_output_tokens: int | None
    """Of one answer; null: the server's own."""
    output_limit_key: Literal["max_tokens", "max_completion_tokens"]
    """Under which name `max_output_tokens` is sent."""
    send_seed: bool
    """Send the Run's seed."""
    request: Mapping[str, Any]
    """Further keys of each request's body, as they are."""
    stream: bool
    """Ask for a streamed answer; false for servers that cannot."""
    return_reasoning: bool
    """Give a message's separate reasoning back to the server with the conversation."""
    tool_form: Literal["native", "text"]
    """'native': the protocol's tool calls. 'text': fenced blocks in the message, for models without
    a tool template."""
    context_tokens: int | None
    """What the model can hold, its answer included; beyond it the oldest tool outputs are dropped.
    null: as the server refuses."""
    max_turns: int
    """Messages of the model's in one process."""
    shell_seconds: float
    """Longest one command may run."""
    output_bytes: int
    """Of one tool's result."""
    request_seconds: float
    """Longest silence of the server."""
    retries: int
    """New tries of one request after 429, 5xx and broken connections."""
    retry_seconds: float
    """Before the first of them; it doubles with each. A server's Retry-After goes first."""

    price: Price | None
    """What its model costs, in dollars for a million tokens, where `prices` does not say; null: by
    that list."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError(
                f"agent.model: is empty; name the model: agent.model=... (agent {self.name})"
            )
        if not self.base_url:
            raise ConfigError(
                "agent.base_url: is empty; name the server, for instance agent.base_url=http://127.0.0.1:8000/v1"
            )
        check_variable_names([*self.variables, *([self.key_variable] if self.key_variable else [])])
        for key in self.request:
            if key in _OURS:
                raise ConfigError(f"agent.request.{key}: is set by the loop itself; leave it out")
        try:
            json.dumps(dict(self.request), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"agent.request: cannot be written as JSON ({error})") from None
        self._check_numbers()

    def _check_numbers(self) -> None:
        for key, least in (
            ("temperature", 0), ("top_p", 0), ("max_output_tokens", 1), ("context_tokens", 1024), ("max_turns", 1),
            ("shell_seconds", 1), ("output_bytes", 1024), ("request_seconds", 1), ("retries", 0), ("retry_seconds", 0),
        ):  # fmt: skip
            at_least(key, getattr(self, key), least)
        if self.context_tokens is not None and self.context_tokens <= 2 * (
            self.max_output_tokens or 0
        ):
            raise ConfigError(
                "agent.context_tokens: more than twice max_output_tokens "
                f"({self.max_output_tokens}) is needed, found {self.context_tokens}"
            )
