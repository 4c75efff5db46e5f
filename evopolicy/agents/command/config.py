"""Options of `command`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evopolicy.agents.command.parsers import PARSERS
from evopolicy.agents.config import MAX_ARGUMENT_BYTES, AgentConfig, check_program
from evopolicy.agents.provider import ModelProvider
from evopolicy.kernel.errors import ConfigError, did_you_mean
from evopolicy.kernel.run.prices import Price


@dataclass(frozen=True)
class CommandConfig(AgentConfig):
    argv: tuple[str, ...]
    """What to start; `{workspace}`, `{task}` (TASK.md), `{prompt}`, `{model}`, `{python}` and
    `{provider_url}` are replaced in each. The prompt is on standard input too. """
    parser: str
    """How its output is read: a name in PARSERS; 'text' takes its lines as they are."""
    collect: tuple[str, ...]
    """Globs below its home: files kept, at its end, in the attempt's logs under `home/`."""
    price: Price | None
    """What its model costs, in dollars for a million tokens, where `prices` does not say; null: by
    that list."""
    ask_version: bool
    """Run `argv[0] --version` once and keep its first line in the record."""
    program: str
    """Which of the Benchmark's Programs the workspace begins with: 'initial', 'random' or
    'parametric'."""
    environment: Mapping[str, str]
    """Variables it is started with; the same are replaced, and `{provider_url}`. Never a key: that
    is `provider`'s."""
    provider: ModelProvider | None
    """The API it asks its model through; null: it needs no network."""
    packages: tuple[str, ...]
    """Python packages it imports beside those a Policy may."""
    readable: tuple[str, ...]
    """Further folders it reads or runs from, as an installation of its own."""
    resumes: bool
    """Whether it can be started again in a half-done workspace, after the Host was killed."""
    variables: tuple[str, ...]
    """Variables of your environment it is started with, by name; their values are masked wherever
    we write."""
    call_seconds: float | None
    """Longest call its shell waits for; null: any. `submit` and `wait` come back before."""

    def __post_init__(self) -> None:
        for part in self.argv:
            if "\0" in part or len(part.encode()) > MAX_ARGUMENT_BYTES:
                raise ConfigError(
                    "agent.argv: an argument holds a NUL or has 128 KiB or more; put it into a file"
                )
        if self.parser not in PARSERS:
            raise ConfigError(
                f"agent.parser: '{self.parser}' is unknown.{did_you_mean(self.parser, PARSERS)}"
            )
        check_program(self.program)
        if self.provider is not None and not self.model and not self.provider.models:
            raise ConfigError(
                "agent.model: is empty; name the one model that requests to agent.provider may "
                "name, agent.model=..."
            )
