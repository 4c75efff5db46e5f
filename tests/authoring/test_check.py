"""`check_benchmark`: a sound Benchmark passes, and each rule finds the Benchmark that breaks it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evopolicy.authoring import (
    Artifact,
    BenchmarkError,
    BenchmarkReference,
    BenchmarkSpec,
    Discrete,
    EpisodeSpec,
    Field,
    Outcome,
    Transition,
    Value,
    box,
    check_benchmark,
    find_breaches,
)
from evopolicy.authoring.benchmark import PROGRAMS
from evopolicy.authoring.check_feedback import _check_outcome
from evopolicy.kernel.ports.feedback import MAX_ARTIFACT_BYTES
from evopolicy.kernel.ports.outcome import EpisodeResult

GOOD = BenchmarkSpec(
    id="test/Walk-v0",
    slug="walk",
    title="Walk",
    goal="Go right.",
    scoring="The last position.",
    ending="After ten steps.",
    observation_space=box(-1e6, 1e6, (2,)),
    action_space=Discrete(3),
    max_steps=10,
    failure_score=-1e6,
    observation_fields=(Field("position"), Field("steps")),
    action_fields=(Field("move"),),
    measures=(Field("farthest"),),
    parameters={"out_of_bounds": "invalid"},
)


class Walk:
    """A walk on a line with a seeded start and seeded gusts."""

    def __init__(self, episode: EpisodeSpec) -> None:
        self.rng = np.random.default_rng(episode.seed)
        self.steps = 0

    def reset(self) -> Any:
        self.position = float(self.rng.uniform(-1, 1))
        return self.observation()

    def observation(self) -> Any:
        return np.array([self.position, self.steps], np.float32)

    def step(self, action: Any) -> Transition:
        self.steps += 1
        self.position += int(action) - 1 + 0.1 * self.rng.normal()
        return Transition(
            self.observation(), self.position, False, self.steps >= 10, {"gust": self.position}
        )

    def measures(self) -> Mapping[str, Value]:
        return {"farthest": self.position}

    def close(self) -> None: ...


class Walking:
    """A sound Benchmark without Gymnasium; tests replace one part of it."""

    def __init__(self) -> None:
        self.spec = GOOD
        self.environment: Callable[[EpisodeSpec], Any] = Walk
        self.programs: Mapping[str, Path] = {
            name: PROGRAMS / name for name in ("initial", "random")
        }
        self.reference: Any = Here(self)
        self.plan: Callable[[Any, int], Mapping[str, Value]] = lambda *_: {}
        self.score: Callable[[Outcome], Any] = lambda outcome: outcome.episode_return
        self.summarize: Callable[[Sequence[Outcome]], Mapping[str, Any]] = lambda outcomes: {
            "episodes": len(outcomes)
        }
        self.artifacts: Callable[[Any, Path], Sequence[Artifact]] = lambda *_: []
        self.pictured: Callable[[Any], Sequence[int]] = lambda results: [
            r.index for r in results if r.trace
        ][:1]
        self.render: Callable[[Any, Path, Path], Sequence[Artifact]] = lambda *_: []

    def make(self, episode: EpisodeSpec) -> Any:
        return self.environment(episode)


@dataclass(frozen=True)
class Here(BenchmarkReference):
    """A reference to an object of this process."""

    factory: Any = None

    def load(self) -> Any:
        return self.factory


def findings(change: Callable[[Walking], None]) -> str:
    benchmark = Walking()
    change(benchmark)
    return "\n".join(find_breaches(benchmark))


def test_a_sound_benchmark_passes() -> None:
    check_benchmark(Walking())


def test_every_breach_is_raised_at_once() -> None:
    benchmark = Walking()
    benchmark.programs = {}
    benchmark.score = lambda _: float("nan")
    with pytest.raises(
        BenchmarkError, match=r"(?s)no Program 'initial'.*no Program 'random'.*not a finite number"
    ):
        check_benchmark(benchmark)


SPECS: list[tuple[dict[str, Any], str]] = [
    ({"slug": "walk/on"}, "not a portable name"),
    ({"id": "Walk-v0"}, "family/Name-vN"),
    ({"goal": " "}, "'goal' is empty"),
    ({"ending": ""}, "'ending' is empty"),
    ({"failure_score": float("nan")}, "failure_score"),
    ({"failure_score": True}, "failure_score"),
    ({"max_steps": 0}, "max_steps"),
    ({"parameters": {"out_of_bounds": "wrap"}}, "out_of_bounds"),
    ({"parameters": {"value": float("inf")}}, "not finite"),
    ({"observation_fields": (Field("position"),)}, "1 observation fields"),
    (
        {"observation_fields": (), "observation_text": ""},
        "neither observation_fields nor observation_text",
    ),
    ({"action_fields": (Field("Move"),)}, "not snake_case"),
    ({"observation_fields": (Field("a"), Field("a"))}, "'a' is there twice"),
    ({"action_fields": (Field("move", "", 2, 1),)}, "range 2 to 1"),
    ({"action_space": "anything"}, "the action space is a str"),
    ({"measures": (Field("farthest"), Field("farthest"))}, "'farthest' is there twice"),
]


@pytest.mark.parametrize(("change", "finding"), SPECS)
def test_an_incomplete_description_is_found(change: dict[str, Any], finding: str) -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.spec = replace(GOOD, **change)

    assert finding in findings(spoil)


def test_a_reference_to_another_task_is_found() -> None:
    other = Walking()
    other.spec = replace(GOOD, parameters={"gravity": 9.8})

    def spoil(benchmark: Walking) -> None:
        benchmark.reference = Here(other)

    assert "reference: it makes 'walk' {'gravity': 9.8}" in findings(spoil)


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("def make_policy(context:\n", "does not compile"),
        ("import gymnasium\ndef make_policy(context): ...\n", "imports 'gymnasium'"),
        ("from evopolicy_walk.secrets import x\n", "imports 'evopolicy_walk.secrets'"),
        ("pass\n", "neither make_policy"),
        (
            "class P:\n  def act(self, o): return 7\ndef make_policy(c): return P()\n",
            "InvalidAction",
        ),
        (None, "policy.py is missing"),
    ],
)
def test_a_program_that_cannot_run_is_found(
    tmp_path: Path, source: str | None, finding: str
) -> None:
    if source is not None:
        (tmp_path / "policy.py").write_text(source)

    def spoil(benchmark: Walking) -> None:
        benchmark.programs = {**benchmark.programs, "initial": tmp_path}

    assert finding in findings(spoil)


def test_a_programs_own_modules_may_be_imported(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(
        "def make_policy(c):\n  import parts\n  raise NotImplementedError\n"
    )
    (tmp_path / "parts.py").write_text("import math\n")

    def spoil(benchmark: Walking) -> None:
        benchmark.programs = {**benchmark.programs, "initial": tmp_path}

    assert "imports" not in findings(spoil)


def test_a_plan_that_changes_is_found() -> None:
    counter = iter(range(1_000))

    def spoil(benchmark: Walking) -> None:
        benchmark.plan = lambda *_: {"level": next(counter)}

    assert "another scenario when it is called again" in findings(spoil)


def test_splits_that_share_a_scenario_are_found() -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.plan = lambda _, seed: {"level": seed % 5}

    assert "splits share no scenario" in findings(spoil)


def test_disjoint_scenarios_pass() -> None:
    def fine(benchmark: Walking) -> None:
        benchmark.plan = lambda split, seed: {"level": seed % 5, "of": split}

    assert findings(fine) == ""


def test_an_action_space_wider_than_the_environments_is_found() -> None:
    class Narrow(Walk):
        def step(self, action: Any) -> Transition:
            if action == 2:
                raise ValueError("no such move")
            return super().step(action)

    def spoil(benchmark: Walking) -> None:
        benchmark.environment = Narrow

    assert "does not take the declared Action 2" in findings(spoil)


def test_bounds_that_are_no_numbers_are_found() -> None:
    class Pushed(Walk):
        def step(self, action: Any) -> Transition:
            return super().step(1 + action[0])

    def spoil(benchmark: Walking) -> None:
        benchmark.environment = Pushed
        benchmark.spec = replace(GOOD, action_space=box(float("nan"), float("nan"), (1,)))

    assert "the declared Action" in findings(spoil)


def test_an_action_space_that_takes_anything_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's cast is the gate; a Benchmark whose space it lets anything through would be
    named."""
    from evopolicy.authoring import check

    monkeypatch.setattr(check, "cast_action", lambda *_, **__: (1, False))
    assert "the invalid Action None is taken" in findings(lambda _: None)


