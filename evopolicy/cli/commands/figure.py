"""`evopolicy figure`: one figure of a sweep or of any Runs, as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evopolicy.cli.hydra.named import is_file, overrides, plain_name, read_named
from evopolicy.cli.options import pairs
from evopolicy.cli.sources import sources, tell_unreadable
from evopolicy.cli.target import check_target, write_target
from evopolicy.kernel.errors import ConfigError, did_you_mean


def figure(words: Sequence[str]) -> int:
    """`name=` a kind, a figure of `conf/figure/` or a YAML file, the Runs (`sweep=` or `source=`),
    `to=FILE`.

    Any other key than `kind` of the figure's config may be given too; without words the kinds and
    the figures of `conf/` are listed. Exit code 1 where a record cannot be read; the figure is of
    the others.

    Raises ConfigError for an option or a value there is not and for a file that cannot be written,
    RecordError where there is nothing to draw or conditions differ, TrackingError as `sources`
    does."""
    from evopolicy.analysis.figures.config import FigureConfig, draw_figure, figure_config

    if not words:
        return _list()
    options = pairs("figure", words)
    if not options.get("name"):
        raise ConfigError(
            "figure: name what to draw, name=NAME; `evopolicy figure` lists what there is"
        )
    config = figure_config({**_read(options), **overrides(FigureConfig, options)})
    from evopolicy.analysis import find_runs, load_frames
    from evopolicy.analysis.figures.style import check_format, picture

    target = check_format(
        options.get("to", f"{plain_name(options['name']).rpartition('/')[2]}.svg")
    )
    check_target(target)
    found = None
    if config.kind != "demand" or {"sweep", "source"} & set(options):
        found = find_runs(*sources(options, "figure"), compared="every")
    frames = load_frames(found, programs=config.needs_programs) if found is not None else None
    write_target(target, picture(draw_figure(config, frames), target.suffix.lower()[1:]))
    print(target)
    return tell_unreadable(found, "the figure")


def _list() -> int:
    from evopolicy.analysis.figures.config import KINDS
    from evopolicy.cli.hydra.groups import group_options

    width = max(map(len, KINDS)) + 2
    for kind, what in KINDS.items():
        print(f"  name={kind:<{width}}{what}")
    for name in group_options("figure"):
        print(f"  name={name}")
    return 0


def _read(options: Mapping[str, str]) -> dict[str, Any]:
    """Values of the figure that `name=` says: a kind's are its kind."""
    from evopolicy.analysis.figures.config import KINDS
    from evopolicy.cli.hydra.groups import group_options

    name = options["name"]
    if name in KINDS:
        return {"kind": name}
    known = [*KINDS, *group_options("figure")]
    if not is_file(name) and name not in known:
        raise ConfigError(
            f"name: there is no figure '{name}'.{did_you_mean(name, known)} `evopolicy figure` "
            "lists them."
        )
    return read_named("figure", name)
