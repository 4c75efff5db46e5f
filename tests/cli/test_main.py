"""The command line: help at once, one sentence and an exit code for every mistake, never a
traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from evopolicy.cli.hydra import compose
from evopolicy.cli.main import HELP, main
from evopolicy.cli.verbs import VERBS

CELL = ["agent=random", "benchmark=cartpole", "protocol=smoke"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """What standard error says: one line that begins with the program's name."""
    assert main(list(arguments)) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    assert lines[0].startswith("evopolicy: ")
    return lines[0]


def test_help_and_version_answer_without_importing_hydra() -> None:
    check = (
        "import sys; from evopolicy.cli.main import main; code = main([sys.argv[1]]); heavy = "
        "{'hydra', 'omegaconf', 'mlflow', 'gymnasium', 'pandas', 'numpy', 'msgspec'} & "
        "set(sys.modules); sys.exit(code or (f'imported {heavy}' if heavy else 0))"
    )
    for flag, expected in (
        ("--help", "evopolicy -m experiment=quickstart"),
        ("--version", "evopolicy 0."),
    ):
        done = subprocess.run(
            [sys.executable, "-c", check, flag], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


def test_a_verb_that_is_interrupted_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("evopolicy.cli.commands.status.status", interrupted)
    assert refused(capsys, "status", code=130) == "evopolicy: interrupted"


def test_nothing_at_all_shows_help_and_runs_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([]) == 0
    assert HELP.splitlines()[0] in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_exists_and_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    from importlib import import_module

    assert callable(getattr(import_module(f"evopolicy.cli.commands.{verb}"), verb))
    assert main([verb, "--help"]) == 0
    printed = capsys.readouterr().out
    assert VERBS[verb].what in printed and f"evopolicy {verb} {VERBS[verb].usage}\n" in printed
    assert all(f"\n  {key} " in printed for key in VERBS[verb].options)


def test_help_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], *([verb, "--help"] for verb in VERBS)):
        assert main(words) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def test_every_key_of_a_table_and_of_a_figure_is_an_option() -> None:
    from evopolicy.analysis.figures.config import FigureConfig
    from evopolicy.analysis.tables.config import TableConfig
    from evopolicy.cli.sources import KEYS as READ

    assert set(VERBS["table"].options) == {"name", "to", *READ, *get_type_hints(TableConfig)}
    assert set(VERBS["figure"].options) == {"name", "to", *READ, *get_type_hints(FigureConfig)} - {
        "kind"
    }


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tabel"], ["there is no verb 'tabel'", "Did you mean 'table'"]),
        (["--mutirun"], ["'--mutirun'", "Did you mean '--multirun'"]),
        (["agent=random", "benchmark"], ["'benchmark' is not an override"]),
        (
            ["agent=cma_e", "benchmark=cartpole"],
            ["agent: 'cma_e' is unknown", "Did you mean 'cma_es'"],
        ),
        (
            ["agent=random", "benchmark=cartpol"],
            ["benchmark: 'cartpol' is unknown", "Did you mean 'cartpole'"],
        ),
        (["agnt=random"], ["agnt: there is no such key", "Did you mean 'agent'"]),
        ([*CELL, "budget.episode=3"], ["budget.episode", "Did you mean 'budget.episodes'"]),
        (
            [*CELL, "budget.episodes=ten"],
            ["budget.episodes: a whole number is needed, found 'ten'"],
        ),
        (
            [*CELL, "protocol.x=1"],
            ["protocol: takes a name, which sets budget", "protocol=NAME", "essay, paper"],
        ),
        ([*CELL, "protocol={x:1}"], ["protocol: takes a name"]),
        ([*CELL, "experiment.x=1"], ["experiment: takes a name", "quickstart"]),
        ([*CELL, "suite.x=1"], ["suite: takes a name", "classic"]),
        (
            [*CELL, "feedback=[score,full]"],
            ["feedback: a Run takes one", "write feedback=score,full for a sweep"],
        ),
        (
            ["agent=random", "benchmark=[cartpole,pendulum]"],
            ["benchmark: a Run takes one", "benchmark=cartpole,pendulum"],
        ),
        (
            ["agent=random", "suite=[classic,box2d]"],
            ["suite: a command takes one", "benchmark=cartpole,", ",lunar_lander"],
        ),
        (
            ["agent=random", "suite=classic,box2d"],
            ["suite: a command takes one", "benchmark=cartpole,", ",lunar_lander"],
        ),
        (
            ["experiment=quickstart,study/scaling"],
            ["experiment: a command takes one", "run one after the other"],
        ),
        (
            ["agent=random", "benchmark=glob(zzz*)"],
            ["benchmark: no option matches glob(zzz*)", "acrobot"],
        ),
        (
            ["--cfg", "job", "-m", *CELL],
            ["--cfg: it shows one config", "--dry-run lists the cells"],
        ),
        (["--cfg=job", *CELL, "seed=0,1"], ["--cfg: it shows one config"]),
        (
            [*CELL, "seed=0,1", "hydra/launcher=joblib"],
            ["'joblib' is unknown", "hydra-joblib-launcher"],
        ),
        ([*CELL, "seed=0,1", "hydra/sweeper=optunas"], ["hydra/sweeper: 'optunas' is unknown"]),
        ([*CELL, "seed=interval(0,1)"], ["seed", "interval", "hydra/sweeper=optuna"]),
        ([*CELL, "seed=1.5"], ["seed: a whole number is needed, found '1.5'"]),
        ([*CELL, "seed=-1"], ["seed: a whole number from 0 is needed, found -1"]),
        ([*CELL, "pool.seed=-1"], ["pool.seed: a whole number from 0 is needed, found -1"]),
        (
            [*CELL, "secret.generated=maybe"],
            ["secret.generated: true or false is needed, found 'maybe'"],
        ),
        (
            [*CELL, "secret.file=nowhere"],
            ["secret.file: 'nowhere' cannot be read", "; name the file"],
        ),
        ([*CELL, "budget.episodes=null"], ["budget.episodes: a value is needed"]),
        ([*CELL, "prompt.skills=x"], ["prompt.skills: a list"]),
        ([*CELL, "seed=[1"], ["the override 'seed=[1' cannot be read"]),
        ([*CELL, "output=${nowhere}"], ["output", "nowhere"]),
        (["benchmark=cartpole"], ["agent: no option is chosen", "cma_es"]),
        (["agent=random", "benchmark=gymnasium"], ["benchmark.env_id: a value is missing"]),
        ([*CELL, "tracking=uri"], ["tracking.uri: a value is missing"]),
        ([*CELL, "+agent.sped=3"], ["agent.sped", "no such option"]),
        ([*CELL, "agent.repeats=many"], ["agent.repeats"]),
        ([*CELL, "+benchmark.gravity=3"], ["benchmark.gravity"]),
        ([*CELL, "+benchmark.kwargs.gravity=3"], ["benchmark.kwargs", "CartPole-v1", "gravity"]),
        ([*CELL, "+pool.sed=3"], ["pool.sed: there is no such key", "Did you mean 'seed'"]),
        ([*CELL, "+sede=3"], ["sede: there is no such key", "Did you mean 'seed'"]),
        ([*CELL, "budget.per_submission=100"], ["budget.per_submission", "100", "16"]),
        (
            [*CELL, "budget.finish=exhaust", "budget.submissions=1", "budget.per_submission=2"],
            ["budget.finish"],
        ),
        ([*CELL, "pool.validation=0"], ["selection.rule", "pool.validation"]),
        ([*CELL, "execution=none"], ["execution", "allow_unisolated"]),
        ([*CELL, "secret.variable=NO_SUCH_VARIABLE"], ["secret.variable", "NO_SUCH_VARIABLE"]),
        ([*CELL, "sweep=a/b", "seed=0,1"], ["sweep: a name", "a/b"]),
        ([*CELL, "launcher.cells=0", "seed=0,1"], ["launcher.cells"]),
        ([*CELL, "tracking.uri=/some/folder"], ["tracking.uri"]),
        (
            ["agent=command", "agent.argv=[no-such-program]", "benchmark=cartpole"],
            ["no-such-program"],
        ),
        (["--config-dir", "nowhere", *CELL], ["--config-dir", "nowhere"]),
    ],
    ids=lambda value: " ".join(value) if value and "=" in str(value[-1]) else None,
)
def test_a_mistake_gets_one_sentence(
    arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = refused(capsys, *arguments)
    for part in parts:
        assert part in said
    assert not list(tmp_path.glob("outputs/runs/*"))


def test_in_a_sweep_the_cell_and_its_overrides_are_named_and_nothing_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = refused(capsys, *CELL, "budget.per_submission=4,100,200")
    assert (
        "cell 2 (" in said
        and "budget.per_submission=100" in said
        and "1 more cell cannot run either" in said
    )
    assert not (tmp_path / "outputs" / "sweeps").exists()


def test_cells_that_are_one_run_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, *CELL, "selection=last,training_mean")
    assert "cells 1" in said and "the same Run" in said


