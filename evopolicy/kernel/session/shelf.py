"""The published Feedback of a Run: in the record and in the agent's workspace, its bulk artifacts
within bounds."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from evopolicy.kernel.ports.feedback import FEEDBACK, copy_feedback, discard
from evopolicy.kernel.session.record import feedback_folder


class Shelf:
    """The bulk artifacts a Run keeps, oldest Submission first. Each Feedback is looked at once,
    however many come."""

    def __init__(self, folder: Path, workspace: Path, budget_bytes: int) -> None:
        """`folder`: the Run's."""
        self._folder = folder
        self._workspace = workspace
        self._budget = budget_bytes
        self._kept: deque[tuple[str, str, int]] = deque()
        """Submission's folder, artifact, bytes."""
        self._total = 0
        self._newest = ""

    def content(self, submission: int) -> dict[str, Any]:
        """What the Feedback of `submission` says. Raises OSError."""
        content: dict[str, Any] = json.loads(
            (feedback_folder(self._folder, submission) / FEEDBACK).read_bytes()
        )
        return content

    def add(self, submission: int) -> None:
        """Copy the newest Feedback, that of `submission`, into the workspace, and take it in."""
        folder = feedback_folder(self._folder, submission)
        copy_feedback(folder, self._workspace / "feedback", f"{submission:04d}")
        self._newest = folder.parent.name
        for name, size in _bulk(folder, self.content(submission)):
            self._kept.append((self._newest, name, size))
            self._total += size

    def over(self) -> list[tuple[str, str]]:
        """What has to go, as (Submission's folder, artifact), so that the rest fits; the newest is
        never touched.

        It is not on the shelf any more. feedback.json keeps naming it.
        """
        gone: list[tuple[str, str]] = []
        while self._total > self._budget and self._kept and self._kept[0][0] != self._newest:
            submission, name, size = self._kept.popleft()
            self._total -= size
            gone.append((submission, name))
        return gone

    def discard(self, artifacts: Iterable[Sequence[str]]) -> None:
        """Remove `artifacts` (Submission's folder, name), as far as they are there, in the record
        and in the workspace.

        No name that leads elsewhere is followed.
        """
        for submission, artifact in artifacts:
            discard(self._folder / "submissions", submission, f"feedback/{artifact}")
            discard(self._workspace / "feedback", submission, artifact)


def _bulk(folder: Path, content: dict[str, Any]) -> list[tuple[str, int]]:
    named = [row["file"] for row in content.get("artifacts", ()) if row["retention"] == "bulk"]
    return [(name, (folder / name).stat().st_size) for name in named if (folder / name).exists()]
