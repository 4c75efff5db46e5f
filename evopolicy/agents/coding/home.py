"""Settings that a CLI reads from its home alone: staged, and copied there by the agent's own first
program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from evopolicy.kernel.ports.protocols import AgentTask

_SCRIPT, _PLACES = "home.py", "home.json"


def with_home_files(
    task: AgentTask, argv: Sequence[str], texts: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """`argv` behind a small program that first writes `texts`, by path below the home; and the
    files it needs staged.

    JSON is merged over what a copied configuration has there; of any other file the configuration's
    own stays."""
    if not texts:
        return tuple(argv), {}
    places = {name: f"home-{number}{Path(name).suffix}" for number, name in enumerate(texts)}
    files = {places[name]: text for name, text in texts.items()}
    files[_SCRIPT] = Path(__file__).with_name("home_script.py").read_text(encoding="utf-8")
    files[_PLACES] = json.dumps(places)
    first = (
        str(task.python),
        "-s",
        "-S",
        "-P",
        str(task.staging / _SCRIPT),
        str(task.staging / _PLACES),
    )
    return (*first, *argv), files
