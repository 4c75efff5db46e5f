"""Whole CartPole Runs of coding agents against the scripted provider: what their tests have in
common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evopolicy import build
from evopolicy.execution import isolation
from evopolicy.kernel.ports.transcript import ToolCall, Transcript
from evopolicy.kernel.run.stream import load_transcripts
from evopolicy.kernel.session.record import Run
from evopolicy.presets import load_config, option
from tests.agents.cli.programs import PROGRAMS, program
from tests.agents.model_server.engineer import WAIT, Tokens
from tests.agents.model_server.server import ModelServer

MODEL = "scripted-1"
KEY_VARIABLE = "SCRIPTED_PROVIDER_KEY"
KEY = "a-real-key-of-the-scripted-provider"

needs_bubblewrap = pytest.mark.skipif(
    not isolation.probe_level("bubblewrap").works,
    reason="bubblewrap: the probe says it does not work on this machine",
)


def agent_settings(name: str, server: ModelServer) -> dict[str, Any]:
    """How `agent=` is configured to ask the scripted provider."""
    if name in COMMANDS:
        shipped = option("agent", name)
        asked = {**shipped["provider"], "url": f"{server.url}/v1", "key_variable": KEY_VARIABLE}
        return {
            **shipped,
            "model": MODEL,
            "argv": [str(program(name)), *shipped["argv"][1:]],
            "provider": asked,
        }
    cli = {"cli": str(program(name))} if name in PROGRAMS else {}
    return {
        "name": name,
        "model": MODEL,
        "base_url": f"{server.url}{ROOTS[name]}",
        "key_variable": KEY_VARIABLE,
        **cli,
    }


COMMANDS = ("qwen_code", "mini_swe_agent")
"""Options over `command`."""
ROOTS = {
    "codex": "/v1",
    "chat": "/v1",
    "claude_code": "",
    "gemini_cli": "",
    "opencode": "/v1",
    "kimi_code": "/v1",
}
"""What the base URL of each protocol ends with."""


def ran(
    folder: Path,
    server: ModelServer,
    agent: str,
    options: Mapping[str, Any] | None = None,
    session: Mapping[str, Any] | None = None,
) -> Run:
    """A Run within the smallest protocol. `options` are further ones of the agent, `session` of
    conf/session."""
    config = load_config(
        "smoke",
        output=str(folder / "output"),
        benchmark="cartpole",
        pool={"training": 4, "validation": 2, "assessment": 4},
        agent={**agent_settings(agent, server), **(options or {})},
        session={"retries": 2, "backoff_seconds": 0.01, **(session or {})},
        execution={"isolation": "bubblewrap", "agent_network": "proxy", "workers": 1},
        tracking="off",
    )
    return build.run_cell(config)


def used(run: Run) -> Tokens:
    """The Run's usage in the provider's terms."""
    kinds = (
        "input_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "output_tokens",
        "reasoning_tokens",
    )
    return Tokens(*(run.state.usage.get(kind) or 0 for kind in kinds))


def told(transcript: Transcript) -> Tokens:
    """A transcript's usage, likewise."""
    usage = transcript.usage
    written, answered = (usage.cache_write_tokens, usage.output_tokens), usage.reasoning_tokens
    return Tokens(
        *(kind or 0 for kind in (usage.input_tokens, usage.cached_tokens, *written, answered))
    )


def heldout(run: Run) -> float:
    assert run.result.assessment is not None
    return run.result.assessment.mean


def transcripts(run: Run) -> list[Transcript]:
    return load_transcripts(run.folder)


def is_wait(call: ToolCall) -> bool:
    """Whether it only waited for a Submission that a busy machine measures for longer than one call
    may last."""
    return WAIT in str(dict(call.arguments))


def work(run: Run) -> list[ToolCall]:
    """The calls of all its attempts, without those that only waited."""
    calls = [call for one in transcripts(run) for step in one.steps for call in step.calls]
    assert run.state.tool_calls == len(calls)
    return [call for call in calls if not is_wait(call)]


def said(run: Run) -> str:
    """All that is known of how it went, for a test that fails."""
    logs = sorted((run.folder / "agent").glob("attempt-*/std*.log")) + [
        run.folder / "journal.jsonl"
    ]
    return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-3000:]}" for path in logs)


def holding(folder: Path, secret: str) -> list[str]:
    """Files below `folder` in which `secret` stands, and paths that hold it."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if secret in path.name or (path.is_file() and secret.encode() in path.read_bytes())
    ]
