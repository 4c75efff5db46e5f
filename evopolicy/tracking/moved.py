"""Our own database after its folder was moved or copied: MLflow writes down whole paths, ours
follow the folder."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from pathlib import Path

ARTIFACTS_FOLDER = "mlartifacts"
_OURS = re.compile(rf"(file://.*)/{ARTIFACTS_FOLDER}/[A-Za-z0-9_.-]+")
_PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("trace_tags", "value"),
)


def settle(database: Path) -> None:
    """Have everything logged to `database` lie beside it. One that cannot be written stays as it
    is.

    Nobody else may be making it meanwhile.
    """
    here = database.parent.as_uri()
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(database, timeout=60)) as open_one,
    ):
        places = [
            str(place) for (place,) in open_one.execute("SELECT artifact_location FROM experiments")
        ]
        former = {match[1] for place in places if (match := _OURS.fullmatch(place))} - {here}
        if not former and all(place.startswith(here) for place in places):
            return
        with open_one:
            for root in sorted(former, key=len, reverse=True):
                _follow(open_one, f"{root}/{ARTIFACTS_FOLDER}/", f"{here}/{ARTIFACTS_FOLDER}/")
            # MLflow's first experiment, which nothing of ours is in, has a folder of whoever made
            # the database.
            first = "UPDATE experiments SET artifact_location = ? WHERE experiment_id = 0"
            open_one.execute(first, (f"{here}/{ARTIFACTS_FOLDER}/0",))


def _follow(database: sqlite3.Connection, before: str, now: str) -> None:
    for table, column in _PLACES:
        database.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) "
            "= ?",
            (now, len(before) + 1, len(before), before),
        )
