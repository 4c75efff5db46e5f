"""The report of a Run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from evopolicy.analysis.records.scores import wall_seconds
from evopolicy.analysis.report.gather import LIMITS
from evopolicy.analysis.report.page import document, entry, figure
from evopolicy.analysis.report.shape import Limits, RunPart
from evopolicy.analysis.report.submission import changed_lines, marks, submission
from evopolicy.analysis.report.transcript import Room, as_json, summary, transcript
from evopolicy.kernel.session.record import RunRecord
from evopolicy.kernel.session.selection import Measurement
from evopolicy.present.markup import Child, Html, block, facts, fold, join, line, table, tag
from evopolicy.present.numbers import dollars, duration, mean_and_error, minus, plural, typeset

_STATUS = {"done": "good", "invalid": "bad", "failed": "bad"}
_CONFIG_CHARACTERS = 40_000


def render_run(part: RunPart, limits: Limits = LIMITS) -> str:
    """The page of one Run: HTML that opens from disk and needs nothing else."""
    record = part.run.record
    room = Room(limits.transcript)
    title = f"{record.entry} on {record.benchmark.slug}, seed {record.seed}"
    shown = [
        submission(
            one, f"submission-{one.row['submission']}", _is_selected(part, one.row), limits, room
        )
        for one in part.submissions
    ]
    lost = len(part.rows) - len(shown)
    missing = f"{plural(lost, 'Submission')} left out: a report shows {len(shown)}." if lost else ""
    contents = [
        entry("result", "Result"),
        entry("timeline", "Timeline"),
        entry(
            "submissions", "Submissions", below=[_listed(part, one.row) for one in part.submissions]
        ),
        *([entry("after", "After the last")] if part.after else []),
        entry("selection", "Selection"),
        entry("heldout", "Held-out"),
        entry("usage", "Usage"),
        entry("conditions", "Conditions"),
    ]
    return document(
        title,
        contents,
        header(part, title),
        tag("section", tag("h2", "Timeline"), timeline(part), overview(part, "submission-"), id="timeline"),
        tag(
            "section", tag("h2", "Submissions"), *(shown or [tag("p", "Nothing was submitted.")]),
            tag("p", missing, class_="cut") if missing else None,
            id="submissions",
        ),
        _after(part, limits, room),
        tag("section", tag("h2", "Candidates and selection"), selection(part), id="selection"),
        tag("section", tag("h2", "Held-out result"), *heldout(part), id="heldout"),
        tag("section", tag("h2", "Usage, cost and time"), usage(part), id="usage"),
        _conditions(record),
        tag("footer", tag("p", f"Made by evopolicy from the record of the Run {record.key[:12]}.")),
    )  # fmt: skip


def _is_selected(part: RunPart, row: Mapping[str, Any]) -> bool:
    return bool(row["submission"] == part.run.result.selected_submission)


def _listed(part: RunPart, row: Mapping[str, Any]) -> Html:
    best = " ★" if row.get("new_best") or row.get("new_best_training") else ""
    chosen = " ✓" if _is_selected(part, row) else ""
    number_ = row["submission"]
    return entry(f"submission-{number_}", f"{number_}{best}{chosen}", typeset(row["score"]))


# --- what it is -----------------------------------------------------------------------------------


def validity(part: RunPart) -> Html:
    """Whether it counts, and why not."""
    words = {"done": "valid"}.get(part.status, part.status)
    return join(
        tag("span", words, class_=f"mark {_STATUS.get(part.status, 'warn')}"),
        f" {line(part.reason.replace('_', ' '), 300)}" if part.reason else None,
    )


def header(part: RunPart, title: str) -> Html:
    """The name of the Run, its result and what it was."""
    record, state, result = part.run.record, part.run.state, part.run.result
    measured = result.assessment
    best = max((s.score for s in state.submissions if s.score is not None), default=None)
    chosen = result.validation.get(result.selected) if result.selected else None
    units = sum(len(s.indices) for s in state.submissions)
    tiles: list[tuple[str, Child, str]] = [
        (
            "held-out mean",
            minus(mean_and_error(measured.mean, measured.standard_error)[0]) if measured else "–",
            f"{_over(measured)}, {measured.failed} failed" if measured else "not measured yet",
        ),
        ("Validation of the selected", typeset(chosen.mean if chosen else None), _chosen(part)),
        ("best training score", typeset(best), f"of {plural(len(state.published), 'published Submission')}"),
        ("Episode units", f"{units:,}", f"of {record.budget.episodes:,}; {len(state.submissions)} of "
         f"{record.budget.submissions} Submissions"),
        ("time", duration(wall_seconds(part.run)), "thinking, evaluating and measuring"),
    ]  # fmt: skip
    shown = [
        tag("div", tag("dt", name), tag("dd", value, tag("small", note)))
        for name, value, note in tiles
    ]
    return tag(
        "header",
        tag("h1", title),
        tag("p", validity(part), class_="lead"),
        tag("dl", *shown, class_="tiles"),
        facts(_identity(record, part)),
        tag("ul", *[tag("li", line(note, 500)) for note in part.notes], class_="notes")
        if part.notes
        else None,
        id="result",
    )


def _chosen(part: RunPart) -> str:
    number_ = part.run.result.selected_submission
    if number_ is None:
        return "the initial Program" if part.run.result.selected else "nothing selected yet"
    return f"Submission {number_}, by {part.run.record.selection.rule.replace('_', ' ')}"


def _identity(record: RunRecord, part: RunPart) -> list[tuple[str, Child]]:
    budget, pool = record.budget, record.pool
    ended = part.run.state.agent_ended
    network = (
        f", network {record.agent_network}" if record.agent_network != "none" else ", no network"
    )
    pairs: list[tuple[str, Child]] = [
        ("agent", f"{record.agent.label} ({record.agent.name})" if record.agent.label != record.agent.name
         else record.agent.name),
        ("model", record.agent.model or "none"),
        ("agent ended", f"{ended or 'not yet'}, after {plural(part.run.state.agent_attempts, 'attempt')}"),
        ("Benchmark", record.benchmark.id),
        ("seed", str(record.seed)),
        ("budget", f"{plural(budget.submissions, 'Submission')}, {plural(budget.episodes, 'unit')}, "
         f"{budget.finish.replace('_', ' ')}"),
        ("pool", f"{pool.kind}, {pool.training} training, {pool.validation} Validation, {pool.assessment} held-out"),
        ("Feedback", record.feedback.visibility),
        ("isolation", f"Policies {record.isolation}; agent {record.agent_isolation}{network}"),
        ("begun", f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%d %H:%M} UTC"),
    ]  # fmt: skip
    if record.axes:
        pairs.append(
            ("swept", ", ".join(f"{key}={value}" for key, value in sorted(record.axes.items())))
        )
    if record.suite:
        pairs.append(("suite", record.suite))
    if record.parent:
        pairs.append(("graded again", f"Programs of the Run {record.parent[:12]}, with no agent"))
    return pairs


def _conditions(record: RunRecord) -> Html:
    """Versions, machine, digests and the config: what another needs to make it again."""
    machine = ", ".join(
        f"{key} {line(str(value), 80)}" for key, value in sorted(record.machine.items())
    )
    digests: list[tuple[str, Child]] = [
        ("cell", tag("code", record.key)),
        ("result", tag("code", record.result_key)),
        ("Benchmark", tag("code", record.benchmark.digest)),
        ("initial Program", tag("code", record.initial_program)),
    ]
    config = {key: value for key, value in record.config.items() if key != "prices"}
    return tag(
        "section",
        tag("h2", "Conditions"),
        facts([(name, line(version, 80)) for name, version in sorted(record.versions.items())]),
        facts([("machine", machine), *digests]),
        fold("The config", block(as_json(config), _CONFIG_CHARACTERS, label="The config"))
        if config
        else None,
        id="conditions",
    )


# --- what came of it ------------------------------------------------------------------------------


def timeline(part: RunPart) -> Html:
    """The drawing of the Run's scores."""
    return (
        tag("p", "No Submission has a score yet.")
        if part.timeline is None
        else figure(part.timeline)
    )


