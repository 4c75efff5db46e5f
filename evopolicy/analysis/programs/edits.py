"""What each Submission of a Run was: an edit or an event, of which size, and whether it gave a new
best.

The words are the paper's where it has them, ours where it has none; `docs/diagnostics.md` says
which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from evopolicy.analysis.programs.bundle import difference, read_bundle, readable, tokens
from evopolicy.analysis.programs.normal_form import topology
from evopolicy.analysis.records.columns import WHOSE, WHOSE_NAMES, plain_values, typed
from evopolicy.analysis.records.frames import Column, Frames
from evopolicy.analysis.records.validity import split_means
from evopolicy.analysis.stats.ties import is_above

KINDS: Mapping[str, str] = {
    "first": "the first Submission that did not fail: there is nothing it could be an edit of",
    "synthesis": "edit: a topology never seen before in the Run",
    "parametric": "edit: another bundle with the topology of the one just before",
    "retest": "event: the bundle of the one just before, byte for byte",
    "rollback": "event: an earlier Program or topology again, not that of the one just before",
    "failed": "event: no result, or the Policy failed in every Episode; leaves nothing to compare "
    "with",
    "unknown": "its source, or an earlier one's that decides, is not there",
}
"""What a Submission can be, in the order of a legend."""
EDITS = ("synthesis", "parametric")
"""The kinds that are edits; the others are out of the counts and the phases."""
SIZES: Mapping[str, float] = {
    "same": 0.0,
    "small": 0.05,
    "medium": 0.2,
    "large": 0.5,
    "rewrite": 1.0,
}
"""Bins of an edit's size: each up to and with this share of changed tokens (see
`bundle.Difference.share`)."""

EDIT_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("submission", "int64", ""),
    Column("program", "string", "digest"),
    Column("units_used", "int64", "Episode units of the Run up to and with this one"),
    Column("kind", "string", "one of KINDS"),
    Column("edit", "bool", "whether that is an edit"),
    Column(
        "against",
        "Int64",
        "the Submission it is compared with: the one just before that did not fail; NA for none",
    ),
    Column("topology", "string", "digest of the AST normal form; NA where the source is not there"),
    Column("bundle", "string", "digest of the source bundle; likewise"),
    Column(
        "data_changed",
        "boolean",
        "whether it is another Program with the same bundle: only data files differ",
    ),
    Column("lines_added", "Int64", "of the bundle"),
    Column("lines_removed", "Int64", "of the bundle"),
    Column("tokens_added", "Int64", "of the bundle, comments and layout left out"),
    Column("tokens_removed", "Int64", "likewise"),
    Column("change", "float64", "share of tokens changed, of those before and after together"),
    Column("size", "string", "one of SIZES; NA where there is nothing to compare"),
    Column(
        "phase",
        "Int64",
        "from 1: runs of adjacent edits of one kind; an event lies in the one it fell into",
    ),
    Column("phase_kind", "string", "kind of that phase; NA before the first edit"),
    Column("score", "float64", "on training Episodes, as the agent saw it"),
    Column("validation", "float64", "mean on Validation, known after the Run"),
    Column(
        "new_best",
        "boolean",
        "whether Validation is above every earlier one; NA where that is not known",
    ),
    Column("new_best_training", "boolean", "whether the score is above every earlier one"),
    Column(
        "chance",
        "float64",
        "of a new best if all Programs so far were alike: 1 / how many; NaN unless an edit",
    ),
    Column(
        "durable",
        "boolean",
        "of a new best, whether no later Submission fell back from it; NA if unknown",
    ),
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


def edit_kinds(
    versions: Sequence[Version], *, data_edits: bool = False
) -> list[tuple[str, int | None]]:
    """For each Submission of a Run, in order, its kind and the place in `versions` of what it is
    compared with.

    Args:
        data_edits: count another Program with the same bundle (new weights in a file) as a
        parametric edit, not, as
            the paper's definition has it, as a retest. A Program that was submitted before is none,
            either way.
    """
    found: list[tuple[str, int | None]] = []
    before: int | None = None
    seen: set[str | None] = set()
    programs: set[str] = set()
    for place, version in enumerate(versions):
        if version.failed:
            found.append(("failed", before))
            continue
        kind = (
            _kind(version, versions[before], seen, programs, data_edits)
            if before is not None
            else "first"
        )
        found.append((kind, before))
        seen.add(version.topology)
        programs.add(version.program)
        before = place
    return found


def _kind(
    version: Version, before: Version, seen: set[str | None], programs: set[str], data_edits: bool
) -> str:
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


# --- the frame ------------------------------------------------------------------------------------


def edit_frame(frames: Frames, *, data_edits: bool = False) -> pd.DataFrame:
    """EDIT_COLUMNS: a row a Submission. `data_edits`: see `edit_kinds`."""
    sent = frames.submissions.join(split_means(frames, "validation"), on=["run", "program"])
    sent["validation"] = sent["validation"].where(sent["status"] == "published")
    sent["lost"] = (sent["status"] == "failed") | (
        (sent["failed"] > 0) & (sent["failed"] >= sent["episodes"])
    )
    programs = dict(iter(frames.programs.groupby("run")))
    parts = [
        submissions.join(
            pd.DataFrame(
                _edits(submissions, programs.get(run), data_edits), index=submissions.index
            )
        )
        for run, submissions in sent.groupby("run", sort=False)
    ]
    return typed(EDIT_COLUMNS, pd.concat(parts) if parts else sent)


def _edits(
    sent: pd.DataFrame, programs: pd.DataFrame | None, data_edits: bool
) -> Mapping[str, Sequence[Any]]:
    """Of the Submissions of one Run the columns that they do not have, each told by those before
    it."""
    texts: dict[str, _Text] = {}
    if programs is not None:
        for program, source, data in zip(
            programs["program"], programs["source"], programs["data"], strict=True
        ):
            if readable(source):
                texts[program] = _Text.read(source, data, data_edits)
    names, lost = sent["program"].tolist(), sent["lost"].tolist()
    versions = [
        _version(name, texts.get(name), failed) for name, failed in zip(names, lost, strict=True)
    ]
    kinds = edit_kinds(versions, data_edits=data_edits)
    known, scores = plain_values(sent["validation"]), plain_values(sent["score"])
    bests = new_bests(
        [(mean, mean is not None or failed) for mean, failed in zip(known, lost, strict=True)]
    )
    tried, chances = set[str](), list[float | None]()
    for version, (kind, _) in zip(versions, kinds, strict=True):
        chances.append(1 / len(tried | {version.program}) if kind in EDITS else None)
        tried |= set() if version.failed else {version.program}
    changes = [
        {} if before is None else _difference(versions[before], version, texts, data_edits)
        for version, (_, before) in zip(versions, kinds, strict=True)
    ]
    numbers = sent["submission"].tolist()
    return {
        "kind": [kind for kind, _ in kinds],
        "edit": [kind in EDITS for kind, _ in kinds],
        "against": [None if before is None else numbers[before] for _, before in kinds],
        "topology": [version.topology for version in versions],
        "bundle": [version.bundle for version in versions],
        **{name: [change.get(name) for change in changes] for name in _CHANGES},
        **_phases([kind for kind, _ in kinds]),
        "new_best": bests,
        "new_best_training": new_bests([(score, True) for score in scores]),
        "chance": chances,
        "durable": durable_bests(bests, known),
    }


_CHANGES = (
    "data_changed",
    "lines_added",
    "lines_removed",
    "tokens_added",
    "tokens_removed",
    "change",
    "size",
)


@dataclass(frozen=True)
class _Text:
    bundle: str
    topology: str
    lines: list[str]
    tokens: list[str]

    @classmethod
    def read(
        cls, source: Mapping[str, str], data: Mapping[str, str] | None, data_edits: bool
    ) -> _Text:
        """`data_edits`: whether its data files count too in lines and tokens, after the bundle and
        in order."""
        bundle = read_bundle(source)
        texts = [module.text for module in bundle.modules]
        if data_edits:
            texts += [text for _, text in sorted((data or {}).items())]
        return cls(
            bundle.digest,
            topology(bundle),
            [line for text in texts for line in text.splitlines()],
            [token for text in texts for token in tokens(text)],
        )


def _version(program: str, text: _Text | None, failed: bool) -> Version:
    return Version(program, text.bundle if text else None, text.topology if text else None, failed)


def _difference(
    before: Version, after: Version, texts: Mapping[str, _Text], data_edits: bool
) -> dict[str, Any]:
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
    """For each of the values, in order, whether it is above every one before it; the first of all
    is.

    Args:
        values: each with whether it is settled: one that is None and settled will never be there
        (the Submission
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


def durable_bests(
    bests: Sequence[bool | None], values: Sequence[float | None]
) -> list[bool | None]:
    """For each new best, whether every later value stays above the best there was before it; None
    where it is no new best or a value that decides is not there. The first one raised nothing, and
    the last has nothing after it to fall: both are None.

    Args:
        bests: as `new_bests`.
        values: Validation means, None where there is none.
    """
    found: list[bool | None] = []
    before: float | None = None
    for place, (new, value) in enumerate(zip(bests, values, strict=True)):
        later = [one for one in values[place + 1 :] if one is not None]
        decided = new and before is not None and later
        found.append(
            all(is_above(one, before) for one in later) if decided and before is not None else None
        )
        if value is not None:
            before = value if before is None else max(before, value)
    return found


def _phases(kinds: Sequence[str]) -> dict[str, list[Any]]:
    number, current = 0, None
    found: dict[str, list[Any]] = {"phase": [], "phase_kind": []}
    for kind in kinds:
        if kind in EDITS and kind != current:
            number, current = number + 1, kind
        found["phase"].append(number or None)
        found["phase_kind"].append(current)
    return found


# --- counts ---------------------------------------------------------------------------------------


def edit_counts(
    edits: pd.DataFrame, by: Iterable[str] = ("entry",), best: str = "new_best"
) -> pd.DataFrame:
    """How many edits of each kind there were, and how many gave a new best: the counts that rates
    are made of.

    Args:
        edits: of `edit_frame`.
        by: columns whose values are told apart.
        best: 'new_best' (by Validation) or 'new_best_training'.

    Returns:
        `by`, kind, runs, edits, known (edits of which it is known whether they gave a new best),
        new_bests.
    """
    return _counted(edits[edits["edit"]], [*by], "kind", EDITS, "edits", best)


def size_counts(
    edits: pd.DataFrame, by: Iterable[str] = ("entry",), best: str = "new_best"
) -> pd.DataFrame:
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
    key = [*by, "all"]  # so that it groups by no column too
    frame = frame.assign(all=0)
    runs = frame.groupby(key, sort=False)["run"].nunique().reset_index(name="runs")
    counts = frame.groupby([*key, what])[best].agg(
        [(title, "size"), ("known", "count"), ("new_bests", "sum")]
    )
    every = runs.merge(pd.DataFrame({what: values}), how="cross")
    found = every.merge(counts.reset_index(), on=[*key, what], how="left")[
        [*by, what, "runs", *counts]
    ]
    return found.assign(**found[list(counts)].fillna(0).astype("int64"))


def phase_frame(edits: pd.DataFrame) -> pd.DataFrame:
    """PHASE_COLUMNS: a row a phase. `edits` is of `edit_frame`."""
    edits = edits.assign(
        before=edits.groupby("run")["units_used"].shift(fill_value=0),
        known=edits["edit"] & edits["new_best"].notna(),
        hits=edits["edit"] & edits["new_best"].fillna(False),
    )
    phases = edits.dropna(subset=["phase"]).groupby([*WHOSE_NAMES, "phase"], sort=False)
    found = phases.agg(
        kind=("phase_kind", "first"),
        first_submission=("submission", "first"),
        last_submission=("submission", "last"),
        first_unit=("before", "first"),
        last_unit=("units_used", "last"),
        edits=("edit", "sum"),
        known=("known", "sum"),
        new_bests=("hits", "sum"),
    )
    return typed(PHASE_COLUMNS, found.reset_index())
