"""What is logged of a Run, without MLflow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evopolicy.kernel.ports.protocols import AgentIdentity
from evopolicy.kernel.session.journal import Journal, read_journal
from evopolicy.kernel.session.record import Run
from evopolicy.kernel.values import digest
from evopolicy.tracking.files import STREAM_BYTES
from evopolicy.tracking.project import (
    PARAM_LENGTH,
    Projection,
    clean_key,
    flatten,
    identity,
    project_cell,
)


def project(run: Run, *, lines: int | None = None, bulk: bool = False) -> Projection:
    return project_cell(run.folder, run.record, list(read_journal(run.folder))[:lines], bulk=bulk)


def values(projection: Projection, key: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in projection.points if point.key == key]


def test_tags_say_what_the_cell_is_and_how_it_ended(
    make_run: Callable[..., Run], make_record: Any
) -> None:
    record = make_record(suite="core", axes={"budget.episodes": "64"})
    run = make_run(record)
    tags = project(run).tags
    assert tags["kind"] == "cell"
    assert (tags["agent"], tags["integration"], tags["benchmark"], tags["seed"]) == (
        "cma_es",
        "cma_es",
        "cartpole",
        "0",
    )
    assert (tags["suite"], tags["entry"]) == ("core", "cma_es budget.episodes=64")
    assert (tags["isolation"], tags["agent_isolation"]) == ("landlock", "landlock")
    assert (tags["terminal_reason"], tags["valid"]) == ("finished", "true")
    assert tags["program"] == run.result.selected
    assert (tags["key"], tags["result_key"]) == (record.key, record.result_key)
    assert "model" not in tags


def test_the_name_is_readable(make_run: Callable[..., Run]) -> None:
    assert project(make_run()).name == "cma_es · cartpole · s0"


def test_submission_metrics_step_by_units_consumed(make_run: Callable[..., Run]) -> None:
    projection = project(make_run(scores=(200.0, 100.0)))
    assert values(projection, "submission/score") == [(8, 200.0), (16, 100.0)]
    assert values(projection, "submission/best") == [(8, 200.0), (16, 200.0)]
    assert values(projection, "submission/failures") == [(8, 2.0), (16, 0.0)]
    assert values(projection, "validation/score") == [(8, 190.0), (16, 90.0)]


def test_what_is_measured_once_is_at_step_0(make_run: Callable[..., Run]) -> None:
    projection = project(make_run(heldout=(190.0, 210.0)))
    assert (
        values(projection, "heldout/score")
        == values(projection, "cartpole/heldout")
        == [(0, 200.0)]
    )
    assert values(projection, "heldout/standard_error") == [(0, 10.0)]
    assert values(projection, "validation/selected") == [(0, 190.0)]
    assert values(projection, "time/total_seconds") == [(0, 21.0)]
    assert values(projection, "usage/output_tokens") == [(0, 1200.0)]
    assert values(projection, "session/episodes") == [(0, 16.0)]


def test_scores_are_bound_to_the_program_they_measure(make_run: Callable[..., Run]) -> None:
    run = make_run()
    projection = project(run)
    first, second = (s.program for s in run.state.submissions)
    bound = {(p.key, p.step): p.program for p in projection.points if p.program}
    assert bound["submission/score", 8] == first
    assert bound["validation/score", 16] == bound["heldout/score", 0] == second
    assert [m.program for m in projection.models] == [first, second]


def test_a_half_done_run_is_running_and_a_longer_journal_only_adds(
    make_run: Callable[..., Run],
) -> None:
    run = make_run()
    whole = project(run)
    lines = len(list(read_journal(run.folder)))
    for cut in range(lines):
        part = project(run, lines=cut)
        assert part.status == "RUNNING"
        assert set(part.points) <= set(whole.points)
        assert {u.target for u in part.uploads} <= {u.target for u in whole.uploads}
    assert whole.status == "FINISHED"


def test_an_invalid_run_is_failed_and_says_why(make_run: Callable[..., Run]) -> None:
    projection = project(make_run(valid=False, reason="provider"))
    assert projection.status == "FAILED"
    assert (projection.tags["valid"], projection.tags["reasons"]) == ("false", "provider")


def test_results_under_another_rule_are_left_out(make_run: Callable[..., Run]) -> None:
    run = make_run()
    other = project_cell(
        run.folder, replace(run.record, result_key="f" * 64), list(read_journal(run.folder))
    )
    assert other.status == "RUNNING"
    assert not any(p.key.startswith(("validation", "heldout")) for p in other.points)


def test_a_run_under_two_rules_is_two_runs_of_mlflow(make_run: Callable[..., Run]) -> None:
    """Sweeps of different rules share Runs: each shows its own result."""
    run = make_run()
    assert project(run).identity == project(run).identity != project(run.under("f" * 64)).identity


def test_two_runs_of_one_cell_are_told_apart(
    make_record: Any, make_run: Callable[..., Run]
) -> None:
    first = project(make_run(make_record(seed=0)))
    again = project(make_run(make_record(seed=1, key="another", created=5.0)))
    assert first.identity != again.identity


def test_a_run_made_again_is_another_though_all_else_is_the_same(make_record: Any) -> None:
    record = make_record(id="a")
    assert (
        identity(record)
        == identity(make_record(id="a", created=9.0))
        != identity(make_record(id="b"))
    )
    older = identity(make_record())
    assert (
        older
        == digest("evopolicy/tracking/run/2", [record.key, record.created, record.result_key])[:32]
    )


def test_artifacts_hold_programs_feedback_and_the_record(make_run: Callable[..., Run]) -> None:
    targets = {upload.target for upload in project(make_run()).uploads}
    assert {"record.json", "config.json", "journal.jsonl"} <= targets
    assert {"programs/0001/policy.py", "programs/0002/policy.py"} <= targets
    assert {"feedback/0001/feedback.json", "feedback/0001/episodes/0000.csv"} <= targets


def test_bulk_artifacts_are_logged_only_when_asked(make_run: Callable[..., Run]) -> None:
    run = make_run()
    trace = "feedback/0002/trace.npz"
    assert trace not in {upload.target for upload in project(run).uploads}
    assert trace in {upload.target for upload in project(run, bulk=True).uploads}


def test_a_page_an_agent_wrote_is_logged_as_text(make_run: Callable[..., Run]) -> None:
    targets = {upload.target for upload in project(make_run()).uploads}
    assert "programs/0001/notes.html.txt" in targets
    assert not any(target.endswith(".html") for target in targets)


def test_no_secret_is_in_tags_params_or_record(
    make_run: Callable[..., Run], make_record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-abcdefgh")
    agent = AgentIdentity(
        "codex", "codex", options={"argv": "run --key sk-abcdefgh", "api_key": "other-secret"}
    )
    record = make_record(
        config={"agent": {"argv": "run --key sk-abcdefgh", "api_key": "other-secret"}}, agent=agent
    )
    record = replace(record, agent=agent)
    projection = project(make_run(record))
    texts = [*projection.tags.values(), *projection.params.values()]
    texts += [upload.content.decode() for upload in projection.uploads]
    assert not [text for text in texts if "sk-abcdefgh" in text or "other-secret" in text]
    assert json.loads(next(u.content for u in projection.uploads if u.target == "config.json"))


def test_usage_of_all_attempts_is_added_up(make_run: Callable[..., Run]) -> None:
    run = make_run(until="opened")
    journal = Journal(run.folder)
    usage = {
        "output_tokens": 10,
        "requests": 2,
        "cost_usd": 0.25,
        "cost_is_estimate": False,
        "input_tokens": None,
    }
    ended = {"usage": usage, "turns": 3, "tool_calls": 4, "error": "529", "error_kind": "overload"}
    journal.append("agent_ended", reason="provider", unexplained_tokens=7, **ended)
    first = project(run)
    journal.append("agent_started", attempt=2)
    guessed = {**usage, "cost_is_estimate": True, "tokens_are_estimate": True}
    journal.append("agent_ended", reason="finished", **{**ended, "usage": guessed, "error": ""})
    journal.close()
    projection = project(run)
    last = {point.key: point.value for point in projection.points if point.key.startswith("usage/")}
    assert last == {
        "usage/output_tokens": 20, "usage/requests": 4, "usage/cost_usd": 0.5,
        "usage/turns": 6, "usage/tool_calls": 8, "usage/unexplained_tokens": 7,
    }  # fmt: skip
    assert (first.tags["agent_error"], first.tags["agent_error_kind"]) == ("529", "overload")
    assert (first.tags["cost_is_estimate"], projection.tags["cost_is_estimate"]) == (
        "false",
        "true",
    )
    assert (first.tags.get("tokens_are_estimate"), projection.tags["tokens_are_estimate"]) == (
        None,
        "true",
    )
    assert "agent_error" not in projection.tags
    assert projection.tags["agent_attempts"] == "2"
    assert (
        projection.tags["mlflow.note.content"]
        == "The agent used about 20 tokens, about $0.50 (an estimate)."
    )


def test_tags_say_what_ran_and_how_it_was_let_in(
    make_run: Callable[..., Run], make_record: Any
) -> None:
    agent = AgentIdentity("codex", "codex", "gpt-5", {"login": "subscription"})
    record = replace(
        make_record(agent_network="allowlist"), agent=agent, versions={"codex": "0.171.0"}
    )
    tags = project(make_run(record)).tags
    assert (tags["version.codex"], tags["login"], tags["agent_network"]) == (
        "0.171.0",
        "subscription",
        "allowlist",
    )


def test_prices_are_no_flood_of_params(make_run: Callable[..., Run], make_record: Any) -> None:
    prices = {"as_of": "2025-11-30", "source": "pages", "models": {"gpt-5": {"input": 1.25}}}
    projection = project(make_run(make_record(config={"prices": prices, "seed": 0})))
    assert {key for key in projection.params if key.startswith("prices")} == {
        "prices.as_of",
        "prices.source",
    }
    config = next(u.content for u in projection.uploads if u.target == "config.json")
    assert json.loads(config)["prices"] == prices


def test_transcript_and_streams_are_artifacts_long_ones_only_when_asked(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Any]
) -> None:
    run = make_run()
    lay_attempt(run.folder, stdout="x" * (STREAM_BYTES + 1), stderr="warning", proxy="{}")
    agent = {u.target for u in project(run).uploads if u.target.startswith("agent/")}
    assert agent == {
        f"agent/attempt-1/{name}" for name in ("transcript.json", "stderr.log", "proxy.jsonl")
    }
    assert "agent/attempt-1/stdout.log" in {u.target for u in project(run, bulk=True).uploads}


def test_a_stream_of_an_agent_that_still_runs_is_not_logged(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Any]
) -> None:
    run = make_run(until="submission 1")
    lay_attempt(run.folder, stdout="so far")
    assert not [u.target for u in project(run).uploads if u.target.startswith("agent/")]


def test_config_becomes_params_within_the_limits() -> None:
    params = flatten(
        {"a": {"b": [1, "x"], "c[0]": None, "d": True}, "long": "y" * 9000, "empty": {}}
    )
    assert params["a.b"] == '[1, "x"]'
    assert params["a.c_0_"] == "null"
    assert params["a.d"] == "true"
    assert params["empty"] == "{}"
    assert len(params["long"]) <= PARAM_LENGTH
    assert params["long"].endswith("(cut; whole in config.json)")


@pytest.mark.parametrize("key", ["a/../b", "[x]", "..", "", "k" * 400, "tab\tkey"])
def test_every_key_becomes_a_legal_name(key: str) -> None:
    assert 0 < len(clean_key(key)) <= 250
    assert not set(clean_key(key)) & set("[]/\t")
    assert clean_key(key) not in (".", "..")
