"""What is logged of a sweep and of each of its entries: how they compare over the cells so far."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from evopolicy.kernel.run.sweep import SWEEP, Cell, Sweep
from evopolicy.kernel.session.record import Run
from evopolicy.kernel.values import digest
from evopolicy.present import table as results
from evopolicy.present.html import render_html
from evopolicy.present.markdown import render_markdown
from evopolicy.present.numbers import fitting, rank_score
from evopolicy.present.structured import render_json
from evopolicy.present.table import Column, Table, count, joined, number, ranked, words
from evopolicy.tracking.files import Upload
from evopolicy.tracking.masking import mask
from evopolicy.tracking.metrics import Point, heldout_metric
from evopolicy.tracking.project import Projection, clean_tags, empty_tags
from evopolicy.tracking.store import slug

SETTLED = frozenset({"finished", "reused", "failed"})
COLOURS = (
    "#4269d0",
    "#ff725c",
    "#3ca951",
    "#efb118",
    "#a463f2",
    "#6cc5b0",
    "#ff8ab7",
    "#9c6b4e",
    "#97bbf5",
    "#9498a0",
)
"""One for each entry, the same in every chart."""


class EntryRank(Protocol):
    """What a rank table says of one entry of a sweep. `evopolicy.analysis.EntryRank` is one."""

    @property
    def rank_score(self) -> float | None:
        """0 (last everywhere) to 1 (first everywhere); None until a Benchmark is complete for all
        entries."""

    @property
    def wins(self) -> int: ...

    @property
    def top2(self) -> int: ...

    @property
    def benchmarks(self) -> int:
        """Benchmarks the rank score is a mean over."""

    @property
    def cells_done(self) -> int:
        """Cells with a valid held-out result."""

    @property
    def cells_total(self) -> int: ...

    @property
    def failures(self) -> int:
        """Cells without a valid result."""

    @property
    def policy_failures(self) -> int:
        """Episodes in which the Policy failed."""

    @property
    def wall_seconds(self) -> float: ...

    @property
    def usage(self) -> Mapping[str, float]: ...

    @property
    def heldout(self) -> Mapping[str, float]:
        """Mean over the seeds that are done, by Benchmark slug."""


Rank = Callable[[Sequence[Run], Sequence[Cell]], Mapping[str, EntryRank]]
"""Ranks by entry over the Runs there are and the sweep's cells, best first.
`evopolicy.analysis.entry_ranks` is one."""


@dataclass(frozen=True)
class Comparison:
    """A sweep at one moment."""

    sweep: Sweep
    ranks: Mapping[str, EntryRank]
    """By entry, best first."""
    agents: Mapping[str, Mapping[str, str]]
    """Of each entry that has begun the tags 'agent', 'integration', 'model' and those that say what
    is an estimate."""
    changed: float
    """When what it says last changed; Unix seconds."""
    ended: float | None = None
    """When the last Run ended, once all cells are settled; Unix seconds."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.benchmark for cell in self.sweep.cells))

    @property
    def scope(self) -> str:
        """Over which Benchmarks the ranks are, in words."""
        ranked = max((rank.benchmarks for rank in self.ranks.values()), default=0)
        if ranked == len(self.benchmarks):
            return f"all {ranked} Benchmarks" if ranked != 1 else "the one Benchmark"
        return f"{ranked} of {len(self.benchmarks)} Benchmarks (those complete for all entries)"


def compare(
    sweep: Sweep, runs: Sequence[Run], ended: Sequence[float], written: float, rank: Rank
) -> Comparison:
    """The sweep as its `runs` stand.

    `ended` are the Unix seconds at which Runs ended, `written` those at which sweep.json was last
    written. What `rank` raises passes."""
    settled = all(cell.status in SETTLED for cell in sweep.cells)
    # By the cell's entry: a reused Run may have been made as part of another sweep, under other
    # swept axes.
    depth = max((len(Path(cell.run).parts) for cell in sweep.cells), default=0)
    by_place = {"/".join(run.folder.parts[-depth:]): run for run in runs}
    begun: dict[str, list[Run]] = {}
    for cell in sweep.cells:
        if cell.run in by_place:
            begun.setdefault(cell.entry, []).append(by_place[cell.run])
    return Comparison(
        sweep=sweep,
        ranks=rank(runs, sweep.cells),
        agents={entry: _agent(mine) for entry, mine in begun.items()},
        changed=max([*ended, written]),
        ended=max(ended, default=written) if settled else None,
    )


def _agent(runs: Sequence[Run]) -> dict[str, str]:
    agent = runs[-1].record.agent
    costs = [run.state.usage for run in runs if run.state.usage.get("cost_usd") is not None]
    estimate = str(any(usage.get("cost_is_estimate") for usage in costs)).lower() if costs else ""
    guessed = "true" if any(run.state.usage.get("tokens_are_estimate") for run in runs) else ""
    named = {"agent": agent.label, "integration": agent.name, "model": agent.model}
    return {**named, "cost_is_estimate": estimate, "tokens_are_estimate": guessed}


def sweep_tag(name: str) -> str:
    """The tag every run of a sweep has, a reused cell several of them."""
    return f"sweep.{slug(name)}"


def colours(sweep: Sweep) -> dict[str, str]:
    """A colour for each entry, the same on its agent run and on its cells."""
    entries = sorted({cell.entry for cell in sweep.cells})
    return {entry: COLOURS[i % len(COLOURS)] for i, entry in enumerate(entries)}


