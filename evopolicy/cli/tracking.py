"""`evopolicy ui` and `evopolicy track`: MLflow opened on the result, and rebuilt from records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evopolicy.cli.options import TRACKING, output_above, output_of, pairs, sweep_of
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.sweep import read_sweep
from evopolicy.tracking.store import Tracking


def ui(words: Sequence[str]) -> int:
    """`sweep=NAME` (the latest where none is named) of `output=`, in the store it was logged to."""
    from evopolicy.tracking.ui import find_sweep, run_ui

    options = pairs("ui", words, ("sweep", "output", *TRACKING))
    output = output_of(options)
    name = options.get("sweep", "")
    if name:
        sweep_of(output, name)
    sweep = find_sweep(output, name)
    run_ui(output, _tracking(options, sweep.tracking if sweep else {}), name)
    return 0


def track(words: Sequence[str]) -> int:
    """`source=` a Run's, a sweep's or an output folder; into the store it names, or another one by `tracking.uri=`."""
    from evopolicy.analysis import entry_ranks
    from evopolicy.tracking.follow import track as rebuild

    options = pairs("track", words, ("source", "output", *TRACKING))
    if "source" not in options:
        raise ConfigError("track: name what to log, source= a Run's, a sweep's or an output folder")
    source = Path(options["source"])
    if not source.is_dir():
        raise ConfigError(f"source: there is no folder '{source}'")
    output = Path(options["output"]) if "output" in options else output_above(source)
    known: Mapping[str, str] = {}
    try:
        known = read_sweep(source).tracking
    except RecordError:
        pass  # no sweep's folder: the store is the default or the one named
    report = rebuild(source.absolute(), output.absolute(), _tracking(options, known), entry_ranks)
    print(f"{report.logged} finished Runs are in MLflow")
    if text := report.text():
        print(text)
    return 1 if report.missing else 0


def _tracking(options: Mapping[str, str], known: Mapping[str, str]) -> Tracking:
    """What the options say, else what the sweep was logged with."""
    named = {key.partition(".")[2]: value for key, value in options.items() if key in TRACKING}
    return Tracking.from_mapping({**known, **named})
