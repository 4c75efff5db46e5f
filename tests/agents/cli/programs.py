"""The programs of the coding agents that `npm install` has laid beside this file, and one of
Python's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

BIN = Path(__file__).parent / "node_modules" / ".bin"
PROGRAMS = {
    "codex": "codex",
    "claude_code": "claude",
    "gemini_cli": "gemini",
    "opencode": "opencode",
    "kimi_code": "kimi",
    "qwen_code": "qwen",
    "mini_swe_agent": "mini",
}
"""Name of the executable, by integration, or by option of `command`."""
MINI = Path(__file__).parent / ".venv" / "bin"
"""Where `uv venv tests/agents/cli/.venv` and `uv pip install mini-swe-agent` into it lay that
one."""
OF_NODE = ("gemini_cli", "kimi_code")
"""Those that a Node of its own, also from npm, has to run."""


def program(agent: str) -> Path | None:
    """The executable of an integration, if it is here."""
    found = (MINI if agent == "mini_swe_agent" else BIN) / PROGRAMS[agent]
    node = BIN / "node"
    whole = found.is_file() and (agent not in OF_NODE or node.is_file())
    return found if whole and shutil.which(found) else None


def needs(*agents: str) -> pytest.MarkDecorator:
    """Skips, by name, where one of the programs is not here. `chat` needs none."""
    missing = [agent for agent in agents if agent in PROGRAMS and program(agent) is None]
    reason = (
        f"{', '.join(missing)}: not in tests/agents/cli/node_modules; run `npm install` in "
        "tests/agents/cli"
    )
    return pytest.mark.skipif(bool(missing), reason=reason)
