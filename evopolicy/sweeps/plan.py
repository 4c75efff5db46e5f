"""A command's cells: composed, validated, keyed, before the first one starts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from evopolicy import cells
from evopolicy.config import RunConfig, config_from
from evopolicy.kernel.errors import ConfigError, EvoPolicyError
from evopolicy.kernel.run.attempt import all_tokens
from evopolicy.kernel.secrecy.secrets import mask_uri
from evopolicy.kernel.session.failures import REASON_TEXTS, invalidates_run
from evopolicy.kernel.session.record import RECORD, load_run
from evopolicy.kernel.shown import clean
from evopolicy.kernel.values import digest
from evopolicy.present.numbers import dollars
from evopolicy.sweeps.axes import swept_axes
from evopolicy.sweeps.config import CommandConfig

_COMMAND_KEYS = ("sweep", "dry_run", "launcher")
_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class PlannedCell:
    """One cell, ready to be started."""

    overrides: tuple[str, ...]
    config: RunConfig
    plan: cells.CellPlan
    finished: bool
    """Its Run ended before this command."""

    @property
    def run(self) -> str:
        """The Run's folder, relative to the output folder."""
        return self.plan.folder.relative_to(Path(self.config.output)).as_posix()

    @property
    def title(self) -> str:
        return cell_title(self.plan.entry, self.plan.benchmark, self.plan.seed)

    @property
    def episodes(self) -> int:
        """Episodes it may run at most, over all three splits."""
        return self.plan.units + self.plan.validation_units + self.plan.assessment_units


@dataclass(frozen=True)
class Command:
    """What one command line asks for."""

    cells: tuple[PlannedCell, ...]
    options: CommandConfig
    output: Path

    @property
    def suite(self) -> str:
        return self.cells[0].config.suite


def cell_title(entry: str, benchmark: str, seed: int) -> str:
    return f"{entry} on {benchmark}, seed {seed}"


def plan_command(
    overrides: Sequence[Sequence[str]],
    compose: Callable[[Sequence[str]], dict[str, Any]],
    explain: Callable[[BaseException], str | None],
    swept: Collection[str] = (),
) -> Command:
    """Compose and validate every cell. Raises ConfigError naming the first cell that cannot run,
    and counts the others.

    `compose` gives the plain config of a cell's overrides; `explain` turns what it raises into a
    sentence, or None. `swept` keys vary over the whole sweep of which these cells are a batch."""
    composed = _each(overrides, explain, lambda n: compose(overrides[n]))
    options = _options(composed)
    several = len(composed) > 1 or bool(swept)
    axes = (
        swept_axes(overrides, composed, swept)
        if several
        else [dict(config["axes"]) for config in composed]
    )
    provided = any(_is_provided(config["agent"]) for config in composed)
    cells = _each(
        overrides,
        explain,
        lambda n: _plan_cell(overrides[n], {**composed[n], "axes": axes[n]}, provided),
    )
    _check_distinct(cells)
    return Command(tuple(cells), options, Path(composed[0]["output"]))


def _each(
    overrides: Sequence[Sequence[str]],
    explain: Callable[[BaseException], str | None],
    step: Callable[[int], _T],
) -> list[_T]:
    """`step` for every cell, all of them before the first failure is told."""
    done: list[_T] = []
    failed: list[str] = []
    for number, cell in enumerate(overrides):
        try:
            done.append(step(number))
        except Exception as error:
            text = explain(error)
            if text is None:
                raise
            failed.append(
                f"cell {number + 1} ({' '.join(cell)}): {text}" if len(overrides) > 1 else text
            )
    _stop_at(failed)
    return done


def _stop_at(failed: Sequence[str]) -> None:
    if failed:
        more = len(failed) - 1
        rest = f" ({more} more cell{'s' if more > 1 else ''} cannot run either)" if more else ""
        raise ConfigError(failed[0] + rest)


def _is_provided(agent: Mapping[str, Any]) -> bool:
    try:
        return cells.is_provided(agent)
    except EvoPolicyError:
        return False  # its own cell tells why


