"""`hydra/sweeper=evopolicy`: Hydra's basic sweeper without its files and without its stop at the
first failure."""

from __future__ import annotations

from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser

from hydra_plugins.evopolicy_launcher.launcher import EvoPolicyLauncher


class EvoPolicySweeper(BasicSweeper):
    """The Cartesian product of every list, range and glob, on the command line or in
    `hydra.sweeper.params`.

    Another launcher than ours has it in batches of `max_batch_size`; ours has all of it, and bounds
    what runs at once."""

    def sweep(self, arguments: list[str]) -> Any:
        if self.hydra_context is None or self.launcher is None or self.config is None:
            raise RuntimeError("EvoPolicySweeper: setup has to come before sweep")
        from evopolicy.cli.hydra.choices import check_sweeps
        from evopolicy.cli.hydra.elsewhere import launch_elsewhere

        loader = self.hydra_context.config_loader
        overrides = OverridesParser.create(config_loader=loader).parse_overrides(
            [*self._parse_config(), *arguments]
        )
        check_sweeps(overrides)
        ((*cells,),) = self.split_arguments(overrides, None)
        if isinstance(self.launcher, EvoPolicyLauncher):
            return self.launcher.launch_whole(cells)
        return launch_elsewhere(loader, self.config, cells, self.launcher, self.max_batch_size)
