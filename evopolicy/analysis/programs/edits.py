"""What each Submission of a Run was: an edit or an event, of which size, and whether it gave a new best.

The words are the paper's where it has them, ours where it has none; `docs/diagnostics.md` says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from evopolicy.analysis.programs.bundle import difference, read_bundle, tokens
from evopolicy.analysis.programs.normal_form import topology
from evopolicy.analysis.records.columns import WHOSE, by_run, grouped, typed_frame, whose
from evopolicy.analysis.records.frames import Column, Frames
from evopolicy.analysis.records.validity import split_means
from evopolicy.analysis.stats.ties import is_above

KINDS: Mapping[str, str] = {
    "first": "the first Submission that did not fail: there is nothing it could be an edit of",
    "synthesis": "edit: a topology never seen before in the Run",
    "parametric": "edit: another bundle with the topology of the one just before",
    "retest": "event: the bundle of the one just before, byte for byte",
    "rollback": "event: an earlier Program or topology again, not that of the one just before",
    "failed": "event: no result, or the Policy failed in every Episode; leaves nothing to compare with",
    "unknown": "its source, or an earlier one's that decides, is not there",
}
"""What a Submission can be, in the order of a legend."""
EDITS = ("synthesis", "parametric")
"""The kinds that are edits; the others are out of the counts and the phases."""
SIZES: Mapping[str, float] = {"same": 0.0, "small": 0.05, "medium": 0.2, "large": 0.5, "rewrite": 1.0}
"""Bins of an edit's size: each up to and with this share of changed tokens (see `bundle.Difference.share`)."""

EDIT_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("submission", "int64", ""),
    Column("program", "string", "digest"),
    Column("units_used", "int64", "Episode units of the Run up to and with this one"),
    Column("kind", "string", "one of KINDS"),
    Column("edit", "bool", "whether that is an edit"),
    Column(
        "against", "Int64", "the Submission it is compared with: the one just before that did not fail; NA for none"
    ),
    Column("topology", "string", "digest of the AST normal form; NA where the source is not there"),
    Column("bundle", "string", "digest of the source bundle; likewise"),
    Column("data_changed", "boolean", "whether it is another Program with the same bundle: only data files differ"),
    Column("lines_added", "Int64", "of the bundle"),
    Column("lines_removed", "Int64", "of the bundle"),
    Column("tokens_added", "Int64", "of the bundle, comments and layout left out"),
    Column("tokens_removed", "Int64", "likewise"),
    Column("change", "float64", "share of tokens changed, of those before and after together"),
    Column("size", "string", "one of SIZES; NA where there is nothing to compare"),
    Column("phase", "Int64", "from 1: runs of adjacent edits of one kind; an event lies in the one it fell into"),
    Column("phase_kind", "string", "kind of that phase; NA before the first edit"),
    Column("score", "float64", "on training Episodes, as the agent saw it"),
    Column("validation", "float64", "mean on Validation, known after the Run"),
    Column("new_best", "boolean", "whether Validation is above every earlier one; NA where that is not known"),
    Column("new_best_training", "boolean", "whether the score is above every earlier one"),
    Column("chance", "float64", "of a new best if all Programs so far were alike: 1 / how many; NaN unless an edit"),
    Column("durable", "boolean", "of a new best, whether no later Submission fell back from it; NA if unknown"),
)

PHASE_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("phase", "int64", "from 1"),
    Column("kind", "string", "synthesis or parametric"),
    Column("first_submission", "int64", ""),
    Column("last_submission", "int64", "the last one before the next phase, events among them"),
    Column("first_unit", "int64", "Episode units the Run had used before it"),
    Column("last_unit", "int64", "and after it"),
    Column("edits", "int64", ""),
    Column("known", "int64", "edits of which it is known whether they gave a new best"),
    Column("new_bests", "int64", "edits that did"),
)


@dataclass(frozen=True)
class Version:
    """A Submission, as far as its kind depends on it."""

    program: str
    bundle: str | None
    """Digest; None where the source is not there."""
    topology: str | None
    failed: bool = False


def edit_kinds(versions: Sequence[Version], *, data_edits: bool = False) -> list[tuple[str, int | None]]:
    """For each Submission of a Run, in order, its kind and the place in `versions` of what it is compared with.

    Args:
        data_edits: count another Program with the same bundle (new weights in a file) as a parametric edit, not, as
            the paper's definition has it, as a retest. A Program that was submitted before is none, either way.
    """
    found: list[tuple[str, int | None]] = []
    before: int | None = None
    seen: set[str | None] = set()
    programs: set[str] = set()
    for place, version in enumerate(versions):
        if version.failed:
            found.append(("failed", before))
            continue
        kind = _kind(version, versions[before], seen, programs, data_edits) if before is not None else "first"
        found.append((kind, before))
        seen.add(version.topology)
        programs.add(version.program)
        before = place
    return found


