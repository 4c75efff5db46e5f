"""Blackjack: one Episode is one round, and its Feedback is told in rounds and hands."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evopolicy.authoring import (
    Artifact,
    Environment,
    Episode,
    EpisodeResult,
    EpisodeSpec,
    Field,
    GymnasiumBenchmark,
    GymnasiumEnvironment,
    Measure,
    Outcome,
    Profile,
    Transition,
    Value,
    failure_counts,
)

_RESULTS = {1.0: "win", 0.0: "draw", -1.0: "loss"}


def _told_by_the_table(_: Episode) -> Value:
    """Placeholder of the measures `BlackjackEnvironment` fills in."""
    return None


def _measure(name: str, unit: str, meaning: str) -> Measure:
    return Measure(name, unit, meaning, how=_told_by_the_table)


BLACKJACK = Profile(
    slug="blackjack",
    id="toy_text/Blackjack-v1",
    env_id="Blackjack-v1",
    title="Blackjack",
    goal=(
        "Win rounds of Blackjack against a dealer: end with a hand that counts more than the "
        "dealer's and not more than 21. An Episode is one round.\n\n"
        "Two cards are dealt to the player and two to the dealer, one of the dealer's face up. As "
        "long as the player hits, it is dealt one more card; when it sticks, the dealer uncovers "
        "the other card and draws until its hand counts 17 or more. Number cards count their "
        "number, jack, queen and king 10, an ace 11 where the hand does not exceed 21 by it (a "
        "usable ace), else 1. Cards are drawn from an endless deck: ace to 9 come with "
        "probability 1/13 each, a card of 10 with 4/13, whatever was drawn before."
    ),
    scoring=(
        "A round gives 1 for a win, 0 for a draw, -1 for a loss, and that is the Episode's score. "
        "A hand above 21 loses at once; a dealer's hand above 21 loses against any other. "
        "Otherwise the higher hand wins, and equal ones draw. A player who sticks with an ace and "
        "a 10 as dealt (a natural) wins unless the dealer has a natural too. A Policy that fails "
        "in a round scores -1 in it, as much as one that loses it."
    ),
    ending="**Terminated** when the player sticks or its hand exceeds 21. Never truncated: no "
    "hand takes 21 hits.",
    failure_score=-1.0,
    observation_fields=(
        Field(
            "player_sum",
            "",
            0,
            31,
            "What the player's hand counts, its usable ace included; 4 to 21 in play.",
        ),
        Field("dealer_card", "", 1, 10, "The dealer's open card, 1 for an ace."),
        Field("usable_ace", "", 0, 1, "1 where the hand has an ace that counts 11."),
    ),
    observation_text="A tuple of three integers.",
    action_fields=(Field("decision", "", 0, 1, "0 stick, 1 hit."),),
    measures=(
        _measure(
            "result",
            "",
            "'win', 'draw', 'loss' (by the dealer's hand), 'bust' (by the player's own), 'open'.",
        ),
        _measure(
            "player_hand", "", "The player's cards in the order they were dealt, A for an ace."
        ),
        _measure("decisions", "", "What the player did, in order: hit or stick."),
        _measure("player_sum_at_end", "", "What the player's hand counts at the end."),
        _measure("natural", "", "Whether an ace and a 10 were dealt at the start."),
        _measure(
            "dealer_hand",
            "",
            "The dealer's cards; the open one alone where the player never stuck.",
        ),
        _measure(
            "dealer_sum", "", "What the dealer's hand counts; none where the player never stuck."
        ),
    ),
    max_steps=21,
)


class BlackjackEnvironment(GymnasiumEnvironment):
    """A round that remembers its decisions and tells, at its end, both hands."""

    def __init__(self, env: Any, benchmark: GymnasiumBenchmark, episode: EpisodeSpec) -> None:
        super().__init__(env, benchmark.profile, benchmark.spec, episode)
        self._table = env.unwrapped
        self._decisions: list[str] = []
        self._reward = 0.0

    def step(self, action: Any) -> Transition:
        transition = super().step(action)
        self._decisions.append("hit" if action else "stick")
        self._reward = transition.reward
        return transition

    def measures(self) -> Mapping[str, Value]:
        player, dealer = list(self._table.player), list(self._table.dealer)
        stuck = self._decisions[-1:] == ["stick"]
        total = _count(player)
        result = _RESULTS.get(self._reward, "win") if stuck else "bust" if total > 21 else "open"
        return {
            "result": result,
            "player_hand": _cards(player),
            "decisions": " ".join(self._decisions),
            "player_sum_at_end": total,
            "natural": sorted(player[:2]) == [1, 10],
            "dealer_hand": _cards(dealer if stuck else dealer[:1]),
            "dealer_sum": _count(dealer) if stuck else None,
        }


class BlackjackBenchmark(GymnasiumBenchmark):
    """Summary and files in rounds and hands, where other tasks have steps."""

    def wrap(self, env: Any, episode: EpisodeSpec) -> Environment:
        return BlackjackEnvironment(env, self, episode)

    def summarize(self, outcomes: Sequence[Outcome]) -> Mapping[str, Value]:
        """Rounds by result; the mean score by the dealer's open card and by what the player stuck
        at."""
        if not outcomes:
            return {"rounds": 0}
        played = [outcome for outcome in outcomes if outcome.ending != "failed"]
        results = Counter(str(outcome.measures.get("result")) for outcome in played)
        stuck = [outcome for outcome in played if outcome.measures.get("dealer_sum") is not None]
        return {
            "rounds": len(outcomes),
            "results": {name: results[name] for name in ("win", "draw", "loss", "bust")},
            "naturals": sum(bool(outcome.measures.get("natural")) for outcome in played),
            "hits_per_round": statistics.fmean(_hits(outcome) for outcome in played)
            if played
            else None,
            "by_dealer_card": _by(
                played, lambda o: str(o.measures.get("dealer_hand", "")).partition(" ")[0]
            ),
            "by_sum_stuck_at": _by(stuck, lambda o: str(o.measures["player_sum_at_end"])),
            "failures": dict(failure_counts(outcomes)),
        }

    def artifacts(self, results: Sequence[EpisodeResult], folder: Path) -> Sequence[Artifact]:
        """`rounds.csv`, a line per round, and `rounds.json`, which explains its columns."""
        rows = [_row(result.outcome) for result in results if result.outcome is not None]
        if not rows:
            return []
        text = io.StringIO()
        writer = csv.DictWriter(
            text, ["round", "score", *(f.name for f in self.spec.measures)], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(rows)
        table, about = folder / "rounds.csv", folder / "rounds.json"
        table.write_text(text.getvalue(), encoding="utf-8")
        columns = [
            Field("round", meaning="Index of the Episode."),
            Field("score", meaning="1, 0 or -1."),
        ]
        explained = [
            {"name": f.name, "meaning": f.meaning} for f in (*columns, *self.spec.measures)
        ]
        about.write_text(json.dumps({"columns": explained}, indent=1) + "\n", encoding="utf-8")
        return [
            Artifact("rounds.csv", table, "text/csv"),
            Artifact("rounds.json", about, "application/json"),
        ]


def _row(outcome: Outcome) -> dict[str, Value]:
    if outcome.ending == "failed":
        return {"round": outcome.index, **outcome.measures, "score": "", "result": "failed"}
    cells = {
        name: int(value) if isinstance(value, bool) else value
        for name, value in outcome.measures.items()
    }
    return {"round": outcome.index, "score": int(outcome.episode_return), **cells}


def _by(outcomes: Sequence[Outcome], group: Callable[[Outcome], str]) -> dict[str, Value]:
    """Rounds and mean score by `group`, in the order of cards and numbers."""
    groups: dict[str, list[float]] = {}
    for outcome in outcomes:
        groups.setdefault(group(outcome), []).append(outcome.episode_return)
    ordered = sorted(groups.items(), key=lambda item: int(item[0]) if item[0].isdigit() else 0)
    return {
        name: {"rounds": len(scores), "mean_score": statistics.fmean(scores)}
        for name, scores in ordered
    }


def _hits(outcome: Outcome) -> int:
    return str(outcome.measures.get("decisions", "")).split().count("hit")


def _count(hand: Sequence[int]) -> int:
    total = sum(hand)
    return total + 10 if 1 in hand and total <= 11 else total


def _cards(hand: Sequence[int]) -> str:
    return " ".join("A" if card == 1 else str(card) for card in hand)
