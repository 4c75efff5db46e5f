"""What a record may not decide by itself: how safely its Programs and agents are held, what is
started, read and sent.

That comes from the command line, or from this machine's own records. What lowers the isolation has
to be typed again even for one's own; what is started or read from elsewhere is asked for once where
the record was not made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from evopolicy.config import RunConfig
from evopolicy.execution import isolation as levels
from evopolicy.kernel.errors import ConfigError, IsolationError
from evopolicy.kernel.files.seal import is_ours

TRUST = "trust"
_TOLD = (
    "argv",
    "cli",
    "command",
    "base_url",
    "source",
    "files",
    "home",
    "environment",
    "variables",
)
"""Options of agents that say what is started, asked or let in."""
CONSENT = ("execution.isolation", "execution.allow_unisolated", "execution.agent_network")
"""Words of a command that let a record lower its isolation."""


def words_needed(config: RunConfig) -> dict[str, str]:
    """The words a command has to have before it goes on with `config`, read from a record: none
    where it is as safe as this machine makes a Run that asks for nothing."""
    execution = config.execution
    words: dict[str, str] = {}
    if execution.isolation == "none":
        words.update({"execution.isolation": "none", "execution.allow_unisolated": "true"})
    elif execution.isolation == "landlock" and _strongest() == "bubblewrap":
        words["execution.isolation"] = "landlock"
    if execution.agent_network == "open":
        words["execution.agent_network"] = "open"
    return words


def _strongest() -> str:
    try:
        return levels.choose("auto", False)
    except IsolationError:
        return "none"


def check_lowered(what: str, config: RunConfig, said: Mapping[str, str]) -> None:
    """Raises ConfigError, beginning with `what`, where the command does not have the words that
    `config` needs."""
    needed = words_needed(config)
    missing = {
        key: value for key, value in needed.items() if said.get(key, "").strip().lower() != value
    }
    if missing:
        words = " ".join(f"{key}={value}" for key, value in missing.items())
        raise ConfigError(
            f"{what}: its record asks for less isolation than this machine has, and a record "
            f"alone never lowers it; add to the command, if you want that: {words}"
        )


def check_ours(what: str, config: Mapping[str, Any], sealed: str, *, trusted: bool) -> None:
    """Raises ConfigError, beginning with `what`, for a config that was not made here and is not
    trusted."""
    if not trusted and not is_ours(config, sealed):
        raise ConfigError(
            f"{what}: was not made by you on this machine, and going on with it does what its "
            f"config says: {starts(config)}; if you trust whoever made it, add {TRUST}=true"
        )


def loaded(config: Mapping[str, Any]) -> str:
    """What the Environment of this plain config is made of that is not its Benchmark's own: code,
    or files it names."""
    benchmark = _mapping(config.get("benchmark"))
    module = str(benchmark.get("env_id") or "").rpartition(":")[0]
    parts = [f"the Python module {_shown(module)}"] if module else []
    if kwargs := benchmark.get("kwargs"):
        parts.append(f"an Environment with {_shown(kwargs)}")
    return ", ".join(parts)


def starts(config: Mapping[str, Any]) -> str:
    """In a few words, what a Run of this plain config starts and reads that is not evopolicy's
    own."""
    agent = _mapping(config.get("agent"))
    parts = [f"the agent {str(agent.get('name', '?'))[:80]}"]
    parts.extend(f"{key} {_shown(agent[key])}" for key in _TOLD if agent.get(key))
    if others := loaded(config):
        parts.append(others)
    secret, tracking = _mapping(config.get("secret")), _mapping(config.get("tracking"))
    parts.extend(
        f"the secret in {_shown(secret[key])}" for key in ("file", "variable") if secret.get(key)
    )
    if skills := _mapping(config.get("prompt")).get("skills"):
        parts.append(f"the skills {_shown(skills)}")
    if tracking.get("enabled") and tracking.get("uri"):
        parts.append("its own tracking store")
    execution = _mapping(config.get("execution"))
    parts.append(
        f"isolation {execution.get('isolation')}, agent's network {execution.get('agent_network')}"
    )
    return ", ".join(parts)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _shown(value: object) -> str:
    text = (
        " ".join(map(str, value))
        if isinstance(value, Sequence) and not isinstance(value, str)
        else str(value)
    )
    return repr(text if len(text) <= 200 else text[:197] + "...")
