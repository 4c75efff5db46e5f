"""The agents that need no provider, each as a process against the Kernel's own Session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from evopolicy.agents import load_agent
from evopolicy.agents.cma_es import script as cma_es
from evopolicy.kernel.ports.protocols import AgentIntegration

CONF = Path(__file__).parents[2] / "conf" / "agent"
PARAMETRIC = {
    "policy.py": "def make_policy(context): ...\n",
    "params.json": json.dumps(
        {"gain": 0.0, "offset": -2.0, "angle": 3, "name": "bowl", "on": True, "_layers": 2}
    ),
}


def agent(name: str, **options: Any) -> AgentIntegration:
    return load_agent(name, {**yaml.safe_load((CONF / f"{name}.yaml").read_text()), **options})


def params(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((path / "params.json").read_text())
    return value


# --- baseline and random --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["baseline", "random"])
def test_submits_the_program_it_finds_once_and_finishes(
    host: Callable[..., Any], digest_of: Callable[..., str], name: str
) -> None:
    small = host("small")
    with small.open():
        ended = small.agent(agent(name))
    assert (ended.code, ended.stderr) == (0, "")
    assert small.submitted() == [(digest_of(small.program), "0:64")]
    assert small.state().closed_by == "finish"


def test_repeats_take_fresh_indices_in_even_shares(host: Callable[..., Any]) -> None:
    smoke = host("smoke")
    with smoke.open():
        assert smoke.agent(agent("baseline", repeats=3)).code == 0
    assert [selector for _, selector in smoke.submitted()] == ["0:3", "3:6", "6:8"]


def test_episodes_of_one_submission_can_be_said(host: Callable[..., Any]) -> None:
    small = host("small", pool_size=6)
    with small.open():
        assert small.agent(agent("baseline", repeats=3, episodes=4)).code == 0
    assert [selector for _, selector in small.submitted()] == ["0:4", "0:2,4:6", "2:6"]


@pytest.mark.parametrize(
    ("budget", "pool_size"), [("tight", 64), ("tight", 3), ("paper", 128), ("paper", 1024)]
)
@pytest.mark.parametrize("repeats", [1, 4])
def test_exhaust_is_spent_whole(
    host: Callable[..., Any], budget: str, pool_size: int, repeats: int
) -> None:
    one = host(budget, pool_size=pool_size)
    with one.open():
        assert one.agent(agent("baseline", repeats=repeats)).code == 0
    state = one.state()
    assert sum(len(s.indices) for s in state.submissions) == one.budget.episodes
    assert (state.closed_by, state.refusals) == ("budget", 0)


def test_an_engine_fault_does_not_end_the_agent(host: Callable[..., Any]) -> None:
    smoke = host("smoke")
    smoke.executor.faulty = {0}
    with smoke.open():
        ended = smoke.agent(agent("baseline", repeats=2))
    assert ended.code == 0
    assert [s.status for s in smoke.state().submissions] == ["failed", "published"]


def test_a_refused_program_ends_it_with_the_reason(host: Callable[..., Any]) -> None:
    smoke = host("smoke", program={"no_policy.py": ""})
    with smoke.open():
        ended = smoke.agent(agent("baseline"))
    assert ended.code == 1
    assert "policy.py is missing" in ended.stderr
    assert agent("baseline").read(ended.lines).error


def test_a_host_that_is_gone_ends_it(host: Callable[..., Any]) -> None:
    smoke = host("smoke")
    with smoke.open():
        pass
    ended = smoke.agent(agent("baseline"))
    assert ended.code == 1
    assert "does not answer" in ended.stderr


def test_transcript_tells_calls_submissions_and_completion(host: Callable[..., Any]) -> None:
    smoke = host("smoke", block_seconds=0.0)
    with smoke.open():
        ended = smoke.agent(agent("baseline", repeats=2))
    transcript = agent("baseline").read(ended.lines)
    assert transcript.completed
    assert (transcript.malformed_lines, dict(transcript.unknown_events)) == (0, {})
    assert [step.submission for step in transcript.steps if step.submission] == [1, 2]
    calls = [call for step in transcript.steps for call in step.calls]
    assert calls[-1].arguments == {"argv": ["finish"]}
    assert calls[-1].result is not None and json.loads(calls[-1].result)["state"] == "finished"


def test_a_restarted_baseline_goes_on_where_the_run_stands(host: Callable[..., Any]) -> None:
    smoke = host("smoke")
    with smoke.open() as (session, _):
        session.handle("submit", {"path": "program", "episodes": "0:4"})
    with smoke.open():
        assert smoke.agent(agent("baseline", repeats=2), resumed=True).code == 0
    assert [selector for _, selector in smoke.submitted()] == ["0:4", "4:8"]


# --- cma_es ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "least"),
    [
        ("smoke", 4),
        ("essay", 16),
        pytest.param("paper", 64, marks=pytest.mark.slow),
        ("tight", 5),
        ("one", 1),
    ],
)
def test_cma_es_spends_every_preset_without_a_refusal(
    host: Callable[..., Any], budget: str, least: int
) -> None:
    one = host(budget, program=PARAMETRIC)
    with one.open():
        ended = one.agent(agent("cma_es"))
    assert (ended.code, ended.stderr) == (0, "")
    state = one.state()
    assert len(state.submissions) >= least
    assert sum(len(s.indices) for s in state.submissions) == one.budget.episodes
    assert state.refusals == 0
    assert state.closed_by == ("budget" if one.budget.finish == "exhaust" else "finish")


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory, host_in: Callable[..., Any]) -> Any:
    """One whole Session of cma_es under the small budget, for the tests that look at it."""
    small = host_in(tmp_path_factory.mktemp("small"), "small", program=PARAMETRIC)
    with small.open():
        assert small.agent(agent("cma_es")).code == 0
    return small


@pytest.mark.xdist_group("small_run")
def test_cma_es_climbs(small_run: Any) -> None:
    scores = [s.score or 0.0 for s in small_run.state().submissions]
    assert scores[0] == pytest.approx(-15, abs=0.1), "the start itself is the first candidate"
    assert max(scores) > -5


@pytest.mark.xdist_group("small_run")
def test_cma_es_measures_a_generation_on_the_same_indices_and_the_next_on_others(
    small_run: Any,
) -> None:
    selectors = [selector for _, selector in small_run.submitted()]
    assert selectors == ["0:2"] * 10 + ["2:4"] * 10 + ["4:6"] * 10 + ["60:62", "62:64"]
    lines = (small_run.workspace / "analysis/cma_es/history.jsonl").read_text().splitlines()
    history = [json.loads(line) for line in lines]
    assert [line["selector"] for line in history] == selectors
    assert [line["score"] for line in history] == [s.score for s in small_run.state().submissions]


@pytest.mark.xdist_group("small_run")
def test_cma_es_names_its_outcome_then_its_best(small_run: Any) -> None:
    state = small_run.state()
    best = max(state.submissions, key=lambda s: s.score or -1e9)
    assert state.named[:2] == (31, 32)
    assert best.id in state.named


def test_cma_es_changes_numbers_only(host: Callable[..., Any]) -> None:
    smoke = host("smoke", program=PARAMETRIC)
    with smoke.open():
        assert smoke.agent(agent("cma_es")).code == 0
    content = params(smoke.workspace / "program")
    assert list(content) == ["gain", "offset", "angle", "name", "on", "_layers"]
    assert (content["name"], content["on"], content["_layers"]) == ("bowl", True, 2)
    lines = (smoke.workspace / "analysis/cma_es/history.jsonl").read_text().splitlines()
    assert all(len(json.loads(line)["values"]) == 3 for line in lines)
    assert len({tuple(json.loads(line)["values"]) for line in lines}) > 1


def test_cma_es_repeats_itself_under_one_seed_and_not_under_another(
    host: Callable[..., Any],
) -> None:
    runs = {}
    for name, seed in (("first", 3), ("again", 3), ("other", 4)):
        one = host("smoke", name, program=PARAMETRIC)
        with one.open():
            assert one.agent(agent("cma_es"), seed=seed).code == 0
        runs[name] = one.submitted()
    assert runs["first"] == runs["again"] != runs["other"]


def test_cma_es_goes_on_after_its_host_was_killed_as_if_nothing_had_been(
    host: Callable[..., Any],
) -> None:
    whole = host("smoke", "whole", program=PARAMETRIC)
    with whole.open():
        assert whole.agent(agent("cma_es"), seed=1).code == 0
    cut = host("smoke", "cut", program=PARAMETRIC)
    with cut.open() as (session, _):
        handle, left = session.handle, [2]

        def die_after_some(verb: str, arguments: Any) -> dict[str, Any]:
            left[0] -= verb == "submit"
            if left[0] < 0:
                raise RuntimeError("the Host is killed")
            answer: dict[str, Any] = handle(verb, arguments)
            return answer

        session.handle = die_after_some
        assert cut.agent(agent("cma_es"), seed=1).code == 1
    assert len(cut.state().submissions) == 2
    with cut.open():
        assert cut.agent(agent("cma_es"), seed=1, resumed=True).code == 0
    assert cut.submitted() == whole.submitted()
    assert cut.state().named == whole.state().named


def test_cma_es_tunes_a_single_parameter(host: Callable[..., Any]) -> None:
    essay = host("essay", program={**PARAMETRIC, "params.json": '{"gain": 4.0}'})
    with essay.open():
        assert essay.agent(agent("cma_es")).code == 0
    assert max(s.score or -99.0 for s in essay.state().submissions) > -3


def test_cma_es_survives_engine_faults(host: Callable[..., Any]) -> None:
    smoke = host("smoke", program=PARAMETRIC)
    smoke.executor.faulty = {0}
    with smoke.open():
        assert smoke.agent(agent("cma_es")).code == 0
    assert {s.status for s in smoke.state().submissions} == {"failed", "published"}


def test_a_candidate_cma_es_could_not_measure_is_no_better_than_the_worst_of_its_generation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[list[float]] = []
    strategy = SimpleNamespace(
        ask=lambda: [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]],
        tell=lambda _, losses: told.append(losses),
        result=SimpleNamespace(xfavorite=[0.0, 0.0]),
    )
    scores = iter([-3.0, None, -5.0, None, None, None])
    search: Any = SimpleNamespace(
        parameters=SimpleNamespace(start=[0.0, 0.0]),
        values=list,
        measure=lambda *_: next(scores),
        losses=lambda found: cma_es.Search.losses(search, found),
        ranked=False,
    )
    monkeypatch.setattr(cma_es, "_strategy", lambda *_: strategy)
    cma_es._evolve(search, cma_es.Plan(population=3, generations=2, episodes=1), 1.0, 0)
    assert told == [[3.0, 5.0, 5.0], [0.0, 0.0, 0.0]]


def test_cma_es_ranked_is_moved_by_the_episodes_it_is_shown_and_cma_es_is_not(
    host: Callable[..., Any],
) -> None:
    submitted = {}
    for name in ("cma_es", "cma_es_ranked"):
        for visibility in ("score", "episodes"):
            # One Episode of three is on another scale and turned around: it decides the mean, and
            # not the ranks.
            one = host("tight", f"{name}-{visibility}", program=PARAMETRIC, visibility=visibility)
            one.executor.turned = -1000.0
            with one.open():
                assert one.agent(agent(name, episodes_per_candidate=3)).code == 0
            submitted[name, visibility] = one.submitted()
    blind = submitted["cma_es", "score"]
    assert submitted["cma_es", "episodes"] == submitted["cma_es_ranked", "score"] == blind
    assert submitted["cma_es_ranked", "episodes"] != blind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "params.json is missing"),
        ("{", "not a JSON"),
        ('{"a": "b"}', "no number"),
        ("[1]", "no number"),
    ],
)
def test_cma_es_refuses_a_program_without_parameters(
    host: Callable[..., Any], text: str | None, said: str
) -> None:
    files = {"policy.py": "", **({} if text is None else {"params.json": text})}
    smoke = host("smoke", program=files)
    with smoke.open():
        ended = smoke.agent(agent("cma_es"))
    assert ended.code == 1
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert said in agent("cma_es").read(ended.lines).error
    assert smoke.submitted() == []


# --- command --------------------------------------------------------------------------------------


def test_command_gets_prompt_workspace_and_task(host: Callable[..., Any]) -> None:
    script = (
        "import sys; print(sys.argv[1:]); print(sys.stdin.read()); "
        "print(open(sys.argv[2]).readline())"
    )
    smoke = host("smoke")
    with smoke.open():
        command = agent("command", argv=["{python}", "-c", script, "--in={workspace}", "{task}"])
        ended = smoke.agent(command)
    assert ended.code == 0, ended.stderr
    text = [step.text for step in command.read(ended.lines).steps]
    assert "\n".join(text).splitlines() == [
        str([f"--in={smoke.workspace}", str(smoke.workspace / "TASK.md")]), "Do it.", "# Bowl",
    ]  # fmt: skip
