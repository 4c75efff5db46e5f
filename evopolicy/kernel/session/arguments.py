"""What an agent's call asks for: its arguments, which may be any JSON, as what they have to be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from evopolicy.kernel.errors import Refused, did_you_mean
from evopolicy.kernel.shown import misleading

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "status": (),
    "check": ("path",),
    "submit": ("path", "episodes", "detach"),
    "wait": (),
    "feedback": ("submission",),
    "finish": ("candidates",),
}
"""The verbs of a Session, with what each takes."""
_SHOWN = 40


def check_names(verb: str, arguments: Mapping[str, Any]) -> None:
    """Raises Refused for a verb that a Session does not have, and for an argument that the verb
    does not take."""
    if verb not in ARGUMENTS:
        raise Refused(
            "unknown_verb",
            f"unknown verb '{verb[:_SHOWN]}'.{did_you_mean(verb[:_SHOWN], ARGUMENTS)}",
        )
    for name in arguments:
        if name not in ARGUMENTS[verb]:
            hint = did_you_mean(name[:_SHOWN], ARGUMENTS[verb])
            raise Refused("bad_request", f"'{verb}' takes no argument '{name[:_SHOWN]}'.{hint}")


def selector(arguments: Mapping[str, Any]) -> str:
    """The Episodes a Submission names. Raises Refused."""
    text = arguments.get("episodes")
    if not isinstance(text, str):
        raise Refused("selector_empty", "no Episodes are named", "add --episodes 0:8")
    return text


def folder(arguments: Mapping[str, Any]) -> Path:
    """The Program's folder, below the workspace. Raises Refused."""
    path = arguments.get("path") or "program"
    if not isinstance(path, str) or misleading(path):
        raise Refused(
            "bad_path", "the folder's name is not printable", "submit a folder of another name"
        )
    named = PurePosixPath(path)
    if named.is_absolute() or ".." in named.parts:
        raise Refused(
            "outside_workspace", f"'{path}' is outside the workspace", "submit a folder inside it"
        )
    return Path(named)


def candidates(arguments: Mapping[str, Any]) -> list[int]:
    """The Submissions `finish` lists. Raises Refused."""
    named = arguments.get("candidates") or []
    if not isinstance(named, list) or not all(
        isinstance(n, int) and not isinstance(n, bool) for n in named
    ):
        raise Refused(
            "bad_candidates",
            "candidates are the numbers of Submissions",
            "evopolicy-session finish 3 5",
        )
    return named


def check_known(named: Collection[int], published: Collection[int]) -> None:
    """Raises Refused for a candidate that is not among the published Submissions."""
    if unknown := [number for number in named if number not in published]:
        raise Refused(
            "bad_candidates",
            f"Submission {unknown[0]} is not published",
            f"published: {sorted(published)}",
        )
