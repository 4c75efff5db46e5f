"""The Submission state machine: what an agent may do, in which order, and what each of it costs. No
sockets here.

States: `open` -> `running` (one Submission in flight) -> `open` ... -> `finished`. Every charge and
every publication is in the journal before anyone is told."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicy.kernel.clock import AgentClock, BlockedClock
from evopolicy.kernel.errors import EvoPolicyError, ProgramError, RecordError, Refused
from evopolicy.kernel.files.host_paths import host_paths
from evopolicy.kernel.files.program import Program, ProgramStore, capture, link_program
from evopolicy.kernel.ports.pool import Pool, derive_seed, format_selector, parse_selector
from evopolicy.kernel.secrecy.secrets import NO_SECRETS, Masker, without_secrets
from evopolicy.kernel.session import answers
from evopolicy.kernel.session import arguments as requested
from evopolicy.kernel.session.budget import Account, Budget
from evopolicy.kernel.session.shelf import Shelf
from evopolicy.kernel.session.state import Ledger, SubmissionState
from evopolicy.kernel.session.submission import Bench, evaluate_submission

MAX_REFUSALS = 10_000
"""Refusals beyond this are answered and no longer journaled: an agent cannot fill the Host's disk
with them."""


@dataclass(frozen=True)
class SessionSite:
    """What a Session works on."""

    bench: Bench
    budget: Budget
    pool: Pool
    store: ProgramStore
    workspace: Path
    """Real path of the agent's workspace."""
    block_seconds: float
    mask: Masker = NO_SECRETS
    """What no Program may hold."""


def _silent(done: int, total: int) -> None:
    """No one watches: `done` of `total` Episodes of the Submission in flight have ended."""


