"""What is logged of one Run: a pure function of its record and journal. Nothing here knows MLflow.

A metric's step is the Episode units the Run had consumed, its time that of the journal line it
comes from: the same journal always gives the same points, so logging one twice changes nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.run.agreement import contradictions
from evopolicy.kernel.run.attempt import all_tokens
from evopolicy.kernel.secrecy.secrets import Masker
from evopolicy.kernel.session.journal import JOURNAL, Event
from evopolicy.kernel.session.record import RECORD, Run, RunRecord
from evopolicy.kernel.session.state import ResultState, RunState, SubmissionState, fold
from evopolicy.kernel.values import digest
from evopolicy.present.numbers import dollars, mean_and_error
from evopolicy.tracking.files import (
    INITIAL,
    Upload,
    attempt_uploads,
    evaluation_uploads,
    feedback_uploads,
    outcome_uploads,
    program_uploads,
)
from evopolicy.tracking.masking import mask, masked_by, masker, named_variables
from evopolicy.tracking.metrics import Point, run_points
from evopolicy.tracking.spans import Attempt, ended_attempts

PARAM_LENGTH = 6_000
"""MLflow cuts a longer param silently."""
TAG_LENGTH = 8_000
CONTRADICTS = "contradicts_itself"
"""Tag of a cell whose record does, as `evopolicy verify` finds it: the first contradiction."""
RECORD_DIGEST = "record_digest"
"""Tag of a cell: of its record.json, as it was logged."""
ERROR_LENGTH = 500
KEY_LENGTH = 250
_ILLEGAL = re.compile(r"[^A-Za-z0-9_\-. :]")


@dataclass(frozen=True)
class Model:
    """A submitted Program, as one LoggedModel."""

    name: str
    program: str
    """Digest."""
    step: int
    files: tuple[Upload, ...]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Projection:
    """All that one MLflow run shall hold."""

    name: str
    identity: str
    """Finds the run again: the tag `identity`."""
    status: str
    """'RUNNING', 'FINISHED' or 'FAILED'."""
    started: float
    """Unix seconds."""
    ended: float | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    """Tags that do not hold (now, or any more)."""
    params: Mapping[str, str] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    present: bool = False
    """Its points say how things are now: one that says what the newest does is left out."""
    models: tuple[Model, ...] = ()
    uploads: tuple[Upload, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """Those to be shown as traces."""
    mask: Masker = field(default_factory=masker)
    """What every file and trace goes through."""


def project_cell(
    folder: Path, record: RunRecord, events: Sequence[Event], *, bulk: bool = False
) -> Projection:
    """What is logged of the Run in `folder`, as far as `events` tell. `bulk`: traces and replays
    too.

    Raises RecordError for events that do not fold.
    """
    state, programs = fold(events), _programs_of(folder)
    result = state.results.get(record.result_key, ResultState())
    ended = last_time(events, "ended", record.result_key) if result.ended else None
    attempts = tuple(ended_attempts(folder, record, identity(record), events))
    by = masker(named_variables(shown_config(record)))
    differs = next(contradictions(Run(folder, record, state)), "") if ended is not None else ""
    tags = {
        **_tags(record, state, result, events),
        CONTRADICTS: differs.replace(f"{folder}/", "")[:ERROR_LENGTH],
    }
    return Projection(
        name=f"{record.entry} · {record.benchmark.slug} · s{record.seed}",
        identity=identity(record),
        status=("FINISHED" if result.valid else "FAILED") if result.ended else "RUNNING",
        started=record.created,
        ended=ended,
        tags=clean_tags(masked_by(by, tags)),
        absent=empty_tags(tags),
        params=flatten(masked_by(by, _without_prices(shown_config(record)))),
        points=tuple(run_points(record, state, events)),
        models=tuple(_models(programs, record, state)),
        uploads=tuple(_uploads(folder, programs, record, state, events, attempts, bulk)),
        attempts=attempts,
        mask=by,
    )


def identity(record: RunRecord) -> str:
    """The same for one result of a Run wherever its folder is.

    Another for a second Run of the same cell, and for the same Run under another selection rule:
    sweeps of different rules share Runs, and each shows its own result."""
    if record.id:
        return digest("evopolicy/tracking/run/3", [record.id, record.result_key])[:32]
    # As it always was for records without an id: stores that have them find them again.
    return digest("evopolicy/tracking/run/2", [record.key, record.created, record.result_key])[:32]


def shown_config(record: RunRecord) -> Mapping[str, Any]:
    """The resolved config, or what the record has in its place for a Run made without one."""
    if record.config:
        return record.config
    parts = ("agent", "benchmark", "seed", "budget", "pool", "selection", "feedback")
    shown: dict[str, Any] = msgspec.to_builtins({part: getattr(record, part) for part in parts})
    return shown


def _without_prices(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` without the list of prices: hundreds of params that are the same in every run of a
    day."""
    prices = config.get("prices")
    if not isinstance(prices, Mapping):
        return dict(config)
    return {**config, "prices": {key: value for key, value in prices.items() if key != "models"}}


