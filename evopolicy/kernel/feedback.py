"""Feedback: a scalar score, bounded public content and artifacts, cut to what the config lets the agent see."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Retention = Literal["permanent", "bulk"]
Visibility = Literal["score", "summary", "episodes", "full"]
VISIBILITIES: tuple[Visibility, ...] = ("score", "summary", "episodes", "full")


@dataclass(frozen=True)
class Artifact:
    """A file of Feedback."""

    name: str
    """Portable relative path inside the Feedback's folder: `episodes/0007.csv`."""
    path: Path
    """Where its bytes are now."""
    media_type: str
    """'text/csv', 'application/json', 'image/gif', 'image/png', 'application/x-npz', 'text/plain'."""
    retention: Retention = "permanent"
    """'bulk' artifacts may be evicted, oldest Submission first, when they exceed their budget."""
    episode: int | None = None
    """Public index it belongs to, where it belongs to one."""
