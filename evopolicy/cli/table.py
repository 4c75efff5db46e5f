"""`evopolicy table`: the rank table of a sweep or of any Runs, or a table that a config describes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicy.cli.named import plain_name, read_named
from evopolicy.cli.options import pairs
from evopolicy.cli.sources import KEYS as SOURCES
from evopolicy.cli.sources import sources
from evopolicy.cli.summary import print_table
from evopolicy.cli.text import clean
from evopolicy.kernel.errors import ConfigError

if TYPE_CHECKING:
    from evopolicy.analysis.load import Found
    from evopolicy.analysis.sheet import Sheet
    from evopolicy.analysis.table_config import TableConfig

_WHERE = ("name", *SOURCES, "to")


def table(words: Sequence[str]) -> int:
    """`name=` a table of `conf/table/` or a YAML file, `sweep=`, `source=`, `to=FILE` and any key of its config.

    Without a name: the rank table of `sweep=NAME`, or of `source=` one or more folders, comma separated; `allow=` names
    the conditions that may differ.
    """

    options = pairs("table", words)
    if "name" in options:
        return _named_table(options)
    for key in options:
        if key not in (*SOURCES, "allow"):
            raise ConfigError(f"table: '{key}' belongs to a table with a name; add name=paper/rank, or another")
    if not {"sweep", "source"} & set(options):
        raise ConfigError(
            "table: name what to compare, sweep=NAME or source=FOLDER; name=paper/core16 prints what is published"
        )
    allow = [name for name in options.get("allow", "").split(",") if name]
    return 0 if print_table(*sources(options), allow=allow) else 1


# --- tables from configs -----------------------------------------------------------------------------------------


def _named_table(options: Mapping[str, str]) -> int:
    from evopolicy.analysis import find_runs, load_frames
    from evopolicy.analysis.paper_tables import paper_table
    from evopolicy.analysis.table_config import table_config

    overrides = {key: _value(key, text) for key, text in options.items() if key not in _WHERE}
    config = table_config({**read_named("table", options["name"]), **overrides})
    found = find_runs(*sources(options)) if {"sweep", "source"} & set(options) else None
    frames = load_frames(found) if found is not None else None
    sheet = paper_table(config, frames, name=plain_name(options["name"]))
    _show(sheet, config, options.get("to"))
    return _tell_unreadable(found)


def _tell_unreadable(found: Found | None) -> int:
    unreadable = found.unreadable if found is not None else ()
    for one in unreadable:
        print(f"left out of the table: {clean(one.reason)}", file=sys.stderr)
    return 1 if unreadable else 0


def _value(key: str, text: str) -> Any:
    """An override as YAML reads it: `true`, `3`, `null`, `[a, b]`; words with commas stay text."""
    import yaml

    if key == "title":
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _show(sheet: Sheet, config: TableConfig, file: str | None) -> None:
    """Print the table, or write it to `file`; notes of a CSV, which has no place for them, go to standard error."""
    from evopolicy.analysis.paper_tables import draw_table

    if file is None and config.format == "terminal" and sys.stdout.isatty():
        from rich.console import Console

        from evopolicy.analysis.draw import sheet_rich

        Console().print(sheet_rich(sheet))
        return
    text = draw_table(sheet, config.format, max(shutil.get_terminal_size((120, 24)).columns, 80))
    if config.format == "csv":
        for note in sheet.notes:
            print(clean(note, 2_000), file=sys.stderr)
    if file is None:
        print(text, end="")
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"to: '{file}' cannot be written ({error.strerror}); name another file") from None
    print(f"Written: {file}")