def project_agent(comparison: Comparison, entry: str, rank: EntryRank) -> Projection:
    """What is logged of one entry under its sweep."""
    sweep = comparison.sweep
    tags = {
        "kind": "agent",
        "identity": agent_identity(sweep.name, entry),
        "entry": entry,
        "agent": entry,
        "integration": "",
        "model": "",
        "cost_is_estimate": "",
        "tokens_are_estimate": "",
        **comparison.agents.get(entry, {}),
        "sweep": sweep.name,
        sweep_tag(sweep.name): "true",
        "suite": sweep.suite,
        "cells": f"{rank.cells_done} of {rank.cells_total}",
        "ranked_over": comparison.scope,
        "mlflow.runColor": colours(sweep).get(entry, ""),
        "mlflow.note.content": _agent_note(comparison, rank),
    }
    values: dict[str, float | None] = {
        "rank_score": rank.rank_score,
        "wins": rank.wins if rank.rank_score is not None else None,
        "top2": rank.top2 if rank.rank_score is not None else None,
        "failures": rank.failures,
        "policy_failures": rank.policy_failures,
        "cells/done": rank.cells_done,
        "cells/total": rank.cells_total,
        "time/total_seconds": rank.wall_seconds,
        **{heldout_metric(benchmark): score for benchmark, score in rank.heldout.items()},
        **{f"usage/{key}": value for key, value in rank.usage.items()},
    }
    return Projection(
        name=entry,
        identity=tags["identity"],
        status=_status(comparison, rank.failures),
        started=sweep.created,
        ended=comparison.ended,
        tags=clean_tags(mask(tags)),
        absent=empty_tags(tags),
        present=True,
        points=_points(comparison, values),
    )


def project_sweep(comparison: Comparison) -> Projection:
    """What is logged of the sweep itself: how far it is and its rank table."""
    sweep, ranks = comparison.sweep, comparison.ranks.values()
    done, failed = sum(rank.cells_done for rank in ranks), sum(rank.failures for rank in ranks)
    table = rank_table(comparison)
    tags = {
        "kind": "sweep",
        "identity": sweep_identity(sweep.name),
        "sweep": sweep.name,
        sweep_tag(sweep.name): "true",
        "suite": sweep.suite,
        "cells": f"{done} of {len(sweep.cells)}",
        "ranked_over": comparison.scope,
        "mlflow.note.content": render_markdown(table),
    }
    return Projection(
        name=sweep.name,
        identity=tags["identity"],
        status=_status(comparison, failed),
        started=sweep.created,
        ended=comparison.ended,
        tags=clean_tags(mask(tags)),
        absent=empty_tags(tags),
        present=True,
        points=_points(
            comparison, {"cells/done": done, "cells/total": len(sweep.cells), "failures": failed}
        ),
        uploads=(*_forms(table), _planned(sweep)),
    )


def _forms(table: Table) -> tuple[Upload, ...]:
    """The table as artifacts."""
    forms = {"json": render_json(table), "md": render_markdown(table), "html": render_html(table)}
    return tuple(
        Upload(f"{table.name}.{ending}", content=text.encode()) for ending, text in forms.items()
    )


def _planned(sweep: Sweep) -> Upload:
    """The sweep's own file, so that who downloads it knows the cells that are missing too."""
    return Upload(
        SWEEP,
        content=json.dumps(
            mask(msgspec.to_builtins(replace(sweep, tracking={}))), indent=2
        ).encode(),
    )


def agent_identity(sweep: str, entry: str) -> str:
    return digest("evopolicy/tracking/agent/1", [sweep, entry])[:32]


def sweep_identity(sweep: str) -> str:
    return digest("evopolicy/tracking/sweep/1", [sweep])[:32]


def _status(comparison: Comparison, failed: int) -> str:
    if comparison.ended is None:
        return "RUNNING"
    return "FAILED" if failed else "FINISHED"


def _points(comparison: Comparison, values: Mapping[str, float | None]) -> tuple[Point, ...]:
    """At step 0, where MLflow draws bars; the later one of two is the one it shows."""
    time = comparison.changed
    return tuple(
        Point(key, float(value), 0, time)
        for key, value in sorted(values.items())
        if value is not None
    )


def _agent_note(comparison: Comparison, rank: EntryRank) -> str:
    score = (
        ""
        if rank.rank_score is None
        else f"Rank score **{rank_score(rank.rank_score)}** over {comparison.scope}. "
    )
    return f"{score}{rank.cells_done} of {rank.cells_total} cells done."


def rank_table(comparison: Comparison) -> Table:
    """Rank scores and held-out means of all entries, in the order of the ranks."""
    ranks = comparison.ranks
    done = [f"{rank.cells_done}/{rank.cells_total}" for rank in ranks.values()]
    columns: list[tuple[Column, list[results.Cell]]] = [
        (Column("entry", "entry", text=True), [words(entry) for entry in ranks]),
        (Column("rank_score", "rank score"), [ranked(rank.rank_score) for rank in ranks.values()]),
        (Column("wins", "wins"), [_of_ranks(rank, rank.wins) for rank in ranks.values()]),
        (Column("top2", "top 2"), [_of_ranks(rank, rank.top2) for rank in ranks.values()]),
        (Column("failures", "failures"), [count(rank.failures) for rank in ranks.values()]),
        (Column("cells", "cells"), [words(text) for text in done]),
    ]
    for benchmark in comparison.benchmarks:
        means = [rank.heldout.get(benchmark) for rank in ranks.values()]
        decimals = fitting(means)
        columns.append((Column(benchmark, benchmark), [number(mean, decimals) for mean in means]))
    caption = f"{comparison.sweep.name}: held-out means over seeds; ranks over {comparison.scope}"
    return joined("rank", caption, columns)


def _of_ranks(rank: EntryRank, value: int) -> results.Cell:
    return count(value if rank.rank_score is not None else None)
