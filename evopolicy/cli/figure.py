"""`evopolicy figure`: one figure of a sweep or of any Runs, as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from evopolicy.cli import sources
from evopolicy.cli.options import pairs
from evopolicy.kernel.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from evopolicy.analysis import Frames
    from evopolicy.analysis.trajectory import Axis

NAMES: Mapping[str, str] = {
    "curves": "best so far against Episode units, with intervals",
    "timeline": "one Run: what each Submission was and gave, over its phases",
    "rank": "rank scores with intervals",
    "profile": "performance profile: share of Runs above each score",
    "splits": "training against Validation against Assessment",
    "edits": "size of an edit against the chance of a new best",
    "demand": "normalized scores where synthesis, and where tuning, dominates (the paper's without source)",
    "usage": "tokens and cost against score",
}
_KEYS = ("name", *sources.KEYS, "to", "dark", "run", "published", "data_edits", "axis", "allow")


def figure(words: Sequence[str]) -> int:
    """`name=` one of NAMES, the Runs (`sweep=` or `source=`), `to=FILE`; without words the names are listed."""
    if not words:
        for name, what in NAMES.items():
            print(f"  name={name:<10}{what}")
        return 0
    options = pairs("figure", words, _KEYS)
    name = options.get("name", "")
    if name not in NAMES:
        raise ConfigError(
            f"name: there is no figure '{name}'.{did_you_mean(name, NAMES)} `evopolicy figure` lists them."
        )
    belongs = {
        "run": ("timeline",),
        "published": ("rank", "demand"),
        "data_edits": ("edits", "timeline"),
        "axis": ("curves",),
    }
    for key, only in belongs.items():
        if key in options and name not in only:
            raise ConfigError(f"{key}: it is for name={' and name='.join(only)}; leave it out for name={name}")
    from evopolicy.analysis import save_figure
    from evopolicy.analysis.figures.style import check_format

    target = check_format(options.get("to", f"{name}.svg"))
    print(save_figure(_drawn(name, options), target))
    return 0


def _axis(options: Mapping[str, str]) -> Axis:
    """What best-so-far curves run over. Raises ConfigError."""
    from evopolicy.analysis.trajectory import AXES

    axis = options.get("axis", "units")
    if axis not in AXES:
        raise ConfigError(f"axis: there is no '{axis}'.{did_you_mean(axis, AXES)}")
    return axis


def _drawn(name: str, options: Mapping[str, str]) -> Figure:
    from evopolicy import analysis

    dark = _switch(options, "dark", False)
    if name == "demand" and not {"sweep", "source"} & set(options):
        return analysis.demand_figure(dark=dark)
    frames = _frames(name, options)
    data_edits = _switch(options, "data_edits", False)
    if name == "timeline":
        return analysis.timeline_figure(frames, options.get("run", ""), data_edits=data_edits, dark=dark)
    allow = [condition for condition in options.get("allow", "").split(",") if condition]
    if name == "edits":
        return _edits(frames, allow, data_edits, dark)
    if name == "rank":
        return analysis.rank_figure(frames, published=_switch(options, "published", False), allow=allow, dark=dark)
    if name == "demand":
        return analysis.demand_figure(frames, published=_switch(options, "published", True), allow=allow, dark=dark)
    if name == "curves":
        return analysis.best_so_far_figure(frames, axis=_axis(options), allow=allow, dark=dark)
    draw: dict[str, Callable[..., Figure]] = {
        "profile": analysis.profile_figure,
        "splits": analysis.splits_figure,
        "usage": analysis.usage_figure,
    }
    return draw[name](frames, allow=allow, dark=dark)


def _edits(frames: Frames, allow: Sequence[str], data_edits: bool, dark: bool) -> Figure:
    """Of the valid Runs, where these may be compared."""
    from evopolicy import analysis
    from evopolicy.analysis.figures.material import gather

    material = gather(frames, allow=allow)
    edits = analysis.diagnose(material.frames, data_edits=data_edits).edits
    return analysis.edit_size_figure(edits, notes=material.notes, dark=dark)


def _frames(name: str, options: Mapping[str, str]) -> Frames:
    from evopolicy.analysis import find_runs, load_frames

    found = find_runs(*sources.sources(options, "figure"))
    return load_frames(found, programs=name in ("edits", "timeline"))


def _switch(options: Mapping[str, str], key: str, default: bool) -> bool:
    text = options.get(key, "true" if default else "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key}: true or false is needed, found '{options[key]}'")
    return text == "true"