def test_what_belongs_to_the_sweep_cannot_be_swept(capsys: pytest.CaptureFixture[str]) -> None:
    assert "launcher: it belongs to the whole sweep" in refused(capsys, *CELL, "launcher.cells=1,2")


def test_broken_yaml_is_named_by_file_and_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "mine" / "budget"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("submissions: 3\nepisodes: [4\n")
    said = refused(capsys, "--config-dir", str(tmp_path / "mine"), *CELL[:2], "budget=broken")
    assert "broken.yaml, line 3" in said and "YAML" in said


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("submissions: ten\n", ["budget.submissions", "'ten'"]),
        ("submission: 3\n", ["Did you mean 'budget.submissions'"]),
    ],
)
def test_a_wrong_key_or_type_in_a_users_yaml_is_named(
    text: str, parts: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine" / "budget").mkdir(parents=True)
    (tmp_path / "mine" / "budget" / "own.yaml").write_text(text)
    said = refused(capsys, "--config-dir", str(tmp_path / "mine"), *CELL[:2], "budget=own")
    assert all(part in said for part in ("budget/own.yaml", *parts))


def test_an_output_that_cannot_be_written_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert "file/inside" in refused(capsys, *CELL, f"output={tmp_path}/file/inside")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["table"], ["sweep=NAME or source=FOLDER"]),
        (["table", "swep=x"], ["there is no option 'swep'", "Did you mean 'sweep'"]),
        (["table", "sweep=x"], ["no folder 'outputs'"]),
        (["table", "source=nowhere"], ["nowhere"]),
        (["status", "x"], ["'x' is not an option"]),
        (["resume"], ["sweep=NAME or source=RUN"]),
        (["resume", "source=."], ["record.json"]),
        (["track"], ["source="]),
        (["track", "source=nowhere"], ["nowhere"]),
        (["track", "source=."], ["is not a folder of a Run, a sweep or an output"]),
        (["ui", "output=nowhere"], ["nowhere"]),
        (["evaluate", "benchmark=cartpole"], ["program=DIR"]),
        (
            ["evaluate", "program=nowhere", "benchmark=cartpole"],
            ["program: there is no folder 'nowhere'; name"],
        ),
        (
            ["evaluate", "program=.", "benchmark=cartpole"],
            ["program: '.' is refused", "policy.py is missing"],
        ),
        (
            ["figure", "to=x.svg"],
            ["figure: name what to draw, name=NAME; `evopolicy figure` lists"],
        ),
        (["figure", "name='timelin'"], ["there is no figure 'timelin'", "Did you mean 'timeline'"]),
        (["evaluate", "program=.", "benchmark=cartpole", "split=test"], ["split"]),
        (["evaluate", "program=.", "benchmark=cartpole", "seed=0,1"], ["one value for every key"]),
        (["doctor", "x=1"], ["there is no option 'x'"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_in_a_verb_gets_one_sentence(
    arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, *arguments)
    assert all(part in said for part in parts)


def test_a_bug_of_ours_is_called_one_and_says_how_to_see_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> int:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("evopolicy.cli.commands.status.status", broken)
    said = refused(capsys, "status", code=1)
    assert "a fault inside evopolicy" in said and "EVOPOLICY_DEBUG=1" in said


def test_an_interrupt_exits_with_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt("type this to go on")

    monkeypatch.setattr("evopolicy.cli.commands.status.status", interrupted)
    assert main(["status"]) == 130
    assert "type this to go on" in capsys.readouterr().err


def test_a_mapping_of_ones_own_keys_may_be_given_whole() -> None:
    words = ["agent=codex", "agent.mcp_servers={notes: [python3]}", "benchmark=cartpole"]
    assert compose.normalize(words)[-3:] == [words[0], f"++{words[1]}", words[2]]


def test_a_key_of_a_swept_group_is_set_in_every_cell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [
        "agent=baseline,random",
        "agent.label='the:same/one'",
        "benchmark=cartpole,acrobot",
        "benchmark.slug=x",
    ]
    assert compose.normalize(words) == [
        "--multirun", words[0], "agent.label=choice('the:same/one')", words[2], "benchmark.slug=choice(x)",
    ]  # fmt: skip
    sweep = [
        "-m",
        "agent=baseline,cma_es",
        "agent.label=one",
        "benchmark=cartpole",
        "protocol=smoke",
    ]
    assert main([*sweep, "--dry-run", f"output={tmp_path}"]) == 0
    assert "to run: 2 cells" in capsys.readouterr().out
