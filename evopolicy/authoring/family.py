"""`Family`: one distribution's tasks as a table, and the entry point that makes a Benchmark of one
of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicy.authoring.benchmark import GymnasiumBenchmark, OutOfBounds
from evopolicy.authoring.profile import Profile
from evopolicy.kernel.errors import BenchmarkError, did_you_mean
from evopolicy.kernel.ports.benchmark import BenchmarkReference
from evopolicy.kernel.values import Value


@dataclass(frozen=True)
class Family:
    """What a distribution names in the entry point group `evopolicy.benchmarks`: `load =
    Family(...)`.

    Called with a task's slug it makes the Benchmark; `tasks` lists them without importing an
    Environment."""

    factory: str
    """`module:attribute` of this very object, so that another process finds it:
    `evopolicy_classic_control:load`."""
    tasks: Mapping[str, Profile]
    programs: Path
    """Folder with `<slug>/<kind>/policy.py`; see `programs_folder`."""
    benchmark: type[GymnasiumBenchmark] | Mapping[str, type[GymnasiumBenchmark]] = (
        GymnasiumBenchmark
    )
    """Of every task; or by slug, for those that need a class of their own."""

    def __call__(
        self,
        task: str,
        out_of_bounds: OutOfBounds = "invalid",
        max_steps: int | None = None,
        kwargs: Mapping[str, Value] | None = None,
    ) -> GymnasiumBenchmark:
        """The Benchmark of `task`. Raises BenchmarkError for an unknown task, ConfigError for a
        wrong option."""
        if task not in self.tasks:
            raise BenchmarkError(
                f"'{self.factory}' has no task '{task}'.{did_you_mean(task, self.tasks)}"
            )
        parameters: dict[str, Value] = {"task": task, "out_of_bounds": out_of_bounds}
        if max_steps is not None:
            parameters["max_steps"] = max_steps
        if kwargs:
            parameters["kwargs"] = dict(kwargs)
        own = self.benchmark
        make = own if isinstance(own, type) else own.get(task, GymnasiumBenchmark)
        return make(
            self.tasks[task],
            BenchmarkReference(self.factory, parameters),
            self.programs / task,
            out_of_bounds=out_of_bounds,
            max_steps=max_steps,
            kwargs=kwargs,
        )


def table(*profiles: Profile) -> dict[str, Profile]:
    """Profiles by slug. Raises BenchmarkError where two share one."""
    tasks: dict[str, Profile] = {}
    for profile in profiles:
        if profile.slug in tasks:
            raise BenchmarkError(f"two tasks have the slug '{profile.slug}'; a slug names one task")
        tasks[profile.slug] = profile
    return tasks


def programs_folder(module_file: str) -> Path:
    """The folder `programs` of a distribution: inside its package when installed, two above it in a
    source tree."""
    package = Path(module_file).resolve().parent
    inside = package / "programs"
    return inside if inside.is_dir() else package.parents[1] / "programs"
