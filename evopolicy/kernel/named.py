"""Things with a name: ours, and those that installed distributions bring as entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from evopolicy.kernel.errors import EvoPolicyError, did_you_mean


def load_named(
    key: str, name: str, group: str, ours: Mapping[str, Any], error: type[EvoPolicyError]
) -> Any:
    """What `name` stands for in `ours`, else among the entry points of `group`; an EntryPoint is
    loaded.

    Raises `error`, beginning with `key`, for a name that is unknown or cannot be imported.
    """
    known = ours if name in ours else {**_points(group), **ours}
    if name not in known:
        raise error(f"{key}: '{name}' is unknown.{did_you_mean(name, known)}")
    found = known[name]
    # Entry points need not be of this class: where `importlib_metadata` is imported, they are its.
    is_loaded = name in ours and not isinstance(found, EntryPoint)
    try:
        return found if is_loaded else found.load()
    except (ImportError, AttributeError) as reason:
        raise error(f"{key}: '{name}' cannot be imported from {found.value}: {reason}") from reason


def distribution_of(name: str, group: str, ours: Mapping[str, Any]) -> dict[str, str]:
    """The distribution that brings `name`, with its version; nothing where it is ours."""
    distribution = None if name in ours else _points(group)[name].dist
    return {distribution.name: distribution.version} if distribution else {}


def _points(group: str) -> dict[str, EntryPoint]:
    """Looked up for a name that is not ours alone: each look reads what all distributions say."""
    return {point.name: point for point in entry_points(group=group)}
