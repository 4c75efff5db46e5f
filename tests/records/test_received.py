"""A record from somebody else: it neither chooses how safely it is handled nor gets at what is its
reader's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy import build
from evopolicy.cli.commands.regrade import regrade
from evopolicy.cli.main import main
from evopolicy.kernel.errors import IsolationError, RecordError
from evopolicy.kernel.files.program import archived
from evopolicy.kernel.files.seal import is_ours, key_folder, seal
from evopolicy.kernel.run.stream import load_transcripts
from evopolicy.kernel.run.sweep import read_sweep, run_of
from evopolicy.kernel.session.record import load_run, read_record, run_part
from evopolicy.presets import load_config
from tests.records.hostile import CANARY, lay_own
from tests.records.make import OUTPUT, SWEEP
from tests.records.sets import SETS


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(SETS[-1] / OUTPUT, tmp_path / OUTPUT, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return Path(OUTPUT)


def one(output: Path, pattern: str) -> Path:
    (found,) = output.glob(pattern)
    return found


def change(path: Path, **values: Any) -> None:
    """Set keys of a JSON file, `a__b` for `b` in `a`."""
    content = json.loads(path.read_text())
    for key, value in values.items():
        *way, last = key.split("__")
        inner = content
        for name in way:
            inner = inner[name]
        inner[last] = value
    path.write_text(json.dumps(content))


# --- what lowers safety comes from the command line -----------------------------------------------


def test_a_seal_is_of_this_user_and_of_this_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    content = {"agent": {"argv": ["a"]}, "output": "here", "seed": 1.5}
    made = seal(content)
    folder = key_folder()
    assert folder is not None and [path.name for path in folder.iterdir()] == ["owner.key"]
    assert (folder / "owner.key").stat().st_mode & 0o777 == 0o600
    assert is_ours(json.loads(json.dumps(content)), made)
    assert is_ours({**content, "output": "moved"}, made)
    assert not is_ours({**content, "agent": {"argv": ["b"]}}, made)
    assert not is_ours(content, "") and not is_ours(content, "\u00e9" * 64)
    (folder / "owner.key").chmod(0o644)
    assert not is_ours(content, made), "a key that others can read proves nothing"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert not is_ours(content, made) and seal(content) != made


@pytest.mark.parametrize("what", [["source"], ["sweep"]])
def test_a_resume_of_somebody_elses_record_says_what_it_would_start_and_starts_nothing(
    what: list[str], output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = one(output, "runs/*/cma_es/s2-*")
    mark = Path("started").absolute()
    agent = {"name": "command", "argv": ["/bin/sh", "-c", f"touch {mark}"]}
    if what == ["source"]:
        change(run / "record.json", config__agent=agent)
        words = [f"source={run}"]
    else:
        change(output / "sweeps" / SWEEP / "cells" / "0001.json", config__agent=agent)
        words = [f"sweep={SWEEP}", f"output={output}"]
    assert main(["resume", *words]) == 2
    err = capsys.readouterr().err
    assert (
        "was not made by you on this machine" in err
        and "/bin/sh -c touch" in err
        and "trust=true" in err
    )
    assert not mark.exists()


@pytest.mark.parametrize(
    ("execution", "words"),
    [
        (
            {"isolation": "none", "allow_unisolated": True},
            "execution.isolation=none execution.allow_unisolated=true",
        ),
        ({"agent_network": "open"}, "execution.agent_network=open"),
    ],
)
def test_less_isolation_has_to_be_typed_again_whatever_is_trusted(
    execution: dict[str, Any], words: str, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = one(output, "runs/*/cma_es/s2-*") / "record.json"
    for key, value in execution.items():
        change(record, **{f"config__execution__{key}": value})
    before = (record.parent / "journal.jsonl").read_bytes()
    assert main(["resume", f"source={record.parent}", "trust=true"]) == 2
    assert capsys.readouterr().err.rstrip().endswith(words)
    change(record, seal=seal(read_record(record.parent).config))
    assert main(["resume", f"source={record.parent}"]) == 2, "one's own as well"
    assert (record.parent / "journal.jsonl").read_bytes() == before


def test_a_run_that_goes_on_never_does_so_at_a_lower_level_than_the_command_asks_for(
    output: Path,
) -> None:
    """The level in the record alone: a plain command would have gone on without any isolation."""
    run = one(output, "runs/*/cma_es/s2-*")
    change(run / "record.json", isolation="none")
    config = load_config("smoke", agent="cma_es", benchmark="cartpole", output=str(output))
    with pytest.raises(
        IsolationError, match=r"began with isolation none.*execution.allow_unisolated=true"
    ):
        build._isolation(config, load_run(run))


def test_a_regrade_takes_no_isolation_packages_or_secret_from_a_record(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Program of somebody's ran without isolation since its record said so; the other Runs are
    graded."""
    first, second = sorted(output.glob("runs/*/cma_es/s[01]-*"))
    asked = [
        f"source={output}",
        f"output={output}",
        "pool.assessment=6",
        "name=again",
        "execution.workers=1",
    ]
    for values, message in (
        (
            {"isolation": "none", "allow_unisolated": True},
            "execution.isolation=none execution.allow_unisolated=true",
        ),
        ({"policy_packages": ["numpy", "torch"]}, "execution.policy_packages=[numpy,torch]"),
    ):
        kept = (first / "record.json").read_text()
        for key, value in values.items():
            change(first / "record.json", **{f"config__execution__{key}": value})
        assert regrade(asked) == 1
        assert message in capsys.readouterr().out
        (first / "record.json").write_text(kept)
    own = Path("own-secret").absolute()
    own.write_text(CANARY)
    change(first / "record.json", config__secret__file=str(own))
    assert regrade(asked) == 1
    out = capsys.readouterr().out
    assert "say where yours is: secret.file=FILE" in out and f"s{second.name[1]}" in second.name