def _kind(version: Version, before: Version, seen: set[str | None], programs: set[str], data_edits: bool) -> str:
    if version.program == before.program:
        return "retest"
    same = version.bundle is not None and version.bundle == before.bundle
    if same and not data_edits:
        return "retest"
    if version.program in programs:
        return "rollback"
    if version.topology is None or before.topology is None:
        return "unknown"
    if same:
        return "parametric"
    if version.topology == before.topology:
        return "parametric"
    if version.topology in seen:
        return "rollback"
    return "unknown" if None in seen else "synthesis"


def size_of(share: float) -> str:
    """The bin of SIZES that a share of changed tokens lies in."""
    return next(name for name, most in SIZES.items() if share <= most)


# --- the frame ---------------------------------------------------------------------------------------------------


def edit_frame(frames: Frames, *, data_edits: bool = False) -> pd.DataFrame:
    """EDIT_COLUMNS: a row a Submission. `data_edits`: see `edit_kinds`."""
    validation = split_means(frames, "validation")
    programs = by_run(frames.programs)
    rows: list[dict[str, Any]] = []
    for run, submissions in by_run(frames.submissions).items():
        texts = {one["program"]: _Text.read(one, data_edits) for one in programs.get(run, []) if _readable(one)}
        failed = [_failed(one) for one in submissions]
        versions = [_version(one, texts, lost) for one, lost in zip(submissions, failed, strict=True)]
        kinds = edit_kinds(versions, data_edits=data_edits)
        means = [validation.get((run, one["program"])) if one["status"] == "published" else None for one in submissions]
        scored = zip(submissions, failed, means, strict=True)
        bests = new_bests([(mean, mean is not None or lost) for _, lost, mean in scored])
        trained = new_bests([(one["score"], True) for one in submissions])
        phases = _phases([kind for kind, _ in kinds])
        kept, tried = durable_bests(bests, means), set[str]()
        for place, (one, version, (kind, against)) in enumerate(zip(submissions, versions, kinds, strict=True)):
            row = {**whose(one), **{name: one[name] for name in ("submission", "program", "units_used", "score")}}
            row.update(kind=kind, edit=kind in EDITS, topology=version.topology, bundle=version.bundle)
            if against is not None:
                row["against"] = submissions[against]["submission"]
                row.update(_difference(versions[against], version, texts, data_edits))
            row.update(phases[place], validation=means[place], new_best=bests[place], new_best_training=trained[place])
            row["chance"] = 1 / len(tried | {one["program"]}) if kind in EDITS else None
            row["durable"] = kept[place]
            if not failed[place]:
                tried.add(one["program"])
            rows.append(row)
    return typed_frame(EDIT_COLUMNS, rows)


@dataclass(frozen=True)
class _Text:
    bundle: str
    topology: str
    lines: list[str]
    tokens: list[str]

    @classmethod
    def read(cls, program: Mapping[str, Any], data_edits: bool) -> _Text:
        """`data_edits`: whether its data files count too in lines and tokens, after the bundle and in order."""
        bundle = read_bundle(program["source"])
        texts = [module.text for module in bundle.modules]
        if data_edits:
            texts += [text for _, text in sorted((program["data"] or {}).items())]
        return cls(
            bundle.digest,
            topology(bundle),
            [line for text in texts for line in text.splitlines()],
            [token for text in texts for token in tokens(text)],
        )


def _readable(program: Mapping[str, Any]) -> bool:
    return "policy.py" in (program["source"] or {})


def _failed(submission: Mapping[str, Any]) -> bool:
    return bool(submission["status"] == "failed" or 0 < submission["episodes"] <= submission["failed"])


def _version(submission: Mapping[str, Any], texts: Mapping[str, _Text], failed: bool) -> Version:
    text = texts.get(submission["program"])
    return Version(submission["program"], text.bundle if text else None, text.topology if text else None, failed)


def _difference(before: Version, after: Version, texts: Mapping[str, _Text], data_edits: bool) -> dict[str, Any]:
    same_program = before.program == after.program
    old, new = texts.get(before.program), texts.get(after.program)
    if old is None or new is None:
        return {"data_changed": False, "size": "same", "change": 0.0} if same_program else {}
    lines, words = difference(old.lines, new.lines), difference(old.tokens, new.tokens)
    data_changed = before.bundle == after.bundle and not same_program
    if data_edits and data_changed and not words.added + words.removed:
        return {"data_changed": True}  # in files that are no text, or too large to be told
    return {
        "data_changed": data_changed,
        "lines_added": lines.added,
        "lines_removed": lines.removed,
        "tokens_added": words.added,
        "tokens_removed": words.removed,
        "change": words.share,
        "size": size_of(words.share),
    }


