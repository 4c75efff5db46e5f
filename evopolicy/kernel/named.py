"""Things with a name: ours, and those that installed distributions bring as entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from evopolicy.kernel.errors import EvoPolicyError, did_you_mean


def load_named(key: str, name: str, group: str, ours: Mapping[str, Any], error: type[EvoPolicyError]) -> Any:
    """What `name` stands for in `ours`, else among the entry points of `group`; an EntryPoint is loaded.

    Raises `error`, beginning with `key`, for a name that is unknown or cannot be imported.
    """
    # The entry points are read for a name that is not ours alone: each look reads what all distributions say.
    known = ours if name in ours else {**{point.name: point for point in entry_points(group=group)}, **ours}
    if name not in known:
        raise error(f"{key}: '{name}' is unknown.{did_you_mean(name, known)}")
    found = known[name]
    try:
        return found.load() if isinstance(found, EntryPoint) else found
    except (ImportError, AttributeError) as reason:
        raise error(f"{key}: '{name}' cannot be imported from {found.value}: {reason}") from reason
