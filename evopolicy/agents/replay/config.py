"""Options of `replay`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.config import AgentConfig


@dataclass(frozen=True)
class ReplayConfig(AgentConfig):
    source: str
    """Folder of the Run whose Submissions are made again:
    `outputs/runs/<benchmark>/<agent>/s<seed>-<key>`."""
