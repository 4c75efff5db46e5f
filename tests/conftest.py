"""Small, realistic Run and sweep folders, written with the Kernel's own functions, for whoever
reads records."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evopolicy.kernel.files.program import ProgramStore, capture
from evopolicy.kernel.files.seal import seal
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.ports.protocols import AgentIdentity
from evopolicy.kernel.run.sweep import SCHEMA as SWEEP_SCHEMA
from evopolicy.kernel.run.sweep import Cell, Sweep, write_sweep
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import (
    SCHEMA,
    BenchmarkIdentity,
    FeedbackConfig,
    Run,
    RunRecord,
    feedback_folder,
    load_run,
    write_record,
)
from evopolicy.kernel.session.selection import SelectionConfig, measure

# Records made by tests are sealed by a key of the tests' own, never by that of the user who runs
# them.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="evopolicy-tests-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
STEPS = (
    "opened",
    "submission 1",
    "submission 2",
    "agent_ended",
    "validated",
    "selected",
    "assessed",
    "ended",
)
"""How far a made Run may have come."""
UNITS = 8


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of an `xdist_group` in one worker.

    pytest-xdist 3.8 writes the group into `Item._nodeid`, which pytest 9.2 reads no more: without
    the group in its id each test goes to any worker, and a module's fixture is set up in every one
    of them."""
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        suffix = f"@{'_'.join(groups)}"
        if groups and not item.nodeid.endswith(suffix):
            item._id = type(item._id).parse(item.nodeid + suffix)


def a_record(
    agent: str = "cma_es", benchmark: str = "cartpole", seed: int = 0, **changes: Any
) -> RunRecord:
    """The record of one cell; `changes` replace fields."""
    key = f"{agent}-{benchmark}-{seed}".encode().hex()[:64].ljust(64, "0")
    record = RunRecord(
        schema=SCHEMA,
        key=key,
        result_key=key[::-1],
        agent=AgentIdentity(agent, agent),
        benchmark=BenchmarkIdentity(
            benchmark,
            f"classic_control/{benchmark}-v1",
            "ab" * 32,
            "evopolicy_classic_control:load",
            {},
        ),
        seed=seed,
        budget=Budget(4, 64, None, "allow_early", "all"),
        pool=PoolConfig("derived", 16, 4, 8, 0),
        pool_secret_digest="cd" * 32,
        selection=SelectionConfig("validation_mean", "fewer_failures"),
        feedback=FeedbackConfig("full", 2**20, True),
        isolation="landlock",
        agent_isolation="landlock",
        initial_program="00" * 32,
        versions={"python": "3.11.9", "evopolicy": "0.1.0"},
        machine={"cores": 2, "platform": "linux"},
        created=1_700_000_000.0 + seed,
        config={
            "agent": {"name": agent, "options": {"sigma": 0.3, "names": ["a", "b"]}},
            "seed": seed,
        },
    )
    return replace(record, **changes)


def write_run(
    output: Path,
    record: RunRecord | None = None,
    *,
    scores: Sequence[float] = (100.0, 200.0),
    heldout: Sequence[float] = (190.0, 210.0),
    until: str = "ended",
    reason: str = "finished",
    valid: bool = True,
    usage: Mapping[str, Any] | None = None,
    fault: str = "",
) -> Path:
    """A Run's folder under `output/runs`, as far as the step `until` (one of STEPS); called again,
    it goes on.

    `scores` are those of its two Submissions of eight Episodes each; `heldout` the Assessment's
    Episode scores; `fault` the provider's error its first attempt ended with, at the step 'opened',
    before a second one goes on."""
    record = record or a_record()
    folder = (
        output
        / "runs"
        / record.benchmark.slug
        / record.agent.label
        / f"s{record.seed}-{record.key[:12]}"
    )
    if not (folder / "record.json").exists():
        write_record(folder, record)
    journal = Journal(folder)
    programs = [_program(output, folder, f"{record.agent.label} {record.seed} {n}") for n in (1, 2)]
    lines = _script(
        record,
        programs,
        scores,
        heldout,
        reason,
        valid,
        usage or {"output_tokens": 1200, "cost_usd": 0.5},
    )
    if fault:
        ended = {"reason": "provider", "error": fault, "error_kind": "overload"}
        lines[2:2] = [
            ("opened", "agent_ended", ended),
            ("submission 1", "agent_started", {"attempt": 2}),
        ]
    for n, (step, event, content) in enumerate(lines):
        if n >= len(journal.events):
            if event == "published":
                _feedback(folder, content["submission"], content["score"])
            _append(journal, record.created + n, event, content)
        if step == until and (n + 1 == len(lines) or lines[n + 1][0] != until):
            break
    journal.close()
    return folder


