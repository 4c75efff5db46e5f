"""`replay` against the record of an earlier Run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents import load_agent
from evopolicy.agents.contract import check_agent
from evopolicy.kernel.errors import AgentError, RecordError
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.ports.protocols import AgentIdentity, AgentIntegration
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.record import (
    BenchmarkIdentity,
    FeedbackConfig,
    RunRecord,
    write_record,
)
from evopolicy.kernel.session.selection import SelectionConfig

RECORD = RunRecord(
    schema=1, key="k", result_key="r", agent=AgentIdentity("clever", "clever"),
    benchmark=BenchmarkIdentity("bowl", "test/Bowl-v0", "d", "test:bowl", {}), seed=0,
    budget=Budget(4, 8, None, "allow_early", "all"), pool=PoolConfig("derived", 64, 1, 1, 0), pool_secret_digest="",
    selection=SelectionConfig("last", "latest"), feedback=FeedbackConfig("score", 2**20, False), isolation="none",
    agent_isolation="none", initial_program="", versions={}, machine={}, created=0.0,
)  # fmt: skip


def replay(source: Path | str) -> AgentIntegration:
    return load_agent("replay", {"name": "replay", "label": "", "model": "", "source": str(source)})


@pytest.fixture
def source(host: Callable[..., Any]) -> Any:
    """A finished Run of three Submissions, the second a failed one, that named the third and the
    first."""
    earlier = host("smoke", "earlier")
    earlier.executor.faulty = {9}
    with earlier.open() as (session, _):
        for number, selector in ((1, "4:6"), (2, "9"), (3, "0,7")):
            (earlier.workspace / "program" / "params.json").write_text(json.dumps({"gain": number}))
            (earlier.workspace / "program" / f"only_{number}.txt").write_text("x")
            session.handle("submit", {"path": "program", "episodes": selector})
            (earlier.workspace / "program" / f"only_{number}.txt").unlink()
        session.handle("finish", {"candidates": [3, 1]})
    run = earlier.folder / "run"
    write_record(run, RECORD)
    return earlier


def test_submits_the_published_programs_again_and_finishes_alike(
    host: Callable[..., Any], source: Any
) -> None:
    now = host("smoke", "now")
    with now.open():
        ended = now.agent(replay(source.folder / "run"))
    assert (ended.code, ended.stderr) == (0, "")
    first, _, third = source.submitted()
    assert now.submitted() == [first, third]
    assert now.state().named == (2, 1)
    assert [s.score for s in now.state().submissions] == [
        source.state().submissions[i].score for i in (0, 2)
    ]


def test_goes_on_after_the_host_was_killed(host: Callable[..., Any], source: Any) -> None:
    now = host("smoke", "now")
    agent = replay(source.folder / "run")
    with now.open() as (session, _):
        session.handle("submit", {"path": "program", "episodes": "4:6"})
    with now.open():
        assert now.agent(agent, resumed=True).code == 0
    assert [selector for _, selector in now.submitted()] == ["4:6", "0,7"]
    assert now.state().named == (2, 1)


def test_a_budget_it_does_not_fit_is_said(host: Callable[..., Any], source: Any) -> None:
    now = host("one", "now")
    with now.open():
        ended = now.agent(replay(source.folder / "run"))
    assert ended.code == 1
    assert "2 Episodes are asked for" in ended.stderr


def test_identity_is_what_was_submitted_not_where_it_lies(source: Any, tmp_path: Path) -> None:
    shutil.copytree(source.folder, tmp_path / "moved", symlinks=True)
    moved = replay(tmp_path / "moved" / "run").identity
    assert moved == replay(source.folder / "run").identity
    assert str(tmp_path) not in json.dumps(dict(moved.options))


def test_keeps_the_contract(source: Any) -> None:
    check_agent(replay(source.folder / "run"))


def test_a_source_that_cannot_be_replayed_is_named_before_anything_starts(
    source: Any, tmp_path: Path
) -> None:
    with pytest.raises(AgentError, match=r"agent\.source: is empty"):
        replay("").probe()
    with pytest.raises(RecordError, match="not a Run's folder"):
        replay(tmp_path / "nothing").probe()
    (source.folder / "run" / "programs" / source.submitted()[0][0]).unlink()
    with pytest.raises(AgentError, match="lacks the Program"):
        replay(source.folder / "run").probe()
