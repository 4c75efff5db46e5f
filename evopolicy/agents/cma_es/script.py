"""Tunes the numbers in a Program's params.json by CMA-ES, a Submission for each candidate."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..scripted.budget import BudgetLeft, total_budget, window
from ..scripted.session import CannotWork, SessionClient, say

ENOUGH, FEWEST = 5, 3
"""With a budget for at least 5 generations the population is the usual one; else the budget is
split into 3, as large as they get: so early, looking around gains more than adapting (tried on the
classic-control tasks)."""
NAMED = 5
"""Submissions that `finish` names."""


# --- parameters -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameters:
    """The numbers of a params.json: every number in it, also inside lists and objects, but under a
    key with `_`."""

    path: Path
    content: Any
    names: tuple[tuple[Any, ...], ...]
    """Where each number is: keys and places from the outside in."""
    start: tuple[float, ...]

    def write(self, values: Sequence[float]) -> None:
        """Put `values` in their places; everything else stays."""
        content = json.loads(json.dumps(self.content))
        for name, value in zip(self.names, values, strict=True):
            inner = content
            for key in name[:-1]:
                inner = inner[key]
            inner[name[-1]] = value
        staging = self.path.with_name(".params.json.new")
        staging.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        staging.replace(self.path)


def read_parameters(path: Path) -> Parameters:
    """Raises CannotWork where there is no such file or no number in it."""
    what = f"{path.parent.name}/{path.name}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CannotWork(
            f"cma_es: the Program has no parameters: {what} is missing. It tunes the numbers in "
            "that file; take a Benchmark that ships a 'parametric' Program, or another agent"
        ) from None
    except (OSError, ValueError) as error:
        raise CannotWork(f"cma_es: {what} is not a JSON file ({error})") from None
    found = list(_numbers(content)) if isinstance(content, dict) else []
    if not found:
        raise CannotWork(
            f"cma_es: {what} holds no number to tune; it has to be a JSON object of name: number"
        )
    return Parameters(
        path, content, tuple(name for name, _ in found), tuple(value for _, value in found)
    )


def _numbers(content: Any, name: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], float]]:
    if isinstance(content, (int, float)) and not isinstance(content, bool):
        yield name, float(content)
    pairs = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for key, inner in pairs:
        if not str(key).startswith("_"):
            yield from _numbers(inner, (*name, key))


# --- plan -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How a budget is spent: `generations` of `population` candidates, then what is left on the
    outcome."""

    population: int
    generations: int
    episodes: int
    """Of each candidate; all of a generation on the same indices."""


