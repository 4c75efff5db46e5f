"""Where Runs lie in an output folder: which sweep made one, and what was kept aside when one was
run again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.run.sweep import SWEEP, Cell, Sweep, read_sweep
from evopolicy.kernel.session.record import RECORD

ASIDE = "invalid"
"""Under the output folder, laid out as `runs/`, each folder's name with a number behind it."""
_NUMBERED = re.compile(r"(.+)-\d+")


def place_of(cell: Cell) -> str:
    """Names one result of one Run."""
    return f"{cell.run} {cell.result_key}".strip()


def kept_aside(output: Path) -> Iterator[tuple[str, Path]]:
    """Runs that were run again: the place each had, as `Cell.run`, and the folder it has now."""
    for path in sorted((output / ASIDE).glob(f"*/*/*/{RECORD}")):
        folder = path.parent
        if any(part.is_symlink() for part in (folder, *folder.parents[:2])):
            continue  # what lies elsewhere was not kept by anyone here
        if match := _NUMBERED.fullmatch(folder.name):
            yield "/".join(("runs", *folder.parts[-3:-1], match[1])), folder


@dataclass
class Makers:
    """Which sweep of an output folder made a Run: the last one that was begun before the Run was.

    It follows from the records alone, so whoever logs the Run says the same.
    """

    output: Path
    _sweeps: dict[Path, tuple[int, Sweep]] = field(default_factory=dict)
    _by_place: dict[str, set[tuple[float, str]]] = field(default_factory=dict)

    def refresh(self) -> None:
        """Read the sweeps that changed."""
        found: dict[Path, tuple[int, Sweep]] = {}
        for path in self.output.glob(f"sweeps/*/{SWEEP}"):
            try:
                changed = path.stat().st_mtime_ns
                before = self._sweeps.get(path)
                found[path] = (
                    before
                    if before and before[0] == changed
                    else (changed, read_sweep(path.parent))
                )
            except (RecordError, OSError):
                continue
        if found == self._sweeps:
            return
        self._sweeps, self._by_place = found, {}
        for _, sweep in found.values():
            for cell in sweep.cells:
                for place in {cell.run, place_of(cell)}:
                    self._by_place.setdefault(place, set()).add((sweep.created, sweep.name))

    def of(self, place: str, created: float) -> str:
        """The sweep that made the Run which was created then; '' where no sweep has the place."""
        sweeps = self._by_place.get(place)
        if not sweeps:
            return ""
        begun = max((at for at, _ in sweeps if at <= created), default=min(sweeps)[0])
        return min(name for at, name in sweeps if at == begun)
