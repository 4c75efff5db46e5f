"""A report among the artifacts of the MLflow run it is about, in a real database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicy.analysis import entry_ranks
from evopolicy.kernel.errors import TrackingError
from evopolicy.kernel.run.sweep import Sweep
from evopolicy.kernel.session.record import Run
from evopolicy.tracking.follow import follow_sweep, track
from evopolicy.tracking.report import REPORT, upload_run_report, upload_sweep_report
from evopolicy.tracking.store import Store, Tracking


def logged(store: Store, run_id: str, folder: Path) -> str:
    return Path(store.client.download_artifacts(run_id, REPORT, str(folder))).read_text(
        encoding="utf-8"
    )


def test_a_report_is_logged_to_its_run_and_a_newer_one_takes_its_place(
    output: Path, store: Store, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = make_run()
    track(run.folder, output, Tracking(), entry_ranks)
    first = upload_run_report(store, run.record, "<p>ö</p>")
    again = upload_run_report(store, run.record, "<p>newer</p>")
    (found,) = store.client.search_runs([store.experiment_id], "tags.kind = 'cell'")
    assert first == again == found.info.run_id
    assert logged(store, first, tmp_path) == "<p>newer</p>"


def test_secrets_never_reach_it(
    output: Path,
    store: Store,
    make_run: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "0123456789-secret")
    run = make_run()
    track(run.folder, output, Tracking(), entry_ranks)
    run_id = upload_run_report(store, run.record, "<p>0123456789-secret</p>")
    assert logged(store, run_id, tmp_path) == "<p>***</p>"


def test_a_sweeps_report_is_logged_to_the_sweep(
    output: Path, store: Store, make_sweep: Callable[..., Sweep], tmp_path: Path
) -> None:
    sweep = make_sweep("quick", ("baseline",), ("cartpole",), 1)
    follow_sweep(output, sweep.name, entry_ranks)
    run_id = upload_sweep_report(store, sweep.name, "<p>sweep</p>")
    assert store.client.get_run(run_id).data.tags["kind"] == "sweep"
    assert logged(store, run_id, tmp_path) == "<p>sweep</p>"


def test_what_is_not_logged_yet_is_said_with_what_logs_it(
    store: Store, make_run: Callable[..., Run]
) -> None:
    with pytest.raises(
        TrackingError, match=r"the Run is not in sqlite:.* yet; log it first: 'evopolicy track"
    ):
        upload_run_report(store, make_run().record, "")
    with pytest.raises(TrackingError, match="the sweep is not in"):
        upload_sweep_report(store, "quick", "")
