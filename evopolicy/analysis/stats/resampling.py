"""Intervals of what has no formula, by a bootstrap over crossed Runs and Episodes: medians, IQMs,
ranks, profiles.

What all Runs agree in every replicate does too, and its interval would have no width: chances of
improvement have a score interval instead, and profiles are never narrower than Wilson's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evopolicy.analysis.stats.components import Cell, Error, Over, read_cell
from evopolicy.analysis.stats.intervals import (
    MIN_RUNS,
    Interval,
    aggregate_mean_interval,
    allowed_over,
    check_same,
    few_runs_foot,
    make_interval,
    two_kinds,
)
from evopolicy.analysis.stats.rank import Missing, Ranking, rank_entries, rank_scores
from evopolicy.analysis.stats.replicates import (
    Draws,
    Key,
    Scores,
    as_found,
    by_benchmark,
    draw_cells,
    percentiles,
    pooled,
    scores_of,
    widening,
)
from evopolicy.analysis.stats.statistics import (
    Floats,
    Statistic,
    aggregate,
    anchored,
    improvement_bounds,
    normal_quantile,
    performance_profile,
    probability_of_improvement,
    wilson,
)
from evopolicy.kernel.errors import RecordError

REPLICATES = 2000
_METHOD = "crossed bootstrap"

_Function: TypeAlias = Callable[[Scores], Floats]


def aggregate_interval(
    tables: Mapping[str, ArrayLike],
    statistic: Statistic = "mean",
    *,
    rng: np.random.Generator,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    anchors: Mapping[str, tuple[float, float]] | None = None,
    clip: bool = False,
    replicates: int = REPLICATES,
) -> Interval:
    """Interval of `statistics.aggregate` of an entry, from its scores (Runs, Episodes) by
    Benchmark.

    `anchors` (zero, one) normalize each Benchmark and count as known; `clip` clips to [0, 1] what
    the statistic is over. A mean that is not clipped has a formula, which is used. What it targets:
    the same statistic of endlessly many Runs, for `iqm` and a single Benchmark's `median` of Run
    scores measured on as many Episodes as here."""
    if statistic == "mean" and not clip:
        return aggregate_mean_interval(tables, over=over, level=level, anchors=anchors)
    scaled = anchored(tables, anchors)
    cells = {(0, name): read_cell(table) for name, table in scaled.items()}

    def number(scores: Scores) -> Floats:
        return aggregate([scores[0, name] for name in scaled], statistic, clip=clip)

    used, note, draws = _prepare(cells, over, rng, replicates)
    note = f"{note} {two_kinds(by_benchmark(cells), used)}".strip()
    return _interval(number, as_found(cells), draws, used, level, note)


def improvement_interval(
    first: Mapping[str, ArrayLike],
    second: Mapping[str, ArrayLike],
    *,
    rng: np.random.Generator,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    replicates: int = REPLICATES,
) -> Interval:
    """Interval of the mean over Benchmarks of `probability_of_improvement` of first over second.

    Both give scores (Runs, Episodes) by Benchmark, with matching columns. Over Runs it is
    `improvement_bounds`, since in replicates of Runs that won every pair all are won; the variance
    that Episodes alone give is added. With fewer than MIN_RUNS Runs there is none, unless it is
    asked for over Episodes, of these Runs."""
    check_same(first, second)
    cells = {
        (i, name): read_cell(tables[name])
        for i, tables in enumerate((first, second))
        for name in first
    }

    def number(scores: Scores) -> Floats:
        chances = [probability_of_improvement(scores[0, name], scores[1, name]) for name in first]
        return np.asarray(np.mean(chances, axis=0))

    used, note, draws = _prepare(cells, over, rng, replicates)
    if over == "episodes":
        return _interval(number, as_found(cells), draws, used, level, note)
    chance = float(number(as_found(cells))[0])
    if used is None or used == "episodes":
        short = f"No interval of a chance: a cell has fewer than {MIN_RUNS} Runs."
        return make_interval(
            chance, (math.nan, math.nan), Error(0.0, math.inf), None, "", level, short
        )
    low, high = improvement_bounds(
        chance, [(cells[0, name].n, cells[1, name].n) for name in first], level
    )
    z = normal_quantile(level)
    by_episodes = z * float(
        number({key: cell.runs + draws[key].episodes for key, cell in cells.items()}).std()
    )
    low = max(0.0, chance - math.hypot(chance - low, by_episodes))
    high = min(1.0, chance + math.hypot(high - chance, by_episodes))
    error = Error(((high - low) / (2 * z)) ** 2, math.inf)
    return make_interval(chance, (low, high), error, used, "Newcombe's score", level, note)


@dataclass(frozen=True, eq=False)
class ProfileBand:
    """A performance profile with pointwise intervals."""

    thresholds: Floats
    fractions: Floats
    low: Floats
    high: Floats
    level: float
    over: Over | None
    note: str


def profile_band(
    tables: Mapping[str, ArrayLike],
    thresholds: ArrayLike,
    *,
    rng: np.random.Generator,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    anchors: Mapping[str, tuple[float, float]] | None = None,
    replicates: int = REPLICATES,
) -> ProfileBand:
    """`performance_profile` (T,) of an entry at T thresholds, from its scores (Runs, Episodes) by
    Benchmark.

    The intervals hold at each threshold by itself, not for the whole curve at once.
    """
    scaled = anchored(tables, anchors)
    cells = {(0, name): read_cell(table) for name, table in scaled.items()}
    levels = np.asarray(thresholds, dtype=float)

    def curve(scores: Scores) -> Floats:
        return performance_profile([scores[0, name] for name in scaled], levels)

    used, note, draws = _prepare(cells, over, rng, replicates)
    fractions = curve(as_found(cells))[0]
    if used is None:
        nothing = np.full(levels.shape, np.nan)
        return ProfileBand(levels, fractions, nothing, nothing, level, None, note)
    factor, _ = widening(curve(scores_of(draws, 1.0)).mean(axis=-1), draws, level)
    low, high = percentiles(curve(scores_of(draws, factor)), fractions, level)
    if used != "episodes":
        low, high = _with_tails(fractions, low, high, [cell.n for cell in cells.values()], level)
    return ProfileBand(levels, fractions, low, high, level, used, note)


def _with_tails(
    fractions: Floats, low: Floats, high: Floats, runs: Sequence[int], level: float
) -> tuple[Floats, Floats]:
    """No narrower than Wilson's interval of as many independent Runs: where all of them lie on one
    side of a threshold so does each replicate, though another Run need not.

    Benchmarks weigh the same, so with unlike numbers of Runs they count as their harmonic mean on
    each."""
    trials = len(runs) ** 2 / sum(1 / n for n in runs)
    bounds = np.array([wilson(min(share * trials, trials), trials, level) for share in fractions])
    return np.minimum(low, bounds[:, 0]), np.maximum(high, bounds[:, 1])


def rank_score_intervals(
    tables: Mapping[str, Mapping[str, ArrayLike]],
    *,
    rng: np.random.Generator,
    missing: Missing = "refuse",
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    replicates: int = REPLICATES,
) -> dict[str, Interval]:
    """Interval of each entry's mean rank score, all entries ranked anew in each replicate.

    `tables[entry][benchmark]` holds scores (Runs, Episodes); entries of one Benchmark share the
    columns. `missing` is the policy of `rank.rank_entries` for cells that are not there. Entries
    whose true means tie have true scores that no measurement with noise shows, and intervals lie
    off them.

    Over Runs, an entry with fewer than MIN_RUNS Runs on a Benchmark has no interval, and the note
    names its cells. It does not make the others' narrower: its Runs are drawn with the pooled
    spread of that Benchmark's Runs.

    Raises RecordError where no Benchmark can be ranked, and under missing='refuse' where a cell is
    not there."""
    cells, ranking, ranked = _rank_cells(tables, missing)
    kept = {key: cell for key, cell in cells.items() if key[1] in ranked}
    used, note, unknown = _rank_over(kept, over, list(tables))
    draws = {} if used is None else draw_cells(kept, used, rng, replicates)

    def ranks(scores: Scores) -> Floats:
        return _mean_ranks(scores, cells, len(tables), ranked)

    first = ranks(scores_of(draws, 1.0)) if used else np.empty((0, 0))
    # Degrees of freedom are those of the cells with enough Runs, the others held: they make no
    # interval narrower.
    known = {
        key: draw for key, draw in draws.items() if used == "episodes" or kept[key].n >= MIN_RUNS
    }
    moved = first if len(known) == len(draws) else ranks(scores_of(known, 1.0))
    found: dict[str, Interval] = {}
    for i, entry in enumerate(tables):
        point = float(ranking.rank_score[i])
        if used is None or i in unknown:
            found[entry] = make_interval(
                point, (math.nan, math.nan), Error(0.0, math.inf), None, "", level, note
            )
            continue
        factor, df = widening(moved[:, i], known, level)
        low, high = _rank_bounds(ranks(scores_of(draws, factor))[:, i], point, level)
        error = Error(float(first[:, i].var()), df)
        found[entry] = make_interval(point, (low, high), error, used, _METHOD, level, note)
    return found


def _rank_cells(
    tables: Mapping[str, Mapping[str, ArrayLike]], missing: Missing
) -> tuple[dict[Key, Cell], Ranking, list[str]]:
    """The cells, the entries ranked by their means, and the Benchmarks that count."""
    names = list(dict.fromkeys(name for of in tables.values() for name in of))
    cells = {
        (i, name): read_cell(of[name])
        for i, of in enumerate(tables.values())
        for name in names
        if name in of
    }
    means = np.array(
        [
            [cells[i, b].mean if (i, b) in cells else np.nan for b in names]
            for i in range(len(tables))
        ]
    )
    sizes = np.array(
        [[cells[i, b].size if (i, b) in cells else 0.0 for b in names] for i in range(len(tables))]
    )
    shape = len(tables), len(names)
    ranking = rank_entries(means.reshape(shape), missing, sizes.reshape(shape))
    ranked = [name for name, counts in zip(names, ranking.included, strict=True) if counts]
    if not ranked:
        raise RecordError("rank: no Benchmark on which the entries can be ranked")
    return cells, ranking, ranked


def _rank_over(
    cells: Mapping[Key, Cell], asked: Over, entries: Sequence[str]
) -> tuple[Over | None, str, set[int]]:
    """What intervals of ranks are over, the note that goes with them, and the entries that have
    none.

    An entry with a cell of too few Runs has none. The others do: that cell is drawn with the spread
    of the Benchmark's other Runs, and where nothing tells that spread nobody has one."""
    short = [key for key, cell in cells.items() if cell.n < MIN_RUNS] if asked != "episodes" else []
    if not short:
        return (*allowed_over(by_benchmark(cells), asked), set())
    counts = {f"{entries[i]} on {name}": cell.n for (i, name), cell in cells.items()}
    unknown = {i for i, _ in short}
    if len(unknown) == len({i for i, _ in cells}):
        return None, few_runs_foot(counts, "no rank score has an interval"), unknown
    if mute := [
        name for name in dict.fromkeys(name for _, name in short) if pooled(cells, name) is None
    ]:
        reason = (
            f"nor do Runs of others differ on {', '.join(mute)}, so that no rank score has "
            "an interval"
        )
        return None, few_runs_foot(counts, reason), unknown
    used, note = allowed_over(
        by_benchmark({key: cell for key, cell in cells.items() if key not in short}), asked
    )
    foot = few_runs_foot(
        counts,
        "no interval for the rank scores of their entries; for the others' they are taken to vary "
        "as others do",
    )
    return used, f"{foot} {note}".strip(), unknown


