"""Runs as typed pandas frames. Every column is named in COLUMNS, with its type and meaning."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pandas as pd

from evopolicy.analysis.records.columns import WHOSE_NAMES, plain_rows, typed_frame
from evopolicy.analysis.records.conditions import AXES
from evopolicy.analysis.records.frame_columns import COLUMNS as COLUMNS
from evopolicy.analysis.records.frame_columns import Column as Column
from evopolicy.analysis.records.load import (
    EpisodeFile,
    Found,
    Unreadable,
    cell_of,
    read_episodes,
    read_program,
    read_requests,
)
from evopolicy.analysis.records.scores import (
    CellScore,
    absent_scores,
    in_order,
    planned_cell,
    run_score,
)
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.ports.pool import format_selector
from evopolicy.kernel.ports.transcript import ESTIMATED, TOKENS
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable
from evopolicy.kernel.session.record import Run

_COUNTED = {
    "turns": "turns",
    "tool_calls": "tool_calls",
    "attempts": "agent_attempts",
    "thinking_seconds": "thinking_seconds",
    "evaluating_seconds": "evaluating_seconds",
    "unexplained_tokens": "unexplained_tokens",
    "agent_error": "agent_error",
}
"""Columns of `usage` that the Host knows, not the provider, with their names in a Run's state."""


_HELDOUT = {
    "mean": "heldout_mean",
    "standard_error": "heldout_se",
    "episodes": "heldout_episodes",
    "failed": "heldout_failed",
}
"""What a CellScore has of the held-out result, with its columns of `runs`."""


@dataclass(frozen=True, eq=False)
class Frames:
    """Runs as frames; `COLUMNS` documents their columns."""

    runs: pd.DataFrame
    """One row a Run."""
    submissions: pd.DataFrame
    episodes: pd.DataFrame
    """One row an Episode that was evaluated and is on disk."""
    programs: pd.DataFrame
    """One row a Program and Run."""
    candidates: pd.DataFrame
    """One row a Submission that was handed off."""
    usage: pd.DataFrame
    """One row a Run."""
    gaps: pd.DataFrame
    """Planned cells without a readable Run, and files that cannot be read."""

    def scores(self) -> list[CellScore]:
        """The cells as tables take them: those of `runs` (also after a person filtered it) and of
        `gaps`.

        Ranks are of these values, not of frames, since those of a sweep that runs are drawn without
        pandas."""
        kinds = sorted(
            {c.name for c in COLUMNS["usage"]} - {*WHOSE_NAMES, *ESTIMATED.values(), *_COUNTED}
        )
        usage = {row["run"]: row for row in plain_rows(self.usage[["run", *kinds]])}
        scores = [_cell(row, usage.get(row["run"], {}), kinds) for row in plain_rows(self.runs)]
        absent = plain_rows(self.gaps[self.gaps["run"].isna()])
        scores += [
            CellScore(r["entry"], r["benchmark"], r["seed"], r["status"], reason=r["reason"] or "")
            for r in absent
        ]
        return in_order(scores)

    def renamed(self, entries: Mapping[str, str]) -> Frames:
        """With other names for some entries, by the ones they have."""
        parts = {name: getattr(self, name) for name in COLUMNS}
        return Frames(
            **{
                name: part.assign(entry=part["entry"].replace(dict(entries)))
                for name, part in parts.items()
            }
        )


def build_frames(runs: Iterable[Run], *, episodes: bool = True, programs: bool = True) -> Frames:
    """See `load.load_frames`."""
    found = runs if isinstance(runs, Found) else Found(tuple(runs))
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
    often = Counter(run.folder for run in found)
    for run in found:
        score = run_score(run, planned_cell(run, found.cells))
        whose = _whose(run, score, often[run.folder] > 1)
        rows["runs"].append({**whose, **_run_row(run, score)})
        rows["submissions"].extend({**whose, **row} for row in _submission_rows(run))
        rows["candidates"].extend({**whose, **row} for row in _candidate_rows(run))
        counted = {column: getattr(run.state, name) for column, name in _COUNTED.items()}
        rows["usage"].append({**whose, **run.state.usage, **counted})
        if programs:
            shown, broken = _program_rows(run)
            rows["programs"].extend({**whose, **row} for row in shown)
            rows["gaps"].extend({**_gap_row(item), **whose} for item in broken)
        if episodes:
            files, broken = read_episodes(run)
            rows["episodes"].extend(
                {**whose, **row} for file in files for row in _episode_rows(file)
            )
            rows["gaps"].extend({**_gap_row(item), **whose} for item in broken)
    rows["gaps"].extend(_gaps(found))
    return Frames(**{name: typed_frame(columns, rows[name]) for name, columns in COLUMNS.items()})


