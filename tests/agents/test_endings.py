"""What each trouble with a provider comes to, agent by agent: the table in docs/agents.md is made
here.

`endings/` holds what the real programs printed when the scripted provider failed so from the
beginning, how their process ended and what the Host's proxy had seen. Whole Runs of some are in
`end_to_end/test_coding_faults.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from evopolicy.agents import load_agent
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.run.endings import Ending, judged, words
from evopolicy.kernel.session.failures import MEANINGS

ROOT = Path(__file__).parents[2]
_FILES = sorted((Path(__file__).parent / "endings").glob("*.json"))
RECORDED = {path.stem: json.loads(path.read_text()) for path in _FILES}
AGENTS = ("codex", "claude_code", "gemini_cli", "opencode", "kimi_code", "chat", "command")
TROUBLES = (
    "400", "401", "unknown model", "429 for ever", "500 for ever", "drop", "stall", "garbage", "limit of ours",
    "start that fails",
)  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "base_url": "http://127.0.0.1:8000/v1"},
    "opencode": {"model": "m", "base_url": "http://127.0.0.1:8000/v1"},
    "command": {
        "model": "m", "parser": "qwen_code",
        "provider": {"url": "http://127.0.0.1:8000/v1", "paths": ["POST /chat/completions"]},
    },
}  # fmt: skip
NONE = {("chat", "start that fails")}
"""It is started by the Host's own Python and takes no arguments."""


def ending(agent: str, trouble: str, logs: Path) -> Ending:
    said = RECORDED[agent][trouble]
    options = yaml.safe_load((ROOT / "conf" / "agent" / f"{agent}.yaml").read_text()) | NEEDED.get(
        agent, {}
    )
    integration = load_agent(agent, options)
    logs.mkdir()
    (logs / "stderr.log").write_text("\n".join(said["stderr"]))
    transcript = integration.read([f"{line}\n" for line in said["stdout"]], logs)
    served = msgspec.convert(said["served"], ProxyUsage)
    return Ending(
        said["reason"],
        said["exit_code"],
        transcript,
        served,
        integration.provider,
        False,
        False,
        40.0,
        logs,
    )


def made(folder: Path) -> str:
    """The table, as docs/agents.md has it."""
    rows = [
        f"| at the provider | {' | '.join(f'`{agent}`' for agent in AGENTS)} |",
        "|---" * (len(AGENTS) + 1) + "|",
    ]
    for trouble in TROUBLES:
        cells = []
        for agent in AGENTS:
            reason = (
                "–"
                if (agent, trouble) in NONE
                else judged(ending(agent, trouble, folder / f"{agent} {trouble}"))
            )
            valid = reason == "–" or MEANINGS[reason].valid
            cells.append(reason if valid else f"**{reason}**")
        rows.append(f"| {trouble} | {' | '.join(cells)} |")
    return "\n".join(rows)


def test_the_table_of_endings_in_the_docs_is_what_happens(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table in (ROOT / "docs" / "agents.md").read_text(), (
        f"docs/agents.md should have\n\n{table}\n"
    )


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_trouble_ends_in_one_way_whatever_the_agent_and_is_said_in_the_providers_words(
    trouble: str, tmp_path: Path
) -> None:
    ends = {
        agent: ending(agent, trouble, tmp_path / agent)
        for agent in AGENTS
        if (agent, trouble) not in NONE
    }
    reasons = {agent: judged(end) for agent, end in ends.items()}
    assert len(set(reasons.values())) == 1, reasons
    expected = {
        "400": "400 Unsupported value", "401": "401 Incorrect API key", "unknown model": "404 There is no such model.",
        "429 for ever": "429 Rate limit reached.", "500 for ever": "500 The server had an error.",
        "drop": "cannot be reached", "stall": "no answer to", "garbage": "no answer of a model's",
        "limit of ours": "session.limits.requests", "start that fails": "before it asked its model anything",
    }[trouble]  # fmt: skip
    for agent, end in ends.items():
        assert expected in words(end, reasons[agent]), agent
