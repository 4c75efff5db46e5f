"""Which Runs a verb reads: `sweep=` by name, `source=` folders, or an experiment of MLflow that is
downloaded first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicy.cli.options import OUTPUT, listed, output_of, sweep_of
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.shown import clean

if TYPE_CHECKING:
    from evopolicy.analysis.records.load import Found

KEYS = ("sweep", "source", "output", "tracking.uri")
"""The options `sources` reads, for `options.pairs`."""
MLFLOW = "mlflow:"


def sources(options: Mapping[str, str], verb: str = "table") -> list[Path]:
    """Folders that `analysis.find_runs` reads, for the words of a verb.

    `sweep=NAME,...` are sweeps of `output=`; `source=` is one or more, comma separated, of a folder
    (a Run's, a sweep's, an output folder) and `mlflow:EXPERIMENT` or `mlflow:EXPERIMENT/SWEEP`,
    which is brought up to date under `output=` from the store `tracking.uri=` ('' for the output
    folder's mlflow.db). Runs of an experiment that are left out are named on standard error. Raises
    ConfigError for neither or both of `sweep` and `source`, a sweep that is not there or an empty
    source; TrackingError for an experiment that is not there or cannot be read."""
    if ("sweep" in options) == ("source" in options):
        raise ConfigError(
            f"{verb}: name what to read, and one way only: sweep=NAME, source=FOLDER or "
            "source=mlflow:EXPERIMENT"
        )
    if "sweep" in options:
        output = output_of(options)
        return [sweep_of(output, name) for name in _names("sweep", options["sweep"])]
    found: list[Path] = []
    for source in _names("source", options["source"]):
        found.extend(_downloaded(source, options) if is_mlflow(source) else [Path(source)])
    return list(dict.fromkeys(found))


def is_mlflow(source: str) -> bool:
    """Whether `source` names an experiment of MLflow rather than a folder."""
    return source.startswith(MLFLOW)


def tell_left_out(what: str, reasons: Iterable[str]) -> None:
    """Say on standard error, a line each, what was left out of `what`."""
    for reason in reasons:
        print(f"left out of {clean(what)}: {clean(reason, 500)}", file=sys.stderr)


def tell_unreadable(found: Found | None, what: str) -> int:
    """Name on standard error the records that cannot be read, and so are no part of `what`; the
    exit code.

    0 where there is none, else 1: what was made of the others is not of all that was asked for.
    """
    unreadable = found.unreadable if found is not None else ()
    tell_left_out(what, (one.reason for one in unreadable))
    return 1 if unreadable else 0


def _names(key: str, text: str) -> list[str]:
    """The parts of `text`; one folder where a folder with commas in its name lies there."""
    if text and key == "source" and not is_mlflow(text) and Path(text).exists():
        return [text]
    names = listed(text)
    if not names:
        raise ConfigError(f"{key}: a name is needed, found '{clean(text)}'")
    return names


def _downloaded(source: str, options: Mapping[str, str]) -> list[Path]:
    from evopolicy.tracking.download import download
    from evopolicy.tracking.store import Tracking

    output = Path(options.get("output", OUTPUT))
    tracking = Tracking(options.get("tracking.uri", ""))
    found = download(source.removeprefix(MLFLOW), output, tracking)
    tell_left_out(source, found.skipped)
    return list(found.sources)
