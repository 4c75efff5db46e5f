"""`evopolicy table`: the rank table of a sweep or of any Runs, or a table that a config
describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicy.cli.hydra.named import overrides, plain_name, read_named
from evopolicy.cli.options import listed, pairs
from evopolicy.cli.sources import KEYS as SOURCES
from evopolicy.cli.sources import sources, tell_unreadable
from evopolicy.cli.summary import print_table, write_table
from evopolicy.cli.target import check_target
from evopolicy.kernel.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from evopolicy.present.formats import Format

ENDINGS: Mapping[str, Format] = {
    ".csv": "csv",
    ".tex": "latex",
    ".html": "html",
    ".md": "markdown",
    ".txt": "terminal",
}
"""The format that a file's ending asks for."""


def table(words: Sequence[str]) -> int:
    """`name=` a table of `conf/table/` or a YAML file, `sweep=`, `source=`, `to=FILE` and any key
    of its config.

    Without a name: the rank table of `sweep=NAME`, or of `source=` one or more folders, comma
    separated, with `to=FILE` and `format=` too; `allow=` names the conditions that may differ. Exit
    code 1 where a record cannot be read; the table is of the others.

    Raises ConfigError for an option or a value there is not and for a file that cannot be written,
    RecordError where there is nothing to compare, cells are missing or conditions differ,
    TrackingError as `sources` does."""

    options = pairs("table", words)
    if "name" in options:
        return _named_table(options)
    for key in options:
        if key not in (*SOURCES, "allow", "to", "format"):
            raise ConfigError(
                f"table: '{key}' is an option of named tables; add a name, such as name=paper/rank"
            )
    if not {"sweep", "source"} & set(options):
        raise ConfigError(
            "table: name what to compare, sweep=NAME or source=FOLDER; name=paper/core16 prints "
            "what is published"
        )
    target = check_target(options["to"]) if "to" in options else None
    form = _plain_format(options, target)
    return print_table(
        *sources(options), allow=listed(options.get("allow", "")), form=form, target=target
    )


def _plain_format(options: Mapping[str, str], target: Path | None) -> Format:
    """The format asked for, or that of the file's ending. Raises ConfigError for one there is
    not."""
    ending = ENDINGS.get(target.suffix.lower()) if target is not None else None
    form = options.get("format", ending or "terminal")
    known = list(ENDINGS.values())
    if form not in known:
        raise ConfigError(
            f"format: '{form}' is unknown; choose one of "
            f"{', '.join(known)}.{did_you_mean(form, known)}"
        )
    return form


# --- tables from configs --------------------------------------------------------------------------


def _named_table(options: Mapping[str, str]) -> int:
    from evopolicy.analysis import find_runs, load_frames
    from evopolicy.analysis.tables.config import TableConfig, table_config
    from evopolicy.analysis.tables.paper_tables import paper_table

    target = check_target(options["to"]) if "to" in options else None
    values = {**read_named("table", options["name"]), **overrides(TableConfig, options)}
    ending = ENDINGS.get(target.suffix.lower()) if target is not None else None
    config = table_config(
        {**values, "format": ending} if ending and "format" not in options else values
    )
    found = find_runs(*sources(options)) if {"sweep", "source"} & set(options) else None
    frames = load_frames(found) if found is not None else None
    write_table(
        paper_table(config, frames, name=plain_name(options["name"])), config.format, target
    )
    return tell_unreadable(found, "the table")
