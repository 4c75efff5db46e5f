"""An attempt's raw stream on disk, read into its transcript: timed, and joined to the Submissions
it led to."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.files.received import names_in, read_part
from evopolicy.kernel.files.versioned import (
    DEPTH,
    PROXY_FORMAT,
    SCHEMA_KEY,
    TRANSCRIPT_FORMAT,
    parse_object,
)
from evopolicy.kernel.ports.protocols import AgentIntegration
from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript, bounded
from evopolicy.kernel.session.journal import Event
from evopolicy.kernel.session.record import run_part

MAX_LINE = 64 * 2**20
ERROR_CHARACTERS, SESSION_CHARACTERS = 10_000, 1_000
_SHORT = 32
"""Characters of a text that is remembered while a transcript is read."""
STDOUT, TIMES, TRANSCRIPT = "stdout.log", "stdout.times", TRANSCRIPT_FORMAT.name
PROXY_LOG = PROXY_FORMAT.name
"""What the Host's proxy passed on in an attempt, a request a line."""
INVOCATION = "invocation.json"
"""What was started in an attempt, or that nothing was."""
_ATTEMPT = re.compile(r"attempt-([1-9]\d{0,5})")
_ANSWERED = re.compile(r'\\?"submission\\?": ?(\d{1,9})(?!\d)')


def read_transcript(agent: AgentIntegration, logs: Path) -> Transcript:
    """What an attempt printed, as far as it is there. A reader that fails costs the transcript,
    never the Run."""
    try:
        document = agent.read(_lines(logs / STDOUT), logs)
        return plain(timed(_bounded(document), _times(logs / TIMES)))
    except Exception as error:
        return Transcript(
            error=f"the transcript cannot be read: {type(error).__name__}: {error}",
            error_kind="other",
        )


def _bounded(transcript: Transcript) -> Transcript:
    """What the journal gets of it, however much a provider said: the rest of a transcript has a
    file of its own."""
    session = transcript.session_id
    return replace(
        transcript,
        usage=bounded(transcript.usage),
        error=str(transcript.error)[:ERROR_CHARACTERS],
        session_id=session
        if isinstance(session, str) and len(session) <= SESSION_CHARACTERS
        else "",
    )