class Session:
    """Answers an agent's calls; implements `ports.SessionHandler`. Safe to call from several
    threads."""

    def __init__(
        self, site: SessionSite, ledger: Ledger, progress: Callable[[int, int], None] = _silent
    ) -> None:
        self._site = site
        self._ledger = ledger
        self._progress = progress
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._done_episodes = 0
        self._in_flight: int | None = None
        self._engine = threading.Lock()
        self._reading = threading.Lock()
        """One Program is read at a time: many calls at once never hold many Programs in memory."""
        self._abandoned = False
        self._blocked = BlockedClock()
        self._clock: AgentClock | None = None
        self._shelf = Shelf(site.bench.folder, site.workspace, site.bench.feedback.bulk_bytes)
        self._paths = host_paths(site.bench.folder, site.store.root)
        self.failure: BaseException | None = None
        """What ended the Host's own work (a full disk, say); the Run stops and stays resumable."""
        self.last_call = time.monotonic()

    # --- for the Run ------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        return bool(self._ledger.state.closed_by)

    @property
    def running(self) -> bool:
        """Whether a Submission is being evaluated."""
        return self._in_flight is not None

    @property
    def blocked_seconds(self) -> float:
        """Time the agent's own calls have waited for Evaluations: its clock stood still."""
        return self._blocked.seconds

    @contextmanager
    def agent_clock(self) -> Iterator[AgentClock]:
        """The clock of an agent that is at work meanwhile: whatever the journal gets says how it
        stands."""
        self._clock = clock = AgentClock(lambda: self.blocked_seconds)
        try:
            yield clock
        finally:
            self._clock = None

    def recover(self) -> None:
        """Take up what a killed Host left: copy missing Feedback, evaluate what was charged without
        a second charge."""
        self._shelf.discard(
            [
                pair
                for event in self._ledger.events
                if event["event"] == "evicted"
                for pair in event["artifacts"]
            ]
        )
        for submission in self._ledger.state.published:
            self._shelf.add(submission.id)
        self._evict()
        self._close_when_spent()
        if pending := self._ledger.state.pending:
            self._start(pending)

    def settle(self) -> None:
        """Wait until nothing is in flight."""
        with self._changed:
            self._changed.wait_for(lambda: not self.running)
        if self._thread is not None:
            self._thread.join()

    def abandon(self) -> None:
        """The Host is stopping: what is in flight stays charged and unpublished, for `recover` to
        take up."""
        self._abandoned = True

    def close(self, by: str) -> None:
        """Close the Session for a reason of the Host's, once nothing is in flight; not where the
        Host itself failed."""
        with self._changed:
            self._changed.wait_for(lambda: not self.running)
            if self.failure is None:
                self._close(by)

    # --- for the agent ----------------------------------------------------------------------------

    def handle(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one call, a JSON object. Raises Refused, journaled, where the Host says
        no."""
        self.last_call = time.monotonic()
        try:
            return self._answer(verb, arguments)
        except (OSError, RecordError) as error:
            # Not the agent's fault and not to be worked around: the Run stops here and stays
            # resumable.
            self.failure = self.failure or error
            raise answers.host_failed() from error
        finally:
            self.last_call = time.monotonic()

    def _answer(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            requested.check_names(verb, arguments)
            answer: dict[str, Any] = self._paths.hide(getattr(self, f"_{verb}")(arguments))
            return answer
        except Refused as refusal:
            self._note(verb, refusal)
            raise self._paths.refusal(refusal) from None

    def _note(self, verb: str, refusal: Refused) -> None:
        if self.failure is None and self._ledger.state.refusals < MAX_REFUSALS:
            self._append("refused", verb=verb[:50], code=refusal.code, reason=refusal.reason[:500])

    def _status(self, _: Mapping[str, Any]) -> dict[str, Any]:
        state = self._ledger.state
        account = self._account()
        best = max(state.published, key=lambda s: (s.score or 0.0, s.id), default=None)
        latest = state.submissions[-1] if state.submissions else None
        return {
            "state": self._state(),
            "submission": self._view(latest) if latest else None,
            "budget": answers.budget_view(account),
            "best": {"submission": best.id, "score": best.score} if best else None,
            "submissions": [
                {"id": s.id, "status": s.status, "score": s.score} for s in state.submissions
            ],
            "next": answers.next_step(self._state(), spent=account.spent),
        }

    def _state(self) -> str:
        return "running" if self.running else "finished" if self.finished else "open"

    def _check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        with self._changed:
            self._require_open()
            if self.running:
                raise Refused(
                    "busy", "a Submission is being evaluated", "evopolicy-session wait, then check"
                )
        # The agent's clock runs on: nothing else would end an agent that checks for ever.
        if not self._engine.acquire(timeout=self._site.block_seconds):
            raise Refused(
                "busy",
                "another check or a Submission is running",
                "evopolicy-session wait, then check",
            )
        try:
            return self._check_staged(arguments)
        finally:
            self._engine.release()

    def _check_staged(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # Checks are free and without number: what they look at is not kept.
        staged = ProgramStore(self._site.bench.folder / ".check")
        try:
            with self._reading:
                program = self._capture(arguments)
                digest, folder = program.digest, staged.put(program, durable=False)
                del program
            # By a public seed: what check shows says nothing about any pool.
            return answers.check_view(
                digest, self._site.bench.executor.check(folder, derive_seed("check") % 2**32)
            )
        finally:
            shutil.rmtree(staged.root, ignore_errors=True)

    def _submit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        selector = requested.selector(arguments)
        with self._changed:
            self._require_open()
        indices = parse_selector(selector, len(self._site.pool.training))
        detach = bool(arguments.get("detach"))
        with self._reading:
            program = self._capture(arguments)
            with self._changed:
                self._require_open()
                attached = self._attached(program, indices)
                submission = attached or self._reserve(program, indices, waits=not detach)
            del program
        return self._await(submission, detach=detach, journaled=attached is None)

    def _attached(self, program: Program, indices: tuple[int, ...]) -> int | None:
        """The Submission in flight, where it is the same; None where there is none. Raises Refused
        for another."""
        if self._in_flight is not None:
            running = self._submission(self._in_flight)
            if (running.program, running.indices) == (program.digest, indices):
                return running.id
            raise Refused(
                "busy",
                f"Submission {running.id} is still being evaluated",
                "evopolicy-session wait",
            )
        return None

    def _reserve(self, program: Program, indices: tuple[int, ...], *, waits: bool) -> int:
        account = self._account()
        account.check(len(indices))
        self._site.store.put(program)
        link_program(self._site.bench.folder, self._site.store, program.digest)
        number = account.submissions_used + 1
        self._append(
            "reserved",
            submission=number,
            program=program.digest,
            selector=format_selector(indices),
            units=len(indices),
            **({"waits": True} if waits else {}),
        )
        self._start(self._ledger.state.submissions[-1])
        return number

    def _wait(self, _: Mapping[str, Any]) -> dict[str, Any]:
        if not (submissions := self._ledger.state.submissions):
            raise Refused(
                "nothing_submitted",
                "there is no Submission to wait for",
                "evopolicy-session submit first",
            )
        return self._await(submissions[-1].id, detach=False)

    def _await(self, submission: int, *, detach: bool, journaled: bool = False) -> dict[str, Any]:
        """`journaled`: the journal has it already that this call waits."""
        if not detach:
            with self._changed:
                self._block(submission, journaled=journaled)
        if self.failure is not None:
            raise answers.host_failed()
        return {**self._status({}), "submission": self._view(self._submission(submission))}

    def _block(self, submission: int, *, journaled: bool) -> None:
        """Wait for the outcome, as long as a call may; the journal has when an agent's clock stands
        still, and why."""
        first = not self._blocked.stands
        with self._blocked:
            if first and not journaled and self._in_flight == submission:
                self._note_wait("wait_began", submission)
            self._changed.wait_for(
                lambda: self._in_flight != submission, timeout=self._site.block_seconds
            )
        if self._in_flight == submission and not self._blocked.stands:
            self._note_wait("wait_ended", submission)

    def _note_wait(self, event: str, submission: int) -> None:
        if self._clock is not None:
            self._append(event, submission=submission)

    def _feedback(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        published = [s.id for s in self._ledger.state.published]
        wanted = arguments.get("submission")
        number = wanted if wanted is not None else (published[-1] if published else None)
        if (
            type(number) is not int or number not in published
        ):  # `true` is no number, though Python takes it for 1
            raise Refused(
                "no_feedback",
                f"Submission {wanted} has no Feedback"
                if wanted is not None
                else "no Submission has Feedback yet",
                f"published so far: {', '.join(map(str, published)) or 'none'}",
            )
        content = self._shelf.content(number)
        return {"state": self._state(), "folder": f"feedback/{number:04d}", "feedback": content}

    def _finish(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        named = requested.candidates(arguments)
        with self._changed:
            self._require_open()
            if self._in_flight is not None:
                raise Refused(
                    "busy",
                    f"Submission {self._in_flight} is still being evaluated",
                    "evopolicy-session wait",
                )
            if self._site.budget.finish == "exhaust" and not self._account().spent:
                left = self._account().episodes_left
                raise Refused(
                    "not_exhausted",
                    f"{left} Episode units are left and all have to be spent",
                    "submit again",
                )
            requested.check_known(named, {s.id for s in self._ledger.state.published})
            self._append("closed", by="finish", named=list(dict.fromkeys(named)))
            self._changed.notify_all()
        return self._status({})

    # --- inside -----------------------------------------------------------------------------------

    def _append(self, event: str, **content: Any) -> None:
        """Into the journal, with the clock of the agent at work."""
        if self._clock is not None:
            content["clock"] = self._clock.reading()
        self._ledger.append(event, **content)

    def _require_open(self) -> None:
        if self.failure is not None:
            raise answers.host_failed()
        if self.finished:
            raise Refused(
                "finished",
                "the Session is closed; nothing can be submitted any more",
                "you can stop",
            )

    def _account(self) -> Account:
        return self._ledger.state.account(self._site.budget, len(self._site.pool.training))

    def _submission(self, number: int) -> SubmissionState:
        return self._ledger.state.submissions[number - 1]

    def _capture(self, arguments: Mapping[str, Any]) -> Program:
        folder = requested.folder(arguments)
        try:
            return without_secrets(capture(folder, self._site.workspace), self._site.mask)
        except ProgramError as error:
            raise Refused(
                "program_refused", str(error), "mend it and try again; nothing was charged"
            ) from None

    def _start(self, submission: SubmissionState) -> None:
        self._done_episodes = 0
        self._in_flight = submission.id
        self._thread = threading.Thread(
            target=self._evaluate,
            args=(submission,),
            name=f"submission-{submission.id}",
            daemon=True,
        )
        try:
            self._thread.start()
        except RuntimeError as error:  # no further thread can be started
            self._in_flight, self._thread, self.failure = None, None, error
            raise

    def _evaluate(self, submission: SubmissionState) -> None:
        try:
            self._settle_submission(submission)
        except BaseException as error:
            self.failure = error
        with self._changed:
            self._in_flight = None
            self._changed.notify_all()

    def _settle_submission(self, submission: SubmissionState) -> None:
        episodes = self._site.pool.select(submission.indices)
        program = self._site.store.folder(submission.program)

        def tick(done: int) -> None:
            self._done_episodes = done
            self._progress(done, len(episodes))

        tick(0)
        try:
            with self._engine:
                event = evaluate_submission(
                    self._site.bench, submission.id, submission.program, program, episodes, tick
                )
        except EvoPolicyError as error:
            if self._abandoned:
                return
            self._append("submission_failed", submission=submission.id, reason=str(error)[:2_000])
        else:
            if self._abandoned:
                return
            self._append("published", submission=submission.id, **event)
            self._shelf.add(submission.id)
            self._evict()
        self._close_when_spent()

    def _close(self, by: str) -> None:
        with self._changed:
            if not self.finished:
                self._append("closed", by=by, named=[])
            self._changed.notify_all()

    def _close_when_spent(self) -> None:
        """The end of `exhaust`. Also for a Host that was killed between the last Submission's
        outcome and this."""
        if (
            self._site.budget.finish == "exhaust"
            and self._account().spent
            and self._ledger.state.pending is None
        ):
            self._close("budget")

    def _evict(self) -> None:
        """Keep bulk artifacts within their budget, in the record and in the workspace alike."""
        if over := self._shelf.over():
            self._append("evicted", artifacts=[list(pair) for pair in over])
            self._shelf.discard(over)

    def _view(self, submission: SubmissionState) -> dict[str, Any]:
        if submission.id == self._in_flight or submission.status == "running":
            return answers.running_view(submission, self._done_episodes)
        if submission.status == "published":
            return answers.published_view(submission, self._shelf.content(submission.id))
        return answers.failed_view(submission)
