"""Every toy text profile keeps the contract, its texts are true, its Programs run, Blackjack is
told in rounds."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from evopolicy_toy_text import TASKS, load

from evopolicy.authoring import (
    EpisodeResult,
    EpisodeSpec,
    Outcome,
    PolicyFailure,
    check_benchmark,
    load_policy,
    policy_context,
    rollout,
    run_program,
)

REFERENCE = Path(__file__).parent / "reference"


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_profile_keeps_the_contract(task: str) -> None:
    check_benchmark(load(task), render=False, steps=60, deterministic=task == "cliff_walking")


@pytest.mark.parametrize("task", ["blackjack", "taxi", "frozen_lake", "cliff_walking"])
def test_a_replay_is_drawn(task: str, tmp_path: Path) -> None:
    benchmark = load(task)
    episode = EpisodeSpec(4, 3, 1)
    rollout(benchmark, episode, lambda _: 1, trace=tmp_path / "t", steps=2)
    drawn = benchmark.render(episode, tmp_path / "t", tmp_path)
    assert [a.name for a in drawn] == ["replays/0004.gif", "replays/0004.png"]


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_text_names_every_field_and_the_failure_score(task: str) -> None:
    spec = load(task).spec
    assert all(f.meaning for f in (*spec.observation_fields, *spec.action_fields, *spec.measures))
    assert f"scores {spec.failure_score:.0f} in it" in spec.scoring
    assert task == "blackjack" or f"after {spec.max_steps} steps" in spec.ending


@pytest.mark.parametrize("task", sorted(TASKS))
def test_fields_have_the_ranges_of_the_space(task: str) -> None:
    spec = load(task).spec
    (action,) = spec.action_fields
    space: Any = spec.action_space
    assert (action.low, action.high) == (0, space.n - 1)
    if task != "blackjack":
        (field,) = spec.observation_fields
        whole: Any = spec.observation_space
        assert (field.low, field.high) == (0, whole.n - 1)


@pytest.mark.parametrize("task", sorted(set(TASKS) - {"blackjack"}))
def test_moves_are_those_the_text_names(task: str) -> None:
    """By the simulator's own table: an Action leads where its name says, or aside, never the other
    way."""
    benchmark = load(task)
    env = benchmark.open()
    table, width = (
        env.unwrapped.P,
        {"taxi": 5, "frozen_lake": 4, "frozen_lake_8x8": 8}.get(task, 12),
    )
    scale = 20 if task == "taxi" else 1
    start = ((2 if task == "taxi" else 1) * width + 2) * scale
    where = {"left": -scale, "right": scale, "up": -width * scale, "down": width * scale}
    text = benchmark.spec.action_fields[0].meaning.rstrip(".")
    for part in text.split(", "):
        number, _, name = part.partition(" ")
        if name in where:
            ends = [int(after) for _, after, _, _ in table[start][int(number)]]
            assert start + where[name] in ends
            assert start - where[name] not in ends
    env.close()


@pytest.mark.parametrize("task", ["frozen_lake", "frozen_lake_8x8", "cliff_walking_slippery"])
def test_slippery_ground_is_as_likely_as_the_text_says(task: str) -> None:
    env = load(task).open()
    assert [p for p, *_ in env.unwrapped.P[0][1]] == pytest.approx([1 / 3] * 3)
    env.close()


@pytest.mark.parametrize("task", sorted(set(TASKS) - {"blackjack"}))
def test_no_episode_can_score_less_than_a_failure(task: str) -> None:
    benchmark = load(task)
    env = benchmark.open()
    least = min(
        r for moves in env.unwrapped.P.values() for ends in moves.values() for _, _, r, _ in ends
    )
    env.close()
    assert least * benchmark.spec.max_steps >= benchmark.spec.failure_score


# --- measures -------------------------------------------------------------------------------------


def test_taxi_counts_penalties_and_says_when_the_passenger_got_in() -> None:
    benchmark = load("taxi")
    wrong = rollout(benchmark, EpisodeSpec(0, 1, 1), lambda _: 5, steps=7)
    assert wrong.measures["penalties"] == 7
    assert wrong.measures["picked_up_step"] is None
    done = run_program(benchmark, REFERENCE / "taxi", EpisodeSpec(0, 1, 1))
    assert done.measures["delivered"] is True
    assert 0 < done.measures["picked_up_step"] < done.measures["steps_to_deliver"] == done.length  # type: ignore[operator]


def test_the_cliff_is_counted_and_leads_back_to_the_start() -> None:
    outcome = rollout(load("cliff_walking"), EpisodeSpec(0, 1, 1), lambda _: 1, steps=5)
    assert outcome.measures["falls"] == 5
    assert outcome.measures["reached_goal"] is False
    assert outcome.episode_return == -500


def test_the_lake_says_where_it_ended() -> None:
    outcome = rollout(load("frozen_lake"), EpisodeSpec(0, 1, 1), lambda _: 1)
    assert outcome.measures["fell"] != outcome.measures["reached_goal"]
    row, column = map(int, str(outcome.measures["final_field"]).split(","))
    letter = ("SFFF", "FHFH", "FFFH", "HFFG")[row][column]
    assert letter == ("H" if outcome.measures["fell"] else "G")


# --- Blackjack ------------------------------------------------------------------------------------


def rounds(count: int, act: Any) -> list[Outcome]:
    benchmark = load("blackjack")
    return [rollout(benchmark, EpisodeSpec(i, 1_000 + i, i), act) for i in range(count)]


def value(card: str) -> int:
    return 1 if card == "A" else int(card)


def test_hands_explain_the_score() -> None:
    seen = set()
    for outcome in rounds(200, lambda hand: int(hand[0] < 17)):
        told = dict(outcome.measures)
        cards = [value(card) for card in str(told["player_hand"]).split()]
        total = sum(cards) + (10 if 1 in cards and sum(cards) <= 11 else 0)
        assert total == told["player_sum_at_end"]
        assert len(cards) == 2 + str(told["decisions"]).split().count("hit")
        assert told["natural"] == (sorted(cards[:2]) == [1, 10])
        result = str(told["result"])
        assert outcome.episode_return == {"win": 1, "draw": 0, "loss": -1, "bust": -1}[result]
        seen.add(result)
        if result == "bust":
            assert total > 21
            assert told["dealer_sum"] is None
            assert len(str(told["dealer_hand"]).split()) == 1, (
                "the dealer's other card was never uncovered"
            )
        else:
            assert told["dealer_sum"] >= 17  # type: ignore[operator]
            assert len(str(told["dealer_hand"]).split()) >= 2
    assert seen == {"win", "draw", "loss", "bust"}


def test_the_summary_is_in_rounds_and_not_in_steps() -> None:
    outcomes = rounds(60, lambda hand: int(hand[0] < 15))
    summary: Any = load("blackjack").summarize(outcomes)
    assert summary["rounds"] == sum(summary["results"].values()) == 60
    assert sum(group["rounds"] for group in summary["by_dealer_card"].values()) == 60
    stuck = sum(group["rounds"] for group in summary["by_sum_stuck_at"].values())
    assert stuck == 60 - summary["results"]["bust"]
    assert all(int(total) >= 15 for total in summary["by_sum_stuck_at"])
    assert not {"length", "endings"} & set(summary)
    mean = (
        sum(group["mean_score"] * group["rounds"] for group in summary["by_dealer_card"].values())
        / 60
    )
    assert mean == pytest.approx(sum(outcome.episode_return for outcome in outcomes) / 60)


def test_the_table_has_one_line_per_round(tmp_path: Path) -> None:
    benchmark = load("blackjack")
    outcomes = rounds(12, lambda hand: int(hand[0] < 17))
    failure = PolicyFailure("exception", "ValueError: no idea", step=0)
    failed = Outcome(
        12, 0.0, 0, "failed", failure, {"result": "open", "player_hand": "4 5", "dealer_hand": "A"}
    )
    results = [EpisodeResult(o.index, o) for o in (*outcomes, failed)]
    files = {a.name: a.path for a in benchmark.artifacts(results, tmp_path)}
    lines = list(csv.DictReader(files["rounds.csv"].read_text().splitlines()))
    assert [line["round"] for line in lines] == [str(i) for i in range(13)]
    assert [float(line["score"]) for line in lines[:12]] == [o.episode_return for o in outcomes]
    assert (lines[12]["result"], lines[12]["score"]) == ("failed", "")
    explained = [
        column["name"] for column in json.loads(files["rounds.json"].read_text())["columns"]
    ]
    assert explained == list(lines[0])


def test_no_hand_lasts_as_long_as_the_limit() -> None:
    """Twenty-one aces are the longest hand that does not exceed 21; the next card ends it."""
    hits_of_the_longest_hand = 21 - 2
    assert load("blackjack").spec.max_steps > hits_of_the_longest_hand + 1


# --- Programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["blackjack", "frozen_lake"])
def test_parameters_are_a_flat_object_of_numbers(task: str) -> None:
    parameters = json.loads((load(task).programs["parametric"] / "params.json").read_text())
    assert all(type(number) is float for number in parameters.values())


SOLVED = {
    "blackjack": (400, -0.1),
    "taxi": (32, 7.0),
    "frozen_lake": (100, 0.65),
    "frozen_lake_8x8": (60, 0.8),
    "cliff_walking": (1, -13.0),
    "cliff_walking_slippery": (16, -120.0),
}
"""Episodes and the mean score the reference Program reaches on them; the first Programs stay below
it."""


@pytest.mark.parametrize("task", sorted(SOLVED))
def test_the_task_can_be_solved_through_the_abi(task: str) -> None:
    count, enough = SOLVED[task]
    assert mean_return(task, REFERENCE / task.removesuffix("_8x8"), count) >= enough


@pytest.mark.parametrize("task", sorted(SOLVED))
def test_the_first_programs_are_weak(task: str) -> None:
    benchmark = load(task)
    for name in benchmark.programs:
        assert (
            mean_return(task, benchmark.programs[name], min(SOLVED[task][0], 60)) < SOLVED[task][1]
        )


def mean_return(task: str, program: Path, count: int) -> float:
    """With one Policy for all Episodes where it keeps nothing: planning anew each time would be
    slow."""
    benchmark = load(task)
    episodes = [EpisodeSpec(i, 500 + i, i) for i in range(count)]
    if program.parent != REFERENCE or task.startswith("frozen_lake"):
        return (
            math.fsum(
                run_program(benchmark, program, episode).episode_return for episode in episodes
            )
            / count
        )
    policy = load_policy(program, policy_context(benchmark, episodes[0]))
    return (
        math.fsum(rollout(benchmark, episode, policy.act).episode_return for episode in episodes)
        / count
    )
