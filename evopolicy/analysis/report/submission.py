"""One Submission: what changed, what came of it and what the agent did meanwhile."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evopolicy.analysis.report.shape import Limits, SubmissionPart
from evopolicy.analysis.report.shown import Attached, Changes, FeedbackFiles
from evopolicy.analysis.report.transcript import Room, as_json, summary, transcript
from evopolicy.present.markup import Html, block, facts, fold, join, line, table, tag
from evopolicy.present.numbers import plural, size, typeset

_OPEN_LINES = 60
"""A longer diff is closed at first."""
_SUMMARY_ROWS, _SUMMARY_DEPTH = 80, 5
_MEASURES, _TEXTS = 6, 5


def submission(
    part: SubmissionPart, anchor: str, selected: bool, limits: Limits, room: Room
) -> Html:
    """The section of one Submission, with the id `anchor`."""
    name = f"Submission {part.row['submission']}"
    changed = tag("div", _diff_part(part, name, limits), _feedback(part, name, limits))
    told = None
    if part.steps:
        steps = transcript(part.steps, limits, room, f"What the agent did before {name}")
        told = tag(
            "div",
            fold(
                join(
                    tag("h4", "Transcript"), tag("span", f" {summary(part.steps)}", class_="soft")
                ),
                steps,
                open_=True,
            ),
        )
    head = tag(
        "h3",
        name,
        *marks(part.row, selected),
        tag("span", typeset(part.row["score"]), tag("small", " in training"), class_="score"),
    )
    return tag(
        "section", head, _facts(part.row), tag("div", changed, told, class_="beside" if told else "beside one"),
        class_="submission", id=anchor, aria_label=name,
    )  # fmt: skip


def marks(row: Mapping[str, Any], selected: bool) -> list[Html]:
    """What a reader looks for first."""
    made = [tag("span", str(row.get("kind") or "unknown"), class_="mark")]
    if row.get("data_changed"):
        made.append(tag("span", "data files changed", class_="mark"))
    if row["status"] != "published":
        made.append(tag("span", str(row["status"]), class_="mark bad"))
    if row.get("new_best"):
        made.append(tag("span", "new best", class_="mark good"))
    elif row.get("new_best_training"):
        made.append(tag("span", "new best in training", class_="mark good"))
    if row["failed"]:
        made.append(tag("span", f"{plural(row['failed'], 'Episode')} failed", class_="mark bad"))
    if selected:
        made.append(tag("span", "selected", class_="mark chosen"))
    return made


def _facts(row: Mapping[str, Any]) -> Html:
    pairs: list[tuple[str, Html | str]] = [
        (
            "Episodes",
            f"{line(row['selector'], 80)} ({plural(row['episodes'], 'unit')}, "
            f"{row['units_used']:,} in all)",
        ),
        ("Validation", typeset(row.get("validation"))),
        ("Program", tag("code", row["program"][:12])),
    ]
    if row.get("change"):
        pairs.append(
            ("change", f"{row['change']:.0%} of tokens, against Submission {row['against']}")
        )
    if row["reason"]:
        pairs.append(("reason", line(row["reason"], 400)))
    return facts(pairs)


# --- the diff -------------------------------------------------------------------------------------


def _diff_part(part: SubmissionPart, name: str, limits: Limits) -> Html:
    head, body, lines = diff(part.changes, limits.diff_lines, f"Changes of {name}")
    title = join(
        tag("h4", "Changes"), tag("span", f" against {part.against}: {head}", class_="soft")
    )
    return fold(title, body, open_=0 < lines <= _OPEN_LINES)


def diff(changes: Changes, limit: int, label: str) -> tuple[Html | str, Html, int]:
    """Words for how much changed, the diff itself and its number of lines. At most `limit` lines
    are shown."""
    lines = changes.text.split("\n")[:-1]
    left_out = [
        tag("li", tag("code", line(path)), f" {words}")
        for path, words in list(changes.left_out.items())[:20]
    ]
    if changes.problem:
        return changes.problem, tag("p", changes.problem), 0
    if not lines and not left_out:
        return changed_lines(changes), tag("p", "The same Program."), 0
    shown = [
        tag("span", one[:2_000] + ("…" if len(one) > 2_000 else ""), class_=_kind(one))
        for one in lines[:limit]
    ]
    lost = max(len(lines) - limit, 0)
    lost_characters = sum(max(len(one) - 2_000, 0) for one in lines[:limit])
    missing = [
        *([f"{plural(lost, 'line')} left out"] if lost else []),
        *([f"{lost_characters:,} characters of long lines left out"] if lost_characters else []),
    ]
    body = join(
        tag("pre", *shown, class_="diff", tabindex=0, role="region", aria_label=label)
        if shown
        else None,
        tag("p", "; ".join(missing), class_="cut") if missing else None,
        tag("ul", *left_out, class_="notes") if left_out else None,
    )
    words = [changed_lines(changes)] if lines else []
    if changes.left_out:
        words.append(f"{plural(len(changes.left_out), 'file')} too large to compare")
    return ", ".join(words), body, len(lines)


def changed_lines(changes: Changes) -> str:
    """`+2 −1` of the whole Program, data files too; `none`, or '' where it is not known."""
    if not (changes.text or changes.left_out or changes.problem):
        return "none"
    lines = changes.text.split("\n")
    plus = sum(one.startswith("+") and not one.startswith("+++ ") for one in lines)
    minus = sum(one.startswith("-") and not one.startswith("--- ") for one in lines)
    return "" if changes.problem else f"+{plus:,} −{minus:,}"


def _kind(text: str) -> str | None:
    if text.startswith(("+++ ", "--- ")):
        return "file"
    return {"+": "plus", "-": "minus", "@": "hunk", "\\": "hunk"}.get(text[:1])


# --- Feedback -------------------------------------------------------------------------------------


def _feedback(part: SubmissionPart, name: str, limits: Limits) -> Html:
    files = part.feedback
    if files.problem:
        return join(tag("h4", "Feedback"), tag("p", files.problem))
    episodes = _rows(files.content.get("by_episode"))
    pairs = list(_flat(files.content.get("summary")))
    lost = len(pairs) - _SUMMARY_ROWS
    return join(
        tag("h4", "Feedback"),
        replays(files, episodes),
        _episodes(episodes, name, limits),
        *_failures(episodes, limits),
        *_outputs(episodes, limits),
        fold("Summary by the Benchmark", facts(pairs[:_SUMMARY_ROWS]), _lost(lost, "value"))
        if pairs
        else None,
        _artifacts(files.artifacts),
    )


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _lost(count: int, word: str) -> Html | None:
    return tag("p", f"{plural(count, word)} left out", class_="cut") if count > 0 else None


def _flat(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(path in words, value) of nested public values."""
    if isinstance(value, Mapping) and len(path) < _SUMMARY_DEPTH:
        for key, one in value.items():
            yield from _flat(one, (*path, str(key)))
    elif path:
        yield line(" · ".join(path), 120).replace("_", " "), shown(value)


