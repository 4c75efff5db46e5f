"""Reading what an agent printed: JSON lines that may be truncated, mixed with text, or not JSON at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any


def json_lines(lines: Iterable[str]) -> Iterator[dict[str, Any] | None]:
    """Each non-blank line as the object it holds; None for a line that holds none."""
    for line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        yield value if isinstance(value, dict) else None
