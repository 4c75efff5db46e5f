"""The paper's row 'uniform random' beside the same measured here, where Runs are of its cases and
seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evopolicy.analysis.paper.published import CORE16, ENTRIES, RANDOM, SOURCE, gymnasium_id
from evopolicy.kernel.session.record import Run, RunRecord
from evopolicy.present.numbers import rounded
from evopolicy.present.table import Cell, Column, Table, number, words

DECIMALS = 6
"""Of the published row."""
_HALF_A_DIGIT = 0.5000001e-6
_EPISODES = 32


@dataclass(frozen=True)
class RandomCell:
    """One Benchmark of the row."""

    benchmark: str
    """Slug."""
    published: float
    measured: float
    standard_error: float | None
    """Of the measured mean, over its Episodes."""

    @property
    def difference(self) -> float:
        return self.measured - self.published

    @property
    def equal(self) -> bool:
        """To the last published digit."""
        return abs(self.difference) <= _HALF_A_DIGIT


def random_row(runs: Iterable[Run]) -> list[RandomCell]:
    """The cells of `runs` that measured what the paper published, in the paper's order.

    Those are the finished, valid Runs of the agent `random` on the paper's hash cases, each Policy
    seeded with its case + 1, over the 32 held-out Episodes."""
    published = {b.id: (place, b.means[ENTRIES.index(RANDOM)]) for place, b in enumerate(CORE16)}
    found: list[tuple[int, RandomCell]] = []
    for run in runs:
        task = gymnasium_id(run.record.benchmark.id)
        measured = run.result.assessment
        if (
            task in published
            and _is_the_papers(run.record)
            and run.finished
            and run.valid
            and measured
        ):
            place, mean = published[task]
            cell = RandomCell(
                run.record.benchmark.slug, mean, measured.mean, measured.standard_error
            )
            found.append((place, cell))
    return [cell for _, cell in sorted(found, key=lambda pair: pair[0])]


def _is_the_papers(record: RunRecord) -> bool:
    pool = record.pool
    conditions = (pool.kind, pool.cases, pool.policy_seed, pool.assessment, record.agent.name)
    return conditions == ("paper", "hash", "case_plus_one", _EPISODES, "random")


def random_table(cells: Sequence[RandomCell]) -> Table:
    """Published and measured side by side, every published digit."""
    rows = [
        (
            words(cell.benchmark),
            Cell(cell.published, rounded(cell.published, DECIMALS)),
            Cell(cell.measured, rounded(cell.measured, DECIMALS)),
            number(cell.standard_error, 2),
            Cell(cell.difference, "equal" if cell.equal else f"{cell.difference:+.{DECIMALS}f}"),
        )
        for cell in cells
    ]
    columns = (
        Column("benchmark", "Benchmark", text=True),
        Column("published", "published"),
        Column("measured", "measured"),
        Column("standard_error", "± (1 s.e.)"),
        Column("difference", "difference"),
    )
    equal = sum(cell.equal for cell in cells)
    note = (
        f"{RANDOM}, published ({SOURCE}) and measured on the same cases and seeds: {equal} of "
        f"{len(cells)} equal to the last published digit. What cannot be, and why, is in the "
        "README of the Benchmark's distribution."
    )
    return Table("random", "", columns, tuple(rows), notes=(note,))
