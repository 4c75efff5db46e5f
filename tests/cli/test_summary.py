"""What people are told of an agent's work and its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.cli.summary import (
    cost_text,
    print_run,
    print_sweep,
    print_table_or_why,
    tokens_text,
    usage_line,
)
from evopolicy.kernel.session.record import Run
from evopolicy.kernel.session.state import RunState
from evopolicy.sweeps.board import Board, CellState


@pytest.mark.parametrize(
    ("dollars", "estimate", "text"),
    [
        (0.0, False, "$0.00"),
        (0.01234, False, "$0.012"),
        (1234.5, False, "$1,234.50"),
        (0.53, True, "≈ $0.53"),
    ],
)
def test_a_cost_that_is_an_estimate_is_marked(dollars: float, estimate: bool, text: str) -> None:
    assert cost_text({"cost_usd": dollars, "cost_is_estimate": estimate}) == text


def test_tokens_are_told_by_kind() -> None:
    usage = {
        "input_tokens": 1000,
        "cached_tokens": 5000,
        "cache_write_tokens": None,
        "output_tokens": 1200,
    }
    assert (
        tokens_text({**usage, "reasoning_tokens": 300})
        == "1,000 input, 5,000 cached, 1,200 output (300 reasoning)"
    )
    assert tokens_text({"requests": 3, "reasoning_tokens": 2}) == ""


def test_a_runs_summary_has_its_agents_totals(
    make_run: Callable[..., Run], capsys: Any, make_record: Any
) -> None:
    usage = {"output_tokens": 1200, "cost_usd": 0.5, "cost_is_estimate": True, "requests": 9}
    run = make_run(
        make_record(config={"prices": {"as_of": "2025-11-30", "models": {}}}), usage=usage
    )
    state = replace(
        run.state,
        turns=3,
        tool_calls=1,
        agent_attempts=2,
        unexplained_tokens=500,
        agent_error="529\x1b[2J",
    )
    print_run(replace(run, state=state), "", tracked=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "agent finished, 3 turns, 1 tool call, 9 requests, 2 attempts" in lines
    assert "time thinking 10s, evaluating 3s" in lines
    assert "tokens 1,200 output" in lines
    assert "cost ≈ $0.50 (an estimate by prices of 2025-11-30)" in lines
    assert "UNEXPLAINED 500 tokens its stream does not tell of" in lines
    assert "\x1b" not in "".join(lines)


def test_few_tokens_more_are_no_matter(make_run: Callable[..., Run], capsys: Any) -> None:
    run = make_run(usage={"output_tokens": 1200})
    print_run(replace(run, state=replace(run.state, unexplained_tokens=3)), "", tracked=False)
    out = capsys.readouterr().out
    assert "UNEXPLAINED" not in out
    assert (
        "cost            unknown: prices= has no price of its model; give it in agent.price" in out
    )


def test_a_sweeps_summary_adds_up_what_is_known(
    make_run: Any, make_record: Any, tmp_path: Path, capsys: Any
) -> None:
    runs = [
        make_run(make_record("a"), usage={"output_tokens": 1000, "cost_usd": 1.0}),
        make_run(
            make_record("b"),
            usage={"output_tokens": 500, "cost_usd": 0.25, "cost_is_estimate": True},
        ),
        make_run(make_record("c"), usage={"requests": 3}),
    ]
    cells = [
        CellState("e", "cartpole", 0, folder, "finished")
        for folder in (*(r.folder for r in runs), tmp_path / "x")
    ]
    print_sweep(Board(cells, "none"), tmp_path, "", tracked=False)
    said = (
        "All agents together: 1,500 output tokens, ≈ $1.25 (1 cell of 3 not counted: neither "
        "the provider nor prices="
    )
    assert said in capsys.readouterr().out


def test_a_sum_says_what_it_does_not_know_and_what_it_estimates() -> None:
    known, unknown = (
        {"output_tokens": 1000, "cost_usd": 1.0},
        {"output_tokens": 500, "tokens_are_estimate": True},
    )
    states = [RunState(usage=usage) for usage in (known, unknown)]
    assert usage_line(states) == "≈ 1,500 output tokens, $1.00 and the unknown cost of 1 cell"
    assert usage_line(states[1:]) == "≈ 500 output tokens, cost unknown"


def test_agents_without_a_provider_are_not_summed_up() -> None:
    assert usage_line([RunState(), RunState()]) == ""


def test_runs_that_cannot_be_compared_are_made_all_the_same(
    records: Any, tmp_path: Path, capsys: Any
) -> None:
    records.write_run(tmp_path, records.a_record("ada"))
    records.write_run(tmp_path, records.a_record("bob", isolation="none"))
    assert print_table_or_why(tmp_path) == 0
    assert capsys.readouterr().out.startswith("No rank table: ")
    (next(tmp_path.rglob("bob/*/record.json"))).write_text("{")
    assert print_table_or_why(tmp_path) == 1
    assert "left out of the table: " in capsys.readouterr().err
