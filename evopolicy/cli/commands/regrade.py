"""`evopolicy regrade`: archived Programs evaluated again, with no agent."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from evopolicy import regrade as regrading
from evopolicy.analysis import find_runs
from evopolicy.analysis.records.load import Found
from evopolicy.cells import run_folder
from evopolicy.cli.options import OUTPUT, listed, pair, truth, unquoted
from evopolicy.cli.sources import sources, tell_left_out, tell_unreadable
from evopolicy.cli.summary import print_table_or_why
from evopolicy.cli.verbs import VERBS
from evopolicy.consent import TRUST
from evopolicy.kernel.errors import ConfigError, EvoPolicyError, RecordError, did_you_mean
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.files.received import read_part
from evopolicy.kernel.files.versioned import REGRADE_FORMAT, SCHEMA_KEY, parse
from evopolicy.kernel.ports.benchmark import PrivateSplit
from evopolicy.kernel.run.owner import Ownership
from evopolicy.kernel.session.record import Run
from evopolicy.kernel.shown import clean
from evopolicy.kernel.values import digest
from evopolicy.present.numbers import plural
from evopolicy.sweeps.text import number

_OWN = tuple(VERBS["regrade"].options)
_WHAT = "the regrade"
ASKED = REGRADE_FORMAT.name
FOLDER = "regrades"
"""Under the output folder."""


def regrade(words: Sequence[str]) -> int:
    """`sweep=NAME` or `source=` folders, `name=`, `splits=` (validation,assessment), and what is to
    be set anew: `pool.assessment=64`, `selection=validation_lcb`, `execution.workers=2`.

    `selection=last,training_mean` grades by each of these rules, which then are part of the
    entries' names. Runs that are left out are named on standard error. Exit code 1 where a record
    cannot be read or a Run cannot be graded; the others are.

    Raises ConfigError for an option or a value there is not and for a name that holds a regrade by
    other settings, RecordError where the source holds no Run that can be graded, TrackingError as
    `sources` does."""
    options, changes = _read(words)
    trusted = truth(TRUST, options.get(TRUST, "false"))
    for rule in _rules(changes):
        regrading.check_changes({**changes, "selection": rule} if rule else changes)
    splits = _splits(options.get("splits", ",".join(regrading.SPLITS)))
    found = find_runs(*sources(options, "regrade"), compared="every")
    output = Path(options.get("output", OUTPUT))
    name = options.get("name") or digest("evopolicy/regrade-name/1", [changes, list(splits)])[:8]
    runs = _gradable(found)
    if not runs:
        tell_unreadable(found, _WHAT)
        raise RecordError("regrade: the source holds no Run that can be graded again")
    with Ownership(output / FOLDER / name):
        earlier = (
            find_runs(output / FOLDER).runs
            if any((output / FOLDER).glob("*/*/*/*/record.json"))
            else ()
        )
        _refuse_other(output / FOLDER / name, changes, splits)
        measured = regrading.Measured.of(runs + earlier, trusted=trusted)
        again = partial(
            _again, root=output / FOLDER / name, output=output, splits=splits, measured=measured
        )
        jobs = [(run, rule) for run in runs for rule in _rules(changes)]
        print(_at_most(jobs, changes, splits), flush=True)
        done = _grade(jobs, changes, again)
    print(f"\n{plural(done, 'Run')} regraded in {output / FOLDER / name}\n")
    code = 0
    if done:
        code = print_table_or_why(output / FOLDER / name)
        print(f"\nThis table: evopolicy table source={shlex.quote(str(output / FOLDER / name))}")
    return max(code, tell_unreadable(found, _WHAT), int(done < len(jobs)))


def _gradable(found: Found) -> tuple[Run, ...]:
    """The Runs that can be graded again; the others are named on standard error."""
    why = {run.folder: _why_not(run) for run in found}
    tell_left_out(
        _WHAT,
        (f"{_title(run)}: {why[run.folder]} ({run.folder})" for run in found if why[run.folder]),
    )
    return tuple(run for run in found if not why[run.folder])


def _why_not(run: Run) -> str:
    if run.record.parent:
        return "is a regrade itself; name the Run it was made of"
    if run.state.candidates is None:
        return "has not handed off its candidates yet; finish the Run first"
    return ""


def _grade(
    jobs: Sequence[tuple[Run, str]], changes: Mapping[str, Any], again: Callable[..., Run]
) -> int:
    """Grade every Run by its rule, a line each; how many could be."""
    done = 0
    for place, (run, rule) in enumerate(jobs, 1):
        title = f"[{place}/{len(jobs)}] {_title(run)}" + (f", {rule}" if rule else "")
        asked, axes = (
            ({**changes, "selection": rule}, {"selection": rule}) if rule else (changes, {})
        )
        try:
            graded = again(run, asked, axes)
        except (EvoPolicyError, OSError) as error:
            print(f"{title}: {clean(str(error), 500)}", flush=True)
            continue
        done += 1
        print(f"{title}: {_change(run, graded)}", flush=True)
    return done


def _at_most(
    jobs: Sequence[tuple[Run, str]], changes: Mapping[str, Any], splits: Sequence[str]
) -> str:
    """How many Episodes it may take: every Program on the `splits`, and the selected one held out
    in any case."""
    pool, most = changes.get("pool", {}), 0
    if isinstance(pool, str):
        return plural(len(jobs), "Run") + " to grade"
    for run, _ in jobs:
        programs = len({submission.program for submission in run.state.published}) + 1
        for split in regrading.SPLITS:
            given = pool.get(split)
            size = given if isinstance(given, int) else getattr(run.record.pool, split)
            most += size * (programs if split in splits else split == "assessment")
    return (
        f"{plural(len(jobs), 'Run')} to grade, at most {plural(most, 'Episode')}; what was "
        "measured before is not run again, and splits=validation leaves out all held-out "
        "Episodes but the selected Programs'"
    )


def _refuse_other(folder: Path, changes: Mapping[str, Any], splits: Sequence[str]) -> None:
    """One name, one way of grading: two pools in one folder could not be compared."""
    asked = json.loads(json.dumps({"changes": changes, "splits": list(splits)}))
    if (before := _asked(folder)) is not None and {key: before.get(key) for key in asked} != asked:
        raise ConfigError(
            f"name: '{folder.name}' holds a regrade by other settings; choose another name"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_durably(
        folder / ASKED,
        json.dumps({SCHEMA_KEY: REGRADE_FORMAT.newest, **asked}, sort_keys=True).encode(),
    )


def _asked(folder: Path) -> dict[str, Any] | None:
    """What the regrade in `folder` was asked for; None where there is none."""
    try:
        value = parse(read_part(folder, ASKED, REGRADE_FORMAT.bytes))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RecordError(
            f"{folder / ASKED}: cannot be read ({error}); choose another name"
        ) from None
    if isinstance(value, list) and len(value) == 2:  # of before there were versions
        return {"changes": value[0], "splits": value[1]}
    return REGRADE_FORMAT.upgraded(
        value if isinstance(value, dict) else {SCHEMA_KEY: None}, str(folder / ASKED)
    )


def _rules(changes: Mapping[str, Any]) -> list[str]:
    """The selection rules of a list of them; [''] where there is none."""
    asked = changes.get("selection")
    if not isinstance(asked, str) or "," not in asked:
        return [""]
    return list(dict.fromkeys(listed(asked))) or [""]


def _again(
    run: Run,
    changes: Mapping[str, Any],
    axes: Mapping[str, str],
    *,
    root: Path,
    output: Path,
    splits: tuple[PrivateSplit, ...],
    measured: regrading.Measured,
) -> Run:
    """The regrade of `run`; its Episodes are added to those that need not be run again."""
    config = regrading.regraded_config(run, changes, trusted=measured.trusted)
    config = replace(config, output=str(output), axes={**run.record.axes, **axes})
    record = regrading.regraded_record(run, config, splits, trusted=measured.trusted)
    place = run_folder(config, record).relative_to(output / "runs")
    folder = root / place.with_name(f"s{record.seed}-{record.result_key[:8]}")
    graded = regrading.regrade_run(run, config, folder, splits=splits, measured=measured)
    measured.add(graded)
    return graded


def _title(run: Run) -> str:
    return clean(f"{run.record.entry} on {run.record.benchmark.slug}, seed {run.record.seed}")


def _change(before: Run, after: Run) -> str:
    def said(run: Run) -> str:
        measured = run.result.assessment
        if measured is None:
            return "no result"
        chosen = run.result.selected_submission
        return (
            f"{number(measured.mean)} "
            f"({f'Submission {chosen}' if chosen else 'the initial Program'})"
        )

    return f"{said(before)} -> {said(after)}"


def _splits(text: str) -> tuple[PrivateSplit, ...]:
    names = listed(text)
    for name in names:
        if name not in regrading.SPLITS:
            raise ConfigError(
                f"splits: unknown split '{name}'; choose from {', '.join(regrading.SPLITS)}"
            )
    return cast(
        tuple[PrivateSplit, ...], tuple(split for split in regrading.SPLITS if split in names)
    )


def _read(words: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The verb's own options, and what is to be set anew by config group."""
    import yaml

    options: dict[str, str] = {}
    changes: dict[str, Any] = {}
    for word in words:
        key, value = pair("regrade", word)
        group, _, name = key.partition(".")
        if key in _OWN:
            options[key] = unquoted(value)
        elif group not in regrading.GROUPS:
            raise ConfigError(
                "regrade: there is no option "
                f"'{key}'.{did_you_mean(key, [*_OWN, *regrading.GROUPS])}"
            )
        elif name:
            before = changes.get(group, {})
            if isinstance(before, str):
                raise ConfigError(
                    f"regrade: {group} is set as a whole and by its keys; set it one way"
                )
            changes[group] = {**before, name: yaml.safe_load(value)}
        else:
            changes[group] = unquoted(value)
    return options, changes
