"""`evopolicy resume`: goes on with an interrupted sweep or Run, from what its folder holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from evopolicy import build
from evopolicy.cli import compose
from evopolicy.cli.cell import Job
from evopolicy.cli.launch import finish_single, finish_sweep
from evopolicy.cli.options import output_of, pairs, sweep_of
from evopolicy.cli.plan import Command, PlannedCell, is_finished
from evopolicy.cli.schema import CommandConfig, LauncherConfig
from evopolicy.cli.sweep import JOBS, run_sweep
from evopolicy.config import config_from
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.record import read_record
from evopolicy.kernel.sweep import read_sweep


def resume(words: Sequence[str]) -> int:
    """`sweep=NAME` or `source=` a Run's folder; `launcher.*` may differ from what it began with."""
    options = pairs("resume", words)
    if ("sweep" in options) == ("source" in options):
        raise ConfigError("resume: name what to go on with, sweep=NAME or source=RUN, and only one of them")
    launcher = _launcher([word for word in words if word.startswith("launcher.")])
    if "source" in options:
        return 0 if finish_single(_single(Path(options["source"]), options, launcher)).valid else 1
    output = output_of(options)
    folder = sweep_of(output, options["sweep"])
    command = Command(_cells(folder, output), CommandConfig(options["sweep"], False, launcher), output)
    board, follower = run_sweep(command, options["sweep"])
    finish_sweep(board, follower, command)
    return 1 if board.count("failed") else 0


def _launcher(words: list[str]) -> LauncherConfig:
    """The launcher's settings as the config has them."""
    config = compose.compose_one(words)
    return msgspec.convert(compose.plain(config.launcher), LauncherConfig)


def _cells(folder: Path, output: Path) -> tuple[PlannedCell, ...]:
    jobs = sorted((folder / JOBS).glob("[0-9][0-9][0-9][0-9].json"))
    if len(jobs) != len(read_sweep(folder).cells):
        raise RecordError(f"{folder / JOBS}: a cell's job is missing; type the sweep's own command again")
    return tuple(_planned(_read_job(path), output) for path in jobs)


def _read_job(path: Path) -> Job:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Job)
    except msgspec.MsgspecError as error:
        raise RecordError(f"{path}: is corrupt ({error}); type the sweep's own command again") from None


def _planned(job: Job, output: Path) -> PlannedCell:
    return _plan({**job.config, "output": str(output)}, job.overrides)


def _plan(value: Mapping[str, Any], overrides: Sequence[str]) -> PlannedCell:
    config = config_from(value)
    plan = build.cell_plan(config)
    return PlannedCell(tuple(overrides), config, plan, is_finished(plan.folder, plan.result_key))


def _single(source: Path, options: Mapping[str, str], launcher: LauncherConfig) -> Command:
    record = read_record(source)
    output = Path(options["output"]) if "output" in options else _output_of_run(source)
    cell = _plan({**record.config, "output": str(output)}, ())
    if cell.plan.folder.resolve() != source.resolve():
        raise RecordError(
            f"{source}: with the packages installed here its config makes another Run ({cell.plan.folder.name}); "
            "go on with the versions the record names"
        )
    return Command((cell,), CommandConfig(None, False, launcher), output)


def _output_of_run(source: Path) -> Path:
    """`output/runs/<benchmark>/<agent>/<Run>`, without making a relative path absolute."""
    parents = source.parents
    return parents[3] if len(parents) > 3 else source.absolute().parents[3]
