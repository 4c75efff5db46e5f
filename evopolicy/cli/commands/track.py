"""`evopolicy track`: MLflow rebuilt from records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evopolicy.cli.options import listed, output_above, pairs
from evopolicy.cli.sources import is_mlflow, sources
from evopolicy.cli.store import known_store, tracking_of
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.run.sweep import read_sweep
from evopolicy.present.numbers import plural
from evopolicy.sweeps.text import are


def track(words: Sequence[str]) -> int:
    """`sweep=NAME`, or `source=` folders of Runs, of sweeps or of an output; into the store they
    name, or another one by `tracking.uri=`."""
    from evopolicy.analysis import entry_ranks
    from evopolicy.tracking.follow import track as rebuild

    options = pairs("track", words)
    for word in listed(options.get("source", "")):
        if is_mlflow(word):
            raise ConfigError(
                f"track: '{word}' is in MLflow already; name a folder of Runs, of a sweep or of "
                "an output"
            )
    reports = []
    for source in sources(options, "track"):
        if not source.is_dir():
            raise ConfigError(f"source: there is no folder '{source}'")
        output = Path(options["output"]) if "output" in options else output_above(source)
        reports.append(
            rebuild(
                source.absolute(),
                output.absolute(),
                tracking_of(options, _known(source, options)),
                entry_ranks,
            )
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
