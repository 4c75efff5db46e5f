"""`evopolicy verify`: whether the scores of records are those of their Episodes, and their Programs
whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evopolicy.cli.options import pairs
from evopolicy.cli.sources import sources, tell_unreadable
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.session.record import Run
from evopolicy.kernel.shown import clean
from evopolicy.present.numbers import plural

WORD = 2_000
"""Letters of a contradiction that are shown."""


def verify(words: Sequence[str]) -> int:
    """`sweep=NAME` or `source=`: every Run, read whole. Exit code 1 where one cannot be read or
    contradicts itself.

    Raises ConfigError, RecordError and TrackingError as `sources` and `find_runs` do.
    """
    from evopolicy.analysis import find_runs

    found = find_runs(*sources(pairs("verify", words), "verify"), compared="none")
    runs = list({run.folder: run for run in found}.values())
    wrong = {run.folder: list(_wrong(run)) for run in runs}
    for told in (told for run in runs for told in wrong[run.folder]):
        print(clean(told, WORD))
    agreeing = sum(not wrong[run.folder] for run in runs)
    print(
        f"{agreeing} of {plural(len(runs) + len(found.unreadable), 'Run')} agree with their own "
        "files"
    )
    return max(tell_unreadable(found, "what agrees"), int(agreeing < len(runs)))


def _wrong(run: Run) -> Iterator[str]:
    from evopolicy.analysis.records.load import read_episodes
    from evopolicy.kernel.files.program import archived
    from evopolicy.kernel.run.agreement import contradictions
    from evopolicy.kernel.session.record import load_run

    yield from contradictions(
        load_run(run.folder)
    )  # under every rule it has a result by, whichever was asked for
    yield from (unreadable.reason for unreadable in read_episodes(run)[1])
    for program in dict.fromkeys(
        [run.record.initial_program, *(s.program for s in run.state.submissions)]
    ):
        try:
            archived(run.folder, program)
        except RecordError as error:
            yield str(error)