def new_bests(values: Sequence[tuple[float | None, bool]]) -> list[bool | None]:
    """For each of the values, in order, whether it is above every one before it; the first of all is.

    Args:
        values: each with whether it is settled: one that is None and settled will never be there (the Submission
            failed), one that is None and is not may lie anywhere. None where that decides.
    """
    found: list[bool | None] = []
    best: float | None = None
    open_before = False
    for value, settled in values:
        if value is None:
            found.append(False if settled else None)
            open_before = open_before or not settled
        elif best is not None and not is_above(value, best):
            found.append(False)
        else:
            found.append(None if open_before else True)
            best = value
    return found


def durable_bests(bests: Sequence[bool | None], values: Sequence[float | None]) -> list[bool | None]:
    """For each new best, whether every later value stays above the best there was before it; None where it is no new
    best or a value that decides is not there. The first one raised nothing, and the last has nothing after it to fall:
    both are None.

    Args:
        bests: as `new_bests`.
        values: Validation means, None where there is none.
    """
    found: list[bool | None] = []
    before: float | None = None
    for place, (new, value) in enumerate(zip(bests, values, strict=True)):
        later = [one for one in values[place + 1 :] if one is not None]
        decided = new and before is not None and later
        found.append(all(is_above(one, before) for one in later) if decided and before is not None else None)
        if value is not None:
            before = value if before is None else max(before, value)
    return found


def _phases(kinds: Sequence[str]) -> list[dict[str, Any]]:
    number, current = 0, None
    found = []
    for kind in kinds:
        if kind in EDITS and kind != current:
            number, current = number + 1, kind
        found.append({"phase": number or None, "phase_kind": current})
    return found


# --- counts ------------------------------------------------------------------------------------------------------


def edit_counts(edits: pd.DataFrame, by: Iterable[str] = ("entry",), best: str = "new_best") -> pd.DataFrame:
    """How many edits of each kind there were, and how many gave a new best: the counts that rates are made of.

    Args:
        edits: of `edit_frame`.
        by: columns whose values are told apart.
        best: 'new_best' (by Validation) or 'new_best_training'.

    Returns:
        `by`, kind, runs, edits, known (edits of which it is known whether they gave a new best), new_bests.
    """
    return _counted(edits[edits["edit"]], [*by], "kind", EDITS, "edits", best)


def size_counts(edits: pd.DataFrame, by: Iterable[str] = ("entry",), best: str = "new_best") -> pd.DataFrame:
    """How many Submissions lay in each bin of size, and how many of them gave a new best.

    Over all adjacent Submissions with a result, events among them: a retest is 'same'.

    Returns:
        `by`, size, runs, submissions, known, new_bests.
    """
    adjacent = edits[edits["size"].notna() & (edits["kind"] != "failed")]
    return _counted(adjacent, [*by], "size", [*SIZES], "submissions", best)


def _counted(
    frame: pd.DataFrame, by: list[str], what: str, values: Sequence[str], title: str, best: str
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for key, found in grouped(frame, by):
        for value in values:
            chosen = [row for row in found if row[what] == value]
            known = [row for row in chosen if row[best] is not None]
            counts = {title: len(chosen), "known": len(known), "new_bests": sum(row[best] for row in known)}
            rows.append({**key, what: value, "runs": len({row["run"] for row in found}), **counts})
    return pd.DataFrame(rows, columns=[*by, what, "runs", title, "known", "new_bests"])


def phase_frame(edits: pd.DataFrame) -> pd.DataFrame:
    """PHASE_COLUMNS: a row a phase. `edits` is of `edit_frame`."""
    rows: list[dict[str, Any]] = []
    for submissions in by_run(edits).values():
        used = 0
        for one in submissions:
            if one["phase"] is not None and (not rows or _of(rows[-1]) != (one["run"], one["phase"])):
                start = {"first_submission": one["submission"], "first_unit": used}
                phase = {"phase": one["phase"], "kind": one["phase_kind"], "edits": 0, "known": 0, "new_bests": 0}
                rows.append({**whose(one), **phase, **start})
            used = one["units_used"]
            if one["phase"] is not None:
                phase = rows[-1]
                phase.update(last_submission=one["submission"], last_unit=used)
                phase["edits"] += one["edit"]
                phase["known"] += one["edit"] and one["new_best"] is not None
                phase["new_bests"] += bool(one["edit"] and one["new_best"])
    return typed_frame(PHASE_COLUMNS, rows)


def _of(phase: Mapping[str, Any]) -> tuple[str, int]:
    return phase["run"], phase["phase"]
