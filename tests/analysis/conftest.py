"""Runs and sweeps on disk, written by the kernel's own writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evopolicy.kernel.files.program import Program, ProgramStore, capture, link_program
from evopolicy.kernel.ports.outcome import Graded, Outcome, PolicyFailure
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.ports.protocols import AgentIdentity
from evopolicy.kernel.run.result import graded_path
from evopolicy.kernel.run.sweep import Cell, Sweep, sweep_folder, write_sweep
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import (
    BenchmarkIdentity,
    FeedbackConfig,
    RunRecord,
    write_record,
)
from evopolicy.kernel.session.selection import SelectionConfig, measure
from evopolicy.kernel.session.submission import OUTCOMES, submission_folder, write_graded

LayRun = Callable[..., Path]


def record(label: str, slug: str, seed: int, initial: str, **changes: Any) -> RunRecord:
    values: dict[str, Any] = {
        "schema": 1,
        "key": f"{label}-{slug}-{seed}".encode().hex().ljust(64, "0")[:64],
        "result_key": "r" * 64,
        "agent": AgentIdentity(label, "command"),
        "benchmark": BenchmarkIdentity(
            slug, f"family/{slug.title()}-v1", slug.ljust(64, "d"), "m:f", {}
        ),
        "seed": seed,
        "budget": Budget(4, 8, None, "allow_early", "all"),
        "pool": PoolConfig("derived", 16, 4, 8, 0),
        "pool_secret_digest": "",
        "selection": SelectionConfig("validation_mean", "fewer_failures"),
        "feedback": FeedbackConfig("full", 10**6, False),
        "isolation": "landlock",
        "agent_isolation": "landlock",
        "initial_program": initial,
        "versions": {},
        "machine": {},
        "created": 1.0,
    }
    return RunRecord(**{**values, **changes})


def graded(scores: Sequence[float], failed: int = 0) -> list[Graded]:
    """One Episode a score; the Policy fails in the first `failed` of them."""
    failure = PolicyFailure("exception", "boom", step=3)
    return [
        Graded(
            score,
            Outcome(i, score, 10, "failed", failure)
            if i < failed
            else Outcome(i, score, 10, "terminated"),
        )
        for i, score in enumerate(scores)
    ]


def program(folder: Path, text: str) -> Program:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.py").write_text(text)
    return capture(folder)


@pytest.fixture
def lay_run(tmp_path: Path) -> LayRun:
    """`lay_run(label, slug, seed, heldout, ...)` writes a Run under tmp_path/outputs and returns
    its folder.

    `upto` stops the journal early: 'opened', 'session' or 'ended'. `alike`: every seed has the same
    Programs. Further keywords replace fields of the record."""

    def lay(
        label: str,
        slug: str,
        seed: int = 0,
        heldout: Sequence[float] = (1.0, 2.0, 3.0),
        *,
        failed: int = 0,
        valid: bool = True,
        reasons: Sequence[str] = (),
        upto: str = "ended",
        usage: Mapping[str, Any] | None = None,
        output: Path = tmp_path / "outputs",
        tag: str = "abc",
        alike: bool = False,
        **changes: Any,
    ) -> Path:
        folder = output / "runs" / slug / label / f"s{seed}-{tag}"
        store = ProgramStore(output / "programs")
        first = program(tmp_path / "source", f"# {label} first\n")
        second = program(tmp_path / "source", f"# {label} second\nx = {1 if alike else 1 + seed}\n")
        for one in (first, second):
            store.put(one)
            link_program(folder, store, one.digest)
        write_record(folder, record(label, slug, seed, first.digest, **changes))
        journal = Journal(folder)
        journal.append("opened", key="k")
        if upto != "opened":
            _session(folder, journal, [first.digest, second.digest], usage)
        if upto == "ended":
            _result(folder, journal, second.digest, heldout, failed, valid, reasons)
        journal.close()
        return folder

    return lay


def _session(
    folder: Path, journal: Journal, digests: Sequence[str], usage: Mapping[str, Any] | None
) -> None:
    journal.append("agent_started", attempt=1)
    for number, (digest, scores) in enumerate(
        zip(digests, [(5.0, 7.0), (3.0, 3.0)], strict=True), start=1
    ):
        journal.append("reserved", submission=number, program=digest, selector="0:2", units=2)
        write_graded(submission_folder(folder, number) / OUTCOMES, graded(scores))
        mean = sum(scores) / len(scores)
        journal.append(
            "published",
            submission=number,
            score=mean,
            failures={},
            wall_seconds=2.0,
            policy_seconds=0.5,
        )
    journal.append("closed", by="finish", named=[2])
    journal.append(
        "agent_ended",
        reason="finished",
        exit_code=0,
        thinking_seconds=10.0,
        evaluating_seconds=4.0,
        usage=usage or {},
    )
    journal.append("handoff", candidates=[1, 2], reasons=[])


def _result(
    folder: Path,
    journal: Journal,
    digest: str,
    heldout: Sequence[float],
    failed: int,
    valid: bool,
    reasons: Sequence[str],
) -> None:
    key = "r" * 64
    validation = measure([4.0, 6.0], 0)
    write_graded(graded_path(folder, "validation", digest), graded([4.0, 6.0]))
    journal.append(
        "validated",
        result=key,
        program=digest,
        measurement=msgspec.to_builtins(validation),
        wall_seconds=1.0,
    )
    journal.append("selected", result=key, program=digest, submission=2)
    write_graded(graded_path(folder, "assessment", digest), graded(heldout, failed))
    assessed = msgspec.to_builtins(measure(heldout, failed))
    journal.append("assessed", result=key, program=digest, measurement=assessed, wall_seconds=3.0)
    journal.append("ended", result=key, valid=valid, reasons=list(reasons))


@pytest.fixture
def lay_sweep(tmp_path: Path) -> Callable[..., Path]:
    """`lay_sweep(cells)` writes a sweep over tmp_path/outputs and returns its folder."""

    def lay(
        cells: Sequence[Cell], output: Path = tmp_path / "outputs", name: str = "trial"
    ) -> Path:
        write_sweep(output, Sweep(1, name, 0.0, tuple(cells)))
        return sweep_folder(output, name)

    return lay


def cell(
    label: str,
    benchmark: str,
    seed: int = 0,
    status: str = "finished",
    error: str = "",
    tag: str = "abc",
) -> Cell:
    return Cell(
        f"runs/{benchmark}/{label}/s{seed}-{tag}", label, benchmark, seed, (), status, error
    )


@pytest.fixture
def plan() -> Callable[..., Cell]:
    """`plan(label, benchmark, seed, status, error)` is a sweep's cell for a Run that `lay_run`
    would write."""
    return cell
