"""The tools a chat model works with: a shell, reading and editing files, and the session
command."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .schema import Mistaken, checked

LINGER_SECONDS = 0.2
"""How long output is still taken once a command has ended, while something it left behind holds the
pipe."""
SESSION_VERBS = ("status", "check", "submit", "wait", "feedback", "finish")


@dataclass(frozen=True)
class Result:
    """What a call gave."""

    text: str
    failed: bool = False
    closed: bool = False
    """Whether the Session is over."""
    submission: int | None = None
    """The Submission it made."""


@dataclass
class HeadTail:
    """Keeps the first and last bytes of what is fed to it and counts the rest."""

    limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    omitted: int = 0

    def feed(self, data: bytes) -> None:
        room = self.limit // 2 - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if (over := len(self.tail) - (self.limit - self.limit // 2)) > 0:
            del self.tail[:over]
            self.omitted += over

    def text(self) -> str:
        if not self.omitted:  # a character may lie on the seam
            return (self.head + self.tail).decode("utf-8", "replace")
        parts = (self.head.decode("utf-8", "replace"), self.tail.decode("utf-8", "replace"))
        return f"\n[... {self.omitted} bytes omitted ...]\n".join(parts)


def bounded(text: str, limit: int) -> str:
    """`text` with its middle left out and counted where it is longer than `limit` bytes."""
    output = HeadTail(limit)
    output.feed(text.encode("utf-8", "replace"))
    return output.text()


@dataclass(frozen=True)
class Toolbox:
    """The tools at work in one workspace."""

    workspace: Path
    session_command: Sequence[str]
    shell_seconds: float
    output_bytes: int
    """Of a result."""
    environment: Mapping[str, str]
    """Of a command: without the key."""

    def use(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Whatever goes wrong is told as a failed result."""
        try:
            known = checked(name, arguments)
            if name in SESSION_VERBS:
                return self._session(name, known)
            if name == "shell":
                return self._shell(
                    known["command"],
                    min(self.shell_seconds, known.get("seconds") or self.shell_seconds),
                )
            if name == "read":
                return Result(
                    self._read(known["path"], known.get("first_line"), known.get("last_line"))
                )
            return Result(self._edit(**known))
        except Mistaken as error:
            return Result(bounded(str(error), self.output_bytes), failed=True)
        except (OSError, ValueError) as error:
            return Result(bounded(f"{name}: {error}", self.output_bytes), failed=True)

    # --- shell ------------------------------------------------------------------------------------

    def _shell(self, command: str, seconds: float) -> Result:
        if seconds <= 0:
            raise Mistaken(f"shell: 'seconds' has to be above 0, at most {self.shell_seconds:g}.")
        shell = shutil.which("bash") or "/bin/sh"
        process = subprocess.Popen(
            [shell, "-c", command], cwd=self.workspace, env=dict(self.environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        output = HeadTail(self.output_bytes)
        with process.stdout as pipe:
            os.set_blocking(pipe.fileno(), False)
            try:
                in_time = _followed(process, pipe.fileno(), output, time.monotonic() + seconds)
            finally:
                _kill_group(process)
            _take(pipe.fileno(), output)
        if not in_time:
            end = f"[killed after {seconds:g} seconds, with everything it started]"
        else:
            code = process.returncode
            end = f"[exit code {code}]" if code >= 0 else f"[ended by signal {-code}]"
        text = output.text()
        over = "evopolicy-session" in command and self.closed()
        gap = "\n" if text and not text.endswith("\n") else ""
        return Result(text + gap + end, failed=not in_time or process.returncode != 0, closed=over)

    # --- files ------------------------------------------------------------------------------------

    def _read(self, path: str, first: int | None, last: int | None) -> str:
        file = self.workspace / path
        if file.is_dir():
            names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in file.iterdir())
            return bounded("\n".join(names) or "(an empty folder)", self.output_bytes)
        if not stat.S_ISREG(file.stat().st_mode):
            raise Mistaken(f"read: '{path}' is not a regular file.")
        first = max(1, first or 1)
        if last is not None and last < first:
            raise Mistaken(f"read: 'last_line' {last} lies before 'first_line' {first}.")
        lines: list[str] = []
        size = cut = number = 0
        with file.open(encoding="utf-8", errors="replace", newline="") as opened:
            for number, line in enumerate(opened, 1):
                if number < first or (last is not None and number > last) or cut:
                    continue
                size += len(line.encode("utf-8", "replace"))
                if size > self.output_bytes:
                    cut = number
                if not cut or not lines:  # a line that is too long by itself is shown in part
                    lines.append(line if not cut else bounded(line, self.output_bytes))
        shown = first + len(lines) - 1
        if not lines:
            return f"[no line {first}: the file has {number}]" if number else "(an empty file)"
        whole = first == 1 and shown == number
        text = "".join(lines)
        more = f"; the next is first_line={shown + 1}" if cut and shown < number else ""
        gap = "" if text.endswith("\n") else "\n"
        return text if whole else f"{text}{gap}[lines {first} to {shown} of {number}{more}]"

    def _edit(
        self, path: str, old: str | None = None, new: str | None = None, content: str | None = None
    ) -> str:
        file = self.workspace / path
        if content is not None:
            if old is not None or new is not None:
                raise Mistaken("edit: give `content` alone, or `old` with `new`.")
            data = content.encode()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            return f"Wrote {path}: {len(data)} bytes."
        if not old or new is None:
            raise Mistaken(
                "edit: `old` (not empty) with `new` is needed, or `content` alone for the whole "
                "file."
            )
        if not stat.S_ISREG(file.stat().st_mode):
            raise Mistaken(f"edit: '{path}' is not a regular file.")
        try:
            text = file.read_bytes().decode()
        except UnicodeDecodeError:
            raise Mistaken(f"edit: '{path}' is not UTF-8 text.") from None
        found = text.count(old)
        if found != 1:
            what = (
                "is not in the file; read it and copy the text exactly"
                if not found
                else f"is in it {found} times"
            )
            raise Mistaken(
                f"edit: `old` {what}{'' if not found else '; take more of the text around it'}."
            )
        place = text.index(old)
        file.write_bytes((text[:place] + new + text[place + len(old) :]).encode())
        return f"Replaced it in {path}, at line {text.count(chr(10), 0, place) + 1}."

    # --- session ----------------------------------------------------------------------------------

    def _session(self, verb: str, given: Mapping[str, Any]) -> Result:
        argv = [verb]
        if verb in ("check", "submit"):
            argv.append(given.get("folder") or "program")
        if verb == "submit":
            argv += ["--episodes", given["episodes"]]
        if verb == "feedback" and "submission" in given:
            argv.append(str(given["submission"]))
        if verb == "finish":
            argv += [str(number) for number in given.get("submissions", ())]
        code, answer, stderr = self._call(argv)
        pause = 0.0
        while (
            verb in ("submit", "wait")
            and (answer.get("submission") or {}).get("status") == "running"
        ):
            time.sleep(pause)
            pause = min(0.5, pause + 0.05)  # a Host that answers at once is not asked without end
            code, answer, stderr = self._call(["wait"])
        submission = (
            (answer.get("submission") or {}).get("id") if verb == "submit" and not code else None
        )
        return Result(
            bounded(stderr, self.output_bytes),
            failed=code != 0,
            closed=answer.get("state") == "finished",
            submission=submission if type(submission) is int else None,
        )

    def _call(self, argv: Sequence[str]) -> tuple[int, dict[str, Any], str]:
        """Exit code, answer, and what to show of it."""
        done = subprocess.run(
            [*self.session_command, *argv], cwd=self.workspace, stdin=subprocess.DEVNULL, capture_output=True,
            encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = None
        if done.returncode or not isinstance(answer, dict):
            stderr = (
                done.stderr.strip()
                or f"evopolicy-session {argv[0]} ended with exit code {done.returncode}."
            )
            return done.returncode or 1, {}, stderr
        return 0, answer, done.stdout.strip()

    def closed(self) -> bool:
        """Whether the Session is over, however it came to be."""
        return bool(self._call(["status"])[1].get("state") == "finished")


def _followed(
    process: subprocess.Popen[bytes], pipe: int, output: HeadTail, deadline: float
) -> bool:
    """Take a command's output until it ends; False where the deadline came first."""
    ended: float | None = None
    while (now := time.monotonic()) < deadline:
        ready, _, _ = select.select([pipe], [], [], min(0.05, deadline - now))
        if ready and not _take(pipe, output):
            try:  # its end of the pipe is closed
                process.wait(deadline - time.monotonic())
            except subprocess.TimeoutExpired:
                return False
            return True
        if process.poll() is not None:
            ended = ended or now
            if not ready or now - ended > LINGER_SECONDS:
                return True
    return process.poll() is not None


def _take(pipe: int, output: HeadTail) -> bool:
    """Take what is there now; False at the end of the output."""
    try:
        data = os.read(pipe, 1 << 16)
    except BlockingIOError:
        return True
    output.feed(data)
    return bool(data)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: the number is the group's
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