def last_time(events: Sequence[Event], name: str, result: str) -> float | None:
    """When the last event `name` under the result key `result` was written."""
    return max(
        (float(e["time"]) for e in events if e["event"] == name and e.get("result") == result),
        default=None,
    )


# --- Tags and params ------------------------------------------------------------------------------


def _tags(
    record: RunRecord, state: RunState, result: ResultState, events: Sequence[Event]
) -> dict[str, str]:
    config = json.dumps(mask(dict(shown_config(record))), sort_keys=True)
    return {
        "kind": "cell",
        "identity": identity(record),
        "run": record.identity,
        "agent": record.agent.label,
        "integration": record.agent.name,
        "model": record.agent.model,
        "benchmark": record.benchmark.slug,
        "suite": record.suite,
        "seed": str(record.seed),
        "entry": record.entry,
        "isolation": record.isolation,
        "agent_isolation": record.agent_isolation,
        "agent_network": record.agent_network,
        "key": record.key,
        "result_key": record.result_key,
        "config_digest": hashlib.sha256(config.encode()).hexdigest(),
        RECORD_DIGEST: hashlib.sha256(_record(record)).hexdigest(),
        "program": result.selected or "",
        "selected_submission": str(result.selected_submission or ""),
        "terminal_reason": state.agent_ended,
        "valid": "" if result.valid is None else str(result.valid).lower(),
        "error": "",
        "reasons": state.explained(tuple(dict.fromkeys((*state.handoff_reasons, *result.reasons)))),
        **_agent_tags(record, state, events),
        **{f"version.{name}": str(version) for name, version in record.versions.items()},
        "mlflow.note.content": f"{_note(result)} {_spent(state)}".strip(),
    }


def _agent_tags(record: RunRecord, state: RunState, events: Sequence[Event]) -> dict[str, str]:
    """How its agent was let in, what it cost by whose word, and how its newest attempt failed."""
    last = next((event for event in reversed(events) if event["event"] == "agent_ended"), {})
    priced = state.usage.get("cost_usd") is not None
    return {
        "login": str(record.agent.options.get("login", "")),
        "agent_attempts": str(state.agent_attempts) if state.agent_attempts > 1 else "",
        "agent_error": state.agent_error[:ERROR_LENGTH],
        "agent_error_kind": str(last.get("error_kind", "")),
        "cost_is_estimate": str(bool(state.usage.get("cost_is_estimate"))).lower()
        if priced
        else "",
        "tokens_are_estimate": "true" if state.usage.get("tokens_are_estimate") else "",
    }


def _spent(state: RunState) -> str:
    """What the agent used, in one sentence."""
    tokens, spent = all_tokens(state.usage), state.usage.get("cost_usd")
    if not tokens and spent is None:
        return ""
    about = "about " if state.usage.get("cost_is_estimate") else ""
    cost = (
        ", at an unknown cost"
        if spent is None
        else f", {about}{dollars(spent)}{' (an estimate)' if about else ''}"
    )
    guessed = "about " if state.usage.get("tokens_are_estimate") else ""
    return f"The agent used {guessed}{tokens:,} tokens{cost}."