def shown(value: Any) -> str:
    """A public value on one line."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return typeset(value)
    return line(value if isinstance(value, str) else as_json(value), 200)


def _episodes(episodes: Sequence[Mapping[str, Any]], name: str, limits: Limits) -> Html | None:
    if not episodes:
        return None
    measures = list(dict.fromkeys(key for row in episodes for key in _mapping(row.get("measures"))))
    header = [
        "Episode",
        "score",
        "length",
        "ending",
        *[line(key.replace("_", " "), 30) for key in measures[:_MEASURES]],
    ]
    rows = []
    for row in episodes[: limits.episodes]:
        failure = _mapping(row.get("failure"))
        ending = shown(row.get("ending")) + (f": {shown(failure.get('kind'))}" if failure else "")
        values = [shown(_mapping(row.get("measures")).get(key)) for key in measures[:_MEASURES]]
        rows.append(
            [
                shown(row.get("index")),
                shown(row.get("score")),
                shown(row.get("length")),
                ending,
                *values,
            ]
        )
    made = table(f"Episodes of {name}", header, rows, left=(0, 3))
    counted = [
        _lost(len(episodes) - limits.episodes, "Episode"),
        _lost(len(measures) - _MEASURES, "measure"),
    ]
    return fold(plural(len(episodes), "Episode"), made, *counted, open_=len(episodes) <= 8)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _failures(episodes: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[Html]:
    """Each different failure once, with the Episodes it came in."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in episodes:
        if failure := _mapping(row.get("failure")):
            text = str(failure.get("traceback") or failure.get("message") or "")
            found.setdefault((shown(failure.get("kind")), text), []).append(shown(row.get("index")))
    for (kind, text), indices in list(found.items())[:_TEXTS]:
        title = (
            f"{kind.replace('_', ' ')} in {plural(len(indices), 'Episode')} "
            f"({line(', '.join(indices), 60)})"
        )
        yield fold(title, block(text, limits.text, label=title), open_=len(found) == 1)
    if len(found) > _TEXTS:
        yield tag("p", f"{plural(len(found) - _TEXTS, 'other failure')} left out", class_="cut")


