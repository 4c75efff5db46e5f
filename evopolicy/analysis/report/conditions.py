"""What the Runs of a report were measured under: what another needs to compare with them, or to
make them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from evopolicy.analysis.paper.protocol import protocol_differences
from evopolicy.analysis.records.conditions import run_conditions
from evopolicy.analysis.report.shape import SweepPart
from evopolicy.kernel.session.record import RunRecord
from evopolicy.present.markup import Child, Html, facts, fold, join, line

_VALUES = 4
"""Values of one condition that are shown before the others are counted."""
_PROTOCOL = ("budget", "pool", "selection")


def conditions(part: SweepPart) -> Html | None:
    """Isolation, protocol, budget, pool, selection, Feedback, date and versions; None without a
    Run."""
    records = [run.run.record for run in part.runs]
    if not records:
        return None
    found = [run_conditions(record) for record in records]
    differing = protocol_differences([cell for cell in part.cells if cell.status == "done"])
    pairs: list[tuple[str, Child]] = [
        (
            "isolation",
            _several(f"Policies {r.isolation}, agent {r.agent_isolation}" for r in records),
        ),
        (
            "protocol",
            f"not the paper's: {', '.join(map(_named, differing))}" if differing else "the paper's",
        ),
        *((name, _several(each[name] for each in found)) for name in _PROTOCOL),
        ("Feedback", _several(record.feedback.visibility for record in records)),
        ("begun", _days([record.created for record in records])),
    ]
    beside = (
        fold("How the protocol differs from the paper's", line("; ".join(differing), 2000))
        if differing
        else None
    )
    return join(facts(pairs), beside, fold("Versions", facts(_versions(records))))


def _named(difference: str) -> str:
    """What differs, without how: that is too long to stand among the other facts."""
    return difference.partition(" '")[0]


def _several(values: Iterable[str]) -> str:
    """Each value once, in the order they come."""
    known = list(dict.fromkeys(values))
    more = f" and {len(known) - _VALUES} more" if len(known) > _VALUES else ""
    return line("; ".join(known[:_VALUES]), 1_000) + more


def _days(times: Sequence[float]) -> str:
    first, last = (
        f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"
        for time in (min(times), max(times))
    )
    return first if first == last else f"{first} to {last}"


def _versions(records: Sequence[RunRecord]) -> list[tuple[str, Child]]:
    names = sorted({name for record in records for name in record.versions})
    return [
        (name, _several(r.versions[name] for r in records if name in r.versions)) for name in names
    ]