def _whose(run: Run, score: CellScore, again: bool) -> dict[str, Any]:
    """`again`: whether the folder is loaded with another result too, by the rule of another
    sweep."""
    name = run.folder.as_posix()
    return {
        "run": f"{name}#{run.record.result_key[:8]}" if again else name,
        "entry": score.entry,
        "benchmark": score.benchmark,
        "seed": score.seed,
        "finished": run.finished,
        "valid": score.status == "done",
    }


def _run_row(run: Run, score: CellScore) -> dict[str, Any]:
    record, state, result = run.record, run.state, run.result
    return {
        "status": score.status,
        "reason": score.reason,
        "agent": record.agent.label,
        "agent_name": record.agent.name,
        "model": record.agent.model,
        "benchmark_id": record.benchmark.id,
        "suite": record.suite,
        "axes": dict(sorted(score.axes.items())),
        **{column: getattr(score, name) for name, column in _HELDOUT.items()},
        "selected_program": result.selected,
        "selected_submission": result.selected_submission,
        "submissions": len(state.submissions),
        "published": len(state.published),
        "units_used": sum(len(s.indices) for s in state.submissions),
        "units_budget": record.budget.episodes,
        "refusals": state.refusals,
        "agent_ended": state.agent_ended,
        "closed_by": state.closed_by,
        "agent_isolation": record.agent_isolation,
        "agent_network": record.agent_network,
        **score.conditions,
        "settings": dict(sorted(score.settings.items())),
        "visibility": record.feedback.visibility,
        "thinking_seconds": state.thinking_seconds,
        "evaluating_seconds": state.evaluating_seconds,
        "validation_seconds": result.wall_seconds.get("validation", 0.0),
        "assessment_seconds": result.wall_seconds.get("assessment", 0.0),
        "wall_seconds": score.wall_seconds,
        "error_kind": state.agent_error_kind,
        "parent": record.parent,
        "created": record.created,
        "opened": state.opened,
        "key": record.key,
        "trajectory": score.trajectory,
        "result_key": record.result_key,
    }


def _submission_rows(run: Run) -> Iterable[dict[str, Any]]:
    best: float | None = None
    spent = _spent(run)
    for s in run.state.submissions:
        if s.score is not None:
            best = s.score if best is None else max(best, s.score)
        yield {
            "submission": s.id,
            "program": s.program,
            "status": s.status,
            "selector": format_selector(s.indices),
            "episodes": len(s.indices),
            "units_used": s.units_used,
            "score": s.score,
            "best_so_far": best,
            "failed": sum(s.failures.values()),
            "reason": s.reason,
            "time": s.time,
            "wall_seconds": s.wall_seconds,
            "policy_seconds": s.policy_seconds,
            **spent(s.time),
        }


def _spent(run: Run) -> Callable[[float], dict[str, float | None]]:
    """Tokens and cost of the requests that a Run's proxy had passed on by a time; None of a Run
    without a proxy."""
    requests = read_requests(run)
    prices = _prices(run)
    times, tokens, cost, unpriced = (
        [float(request["time"]) for request in requests],
        [0],
        [0.0],
        [0],
    )
    by_model = {
        model: prices.price(model)
        for model in {str(request.get("model", "")) for request in requests}
    }
    for request in requests:
        price = by_model[str(request.get("model", ""))]
        count = {kind: count for kind in TOKENS if type(count := request.get(kind)) is int}
        tokens.append(tokens[-1] + sum(count.values()))
        cost.append(cost[-1] + (price.cost(count) if price else 0.0))
        unpriced.append(unpriced[-1] + (price is None))

    def spent(time: float) -> dict[str, float | None]:
        place = bisect_right(times, time)
        return {
            "tokens": float(tokens[place]) if requests else None,
            "cost_usd": cost[place] if requests and not unpriced[place] else None,
        }

    return spent


