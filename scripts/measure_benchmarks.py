"""Measures each Benchmark of a suite through the engine against its bare Environment, with the same
Program.

    python scripts/measure_benchmarks.py [--suite core16] [--isolation LEVEL] [--episodes N]
    [--json]

`share` is Episodes per second through the engine, isolated, over what all cores could do with bare
loops: 1 is no loss. A long Episode counts a thousand steps at most. Numbers for a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import measure_engine as measure  # type: ignore[import-not-found]  # beside this file
import yaml
from rich.console import Console
from rich.table import Table

from evopolicy.authoring import find_benchmark
from evopolicy.execution.machine import cores
from evopolicy.presets import conf_folder

_STEPS = 1_000


@dataclass(frozen=True)
class Throughput:
    benchmark: str
    steps: int
    bare_milliseconds: float
    """Of one Episode in one process."""
    share: float


def slugs(suite: str) -> list[str]:
    """The Benchmarks of conf/suite/<suite>.yaml."""
    text = (conf_folder() / "suite" / f"{suite}.yaml").read_text("utf-8")
    return [
        name.strip()
        for name in yaml.safe_load(text)["hydra"]["sweeper"]["params"]["benchmark"].split(",")
    ]


def throughput(slug: str, level: Any, episodes: int, repeats: int) -> Throughput:
    benchmark = find_benchmark(slug)
    if benchmark.spec.max_steps > _STEPS:
        benchmark = find_benchmark(slug, {"max_steps": _STEPS})
    folder: Path = benchmark.programs["initial"]
    shares, bares = [], []
    with measure.engine(benchmark.reference, level) as executor:
        measure.timed(executor, folder, measure.specs(2 * cores()))
        for _ in range(repeats):
            bares.append(measure.bare(benchmark, folder, measure.specs(episodes)))
            shares.append(
                bares[-1] / measure.timed(executor, folder, measure.specs(episodes)) / cores()
            )
    milliseconds = statistics.median(bares) / episodes * 1e3
    return Throughput(slug, benchmark.spec.max_steps, milliseconds, statistics.median(shares))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default="core16")
    parser.add_argument("--isolation", default="auto")
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = [
        throughput(slug, arguments.isolation, arguments.episodes, arguments.repeats)
        for slug in slugs(arguments.suite)
    ]
    if arguments.json:
        print(json.dumps({"cores": cores(), "rows": [asdict(one) for one in found]}, indent=2))
        return
    table = Table("Benchmark", "steps", "bare Episode, ms", "share", title=f"{cores()} cores")
    for one in found:
        table.add_row(
            one.benchmark, str(one.steps), f"{one.bare_milliseconds:.1f}", f"{one.share:.2f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
