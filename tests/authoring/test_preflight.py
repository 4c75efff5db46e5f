"""What is found out about any Gymnasium id before anything is spent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from evopolicy.authoring import BenchmarkError, ConfigError
from evopolicy.authoring.gymnasium import load, load_in_subprocess
from evopolicy.authoring.preflight import look
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.session.failures import INEXACT, SAME_EPISODES, SEED_SHOWN
from evopolicy.kernel.spaces import to_value

ID = "evopolicy-test/Odd-v0"


class Odd(gymnasium.Env[Any, Any]):
    """Ends after four steps of reward 1; does one thing otherwise than it should."""

    made = 0

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        Odd.made += 1
        if trouble == "reseeding":
            np.random.seed(3)  # the same alone; with 1 and 2 workers Episodes met others
        if trouble == "int keys":
            self.observation_space = spaces.Dict({1: spaces.Discrete(2)})  # type: ignore[dict-item]
        if trouble == "bytes":
            self.observation_space = spaces.Box(0, 255, (2,), np.uint8)
        if trouble in ("seed", "seed in words", "number"):
            told = (
                spaces.Text(40)
                if trouble == "seed in words"
                else spaces.Box(0, np.inf, (3,), np.float64)
            )
            self.observation_space = spaces.Dict(
                {"at": spaces.Discrete(2), "more": spaces.Tuple([told])}
            )
        if trouble == "choice":
            self.observation_space = spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed, options=options)
        self.steps = 0
        self.seed = seed
        if self.trouble == "no file":
            raise FileNotFoundError(2, "No such file or directory", "levels.bin")
        if self.trouble == "wordless":
            raise AssertionError
        if self.trouble == "old reset":
            return self._observation()
        return self._observation(), {}

    def _observation(self) -> Any:
        odd: dict[str, Any] = {
            "shape": np.zeros(3, np.float32),
            "nan": np.full(2, np.nan, np.float32),
            "bytes": np.array([300, 0]),
            "choice": 77,
            "words": "left",
            "outside": np.full(2, 1.5, np.float32),
            "global": np.random.random(2),
            "seed": {"at": 0, "more": (np.array([0.5, self.seed, 2.0]),)},
            "seed in words": {"at": 0, "more": (f"level{self.seed}",)},
            "number": {"at": 0, "more": (np.array([24_071.0, 24_070.0, (self.seed or 0) % 7]),)},
        }
        return odd.get(self.trouble, np.zeros(2, np.float64))

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.trouble == "old step":
            return self._observation(), 1.0, self.steps == 4, {}
        if self.trouble == "broken" or (self.trouble == "choosy" and action == 2):
            raise KeyError("no such move")
        rewards: dict[str, Any] = {
            "none": None,
            "vector": np.ones(2),
            "infinite": float("inf"),
            "word": "one",
            "dear": -300.0,
            "restless": np.random.random(),
            "reseeding": np.random.random(),
            "chance": self.np_random.random(),
            "rounding": 1 + 1e-15 * self.made,
        }
        ended: Any = np.zeros(2, bool) if self.trouble == "ends" else self.steps == 4
        info: Any = None if self.trouble == "info" else {}
        return self._observation(), rewards.get(self.trouble, 1.0), ended, False, info

    def close(self) -> None:
        if self.trouble == "close":
            raise RuntimeError("already closed")


class OldReset(Odd):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


@pytest.fixture(scope="module", autouse=True)
def _odd() -> Iterator[None]:
    gymnasium.register(ID, entry_point=cast(Any, Odd), max_episode_steps=20)
    gymnasium.register(
        "evopolicy-test/OldReset-v0", entry_point=cast(Any, OldReset), max_episode_steps=20
    )
    yield
    gymnasium.registry.pop(ID)
    gymnasium.registry.pop("evopolicy-test/OldReset-v0")


def looked(trouble: str = "", failure_score: float = -5.0, **options: Any) -> dict[str, Any]:
    kwargs = {"trouble": trouble} if trouble else {}
    return look(
        lambda *_, **__: None, env_id=ID, failure_score=failure_score, kwargs=kwargs, **options
    )


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (
            "no file",
            "reset raised FileNotFoundError: [Errno 2] No such file or directory: 'levels.bin'",
        ),
        (
            "old reset",
            "reset gave an array of float64 (2,); Gymnasium's API since 0.26 is (observation, "
            "info)",
        ),
        (
            "old step",
            "step gave a tuple of 4; Gymnasium's API since 0.26 is (observation, reward, "
            "terminated,",
        ),
        ("broken", "step raised KeyError: 'no such move'"),
        ("wordless", "reset raised AssertionError: `raise AssertionError` in test_preflight.py"),
        ("none", "step 1 gave None as reward; one number is needed"),
        ("vector", "step 1 gave an array of float64 (2,) as reward; one number is needed"),
        ("word", "step 1 gave str 'one' as reward; one number is needed"),
        ("infinite", "step 1 gave the reward inf; rewards are finite numbers"),
        ("ends", "step gave an array of bool (2,) as terminated; True or False is needed"),
        ("info", "step gave None as info; a dict is needed"),
        ("shape", "expected an array of float32 (2,), found float32 (3,)"),
        ("nan", "the observation of reset is not a member of the observation space: it holds NaN"),
        ("bytes", "array([300,   0]): an array of int64 changes when it is cast to uint8"),
        ("choice", "expected an int from 0 to 4, found 77"),
        ("words", "expected numbers, found str 'left'"),
        (
            "global",
            "the same seed and Actions gave another observation in reset, with another Episode "
            "beside it: it",
        ),
        (
            "restless",
            "the same seed and Actions gave another reward in step 1, with another Episode beside "
            "it: it draws",
        ),
        (
            "reseeding",
            "the same seed and Actions gave another reward in step 1, with another Episode beside "
            "it: it",
        ),
    ],
)
def test_what_could_not_be_measured_is_refused_before_anything_is_spent(
    trouble: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)) as error:
        looked(trouble)
    assert str(error.value).startswith(f"benchmark.env_id '{ID}': ")
    assert "\n" not in str(error.value)


def test_a_reset_without_a_seed_is_named_as_the_old_api() -> None:
    with pytest.raises(
        ConfigError, match=r"reset raised TypeError.*; Gymnasium's API since 0.26 is reset\(seed="
    ):
        look(lambda *_, **__: None, env_id="evopolicy-test/OldReset-v0", failure_score=0)


def test_keys_that_are_no_text_are_named() -> None:
    with pytest.raises(BenchmarkError, match="observation: the key 1 of a Dict is not a str"):
        looked("int keys")


def test_a_failure_that_would_pay_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"benchmark.failure_score is -5, and a finished Episode .* scored -1200"
    ):
        looked("dear")
    assert looked("dear", failure_score=-1200)
    with pytest.raises(ConfigError, match="scored -600: failing would pay"):
        looked("dear", max_steps=2)


def test_a_task_of_which_every_episode_is_the_same_is_remarked_in_its_runs() -> None:
    assert load_in_subprocess(lambda *_: looked(), ID, -5.0).spec.remarks == (SAME_EPISODES,)
    assert load_in_subprocess(lambda *_: looked("chance"), ID, -5.0).spec.remarks == ()


@pytest.mark.parametrize(
    ("trouble", "remarks"),
    [("seed", [SEED_SHOWN]), ("seed in words", [SEED_SHOWN]), ("number", [])],
)
def test_a_task_whose_observations_show_their_hidden_seed_is_remarked(
    trouble: str, remarks: list[str]
) -> None:
    """A Policy that knows it tells the Episodes it was tuned on from others."""
    assert looked(trouble)["remarks"] == remarks


def test_a_simulator_that_repeats_itself_but_for_rounding_is_remarked_not_refused() -> None:
    """gym-xarm: two resets of one seed differ by 2e-16."""
    assert looked("rounding")["remarks"] == [INEXACT]


def test_an_action_that_makes_it_raise_is_the_policys_trouble_where_the_initial_program_passes() -> (
    None
):
    assert looked("choosy")


@pytest.mark.parametrize("trouble", ["", "close"])
def test_what_works_is_told_as_plain_values(trouble: str) -> None:
    seen = looked(trouble)
    assert (seen["action"], seen["max_steps"], seen["note"]) == (
        {"type": "discrete", "n": 3, "start": 0},
        20,
        "",
    )


def test_floats_outside_their_bounds_are_told_to_the_engineer() -> None:
    spec = load_in_subprocess(lambda *_: looked("outside"), ID, -5.0).spec
    assert spec.observation_text == "Some numbers lie outside these bounds: 1.5 was seen."


def test_the_host_makes_of_plain_values_what_a_worker_makes_itself() -> None:
    options: dict[str, Any] = {"env_id": ID, "failure_score": -5.0, "max_steps": 9, "seed_bits": 31}
    asked: list[str] = []

    def ask(function: str, arguments: Any) -> Any:
        asked.append(function)
        answer: Any = json.loads(json.dumps(look(lambda *_, **__: None, **arguments)))
        return answer

    host, worker = load_in_subprocess(ask, **options), load(**options)
    assert asked == ["evopolicy.authoring.preflight:look"]
    for space in ("observation_space", "action_space"):
        assert to_value(getattr(host.spec, space)) == to_value(getattr(worker.spec, space))
    same: dict[str, Any] = {"observation_space": worker.spec.observation_space, "remarks": ()}
    assert replace(host.spec, **same) == worker.spec
    assert host.reference == worker.reference


def test_an_end_of_the_process_apart_names_the_id() -> None:
    def die(*_: Any) -> Any:
        raise ExecutionError("its process ended with exit code 7 while it was made")

    with pytest.raises(
        ConfigError, match="'A-v0' cannot be looked at: its process ended with exit"
    ):
        load_in_subprocess(die, "A-v0", 0)
