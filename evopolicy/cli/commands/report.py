"""`evopolicy report`: a Run, a sweep or any Runs as one HTML file, and that file in MLflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evopolicy.analysis.records.load import Found, find_runs
from evopolicy.cli.options import OUTPUT, TRACKING, listed, output_above, pairs, truth
from evopolicy.cli.sources import is_mlflow, sources, tell_unreadable
from evopolicy.cli.store import known_store
from evopolicy.cli.target import check_target, write_target
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.run.sweep import SWEEP, Sweep, read_sweep
from evopolicy.kernel.session.record import RECORD
from evopolicy.present.numbers import plural

NAME = "report.html"


def report(words: Sequence[str]) -> int:
    """`source=` or `sweep=` what to show; `to=` the file, `report.html` beside the records by
    default; `log=true`.

    Exit code 1 where a record cannot be read; the page is of the others, and names it where it is a
    comparison.

    Raises ConfigError for an option or a value there is not, for a file that cannot be written and
    for a page to log that belongs to no single MLflow run; RecordError where no Run can be read;
    TrackingError where MLflow does not answer or does not hold the Run or sweep."""
    options = pairs("report", words)
    log = truth("log", options.get("log", "false"))
    folders = sources(options, "report")
    target = _target(options, folders)
    found = find_runs(*folders, compared="every")
    sweep = _sweep(folders)
    if log and sweep is None and len(found) != 1:
        raise ConfigError(
            "log: a report of several Runs belongs to no single MLflow run; name a Run or one sweep"
        )
    html = _render(found, sweep, folders, listed(options.get("allow", "")))
    write_target(target, html)
    print(f"{target} ({len(html.encode()) / 1e6:.1f} MB, {plural(len(found), 'Run')})")
    code = tell_unreadable(found, "the report")
    if log:
        _log(options, folders[0], found, sweep, html)
    return code


def _target(options: Mapping[str, str], folders: Sequence[Path]) -> Path:
    """Where the page goes. Raises ConfigError, before anything is read, for no HTML file and what
    cannot be written."""
    if "to" not in options:
        target = folders[0] / NAME if len(folders) == 1 and folders[0].is_dir() else Path(NAME)
        if target.is_symlink():  # nobody has named it: whoever sent the folder may have
            raise ConfigError(f"to: '{target}' is a link; name the file that is meant, to=FILE")
        return check_target(target)
    target = Path(options["to"])
    if target.is_dir():
        return check_target(target / NAME)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"to: an .html file or a folder is needed, found '{target}'")
    return check_target(target)


def _sweep(folders: Sequence[Path]) -> Sweep | None:
    """The one sweep that is asked for, if it is one."""
    return read_sweep(folders[0]) if len(folders) == 1 and (folders[0] / SWEEP).is_file() else None


def _render(
    found: Found, sweep: Sweep | None, folders: Sequence[Path], allow: Sequence[str]
) -> str:
    from evopolicy.analysis.report.gather import gather_run, gather_sweep
    from evopolicy.analysis.report.plots import draw_figures
    from evopolicy.analysis.report.run import render_run
    from evopolicy.analysis.report.sweep import render_sweep

    if len(found) == 1 and sweep is None:
        return render_run(gather_run(found[0], found))
    if not found and not found.cells:
        raise RecordError(f"source: no Run can be read ({found.unreadable[0].reason})")
    title = (
        f"Sweep {sweep.name}"
        if sweep
        else f"Runs of {', '.join(folder.name for folder in folders[:4])}"
    )
    return render_sweep(gather_sweep(found, title, allow=allow, figures=draw_figures(found, allow)))


def _log(
    options: Mapping[str, str], folder: Path, found: Found, sweep: Sweep | None, html: str
) -> None:
    from evopolicy.tracking.report import upload_run_report, upload_sweep_report
    from evopolicy.tracking.store import Tracking, connect

    named = {key.partition(".")[2]: value for key, value in options.items() if key in TRACKING}
    tracking = Tracking.from_mapping({**(known_store(sweep, options) if sweep else {}), **named})
    if "output" in options or is_mlflow(options.get("source", "")):
        output = Path(options.get("output", OUTPUT))
    else:
        output = output_above(folder if sweep or (folder / RECORD).is_file() else found[0].folder)
    store = connect(tracking, output.absolute())
    upload = (
        upload_sweep_report(store, sweep.name, html)
        if sweep
        else upload_run_report(store, found[0].record, html)
    )
    print(f"In MLflow: {NAME} of the run {upload}")
