"""Each study in a cut form, over planted Runs: its table, its figure and its differences show the
effect there is."""

from __future__ import annotations

import csv
import itertools
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evopolicy.cli.main import main
from evopolicy.kernel.session.selection import SelectionConfig
from evopolicy.kernel.values import digest
from evopolicy.presets import conf_folder, option

STUDIES = sorted(path.stem for path in (conf_folder() / "experiment" / "study").glob("*.yaml"))
Lay = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


def against(study: str) -> str:
    """What `docs/studies.md` compares the study's entries with."""
    text = (conf_folder().parent / "docs" / "studies.md").read_text()
    section = text[text.index(f"experiment=study/{study}\n") :]
    found = re.search(r"table name=difference \S+(?: against=(\S+))?\n", section)
    assert found
    return found[1] or ""


def levels(study: str) -> tuple[list[str], list[dict[str, str]], list[str], int]:
    """Of a study cut to two agents, the two levels of what it compares, and two Benchmarks; and its
    number of seeds."""
    params: Mapping[str, Any] = option("experiment", f"study/{study}")["hydra"]["sweeper"]["params"]
    lists = {key: str(value).split(",") for key, value in params.items()}
    agents, (key, _, level) = lists.pop("agent"), against(study).partition("=")
    if not key:
        return sorted(agents)[:2], [{}], lists["benchmark"][:2], len(lists["seed"])
    other = next(word for word in lists.get(key, ["validation_mean"]) if word != level)
    fixed = {name: of[0] for name, of in lists.items() if name not in ("benchmark", "seed", key)}
    return (
        agents[:1],
        [{**fixed, key: word} for word in (level, other)],
        lists["benchmark"][:2],
        len(lists["seed"]),
    )


def plant(lay_run: Lay, study: str, effect: float) -> tuple[str, str]:
    """Runs in which what the study asks of is worth `effect`; the entry that has it, and what it is
    compared with."""
    agents, settings, benchmarks, seeds = levels(study)
    entries = list(itertools.product(agents, settings))
    names = []
    for place, (agent, axes) in enumerate(entries):
        rule = axes.get("selection")
        names.append(" ".join([agent, *(f"{key}={value}" for key, value in sorted(axes.items()))]))
        for benchmark, seed in itertools.product(benchmarks, range(seeds)):
            # The Runs of two rules are the same Runs; others are each their own. Episodes are
            # shared, and unlike.
            whose = f"{benchmark} {seed}" if rule else f"{names[-1]} {benchmark} {seed}"
            own, rng = (
                np.random.default_rng(zlib.crc32(text.encode()))
                for text in (whose, f"{place} {whose}")
            )
            scores = (
                10.0 * np.arange(8) + own.normal(0, 0.5) + rng.normal(0, 0.3, 8) + effect * place
            )
            changes: dict[str, Any] = (
                {} if rule is None else {"selection": SelectionConfig(rule, "fewer_failures")}
            )
            if not rule:
                changes["key"] = digest("a planted Run", whose)
            tag = "".join(axes.values()) or "abc"
            lay_run(agent, benchmark, seed, list(map(float, scores)), axes=axes, tag=tag, **changes)
    return names[1], names[0]


@pytest.mark.parametrize("effect", [20.0, 0.0], ids=["planted", "none"])
@pytest.mark.parametrize("study", STUDIES)
def test_the_differences_of_a_study_show_what_was_planted(
    study: str, effect: float, lay_run: Lay, tmp_path: Path, capsys: Capture
) -> None:
    better, other = plant(lay_run, study, effect)
    words = [
        f"source={tmp_path / 'outputs'}",
        "replicates=200",
        "format=csv",
        f"against={against(study)}",
    ]
    assert main(["table", "name=difference", *words]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["entry"], row["against"]) for row in rows] == [(better, other)] * 2
    found = [float(row["difference"]) for row in rows if float(row["p_holm"]) <= 0.05]
    assert found == pytest.approx([effect] * 2, abs=2.0) if effect else found == []
    if "selection" in better:
        assert {row["runs"] for row in rows} == {"3, paired"}


@pytest.mark.parametrize("study", STUDIES)
def test_the_table_and_the_figure_of_a_study_show_its_entries(
    study: str, lay_run: Lay, tmp_path: Path, capsys: Capture
) -> None:
    entries, source = plant(lay_run, study, 20.0), f"source={tmp_path / 'outputs'}"
    assert main(["table", f"name=study/{study}", source, "format=csv"]) == 0
    printed = capsys.readouterr().out
    assert [entry for entry in entries if entry not in printed] == []
    if study == "evolution_dynamics":
        return  # its figure needs edits that Validation has measured, which these Runs have not
    picture = tmp_path / "picture.svg"
    assert main(["figure", f"name=study/{study}", source, f"to={picture}"]) == 0
    drawn = picture.read_text()
    runs = 2 * levels(study)[-1] * (1 if study == "selection_validity" else 2)
    assert f"N = {runs} Runs" in drawn, re.findall("N = .*", drawn)