def follow_rule(folder: Path, result_key: str, *, heldout: Sequence[float]) -> None:
    """Give the written Run in `folder` another result: the last Submission's Program, under the
    rule 'last'."""
    record = load_run(folder).record
    newer = replace(record, result_key=result_key, selection=SelectionConfig("last", "latest"))
    write_record(folder, record.followed_by(newer))
    program = load_run(folder).state.submissions[-1].program
    measured = msgspec.to_builtins(measure(heldout, 0))
    journal = Journal(folder)
    start = record.created + 1_000
    for event, content in (
        ("resumed", {}),
        ("selected", {"program": program, "submission": 2}),
        ("assessed", {"program": program, "measurement": measured, "wall_seconds": 1.0}),
        ("ended", {"valid": True, "reasons": []}),
    ):
        _append(journal, start + len(journal.events), event, {"result": result_key, **content})
    journal.close()


def _append(journal: Journal, time: float, event: str, content: Mapping[str, Any]) -> None:
    """With a time that is the same in every test run."""
    line = {"n": len(journal.events), "time": time, "event": event, **content}
    journal._file.write(json.dumps(line, sort_keys=True).encode() + b"\n")
    journal._file.flush()
    journal.events.append(line)


def _script(
    record: RunRecord,
    programs: Sequence[str],
    scores: Sequence[float],
    heldout: Sequence[float],
    reason: str,
    valid: bool,
    usage: Mapping[str, Any],
) -> list[tuple[str, str, dict[str, Any]]]:
    key = record.result_key
    lines: list[tuple[str, str, dict[str, Any]]] = [
        ("opened", "opened", {"key": record.key}),
        ("opened", "agent_started", {"attempt": 1}),
    ]
    for n, (program, score) in enumerate(zip(programs, scores, strict=True), start=1):
        step = f"submission {n}"
        start = (n - 1) * UNITS % 16
        reserved = {
            "submission": n,
            "program": program,
            "selector": f"{start}:{start + UNITS}",
            "units": UNITS,
        }
        published = {
            "submission": n,
            "score": score,
            "failures": {"exception": 2} if n == 1 else {},
        }
        lines.append((step, "reserved", reserved))
        lines.append((step, "published", {**published, "wall_seconds": 1.5, "policy_seconds": 0.5}))
    closed = {"by": "finish", "named": []}
    ended = {
        "reason": reason,
        "exit_code": 0,
        "thinking_seconds": 10.0,
        "evaluating_seconds": 3.0,
        "usage": usage,
    }
    lines.append(("agent_ended", "closed", closed))
    lines.append(("agent_ended", "agent_ended", ended))
    lines.append(("validated", "handoff", {"candidates": [1, 2], "reasons": []}))
    for program, score in zip(programs, scores, strict=True):
        measured = msgspec.to_builtins(measure([score - 5, score - 15], 0))
        content = {"result": key, "program": program, "measurement": measured, "wall_seconds": 2.0}
        lines.append(("validated", "validated", content))
    best = max(range(2), key=lambda i: scores[i])
    assessed = {
        "result": key,
        "program": programs[best],
        "measurement": msgspec.to_builtins(measure(heldout, 1)),
    }
    lines.append(
        ("selected", "selected", {"result": key, "program": programs[best], "submission": best + 1})
    )
    lines.append(("assessed", "assessed", {**assessed, "wall_seconds": 4.0}))
    lines.append(
        (
            "ended",
            "ended",
            {"result": key, "valid": valid, "reasons": [] if valid else ["provider"]},
        )
    )
    return lines


