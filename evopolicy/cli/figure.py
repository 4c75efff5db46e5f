"""`evopolicy figure`: one figure of a sweep or of any Runs, as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evopolicy.cli import sources
from evopolicy.cli.named import is_file, plain_name, read_named
from evopolicy.cli.options import pairs
from evopolicy.kernel.errors import ConfigError, did_you_mean

_WHERE = ("name", *sources.KEYS, "to")


def figure(words: Sequence[str]) -> int:
    """`name=` a kind, a figure of `conf/figure/` or a YAML file, the Runs (`sweep=` or `source=`), `to=FILE`.

    Any key of the figure's config may be given too; without words the kinds and the figures of `conf/` are listed.
    """
    from evopolicy.analysis.figures.config import draw_figure, figure_config

    if not words:
        return _list()
    options = pairs("figure", words)
    config = figure_config({**_read(options), **_overrides(options)})
    from evopolicy.analysis import find_runs, load_frames, save_figure
    from evopolicy.analysis.figures.style import check_format

    target = check_format(options.get("to", f"{plain_name(options['name']).rpartition('/')[2]}.svg"))
    frames = None
    if config.kind != "demand" or {"sweep", "source"} & set(options):
        frames = load_frames(find_runs(*sources.sources(options, "figure")), programs=config.needs_programs)
    print(save_figure(draw_figure(config, frames), target))
    return 0


def _list() -> int:
    from evopolicy.analysis.figures.config import KINDS
    from evopolicy.cli.compose import group_options

    for kind, what in KINDS.items():
        print(f"  name={kind:<10}{what}")
    for name in group_options("figure"):
        print(f"  name={name}")
    return 0


def _read(options: Mapping[str, str]) -> dict[str, Any]:
    """Values of the figure that `name=` says: a kind's are its kind."""
    from evopolicy.analysis.figures.config import KINDS
    from evopolicy.cli.compose import group_options

    name = options.get("name", "")
    if name in KINDS:
        return {"kind": name}
    known = [*KINDS, *group_options("figure")]
    if not is_file(name) and name not in known:
        raise ConfigError(
            f"name: there is no figure '{name}'.{did_you_mean(name, known)} `evopolicy figure` lists them."
        )
    return read_named("figure", name)


def _overrides(options: Mapping[str, str]) -> dict[str, Any]:
    """Keys of a figure's config; `true` and `false` in any case are what they say."""
    said = {key: value for key, value in options.items() if key not in _WHERE}
    return {key: {"true": True, "false": False}.get(value.lower(), value) for key, value in said.items()}