def _mean_ranks(
    scores: Scores, cells: Mapping[Key, Cell], entries: int, benchmarks: Sequence[str]
) -> Floats:
    """Mean rank scores (R, entries) of Run scores (R, n) by cell; a cell that is not there ranks
    below every other."""
    total: Floats | None = None
    for name in benchmarks:
        size = len(next(scores[i, name] for i in range(entries) if (i, name) in scores))
        gone = np.full(size, -np.inf)
        means = np.stack(
            [scores[i, name].mean(axis=1) if (i, name) in scores else gone for i in range(entries)]
        )
        sizes = [[cells[i, name].size if (i, name) in scores else 0.0] for i in range(entries)]
        of = rank_scores(means, sizes).T
        total = of if total is None else total + of
    assert total is not None
    return total / len(benchmarks)


# --- from replicates to intervals -----------------------------------------------------------------


def _prepare(
    cells: Mapping[Key, Cell], over: Over, rng: np.random.Generator, replicates: int
) -> tuple[Over | None, str, Draws]:
    if not cells:
        raise RecordError("intervals: no Benchmark with scores")
    used, note = allowed_over(by_benchmark(cells), over)
    return used, note, {} if used is None else draw_cells(cells, used, rng, replicates)


def _interval(
    number: _Function, found: Scores, draws: Draws, over: Over | None, level: float, note: str
) -> Interval:
    point = float(number(found)[0])
    if over is None:
        return make_interval(
            point, (math.nan, math.nan), Error(0.0, math.inf), None, "", level, note
        )
    first = number(scores_of(draws, 1.0))
    factor, df = widening(first, draws, level)
    low, high = percentiles(number(scores_of(draws, factor)), point, level)
    error = Error(float(first.var()), df)
    return make_interval(point, (float(low), float(high)), error, over, _METHOD, level, note)


def _rank_bounds(replicates: Floats, point: float, level: float) -> tuple[float, float]:
    """Percentiles, and the same mirrored at the estimate, within [0, 1].

    Noise moves scores near 0 and 1 only inwards, once in the estimate and once more in its
    replicates; mirrored, the second move undoes the first."""
    low, high = percentiles(replicates, point, level)
    return max(0.0, min(float(low), 2 * point - float(high))), min(
        1.0, max(float(high), 2 * point - float(low))
    )
