"""The keys beside a Run's own: what a command does with its cells."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.kernel.errors import ConfigError


@dataclass(frozen=True)
class LauncherConfig:
    """How many cells run at once, and what happens to those that are killed."""

    cells: int | None
    """Cells at once; null: one per two cores."""
    retries: int
    """Times a cell that was killed is tried again, after the others and alone."""
    tracker_seconds: float
    """Seconds that MLflow may take to catch up after the last cell."""

    def __post_init__(self) -> None:
        if self.cells is not None and self.cells < 1:
            raise ConfigError(f"launcher.cells: at least 1 or null is needed, found {self.cells}")
        if self.retries < 0:
            raise ConfigError(f"launcher.retries: 0 or more is needed, found {self.retries}")
        if self.tracker_seconds < 0:
            raise ConfigError(
                f"launcher.tracker_seconds: 0 or more is needed, found {self.tracker_seconds}"
            )


@dataclass(frozen=True)
class CommandConfig:
    """The keys beside a Run's own: what the command does with its cells."""

    sweep: str | None
    dry_run: bool
    launcher: LauncherConfig
