"""An attempt's raw stream on disk, read into its transcript: timed, and joined to the Submissions it led to."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.journal import Event
from evopolicy.kernel.ports import AgentIntegration
from evopolicy.kernel.transcript import Step, ToolCall, Transcript

MAX_LINE = 64 * 2**20
STDOUT, TIMES, TRANSCRIPT = "stdout.log", "stdout.times", "transcript.json"
PROXY_LOG = "proxy.jsonl"
"""What the Host's proxy passed on in an attempt, a request a line."""
_ANSWERED = re.compile(r'\\?"submission\\?": ?(\d{1,9})(?!\d)')


def read_transcript(agent: AgentIntegration, logs: Path) -> Transcript:
    """What an attempt printed, as far as it is there. A reader that fails costs the transcript, never the Run."""
    try:
        return plain(timed(agent.read(_lines(logs / STDOUT), logs), _times(logs / TIMES)))
    except Exception as error:
        return Transcript(error=f"the transcript cannot be read: {type(error).__name__}: {error}", error_kind="other")


def plain(transcript: Transcript, mask: Callable[[str], str] = lambda text: text) -> Transcript:
    """`transcript` with every text as it can be written, half characters replaced, and masked."""

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return mask(value.encode("utf-8", "replace").decode() if not value.isascii() else value)
        if isinstance(value, dict):
            return {clean(key): clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [clean(item) for item in value]
        return value if not isinstance(value, float) or math.isfinite(value) else None

    return msgspec.convert(clean(msgspec.to_builtins(transcript)), Transcript)


def _lines(path: Path) -> Iterator[str]:
    """The lines an agent printed, undecodable bytes replaced, none longer than MAX_LINE characters."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        while line := file.readline(MAX_LINE):
            yield line


def _times(path: Path) -> list[tuple[int, float]]:
    """Line and seconds; a line that is not listed came with the nearest one before it."""
    found = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        number, _, seconds = line.partition(" ")
        try:
            found.append((int(number), float(seconds)))
        except ValueError:
            continue  # the line a killed attendant was writing
    return found


def timed(transcript: Transcript, times: Sequence[tuple[int, float]]) -> Transcript:
    """`transcript` with the seconds at which its lines came."""
    if not times:
        return transcript
    numbers = [number for number, _ in times]

    def at(line: int | None) -> float | None:
        place = bisect_right(numbers, line) if line is not None else 0
        return times[place - 1][1] if place else None

    def call(one: ToolCall) -> ToolCall:
        return replace(one, started=at(one.line), ended=at(one.result_line))

    steps = [replace(step, seconds=at(step.line), calls=tuple(map(call, step.calls))) for step in transcript.steps]
    return replace(transcript, steps=tuple(steps), seconds=times[-1][1])


def joined(transcript: Transcript, events: Sequence[Event], attempt: int) -> Transcript:
    """`transcript` with the Submission each step led to: by the session's answer it quotes, else by the time.

    `events` is the Run's journal.
    """
    begins = {e["attempt"]: e["time"] for e in events if e["event"] == "agent_started"}
    began, over = begins.get(attempt, math.inf), begins.get(attempt + 1, math.inf)
    left = {
        e["submission"]: e["time"] - began for e in events if e["event"] == "reserved" and began <= e["time"] < over
    }
    steps = list(transcript.steps)
    for place, step in enumerate(steps):
        for number in _quoted(step):
            if left.pop(number, None) is not None and steps[place].submission is None:
                steps[place] = replace(step, submission=number)
    for number, seconds in left.items():
        place = max((i for i, step in enumerate(steps) if step.calls and (step.seconds or 0.0) <= seconds), default=-1)
        if place >= 0 and steps[place].seconds is not None and steps[place].submission is None:
            steps[place] = replace(steps[place], submission=number)
    return replace(transcript, steps=tuple(steps))


def _quoted(step: Step) -> Iterator[int]:
    """Submissions that the answers to this step's own `submit` calls name."""
    for call in step.calls:
        if call.result and "submit" in str(call.arguments):
            yield from (int(number) for number in _ANSWERED.findall(call.result))


def write_transcript(logs: Path, transcript: Transcript) -> None:
    (logs / TRANSCRIPT).write_bytes(msgspec.json.format(msgspec.json.encode(transcript), indent=1) + b"\n")


def load_transcripts(folder: Path) -> list[Transcript]:
    """Those of the Run in `folder`, an attempt each, in order; an attempt whose file is missing is left out."""
    found = sorted(folder.glob(f"agent/attempt-*/{TRANSCRIPT}"), key=lambda path: int(path.parent.name.split("-")[1]))
    return [msgspec.json.decode(path.read_bytes(), type=Transcript) for path in found]
