# ruff: noqa: ARG002 (the protocol names the arguments)
"""Tiny Benchmarks for the engine's tests, loaded by reference in its workers like any other."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evopolicy.execution.engine import control
from evopolicy.kernel import spaces
from evopolicy.kernel.errors import InvalidAction
from evopolicy.kernel.ports.benchmark import (
    Artifact,
    BenchmarkReference,
    BenchmarkSpec,
    EpisodeSpec,
    Split,
    Transition,
)
from evopolicy.kernel.ports.outcome import EpisodeResult, Outcome

HANGS = "hangs"
"""File in the folder of marks, or of a picture, that says that the call which never returns has
begun."""
OBSERVATIONS: dict[str, spaces.Space] = {
    "vector": spaces.box(-10.0, 10.0, (3,)),
    "number": spaces.Discrete(7),
    "image": spaces.box(0, 255, (96, 96, 3), "uint8"),
    "huge": spaces.box(0, 255, (512, 512, 3), "uint8"),
    "nested": spaces.Dict(
        {
            "at": spaces.box(-1.0, 1.0, (2,)),
            "pair": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary((2,)))),
        }
    ),
    "text": spaces.Text(8),
}
ACTIONS: dict[str, spaces.Space] = {
    "choice": spaces.Discrete(3),
    "box": spaces.box(-1.0, 1.0, (2,)),
    "nested": spaces.Dict(
        {"go": spaces.Discrete(2), "by": spaces.Tuple((spaces.box(-1.0, 1.0, (1,)),))}
    ),
}


class ToyEnvironment:
    """Rewards depend on the Action and on the seed, so that a difference in either shows in the
    return."""

    def __init__(self, toy: Toy, episode: EpisodeSpec) -> None:
        self._toy = toy
        self._episode = episode
        self._rng = np.random.default_rng(episode.seed)
        self._step = 0

    def reset(self) -> Any:
        self._toy.misbehave("reset", self._episode)
        return self._observation()

    def step(self, action: Any) -> Transition:
        self._step += 1
        self._toy.misbehave("step", self._episode)
        reward = float(np.sum(_numbers(action))) + float(self._rng.random())
        if self._toy.trouble == "nan":
            reward = float("nan")
        ended = self._step >= self._toy.steps
        return Transition(self._observation(), reward, ended, False, {"number": self._step})

    def _observation(self) -> Any:
        if self._toy.trouble == "shape" and self._step == 1:
            return np.zeros(4, np.float32)
        return self._toy.spec.observation_space.sample(self._rng)

    def measures(self) -> Mapping[str, Any]:
        self._toy.misbehave("measures", self._episode)
        large = (
            {"large": list(range(25_000))}
            if self._toy.trouble in ("large", "too_large@measures")
            else {}
        )
        return {"steps": self._step, **large}

    def close(self) -> None:
        self._toy.misbehave("close", self._episode)
        if self._toy.marks:
            (Path(self._toy.marks) / f"closed-{self._episode.index}").touch()


def _numbers(action: Any) -> list[float]:
    if isinstance(action, dict):
        return [number for part in action.values() for number in _numbers(part)]
    if isinstance(action, tuple):
        return [number for part in action for number in _numbers(part)]
    return [float(number) for number in np.ravel(action)]


class Toy:
    """See `load`."""

    def __init__(self, **parameters: Any) -> None:
        self.parameters = parameters
        self.steps: int = parameters["steps"]
        self.trouble: str = parameters["trouble"]
        self.marks: str = parameters["marks"]

    @property
    def spec(self) -> BenchmarkSpec:
        return BenchmarkSpec(
            id="toy/Toy-v0",
            slug="toy",
            title="Toy",
            goal="Collect reward.",
            scoring="The sum.",
            ending="After its steps.",
            observation_space=OBSERVATIONS[self.parameters["observation"]],
            action_space=ACTIONS[self.parameters["action"]],
            max_steps=100,
            failure_score=-1.0,
            parameters={"steps": self.steps, "out_of_bounds": self.parameters["out_of_bounds"]},
        )

    @property
    def reference(self) -> BenchmarkReference:
        return reference(**self.parameters)

    @property
    def programs(self) -> Mapping[str, Path]:
        return {}

    def plan(self, split: Split, seed: int) -> Mapping[str, Any]:
        return {}

    def make(self, episode: EpisodeSpec) -> ToyEnvironment:
        self.misbehave("make", episode)
        return ToyEnvironment(self, episode)

    def misbehave(self, where: str, episode: EpisodeSpec) -> None:
        """Does what `trouble` says, at the place it says, in Episode 1 only."""
        what, _, place = self.trouble.partition("@")
        if place != where or episode.index != 1:
            return
        if what == "raise" or (what == "raise_once" and not (Path(self.marks) / "raised").exists()):
            if self.marks:
                (Path(self.marks) / "raised").touch()
            raise ValueError("the Environment broke")
        if what == "refuse":
            raise InvalidAction("the door is locked")
        if what == "disk":
            raise OSError(errno.ENOSPC, "No space left on device")
        if what == "hang":
            if self.marks:
                (Path(self.marks) / HANGS).touch()
            time.sleep(3600)
        if what == "slow":
            time.sleep(0.3)
        if what == "too_large":
            control.LARGEST = (
                10_000  # Of this worker alone: what its Host sends is bounded as ever.
            )
        if what == "crash" or (
            what == "crash_once" and not (Path(self.marks) / "crashed").exists()
        ):
            if self.marks:
                with (Path(self.marks) / "crashed").open("a") as file:
                    file.write("x")
            os._exit(9)

    def score(self, outcome: Outcome) -> float:
        return outcome.episode_return

    def summarize(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
        return {}

    def artifacts(self, results: Sequence[EpisodeResult], folder: Path) -> Sequence[Artifact]:
        return []

    def pictured(self, results: Sequence[EpisodeResult]) -> Sequence[int]:
        return []

    def render(self, episode: EpisodeSpec, trace: Path, folder: Path) -> Sequence[Artifact]:
        if self.trouble == "render_hangs" and episode.index == 1:
            (folder / HANGS).touch()
            time.sleep(3600)
        if self.trouble == "render_raises" and episode.index == 1:
            raise RuntimeError("no screen")
        path = folder / f"{episode.index}.txt"
        path.write_text(trace.name)
        return [Artifact(path.name, path, "text/plain")]


def load(
    steps: int = 5,
    observation: str = "vector",
    action: str = "choice",
    trouble: str = "",
    marks: str = "",
    out_of_bounds: str = "invalid",
) -> Toy:
    """`trouble` is `what@where`, or a word of its own; `marks` is a folder it may leave files
    in."""
    return Toy(
        steps=steps,
        observation=observation,
        action=action,
        trouble=trouble,
        marks=marks,
        out_of_bounds=out_of_bounds,
    )


def broken() -> Toy:
    """A Benchmark that cannot be loaded."""
    raise RuntimeError("no such simulator")


def dying() -> Toy:
    """A Benchmark that takes its process with it."""
    os._exit(7)


def reference(**parameters: Any) -> BenchmarkReference:
    """How the engine finds `load` with these parameters."""
    return BenchmarkReference("tests.execution.toys:load", parameters)


def episodes(count: int, first: int = 0) -> list[EpisodeSpec]:
    """Specs with seeds that differ from each other and from their index."""
    return [EpisodeSpec(i, 1000 + 7 * i, 900_000 + 13 * i) for i in range(first, first + count)]