def _note(result: ResultState) -> str:
    """The result in one sentence, for the top of the run's page."""
    measured = result.assessment
    if measured is None:
        return ""
    mean, error = mean_and_error(measured.mean, measured.standard_error)
    spread = "" if measured.standard_error is None else f" ± {error}"
    program = (
        f"Submission {result.selected_submission}"
        if result.selected_submission
        else "the initial Program"
    )
    return f"Held-out score **{mean}**{spread} over {measured.episodes} Episodes, with {program}."


def clean_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags within MLflow's limits; empty ones are left out."""
    return {clean_key(key): value[:TAG_LENGTH] for key, value in tags.items() if value}


def empty_tags(tags: Mapping[str, str]) -> frozenset[str]:
    """Those of `tags` that say nothing."""
    return frozenset(clean_key(key) for key, value in tags.items() if not value)


def clean_key(key: str) -> str:
    """`key` as MLflow takes a name: no brackets, slashes or control characters, at most 250
    characters."""
    return _ILLEGAL.sub("_", key).strip(". ")[:KEY_LENGTH] or "_"


def flatten(config: Mapping[str, Any]) -> dict[str, str]:
    """`config` as MLflow params: dotted keys, lists as JSON, over-long values cut with a word that
    says so."""
    params: dict[str, str] = {}
    for key, value in _leaves(config, ""):
        text = (
            value
            if isinstance(value, str)
            else json.dumps(value, sort_keys=True, ensure_ascii=False)
        )
        if len(text) > PARAM_LENGTH:
            text = text[: PARAM_LENGTH - 40] + " ... (cut; whole in config.json)"
        params.setdefault(clean_key(key), text)
    return params


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


# --- Programs and files ---------------------------------------------------------------------------


_Programs = Callable[[str], tuple[Upload, ...]]
"""The files of a Program, by its digest."""


def _programs_of(folder: Path) -> _Programs:
    """Each is read once, however many Submissions are of it."""
    return cache(lambda program: tuple(program_uploads(folder, program, "")))


def _under(target: str, uploads: Sequence[Upload]) -> Iterator[Upload]:
    return (replace(upload, target=f"{target}/{upload.target}") for upload in uploads)


def _models(programs: _Programs, record: RunRecord, state: RunState) -> Iterator[Model]:
    """One for each Program that was submitted, named after its first Submission."""
    submissions: dict[str, list[SubmissionState]] = {}
    for submission in state.submissions:
        submissions.setdefault(submission.program, []).append(submission)
    for program, used in submissions.items():
        name = f"{record.entry}-{record.benchmark.slug}-s{record.seed}-{used[0].id:04d}"
        yield Model(
            name=re.sub(r"[^A-Za-z0-9_=-]+", "-", name),
            program=program,
            step=used[0].units_used,
            files=programs(program),
            tags={"program": program, "submission": str(used[0].id), "identity": identity(record)},
        )


def _uploads(
    folder: Path,
    programs: _Programs,
    record: RunRecord,
    state: RunState,
    events: Sequence[Event],
    attempts: Sequence[Attempt],
    bulk: bool,
) -> Iterator[Upload]:
    yield Upload(RECORD, content=_record(record))
    yield Upload("config.json", content=_json(mask(dict(shown_config(record)))))
    yield from _under(f"programs/{INITIAL}", programs(record.initial_program))
    for submission in state.submissions:
        yield from _under(f"programs/{submission.id:04d}", programs(submission.program))
    for submission in state.published:
        yield from feedback_uploads(folder, submission.id, f"feedback/{submission.id:04d}", bulk)
        yield from outcome_uploads(folder, submission.id)
    for attempt in attempts:
        yield from attempt_uploads(folder, attempt.number, attempt.version, bulk)
    if any(result.ended for result in state.results.values()):
        yield from evaluation_uploads(folder, len(events))
        yield Upload(JOURNAL, top=folder, source=JOURNAL, version=len(events))


def _record(record: RunRecord) -> bytes:
    return _json(mask(msgspec.to_builtins(record)))


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
