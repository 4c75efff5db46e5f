"""`hydra/launcher=evopolicy`: all cells validated first, several at once, one process each."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class EvoPolicyLauncher(Launcher):
    """Runs the cells of a sweep. A cell that fails is recorded and the others go on.

    `launch` returns one JobReturn per cell, in order; its value is the held-out mean score of the
    selected Program, and NaN for a cell that failed, so that an optimizing sweeper goes on too."""

    def __init__(self) -> None:
        self.config: DictConfig | None = None
        self.hydra_context: HydraContext | None = None
        self.task_function: TaskFunction | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config

    def launch(
        self,
        job_overrides: Sequence[Sequence[str]],
        initial_job_idx: int,  # noqa: ARG002 - Hydra's
    ) -> Sequence[JobReturn]:
        """A batch of a sweeper that asks for more once it has the scores of these."""
        return self._launch(job_overrides, whole=False)

    def launch_whole(self, job_overrides: Sequence[Sequence[str]]) -> Sequence[JobReturn]:
        """All cells of a sweep."""
        return self._launch(job_overrides, whole=True)

    def _launch(
        self, job_overrides: Sequence[Sequence[str]], *, whole: bool
    ) -> Sequence[JobReturn]:
        from evopolicy.cli.hydra.launch import CommandLine

        line = self.task_function
        if self.config is None or self.hydra_context is None or not isinstance(line, CommandLine):
            raise RuntimeError(
                "EvoPolicyLauncher: it launches cells of the command evopolicy, after setup"
            )
        return line.launch(
            self.hydra_context.config_loader, self.config, job_overrides, whole=whole
        )
