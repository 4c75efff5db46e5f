"""What a table shows, as its YAML under `conf/table/` says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from evopolicy.analysis.paper.published import RANDOM
from evopolicy.analysis.records.conditions import check_allowed
from evopolicy.analysis.records.configs import check_choice, read_config
from evopolicy.analysis.stats.components import OVER, Over
from evopolicy.analysis.stats.rank import Missing
from evopolicy.analysis.stats.statistics import Statistic
from evopolicy.kernel.errors import ConfigError
from evopolicy.present.formats import Format

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal[
    "rank", "heldout", "normalized", "edits", "code", "efficiency", "selection", "difference"
]
Rows = Literal["entries", "benchmarks", "cells"]
One = Literal["best", "published"]
By = Literal["all", "demand", "category"]
Interval = Literal["none", "runs_and_episodes", "runs", "episodes"]


@dataclass(frozen=True)
class TableColumn:
    """A column that tables of one kind can have."""

    meaning: str
    title: str = ""
    """Its head; '' for its name, in words."""
    of: str | Callable[[pd.DataFrame], pd.Series[Any]] = ""
    """Kinds of Runs (code, efficiency, selection): the number of each Run that its cells are means
    of. A column of the kind's frame (a row a Run, all of `frames.runs` in it; see `tables.runs`),
    or what a function makes of that frame; '' for the column of its own name."""
    best: Literal["", "highest", "lowest"] = ""
    """Likewise: which of its cells is marked as the best."""

    def head(self, name: str) -> str:
        return self.title or name.replace("_", " ")


COLUMNS: Mapping[str, dict[str, TableColumn]] = {
    "rank": {
        "place": TableColumn("place by rank score; ties share the best"),
        "rank_score": TableColumn("mean rank score over the Benchmarks"),
        "categories": TableColumn("one column a category: mean rank score over its Benchmarks"),
        "wins": TableColumn("Benchmarks with rank 1"),
        "top2": TableColumn("Benchmarks with rank 1 or 2", "top 2"),
        "cells": TableColumn("cells with a valid result, of those planned"),
    },
    "heldout": {
        "category": TableColumn("of the Benchmark (rows: benchmarks)"),
        "demand": TableColumn("synthesis or tuning, as the paper groups Core16 (rows: benchmarks)"),
        "entries": TableColumn("one column an entry (rows: benchmarks)"),
        "benchmarks": TableColumn("one column a Benchmark (rows: entries)"),
    },
    "normalized": {
        "normalized": TableColumn(
            "0 uniform random, 1 the anchor; mean over the group's Benchmarks"
        ),
        "benchmarks": TableColumn("Benchmarks of the group"),
    },
    "edits": {
        "runs": TableColumn("valid Runs"),
        "synthesis_edits": TableColumn("edits with a topology never seen before in the Run"),
        "synthesis_hits": TableColumn(
            "share of them that raised the best Validation mean so far", "hits"
        ),
        "parametric_edits": TableColumn(
            "edits that keep the topology of the Submission just before"
        ),
        "parametric_hits": TableColumn(
            "share of them that raised the best Validation mean so far", "hits"
        ),
        "synthesis_chance": TableColumn(
            "share of synthesis edits that would be hits if all Programs of a Run so far were "
            "alike",
            "by chance",
        ),
        "parametric_chance": TableColumn("likewise of parametric edits", "by chance"),
        "synthesis_durable": TableColumn(
            "share of the hits of synthesis edits that no later Submission fell back from",
            "durable",
        ),
        "parametric_durable": TableColumn("likewise of parametric edits", "durable"),
        "rollbacks": TableColumn("Submissions of an earlier Program or topology"),
        "retests": TableColumn("Submissions of the same bundle"),
        "failed": TableColumn(
            "Submissions without a result, or whose Policy failed in every Episode"
        ),
    },
    "code": {
        "runs": TableColumn("valid Runs whose selected Program's source is there"),
        "functions": TableColumn("functions of the selected bundle"),
        "branches": TableColumn("its branches"),
        "loops": TableColumn("its loops"),
        "depth": TableColumn("its deepest nesting"),
        "state": TableColumn("what it keeps"),
        "lines": TableColumn("its lines"),
        "modules": TableColumn("its modules"),
        "classes": TableColumn("its classes"),
        "changing_state": TableColumn("what it changes between calls of act"),
    },
    "efficiency": {
        "runs": TableColumn("valid Runs"),
        "submissions": TableColumn("a Run, charged"),
        "units": TableColumn("Episode units used a Run", of="units_used"),
        "units_to_best": TableColumn("Episode units until the best Validation mean of the Run"),
        "units_to_50": TableColumn(
            "Episode units until half of the way to the reference, of the Runs that get there",
            "units to 50 %",
            best="lowest",
        ),
        "units_to_80": TableColumn("likewise 80 %", "units to 80 %", best="lowest"),
        "units_to_stable": TableColumn(
            "Episode units from which on every Program is better on Validation than the first, of "
            "the Runs that get there"
        ),
        "area": TableColumn(
            "area under the best-so-far Validation mean over the units, scaled",
            of="normalized_area",
            best="highest",
        ),
        "input_tokens": TableColumn("a Run, not from a cache"),
        "cached_tokens": TableColumn("a Run"),
        "output_tokens": TableColumn("a Run"),
        "cost_usd": TableColumn("US dollars a Run", "cost, $"),
        "thinking_seconds": TableColumn("wall seconds of the agent a Run", "thinking, s"),
        "wall_seconds": TableColumn("wall seconds a Run, all together", "wall, s"),
    },
    "selection": {
        "runs": TableColumn("valid Runs"),
        "selected": TableColumn(
            "held-out mean of the Program that was selected", of="heldout_mean"
        ),
        "last": TableColumn("of the last Program submitted"),
        "best_training": TableColumn(
            "of the Program with the best training score", "best in training"
        ),
        "best": TableColumn(
            "of the best Program in hindsight", "best in hindsight", of="best_assessment"
        ),
        "regret": TableColumn("best less selected"),
        "chose_best": TableColumn("share of Runs that selected the best", "chose the best"),
        "correlation": TableColumn(
            "Spearman's, Validation against held-out means of a Run's Programs",
            "rank correlation",
            of="validation_correlation",
        ),
        "validation_gap": TableColumn(
            "Validation less held-out mean of the selected Program", "Validation gap"
        ),
    },
    "difference": {
        "difference": TableColumn(
            "held-out mean less that of the entry it is compared with, on the same Episodes "
            "(rows: cells)"
        ),
        "p": TableColumn("two-sided, of no difference (rows: cells)"),
        "p_holm": TableColumn(
            "the same, adjusted for all differences of the table (rows: cells)", "p (Holm)"
        ),
        "improvement": TableColumn(
            "chance that a Run scores above one of the other entry, ties half", "P(higher)"
        ),
        "runs": TableColumn("Runs of the two entries (rows: cells)"),
        "benchmarks": TableColumn("Benchmarks both have (rows: entries)"),
        "better": TableColumn(
            "of them, those where the adjusted p-value finds it higher (rows: entries)"
        ),
        "worse": TableColumn("likewise lower (rows: entries)"),
    },
}
"""The columns each kind of table has. The names of its rows always come first."""

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
    """Entries that take part, comma separated, in this order but in a rank table; all by
    default."""
    benchmarks: tuple[str, ...] = ()
    """The Benchmarks that take part, by slug or Gymnasium id; core16 for the paper's, all by
    default."""
    by: By = "all"
    """Groups of Benchmarks that numbers are taken apart by: all, demand or category."""
    statistic: Statistic = "mean"
    """Mean, median or iqm: what a cell of a heldout table shows of its Runs' held-out means."""
    zero: str = RANDOM
    """Normalized tables: the entry whose score is 0; by default the published random row."""
    one: One = "best"
    """Normalized tables: what is 1, best of those in the table or published, which stays."""
    against: str = ""
    """Difference tables: what entries are compared with, an entry (the first by default) or a swept
    setting (feedback=score)."""
    interval: Interval = "none"
    """None, runs_and_episodes, runs or episodes: what intervals are over."""
    level: float = 0.95
    """Of the intervals (0.95)."""
    replicates: int = 2000
    """Of the bootstrap (2000)."""
    seed: int = 0
    """Of the bootstrap (0)."""
    data_edits: bool = False
    """Edits tables: whether the same source with new numbers in a file is a parametric edit, not a
    retest."""
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
            raise ConfigError(
                f"rows: a {self.kind} table has rows of {' or '.join(ROWS[self.kind])}, not "
                f"{self.rows}"
            )
        self._check_rules()
        self._check_numbers()

    def _check_rules(self) -> None:
        for key, kinds in BELONGS.items():
            if self.kind not in kinds and getattr(self, key) != _DEFAULTS[key]:
                raise ConfigError(
                    f"{key}: it is for {' and '.join(kinds)}; leave it out for {self.kind}"
                )
        if self.statistic == "iqm_benchmarks":
            raise ConfigError(
                "statistic: 'iqm_benchmarks' is over Benchmarks; a cell of a table takes mean, "
                "median or iqm"
            )
        if self.missing == "worst" and self.kind != "rank":
            raise ConfigError(
                f"missing: 'worst' is a rank, a {self.kind} table has none; choose refuse or "
                "exclude"
            )
        only = {"benchmarks": ("category", "demand", "entries"), "entries": ("benchmarks",)}
        if self.kind == "heldout" and (wrong := set(self.columns) - set(only[self.rows])):
            name = sorted(wrong)[0]
            raise ConfigError(
                f"columns: '{name}' is not a column of a heldout table with rows: {self.rows}"
            )
        if self.kind == "difference":
            self._check_differences()
        if self.interval in ("episodes", "runs_and_episodes") and self.kind not in _SCORES:
            raise ConfigError(
                f"interval: what a {self.kind} table shows is of Runs, not of Episodes; choose "
                "runs or none"
            )

    def _check_differences(self) -> None:
        of: dict[Rows, tuple[str, ...]] = {
            "cells": ("difference", "p", "p_holm", "improvement", "runs"),
            "entries": ("improvement", "benchmarks", "better", "worse"),
        }
        if wrong := sorted(set(self.columns) - set(of[self.rows])):
            raise ConfigError(
                f"columns: '{wrong[0]}' is not a column of a difference table with rows: "
                f"{self.rows}"
            )
        if self.interval == "none":
            raise ConfigError(
                "interval: a difference without one says nothing; choose runs_and_episodes or "
                "another"
            )

    def _check_numbers(self) -> None:
        if not 0 < self.level < 1:
            raise ConfigError(
                f"level: a number between 0 and 1 is needed (0.95), found {self.level}"
            )
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

    A list may be written as one word or as words with commas between. Raises ConfigError with the
    near name for a key, a choice or a column there is not, and for a value of the wrong type."""
    return read_config(TableConfig, values, "table")