def plain(transcript: Transcript, mask: Callable[[str], str] = lambda text: text) -> Transcript:
    """`transcript` as it can be written and read: half characters replaced, what no record holds
    told, texts masked.

    A short text is masked once: a step is mostly names and empty texts, and there may be a hundred
    thousand."""
    masked_texts: dict[str, str] = {}

    def masked(text: str) -> str:
        result = masked_texts.get(text)
        if result is None:
            result = mask(text.encode("utf-8", "replace").decode() if not text.isascii() else text)
            if len(text) <= _SHORT:
                masked_texts[text] = result
        return result

    def clean(value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return masked(value)
        if isinstance(value, dict | list | tuple) and depth >= DEPTH:
            return "nested too deeply"
        if isinstance(value, dict):
            return {clean(key): clean(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [clean(item, depth + 1) for item in value]
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return f"an integer of {value.bit_length()} bits"
        return value if not isinstance(value, float) or math.isfinite(value) else None

    return msgspec.convert(clean(msgspec.to_builtins(transcript)), Transcript)


def _lines(path: Path) -> Iterator[str]:
    """The lines an agent printed, undecodable bytes replaced, none longer than MAX_LINE
    characters."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        while line := file.readline(MAX_LINE):
            yield line


def _times(path: Path) -> list[tuple[int, float]]:
    """Line and seconds; a line that is not listed came with the nearest one before it."""
    times = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        number, _, seconds = line.partition(" ")
        try:
            times.append((int(number), float(seconds)))
        except ValueError:
            continue  # the line a killed supervisor was writing
    return times


def timed(transcript: Transcript, times: Sequence[tuple[int, float]]) -> Transcript:
    """`transcript` with the seconds at which its lines came."""
    if not times:
        return transcript
    numbers = [number for number, _ in times]

    def at(line: int | None) -> float | None:
        index = bisect_right(numbers, line) if line is not None else 0
        return times[index - 1][1] if index else None

    def call(tool_call: ToolCall) -> ToolCall:
        return replace(tool_call, started=at(tool_call.line), ended=at(tool_call.result_line))

    steps = [
        replace(step, seconds=at(step.line), calls=tuple(map(call, step.calls)))
        for step in transcript.steps
    ]
    return replace(transcript, steps=tuple(steps), seconds=times[-1][1])


def joined(transcript: Transcript, events: Sequence[Event], attempt: int) -> Transcript:
    """`transcript` with the Submission each step led to: by the session's answer it quotes, else by
    the time.

    `events` is the Run's journal.
    """
    begins = {e["attempt"]: e["time"] for e in events if e["event"] == "agent_started"}
    began, over = begins.get(attempt, math.inf), begins.get(attempt + 1, math.inf)
    left = {
        e["submission"]: e["time"] - began
        for e in events
        if e["event"] == "reserved" and began <= e["time"] < over
    }
    steps = list(transcript.steps)
    for index, step in enumerate(steps):
        for number in _quoted(step):
            if left.pop(number, None) is not None and steps[index].submission is None:
                steps[index] = replace(step, submission=number)
    for number, seconds in left.items():
        index = max(
            (i for i, step in enumerate(steps) if step.calls and (step.seconds or 0.0) <= seconds),
            default=-1,
        )
        if index >= 0 and steps[index].seconds is not None and steps[index].submission is None:
            steps[index] = replace(steps[index], submission=number)
    return replace(transcript, steps=tuple(steps))


def _quoted(step: Step) -> Iterator[int]:
    """Submissions that the answers to this step's own `submit` calls name."""
    for call in step.calls:
        if call.result and "submit" in str(call.arguments):
            yield from (int(number) for number in _ANSWERED.findall(call.result))


def write_transcript(logs: Path, transcript: Transcript) -> None:
    """Whole or not at all. Raises OSError."""
    document = {SCHEMA_KEY: TRANSCRIPT_FORMAT.newest, **msgspec.to_builtins(transcript)}
    write_durably(
        logs / TRANSCRIPT, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    )


def is_kept(logs: Path) -> bool:
    """Whether an attempt's transcript is there, and whole."""
    try:
        msgspec.json.decode((logs / TRANSCRIPT).read_bytes(), type=Transcript)
    except (OSError, msgspec.MsgspecError):
        return False
    return True


def load_transcripts(folder: Path) -> list[Transcript]:
    """Those of the Run in `folder`, an attempt each, in order; an attempt whose file is missing is
    left out.

    Raises RecordError for one that cannot be read.
    """
    transcripts = (load_transcript(folder, number) for number in attempts_in(folder))
    return [transcript for transcript in transcripts if transcript is not None]


def attempts_in(folder: Path) -> list[int]:
    """The attempts that the Run in `folder` keeps files of, in order. Raises RecordError."""
    names = names_in(*run_part(folder, "agent"))
    return sorted(int(match[1]) for name in names if (match := _ATTEMPT.fullmatch(name)))


def load_transcript(folder: Path, attempt: int) -> Transcript | None:
    """That of an attempt of the Run in `folder`; None where there is none. Raises RecordError."""
    top, name = run_part(folder, f"agent/attempt-{attempt}/{TRANSCRIPT}")
    try:
        value = parse_object(read_part(top, name, TRANSCRIPT_FORMAT.bytes))
        return msgspec.convert(TRANSCRIPT_FORMAT.upgraded(value, str(top / name)), Transcript)
    except FileNotFoundError:
        return None
    except (ValueError, msgspec.ValidationError) as error:
        raise RecordError(f"{top / name}: is corrupt ({error}); restore it or remove it") from None