class Unseeded(Walk):
    def __init__(self, episode: EpisodeSpec) -> None:
        super().__init__(episode)
        self.rng = np.random.default_rng()


class Blind(Walk):
    def __init__(self, episode: EpisodeSpec) -> None:
        super().__init__(replace(episode, seed=0))


class Shared(Walk):
    """Deterministic one after the other, but all Episodes draw from one generator."""

    one = np.random.default_rng(0)

    def reset(self) -> Any:
        Shared.one = np.random.default_rng(self.rng.integers(2**32))
        return super().reset()

    def step(self, action: Any) -> Transition:
        self.position += Shared.one.normal()
        return super().step(action)


class Wrong(Walk):
    def observation(self) -> Any:
        return super().observation().astype(np.float64)


class Infinite(Walk):
    def step(self, action: Any) -> Transition:
        return super().step(action)._replace(reward=float("nan"))


class Endless(Walk):
    def step(self, action: Any) -> Transition:
        return super().step(action)._replace(truncated=False)


class Wordy(Walk):
    def step(self, action: Any) -> Transition:
        return super().step(action)._replace(info={"word": "text"})


class Undeclared(Walk):
    def measures(self) -> Mapping[str, Value]:
        return {"nearest": 1.0}


@pytest.mark.parametrize(
    ("environment", "finding"),
    [
        (Unseeded, "another trajectory when it is run again"),
        (Blind, "Episodes of different seeds are alike"),
        (Shared, "they share state"),
        (Wrong, "not a member of its space"),
        (Infinite, "the reward is nan"),
        (Endless, "goes on past max_steps"),
        (Wordy, "info column 'word'"),
        (Undeclared, "declared ['farthest'] are missing, ['nearest'] are not declared"),
    ],
)
def test_an_environment_that_breaks_a_rule_is_found(environment: Any, finding: str) -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.environment = environment

    assert finding in findings(spoil)