def _prices(run: Run) -> PriceTable:
    listed = run.record.config.get("prices")
    try:
        return msgspec.convert(listed, PriceTable) if listed else NO_PRICES
    except (msgspec.ValidationError, ConfigError):
        return NO_PRICES


def _candidate_rows(run: Run) -> Iterable[dict[str, Any]]:
    by_id = {s.id: s for s in run.state.submissions}
    for number in run.state.candidates or ():
        submission = by_id.get(number)
        if submission is None:
            continue
        measured = run.result.validation.get(submission.program)
        yield {
            "submission": number,
            "program": submission.program,
            "training_score": submission.score,
            "validation_mean": measured.mean if measured else None,
            "validation_se": measured.standard_error if measured else None,
            "validation_episodes": measured.episodes if measured else None,
            "validation_failed": measured.failed if measured else None,
            "named": run.state.named.index(number) if number in run.state.named else None,
            "selected": number == run.result.selected_submission,
        }


def _program_rows(run: Run) -> tuple[list[dict[str, Any]], list[Unreadable]]:
    """A row each, and the Programs that cannot be read, which have one all the same."""
    submitted = Counter(s.program for s in run.state.submissions)
    first = {s.program: s.id for s in reversed(run.state.submissions)}
    rows: list[dict[str, Any]] = []
    unreadable: list[Unreadable] = []
    for digest in dict.fromkeys([run.record.initial_program, *submitted]):
        try:
            files = read_program(run, digest)
        except RecordError as error:
            files = None
            unreadable.append(Unreadable(run.folder, str(error)))
        source = dict(files.source) if files else {}
        data = dict(files.data) if files else {}
        rows.append(
            {
                "program": digest,
                "initial": digest == run.record.initial_program,
                "selected": digest == run.result.selected,
                "first_submission": first.get(digest),
                "submissions": submitted[digest],
                "archived": files is not None,
                "files": files.files if files else 0,
                "bytes": files.bytes if files else 0,
                "lines": sum(len(text.splitlines()) for text in source.values()),
                "source": source,
                "data": data,
            }
        )
    return rows, unreadable


def _episode_rows(file: EpisodeFile) -> Iterable[dict[str, Any]]:
    for graded in file.graded:
        outcome = graded.outcome
        yield {
            "split": file.split,
            "submission": file.submission,
            "program": file.program,
            "index": outcome.index,
            "score": graded.score,
            "episode_return": outcome.episode_return,
            "length": outcome.length,
            "ending": outcome.ending,
            "failure_kind": outcome.failure.kind if outcome.failure else "",
            "failure_step": outcome.failure.step if outcome.failure else None,
            "clipped": outcome.clipped,
            "measures": dict(outcome.measures),
        }


def _gap_row(item: Unreadable) -> dict[str, Any]:
    return {
        "status": "unreadable",
        "reason": item.reason,
        "run": item.folder.as_posix(),
        "finished": False,
        "valid": False,
    }


def _gaps(found: Found) -> Iterable[dict[str, Any]]:
    absent = absent_scores(found, found.cells, found.unreadable)
    for score in absent:
        yield {
            "entry": score.entry,
            "benchmark": score.benchmark,
            "seed": score.seed,
            "status": score.status,
            "reason": score.reason,
            "finished": False,
            "valid": False,
        }
    yield from (
        _gap_row(item) for item in found.unreadable if cell_of(item.folder, found.cells) is None
    )


def _cell(row: Mapping[str, Any], usage: Mapping[str, Any], kinds: Sequence[str]) -> CellScore:
    alike = ("entry", "benchmark", "seed", "status", "reason", "benchmark_id", "wall_seconds")
    found: dict[str, Any] = {name: row[name] for name in alike}
    found |= {name: row[column] for name, column in _HELDOUT.items()}
    found |= {name: row[name] or "" for name in ("result_key", "parent", "key", "trajectory")}
    found |= {
        "settings": row["settings"] or {},
        "axes": row["axes"] or {},
        "selected": row["selected_program"] or "",
    }
    counted = {name: usage[name] for name in kinds if usage.get(name) is not None}
    return CellScore(**found, conditions={name: row[name] for name in AXES}, usage=counted)
