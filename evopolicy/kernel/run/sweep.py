"""Sweeps: a named list of cells, each one Run, under `output/sweeps/<name>/sweep.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.files.received import is_inside
from evopolicy.kernel.files.versioned import SWEEP_FORMAT, read_versioned

SCHEMA = SWEEP_FORMAT.newest
SWEEP = SWEEP_FORMAT.name


@dataclass(frozen=True)
class Cell:
    """One Run of a sweep."""

    run: str
    """The Run's folder, relative to the output folder."""
    entry: str
    """As `RunRecord.entry`."""
    benchmark: str
    """Slug."""
    seed: int
    overrides: tuple[str, ...] = ()
    """The overrides that make this cell."""
    status: str = "pending"
    """'pending', 'running', 'finished', 'failed', or 'reused': its Run was finished before this
    sweep."""
    error: str = ""
    """One sentence, where it failed."""
    result_key: str = ""
    """Which result of its Run is this cell's, as `RunRecord.result_key`; '' (older sweeps) for the
    record's own."""


@dataclass(frozen=True)
class Sweep:
    """`sweep.json`: what a sweep is made of and how far each cell is. Paths are relative to the
    output folder."""

    schema: int
    name: str
    """Also of its folder."""
    created: float
    """Unix seconds."""
    cells: tuple[Cell, ...]
    suite: str = ""
    tracking: Mapping[str, str] = field(default_factory=dict)
    """What a tracker needs: 'uri', 'experiment', 'artifacts'."""
    seal: str = ""
    """Of `tracking`, as `seal.seal`; '' for none."""


def sweep_folder(output: Path, name: str) -> Path:
    """The folder of the sweep `name` under the output folder, made or not."""
    return output / "sweeps" / name


def write_sweep(output: Path, sweep: Sweep) -> None:
    """Write `sweep.json` in place of the one there: whole or not at all, and on disk on return.
    Raises OSError."""
    folder = sweep_folder(output, sweep.name)
    text = json.dumps(msgspec.to_builtins(sweep), indent=2) + "\n"
    write_durably(folder / SWEEP, text.encode())


def read_sweep(folder: Path) -> Sweep:
    """The sweep in `folder`.

    Raises RecordError where it is missing, corrupt or of another schema, or a cell lies outside its
    output folder."""
    sweep = read_versioned(
        folder / SWEEP,
        Sweep,
        SWEEP_FORMAT,
        absent="so it is not a sweep's folder",
        remedy="run the sweep again",
    )
    for cell in sweep.cells:
        path = PurePosixPath(cell.run)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in cell.run:
            raise RecordError(
                f"{folder / SWEEP}: the cell {cell.run[:200]!r} lies outside the output folder; "
                "repair it"
            )
    return sweep


def run_of(output: Path, cell: Cell) -> Path:
    """The folder of a cell's Run. Raises RecordError where a link leads out of the output folder to
    it."""
    folder = output / cell.run
    if not is_inside(output, folder):
        raise RecordError(
            f"{folder}: a link leads to it, out of the output folder; name the folder it lies in"
        )
    return folder
