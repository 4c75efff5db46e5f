"""What a rank table has to say under it: what its ranks are over, what is left out and why, what ±
means."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evopolicy.analysis.records.scores import OPEN, CellScore, Status
from evopolicy.kernel.session.failures import REASON_TEXTS
from evopolicy.present.numbers import plural

if TYPE_CHECKING:
    from evopolicy.analysis.tables.ranks import RankTable, TableCell

_NAMED = 6
"""Cells a note names before it counts the others."""


def write(
    table: RankTable,
    pairs: Mapping[tuple[str, str], Sequence[CellScore]],
    missing: str,
    absent: Collection[str],
) -> Iterator[str]:
    """The notes of `table`, most important first; `absent` are the entries left out of the
    ranks."""
    scores = [score for found in pairs.values() for score in found]
    yield from _ranks(table, missing, absent)
    if still := sum(score.status in OPEN for score in scores):
        yield f"Still to come: {still} of {plural(len(scores), 'cell')}."
    for entry in table.entries:
        if entry.entry in absent:
            yield (
                f"{entry.entry} is left out of the ranks: none of its {entry.cells_total} cells "
                "has a valid result."
            )
    yield from about(scores)
    yield from _errors(list(table.cells.values()))


def about(scores: Sequence[CellScore]) -> Iterator[str]:
    """What has to be known of cells wherever they are shown: which are left out, and what is to be
    said of others."""
    yield from _left_out(scores, "invalid", "Invalid Runs left out")
    yield from _left_out(scores, "failed", "Cells that failed")
    yield from _left_out(scores, "unreadable", "Runs that cannot be read")
    flagged = [score for score in scores if score.status == "done" and score.reason]
    if flagged:
        yield f"To be known: {_with_reasons(flagged)}."


def _ranks(table: RankTable, missing: str, absent: Collection[str]) -> Iterator[str]:
    entries = len(table.entries) - len(absent)
    if not table.benchmarks:
        yield "No cells yet."
        return
    incomplete = [b for b in table.benchmarks if b not in table.ranked]
    of = f"{len(table.ranked)} of {len(table.benchmarks)} Benchmarks"
    waiting = "; ".join(_waiting(table, b, absent) for b in incomplete[:_NAMED])
    more = f" and {len(incomplete) - _NAMED} more" if len(incomplete) > _NAMED else ""
    if not table.ranked:
        yield (
            f"No ranks yet: 0 of {len(table.benchmarks)} Benchmarks complete for all entries "
            f"({waiting}{more})."
        )
        return
    if incomplete and missing == "exclude":
        yield f"Ranks over {of} complete for all entries; not {waiting}{more}."
    elif incomplete:
        yield f"Ranks over {of}; no entry has a result on {', '.join(incomplete)}."
    if missing == "worst" and (last := _ranked_last(table)):
        yield f"Missing cells rank last: {last}."
    yield (
        "Rank score: mean of 1 - (rank - 1) / (N - 1) over "
        f"{plural(len(table.ranked), 'Benchmark')}; N = {entries}."
    )


def _waiting(table: RankTable, benchmark: str, absent: Collection[str]) -> str:
    """`half_cheetah (cma_es 1/2, random 0/2)`."""
    short = [
        f"{row.entry} {table.cells[row.entry, benchmark].done}/{table.cells[row.entry, benchmark].planned}"
        for row in table.entries
        if row.entry not in absent and not table.cells[row.entry, benchmark].complete
    ]
    more = f" and {len(short) - _NAMED} more" if len(short) > _NAMED else ""
    return f"{benchmark} ({', '.join(short[:_NAMED])}{more})"


def _ranked_last(table: RankTable) -> str:
    short = [
        _waiting(table, b, ())
        for b in table.ranked
        if not all(table.cells[r.entry, b].complete for r in table.entries)
    ]
    return "; ".join(short)


def _left_out(scores: Sequence[CellScore], status: Status, title: str) -> Iterator[str]:
    found = [score for score in scores if score.status == status]
    if found:
        yield f"{title}: {_with_reasons(found)}."


def _with_reasons(scores: Sequence[CellScore]) -> str:
    words = [
        f"{score.name} ({_reason(score)})" if score.reason else score.name
        for score in scores[:_NAMED]
    ]
    more = f" and {len(scores) - _NAMED} more" if len(scores) > _NAMED else ""
    return "; ".join(words) + more


def _reason(score: CellScore) -> str:
    words, _, detail = score.reason.partition(": ")
    said = ", ".join(REASON_TEXTS.get(word, word) for word in words.split(", "))
    return f"{said}: {detail}" if detail else said


def _errors(cells: Sequence[TableCell]) -> Iterator[str]:
    kinds = {cell.error_over for cell in cells if cell.error_over}
    seeds = {cell.done for cell in cells if cell.error_over == "seeds"}
    if kinds == {"episodes"}:
        yield (
            "± is one standard error over the held-out Episodes of a single Run; it says "
            "nothing of other seeds."
        )
    elif kinds:
        few = (
            " (fewer than three: read it as a spread, not as an interval)" if min(seeds) < 3 else ""
        )
        span = str(min(seeds)) if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
        yield f"± is one standard error over {span} seeds{few}."
        if "episodes" in kinds:
            yield f"{EPISODE_MARK} one seed only: ± is over the held-out Episodes of that Run."
    if any(cell.done < cell.planned for cell in cells if cell.done):
        yield "(done/planned) marks a mean over fewer seeds than planned."


EPISODE_MARK = "†"
