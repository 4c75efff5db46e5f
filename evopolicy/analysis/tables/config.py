"""What a table shows, as its YAML under `conf/table/` says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from evopolicy.analysis.paper.published import RANDOM
from evopolicy.analysis.records.conditions import check_allowed
from evopolicy.analysis.records.configs import check_choice, read_config
from evopolicy.analysis.stats.components import OVER, Over
from evopolicy.analysis.stats.rank import Missing
from evopolicy.analysis.stats.statistics import Statistic
from evopolicy.kernel.errors import ConfigError
from evopolicy.present.formats import Format

Kind = Literal["rank", "heldout", "normalized", "edits", "code", "efficiency", "selection", "difference"]
Rows = Literal["entries", "benchmarks", "cells"]
One = Literal["best", "published"]
By = Literal["all", "demand", "category"]
Interval = Literal["none", "runs_and_episodes", "runs", "episodes"]

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "rank": {
        "place": "place by rank score; ties share the best",
        "rank_score": "mean rank score over the Benchmarks",
        "categories": "one column a category: mean rank score over its Benchmarks",
        "wins": "Benchmarks with rank 1",
        "top2": "Benchmarks with rank 1 or 2",
        "cells": "cells with a valid result, of those planned",
    },
    "heldout": {
        "category": "of the Benchmark (rows: benchmarks)",
        "demand": "synthesis or tuning, as the paper groups Core16 (rows: benchmarks)",
        "entries": "one column an entry (rows: benchmarks)",
        "benchmarks": "one column a Benchmark (rows: entries)",
    },
    "normalized": {
        "normalized": "0 uniform random, 1 the anchor; mean over the group's Benchmarks",
        "benchmarks": "Benchmarks of the group",
    },
    "edits": {
        "runs": "valid Runs",
        "synthesis_edits": "edits with a topology never seen before in the Run",
        "synthesis_hits": "share of them that raised the best Validation mean so far",
        "parametric_edits": "edits that keep the topology of the Submission just before",
        "parametric_hits": "share of them that raised the best Validation mean so far",
        "synthesis_chance": "share of synthesis edits that would be hits if all Programs of a Run so far were alike",
        "parametric_chance": "likewise of parametric edits",
        "synthesis_durable": "share of the hits of synthesis edits that no later Submission fell back from",
        "parametric_durable": "likewise of parametric edits",
        "rollbacks": "Submissions of an earlier Program or topology",
        "retests": "Submissions of the same bundle",
        "failed": "Submissions without a result, or whose Policy failed in every Episode",
    },
    "code": {
        "runs": "valid Runs whose selected Program's source is there",
        "functions": "functions of the selected bundle",
        "branches": "its branches",
        "loops": "its loops",
        "depth": "its deepest nesting",
        "state": "what it keeps",
        "lines": "its lines",
        "modules": "its modules",
        "classes": "its classes",
        "changing_state": "what it changes between calls of act",
    },
    "efficiency": {
        "runs": "valid Runs",
        "submissions": "a Run, charged",
        "units": "Episode units used a Run",
        "units_to_best": "Episode units until the best Validation mean of the Run",
        "units_to_50": "Episode units until half of the way to the reference, of the Runs that get there",
        "units_to_80": "likewise 80 %",
        "units_to_stable": "Episode units from which on every Program is better on Validation than the first, of the "
        "Runs that get there",
        "area": "area under the best-so-far Validation mean over the units, scaled",
        "input_tokens": "a Run, not from a cache",
        "cached_tokens": "a Run",
        "output_tokens": "a Run",
        "cost_usd": "US dollars a Run",
        "thinking_seconds": "wall seconds of the agent a Run",
        "wall_seconds": "wall seconds a Run, all together",
    },
    "selection": {
        "runs": "valid Runs",
        "selected": "held-out mean of the Program that was selected",
        "last": "of the last Program submitted",
        "best_training": "of the Program with the best training score",
        "best": "of the best Program in hindsight",
        "regret": "best less selected",
        "chose_best": "share of Runs that selected the best",
        "correlation": "Spearman's, Validation against held-out means of a Run's Programs",
        "validation_gap": "Validation less held-out mean of the selected Program",
    },
    "difference": {
        "difference": "held-out mean less that of the entry it is compared with, on the same Episodes (rows: cells)",
        "p": "two-sided, of no difference (rows: cells)",
        "p_holm": "the same, adjusted for all differences of the table (rows: cells)",
        "improvement": "chance that a Run scores above one of the other entry, ties half",
        "runs": "Runs of the two entries (rows: cells)",
        "benchmarks": "Benchmarks both have (rows: entries)",
        "better": "of them, those where the adjusted p-value finds it higher (rows: entries)",
        "worse": "likewise lower (rows: entries)",
    },
}
"""The columns each kind of table has, with what they hold. The names of its rows always come first."""

ROWS: Mapping[str, tuple[Rows, ...]] = {
    "rank": ("entries",),
    "heldout": ("benchmarks", "entries"),
    "normalized": ("entries",),
    "edits": ("entries", "cells"),
    "code": ("entries", "cells"),
    "efficiency": ("entries", "cells"),
    "selection": ("cells",),
    "difference": ("cells", "entries"),
}
"""What a row may be."""

_SCORES: tuple[Kind, ...] = ("rank", "heldout", "normalized", "difference")
BELONGS: Mapping[str, tuple[Kind, ...]] = {
    "published": ("rank", "heldout", "normalized", "edits", "code"),
    "by": ("normalized", "edits", "code", "efficiency"),
    "statistic": ("heldout",),
    "against": ("difference",),
    "zero": ("normalized",),
    "one": ("normalized",),
    "replicates": _SCORES,
    "seed": _SCORES,
    "data_edits": ("edits",),
}
"""Keys that only some kinds have a use for; the others leave them at their defaults."""


@dataclass(frozen=True)
class TableConfig:
    """A table. Raises ConfigError where its parts do not go together."""

    title: str
    """Caption."""
    kind: Kind
    """Rank, heldout, normalized, edits, code, efficiency, selection or difference."""
    columns: tuple[str, ...]
    """Which columns, comma separated; the YAML says what there is."""
    published: bool = False
    """Whether the published rows stand in it: true or false."""
    rows: Rows = "entries"
    """Entries, benchmarks or cells, where the kind has a choice."""
    entries: tuple[str, ...] = ()
    """Entries that take part, comma separated, in this order but in a rank table; all by default."""
    benchmarks: tuple[str, ...] = ()
    """The Benchmarks that take part, by slug or Gymnasium id; core16 for the paper's, all by default."""
    by: By = "all"
    """Groups of Benchmarks that numbers are taken apart by: all, demand or category."""
    statistic: Statistic = "mean"
    """Mean, median or iqm: what a cell of a heldout table shows of its Runs' held-out means."""
    zero: str = RANDOM
    """Normalized tables: the entry whose score is 0; by default the published random row."""
    one: One = "best"
    """Normalized tables: what is 1, best of those in the table or published, which stays."""
    against: str = ""
    """Difference tables: what entries are compared with, an entry (the first by default) or a swept setting
    (feedback=score)."""
    interval: Interval = "none"
    """None, runs_and_episodes, runs or episodes: what intervals are over."""
    level: float = 0.95
    """Of the intervals (0.95)."""
    replicates: int = 2000
    """Of the bootstrap (2000)."""
    seed: int = 0
    """Of the bootstrap (0)."""
    data_edits: bool = False
    """Edits tables: whether the same source with new numbers in a file is a parametric edit, not a retest."""
    missing: Missing = "refuse"
    """Cells without a valid result: refuse (default), exclude or worst."""
    allow: tuple[str, ...] = ()
    """Conditions that may differ: isolation, parameters, pool, budget, selection, duplicates."""
    digits: int | None = None
    """Decimals; null for what suits each column."""
    format: Format = "terminal"
    """Terminal, csv, latex, html or markdown, whatever the file ends in."""

    def __post_init__(self) -> None:
        for name in self.columns:
            check_choice("columns", name, COLUMNS[self.kind])
        check_allowed(self.allow)
        if not self.columns:
            raise ConfigError(f"columns: name at least one of {', '.join(COLUMNS[self.kind])}")
        if len(set(self.columns)) < len(self.columns):
            raise ConfigError("columns: one is named twice; name each once")
        if self.rows not in ROWS[self.kind]:
            raise ConfigError(f"rows: a {self.kind} table has rows of {' or '.join(ROWS[self.kind])}, not {self.rows}")
        self._check_rules()
        self._check_numbers()

    def _check_rules(self) -> None:
        for key, kinds in BELONGS.items():
            if self.kind not in kinds and getattr(self, key) != _DEFAULTS[key]:
                raise ConfigError(f"{key}: it is for {' and '.join(kinds)}; leave it out for {self.kind}")
        if self.statistic == "iqm_benchmarks":
            raise ConfigError(
                "statistic: 'iqm_benchmarks' is over Benchmarks; a cell of a table takes mean, median or iqm"
            )
        if self.missing == "worst" and self.kind != "rank":
            raise ConfigError(f"missing: 'worst' is a rank, a {self.kind} table has none; choose refuse or exclude")
        only = {"benchmarks": ("category", "demand", "entries"), "entries": ("benchmarks",)}
        if self.kind == "heldout" and (wrong := set(self.columns) - set(only[self.rows])):
            name = sorted(wrong)[0]
            raise ConfigError(f"columns: '{name}' is not a column of a heldout table with rows: {self.rows}")
        if self.kind == "difference":
            self._check_differences()
        if self.interval in ("episodes", "runs_and_episodes") and self.kind not in _SCORES:
            raise ConfigError(
                f"interval: what a {self.kind} table shows is of Runs, not of Episodes; choose runs or none"
            )

    def _check_differences(self) -> None:
        of: dict[Rows, tuple[str, ...]] = {
            "cells": ("difference", "p", "p_holm", "improvement", "runs"),
            "entries": ("improvement", "benchmarks", "better", "worse"),
        }
        if wrong := sorted(set(self.columns) - set(of[self.rows])):
            raise ConfigError(f"columns: '{wrong[0]}' is not a column of a difference table with rows: {self.rows}")
        if self.interval == "none":
            raise ConfigError("interval: a difference without one says nothing; choose runs_and_episodes or another")

    def _check_numbers(self) -> None:
        if not 0 < self.level < 1:
            raise ConfigError(f"level: a number between 0 and 1 is needed (0.95), found {self.level}")
        if self.replicates < 100:
            raise ConfigError(f"replicates: 100 or more are needed, found {self.replicates}")
        if self.seed < 0:
            raise ConfigError(f"seed: 0 or more is needed, found {self.seed}")
        if self.digits is not None and not 0 <= self.digits <= 15:
            raise ConfigError(f"digits: 0 to 15 or null is needed, found {self.digits}")

    @property
    def over(self) -> Over | None:
        """What intervals are asked to be over; None for no intervals."""
        return next((over for over in OVER if over == self.interval), None)


_DEFAULTS = {field.name: field.default for field in fields(TableConfig)}


def table_config(values: Mapping[str, Any]) -> TableConfig:
    """A table's config from the plain values of its YAML.

    A list may be written as one word or as words with commas between. Raises ConfigError with the near name for a key,
    a choice or a column there is not, and for a value of the wrong type.
    """
    return read_config(TableConfig, values, "table")
