"""What a provider's faults come to in whole Runs of real coding agents: the failure table, row by
row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.session.failures import MEANINGS
from evopolicy.kernel.session.record import Run
from tests.agents.cli.programs import needs
from tests.agents.model_server.engineer import Tokens
from tests.agents.model_server.faults import Fault, status
from tests.agents.model_server.server import ModelServer, model_server
from tests.end_to_end.coding_run import (
    KEY,
    KEY_VARIABLE,
    heldout,
    needs_bubblewrap,
    ran,
    said,
    transcripts,
    used,
    work,
)

pytestmark = needs_bubblewrap

CODEX = pytest.param("codex", marks=needs("codex"))
CLAUDE = pytest.param("claude_code", marks=needs("claude_code"))
IMPATIENT: dict[str, dict[str, Any]] = {
    "codex": {"request_retries": 0, "stream_retries": 0},
    "claude_code": {"retries": 0},
    "chat": {"retries": 0},
}
"""Options with which a program gives up at once, so that it is the Host that tries again."""
SUBMITTED = 3
"""Requests after which the first Submission is published."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)


def impatient(folder: Path, server: ModelServer, agent: str, **session: Any) -> Run:
    return ran(folder, server, agent, IMPATIENT[agent], session)


def ended_as(run: Run, reason: str) -> None:
    """The row `reason` of the failure table holds."""
    row = MEANINGS[reason]
    assert (run.state.agent_ended, run.valid) == (reason, row.valid), said(run)
    assert run.result.reasons == (() if row.valid else (reason,))
    assert run.state.agent_error


def went_on(run: Run) -> None:
    """Nothing of a fault is seen in the result."""
    assert (run.state.agent_ended, run.valid, run.result.reasons) == ("finished", True, ()), said(
        run
    )
    assert [s.score == 500 for s in run.state.submissions] == [False, True]
    assert heldout(run) == 500


# --- once: the program or the Host tries again, and the Run is whole ------------------------------


@pytest.mark.parametrize(
    ("agent", "fault"),
    [
        pytest.param("codex", status(429, after=2, times=1), marks=needs("codex"), id="codex-429"),
        pytest.param("codex", Fault("cut", after=2, times=1), marks=needs("codex"), id="codex-cut"),
        pytest.param(
            "claude_code",
            status(529, after=2, times=1),
            marks=needs("claude_code"),
            id="claude_code-529",
        ),
        pytest.param("chat", Fault("drop", after=2, times=1), id="chat-drop"),
        pytest.param("chat", Fault("malformed", after=2, times=1), id="chat-malformed"),
    ],
)
def test_a_program_that_tries_again_by_itself_finishes_in_one_attempt(
    tmp_path: Path, agent: str, fault: Fault
) -> None:
    with model_server(fault) as server:
        run = ran(tmp_path, server, agent)
    went_on(run)
    assert run.state.agent_attempts == 1
    assert [answer.fault for answer in server.answers].count(fault.kind) == 1


@pytest.mark.parametrize(
    ("agent", "fault", "kind"),
    [
        pytest.param("codex", status(500, after=SUBMITTED, times=1), "overload", marks=needs("codex"), id="codex-500"),
        # Claude Code takes it for a success.
        pytest.param("claude_code", Fault("end", after=SUBMITTED, times=1), "network", marks=needs("claude_code"),
                     id="claude_code-end"),
        pytest.param("chat", status(429, after=SUBMITTED, times=1, retry_after=0), "rate_limit", id="chat-429"),
    ],
)  # fmt: skip
def test_after_a_fault_the_host_resumes_the_conversation_and_nothing_is_charged_twice(
    tmp_path: Path, agent: str, fault: Fault, kind: str
) -> None:
    with model_server(fault) as server:
        run = impatient(tmp_path, server, agent)
    went_on(run)
    assert run.state.agent_attempts == 2
    first, second = transcripts(run)
    assert first.error and first.error_kind == kind
    assert first.session_id == second.session_id != ""
    if (
        fault.kind == "end"
    ):  # the provider said what its answer that broke off had read: that is charged too
        assert used(run) == server.tokens() + Tokens(
            100 * (SUBMITTED + 1), 10 * (SUBMITTED + 1), 5, 1
        )
    else:
        assert used(run) == server.tokens()
    # The conversation went on where it broke off: no command was given twice.
    assert len(work(run)) == 7


# --- always: what there is is kept and measured, and the Run is marked ----------------------------


@pytest.mark.parametrize(
    ("agent", "fault"),
    [
        pytest.param(
            "codex", Fault("malformed", after=SUBMITTED), marks=needs("codex"), id="codex-malformed"
        ),
        pytest.param(
            "claude_code",
            status(529, after=SUBMITTED),
            marks=needs("claude_code"),
            id="claude_code-529",
        ),
        pytest.param("chat", Fault("drop", after=SUBMITTED), id="chat-drop"),
    ],
)
def test_a_provider_that_stays_away_spoils_the_run_once_retries_are_spent(
    tmp_path: Path, agent: str, fault: Fault
) -> None:
    with model_server(fault) as server:
        run = impatient(tmp_path, server, agent, retries=1)
    ended_as(run, "provider")
    assert run.state.agent_attempts == 2
    assert len(run.state.published) == 1 and heldout(run) < 100


