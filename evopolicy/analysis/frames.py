"""Runs as typed pandas frames. Every column is named in COLUMNS, with its type and meaning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd

from evopolicy.analysis.load import EpisodeFile, Found, Unreadable, cell_of, read_episodes, read_program
from evopolicy.analysis.scores import CellScore, absent_scores, in_order, planned_cell, run_conditions, run_score
from evopolicy.kernel.pool import format_selector
from evopolicy.kernel.record import Run


class Column(NamedTuple):
    """One column of a frame."""

    name: str
    dtype: str
    """pandas dtype; 'string', 'Int64' and 'boolean' hold pd.NA, 'float64' NaN, where there is no value."""
    meaning: str


_WHOSE = (
    Column("run", "string", "the Run's folder as it was found; joins the frames"),
    Column("entry", "string", "agent's label times every swept axis but seed and Benchmark"),
    Column("benchmark", "string", "slug"),
    Column("seed", "int64", "the agent's replicate"),
    Column("finished", "bool", "whether the Run has its held-out result or is known to have none"),
    Column("valid", "bool", "finished, and to be compared in tables"),
)

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "runs": (
        *_WHOSE,
        Column("status", "string", "done, running, unfinished, failed or invalid"),
        Column("reason", "string", "why it is not done, or what is to be known of it"),
        Column("agent", "string", "label"),
        Column("agent_name", "string", "integration"),
        Column("model", "string", ""),
        Column("benchmark_id", "string", "family/Name-vN"),
        Column("suite", "string", ""),
        Column("axes", "string", "JSON object of the swept settings in the entry's name"),
        Column("heldout_mean", "float64", "mean score on Assessment"),
        Column("heldout_se", "float64", "its standard error over the held-out Episodes"),
        Column("heldout_episodes", "int64", "held-out Episodes"),
        Column("heldout_failed", "int64", "held-out Episodes in which the Policy failed"),
        Column("selected_program", "string", "digest"),
        Column("selected_submission", "Int64", "NA for the initial Program"),
        Column("submissions", "int64", "charged"),
        Column("published", "int64", "Submissions with Feedback"),
        Column("units_used", "int64", "Episode units"),
        Column("units_budget", "int64", "Episode units"),
        Column("refusals", "int64", "requests the Host refused"),
        Column("agent_ended", "string", "terminal reason"),
        Column("closed_by", "string", "what closed the Session"),
        Column("isolation", "string", "of Policies"),
        Column("agent_isolation", "string", ""),
        Column("agent_network", "string", "what the agent could reach: proxy, allowlist, open or none"),
        Column("parameters", "string", "digest of the Benchmark's id and parameters"),
        Column("pool", "string", "in words, equal exactly when the pools are"),
        Column("budget", "string", "in words, equal exactly when the budgets are"),
        Column("selection", "string", "rule"),
        Column("visibility", "string", "of Feedback"),
        Column("thinking_seconds", "float64", "wall seconds of the agent without Evaluations it waited for"),
        Column("evaluating_seconds", "float64", "wall seconds the agent waited for Evaluations"),
        Column("validation_seconds", "float64", "wall seconds"),
        Column("assessment_seconds", "float64", "wall seconds"),
        Column("wall_seconds", "float64", "the four together"),
        Column("created", "float64", "Unix seconds"),
        Column("key", "string", "digest of what defines the agent's part"),
        Column("result_key", "string", "digest of what defines selection and Assessment"),
    ),
    "submissions": (
        *_WHOSE,
        Column("submission", "int64", "from 1"),
        Column("program", "string", "digest"),
        Column("status", "string", "running, published or failed"),
        Column("selector", "string", "training indices it named"),
        Column("episodes", "int64", "Episode units it cost"),
        Column("units_used", "int64", "of the Run, up to and with this one"),
        Column("score", "float64", "as the agent saw it"),
        Column("best_so_far", "float64", "best score of the Run up to and with this one"),
        Column("failed", "int64", "Episodes in which the Policy failed"),
        Column("reason", "string", "why it failed"),
        Column("time", "float64", "Unix seconds"),
        Column("wall_seconds", "float64", ""),
        Column("policy_seconds", "float64", "CPU seconds of the Policy"),
    ),
    "episodes": (
        *_WHOSE,
        Column("split", "string", "training, validation or assessment"),
        Column("submission", "Int64", "NA on the private splits"),
        Column("program", "string", "digest"),
        Column("index", "int64", "in the split"),
        Column("score", "float64", "graded"),
        Column("episode_return", "float64", "undiscounted, up to the end or the failure"),
        Column("length", "int64", "steps"),
        Column("ending", "string", "terminated, truncated or failed"),
        Column("failure_kind", "string", "'' where the Policy did not fail"),
        Column("failure_step", "Int64", "steps taken before it"),
        Column("clipped", "int64", "Actions clipped to their bounds"),
        Column("measures", "object", "dict of the Benchmark's measures"),
    ),
    "programs": (
        *_WHOSE,
        Column("program", "string", "digest"),
        Column("initial", "bool", "whether the workspace began with it"),
        Column("selected", "bool", "whether it was measured on Assessment"),
        Column("first_submission", "Int64", "NA where it was never submitted"),
        Column("submissions", "int64", "how often it was submitted"),
        Column("archived", "bool", "whether its files are there"),
        Column("files", "int64", ""),
        Column("bytes", "int64", ""),
        Column("lines", "int64", "of Python"),
        Column("source", "object", "dict of the text of its Python modules by path"),
    ),
    "candidates": (
        *_WHOSE,
        Column("submission", "int64", ""),
        Column("program", "string", "digest"),
        Column("training_score", "float64", "as the agent saw it"),
        Column("validation_mean", "float64", ""),
        Column("validation_se", "float64", "standard error over the Validation Episodes"),
        Column("validation_episodes", "Int64", ""),
        Column("validation_failed", "Int64", "Validation Episodes in which the Policy failed"),
        Column("named", "Int64", "place in the agent's finish, from 0"),
        Column("selected", "bool", ""),
    ),
    "usage": (
        *_WHOSE,
        Column("input_tokens", "Int64", "not read from a cache"),
        Column("cached_tokens", "Int64", ""),
        Column("cache_write_tokens", "Int64", ""),
        Column("output_tokens", "Int64", "reasoning included"),
        Column("reasoning_tokens", "Int64", ""),
        Column("requests", "Int64", ""),
        Column("cost_usd", "float64", ""),
        Column("cost_is_estimate", "boolean", ""),
        Column("turns", "Int64", "messages of the agent's own"),
        Column("tool_calls", "Int64", ""),
        Column("unexplained_tokens", "Int64", "that its stream does not tell of; NA where it cannot be known"),
    ),
    "gaps": (
        Column("entry", "string", "NA where only the folder is known"),
        Column("benchmark", "string", ""),
        Column("seed", "Int64", ""),
        Column("status", "string", "pending, running, failed or unreadable"),
        Column("reason", "string", "one sentence"),
        Column("run", "string", "the Run's folder, where there is one"),
    ),
}
"""The columns of every frame, in order."""
_COUNTED = ("turns", "tool_calls", "unexplained_tokens")
"""Columns of `usage` that the Host counts, not the provider."""


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
        """The cells as tables take them: those of `runs` (also after a person filtered it) and of `gaps`."""
        usage = {row["run"]: row for row in _records(self.usage)}
        scores = [_row_score(row, usage.get(row["run"], {})) for row in _records(self.runs)]
        scores.extend(
            CellScore(row["entry"], row["benchmark"], row["seed"], row["status"], reason=row["reason"] or "")
            for row in _records(self.gaps)
            if row["run"] is None
        )
        return in_order(scores)


def build_frames(runs: Iterable[Run], *, episodes: bool = True, programs: bool = True) -> Frames:
    """See `load.load_frames`."""
    found = runs if isinstance(runs, Found) else Found(tuple(runs))
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
    for run in found:
        score = run_score(run, planned_cell(run, found.cells))
        whose = _whose(run, score)
        rows["runs"].append({**whose, **_run_row(run, score)})
        rows["submissions"].extend({**whose, **row} for row in _submission_rows(run))
        rows["candidates"].extend({**whose, **row} for row in _candidate_rows(run))
        rows["usage"].append({**whose, **run.state.usage, **{name: getattr(run.state, name) for name in _COUNTED}})
        if programs:
            rows["programs"].extend({**whose, **row} for row in _program_rows(run))
        if episodes:
            files, broken = read_episodes(run)
            rows["episodes"].extend({**whose, **row} for file in files for row in _episode_rows(file))
            rows["gaps"].extend({**_gap_row(item), **whose} for item in broken)
    rows["gaps"].extend(_gaps(found))
    return Frames(**{name: _frame(name, rows[name]) for name in COLUMNS})


def _frame(name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    columns = COLUMNS[name]
    data = {c.name: pd.Series([row.get(c.name) for row in rows], dtype=c.dtype) for c in columns}
    return pd.DataFrame(data, columns=[c.name for c in columns])


def _whose(run: Run, score: CellScore) -> dict[str, Any]:
    return {
        "run": run.folder.as_posix(),
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
        "axes": json.dumps(dict(record.axes), sort_keys=True),
        "heldout_mean": score.mean,
        "heldout_se": score.standard_error,
        "heldout_episodes": score.episodes,
        "heldout_failed": score.failed,
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
        **run_conditions(record),
        "selection": record.selection.rule,
        "visibility": record.feedback.visibility,
        "thinking_seconds": state.thinking_seconds,
        "evaluating_seconds": state.evaluating_seconds,
        "validation_seconds": result.wall_seconds.get("validation", 0.0),
        "assessment_seconds": result.wall_seconds.get("assessment", 0.0),
        "wall_seconds": score.wall_seconds,
        "created": record.created,
        "key": record.key,
        "result_key": record.result_key,
    }


def _submission_rows(run: Run) -> Iterable[dict[str, Any]]:
    best: float | None = None
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
        }


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


def _program_rows(run: Run) -> Iterable[dict[str, Any]]:
    submitted = [s.program for s in run.state.submissions]
    for digest in dict.fromkeys([run.record.initial_program, *submitted]):
        files = read_program(run, digest)
        source = dict(files.source) if files else {}
        yield {
            "program": digest,
            "initial": digest == run.record.initial_program,
            "selected": digest == run.result.selected,
            "first_submission": next((s.id for s in run.state.submissions if s.program == digest), None),
            "submissions": submitted.count(digest),
            "archived": files is not None,
            "files": files.files if files else 0,
            "bytes": files.bytes if files else 0,
            "lines": sum(len(text.splitlines()) for text in source.values()),
            "source": source,
        }


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
    return {"status": "unreadable", "reason": item.reason, "run": item.folder.as_posix()}


def _gaps(found: Found) -> Iterable[dict[str, Any]]:
    absent = absent_scores(found, found.cells, found.unreadable)
    for score in absent:
        yield {
            "entry": score.entry,
            "benchmark": score.benchmark,
            "seed": score.seed,
            "status": score.status,
            "reason": score.reason,
        }
    yield from (_gap_row(item) for item in found.unreadable if cell_of(item.folder, found.cells) is None)


def _row_score(row: Mapping[str, Any], usage: Mapping[str, Any]) -> CellScore:
    kinds = {c.name for c in COLUMNS["usage"]} - {c.name for c in _WHOSE} - {"cost_is_estimate", *_COUNTED}
    score = CellScore(
        entry=row["entry"],
        benchmark=row["benchmark"],
        seed=row["seed"],
        status=row["status"],
        mean=row["heldout_mean"],
        standard_error=row["heldout_se"],
        episodes=row["heldout_episodes"],
        failed=row["heldout_failed"],
        reason=row["reason"],
        benchmark_id=row["benchmark_id"],
        wall_seconds=row["wall_seconds"],
        conditions={name: row[name] for name in ("isolation", "parameters", "pool", "budget")},
        axes=json.loads(row["axes"]),
    )
    return replace(score, usage={name: usage[name] for name in sorted(kinds) if usage.get(name) is not None})


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain Python values, None where there is none."""
    return [
        {str(key): None if _absent(value) else value for key, value in row.items()}
        for row in frame.to_dict("records")
    ]  # fmt: skip


def _absent(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