def _program(output: Path, folder: Path, text: str) -> str:
    """The digest of a small Program, stored and linked into the Run's folder as a Host does it."""
    source = folder / ".program"
    source.mkdir(parents=True, exist_ok=True)
    (source / "policy.py").write_text(f"# {text}\ndef make_policy(context):\n    return None\n")
    (source / "notes.html").write_text("<script>alert(1)</script>\n")
    program = capture(source)
    stored = ProgramStore(output / "programs").put(program)
    link = folder / "programs" / program.digest
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(stored, link.parent))
    for name in ("policy.py", "notes.html"):
        (source / name).unlink()
    source.rmdir()
    return program.digest


def _feedback(folder: Path, submission: int, score: float) -> None:
    target = feedback_folder(folder, submission)
    (target / "episodes").mkdir(parents=True, exist_ok=True)
    (target / "episodes" / "0000.csv").write_text("step,reward\n0,1.0\n")
    (target / "trace.npz").write_bytes(b"bulk")
    artifacts = [
        {
            "file": "episodes/0000.csv",
            "media_type": "text/csv",
            "retention": "permanent",
            "bytes": 18,
        },
        {"file": "trace.npz", "media_type": "application/x-npz", "retention": "bulk", "bytes": 4},
    ]
    content = {"submission": submission, "score": score, "artifacts": artifacts}
    (target / "feedback.json").write_text(json.dumps(content))


def cell_of(output: Path, folder: Path, status: str = "finished", error: str = "") -> Cell:
    """The sweep's cell of a written Run."""
    record = load_run(folder).record
    run = folder.relative_to(output).as_posix()
    return Cell(
        run, record.entry, record.benchmark.slug, record.seed, (), status, error, record.result_key
    )


def write_cells(
    output: Path,
    name: str,
    cells: Sequence[Cell],
    *,
    tracking: Mapping[str, str] | None = None,
    created: float = 1_700_000_000.0,
) -> Sweep:
    """A sweep's folder with these cells."""
    store = dict(tracking or {})
    sweep = Sweep(
        SWEEP_SCHEMA, name, created, tuple(cells), suite="quick", tracking=store, seal=seal(store)
    )
    write_sweep(output, sweep)
    return sweep


@pytest.fixture
def make_record() -> Callable[..., RunRecord]:
    """`make_record(agent, benchmark, seed, **fields)`: a RunRecord."""
    return a_record


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """`make_run(record=None, *, scores, heldout, until, reason, valid, usage)`: a loaded Run under
    `tmp_path`."""

    def make(record: RunRecord | None = None, **options: Any) -> Run:
        return load_run(write_run(tmp_path, record, **options))

    return make


@pytest.fixture
def make_sweep(tmp_path: Path) -> Callable[..., Sweep]:
    """`make_sweep(name, agents, benchmarks, seeds)`: a sweep under `tmp_path` whose Runs are all
    finished.

    Later agents and Benchmarks score higher. `tracking` is `Sweep.tracking`.
    """

    def make(
        name: str = "quick",
        agents: Sequence[str] = ("baseline", "cma_es"),
        benchmarks: Sequence[str] = ("cartpole", "pendulum"),
        seeds: int = 2,
        **options: Any,
    ) -> Sweep:
        cells = []
        for b, benchmark in enumerate(benchmarks):
            for a, agent in enumerate(agents):
                for seed in range(seeds):
                    mean = 100.0 * (b + 1) + 50.0 * a + seed
                    record = a_record(agent, benchmark, seed)
                    folder = write_run(
                        tmp_path, record, scores=(mean - 20, mean), heldout=(mean - 1, mean + 1)
                    )
                    cells.append(cell_of(tmp_path, folder))
        return write_cells(tmp_path, name, cells, **options)

    return make


@pytest.fixture
def records() -> Any:
    """The functions of this module, for tests that build their Runs piece by piece."""
    return _Records


class _Records:
    a_record = staticmethod(a_record)
    write_run = staticmethod(write_run)
    follow_rule = staticmethod(follow_rule)
    cell_of = staticmethod(cell_of)
    write_cells = staticmethod(write_cells)