def make_plan(
    dimensions: int, budget: BudgetLeft, population: int | None, episodes: int | None
) -> Plan:
    """A Plan that leaves at least one Submission for the outcome. `generations` is 0 where that is
    all there is."""
    usual = 4 + int(3 * math.log(dimensions))
    if episodes is None:
        episodes = max(1, budget.episodes // budget.submissions)
        if episodes == 1 and budget.episodes >= 2 * 6 * usual:
            episodes = 2  # with so many units, less noise is worth more than more candidates
    episodes = min(episodes, budget.cap, budget.episodes)
    candidates = min(budget.submissions, budget.episodes // episodes) - 1
    if population is None:
        population = usual if candidates >= ENOUGH * usual else max(4, candidates // FEWEST)
    population = min(population, candidates)
    if population < 2:
        return Plan(0, 0, episodes)
    return Plan(population, candidates // population, episodes)


# --- search ---------------------------------------------------------------------------------------


@dataclass
class Search:
    """Submits candidates and keeps the books; what an earlier process has submitted is told again,
    not paid again."""

    session: SessionClient
    parameters: Parameters
    budget: BudgetLeft
    """As the agent's own books have it."""
    scale: tuple[float, ...]
    history: Path
    submitted: list[dict[str, Any]]
    """Lines of the history, the n-th of Submission n."""
    scores: dict[int, float | None]
    """Of the Submissions there are already, by number."""
    ranked: bool
    """Whether candidates are compared Episode by Episode, where Feedback shows them."""

    def values(self, point: Sequence[float]) -> list[float]:
        """The parameters at a point of the search space, whose origin is the start."""
        return [
            float(s + d * x)
            for s, d, x in zip(self.parameters.start, self.scale, point, strict=True)
        ]

    def measure(self, kind: str, values: list[float], begin: int, wanted: int) -> float | None:
        """Score of `values` on `wanted` indices from `begin` on; None where the engine failed."""
        number = len(self.submitted) + 1
        units = self.budget.units(wanted)
        selector = window(begin, units, self.budget.pool)
        if number in self.scores:
            score = self.scores[number]
        else:
            self.parameters.write(values)
            answer = self.session.submit(selector)["submission"]
            if answer["id"] != number:
                raise CannotWork(
                    f"cma_es: Submission {number} was expected, the Host made {answer['id']}"
                )
            score = answer.get("score")
        line = {
            "submission": number,
            "kind": kind,
            "selector": selector,
            "score": score,
            "values": values,
        }
        self.submitted.append(line)
        with self.history.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.budget = self.budget.after(units)
        return score

    def losses(self, scores: Sequence[float | None]) -> list[float]:
        """Of the newest candidates, from their `scores`; one the engine could not measure is no
        better than the worst.

        Compared Episode by Episode: by how many others a candidate beats on each, less those that
        beat it; by the mean score where that is equal."""
        worst = min((score for score in scores if score is not None), default=0.0)
        means = [worst if score is None else score for score in scores]
        rows = (
            [self._episodes(line["submission"]) for line in self.submitted[-len(scores) :]]
            if self.ranked
            else []
        )
        if not rows or not all(rows):
            return [-mean for mean in means]
        beaten = [
            sum((a > b) - (a < b) for row in rows for a, b in zip(own, row, strict=True))
            for own in rows
        ]
        order = sorted(set(zip(beaten, means, strict=True)), reverse=True)
        return [float(order.index(pair)) for pair in zip(beaten, means, strict=True)]

    def _episodes(self, number: int) -> list[float]:
        """Scores of a Submission's Episodes by index, as Feedback shows them; [] where it does
        not."""
        path = self.session.workspace / "feedback" / f"{number:04d}" / "feedback.json"
        try:
            rows = json.loads(path.read_text(encoding="utf-8")).get("by_episode", [])
        except (OSError, ValueError):
            return []
        return [float(row["score"]) for row in sorted(rows, key=lambda row: row["index"])]

    def best(self) -> list[dict[str, Any]]:
        """The lines that have a score, best first, the later one on a tie."""
        scored = [line for line in self.submitted if line["score"] is not None]
        return sorted(scored, key=lambda line: (line["score"], line["submission"]), reverse=True)


def work(session: SessionClient, options: dict[str, Any], seed: int) -> None:
    """`options`: population, episodes_per_candidate (None: by the budget), sigma, scale_floor,
    ranked."""
    parameters = read_parameters(session.workspace / "program" / "params.json")
    search = _begin(session, parameters, options["scale_floor"], options["ranked"])
    plan = make_plan(
        len(parameters.start),
        search.budget,
        options["population"],
        options["episodes_per_candidate"],
    )
    say("note", f"{len(parameters.start)} parameters; {plan}")
    mean = _evolve(search, plan, options["sigma"], seed)
    _conclude(search, plan, mean)
    candidates = [line["submission"] for line in search.best()]
    outcome = [
        line["submission"]
        for line in search.submitted
        if line["kind"] == "outcome" and line["score"] is not None
    ]
    session.finish(list(dict.fromkeys([*outcome[:2], *candidates]))[:NAMED])


def _begin(session: SessionClient, parameters: Parameters, floor: float, ranked: bool) -> Search:
    status = session.status()
    folder = session.workspace / "analysis" / "cma_es"
    folder.mkdir(parents=True, exist_ok=True)
    start = folder / "start.json"
    if start.exists():  # program/params.json holds a candidate by now
        parameters = Parameters(
            parameters.path,
            parameters.content,
            parameters.names,
            tuple(json.loads(start.read_text(encoding="utf-8"))),
        )
    else:
        staging = start.with_name(".start.json.new")
        staging.write_text(json.dumps(parameters.start) + "\n", encoding="utf-8")
        staging.replace(start)
    scores = {int(made["id"]): made.get("score") for made in status.get("submissions", ())}
    history = folder / "history.jsonl"
    history.write_text("", encoding="utf-8")
    scale = tuple(max(abs(value), floor) for value in parameters.start)
    return Search(session, parameters, total_budget(status), scale, history, [], scores, ranked)


def _evolve(search: Search, plan: Plan, sigma: float, seed: int) -> list[float]:
    """The parameters at the mean of the search after every generation; the start where there was
    none."""
    dimensions = len(search.parameters.start)
    if plan.generations == 0:
        return search.values([0.0] * dimensions)
    # cma is not tested in one dimension: a second one that means nothing is put beside a lone
    # parameter.
    strategy = _strategy(max(2, dimensions), plan.population, sigma, seed)
    for generation in range(plan.generations):
        points = [list(map(float, point)) for point in strategy.ask()]
        begin = generation * plan.episodes
        scores = [
            search.measure(
                f"generation {generation}", search.values(point[:dimensions]), begin, plan.episodes
            )
            for point in points
        ]
        strategy.tell(points, search.losses(scores))
        if scored := [score for score in scores if score is not None]:
            say(
                "note",
                f"generation {generation}: best {max(scored):.6g}, mean "
                f"{sum(scored) / len(scored):.6g}",
            )
    return search.values([float(x) for x in strategy.result.xfavorite[:dimensions]])


def _strategy(dimensions: int, population: int, sigma: float, seed: int) -> Any:
    for unused in ("matplotlib", "scipy"):
        sys.modules.setdefault(unused, None)  # type: ignore[arg-type]  # cma imports them where it can: seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it cannot plot
        import cma

    options = {
        "popsize": population,
        "seed": 1 + seed % (2**31),
        "verbose": -9,
        "verb_disp": 0,
        "verb_log": 0,
    }
    strategy = cma.CMAEvolutionStrategy([0.0] * dimensions, sigma, options)
    strategy.inject(
        [[0.0] * dimensions], force=True
    )  # the start itself is a candidate of the first generation
    return strategy


def _conclude(search: Search, plan: Plan, mean: list[float]) -> None:
    """Spend what is left: on the mean of the search, and on the best candidate where two
    Submissions are left."""
    best = search.best()
    outcomes = [mean, best[0]["values"]] if best and plan.generations else [mean]
    if search.budget.submissions == 1 or search.budget.episodes == 1:
        outcomes = outcomes[:1]
    turn = 0
    while not search.budget.spent and (turn < len(outcomes) or search.budget.exhaust):
        share = -(-search.budget.episodes // max(1, len(outcomes) - turn))
        search.measure("outcome", outcomes[turn % len(outcomes)], search.budget.used, share)
        turn += 1
