"""The Run: a Session with an agent, handoff, Validation, selection and Assessment; from wherever
the journal ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from evopolicy.kernel.errors import AgentError, RecordError
from evopolicy.kernel.files import beneath
from evopolicy.kernel.files.durable import sync_tree
from evopolicy.kernel.files.program import link_program
from evopolicy.kernel.ports.protocols import (
    AgentIntegration,
    AgentLauncher,
    AgentLimits,
    Gateway,
    Observer,
)
from evopolicy.kernel.ports.transcript import Transcript, tool_calls
from evopolicy.kernel.run.attempt import (
    HOME,
    AgentEnd,
    AttemptSetup,
    NotStarted,
    attempt_logs,
    counted_turns,
    is_unexplained,
    joined_usage,
    run_attempt,
    waited_of,
)
from evopolicy.kernel.run.endings import WAITED_SHARE, remedy
from evopolicy.kernel.run.notifier import Notifier
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable
from evopolicy.kernel.run.result import Grading, complete, has_ended
from evopolicy.kernel.run.stream import (
    STDOUT,
    is_kept,
    joined,
    plain,
    read_transcript,
    write_transcript,
)
from evopolicy.kernel.secrecy.masked_files import Cut, mask_files
from evopolicy.kernel.secrecy.secrets import NO_SECRETS, Masker, masked_events
from evopolicy.kernel.session.failures import (
    AUTHENTICATION,
    ENGINE_FAULT,
    FINISHED,
    HOST_KILLED,
    MEANINGS,
    NOT_STARTED,
    NOTHING_PUBLISHED,
    PROVIDER,
    UNANSWERED,
    UNEXPLAINED,
    WAITED,
    invalidates_run,
    restarts,
)
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import (
    Run,
    RunRecord,
    check_versions,
    load_run,
    read_record,
    write_record,
)
from evopolicy.kernel.session.session import Session, SessionSite
from evopolicy.kernel.session.state import Ledger


@dataclass(frozen=True)
class RunPlan:
    """Everything a Run is made of, built before anything is spent."""

    record: RunRecord
    folder: Path
    site: SessionSite
    agent: AgentIntegration
    launcher: AgentLauncher
    gateway: Gateway
    limits: AgentLimits
    prompt: str
    agent_retries: int
    backoff_seconds: float
    prepare_workspace: Callable[[Path], None]
    """Writes what the agent finds, given the gateway's socket; leaves what a resumed agent has
    written."""
    measuring: Mapping[str, str] = field(default_factory=dict)
    """Those of the record's versions that an Episode's outcome depends on."""
    observers: Sequence[Observer] = ()
    prices: PriceTable = NO_PRICES
    mask: Masker = NO_SECRETS
    """Of what the agent or its provider may have said into the record."""


def run(plan: RunPlan) -> Run:
    """Run `plan`, or go on where its journal ends. A finished Run is returned as it is, read by the
    plan's own rule.

    Raises ExecutionError where Validation or Assessment cannot be completed, AgentError where the
    agent cannot be started, and RecordError where the disk fails or the folder holds another Run.
    The Run then stays resumable and nothing is lost."""
    notifier = Notifier(plan.observers)
    try:
        journal = Journal(plan.folder, notifier.event, masked_events(plan.mask, MEANINGS))
        try:
            ledger = Ledger(journal)
            _open(plan, ledger, journal)
            if ledger.state.candidates is None:
                _session(plan, ledger, notifier)
            site = plan.site
            complete(
                Grading(plan.record, plan.folder, site.bench, site.pool, site.store),
                ledger,
                notifier,
            )
            notifier.progress("done", 0, 0)
        finally:
            journal.close()
    except OSError as error:
        what = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        raise RecordError(
            f"{plan.folder.name}: the Run stopped ({what}); nothing is lost: mend that and run "
            "the command again"
        ) from error
    return load_run(plan.folder)


def _open(plan: RunPlan, ledger: Ledger, journal: Journal) -> None:
    link_program(plan.folder, plan.site.store, plan.record.initial_program)
    if not journal.events:
        write_record(plan.folder, plan.record)
        ledger.append("opened", key=plan.record.key)
        return
    record = read_record(plan.folder)
    if record.key != plan.record.key:
        raise RecordError(
            f"{plan.folder.name}: holds the Run {record.key[:12]}, not {plan.record.key[:12]}; "
            "use another folder"
        )
    if record.result_key != plan.record.result_key or not has_ended(plan.record, ledger.state):
        # Once its agent is gone, it is only measured on: what its agent's program is by now does
        # not matter.
        here = plan.record.versions if ledger.state.candidates is None else plan.measuring
        check_versions(plan.folder.name, record.versions, here)
        # The record follows the newest config: selection and Assessment may have been set anew, or
        # back.
        write_record(plan.folder, record.followed_by(plan.record))
        ledger.append("resumed", result=plan.record.result_key)


# --- Session and handoff --------------------------------------------------------------------------


def _session(plan: RunPlan, ledger: Ledger, notifier: Notifier) -> None:
    notifier.state = lambda: ledger.state
    session = Session(
        plan.site, ledger, lambda done, total: notifier.progress("session", done, total)
    )
    try:
        _await_killed_agent(plan, ledger)
        session.recover()
        session.settle()  # how the killed attempt ended may hang on what was in flight
        if session.failure is not None:
            raise session.failure
        _end_killed_attempt(plan, session, ledger)
        _remake_transcripts(plan, ledger)
        if not session.finished and restarts(ledger.state.agent_ended, resumes=plan.agent.resumes):
            _with_agent(plan, session, ledger)
        session.close(ledger.state.agent_ended or "budget")
    except BaseException:
        session.abandon()
        raise
    if session.failure is not None:
        raise session.failure
    _hand_off(plan, ledger)


def _await_killed_agent(plan: RunPlan, ledger: Ledger) -> None:
    """An attempt that a killed Host left open: nothing of it runs any more, and what it left is
    kept, on return."""
    attempt = ledger.state.agent_attempts
    if attempt and not ledger.state.agent_ended:
        logs = attempt_logs(plan.folder / "agent", attempt)
        plan.launcher.recover(logs, plan.folder / "agent" / HOME)


def _end_killed_attempt(plan: RunPlan, session: Session, ledger: Ledger) -> None:
    """An attempt that a killed Host left open has ended: by what it printed, what its proxy logged
    and its clock.

    It was the Host that ended it, so neither silence nor a trouble of its provider's until then
    says how."""
    state = ledger.state
    if state.agent_attempts and not state.agent_ended:
        logs = attempt_logs(plan.folder / "agent", state.agent_attempts)
        if not (logs / STDOUT).exists():
            ledger.append("agent_ended", reason=NOT_STARTED)
            return
        transcript, proxied = read_transcript(plan.agent, logs), plan.launcher.proxy_usage(logs)
        clock = state.attempt.at(transcript.seconds)
        waited = waited_of(clock.thinking, proxied)
        usage = plan.prices.estimated(
            joined_usage(transcript.usage, proxied), plan.agent.identity.model
        )
        ledger.append(
            "agent_ended",
            reason=FINISHED if session.finished else HOST_KILLED,
            usage=msgspec.to_builtins(usage),
            session_id=transcript.session_id,
            turns=counted_turns(transcript, proxied),
            tool_calls=tool_calls(transcript),
            thinking_seconds=round(clock.thinking - waited, 3),
            waiting_seconds=round(waited, 3),
            evaluating_seconds=round(clock.evaluating, 3),
        )


def _remake_transcripts(plan: RunPlan, ledger: Ledger) -> None:
    """Those that are missing, or that an earlier version left half-written: what they are made of
    is still there."""
    for attempt in range(1, ledger.state.agent_attempts + 1):
        if not is_kept(attempt_logs(plan.folder / "agent", attempt)):
            _keep_transcript(plan, ledger, attempt)


def _with_agent(plan: RunPlan, session: Session, ledger: Ledger) -> None:
    """Run attempts of the agent until it has ended for good and nothing is in flight."""
    logs, prompt, seed = plan.folder / "agent", plan.prompt, plan.record.seed
    workspace, limits, prices = plan.site.workspace, plan.limits, plan.prices
    setup = AttemptSetup(plan.agent, plan.launcher, workspace, logs, prompt, seed, limits, prices)
    with plan.gateway.open(session) as socket:
        plan.prepare_workspace(socket)
        for retry in range(plan.agent_retries + 1):
            attempt = ledger.state.agent_attempts + 1
            ledger.append("agent_started", attempt=attempt)
            try:
                end = run_attempt(setup, session, socket, attempt, ledger)
            except NotStarted as error:
                ledger.append("agent_ended", reason=NOT_STARTED)
                raise error.__cause__ or error from None
            if session.failure is not None:
                return  # as if the Host had been killed
            _sync_logs(plan, attempt)
            known = {
                key: value for key, value in msgspec.to_builtins(end).items() if value is not None
            }
            ledger.append("agent_ended", **known)
            session.settle()
            _keep_transcript(plan, ledger, attempt)
            if end.reason in (AUTHENTICATION, UNANSWERED) and not ledger.state.submissions:
                raise AgentError(_unanswered(plan, end))
            if end.reason != PROVIDER or session.finished or session.failure is not None:
                return
            if retry < plan.agent_retries:
                time.sleep(plan.backoff_seconds * 2**retry)


def _unanswered(plan: RunPlan, end: AgentEnd) -> str:
    """Nothing came of it, so nothing is measured: what was said, and what to mend."""
    error = plan.mask.text(end.error[:600])
    mend = remedy(end.reason, error, plan.agent.provider)
    what = (
        "the provider refuses the agent's login"
        if end.reason == AUTHENTICATION
        else "its model never answered"
    )
    return (
        f"agent {plan.agent.identity.label}: {what} ({error}); {mend}. Nothing was measured: mend "
        "it and run the same command again"
    )


def _sync_logs(plan: RunPlan, attempt: int) -> None:
    """What an attempt left is on disk before the journal says that it ended: usage and transcript
    are made of it."""
    logs = attempt_logs(plan.folder / "agent", attempt)
    if logs.is_dir():
        sync_tree(logs)


def _keep_transcript(plan: RunPlan, ledger: Ledger, attempt: int) -> None:
    """Read what an attempt printed once more, now that all its Submissions are known, and keep it
    beside the stream.

    One that cannot be joined or written costs itself, never the Run; a disk that takes no more is
    another matter."""
    logs = attempt_logs(plan.folder / "agent", attempt)
    if not logs.is_dir():
        return
    try:
        transcript = joined(read_transcript(plan.agent, logs), ledger.events, attempt)
        write_transcript(logs, plain(transcript, plan.mask.text))
    except OSError:
        raise
    except Exception as error:
        write_transcript(
            logs, Transcript(error=f"the transcript cannot be kept: {type(error).__name__}")
        )


def _clean_up(plan: RunPlan) -> Cut:
    """After the last attempt: the agent's home goes, and no secret stays in what it left in its
    workspace."""
    if (agent := plan.folder / "agent").is_dir():
        with beneath.opened(agent) as fd:
            beneath.remove(HOME, fd)
    return mask_files(plan.site.workspace, plan.mask)


def _hand_off(plan: RunPlan, ledger: Ledger) -> None:
    cut = _clean_up(plan)
    state = ledger.state
    published = [s.id for s in state.published]
    named = list(state.named) or published[-1:]
    candidates = named if plan.site.budget.candidates == "named" else published
    reasons = [state.closed_by] if invalidates_run(state.closed_by) else []
    if not candidates:
        reasons.append(NOTHING_PUBLISHED)
    if any(s.status == "failed" for s in state.submissions):
        reasons.append(ENGINE_FAULT)
    wall = plan.limits.wall_seconds
    if state.agent_ended == "wall_time" and wall and state.waiting_seconds >= WAITED_SHARE * wall:
        reasons.append(WAITED)
    if is_unexplained(state.unexplained_tokens, state.usage):
        reasons.append(UNEXPLAINED)
    clipped = {"cut": cut.count, "cut_paths": cut.paths} if cut.count else {}
    ledger.append("handoff", candidates=candidates, reasons=reasons, **clipped)
