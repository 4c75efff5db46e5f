"""The words that say which Runs a verb reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.cli.main import main
from evopolicy.cli.sources import sources
from evopolicy.kernel.errors import ConfigError, TrackingError
from evopolicy.kernel.run.sweep import sweep_folder
from evopolicy.tracking import download as downloading
from evopolicy.tracking.download import Downloaded
from evopolicy.tracking.store import Tracking


def test_sweeps_are_named_and_folders_are_listed(
    make_sweep: Callable[..., Any], tmp_path: Path
) -> None:
    make_sweep("quick", seeds=1)
    make_sweep("slow", seeds=1)
    output = {"output": str(tmp_path)}
    assert sources({"sweep": "quick", **output}) == [sweep_folder(tmp_path, "quick")]
    assert sources({"sweep": "quick,slow", **output}) == [
        sweep_folder(tmp_path, name) for name in ("quick", "slow")
    ]
    assert sources({"source": "a, b,a,"}) == [Path("a"), Path("b")]


def test_a_folder_with_a_comma_in_its_name_is_one_folder(tmp_path: Path) -> None:
    (tmp_path / "a,b").mkdir()
    assert sources({"source": str(tmp_path / "a,b")}) == [tmp_path / "a,b"]


@pytest.mark.parametrize("options", [{}, {"sweep": "a", "source": "b"}])
def test_what_to_read_is_named_in_one_way(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^regrade: name what to read, and one way only"):
        sources(options, "regrade")


def test_an_empty_source_is_refused() -> None:
    with pytest.raises(ConfigError, match="source: a name is needed"):
        sources({"source": " ,"})


def test_an_experiment_is_downloaded_and_what_is_left_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, Path, Tracking]] = []

    def download(name: str, output: Path, tracking: Tracking) -> Downloaded:
        asked.append((name, output, tracking))
        return Downloaded((tmp_path / "there",), 1, 0, ("a \x1b[2J cell: has not ended yet",))

    monkeypatch.setattr(downloading, "download", download)
    options = {
        "source": "mlflow:paper/quick,own",
        "output": str(tmp_path),
        "tracking.uri": "http://host:5000",
    }
    assert sources(options) == [tmp_path / "there", Path("own")]
    assert asked == [("paper/quick", tmp_path, Tracking("http://host:5000"))]
    told = capsys.readouterr().err
    assert told.startswith("left out of mlflow:paper/quick: a ")
    assert "has not ended yet" in told and "\x1b" not in told


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="there is no database"):
        sources({"source": "mlflow:paper", "output": str(tmp_path)})
    assert not list(tmp_path.iterdir())


def test_track_logs_folders_and_sweeps_by_name_but_no_experiment(
    make_sweep: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sweep("quick")
    assert main(["track", "source=mlflow:paper", f"output={tmp_path}"]) == 2
    assert "track: 'mlflow:paper' is in MLflow already" in capsys.readouterr().err
    assert main(["track", "sweep=quikc", f"output={tmp_path}"]) == 2
    assert "Did you mean 'quick'?" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.xdist_group("mlflow")
@pytest.mark.filterwarnings("default")
def test_a_table_is_the_same_from_records_and_from_mlflow(
    make_sweep: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sweep("quick", seeds=1)
    at = f"output={tmp_path}"
    assert main(["track", "sweep=quick", at]) == 0
    assert "4 finished Runs are in MLflow" in capsys.readouterr().out
    shown = []
    for words in (["sweep=quick"], ["source=mlflow:evopolicy/quick"], ["source=mlflow:evopolicy"]):
        assert main(["table", *words, at]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0].splitlines()[:6] == shown[1].splitlines()[:6] == shown[2].splitlines()[:6]
