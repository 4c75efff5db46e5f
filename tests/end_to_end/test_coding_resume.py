"""An answer that breaks off once, in the middle of a Run: noticed, though two of the programs call
it a success."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.cli.programs import needs
from tests.agents.model_server.faults import Fault
from tests.agents.model_server.server import model_server
from tests.end_to_end.coding_run import (
    KEY,
    KEY_VARIABLE,
    heldout,
    is_wait,
    needs_bubblewrap,
    ran,
    said,
    transcripts,
    used,
)

pytestmark = [needs_bubblewrap, pytest.mark.slow]

BREAKS = [
    pytest.param("gemini_cli", "end", marks=needs("gemini_cli")),
    pytest.param("kimi_code", "end", marks=needs("kimi_code")),
    pytest.param("opencode", "malformed", marks=needs("opencode")),
]


@pytest.mark.parametrize(("agent", "kind"), BREAKS)
def test_its_session_goes_on_where_the_answer_broke_off(
    agent: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with model_server(Fault(kind, after=3, times=1)) as server:  # type: ignore[arg-type]
        run = ran(tmp_path, server, agent)
    assert (run.state.agent_ended, run.valid, run.result.reasons) == ("finished", True, ()), said(
        run
    )
    first, second = transcripts(run)
    assert (first.completed, first.error_kind, second.completed) == (False, "network", True)
    assert first.session_id and first.session_id == second.session_id
    assert (heldout(run), len(run.state.submissions)) == (500, 2)
    served, seen = server.tokens(), used(run)
    # Neither forgotten nor counted twice; one attempt's proxy has estimated the answer that broke
    # off.
    assert seen.output == served.output and seen.fresh >= served.fresh
    steps = [step for one in (first, second) for step in one.steps if step.source == "agent"]
    assert sum(any(not is_wait(call) for call in step.calls) for step in steps) == 7
