"""`hydra/sweeper=evopolicy`: Hydra's basic sweeper without its files and without its stop at the first failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus

from hydra_plugins.evopolicy_launcher.launcher import EvoPolicyLauncher


class EvoPolicySweeper(BasicSweeper):
    """The Cartesian product of every list, range and glob, on the command line or in `hydra.sweeper.params`.

    Once all cells have ended and some have failed, it raises SystemExit(1): the exit code says so.
    """

    def sweep(self, arguments: list[str]) -> Any:
        if self.hydra_context is None or self.launcher is None:
            raise RuntimeError("EvoPolicySweeper: setup has to come before sweep")
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        batches = self.split_arguments(overrides, self.max_batch_size)
        returns: list[Sequence[JobReturn]] = []
        for batch in batches:
            if not isinstance(self.launcher, EvoPolicyLauncher):  # ours does so itself, and names the cell
                self.validate_batch_is_legal(batch)
            returns.append(self.launcher.launch(batch, initial_job_idx=sum(map(len, returns))))
        if any(job.status is JobStatus.FAILED for batch in returns for job in batch):
            raise SystemExit(1)
        return returns
