"""What the paper published beside its held-out means: edits, code and normalized scores, by demand
group, as data.

Source: arXiv 2607.02440. Rates are in whole percent, code measures to one decimal, normalized
scores to three."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evopolicy.analysis.paper.published import CORE16

Demand = Literal["synthesis", "tuning"]
DEMANDS: tuple[Demand, ...] = ("synthesis", "tuning")

BENCHMARKS: Mapping[Demand, int] = {
    demand: sum(b.demand == demand for b in CORE16) for demand in DEMANDS
}
"""Benchmarks of Core16 in each demand group: one Run each."""


@dataclass(frozen=True)
class PublishedEdits:
    """Edits of one kind by one agent on one demand group."""

    edits: int
    percent: int | None
    """Hits (raised the best Validation mean so far) per hundred edits; None without edits."""

    @property
    def hits(self) -> int:
        """The only whole number of hits whose rate rounds to `percent`."""
        return 0 if self.percent is None else round(self.edits * self.percent / 100)


@dataclass(frozen=True)
class PublishedCode:
    """Means over the selected source bundles of one agent on one demand group."""

    functions: float
    branches: float
    loops: float
    depth: float
    state: float


_NONE = PublishedEdits(0, None)

EDITS: Mapping[str, Mapping[tuple[str, Demand], PublishedEdits]] = {
    "GPT-5.5": {
        ("synthesis", "synthesis"): PublishedEdits(37, 41),
        ("synthesis", "tuning"): PublishedEdits(48, 38),
        ("parametric", "tuning"): PublishedEdits(31, 61),
        ("parametric", "synthesis"): PublishedEdits(1, 100),
    },
    "Claude Opus 4.7": {
        ("synthesis", "synthesis"): PublishedEdits(31, 48),
        ("synthesis", "tuning"): PublishedEdits(123, 26),
        ("parametric", "tuning"): PublishedEdits(58, 21),
        ("parametric", "synthesis"): _NONE,
    },
    "MiniMax-M3": {
        ("synthesis", "synthesis"): PublishedEdits(39, 10),
        ("synthesis", "tuning"): PublishedEdits(100, 25),
        ("parametric", "tuning"): PublishedEdits(57, 25),
        ("parametric", "synthesis"): _NONE,
    },
    "DeepSeek-V4-Pro": {
        ("synthesis", "synthesis"): PublishedEdits(132, 3),
        ("synthesis", "tuning"): PublishedEdits(112, 30),
        ("parametric", "tuning"): PublishedEdits(21, 38),
        ("parametric", "synthesis"): _NONE,
    },
}
"""By agent, then by kind of edit and demand group of the Benchmark."""

CODE: Mapping[str, Mapping[Demand, PublishedCode]] = {
    "GPT-5.5": {
        "synthesis": PublishedCode(30.2, 68.2, 13.0, 4.6, 48.4),
        "tuning": PublishedCode(8.5, 8.6, 0.5, 2.1, 9.2),
    },
    "Claude Opus 4.7": {
        "synthesis": PublishedCode(19.0, 77.0, 16.8, 7.6, 26.0),
        "tuning": PublishedCode(6.5, 4.5, 0.5, 1.7, 8.2),
    },
    "MiniMax-M3": {
        "synthesis": PublishedCode(12.8, 38.2, 7.6, 4.0, 16.0),
        "tuning": PublishedCode(4.5, 7.7, 0.4, 2.3, 6.9),
    },
    "DeepSeek-V4-Pro": {
        "synthesis": PublishedCode(5.4, 21.8, 3.2, 3.2, 11.2),
        "tuning": PublishedCode(3.6, 5.8, 0.1, 2.5, 5.7),
    },
}

NORMALIZED: Mapping[str, Mapping[Demand, float]] = {
    "GPT-5.5": {"synthesis": 0.985, "tuning": 0.985},
    "Claude Opus 4.7": {"synthesis": 0.999, "tuning": 0.835},
    "MiniMax-M3": {"synthesis": 0.193, "tuning": 0.829},
    "DeepSeek-V4-Pro": {"synthesis": 0.029, "tuning": 0.668},
}
"""Macro means of clip((R - R_random) / (R_best - R_random), 0, 1).

The means in `published.CORE16` give these to three decimals, but for DeepSeek-V4-Pro on synthesis:
0.0285, 0.028. """

NORMALIZED_NOTE = (
    "The paper prints 0.029 for DeepSeek-V4-Pro on synthesis tasks; its own "
    "held-out means give 0.0285, here 0.028."
)
EDITS_NOTE = (
    "Published edits: the paper does not say what of a syntax tree counts and how a "
    "first or failed Submission does."
)
CODE_NOTE = (
    "Published code measures: means over one selected bundle a Benchmark; the paper gives "
    "no rule of counting."
)
