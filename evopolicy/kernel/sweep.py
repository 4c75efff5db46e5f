"""Sweeps: a named list of cells, each one Run, under `output/sweeps/<name>/sweep.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from evopolicy.kernel.journal import write_durably
from evopolicy.kernel.versioned import read_versioned

SCHEMA = 1
SWEEP = "sweep.json"
CELL_STATUSES = ("pending", "running", "finished", "reused", "failed")


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
    """One of CELL_STATUSES; 'reused' is a Run that was finished before this sweep."""
    error: str = ""
    """One sentence, where it failed."""
    result_key: str = ""
    """Which result of its Run is this cell's, as `RunRecord.result_key`; '' (older sweeps) for the record's own."""


@dataclass(frozen=True)
class Sweep:
    """`sweep.json`: what a sweep is made of and how far each cell is. Paths are relative to the output folder."""

    schema: int
    name: str
    """Also of its folder."""
    created: float
    """Unix seconds."""
    cells: tuple[Cell, ...]
    suite: str = ""
    tracking: Mapping[str, str] = field(default_factory=dict)
    """What a tracker needs: 'uri', 'experiment', 'artifacts'."""


def sweep_folder(output: Path, name: str) -> Path:
    """The folder of the sweep `name` under the output folder, made or not."""
    return output / "sweeps" / name


def write_sweep(output: Path, sweep: Sweep) -> None:
    """Write `sweep.json` in place of the one there: whole or not at all, and on disk on return. Raises OSError."""
    folder = sweep_folder(output, sweep.name)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(msgspec.to_builtins(sweep), indent=2) + "\n"
    write_durably(folder / SWEEP, text.encode())


def read_sweep(folder: Path) -> Sweep:
    """The sweep in `folder`. Raises RecordError where it is missing, corrupt or of another schema."""
    return read_versioned(
        folder / SWEEP, Sweep, SCHEMA, absent="so it is no sweep's folder", remedy="run the sweep again"
    )
