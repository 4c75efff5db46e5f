"""From a plain config to a cell: what its key holds, what is refused before anything is spent, what
is reused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import evopolicy
from evopolicy import build, cells, regrade
from evopolicy.execution import isolation
from evopolicy.kernel.errors import ConfigError, IsolationError, RecordError
from evopolicy.kernel.secrecy.pool_secret import POOL_SECRET, pool_secret
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.presets import load_config


def cell(output: Path, **settings: Any) -> cells.CellPlan:
    chosen = {"agent": "baseline", "benchmark": "cartpole", "execution": "landlock", **settings}
    return cells.cell_plan(load_config("smoke", output=str(output), **chosen))


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"agent": {"name": "baseline", "label": "other"}},
        {"agent": {"name": "baseline", "repeats": 2}},
        {"benchmark": "pendulum"},
        {"benchmark": {"name": "cartpole", "max_steps": 50}},
        {"budget": {"episodes": 7, "submissions": 4}},
        {"pool": {"training": 17, "validation": 4, "assessment": 8}},
        {"pool": {"training": 16, "validation": 4, "assessment": 8, "seed": 1}},
        {"feedback": "summary"},
        {"feedback": {"bulk_bytes": 1}},
        {"prompt": "terse"},
        {"session": {"limits": {"wall_seconds": 60}}},
        {"execution": {"isolation": "landlock", "limits": {"act_seconds": 2}}},
        {"seed": 1},
    ],
    ids=str,
)
def test_whatever_the_agent_meets_is_in_the_key(tmp_path: Path, settings: dict[str, Any]) -> None:
    assert cell(tmp_path, **settings).key != cell(tmp_path).key


@pytest.mark.parametrize(
    ("settings", "result_too"),
    [
        ({"suite": "classic"}, True),
        ({"tracking": "off"}, True),
        ({"execution": {"isolation": "landlock", "workers": 1}}, True),
        ({"selection": "last"}, False),
        ({"pool": {"training": 16, "validation": 5, "assessment": 8}}, False),
        ({"pool": {"training": 16, "validation": 4, "assessment": 9}}, False),
    ],
    ids=str,
)
def test_what_the_agent_does_not_meet_never_runs_it_again(
    tmp_path: Path, settings: dict[str, Any], result_too: bool
) -> None:
    plain, other = cell(tmp_path), cell(tmp_path, **settings)
    assert (other.key, other.folder) == (plain.key, plain.folder)
    assert (other.result_key == plain.result_key) == result_too


def test_an_agent_that_cannot_be_held_is_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "choose", lambda *_: "bubblewrap")
    monkeypatch.setattr(
        isolation,
        "probe_agent",
        lambda: isolation.Probed("bubblewrap", False, "no /proc", "unmask it"),
    )
    with pytest.raises(IsolationError, match=r"no /proc \(unmask it\)"):
        cell(tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_skill_counts_by_what_it_says_and_not_by_where_it_lies(tmp_path: Path) -> None:
    def key(folder: str, text: str) -> str:
        skill = tmp_path / folder / "tuning"
        skill.mkdir(parents=True, exist_ok=True)
        (skill / "SKILL.md").write_text(text)
        return cell(tmp_path / "out", prompt={"skills": [str(skill)]}).key

    first = key("here", "Look at the worst Episode.")
    assert key("there", "Look at the worst Episode.") == first
    assert key("here", "Look at the best Episode.") != first
    assert cell(tmp_path / "out").key != first


def test_the_secret_is_in_the_key_and_never_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_POOL", "hidden-words")
    secret = cell(tmp_path, secret={"file": None, "variable": "MY_POOL"})
    assert secret.key != cell(tmp_path).key
    assert "hidden-words" not in repr(secret)


PROVIDED = {"name": "chat", "model": "own", "base_url": "http://127.0.0.1:9/v1"}


def test_a_providers_agent_has_a_pool_that_nobody_can_compute_and_an_offline_one_has_not(
    tmp_path: Path,
) -> None:
    def secret(**settings: Any) -> str:
        config = cells.settled(
            load_config("smoke", benchmark="cartpole", output=str(tmp_path / "out"), **settings)
        )
        cells.cell_plan(config)
        return cells.secret_digest(config.secret.read(tmp_path / "out"))

    offline = {"agent": "baseline", "execution": "landlock"}
    asked = {"file": None, "variable": None, "generated": True}
    refused = {**asked, "generated": False}
    assert secret(**offline) == ""
    assert not (tmp_path / "out" / POOL_SECRET).exists()
    made = secret(agent=PROVIDED)
    assert made and secret(agent=PROVIDED) == made, "a repeated command finds it again"
    assert secret(**offline) == "" and secret(**offline, secret=asked) == made
    assert secret(agent=PROVIDED, secret=refused) == ""
    kept = (tmp_path / "out" / POOL_SECRET).read_text().strip()
    (tmp_path / "mine").write_text(kept)
    assert secret(agent=PROVIDED, secret={"file": str(tmp_path / "mine"), "variable": None}) == made
    with pytest.raises(ConfigError, match="secret: give only one of 'file' and 'generated=true'"):
        secret(agent=PROVIDED, secret={**asked, "file": str(tmp_path / "mine")})


def test_a_record_from_before_there_were_generated_secrets_has_none(tmp_path: Path) -> None:
    config = msgspec.to_builtins(
        load_config("smoke", agent=PROVIDED, benchmark="cartpole", output=str(tmp_path))
    )
    config["secret"] = {"file": None, "variable": None}
    assert cells.settled(build.config_from(config)).secret.read(tmp_path) == b""


@pytest.mark.parametrize("level", ["landlock", "bubblewrap"])
def test_a_generated_secret_is_read_by_no_agent_and_written_to_no_record(
    tmp_path: Path, level: str
) -> None:
    secret = pool_secret(tmp_path, make=True).decode()
    script = f"import sys; print('got', open({str(tmp_path / POOL_SECRET)!r}).read(), flush=True)"
    run = evopolicy.run(
        {"name": "command", "argv": ["python3", "-c", script]},
        "cartpole",
        protocol="smoke",
        pool={"training": 1, "validation": 1, "assessment": 1},
        output=str(tmp_path),
        secret={"file": None, "variable": None, "generated": True},
        execution=level,
    )
    assert run.record.pool_secret_digest == cells.secret_digest(secret.encode())
    assert run.record.config["secret"] == {"file": None, "variable": None, "generated": True}
    (logs,) = run.folder.glob("agent/attempt-*")
    assert (
        "got" not in (logs / "stdout.log").read_text()
        and "Error" in (logs / "stderr.log").read_text()
    )
    holding = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes() and path.name != POOL_SECRET
    ]
    assert holding == []


def test_a_regrade_is_drawn_with_its_runs_own_secret_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evopolicy.run(
        "baseline",
        "cartpole",
        protocol="smoke",
        pool={"training": 1, "validation": 1, "assessment": 1},
        output=str(tmp_path / "out"),
        secret={"file": None, "variable": None, "generated": True},
    )
    monkeypatch.setenv("POOL_WORDS", "another pool altogether")

    def drawn(changes: dict[str, Any]) -> str:
        config = replace(regrade.regraded_config(run, changes), output=str(tmp_path / "elsewhere"))
        return regrade.regraded_record(run, config, regrade.SPLITS).pool_secret_digest

    own = run.record.pool_secret_digest
    assert drawn({}) == own, "wherever the regrade is written to"
    assert drawn({"secret": {"variable": "POOL_WORDS"}}) == cells.secret_digest(
        b"another pool altogether"
    )
    assert drawn({"secret": {"generated": False}}) == ""
    (tmp_path / "out" / POOL_SECRET).write_text("f" * 64 + "\n")
    with pytest.raises(RecordError, match="the pool's secret is not here, or another one"):
        drawn({})
    (tmp_path / "out" / POOL_SECRET).unlink()
    with pytest.raises(ConfigError, match="is not there"):
        drawn({})
    assert not (tmp_path / "out" / POOL_SECRET).exists()
    assert not (tmp_path / "elsewhere").exists()


# --- refused before anything is spent -------------------------------------------------------------


def _empty_file(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "secret").write_text("\n")
    return {"secret": {"file": str(tmp_path / "secret"), "variable": None}}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (_empty_file, ["secret.file", "empty"]),
        (
            lambda _: {"secret": {"file": None, "variable": "EMPTY"}},
            ["secret.variable: 'EMPTY'", "empty"],
        ),
        (lambda _: {"prompt": {"skills": ["/no/such/skill"]}}, ["prompt.skills", "/no/such/skill"]),
        (lambda _: {"session": {"retries": -1}}, ["session.retries: at least 0", "-1"]),
        (
            lambda _: {"session": {"block_seconds": 5_000}},
            ["session.block_seconds", "at most 600", "5000"],
        ),
        (
            lambda _: {"session": {"limits": {"wall_seconds": float("nan")}}},
            ["session.limits.wall_seconds", "nan"],
        ),
        (
            lambda _: {"execution": {"episode_retries": -1}},
            ["execution.episode_retries: at least 0", "-1"],
        ),
        (lambda _: {"execution": {"workers": 0}}, ["execution.workers: at least 1", "found 0"]),
        (lambda _: {"execution": {"workers": 100_000}}, ["execution.workers", "at most 1024"]),
        (
            lambda _: {"execution": {"limits": {"act_seconds": 0}}},
            ["execution.limits.act_seconds", "found 0"],
        ),
        (
            lambda _: {"execution": {"limits": {"act_seconds": 1e300}}},
            ["execution.limits.act_seconds", "at most"],
        ),
        (
            lambda _: {"execution": {"limits": {"scratch_bytes": 0}}},
            ["execution.limits.scratch_bytes", "at least"],
        ),
        (
            lambda _: {"execution": {"limits": {"memory_bytes": 1}}},
            ["execution.limits.memory_bytes", "at least"],
        ),
        (
            lambda _: {"execution": {"limits": {"memory_bytes": 10**17}}},
            ["execution.limits.memory_bytes", "at most"],
        ),
        (lambda _: {"budget": {"episodes": "many"}}, ["budget.episodes: expected 'int'"]),
        (
            lambda _: {"agent": {"name": "command", "argv": ["x", "--key=" + "sk-" + "a1" * 20]}},
            ["agent.argv.1", "name"],
        ),
        (
            lambda _: {
                "agent": {"name": "chat", "model": "unlisted", "base_url": "http://127.0.0.1:9/v1"},
                "session": {"limits": {"cost_usd": 1.0}},
            },
            ["session.limits.cost_usd", "'unlisted'", "prices=mine"],
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, list) else "",
)
def test_a_config_that_cannot_run_is_refused_by_its_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Callable[[Path], dict[str, Any]],
    said: list[str],
) -> None:
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(ConfigError) as refused:
        cell(tmp_path, **settings(tmp_path))
    assert all(words in str(refused.value) for words in said), refused.value


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"split": "heldout"}, "split: unknown split 'heldout'"),
        ({"split": "heldout", "episodes": 3}, "split: unknown split 'heldout'"),
        ({"split": "validation", "episodes": 0, "selection": "last"}, "pool.validation"),
    ],
)
def test_measuring_on_nothing_is_refused(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        evopolicy.evaluate(tmp_path, "cartpole", **options)


# --- a finished Run asked for again ---------------------------------------------------------------


def test_a_finished_run_is_read_by_the_rule_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(**settings: Any) -> Run:
        pool = {"training": 4, "validation": 2, "assessment": 2}
        return evopolicy.run(
            "baseline",
            "cartpole",
            protocol="smoke",
            pool=pool,
            output=str(tmp_path),
            execution="landlock",
            **settings,
        )

    by_mean = asked()
    by_last = asked(selection="last")
    assert by_mean.folder == by_last.folder
    assert by_last.record.selection.rule == "last"
    again = asked()
    assert (again.record.selection.rule, again.result) == ("validation_mean", by_mean.result)
    assert again.record.versions["numpy"]
    assert again.record.isolation == "landlock"

    def no_engine(*_: Any, **__: Any) -> None:
        raise AssertionError("a finished Run needs no engine")

    monkeypatch.setattr(build, "build_executor", no_engine)
    assert asked().result == by_mean.result


def test_a_run_that_ended_invalid_is_kept_aside_and_rerun(tmp_path: Path) -> None:
    """The same command runs the rest of a sweep, and a Run the provider spoiled is part of the
    rest."""

    def asked() -> Run:
        return evopolicy.run(
            {"name": "command", "argv": ["true"]},
            "cartpole",
            protocol="smoke",
            pool={"training": 2, "validation": 1, "assessment": 1},
            output=str(tmp_path),
            execution="landlock",
        )

    first = asked()
    assert first.valid  # nothing published: the initial Program is measured, and that is a result
    _spoil(first)
    second = asked()
    assert second.folder == first.folder and second.valid
    (kept,) = (tmp_path / "invalid").glob("*/*/*")
    assert kept.name == f"{first.folder.name}-1"
    assert not load_run(kept).valid
    assert load_run(kept).record.identity == first.record.identity != second.record.identity
    assert (load_run(kept).program(first.record.initial_program) / "policy.py").exists()


def _spoil(run: Run) -> None:
    """What a provider that stayed unreachable leaves in the journal."""
    path = run.folder / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["event"] in ("handoff", "ended"):
            line["reasons"] = ["provider"]
        if line["event"] == "ended":
            line["valid"] = False
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_regrade_takes_nothing_over_that_was_measured_under_other_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evopolicy.run("baseline", "cartpole", protocol="smoke", output=str(tmp_path))
    monkeypatch.setenv("POOL_WORDS", "another pool altogether")
    limits = {**run.record.config["execution"]["limits"], "act_seconds": 2.0}
    keys = set()
    for changes in (
        {},
        {"secret": {"variable": "POOL_WORDS"}},
        {"execution": {"isolation": "none", "allow_unisolated": True}},
        {"execution": {"policy_packages": ["numpy"]}},
        {"execution": {"limits": limits}},
        {"pool": {"seed": 1}},
    ):
        config = regrade.regraded_config(run, changes)
        record = regrade.regraded_record(run, config, regrade.SPLITS)
        keys.add(record.result_key)
        assert record.pool.training == run.record.pool.training
        program, versions = run.record.initial_program, dict[str, str]()
        known = regrade.Measured.of([run]).have(record, "assessment", program, versions)
        assert bool(known) is (not changes), changes
    assert len(keys) == 6
    other = {"numpy": "0.0"}
    same = regrade.regraded_record(run, regrade.regraded_config(run, {}), regrade.SPLITS)
    assert regrade.Measured.of([run]).have(same, "assessment", program, other) == []
    for refused in ({"pool": {"training": 3}}, {"budget": {"episodes": 1}}):
        with pytest.raises(ConfigError, match=r"regrade: "):
            regrade.regraded_config(run, refused)


def test_no_engine_is_built_without_isolation_unasked(tmp_path: Path) -> None:
    config = load_config("smoke", agent="random", benchmark="cartpole", output=str(tmp_path))
    benchmark = cells.load_benchmark(config.benchmark)
    with pytest.raises(IsolationError, match="allow_unisolated"):
        build.build_executor(
            replace(config.execution, isolation="none", allow_unisolated=False), benchmark
        )
    with pytest.raises(IsolationError, match="allow_unisolated"):
        build.build_executor(config.execution, benchmark, isolation="none")