@pytest.mark.parametrize("agent", [CODEX, CLAUDE, "chat"])
def test_a_provider_that_never_says_a_word_is_no_result_whatever_cut_it_off(
    tmp_path: Path, agent: str
) -> None:
    with model_server(Fault("stall")) as server:
        run = impatient(tmp_path, server, agent, retries=0, limits={"idle_seconds": 15})
    assert (run.state.agent_ended, run.valid, run.state.agent_exit_code) == (
        "provider",
        False,
        None,
    ), said(run)
    assert (
        run.result.reasons == ("provider", "nothing_published")
        and "no answer to" in run.state.agent_error
    )


def test_a_provider_that_fails_until_the_wall_spoils_the_run_and_its_waiting_is_no_thinking(
    tmp_path: Path,
) -> None:
    with model_server(status(429, after=SUBMITTED)) as server:
        run = ran(tmp_path, server, "chat", {"retries": 99, "retry_seconds": 0.5},
                  {"retries": 0, "limits": {"wall_seconds": 12}})  # fmt: skip
    ended_as(run, "provider")
    assert run.state.agent_exit_code is None and "429 Rate limit reached." in run.state.agent_error
    assert (
        run.state.waiting_seconds > 1
        and run.state.thinking_seconds + run.state.waiting_seconds > 12
    )


@pytest.mark.parametrize("agent", [CODEX, CLAUDE, "chat"])
def test_a_limit_of_the_hosts_own_is_said_as_such_whatever_the_program_takes_it_for(
    tmp_path: Path, agent: str
) -> None:
    with model_server() as server:
        run = impatient(tmp_path, server, agent, limits={"requests": SUBMITTED})
    assert (run.state.agent_ended, run.valid, run.result.reasons) == ("requests", True, ()), said(
        run
    )
    assert "session.limits.requests" in run.state.agent_error and len(server.answers) == SUBMITTED
    assert run.state.agent_attempts == 1


@pytest.mark.parametrize(
    ("agent", "fault", "options", "said"),
    [
        pytest.param("codex", None, {"arguments": ["--bogus-flag"]}, "'--bogus-flag'.*agent.arguments",
                     marks=needs("codex"), id="codex-start"),
        pytest.param("claude_code", status(404), {}, "/v1/messages: 404 There is no such " "model.*agent.model",
                     marks=needs("claude_code"), id="claude_code-404"),
        pytest.param("codex", status(404), {}, "/v1/responses: 404 There is no such " "model.*agent.model",
                     marks=needs("codex"), id="codex-404"),
        pytest.param("chat", status(400), {}, "400 Unsupported value.*agent.effort", id="chat-400"),
    ],
)  # fmt: skip
def test_an_agent_whose_model_never_answered_is_told_with_what_to_mend_and_not_measured(
    tmp_path: Path, agent: str, fault: Fault | None, options: dict[str, Any], said: str
) -> None:
    with (
        model_server(fault) as server,
        pytest.raises(AgentError, match=f"(?s)never answered.*{said}"),
    ):
        ran(tmp_path, server, agent, {**IMPATIENT[agent], **options})


@pytest.mark.parametrize("agent", [CODEX, CLAUDE, "chat"])
def test_a_refused_login_before_any_submission_stops_the_run_with_what_to_mend(
    tmp_path: Path, agent: str
) -> None:
    with model_server(status(401)) as server, pytest.raises(AgentError, match="login"):
        impatient(tmp_path, server, agent)


@pytest.mark.parametrize(
    ("agent", "fault", "reason"),
    [
        pytest.param("codex", Fault("context", after=SUBMITTED), "context", marks=needs("codex"), id="codex-context"),
        pytest.param("codex", Fault("refusal", after=SUBMITTED), "refusal", marks=needs("codex"), id="codex-refusal"),
        pytest.param("claude_code", status(401, after=SUBMITTED), "authentication", marks=needs("claude_code"),
                     id="claude_code-401"),
        pytest.param("chat", Fault("refusal", after=SUBMITTED), "refusal", id="chat-refusal"),
    ],
)  # fmt: skip
def test_what_no_retry_mends_ends_the_agent_at_once(
    tmp_path: Path, agent: str, fault: Fault, reason: str
) -> None:
    with model_server(fault) as server:
        run = impatient(tmp_path, server, agent)
    ended_as(run, reason)
    assert run.state.agent_attempts == 1
    assert len(run.state.published) == 1 and heldout(run) < 100