def _outputs(episodes: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[Html]:
    printed = [row for row in episodes if row.get("output")]
    for row in printed[:_TEXTS]:
        omitted = row.get("output_omitted_bytes") or 0
        more = (
            tag("p", f"{omitted:,} bytes were not kept", class_="cut")
            if isinstance(omitted, int) and omitted
            else None
        )
        title = f"Output of the Policy in Episode {shown(row.get('index'))}"
        yield fold(title, block(str(row["output"]), limits.text, label=title), more)
    if len(printed) > _TEXTS:
        yield tag(
            "p",
            f"Output in {plural(len(printed) - _TEXTS, 'other Episode')} left out",
            class_="cut",
        )


# --- replays and files ----------------------------------------------------------------------------


def replays(files: FeedbackFiles, episodes: Sequence[Mapping[str, Any]]) -> Html | None:
    """A still of every Episode that was drawn; it moves when it is asked to."""
    by_episode: dict[int | None, dict[str, Attached]] = {}
    for one in files.artifacts:
        if one.media_type in ("image/gif", "image/png"):
            by_episode.setdefault(one.episode, {})[one.media_type] = one
    scores = {row.get("index"): row.get("score") for row in episodes}
    made = [
        _replay(index, kinds, scores)
        for index, kinds in sorted(
            by_episode.items(), key=lambda item: -1 if item[0] is None else item[0]
        )
        if any(one.picture for one in kinds.values())
    ]
    missing = [
        one for kinds in by_episode.values() for one in kinds.values() if one.picture is None
    ]
    gone = sum(not one.there for one in missing)
    words = [f"{plural(gone, 'picture')} no longer kept"] if gone else []
    if large := [one for one in missing if one.there]:
        words.append(
            f"{plural(len(large), 'picture')} ({size(sum(one.size for one in large))}) left out"
        )
    return join(
        tag("div", *made, class_="replays") if made else None,
        tag("p", "; ".join(words), class_="cut") if words else None,
    )


def _replay(index: int | None, kinds: Mapping[str, Attached], scores: Mapping[Any, Any]) -> Html:
    still, moving = kinds.get("image/png"), kinds.get("image/gif")
    name = "Replay" if index is None else f"Episode {index}"
    title = f"{name} · score {shown(scores.get(index))}" if index in scores else name
    return tag(
        "figure",
        tag("figcaption", title),
        _picture(still, f"{title}: pictures in the order of time")
        if still and still.picture
        else None,
        fold(f"Play {name}", _picture(moving, f"{title}: moving"))
        if moving and moving.picture
        else None,
    )


def _picture(one: Attached, text: str) -> Html:
    encoded = base64.b64encode(one.picture or b"").decode()
    return tag("img", src=f"data:{one.media_type};base64,{encoded}", alt=text)


def _artifacts(artifacts: Sequence[Attached]) -> Html | None:
    files = [one for one in artifacts if one.media_type not in ("image/gif", "image/png")]
    if not files:
        return None
    listed = [
        tag(
            "li",
            tag("code", line(one.name)),
            f" {size(one.size)}" + ("" if one.there else ", no longer kept"),
        )
        for one in files[:50]
    ]
    total = size(sum(one.size for one in files))
    return fold(
        f"{plural(len(files), 'file')} beside it ({total}, not embedded)",
        tag("ul", *listed, class_="notes"),
        _lost(len(files) - 50, "file"),
    )
