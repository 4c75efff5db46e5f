"""The shipped contract of Executors: ours keeps it, and one that breaks it is told which rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution import contract
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.execution.isolation import choose
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.benchmark import BenchmarkReference
from evopolicy.kernel.ports.outcome import EpisodeResult
from evopolicy.kernel.ports.protocols import Isolation, Limits


def make(reference: BenchmarkReference, limits: Limits) -> LocalExecutor:
    return LocalExecutor(reference, limits, workers=2, isolation=choose("auto", False))


@pytest.fixture(scope="module")
def engine() -> Any:
    with make(contract.load().reference, contract.LIMITS) as executor:
        yield executor


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_the_local_engine_keeps_the_contract(engine: LocalExecutor, check: Any) -> None:
    if check is not contract.check_close:
        check(engine)


def test_closing_twice_is_no_error(level: Isolation) -> None:
    executor = LocalExecutor(contract.load().reference, contract.LIMITS, workers=1, isolation=level)
    contract.check_close(executor)


class Disordered(LocalExecutor):
    """An engine that answers in the order in which Episodes happen to end."""

    def evaluate(self, program: Path, episodes: Any, **options: Any) -> list[EpisodeResult]:
        return list(reversed(super().evaluate(program, episodes, **options)))


def test_a_broken_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "CHECKS", (contract.check_identity, contract.check_order))

    def disordered(reference: BenchmarkReference, limits: Limits) -> LocalExecutor:
        return Disordered(reference, limits, workers=1, isolation=choose("auto", False))

    with pytest.raises(ExecutionError, match="in their order"):
        contract.check_executor(disordered)
    contract.check_executor(make)
