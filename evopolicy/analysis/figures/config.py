"""What a figure shows, as its YAML under `conf/figure/` or the command line says it, and the figure
drawn from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evopolicy.analysis.records.configs import read_config
from evopolicy.analysis.records.trajectory import Axis
from evopolicy.kernel.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from evopolicy.analysis.records.frames import Frames

Kind = Literal[
    "curves", "timeline", "rank", "profile", "splits", "edits", "demand", "usage", "difference"
]

KINDS: Mapping[str, str] = {
    "curves": "best so far against Episode units, with intervals",
    "timeline": "one Run: what each Submission was and gave, over its phases",
    "rank": "rank scores with intervals",
    "profile": "performance profile: share of Runs above each score",
    "splits": "training against Validation against Assessment",
    "edits": "size of an edit against the chance of a new best",
    "demand": "normalized scores where synthesis, and where tuning, dominates (the paper's "
    "without source)",
    "usage": "tokens and cost against score",
    "difference": "held-out scores less those of one entry, with intervals",
}
"""The kinds of figures, with what they draw."""
BELONGS: Mapping[str, tuple[Kind, ...]] = {
    "run": ("timeline",),
    "published": ("rank", "demand"),
    "data_edits": ("edits", "timeline"),
    "axis": ("curves",),
    "against": ("difference",),
}
"""Keys that only some kinds have."""


@dataclass(frozen=True)
class FigureConfig:
    """A figure. Raises ConfigError for a key that its kind does not have."""

    kind: Kind
    axis: Axis = "units"
    """Curves: what best-so-far runs over, units, submissions, seconds, tokens or cost_usd."""
    published: bool | None = None
    """Rank, demand: whether the paper's entries stand beside the Runs; by default in demand, not in
    rank."""
    data_edits: bool = False
    """Edits, timeline: whether the same source with new numbers in a file is a parametric edit, not
    a retest."""
    run: str = ""
    """Timeline: which Run, or the end of its path; needed where there are several."""
    against: str = ""
    """Difference: what entries are compared with, an entry (the first by default) or a swept
    setting (feedback=score)."""
    allow: tuple[str, ...] = ()
    """Conditions that may differ: isolation, parameters, pool, budget, selection, duplicates."""
    dark: bool = False
    """Whether the ground is dark: true or false."""

    @property
    def needs_programs(self) -> bool:
        """Whether the source of the Programs is looked at."""
        return self.kind in ("edits", "timeline")


def figure_config(values: Mapping[str, Any]) -> FigureConfig:
    """A figure's config from plain values; a list may be words with commas between.

    Raises ConfigError with the near name for a key or a choice there is not, for a key that the
    kind does not have, and for a value of the wrong type."""
    config = read_config(FigureConfig, values, "figure")
    for key, kinds in BELONGS.items():
        if key in values and config.kind not in kinds:
            raise ConfigError(
                f"{key}: it is for {' and '.join(kinds)}; leave it out for {config.kind}"
            )
    return config


def draw_figure(config: FigureConfig, frames: Frames | None) -> Figure:
    """The figure of `frames`; None: the paper's own, which only `demand` has. Raises RecordError as
    the kind does."""
    from evopolicy import analysis

    dark, allow = config.dark, config.allow
    if config.kind == "demand":
        published = config.published is not False
        if frames is None:
            return analysis.demand_figure(dark=dark)
        return analysis.demand_figure(frames, published=published, allow=allow, dark=dark)
    if frames is None:
        raise ConfigError(
            f"{config.kind}: it is drawn of Runs; only demand has a figure of published scores "
            "alone"
        )
    if config.kind == "timeline":
        return analysis.timeline_figure(frames, config.run, data_edits=config.data_edits, dark=dark)
    if config.kind == "edits":
        return _edits(config, frames)
    if config.kind == "rank":
        return analysis.rank_figure(
            frames, published=bool(config.published), allow=allow, dark=dark
        )
    if config.kind == "difference":
        return analysis.difference_figure(frames, config.against, allow=allow, dark=dark)
    if config.kind == "curves":
        return analysis.best_so_far_figure(frames, axis=config.axis, allow=allow, dark=dark)
    draw = {
        "profile": analysis.profile_figure,
        "splits": analysis.splits_figure,
        "usage": analysis.usage_figure,
    }
    return draw[config.kind](frames, allow=allow, dark=dark)


def _edits(config: FigureConfig, frames: Frames) -> Figure:
    """Of the valid Runs, where these may be compared."""
    from evopolicy import analysis
    from evopolicy.analysis.figures.inputs import gather

    inputs = gather(frames, allow=config.allow)
    edits = analysis.diagnose(inputs.frames, data_edits=config.data_edits).edits
    return analysis.edit_size_figure(edits, notes=inputs.notes, dark=config.dark)
