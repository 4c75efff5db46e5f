"""Options of `random`: those of `baseline`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.baseline.config import BaselineConfig


@dataclass(frozen=True)
class RandomConfig(BaselineConfig):
    """The same keys."""
