"""`evopolicy resume`: goes on with an interrupted sweep or Run, from what its folder holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from evopolicy import cells
from evopolicy.cli.hydra import compose
from evopolicy.cli.hydra.launch import finish_single, finish_sweep
from evopolicy.cli.options import output_of, pairs, sweep_of, truth
from evopolicy.config import config_from
from evopolicy.consent import CONSENT, TRUST, check_lowered, check_ours, starts
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.files.received import names_in, read_part
from evopolicy.kernel.files.versioned import JOB_FORMAT, parse_object
from evopolicy.kernel.run.sweep import read_sweep
from evopolicy.kernel.session.record import output_of_run, read_record
from evopolicy.kernel.shown import clean
from evopolicy.sweeps.cell import Job
from evopolicy.sweeps.config import CommandConfig, LauncherConfig
from evopolicy.sweeps.plan import Command, PlannedCell, is_finished
from evopolicy.sweeps.sweep import JOBS, run_sweep

URI = "tracking.uri"
_JOB = re.compile(r"[0-9]{4}\.json")


@dataclass(frozen=True)
class Consent:
    """What the command itself says of safety."""

    words: Mapping[str, str]
    trusted: bool
    """Whether a record that was not made here is gone on with all the same."""

    def check(self, what: str, config: Mapping[str, Any], sealed: str) -> None:
        """Raises ConfigError where `config`, of the record `what`, does what the command does not
        agree to."""
        check_ours(what, config, sealed, trusted=self.trusted)
        check_lowered(what, config_from(config), self.words)

    def say(self, configs: Iterable[Mapping[str, Any]]) -> None:
        """Print, once each, what is about to be started."""
        for said in dict.fromkeys(map(starts, configs)):
            print(f"going on with {clean(said, 500)}", flush=True)


def resume(words: Sequence[str]) -> int:
    """`sweep=NAME` or `source=` a Run's folder; `launcher.*` may differ from what it began with."""
    options = pairs("resume", words)
    if ("sweep" in options) == ("source" in options):
        raise ConfigError(
            "resume: name what to go on with, sweep=NAME or source=RUN, and only one of them"
        )
    consent = Consent(
        {key: options[key] for key in CONSENT if key in options},
        truth(TRUST, options.get(TRUST, "false")),
    )
    launcher = _launcher([word for word in words if word.startswith("launcher.")])
    if "source" in options:
        return (
            0
            if finish_single(_single(Path(options["source"]), options, launcher, consent)).valid
            else 1
        )
    output = output_of(options)
    folder = sweep_of(output, options["sweep"])
    command = Command(
        _cells(folder, output, consent, options),
        CommandConfig(options["sweep"], False, launcher),
        output,
    )
    board, follower = run_sweep(command, options["sweep"])
    finish_sweep(board, follower, command)
    return 1 if board.count("failed") else 0


def _launcher(words: list[str]) -> LauncherConfig:
    """The launcher's settings as the config has them."""
    config = compose.compose_one(words)
    return msgspec.convert(compose.plain(config.launcher), LauncherConfig)


def _cells(
    folder: Path, output: Path, consent: Consent, options: Mapping[str, str]
) -> tuple[PlannedCell, ...]:
    jobs = [folder / JOBS / name for name in names_in(folder, JOBS) if _JOB.fullmatch(name)]
    if len(jobs) != len(read_sweep(folder).cells):
        raise RecordError(
            f"{folder / JOBS}: a cell's job is missing; type the sweep's own command again"
        )
    found = [(path, _read_job(path)) for path in jobs]
    for path, job in found:
        consent.check(str(path), job.config, job.seal)
    cells = tuple(_planned(job, output, options) for _, job in found)
    consent.say(
        job.config for (_, job), cell in zip(found, cells, strict=True) if not cell.finished
    )
    return cells


def _read_job(path: Path) -> Job:
    try:
        value = parse_object(read_part(path.parent, path.name, JOB_FORMAT.bytes))
        return msgspec.convert(JOB_FORMAT.upgraded(value, str(path)), Job)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise RecordError(
            f"{path}: is corrupt ({error}); type the sweep's own command again"
        ) from None


def _planned(job: Job, output: Path, options: Mapping[str, str]) -> PlannedCell:
    cell = _plan({**job.config, "output": str(output)}, options, job.overrides)
    _check_same(cell, Path(job.folder), "type the sweep's own command for new Runs")
    return cell


def _check_same(cell: PlannedCell, folder: Path, remedy: str) -> None:
    """Raises RecordError where what was begun in `folder` cannot be gone on with: agents would meet
    other things."""
    if cell.plan.folder.name != folder.name:
        raise RecordError(
            f"{folder}: with the packages and the pool's secret that are here now its config "
            f"makes another Run ({cell.plan.folder.name}); go on with those it was begun with, or "
            f"{remedy}"
        )


def _plan(
    value: Mapping[str, Any], options: Mapping[str, str], overrides: Sequence[str]
) -> PlannedCell:
    if URI in options:  # a password in it is in no record
        value = {**value, "tracking": {**value["tracking"], "uri": options[URI] or None}}
    config = config_from(value)
    plan = cells.cell_plan(config, begun=True)
    return PlannedCell(tuple(overrides), config, plan, is_finished(plan.folder, plan.result_key))


def _single(
    source: Path, options: Mapping[str, str], launcher: LauncherConfig, consent: Consent
) -> Command:
    record = read_record(source)
    consent.check(str(source), record.config, record.seal)
    output = Path(options["output"]) if "output" in options else _output_of_run(source)
    cell = _plan({**record.config, "output": str(output)}, options, ())
    _check_same(cell, source.absolute(), "start it anew by the command that began it")
    if cell.plan.folder.resolve() != source.resolve():
        raise RecordError(
            f"{source}: lies elsewhere than its output folder says; name that: output=FOLDER"
        )
    if not cell.finished:
        consent.say([record.config])
    return Command((cell,), CommandConfig(None, False, launcher), output)


def _output_of_run(source: Path) -> Path:
    """`output/runs/<benchmark>/<agent>/<Run>`, without making a relative path absolute."""
    return output_of_run(source if len(source.parents) > 3 else source.absolute())
