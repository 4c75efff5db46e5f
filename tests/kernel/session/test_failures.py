"""The failure table is what the Run decides by; `test_run.py` goes through its rows with whole
Runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evopolicy.kernel.run import attempt
from evopolicy.kernel.session import failures
from evopolicy.kernel.session.failures import MEANINGS, invalidates_run, restarts


def test_only_what_is_nobodys_doing_keeps_a_run_out_of_tables() -> None:
    spoiled = {"engine_fault", "provider", "authentication", "unanswered", "host_killed"}
    assert {name for name in MEANINGS if invalidates_run(name)} == spoiled
    assert not invalidates_run("finish") and not invalidates_run("budget")


@pytest.mark.parametrize(
    ("ended", "resumes", "again"),
    [
        ("", False, True),
        ("not_started", False, True),
        ("provider", False, True),
        ("host_killed", True, True),
        ("host_killed", False, False),
        ("finished", True, False),
        ("wall_time", True, False),
        ("crashed", True, False),
    ],
)
def test_agent_is_started_again_only_where_its_end_was_not_its_own(
    ended: str, resumes: bool, again: bool
) -> None:
    assert restarts(ended, resumes=resumes) is again


def test_every_way_an_attempt_can_end_has_its_row() -> None:
    source = Path(attempt.__file__).read_text()
    doc = re.search(r'class AgentEnd:.*?"""(\'.*?)"""', source, re.DOTALL)
    assert doc
    words = set(re.findall(r"'(\w+)'", doc[1])) - {
        "host_failed"
    }  # the Host itself stops; nothing is decided
    assert words
    assert words <= set(MEANINGS)


def test_charged_and_graded_are_as_the_design_says() -> None:
    assert [name for name, row in MEANINGS.items() if row.charged] == [
        "policy_failed",
        "engine_fault",
    ]
    assert [name for name, row in MEANINGS.items() if row.graded] == [
        "policy_failed",
        failures.NOTHING_PUBLISHED,
    ]
