"""The real programs of the coding agents, each doing a whole Run in the sandbox against the
scripted provider."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evopolicy.kernel.session.record import Run
from tests.agents.cli.programs import needs
from tests.agents.model_server.engineer import PLAN, Tokens
from tests.agents.model_server.server import ModelServer, model_server
from tests.end_to_end.coding_run import (
    KEY,
    KEY_VARIABLE,
    heldout,
    holding,
    needs_bubblewrap,
    ran,
    said,
    told,
    transcripts,
    used,
    work,
)

pytestmark = needs_bubblewrap

AGENTS = [
    pytest.param("codex", marks=needs("codex")),
    pytest.param("claude_code", marks=needs("claude_code")),
    "chat",
    pytest.param("gemini_cli", marks=[needs("gemini_cli"), pytest.mark.slow]),
    pytest.param("opencode", marks=[needs("opencode"), pytest.mark.slow]),
    pytest.param("kimi_code", marks=[needs("kimi_code"), pytest.mark.slow]),
]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_coding_agent_does_a_whole_run(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with model_server() as server:
        run = ran(tmp_path, server, agent)
    assert (run.state.agent_ended, run.valid, run.state.agent_exit_code) == ("finished", True, 0), (
        said(run)
    )
    _improved_to_the_best_there_is(run)
    _was_isolated_and_recorded(run, server)
    _transcript_is_what_the_server_served(run, server)
    assert holding(tmp_path, KEY) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent", [pytest.param(name, marks=needs(name)) for name in ("qwen_code", "mini_swe_agent")]
)
def test_a_program_over_command_does_a_whole_run(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with model_server(plan=(*PLAN, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")) as server:
        run = ran(tmp_path, server, agent)
    assert (run.state.agent_ended, run.valid, run.state.agent_exit_code) == ("finished", True, 0), (
        said(run)
    )
    _improved_to_the_best_there_is(run)
    _was_isolated_and_recorded(run, server)
    (transcript,) = transcripts(run)
    assert transcript.completed and not transcript.error and transcript.unknown_events == {}
    assert [call.result is not None and not call.failed for call in work(run)] == [True] * 8
    assert run.state.turns >= 8 and run.state.usage["requests"] == len(server.answers)
    served = server.tokens()
    assert used(run) in (
        served,
        replace(served, reasoning=0),
    )  # Qwen Code says nothing of reasoning
    assert holding(tmp_path, KEY) == []


def _improved_to_the_best_there_is(run: Run) -> None:
    first, second = run.state.submissions
    assert first.score is not None and first.score < 100 and second.score == 500
    assert run.result.selected_submission == 2
    assert heldout(run) == 500


def _was_isolated_and_recorded(run: Run, server: ModelServer) -> None:
    assert (run.record.agent_isolation, run.record.agent_network) == ("bubblewrap", "proxy")
    # The Host's proxy added the key; the agent's own was a dummy.
    assert {answer.key for answer in server.answers} == {KEY}
    assert run.state.unexplained_tokens in (None, 0) or server.tokens(side=True) != Tokens()
    assert run.result.reasons == ()


def _transcript_is_what_the_server_served(run: Run, server: ModelServer) -> None:
    (transcript,) = transcripts(run)
    # Kimi says nothing of reasoning.
    silent = run.record.agent.name in ("kimi_code",)
    served = server.tokens()
    if silent:
        served = Tokens(served.fresh, served.cached, served.written, served.output)
    assert told(transcript) == served == used(run)
    assert run.state.usage["requests"] == len(server.answers)
    assert transcript.completed and not transcript.error and not transcript.malformed_lines
    assert transcript.unknown_events == {}
    calls = work(run)
    begun = [command[:20] for command in PLAN]
    assert [word in str(dict(call.arguments)) for word, call in zip(begun, calls, strict=True)] == [
        True
    ] * len(PLAN)
    assert all(call.result is not None and not call.failed for call in calls)
    assert [step.submission for step in transcript.steps if step.submission] == [1, 2]
    assert all(step.seconds is not None for step in transcript.steps if step.source == "agent")
