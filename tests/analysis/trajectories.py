"""Frames of Runs made by hand: a Submission a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evopolicy.analysis.records.columns import typed_frame
from evopolicy.analysis.records.frames import COLUMNS, Frames
from evopolicy.kernel.ports.pool import parse_selector


@dataclass(frozen=True)
class Sent:
    """One Submission of a hand-made Run."""

    source: str | Mapping[str, str] | None
    """`policy.py`, or modules by path; None where its files are gone."""
    validation: float | None = None
    score: float | None = 0.0
    selector: str = "0:2"
    status: str = "published"
    program: str = ""
    """Digest; by default told by the source."""
    assessment: float | None = None
    failed: int = 0
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return self.program or f"digest of {self.source!r}"

    @property
    def modules(self) -> Mapping[str, str]:
        return {"policy.py": self.source} if isinstance(self.source, str) else self.source or {}


@dataclass(frozen=True)
class Made:
    """One hand-made Run."""

    sent: Sequence[Sent]
    name: str = "run"
    entry: str = "ada"
    benchmark: str = "cartpole"
    selected: int | None = None
    budget: int = 20
    initial: str = "pass"
    facts: Mapping[str, Any] = field(default_factory=dict)


def frames(*runs: Made, splits: bool = True) -> Frames:
    """Frames of `runs`. `splits`: whether the Episodes of the private splits are on disk (two each,
    a point apart)."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
    for made in runs:
        whose: dict[str, Any] = {
            "run": made.name,
            "entry": made.entry,
            "benchmark": made.benchmark,
            "seed": 0,
        }
        whose |= {"finished": True, "valid": True}
        chosen = made.sent[made.selected - 1] if made.selected else None
        run: dict[str, Any] = {c.name: 0 for c in COLUMNS["runs"] if c.dtype == "int64"}
        run.update(
            units_budget=made.budget,
            created=100.0,
            selected_submission=made.selected,
            heldout_episodes=2,
        )
        run.update(
            selected_program=chosen.digest if chosen else None,
            heldout_mean=chosen.assessment if chosen else None,
        )
        rows["runs"].append(run | whose | dict(made.facts))
        first: dict[str, Any] = {
            "program": "initial",
            "initial": True,
            "selected": False,
            "submissions": 0,
            "archived": True,
        }
        empty = {"files": 1, "bytes": 0, "lines": 0}
        rows["programs"].append(
            whose | first | empty | {"source": {"policy.py": made.initial}, "data": {}}
        )
        used = 0
        for number, one in enumerate(made.sent, start=1):
            indices = parse_selector(one.selector, 100)
            used += len(indices)
            about: dict[str, Any] = {"submission": number, "program": one.digest}
            charged = {
                "selector": one.selector,
                "episodes": len(indices),
                "units_used": used,
                "failed": one.failed,
            }
            scored = {"score": one.score, "status": one.status, "time": 100.0 + 10 * number}
            rows["submissions"].append(whose | about | charged | scored)
            if one.status == "published":
                rows["candidates"].append(
                    whose | about | {"validation_mean": one.validation, "selected": False}
                )
            program = (
                first | empty | about | {"initial": False, "source": one.modules, "data": one.data}
            )
            if all(
                row["program"] != one.digest or row["run"] != made.name for row in rows["programs"]
            ):
                rows["programs"].append(whose | program)
            if splits:
                for split in ("validation", "assessment"):
                    rows["episodes"].extend(
                        _episodes(whose | {"program": one.digest}, split, getattr(one, split))
                    )
    return Frames(**{name: typed_frame(COLUMNS[name], rows[name]) for name in COLUMNS})


def _episodes(whose: Mapping[str, Any], split: str, mean: float | None) -> list[dict[str, Any]]:
    if mean is None:
        return []
    fixed = {
        "episode_return": 0.0,
        "length": 1,
        "ending": "terminated",
        "failure_kind": "",
        "clipped": 0,
    }
    return [
        {**whose, **fixed, "split": split, "index": i, "score": mean + i - 0.5, "measures": {}}
        for i in range(2)
    ]