def test_a_task_may_be_declared_deterministic() -> None:
    benchmark = Walking()
    benchmark.environment = Blind
    check_benchmark(benchmark, deterministic=True)


def test_an_instance_reset_again_instead_of_made_fresh_is_found() -> None:
    kept: list[Walk] = []

    def spoil(benchmark: Walking) -> None:
        def make(episode: EpisodeSpec) -> Walk:
            kept.append(Walk(episode))
            return kept[0]

        benchmark.environment = make

    assert "Episodes:" in findings(spoil)


@pytest.mark.parametrize("score", [float("nan"), None, True])
def test_a_score_that_is_no_number_is_found(score: Any) -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.score = lambda _: score

    assert "not a finite number" in findings(spoil)


def test_a_failure_score_that_would_pay_is_found() -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.spec = replace(GOOD, failure_score=1e6)

    assert "failing would pay" in findings(spoil)


# --- Feedback -------------------------------------------------------------------------------------


def test_a_summary_out_of_bounds_is_found() -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.summarize = lambda _: {"object": object()}

    assert "is not a public value" in findings(spoil)


def test_feedback_that_cannot_be_made_of_no_episode_is_found() -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.summarize = lambda outcomes: {
            "mean": sum(o.length for o in outcomes) / len(outcomes)
        }

    assert "of no Episode none can be made: ZeroDivisionError" in findings(spoil)


def test_feedback_that_needs_an_outcome_is_found() -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.artifacts = lambda results, _: (
            [] if all(r.outcome.length < 99 for r in results) else list(results)
        )

    assert "of a faulty Episode none can be made" in findings(spoil)


def test_a_score_is_of_failed_episodes_too() -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.score = lambda outcome: outcome.episode_return / outcome.length

    assert (
        "of failed Episodes none can be made: EpisodeFault: Episode 0: walk: score raised Zero"
        in findings(spoil)
    )


def leaky_file(
    file: str, content: Callable[[Walking], bytes], **changes: Any
) -> Callable[[Walking], None]:
    def spoil(benchmark: Walking) -> None:
        def artifacts(_: Any, folder: Path) -> list[Artifact]:
            path = folder / file
            path.write_bytes(content(benchmark))
            artifact = Artifact(file, path, "text/plain")
            return [
                replace(artifact, **{k: v(path) if callable(v) else v for k, v in changes.items()})
            ]

        benchmark.artifacts = artifacts

    return spoil


def _as_large_as(path: Path, size: int) -> Path:
    path.touch()
    os.truncate(path, size)
    return path


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"name": "../up.txt"}, "not a portable relative path"),
        ({"name": "/root.txt"}, "not a portable relative path"),
        ({"name": "two words.txt"}, "not a portable relative path"),
        ({"name": "feedback.json"}, "is taken"),
        ({"path": lambda path: _as_large_as(path, MAX_ARTIFACT_BYTES + 1)}, "exceeds 64 MiB"),
        ({"media_type": "text/html"}, "media type 'text/html'"),
        ({"episode": 99}, "names Episode 99"),
        ({"path": lambda path: path.with_name("gone")}, "was named and not written"),
        ({"path": lambda _: Path(__file__)}, "is not a file in the folder"),
    ],
)
def test_an_artifact_out_of_bounds_is_found(changes: dict[str, Any], finding: str) -> None:
    assert finding in findings(leaky_file("a.txt", lambda _: b"text", **changes))


