"""Whatever JSON an agent sends, the Host answers or refuses; nothing is charged but what was
accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evopolicy.kernel.session.arguments import ARGUMENTS as VERBS
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.session import Session
from evopolicy.kernel.session.state import Ledger
from evopolicy.session.gateway import answer
from tests.kernel.bench import BUDGET, Stage, write_program

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
PATHS = st.text() | st.sampled_from(
    ["program", "feedback", ".", "..", "/", "program/policy.py", "link", "pipe", "\0"]
)
SELECTORS = st.text("0123456789:, ", max_size=8) | st.text(max_size=5)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["path", "episodes", "detach", "submission", "candidates", "other"]), JSON, max_size=3
) | st.fixed_dictionaries({"path": PATHS, "episodes": SELECTORS}) | st.fixed_dictionaries({"path": PATHS})  # fmt: skip
CALLS = st.fixed_dictionaries({"verb": st.sampled_from([*VERBS, "_submit", "close", ""])}, optional={
    "arguments": ARGUMENTS | JSON,
})  # fmt: skip


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = Stage(
        tmp_path_factory.mktemp("stage"), budget=replace(BUDGET, submissions=1_000, episodes=2_000)
    )
    stage.prepare(Path())
    write_program(stage.workspace / "program", 1)
    (stage.workspace / "link").symlink_to("program")
    (stage.workspace / "pipe").mkdir()
    return stage


@pytest.fixture(scope="module")
def session(stage: Stage) -> Iterator[Session]:
    journal = Journal(stage.folder)
    session = Session(stage.site(), Ledger(journal))
    yield session
    session.settle()
    journal.close()


def encode(call: Any) -> bytes:
    return json.dumps(call).encode()


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(call=CALLS | JSON)
def test_every_call_is_answered_or_refused_and_only_an_accepted_one_is_charged(
    session: Session, call: Any
) -> None:
    if isinstance(call, dict) and call.get("verb") == "finish":
        return  # it may well be accepted, and that is the end
    before = _used(session)
    response = answer(session, encode(call))
    json.dumps(response, allow_nan=False)
    assert session.failure is None
    if response["ok"]:
        assert response["result"]["state"] in ("open", "running")
    else:
        assert response["code"] != "internal", call
        assert response["reason"]
    accepted = response["ok"] and isinstance(call, dict) and call["verb"] == "submit"
    assert (_used(session) == before) != bool(accepted)


def _used(session: Session) -> int:
    budget = session.handle("status", {})["budget"]
    return int(budget["episodes_total"] - budget["episodes_left"])


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(line=st.binary(max_size=200))
def test_any_bytes_are_answered(session: Session, line: bytes) -> None:
    response = answer(session, line)
    assert response["ok"] or response["code"] != "internal"
    assert session.failure is None
