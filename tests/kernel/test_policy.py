"""The Policy ABI: both forms behind two plain calls, and what is said of a Program that has
neither."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evopolicy.kernel.policy import PolicyContext, bind
from evopolicy.kernel.spaces import Discrete, box

CONTEXT = PolicyContext(box(0, 1, (2,)), Discrete(3), {"gravity": 9.8}, seed=7, max_steps=50)


class Acts:
    def __init__(self) -> None:
        self.resets: list[tuple[Any, ...]] = []

    def reset(self, *arguments: Any) -> None:
        self.resets.append(arguments)

    def act(self, observation: Any) -> Any:
        return observation


class Papers(Acts):
    def __init__(self, obs_space: Any, action_space: Any, env_meta: Any) -> None:
        super().__init__()
        self.given = (obs_space, action_space, env_meta)


def test_make_policy_gets_the_context_and_reset_gets_nothing() -> None:
    made: list[Any] = []
    policy = Acts()
    bound = bind(
        SimpleNamespace(make_policy=lambda context: made.append(context) or policy), CONTEXT
    )
    bound.reset()
    assert (made, policy.resets, bound.act(5)) == ([CONTEXT], [()], 5)


def test_the_papers_form_gets_spaces_meta_and_always_episode_zero() -> None:
    kept: list[Papers] = []

    class Policy(Papers):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            kept.append(self)

    bound = bind(SimpleNamespace(Policy=Policy), CONTEXT)
    bound.reset()
    (policy,) = kept
    assert policy.resets == [(0,)]
    assert policy.given[:2] == (CONTEXT.observation_space, CONTEXT.action_space)
    assert policy.given[2] == {"parameters": {"gravity": 9.8}, "seed": 7, "max_steps": 50}


def test_reset_is_optional_and_make_policy_comes_first() -> None:
    only_act = SimpleNamespace(act=lambda observation: observation)
    bound = bind(SimpleNamespace(make_policy=lambda _: only_act, Policy=Papers), CONTEXT)
    bound.reset()
    assert bound.act(1) == 1


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (SimpleNamespace(), r"policy\.py has neither make_policy\(context\) nor class Policy"),
        (SimpleNamespace(make_policy=5), "has neither"),
        (
            SimpleNamespace(make_policy=lambda _: None),
            r"the object make_policy returned has no method act\(observation\)",
        ),
        (
            SimpleNamespace(Policy=lambda *_: object()),
            r"class Policy has no method act\(observation\)",
        ),
    ],
)
def test_a_program_without_a_policy_is_told_what_is_missing(module: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        bind(module, CONTEXT)
