"""Grading a Run's Programs again, with no agent: by another rule, on more or other Episodes, each
on both splits.

The new record is a Run of its own that names its parent. The agent's part of it is the parent's
journal up to the handoff; the Episodes the parent has measured under the same conditions are taken
over, not run again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.durable import link_durably, make_folder, write_durably
from evopolicy.kernel.files.program import link_program
from evopolicy.kernel.ports.benchmark import PrivateSplit
from evopolicy.kernel.ports.protocols import Observer
from evopolicy.kernel.run.notifier import Notifier
from evopolicy.kernel.run.result import (
    Grading,
    complete,
    graded_path,
    has_ended,
    measure_split,
    validate,
)
from evopolicy.kernel.secrecy.secrets import masked_events
from evopolicy.kernel.session.failures import MEANINGS
from evopolicy.kernel.session.journal import JOURNAL, Journal, read_journal
from evopolicy.kernel.session.record import (
    AGENTS_PART,
    RECORD,
    Run,
    RunRecord,
    check_versions,
    load_run,
    read_record,
    write_record,
)
from evopolicy.kernel.session.state import Ledger
from evopolicy.kernel.session.submission import read_graded, write_graded
from evopolicy.kernel.values import canonical_json


def lay_regrade(
    parent: Run,
    folder: Path,
    record: RunRecord,
    measuring: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Make `folder` a Run's that has the agent's part of `parent` and `record`; one that is begun
    is left as it is.

    `measuring`: versions of what an Episode's outcome depends on. Raises RecordError where the
    parent never handed off, or the folder holds another record, or a regrade that began with other
    versions."""
    if parent.state.candidates is None:
        raise RecordError(
            f"{parent.folder.name}: has not handed off its candidates yet; finish the Run first"
        )
    if (folder / RECORD).exists():
        if read_record(folder).result_key != record.result_key:
            raise RecordError(f"{folder}: holds another record; name the regrade differently")
        begun = load_run(folder)
        if not begun.finished:
            check_versions(str(folder), begun.record.versions, measuring)
        return
    make_folder(folder)
    for name in AGENTS_PART:
        if (parent.folder / name).exists() and not (folder / name).is_symlink():
            link_durably(
                folder / name, os.path.relpath((parent.folder / name).resolve(), folder.resolve())
            )
    write_durably(
        folder / JOURNAL, b"".join(canonical_json(event) + b"\n" for event in _agents_part(parent))
    )
    write_record(folder, record)  # last: what has one is whole


def _agents_part(parent: Run) -> list[dict[str, Any]]:
    journal = [dict(event) for event in read_journal(parent.folder)]
    last = next(place for place, event in enumerate(journal) if event["event"] == "handoff")
    return journal[: last + 1]


def adopt(folder: Path, split: PrivateSplit, program: str, sources: Iterable[Path]) -> int:
    """Take over the Episodes of `program` that files of other Runs have; returns how many were new.

    Only files measured under the same conditions may be given.
    """
    path = graded_path(folder, split, program)
    by_index = {graded.outcome.index: graded for graded in read_graded(path)}
    before = len(by_index)
    for source in sources:
        for graded in read_graded(source):
            by_index.setdefault(graded.outcome.index, graded)
    if len(by_index) > before:
        write_graded(path, [by_index[index] for index in sorted(by_index)])
    return len(by_index) - before


def regrade(
    grading: Grading, splits: Sequence[PrivateSplit], observers: Sequence[Observer] = ()
) -> Run:
    """Measure every published Program, and the initial one, on `splits`; then select and assess by
    the record's rule.

    Goes on where it was cut. Raises ExecutionError where an Evaluation cannot be completed; nothing
    is lost then."""
    notifier = Notifier(observers)
    journal = Journal(grading.folder, notifier.event, masked_events(grading.bench.mask, MEANINGS))
    try:
        ledger = Ledger(journal)
        notifier.state = lambda: ledger.state
        if not has_ended(grading.record, ledger.state):
            _measure_all(grading, ledger, notifier, splits)
            complete(grading, ledger, notifier)
    finally:
        journal.close()
    return load_run(grading.folder)


def _measure_all(
    grading: Grading, ledger: Ledger, notifier: Notifier, splits: Sequence[PrivateSplit]
) -> None:
    programs = programs_of(grading.record, ledger)
    for program in programs:
        link_program(grading.folder, grading.store, program)
    for split in splits:
        notifier.total = len(programs) * len(getattr(grading.pool, split))
        for number, program in enumerate(programs):
            notifier.offset = number * len(getattr(grading.pool, split))
            if split == "validation":
                validate(grading, ledger, notifier, program)
            else:
                measure_split(grading, ledger, notifier, split, program)
    notifier.offset = notifier.total = 0


def programs_of(record: RunRecord, ledger: Ledger) -> list[str]:
    """Digests of the initial Program and of every published one, once each, in the order they
    came."""
    return list(
        dict.fromkeys([record.initial_program, *(s.program for s in ledger.state.published)])
    )
