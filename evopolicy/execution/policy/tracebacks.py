"""What a Program's author is told of an exception: its own frames, with paths inside the Program,
within bounds."""

from __future__ import annotations

import errno
import resource
import traceback
from collections.abc import Mapping
from dataclasses import dataclass

_MESSAGE, _TEXT, _FRAMES, _CHAIN = 500, 8_000, 40, 4
# Calls below each other that no Policy makes but by recursion: the limit Python has by itself.
_DEEP = 1_000
# Functions of Python's that compile source: the last in the traceback of what the parser raises.
_COMPILING = (
    "_call_with_frames_removed",
    "source_to_code",
    "parse",
    "_compile_bytecode",
    "get_code",
)


@dataclass(frozen=True)
class Places:
    """Folders of this machine and what an author sees in their stead."""

    program: str
    """The Program's folder; its paths are shown relative to it."""
    names: Mapping[str, str]
    """Other folders -> their name: `/tmp/x/scratch` -> `$TMPDIR`."""

    def relative(self, text: str) -> str:
        """`text` with no folder of this machine in it."""
        text = text.replace(self.program + "/", "").replace(self.program, ".")
        for folder, name in self.names.items():
            text = text.replace(folder, name)
        return text


def message(error: BaseException) -> str:
    """`ValueError: what it says`, one line where it is one; an exception whose text cannot be made
    is named alone."""
    try:
        lines = traceback.format_exception_only(error)
        text = lines[-1].strip() if lines else type(error).__name__
    except BaseException:
        text = f"{type(error).__name__} (its text cannot be made)"
    return _cut(text, _MESSAGE)


def program_traceback(error: BaseException, places: Places) -> str:
    """The traceback with the Program's own frames only; the exceptions that led to it come first,
    as usual."""
    try:
        whole = traceback.TracebackException.from_exception(error, lookup_lines=False, compact=True)
        _keep_program(whole, places.program, _CHAIN)
        return _cut(places.relative("".join(whole.format())), _TEXT)
    except BaseException:
        return _cut(places.relative(message(error)), _TEXT)


def _keep_program(part: traceback.TracebackException | None, program: str, depth: int) -> None:
    if part is None:
        return
    mine = [frame for frame in part.stack if frame.filename.startswith(program + "/")]
    if len(mine) > _FRAMES:
        mine = mine[: _FRAMES // 2] + mine[-_FRAMES // 2 :]
    part.stack = traceback.StackSummary.from_list(mine)
    if depth == 0:
        part.__cause__ = part.__context__ = None
    _keep_program(part.__cause__, program, depth - 1)
    _keep_program(part.__context__, program, depth - 1)


def _cut(text: str, size: int) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= size:
        return text
    return (
        f"{text[: size // 2]}\n[... {len(text) - size} characters left out "
        f"...]\n{text[-size // 2 :]}"
    )


def no_memory_error(error: BaseException, memory_bytes: int) -> str:
    """What a MemoryError says that is none: of a recursion, or of the parser over deep source; ""
    for any other.

    Python raises it too where its own stacks end, with most of the memory still free.
    """
    frames, innermost = 0, ""
    part = error.__traceback__
    while part is not None:
        frames, innermost, part = frames + 1, part.tb_frame.f_code.co_name, part.tb_next
    if frames > _DEEP:
        return f"; it was {frames} calls deep in a recursion"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if innermost in _COMPILING and 2 * peak < memory_bytes:
        return "; the source is nested too deeply for Python's parser"
    return ""


def hit_limit(error: BaseException, limits: Mapping[str, int]) -> tuple[str, int | None]:
    """What to add to the message of an error that a resource limit caused, and the limit; ("",
    None) for any other."""
    if not isinstance(error, OSError):
        return "", None
    if error.errno == errno.EFBIG:
        return f"; a file of the scratch folder may have {limits['file_bytes']} bytes", limits[
            "file_bytes"
        ]
    if error.errno == errno.ENOSPC and "scratch_bytes" in limits:
        room = f"{limits['scratch_bytes']} bytes and {limits['scratch_names']} names"
        return f"; the scratch folder may hold {room} in all", limits["scratch_bytes"]
    if error.errno == errno.EMFILE:
        return f"; at most {limits['open_files']} files may be open at once", limits["open_files"]
    return "", None
