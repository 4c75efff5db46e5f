"""`evopolicy table`: the rank table of a sweep or of any Runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evopolicy.cli.options import output_of, pairs, sweep_of
from evopolicy.cli.summary import print_table
from evopolicy.kernel.errors import ConfigError


def table(words: Sequence[str]) -> int:
    """`sweep=NAME`, or `source=` one or more folders, comma separated; `allow=` conditions that may differ."""
    options = pairs("table", words, ("sweep", "source", "output", "allow"))
    if ("sweep" in options) == ("source" in options):
        raise ConfigError("table: name what to compare, sweep=NAME or source=FOLDER, and only one of them")
    if "sweep" in options:
        sources = [sweep_of(output_of(options), options["sweep"])]
    else:
        sources = [Path(source) for source in options["source"].split(",")]
    allow = [name for name in options.get("allow", "").split(",") if name]
    return 0 if print_table(*sources, allow=allow) else 1
