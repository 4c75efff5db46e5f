"""A canary in every key and variable that can hold a secret: it is refused by name, or used and
never written down."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from evopolicy.agents import AGENTS, config_class
from evopolicy.config import RunConfig, config_from, refuse_secrets, written
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.run.sweep import read_sweep
from evopolicy.kernel.secrecy.secrets import NO_SECRETS
from evopolicy.presets import load_config
from tests.end_to_end.coding_run import holding

CANARY = "canary-4711-never-written"
ADDRESSES = (
    f"https://bob:{CANARY}@host.invalid/x",
    f"https://host.invalid/x?access_token={CANARY}",
)
COMMAND = [sys.executable, "-m", "evopolicy.cli.main"]


def text_keys(kind: type, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of a schema that holds text, or a list or a table of it."""
    for field in fields(kind):
        annotation = get_type_hints(kind)[field.name]
        schemas = [inner for inner in (annotation, *get_args(annotation)) if is_dataclass(inner)]
        for inner in schemas:
            yield from text_keys(inner, (*above, field.name))  # type: ignore[arg-type]
        if (not schemas and "str" in str(annotation)) or annotation is Any:
            yield (*above, field.name)


def agent_keys() -> Iterator[tuple[str, ...]]:
    for name in AGENTS:
        yield from text_keys(config_class(name), ("agent",))


KEYS = sorted(
    {*text_keys(RunConfig), *agent_keys()} - {("agent",), ("benchmark",)}
    | {("benchmark", "anything")}
)


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return written(
        load_config("smoke", output="out", benchmark="cartpole", agent={"name": "random"})
    )


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("key", KEYS, ids=".".join)
def test_a_key_that_is_given_a_secret_refuses_it_or_writes_none(
    plain: Mapping[str, Any], key: tuple[str, ...], address: str
) -> None:
    value = {**plain}
    inner = value
    for part in key[:-1]:
        inner[part] = {**(inner.get(part) or {})}
        inner = inner[part]
    old = inner.get(key[-1])
    inner[key[-1]] = (
        [address] if isinstance(old, list) else {"x": address} if isinstance(old, dict) else address
    )
    if key == ("tracking", "uri"):
        shown = written(config_from(value))
        refuse_secrets(shown, NO_SECRETS)
        assert CANARY not in str(shown) and shown["tracking"]["uri"].endswith(
            ("***@host.invalid/x", "access_token=***")
        )
        return
    with pytest.raises(ConfigError, match="name the variable that holds it instead") as refused:
        refuse_secrets(value, NO_SECRETS)
    assert CANARY not in str(refused.value) and str(refused.value).startswith(".".join(key))


@pytest.mark.parametrize(
    "agent",
    [
        {"environment": {"MY_TOKEN": CANARY}},
        {"api_key": CANARY},
        {"argv": ["tool", f"--api-key={CANARY}"]},
    ],
)
def test_what_is_named_like_a_secret_is_refused_whatever_it_looks_like(
    plain: Mapping[str, Any], agent: Mapping[str, Any]
) -> None:
    with pytest.raises(
        ConfigError, match=r"agent\.(environment\.MY_TOKEN|api_key|argv\.1): holds a key"
    ) as refused:
        refuse_secrets({**plain, "agent": {**plain["agent"], **agent}}, NO_SECRETS)
    assert CANARY not in str(refused.value)


@pytest.mark.slow
@pytest.mark.xdist_group("mlflow")
def test_a_password_of_the_tracking_store_is_used_and_is_nowhere(tmp_path: Path) -> None:
    said: list[str] = []

    def run(*words: str, code: int = 0, **more: str) -> str:
        environment = {
            **os.environ,
            "HTTPS_PROXY": f"http://bob:{CANARY}@proxy.invalid:3128",
            "NO_PROXY": "*",
            "MLFLOW_TRACKING_PASSWORD": CANARY,
            "MLFLOW_TRACKING_TOKEN": CANARY,
            **more,
        }
        done = subprocess.run(
            [*COMMAND, *words],
            capture_output=True,
            text=True,
            timeout=500,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        said.append(done.stdout + done.stderr)
        assert done.returncode == code, said[-1]
        return said[-1]

    uri = f"sqlite:///file:{tmp_path}/store.db?uri=true&access_token={CANARY}"
    sweep = [
        *(
            "-m",
            "sweep=s",
            "agent=random",
            "benchmark=cartpole",
            "protocol=smoke",
            "seed=0,1",
            "tracking=sqlite",
        ),
        *(
            "budget.submissions=1",
            "budget.episodes=1",
            "pool.validation=0",
            "selection=last",
            "pool.assessment=1",
        ),
    ]
    run(*sweep, f"tracking.uri='{uri}'", "execution.workers=1")
    tracking = read_sweep(tmp_path / "outputs" / "sweeps" / "s").tracking
    assert tracking["uri"] == uri.replace(CANARY, "***")
    assert (tmp_path / "store.db").stat().st_size > 10_000, "the real address was used"
    assert "give the whole address again" in run("resume", "sweep=s", code=2)
    assert "give the whole address again" in run("track", "source=outputs/sweeps/s", code=2)
    run("resume", "sweep=s", MLFLOW_TRACKING_URI=uri)
    run("resume", "sweep=s", f"tracking.uri={uri}")
    run("report", "source=outputs/sweeps/s", "log=true", f"tracking.uri={uri}")
    assert CANARY not in "".join(said)
    assert holding(tmp_path, CANARY) == []