def test_a_table_with_two_columns_of_one_name_is_found() -> None:
    assert "two columns of one name: x" in findings(
        leaky_file("a.csv", lambda _: b"x,y,x\n1,2,3\n", media_type="text/csv")
    )


@pytest.mark.parametrize("which", ["seed", "policy_seed"])
@pytest.mark.parametrize(
    "spelling", [str, "{:x}".format, lambda seed: seed.to_bytes(8, "little").decode("latin-1")]
)
def test_an_artifact_that_holds_a_seed_is_found(which: str, spelling: Callable[[int], str]) -> None:
    seen: list[int] = []

    def spoil(benchmark: Walking) -> None:
        def make(episode: EpisodeSpec) -> Walk:
            seen.append(getattr(episode, which))
            return Walk(episode)

        benchmark.environment = make
        leaky_file("a.txt", lambda _: f"hidden: {spelling(seen[-1])}".encode("latin-1"))(benchmark)

    assert "'a.txt' holds a hidden seed" in findings(spoil)


def test_a_seed_in_an_archive_is_found() -> None:
    seen: list[int] = []

    def spoil(benchmark: Walking) -> None:
        def make(episode: EpisodeSpec) -> Walk:
            seen.append(episode.seed)
            return Walk(episode)

        def artifacts(_: Any, folder: Path) -> list[Artifact]:
            np.savez_compressed(folder / "a.npz", x=np.array([seen[-1]]))
            return [Artifact("a.npz", folder / "a.npz", "application/x-npz")]

        benchmark.environment, benchmark.artifacts = make, artifacts

    assert "'a.npz' holds a hidden seed" in findings(spoil)


class Telling(Walk):
    """Tells its seed in one place, chosen by `where`."""

    where = ""

    def __init__(self, episode: EpisodeSpec) -> None:
        super().__init__(episode)
        self.seed = episode.seed

    def observation(self) -> Any:
        return np.array(
            [self.seed if self.where == "observation" else self.position, self.steps], np.float64
        )

    def step(self, action: Any) -> Transition:
        info = {"hint": float(self.seed)} if self.where == "info" else {}
        return super().step(action)._replace(info=info)

    def measures(self) -> Mapping[str, Value]:
        return {"farthest": self.seed if self.where == "measures" else self.position}


@pytest.mark.parametrize(
    ("where", "finding"),
    [
        ("observation", "the observation holds a hidden seed"),
        ("info", "the info columns hold a hidden seed"),
        ("measures", "the measures hold a hidden seed"),
    ],
)
def test_a_seed_told_to_policy_or_agent_is_found(where: str, finding: str) -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.environment = type("Leak", (Telling,), {"where": where})
        benchmark.spec = replace(GOOD, observation_space=box(-1e19, 1e19, (2,), "float64"))

    assert finding in findings(spoil)


def test_a_seed_in_the_summary_is_found() -> None:
    seen: list[int] = []

    def spoil(benchmark: Walking) -> None:
        def make(episode: EpisodeSpec) -> Walk:
            seen.append(episode.seed)
            return Walk(episode)

        benchmark.environment = make
        benchmark.summarize = lambda _: {"note": json.dumps({"case": seen[-1]})}

    assert "the summary holds a hidden seed" in findings(spoil)


# --- pictures -------------------------------------------------------------------------------------


def test_a_picture_of_an_unknown_episode_is_found() -> None:
    def spoil(benchmark: Walking) -> None:
        benchmark.pictured = lambda _: [99]

    assert "pictured names [99]" in findings(spoil)


def test_a_render_that_raises_is_found() -> None:
    def spoil(benchmark: Walking) -> None:
        def render(_: Any, trace: Path, __: Path) -> Sequence[Artifact]:
            if trace.stem == "corrupt":
                raise ValueError("cannot read")
            return []

        benchmark.render = render

    assert "render raises on a corrupt trace" in findings(spoil)


@pytest.mark.parametrize(("length", "told"), [(9, True), (10, False)])
def test_an_episode_that_was_broken_off_may_score_less_than_a_failed_one(
    length: int, told: bool
) -> None:
    spec = replace(GOOD, failure_score=0.0, measures=())
    benchmark: Any = SimpleNamespace(spec=spec, score=lambda _: -5.0)
    result = EpisodeResult(0, Outcome(0, -5.0, length, "truncated"))
    found = list(_check_outcome(benchmark, result, 10))
    assert [text.split(",")[0] for text in found] == ["a finished Episode scores -5"] * told
