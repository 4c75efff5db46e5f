"""How Runs differ from the protocol of the paper, whose published rows stand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evopolicy.analysis.paper.published import gymnasium_id
from evopolicy.analysis.records.scores import CellScore

_PAPER: Mapping[str, Mapping[str, Any]] = {
    "pool": {
        "kind": "paper",
        "cases": "files",
        "training": 1024,
        "validation": 16,
        "assessment": 32,
    },
    "budget": {"episodes": 128, "finish": "exhaust", "candidates": "all"},
    "selection": {"rule": "validation_mean", "tie_break": "latest"},
}
"""By condition, the paper's value of each of its settings."""
_UNITS = 128
"""Neither more Submissions nor more units in one can be used, so any limit from here on is the
paper's."""
_STEPS = {"MiniGrid-DoorKey-16x16-v0": 1000}
"""Step limits that are not the task's own, by Gymnasium id."""


def protocol_differences(scores: Sequence[CellScore]) -> list[str]:
    """Which of the paper's pool, budget, selection and parameters the cells do not have, each with
    how many cells."""
    known = [score for score in scores if score.settings]
    parts = []
    for condition in _PAPER:
        words = [
            score.conditions[condition]
            for score in known
            if not _is_the_papers(score.settings, condition)
        ]
        if words:
            parts.append(f"{condition} '{words[0]}' in {len(words)} of {len(known)} cells")
    changed = [text for score in known if (text := _changed_parameters(score))]
    if changed:
        parts.append(f"Benchmark parameters '{changed[0]}' in {len(changed)} of {len(known)} cells")
    return parts


def protocol_note(scores: Sequence[CellScore]) -> list[str]:
    """The sentence for whatever shows published rows beside Runs; [] where their protocol is the
    paper's."""
    parts = protocol_differences([score for score in scores if score.status == "done"])
    said = "The Runs differ from the paper's protocol, which makes the two hard to compare: "
    return [f"{said}{'; '.join(parts)}."] if parts else []


def _is_the_papers(settings: Mapping[str, Any], condition: str) -> bool:
    if condition == "budget":
        limits = (settings.get("budget.submissions"), settings.get("budget.per_submission"))
        if any(limit is not None and limit < _UNITS for limit in limits):
            return False
    return all(
        settings.get(f"{condition}.{name}") == value for name, value in _PAPER[condition].items()
    )


def _changed_parameters(score: CellScore) -> str:
    """The public parameters that are not the paper's, in words; '' for none."""
    steps = _STEPS.get(gymnasium_id(score.benchmark_id))
    paper = {"out_of_bounds": "clip", "max_steps": steps, "kwargs": None}
    found = {name: score.settings.get(f"benchmark.{name}") for name in paper}
    return ", ".join(f"{name}={value}" for name, value in found.items() if value != paper[name])
