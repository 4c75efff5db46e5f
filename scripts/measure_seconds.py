"""Measures what an Episode of every Benchmark takes, for the estimates of `--dry-run`:
evopolicy/sweeps/seconds.json.

    python scripts/measure_seconds.py [NAME ...]

CPU seconds of one core: of a reset, and of a step with the initial Program, times the steps an
Episode may last. Without names all of conf/benchmark/ are measured anew, but for those that take
any id."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

from evopolicy.authoring import find_benchmark
from evopolicy.kernel.policy import PolicyContext, bind
from evopolicy.kernel.ports.benchmark import EpisodeSpec
from evopolicy.presets import conf_folder
from evopolicy.sweeps import dry_run

_STEPS, _RESETS = 300, 10


def seconds(benchmark: Any) -> float:
    """Of an Episode that lasts as long as it may."""
    path = Path(benchmark.programs["initial"]) / "policy.py"
    found = importlib.util.spec_from_file_location("measured_policy", path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    spec, steps, resets, reset_seconds = benchmark.spec, 0, 0, 0.0
    began = time.process_time()
    while steps < _STEPS and resets < _RESETS:
        at = time.process_time()
        context = PolicyContext(
            spec.observation_space, spec.action_space, spec.parameters, resets, spec.max_steps
        )
        policy, environment = (
            bind(module, context),
            benchmark.make(EpisodeSpec(resets, resets, resets)),
        )
        policy.reset()
        observation = environment.reset()
        resets, reset_seconds = resets + 1, reset_seconds + time.process_time() - at
        over = False
        while not over and steps < _STEPS:
            observation, _, terminated, truncated, _ = environment.step(policy.act(observation))
            steps, over = steps + 1, terminated or truncated
        environment.close()
    stepping = time.process_time() - began - reset_seconds
    whole: float = reset_seconds / resets + spec.max_steps * stepping / max(steps, 1)
    return whole


def main() -> None:
    names = sys.argv[1:] or sorted(
        path.stem for path in (conf_folder() / "benchmark").glob("*.yaml")
    )
    measured = dict(dry_run.shipped_seconds()) if sys.argv[1:] else {}
    for name in names:
        if name in ("gymnasium", "minigrid"):
            continue
        measured[name] = float(f"{seconds(find_benchmark(name)):.2g}")
        print(f"{name:30} {measured[name]:8.3g} s", flush=True)
        dry_run.SECONDS.write_text(json.dumps(dict(sorted(measured.items())), indent=2) + "\n")


if __name__ == "__main__":
    main()
