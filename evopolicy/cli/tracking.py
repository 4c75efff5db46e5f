"""`evopolicy ui` and `evopolicy track`: MLflow opened on the result, and rebuilt from records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evopolicy.cli.options import TRACKING, listed, output_above, output_of, pairs, sweep_of
from evopolicy.cli.sources import is_mlflow, sources
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.files.seal import is_ours
from evopolicy.kernel.run.sweep import Sweep, read_sweep
from evopolicy.kernel.shown import clean, plural
from evopolicy.sweeps.text import are
from evopolicy.tracking.store import Tracking, unused_variable


def ui(words: Sequence[str]) -> int:
    """`sweep=NAME` of `output=`, in the store it was logged to; without: the latest, or a single Run begun after it."""
    from evopolicy.tracking.ui import find_single, find_sweep, run_ui

    options = pairs("ui", words)
    output = output_of(options)
    name = options.get("sweep", "")
    if name:
        sweep_of(output, name)
    sweep = find_sweep(output, name)
    single = None if name else find_single(output, sweep)
    if single is not None:
        config, seal = single.record.config, single.record.seal
        known = config.get("tracking", {}) if is_ours(config, seal) else {}
    else:
        known = known_store(sweep, options) if sweep else {}
    run_ui(output, _tracking(options, known), name)
    return 0


def track(words: Sequence[str]) -> int:
    """`sweep=NAME`, or `source=` folders of Runs, of sweeps or of an output; into the store they name, or another one
    by `tracking.uri=`.
    """
    from evopolicy.analysis import entry_ranks
    from evopolicy.tracking.follow import track as rebuild

    options = pairs("track", words)
    for word in listed(options.get("source", "")):
        if is_mlflow(word):
            raise ConfigError(
                f"track: '{word}' is in MLflow already; name a folder of Runs, of a sweep or of an output"
            )
    reports = []
    for source in sources(options, "track"):
        if not source.is_dir():
            raise ConfigError(f"source: there is no folder '{source}'")
        output = Path(options["output"]) if "output" in options else output_above(source)
        reports.append(
            rebuild(source.absolute(), output.absolute(), _tracking(options, _known(source, options)), entry_ranks)
        )
    logged = sum(report.logged for report in reports)
    print(f"{plural(logged, 'finished Run')} {are(logged)} in MLflow")
    for report in reports:
        if text := report.text():
            print(text)
    return 1 if any(report.missing or report.left_out for report in reports) else 0


def _known(source: Path, options: Mapping[str, str]) -> Mapping[str, str]:
    """Where the sweep in `source` was logged; nothing where it is no sweep's folder."""
    try:
        sweep = read_sweep(source)
    except RecordError:
        return {}
    return known_store(sweep, options)


def known_store(sweep: Sweep, options: Mapping[str, str]) -> Mapping[str, str]:
    """Where `sweep` was logged. Raises ConfigError where somebody else names the store, and the command does not."""
    if sweep.tracking.get("uri") and "tracking.uri" not in options and not is_ours(sweep.tracking, sweep.seal):
        raise ConfigError(
            f"tracking.uri: the sweep '{clean(sweep.name, 80)}' was not made by you on this machine and names a store"
            " of its own; say which store is meant: tracking.uri=URI, or tracking.uri= for the output folder's own"
        )
    return sweep.tracking


def _tracking(options: Mapping[str, str], known: Mapping[str, str]) -> Tracking:
    """What the options say, else what the sweep was logged with."""
    named = {key.partition(".")[2]: value for key, value in options.items() if key in TRACKING}
    found = Tracking.from_mapping({**known, **named})
    if "uri" not in named and (note := unused_variable(found.uri)):
        print(note)
    return found