def _plan_cell(overrides: Sequence[str], value: Mapping[str, Any], provided: bool) -> PlannedCell:
    """`provided`: an agent of the command is asked through a provider. All its agents then meet the
    same Episodes."""
    config = config_from({key: inner for key, inner in value.items() if key not in _COMMAND_KEYS})
    config = cells.settled(config, provided=provided)
    plan = cells.cell_plan(config)
    shown = tuple(
        mask_override(override) for override in overrides if not override.startswith("output=/")
    )
    return PlannedCell(shown, config, plan, is_finished(plan.folder, plan.result_key))


def mask_override(override: str) -> str:
    """A word of the command line as it may be written down."""
    key, sign, value = override.partition("=")
    return f"{key}{sign}{mask_uri(value)}"


def is_finished(folder: Path, result_key: str) -> bool:
    """Whether the Run in `folder` has ended, and validly, and its record is of `result_key`: its
    result shows as it is.

    A Run whose record follows another selection rule is not: running it sets the record, which
    costs no Episode that was measured before. Raises RecordError for a corrupt one."""
    if not (folder / RECORD).exists():
        return False
    run = load_run(folder)
    return run.record.result_key == result_key and run.valid


def spoiled(cell: PlannedCell) -> str:
    """Why the ended Run of `cell` does not count and is made again, and what its agent used; ''
    where it is not."""
    if cell.finished or not (cell.plan.folder / RECORD).exists():
        return ""
    run = load_run(cell.plan.folder)
    if run.record.result_key != cell.plan.result_key or not run.finished or run.valid:
        return ""
    tokens, cost = all_tokens(run.state.usage), run.state.usage.get("cost_usd")
    used = f", after {tokens:,} tokens" if tokens else ""
    why = [
        REASON_TEXTS.get(reason, reason) for reason in run.result.reasons if invalidates_run(reason)
    ]
    return f"{'; '.join(why) or 'it does not count'}{used}{'' if cost is None else f' and {dollars(cost)}'}"


def say_again(cells: Sequence[PlannedCell]) -> None:
    """On standard error, which Runs a command makes, and pays for, once more."""
    for cell in cells:
        if why := spoiled(cell):
            print(
                f"{clean(cell.title)}: is run again, its Run is kept in invalid/ ({clean(why)})",
                file=sys.stderr,
            )


def _options(composed: Sequence[Mapping[str, Any]]) -> CommandConfig:
    for key in (*_COMMAND_KEYS, "output", "tracking"):
        if any(config[key] != composed[0][key] for config in composed):
            raise ConfigError(
                f"{key}: it belongs to the whole sweep, so it cannot differ between its cells"
            )
    options = msgspec.convert({key: composed[0][key] for key in _COMMAND_KEYS}, CommandConfig)
    if options.sweep is not None and not _NAME.fullmatch(options.sweep):
        raise ConfigError(
            "sweep: a name of letters, digits, '.', '_' and '-', at most 100 long, is needed, "
            f"found '{options.sweep}'"
        )
    return options


def _check_distinct(cells: Sequence[PlannedCell]) -> None:
    seen: dict[Path, int] = {}
    for number, cell in enumerate(cells):
        first = seen.setdefault(cell.plan.folder, number)
        if first != number:
            raise ConfigError(
                f"cells {first + 1} ({' '.join(cells[first].overrides)}) and {number + 1} "
                f"({' '.join(cell.overrides)}) are the same Run: what differs does not change "
                "what its agent meets; name each once, and give another selection rule or "
                "Assessment a sweep of its own"
            )


def default_sweep_name(overrides: Sequence[Sequence[str]]) -> str:
    """The same for the same cells, whatever their order and however they are run."""
    cells = [
        sorted(
            o
            for o in cell
            if not o.startswith(("dry_run=", "launcher", "output=", "tracking.uri="))
        )
        for cell in overrides
    ]
    return "sweep-" + digest("evopolicy/sweep/1", sorted(cells))[:8]