def overview(part: RunPart, anchor: str = "", limit: int = 400) -> Html | None:
    """The Submissions as a table; with `anchor` each links to its section."""
    if not part.rows:
        return None
    rows, marked = [], []
    for place, row in enumerate(part.rows[:limit]):
        number_ = str(row["submission"])
        linked = anchor and place < len(part.submissions)
        lines = (
            f"+{row['lines_added']:,} −{row['lines_removed']:,}"
            if row.get("lines_added") is not None
            else "–"
        )
        if place < len(part.submissions):
            lines = changed_lines(part.submissions[place].changes) or "–"
        if _is_selected(part, row):
            marked.append(place)
        link = (
            tag("a", number_, aria_label=f"Submission {number_}", href=f"#{anchor}{number_}")
            if linked
            else number_
        )
        what = tag("span", *_spaced(marks(row, _is_selected(part, row))))
        scores = typeset(row["score"]), typeset(row.get("validation"))
        took = duration(row["wall_seconds"])
        rows.append([link, *scores, what, lines, row["episodes"], row["units_used"], took])
    header = [
        "Submission",
        "training",
        "Validation",
        "what it was",
        "lines",
        "units",
        "units in all",
        "evaluated in",
    ]
    lost = len(part.rows) - limit
    return join(
        table("Submissions", header, rows, left=(0, 3), marked=marked),
        tag("p", f"{plural(lost, 'Submission')} left out", class_="cut") if lost > 0 else None,
    )


def _spaced(parts: Sequence[Html]) -> list[Html]:
    return [join(part, " ") for part in parts]


def _after(part: RunPart, limits: Limits, room: Room) -> Html | None:
    if not part.after:
        return None
    title = "After the last Submission" if part.rows else "What the agent did"
    body = fold(
        summary(part.after),
        transcript(part.after, limits, room, title),
        open_=len(part.after) <= 12,
    )
    return tag("section", tag("h2", title), body, id="after")


