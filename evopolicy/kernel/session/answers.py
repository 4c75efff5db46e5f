"""What a Session answers: plain JSON objects. Nothing here decides anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evopolicy.kernel.errors import Refused
from evopolicy.kernel.ports.feedback import FEEDBACK
from evopolicy.kernel.ports.outcome import CheckReport
from evopolicy.kernel.ports.pool import format_selector
from evopolicy.kernel.session.budget import Account
from evopolicy.kernel.session.state import SubmissionState

FAULT_TEXT = (
    "the Environment or the engine failed, not your Program; its Episode units stay "
    "spent and no score was published"
)


def next_step(state: str, *, spent: bool) -> str:
    """The words to type next, in a Session that is 'open', 'running' or 'finished'; `spent`: no
    budget is left."""
    if state == "finished":
        return "nothing: the Session is closed, you can stop"
    if state == "running":
        return "evopolicy-session wait"
    return (
        "evopolicy-session finish" if spent else "evopolicy-session submit DIR --episodes SELECTOR"
    )


def host_failed() -> Refused:
    """What every call is told once the Host's own work has failed."""
    return Refused("host_failed", "the Host cannot go on; your work so far is kept", "stop here")


def budget_view(account: Account) -> dict[str, Any]:
    """What is left and what one Submission may use."""
    budget = account.budget
    return {
        "episodes_left": account.episodes_left,
        "episodes_total": budget.episodes,
        "submissions_left": account.submissions_left,
        "submissions_total": budget.submissions,
        "per_submission": budget.cap(account.pool_size),
        "pool_size": account.pool_size,
        "finish": budget.finish,
    }


def check_view(digest: str, report: CheckReport) -> dict[str, Any]:
    """What `check` found, the Policy's traceback included at every visibility level."""
    view: dict[str, Any] = {
        "state": "open",
        "ok": report.ok,
        "program": digest,
        "actions": list(report.actions),
    }
    if report.failure:
        view["failure"] = {
            "kind": report.failure.kind,
            "phase": report.failure.phase,
            "message": report.failure.message,
            "traceback": report.failure.traceback,
        }
    if report.output.text:
        view["output"] = report.output.text[:2_000]
    if report.warnings:
        view["warnings"] = list(report.warnings)
    return view


def running_view(submission: SubmissionState, done: int) -> dict[str, Any]:
    """A Submission of which `done` Episodes have ended."""
    return {**_named(submission, "running"), "episodes_done": done}


def published_view(submission: SubmissionState, feedback: Mapping[str, Any]) -> dict[str, Any]:
    """A Submission with its Feedback: where it lies, and of its content what fits a line."""
    repeated = {
        key: feedback[key]
        for key in ("score", "episodes", "failed_episodes", "summary")
        if key in feedback
    }
    where = f"feedback/{submission.id:04d}/{FEEDBACK}"
    return {**_named(submission, submission.status), **repeated, "feedback": where}


def failed_view(submission: SubmissionState) -> dict[str, Any]:
    """A Submission that an engine fault ended; the fault itself is the Host's to know."""
    return {**_named(submission, submission.status), "reason": FAULT_TEXT}


def _named(submission: SubmissionState, status: str) -> dict[str, Any]:
    return {
        "id": submission.id,
        "status": status,
        "episodes_total": len(submission.indices),
        "selector": format_selector(submission.indices),
    }
