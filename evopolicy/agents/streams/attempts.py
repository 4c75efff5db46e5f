"""What lies beside a raw stream in the logs of a Run: errors before its first event, and the
attempts before it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from evopolicy.agents.streams.stream import inner, stderr_of

MAX_LINE = 64 << 20


def stderr_words(logs: Path | None) -> str:
    """The last of what a process said on standard error, without warnings; '' for nothing."""
    lines = [line for line in stderr_of(logs) if not re.match("warn", line, re.IGNORECASE)]
    return "\n".join(lines[-5:])[:2000]


def earlier(logs: Path | None) -> Iterator[Path]:
    """Log folders of the attempts before the one in `logs`, the latest first."""
    number = _number(logs) if logs else 0
    if logs is not None:
        yield from (logs.parent / f"attempt-{before}" for before in range(number - 1, 0, -1))


def _number(logs: Path) -> int:
    match = re.fullmatch(r"attempt-(\d{1,6})", logs.name)
    return int(match[1]) if match else 0


def is_counted(logs: Path | None) -> bool:
    """Whether the Host's proxy has counted this attempt: what the agent's home says of it is then
    not needed."""
    try:
        return (
            logs is not None
            and inner(json.loads((logs / "invocation.json").read_text()), "network") == "proxy"
        )
    except (OSError, ValueError):
        return False


def lines_with(path: Path, *words: str) -> Iterator[str]:
    """Lines of a file that hold one of `words`; links are not followed, a file that cannot be read
    has none."""
    if path.is_symlink() or not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        while line := file.readline(MAX_LINE):
            if any(word in line for word in words):
                yield line


def home_files(logs: Path | None, pattern: str) -> list[Path]:
    """Files kept of the home of the attempt in `logs`, in the order of their names."""
    return sorted((logs / "home").glob(pattern)) if logs else []
