"""What the coding agents share: the options all of them have, finding their program, and their
provider."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evopolicy.agents.config import MAX_ARGUMENT_BYTES, AgentConfig, check_variable_names, identity
from evopolicy.agents.provider import ModelProvider
from evopolicy.kernel.errors import AgentError, ConfigError
from evopolicy.kernel.ports.protocols import AgentIdentity, Provider
from evopolicy.kernel.run.prices import Price

VERSION_SECONDS = 90.0
"""Until a program is taken to hang: on a machine where many cells start at once, one takes tens of
seconds to begin."""
LOGINS = ("key", "subscription")
_OF_THIS_MACHINE = ("cli", "node", "key_variable", "configuration")
"""Options that name where things lie here: no part of what the agent is."""


@dataclass(frozen=True)
class CodingConfig(AgentConfig):
    """The options every coding agent has. Limits on time, tokens and cost are `session.limits`,
    skills `prompt.skills`.

    No secret's value is ever in it: variables are named.
    """

    effort: str
    """How hard it reasons, in the provider's own words; '' for the program's default."""
    base_url: str
    """Another address of its API: a gateway, or a model server of your own; '' for the
    provider's."""
    login: str
    """'key' (from `key_variable`) or 'subscription' (the login files its program keeps; needs
    `allowlist`)."""
    key_variable: str
    """Variable of your environment that holds the API key; '' where the API needs none."""
    cli: str
    """Name or path of its program."""
    arguments: tuple[str, ...]
    """Further arguments for it, as they are."""
    variables: tuple[str, ...]
    """Further variables of your environment it is started with, by name."""
    configuration: str
    """Folder of its configuration to copy into its home (as ~/.codex); '' for a clean one."""
    mcp_servers: Mapping[str, tuple[str, ...]]
    """Command lines of MCP servers, by name; they run inside its sandbox."""
    price: Price | None
    """What its model costs, in dollars for a million tokens, where `prices` does not say; null: by
    that list."""

    def __post_init__(self) -> None:
        if self.login not in LOGINS:
            raise ConfigError(
                f"agent.login: 'key' or 'subscription' is needed, found '{self.login}'"
            )
        if not self.model:
            raise ConfigError(
                f"agent.model: is empty; name the model: agent.model=... (agent {self.name})"
            )
        if self.login == "subscription" and self.base_url:
            raise ConfigError(
                "agent.base_url: a subscription's login is for the provider's own address; leave "
                "it ''"
            )
        for part in self.arguments:
            if "\0" in part or len(part.encode()) > MAX_ARGUMENT_BYTES:
                raise ConfigError("agent.arguments: one holds a NUL or has 128 KiB or more")
        for name, command in self.mcp_servers.items():
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or not command or not command[0]:
                raise ConfigError(
                    f"agent.mcp_servers.{name}: a plain name with a command line is needed"
                )
        check_variable_names([*self.variables, *([self.key_variable] if self.key_variable else [])])


@dataclass(frozen=True)
class CodingAgent:
    """Base of the integrations of coding agents; each adds `provider`, `probe`, `invoke` and
    `read`."""

    config: CodingConfig

    program = "initial"
    resumes = True

    @property
    def call_seconds(self) -> float | None:
        return None

    @property
    def identity(self) -> AgentIdentity:
        return identity(self.config, _OF_THIS_MACHINE)

    @property
    def variables(self) -> Sequence[str]:
        return self.config.variables

    def check(self) -> None:
        """Raises AgentError for a variable that is not set, or a configuration that is not
        there."""
        check_variables(self.config.variables)
        folder = self.config.configuration
        if folder and not Path(folder).expanduser().is_dir():
            raise AgentError(
                f"agent.configuration: '{folder}' is not a folder; name one, or '' for a clean home"
            )


def check_variables(names: Sequence[str]) -> None:
    """Raises AgentError for one that this environment does not have."""
    for name in names:
        if name not in os.environ:
            raise AgentError(
                f"agent.variables: the environment has no '{name}'; set it or leave it out"
            )


def provider(
    config: CodingConfig,
    url: str,
    paths: tuple[str, ...],
    *,
    agent_variable: str,
    key_header: str = "Authorization",
    key_form: str = "Bearer {key}",
    hosts: tuple[str, ...] = (),
    retry_after_seconds: float | None = None,
) -> Provider:
    """The Provider of `config` at `url`, or at its own `base_url`. `hosts`: what a subscription's
    login talks to."""
    subscription = config.login == "subscription"
    return ModelProvider(
        url=config.base_url or url,
        paths=paths,
        key_variable="" if subscription else config.key_variable,
        agent_variable=agent_variable,
        key_header=key_header,
        key_form=key_form,
        models=(config.model,),
        hosts=hosts if subscription else (),
        retry_after_seconds=retry_after_seconds,
        subscription=subscription,
    )


def find_cli(config: CodingConfig, install: str) -> Path:
    """The program of `agent.cli`, absolute, links not followed. Raises AgentError with the command
    that installs it."""
    given = str(Path(config.cli).expanduser())
    found = shutil.which(given)
    if found is None:
        what = "cannot be run" if Path(given).exists() else "is not here"
        raise AgentError(
            f"agent.cli: '{config.cli}' {what}; install it with `{install}`, or give its path"
        )
    return Path(found).absolute()


def version_of(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """First line of what `argv` says to a question for its version. Asked once per program. Raises
    AgentError."""
    program = Path(argv[0]).resolve()
    changed = program.stat().st_mtime_ns if program.exists() else 0
    return _version_of(tuple(argv), tuple(sorted((environment or {}).items())), changed)


@lru_cache(maxsize=64)
def _version_of(
    argv: tuple[str, ...], environment: tuple[tuple[str, str], ...], _changed: int
) -> str:
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_SECONDS,
            check=False,
            env={**plain, **dict(environment)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AgentError(
            f"agent.cli: '{' '.join(argv)}' does not answer ({error}); install it anew"
        ) from None
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    if done.returncode or not lines:
        words = lines[-1][:200] if lines else "it says nothing"
        raise AgentError(
            f"agent.cli: '{' '.join(argv)}' ends with exit code {done.returncode} ({words}); "
            "install it anew"
        )
    return lines[0][:200]
