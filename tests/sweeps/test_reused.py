"""What is said of Runs that are reused though they were held by less than the command asks for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evopolicy.sweeps import sweep
from evopolicy.sweeps.dry_run import print_plan


@pytest.mark.parametrize(
    ("had", "now", "said"),
    [
        ("none", "bubblewrap", True),
        ("none", "landlock", True),
        ("landlock", "bubblewrap", True),
        ("landlock", "landlock", False),
        ("bubblewrap", "landlock", False),
    ],
)
def test_a_run_of_a_lower_isolation_is_reused_with_a_word_that_names_both(
    records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], had: str, now: str, said: bool
) -> None:
    folder = records.write_run(tmp_path, records.a_record(isolation=had))
    cell: Any = SimpleNamespace(finished=True, plan=SimpleNamespace(folder=folder, isolation=now))
    command: Any = SimpleNamespace(cells=[cell])
    sweep.run_single(command)
    told = capsys.readouterr().out.splitlines()[1:]
    assert bool(told) == said
    if said:
        (line,) = told
        assert f"ran at isolation '{had}', and this command asks for '{now}'" in line
        assert f"To run it at '{now}', move {folder} away, or choose output=FOLDER" in line


def test_of_a_sweep_they_are_told_together(
    records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells: Any = [
        SimpleNamespace(
            finished=finished, plan=SimpleNamespace(folder=folder, isolation="landlock")
        )
        for finished, folder in [
            *(
                (True, records.write_run(tmp_path, records.a_record(seed=n, isolation="none")))
                for n in range(2)
            ),
            (False, tmp_path / "new"),
        ]
    ]
    sweep.tell_weaker(cells)
    (line,) = capsys.readouterr().out.splitlines()
    for cell in cells:
        vars(cell).update(title="its name", episodes=3)
        vars(cell.plan).update(units=1, validation_units=1, assessment_units=1)
    command: Any = SimpleNamespace(cells=cells[:2])
    print_plan(command, "night")
    assert capsys.readouterr().out.splitlines()[-1] == line, "and before anything is run"
    assert (
        line.startswith("2 reused Runs ran at isolation 'none'")
        and str(cells[1].plan.folder) in line
    )
