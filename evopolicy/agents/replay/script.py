"""Submits the Programs of an earlier Run again, each on its selector, and finishes as that Run
did."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ..scripted.session import SessionClient, say


def work(session: SessionClient, options: dict[str, Any], _: int) -> None:
    """`options`: `submissions` (number, folder under staging, selector) in order, and `named`, the
    earlier numbers."""
    status = session.status()
    made = [int(one["id"]) for one in status.get("submissions", ())]
    program = session.workspace / "program"
    number_now: dict[int, int] = dict(
        zip((one["number"] for one in options["submissions"]), made, strict=False)
    )
    for one in options["submissions"][len(made) :]:
        _lay(Path(options["staging"]) / one["folder"], program)
        answer = session.submit(one["selector"])["submission"]
        number_now[one["number"]] = answer["id"]
        if answer["status"] != "published":
            say("note", f"Submission {answer['id']}, once {one['number']}, failed")
    published = {
        int(one["id"])
        for one in session.status().get("submissions", ())
        if one["status"] == "published"
    }
    named = [
        number_now[number] for number in options["named"] if number_now.get(number) in published
    ]
    session.finish(named)


def _lay(source: Path, target: Path) -> None:
    """Make `target` hold exactly the files of `source`."""
    if target.is_symlink() or target.is_file():
        target.unlink()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(exist_ok=True)
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
        else:
            shutil.copyfile(
                path, copy
            )  # contents alone: what was stored read-only has to be replaced next time
