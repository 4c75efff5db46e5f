"""One Episode of a Gymnasium Environment: seeds, columns, measures, faults, truncation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from evopolicy.authoring import (
    BenchmarkReference,
    Column,
    EpisodeSpec,
    ExecutionError,
    Field,
    GymnasiumBenchmark,
    Measure,
    Profile,
    rollout,
)
from evopolicy.authoring.environment import _numbers
from evopolicy.authoring.spaces import own_action, space_from_gymnasium
from evopolicy.kernel.spaces import cast_action

MEASURES = (
    Measure("moved", "m", of="place", how="change"),
    Measure("farthest", "m", of="place", how="max_abs"),
    Measure("mean_double", "m", of="double", how="mean"),
    Measure("final_position", "m", of="position", how="last"),
    Measure("total", of="reward", how="sum"),
    Measure("ended", how=lambda episode: "end" if episode.terminated else "time"),
    Measure("not_there", of="missing", how="mean"),
    Measure("infinite", how=lambda _: float("inf")),
)
COLUMNS = (
    Column("place", "m"),
    Column("again", "m", read="place"),
    Column("double", "m", read=lambda observation, _: 2 * observation[0]),
    Column("pushed", read=lambda _, action: action[0]),
    Column("missing"),
)


def toy(profile: dict[str, Any] | None = None, **options: Any) -> GymnasiumBenchmark:
    fields: dict[str, Any] = {
        "slug": "toy",
        "id": "test/Toy-v0",
        "env_id": "evopolicy-test/Toy-v0",
        "title": "Toy",
        "goal": "Go right.",
        "scoring": "Sum of positions.",
        "ending": "Beyond the end.",
        "failure_score": -200.0,
        "observation_fields": (Field("position", "m"), Field("steps")),
        "action_fields": (Field("move", "m", -1, 1),),
        "columns": COLUMNS,
        "measures": MEASURES,
        **(profile or {}),
    }
    return GymnasiumBenchmark(Profile(**fields), BenchmarkReference("nowhere:load"), **options)


def constantly(x: float) -> Callable[[Any], Any]:
    return lambda _: [x]


def test_measures_are_aggregates_of_columns_fields_and_functions() -> None:
    environment = toy().make(EpisodeSpec(0, 4, 9))
    start = float(environment.reset()[0])
    steps = [environment.step(np.array([0.5], np.float32)) for _ in range(3)]
    measures = environment.measures()
    assert measures["moved"] == pytest.approx(1.5)
    assert measures["farthest"] == pytest.approx(max(abs(s.observation[0]) for s in steps))
    assert measures["mean_double"] == pytest.approx(2 * (start + 1.0), rel=1e-5)
    assert measures["final_position"] == pytest.approx(start + 1.5, rel=1e-5)
    assert measures["total"] == pytest.approx(sum(s.reward for s in steps))
    assert measures["ended"] == "time"


def test_fields_of_a_structured_observation_are_measured_as_those_of_an_array() -> None:
    fields = (Field("count"), Field("position", "m"), Field("steps"))
    measures = (
        Measure("moved", "m", of="position", how="change"),
        Measure("counted", of="count", how="max"),
    )
    environment = toy(
        {
            "kwargs": {"kind": "dict"},
            "observation_fields": fields,
            "columns": (),
            "measures": measures,
        }
    )
    episode = environment.make(EpisodeSpec(0, 4, 9))
    episode.reset()
    for _ in range(3):
        episode.step(np.array([0.5], np.float32))
    assert episode.measures() == {"moved": pytest.approx(1.5, rel=1e-5), "counted": 3}


def test_what_has_no_finite_value_is_none() -> None:
    environment = toy().make(EpisodeSpec(0, 4, 9))
    environment.reset()
    assert environment.measures()["moved"] is None
    environment.step(np.array([0.5], np.float32))
    measures = environment.measures()
    assert measures["not_there"] is None
    assert measures["infinite"] is None


def test_steps_report_the_columns_that_are_there_as_plain_numbers() -> None:
    environment = toy().make(EpisodeSpec(0, 4, 9))
    environment.reset()
    info = environment.step(np.array([0.25], np.float32)).info
    assert set(info) == {"place", "again", "double", "pushed"}
    assert info["pushed"] == 0.25
    assert all(type(value) is float for value in info.values())


def test_all_info_adds_every_finite_number_and_no_text() -> None:
    environment = toy({"columns": (), "measures": (), "all_info": True}).make(EpisodeSpec(0, 4, 9))
    environment.reset()
    assert set(environment.step(np.array([0.25], np.float32)).info) == {"place", "twice"}


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_is_a_fault_of_the_environment(reward: float) -> None:
    environment = toy({"kwargs": {"reward": reward}}).make(EpisodeSpec(0, 4, 9))
    environment.reset()
    with pytest.raises(ExecutionError, match="reward"):
        environment.step(np.array([0.0], np.float32))


def test_the_seed_alone_makes_the_episode() -> None:
    benchmark = toy()
    starts = {
        seed: [float(benchmark.make(EpisodeSpec(i, seed, i)).reset()[0]) for i in range(2)]
        for seed in (0, 2**62)
    }
    assert starts[0][0] == starts[0][1]
    assert starts[0][0] != starts[2**62][0]


def test_each_part_of_an_environment_has_a_seed_of_its_own() -> None:
    benchmark, seeds = toy(), {}
    env = benchmark.open()
    for name in ("action_space", "observation_space"):
        getattr(env, name).seed = lambda seed, name=name: seeds.update({name: seed})
    benchmark.wrap(env, EpisodeSpec(0, 4, 9)).reset()
    assert seeds == {"action_space": 5, "observation_space": 6}


def test_of_a_steps_info_so_many_numbers_are_kept_and_none_that_no_record_holds() -> None:
    assert len(_numbers({f"n{place}": place for place in range(40)}, ())) == 32
    told = {"seed": 7, "as_float": np.float32(7), "policy": 9, "other": 8}
    assert _numbers(told, (), frozenset({7, 9})) == {"other": 8}, (
        "an Environment that tells its seed told the agent"
    )
    assert _numbers({"most": 2**63 - 1, "more": 2**63, "less": -(2**63), "large": 1e300}, ()) == {
        "most": 2**63 - 1
    }


def test_the_limit_of_the_id_truncates() -> None:
    outcome = rollout(toy(), EpisodeSpec(0, 4, 9), constantly(0.0))
    assert (outcome.length, outcome.ending) == (50, "truncated")


def test_max_steps_truncates_and_is_a_public_parameter() -> None:
    benchmark = toy(max_steps=7)
    assert benchmark.spec.max_steps == 7
    assert benchmark.spec.parameters["max_steps"] == 7
    assert rollout(benchmark, EpisodeSpec(0, 4, 9), constantly(0.0)).length == 7


def test_a_profiles_own_limit_is_needed_where_the_id_has_none() -> None:
    endless = {"env_id": "evopolicy-test/Endless-v0"}
    with pytest.raises(Exception, match="no step limit"):
        _ = toy(endless).spec
    assert toy({**endless, "max_steps": 9}).spec.max_steps == 9


def test_an_action_out_of_bounds_is_invalid_unless_the_parameter_clips() -> None:
    with pytest.raises(Exception, match="outside"):
        rollout(toy(), EpisodeSpec(0, 4, 9), constantly(1.5))
    outcome = rollout(toy(out_of_bounds="clip"), EpisodeSpec(0, 4, 9), constantly(1.5))
    assert outcome.clipped == outcome.length > 0


def test_fields_that_do_not_fit_the_space_are_refused() -> None:
    with pytest.raises(Exception, match=r"1 observation fields.*2 numbers"):
        _ = toy({"observation_fields": (Field("position"),)}).spec


@pytest.mark.parametrize("name", ["position", "move", "reward"])
def test_a_column_called_like_a_field_is_refused(name: str) -> None:
    with pytest.raises(Exception, match=f"two columns are called '{name}'"):
        _ = toy({"columns": (*COLUMNS, Column(name, read="place"))}).spec


def test_a_measure_of_nothing_is_refused_with_the_near_name() -> None:
    with pytest.raises(Exception, match=r"of 'positon'\. Did you mean 'position'"):
        _ = toy({"measures": (Measure("m", of="positon"),)}).spec


def test_an_info_entry_called_like_a_field_is_told_apart() -> None:
    fields = (Field("twice", "m"), Field("steps"))
    benchmark = toy({"columns": (), "measures": (), "all_info": True, "observation_fields": fields})
    environment = benchmark.make(EpisodeSpec(0, 4, 9))
    environment.reset()
    assert set(environment.step(np.array([0.25], np.float32)).info) == {"place", "info_twice"}


def test_an_environment_is_given_actions_it_knows_as_its_own() -> None:
    """A MultiDiscrete of int32 was given int64, which its own `contains` refuses."""
    small = spaces.MultiDiscrete([2, 3], dtype=np.int32)
    for space in (
        small,
        spaces.Dict({"a": small, "b": spaces.Discrete(2)}),
        spaces.Tuple((spaces.Discrete(2), small)),
    ):
        change = own_action(space)
        plain, _ = cast_action(space_from_gymnasium(space), space_from_gymnasium(space).sample())
        assert change is not None and space.contains(change(plain)) and not space.contains(plain)
    assert own_action(spaces.MultiDiscrete([2, 3])) is None


def test_pictures_may_be_asked_of_an_environment_for_the_policy() -> None:
    env = toy(
        {"observation_fields": (), "measures": ()}, kwargs={"render_mode": "rgb_array"}
    ).open()
    assert env.unwrapped.render_mode == "rgb_array"


@pytest.mark.parametrize(
    "given", [("x",) * 5, (np.zeros(2), None, False, False, {}), (np.zeros(2), 0.0, False, {})]
)
def test_what_a_step_gives_that_cannot_be_read_is_the_environments_fault(given: Any) -> None:
    """And no exception of the step, which an Action could be to blame for."""
    benchmark = toy()
    env = benchmark.open()
    environment = benchmark.wrap(env, EpisodeSpec(0, 1, 2))
    environment.reset()
    env.step = lambda _: given
    with pytest.raises(ExecutionError, match="the Environment gave what cannot be read"):
        environment.step(np.zeros(1, np.float32))


def test_unnamed_fields_are_numbered() -> None:
    spec = toy({"observation_fields": (), "action_fields": (), "measures": ()}).spec
    assert [f.name for f in spec.observation_fields] == ["observation_0", "observation_1"]
    assert [f.name for f in spec.action_fields] == ["action"]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"out_of_bounds": "wrap"}, "out_of_bounds"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": True}, "max_steps"),
        ({"kwargs": {"render_mode": "human"}}, "render_mode"),
    ],
)
def test_options_no_task_can_have_are_refused_by_key(options: dict[str, Any], key: str) -> None:
    with pytest.raises(Exception, match=f"benchmark.*{key}"):
        toy(**options)