def test_a_regrade_loads_no_code_that_a_record_names(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record's `env_id` named a module: it was imported by whoever graded its Programs again,
    without isolation."""
    run = one(output, "runs/*/cma_es/s0-*")
    Path("named_by_a_record.py").write_text("import pathlib\npathlib.Path('imported').touch()\n")
    benchmark = {
        "name": "gymnasium",
        "env_id": "named_by_a_record:CartPole-v1",
        "failure_score": 0.0,
    }
    kwargs = {"env_id": "HalfCheetah-v5", "kwargs": {"xml_file": "/home/you/.ssh/id_rsa"}}
    asked = [f"source={run}", f"output={output}", "execution.workers=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(".")
        for values in (benchmark, {**benchmark, **kwargs}):
            change(run / "record.json", config__benchmark=values)
            assert regrade(asked) == 1
            out = capsys.readouterr().out
            assert "was not made by you on this machine, and loads" in out and "trust=true" in out
            assert not Path("imported").exists()


def test_a_regrade_believes_no_score_of_a_record_that_was_not_made_here(output: Path) -> None:
    """Scores that its maker had written into `evaluations/` were taken over, as if they had been
    measured here."""
    run = one(output, "runs/*/cma_es/s0-*")
    for path in run.glob("evaluations/*/*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**line, "score": 999.0}) + "\n" for line in lines))
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    for event in events:
        event.get("measurement", {}).update(mean=999.0, standard_error=0.0)
    (run / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    asked = [f"source={run}", f"output={output}", "execution.workers=1", "splits=assessment"]
    means = {}
    for name, words in (
        ("believed", ["trust=true"]),
        ("measured", []),
        ("more", ["pool.assessment=5"]),
    ):
        regrade([*asked, f"name={name}", *words])
        found = load_run(one(output, f"regrades/{name}/cartpole/cma_es/*"))
        assert found.result.assessment is not None
        means[name] = found.result.assessment.mean
    assert means["believed"] == 999.0
    assert means["measured"] < 500.0 and means["more"] < 500.0, "nor what was taken over from it"


def test_a_sweep_of_somebody_else_does_not_say_where_its_results_are_sent(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = Path("away.db").absolute()
    change(
        output / "sweeps" / SWEEP / "sweep.json",
        tracking={"uri": f"sqlite:///{away}", "experiment": "x"},
    )
    for words in (
        ["track", f"sweep={SWEEP}"],
        ["ui", f"sweep={SWEEP}"],
        ["report", f"sweep={SWEEP}", "log=true"],
    ):
        assert main([*words, f"output={output}"]) == 2
        assert "say which store is meant: tracking.uri=URI" in capsys.readouterr().err
    assert not away.exists()
    sweep = read_sweep(output / "sweeps" / SWEEP)
    assert is_ours(sweep.tracking, seal(sweep.tracking))


# --- nothing of the reader's gets out -------------------------------------------------------------


def test_a_digest_is_no_path_and_a_programs_link_leads_to_that_program(output: Path) -> None:
    own = lay_own(Path("own").absolute(), output).own
    run = load_run(one(output, "runs/*/cma_es/s0-*"))
    program = run.state.submissions[0].program
    kept = archived(run.folder, program)
    assert kept is not None and kept.digest == program
    for name in (
        str(own),
        os.path.relpath(own, run.folder / "programs"),
        "..",
        program[:-1],
        program.upper(),
    ):
        with pytest.raises(RecordError, match="not a Program's digest"):
            archived(run.folder, name)
    link = run.program(program)
    for target in (own, own / "programs" / "ab" / ("ab" * 32), Path("/etc")):
        link.unlink()
        link.symlink_to(target)
        with pytest.raises(RecordError, match="is a link, and not to a store of Programs"):
            archived(run.folder, program)
    stolen = "ab" * 32
    (run.folder / "programs" / stolen).symlink_to(own / "programs" / "ab" / stolen)
    with pytest.raises(RecordError, match="not those of its digest"):
        archived(run.folder, stolen)
    link.unlink()
    assert archived(run.folder, program) is None


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ("submissions", ""),
        ("submissions/0001", "0001"),
        ("submissions/0001/feedback", "feedback"),
        ("submissions/0001/feedback/feedback.json", "feedback.json"),
        ("agent", ""),
        ("agent/attempt-1", "attempt-1"),
        ("agent/attempt-1/transcript.json", "attempt-1/transcript.json"),
        ("agent/attempt-1/stdout.log", "attempt-1/stdout.log"),
        ("evaluations/assessment", ""),
        ("programs", "programs/ab"),
    ],
)
def test_no_link_in_a_record_is_followed(
    place: str, target: str, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = lay_own(Path("own").absolute(), output).own
    path = one(output, "runs/*/chat/s10-*") / place
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(own / target)
    main(
        [
            "report",
            f"source={path.relative_to(output).parts and one(output, 'runs/*/chat/s10-*')}",
            "to=page.html",
        ]
    )
    text = Path("page.html").read_text() if Path("page.html").exists() else ""
    assert CANARY not in text + "".join(capsys.readouterr())


def test_a_regrades_part_is_that_of_the_run_it_was_made_of(output: Path) -> None:
    graded = one(output, "regrades/again/*/*/s0-*")
    parent = one(output, "runs/*/cma_es/s0-*").resolve()
    assert run_part(graded, "agent/attempt-1") == (parent, "agent/attempt-1")
    assert len(load_transcripts(graded)) == 1
    own = lay_own(Path("own").absolute(), output).own
    (graded / "agent").unlink()
    for target in (own, one(output, "runs/*/chat/s10-*").resolve() / "agent"):
        (graded / "agent").symlink_to(target)
        with pytest.raises(RecordError, match="not a regrade's to the Run it was made of"):
            load_transcripts(graded)
        (graded / "agent").unlink()
    run = one(output, "runs/*/cma_es/s0-*")
    shutil.rmtree(run / "agent")
    (run / "agent").symlink_to(one(output, "runs/*/cma_es/s1-*").resolve() / "agent")
    with pytest.raises(RecordError, match="not a regrade's"):
        load_transcripts(run)


def test_a_cell_outside_the_output_folder_is_refused(output: Path) -> None:
    folder = output / "sweeps" / SWEEP
    content = (folder / "sweep.json").read_text()
    for place in ("../..", "/etc", "runs/../../x", ""):
        value = json.loads(content)
        value["cells"][0]["run"] = place
        (folder / "sweep.json").write_text(json.dumps(value))
        with pytest.raises(RecordError, match="lies outside the output folder"):
            read_sweep(folder)
    (folder / "sweep.json").write_text(content)
    cell = read_sweep(folder).cells[0]
    shutil.move(output / cell.run, "elsewhere")
    (output / cell.run).symlink_to(Path("elsewhere").absolute())
    with pytest.raises(RecordError, match="out of the output folder"):
        run_of(output, cell)


def slug(record: Path) -> None:
    change(record, benchmark__slug="../../../../own")


def agent_name(record: Path) -> None:
    """It named the folder of a regrade where the label has nothing a path may hold."""
    change(record, agent__name="../../../../../own", agent__label="-")


def digest(record: Path) -> None:
    change(record, initial_program="/etc")


def shape(record: Path) -> None:
    change(record, config__execution=["x"])


def year(record: Path) -> None:
    change(record, created=1e300)


@pytest.mark.parametrize("spoil", [slug, agent_name, digest, shape, year])
def test_what_a_record_says_is_looked_at_before_it_is_used(
    spoil: Callable[[Path], None], output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = one(output, "runs/*/cma_es/s0-*") / "record.json"
    spoil(record)
    assert main(["table", f"sweep={SWEEP}", f"output={output}"]) == 1
    out, err = capsys.readouterr()
    assert "record.json: is corrupt" in err and "cma_es" in out, "the other Run is shown"


@pytest.mark.parametrize(
    "line",
    [
        '"submission": 1, "program": "/home/you/.ssh", "selector": "0:2", "units": 2',
        '"submission": 1, "program": "{}", "selector": "0:60000000", "units": 2'.replace(
            "{}", "ab" * 32
        ),
        '"submission": 1, "program": "{}", "selector": "0:60000000", "units": 60000000'.replace(
            "{}", "ab" * 32
        ),
        '"submission": 7, "program": "{}", "selector": "0:2", "units": 2'.replace("{}", "ab" * 32),
    ],
)
def test_a_journal_is_bounded_in_what_it_makes_a_reader_hold(line: str, output: Path) -> None:
    run = one(output, "runs/*/cma_es/s0-*")
    lines = (run / "journal.jsonl").read_text().splitlines()
    lines[2] = f'{{"n": 2, "time": 1796077025.1, "event": "reserved", {line}}}'
    (run / "journal.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(RecordError, match=r"journal.jsonl: line 3 \('reserved'\) is corrupt"):
        load_run(run)


def test_a_regrade_survives_a_cut_last_line_and_the_other_runs_are_graded(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = sorted(output.glob("runs/*/cma_es/s[01]-*"))
    with (first / "journal.jsonl").open("ab") as file:
        file.write(b'{"n": 19, "ti')
    link = min((second / "programs").iterdir())
    link.unlink()
    link.symlink_to("/etc")
    asked = [
        f"sweep={SWEEP}",
        f"output={output}",
        "selection=last",
        "splits=assessment",
        "execution.workers=1",
    ]
    assert regrade([*asked, "name=cut"]) == 1
    out = capsys.readouterr().out
    assert "1 Run regraded" in out and "is a link, and not to a store of Programs" in out
    assert len(list(output.glob("regrades/cut/*/*/s0-*/record.json"))) == 1


def test_a_report_beside_a_record_is_never_written_through_a_link(output: Path) -> None:
    own = Path("bashrc").absolute()
    own.write_text(CANARY)
    run = one(output, "runs/*/cma_es/s0-*")
    (run / "report.html").symlink_to(own)
    main(["report", f"source={run}"])
    assert own.read_text() == CANARY