def selection(part: RunPart) -> Html:
    """The candidates as the rule saw them, and its choice."""
    record, result = part.run.record, part.run.result
    rule = record.selection.rule.replace("_", " ")
    if not part.candidates:
        words = (
            "Nothing was published: the initial Program is measured."
            if result.selected
            else "No handoff yet."
        )
        return tag("p", words)
    rows, marked = [], []
    for place, one in enumerate(part.candidates):
        if one["selected"]:
            marked.append(place)
        measured = one["validation_mean"]
        means = (
            map(minus, mean_and_error(measured, one["validation_se"]))
            if measured is not None
            else ("–", "–")
        )
        failed = "–" if one["validation_failed"] is None else str(one["validation_failed"])
        rows.append([
            f"{one['submission']}", tag("code", one["program"][:12]), typeset(one["training_score"]), *means, failed,
            "–" if one["named"] is None else str(one["named"] + 1),
            tag("span", "selected", class_="mark chosen") if one["selected"] else "",
        ])  # fmt: skip
    header = [
        "Submission",
        "Program",
        "training",
        "Validation",
        "standard error",
        "failed",
        "agent's order",
        "",
    ]
    ties = record.selection.tie_break.replace("_", " ")
    return join(
        tag("p", f"{plural(len(rows), 'candidate')}; {_chosen(part)}; ties by {ties}."),
        table(f"Candidates, selected by {rule}", header, rows, left=(0, 1, 7), marked=marked),
    )


def heldout(part: RunPart) -> list[Html | None]:
    """The measured scores, Episode by Episode."""
    measured = part.run.result.assessment
    if measured is None:
        return [tag("p", "The selected Program has not been measured on held-out Episodes.")]
    mean = minus(mean_and_error(measured.mean, measured.standard_error)[0])
    words = (
        f"Mean {mean}, {_over(measured)} the agent never saw; in {measured.failed} the Policy "
        "failed."
    )
    if not part.heldout:
        return [
            tag("p", words),
            tag("p", "The single Episodes are not there any more.", class_="cut"),
        ]
    rows: list[list[Child]] = [
        [str(one.outcome.index), typeset(one.score), one.outcome.length,
         one.outcome.ending + (f": {one.outcome.failure.kind}" if one.outcome.failure else "")]
        for one in part.heldout[:500]
    ]  # fmt: skip
    listed = table("Held-out Episodes", ["Episode", "score", "length", "ending"], rows, left=(0, 3))
    more = len(part.heldout) - len(rows)
    return [
        tag("p", words),
        figure(part.episodes) if part.episodes else None,
        fold(
            "Every Episode",
            listed,
            tag("p", f"{plural(more, 'Episode')} left out", class_="cut") if more else None,
        ),
    ]


def _over(measured: Measurement) -> str:
    """`standard error 0.58 over 3 Episodes`."""
    episodes = plural(measured.episodes, "Episode")
    if measured.standard_error is None:
        return f"over {episodes}"
    return (
        f"standard error {mean_and_error(measured.mean, measured.standard_error)[1]} over "
        f"{episodes}"
    )


def usage(part: RunPart) -> Html:
    """What the provider counted and what it took."""
    state, result = part.run.state, part.run.result
    counted = state.usage
    cost = counted.get("cost_usd")
    guessed = " (estimate)" if counted.get("tokens_are_estimate") else ""
    pairs: list[tuple[str, Child]] = [
        (name, f"{counted[key]:,}{guessed if key != 'requests' else ''}")
        for name, key in (
            ("input tokens", "input_tokens"), ("cached tokens", "cached_tokens"),
            ("cache writes", "cache_write_tokens"), ("output tokens", "output_tokens"),
            ("of them reasoning", "reasoning_tokens"), ("requests", "requests"),
        )
        if isinstance(counted.get(key), int | float)
    ]  # fmt: skip
    if isinstance(cost, int | float):
        pairs.append(
            ("cost", dollars(cost) + (" (estimate)" if counted.get("cost_is_estimate") else ""))
        )
    elif any(name != "requests" for name, _ in pairs):
        pairs.append(("cost", "unknown"))
    if state.unexplained_tokens:
        pairs.append(("unexplained", f"{state.unexplained_tokens:,} tokens"))
    if not pairs:
        pairs.append(("tokens, cost", "none counted"))
    pairs += [
        ("turns", f"{state.turns:,}"),
        ("tool calls", f"{state.tool_calls:,}"),
        ("refusals", f"{state.refusals:,}"),
        ("thinking", duration(state.thinking_seconds)),
        ("waiting for its provider", duration(state.waiting_seconds)),
        ("evaluating", duration(state.evaluating_seconds)),
        ("Validation", duration(result.wall_seconds.get("validation"))),
        ("held-out", duration(result.wall_seconds.get("assessment"))),
        ("Policies' CPU", duration(sum(s.policy_seconds for s in state.submissions))),
    ]
    return facts(pairs)
