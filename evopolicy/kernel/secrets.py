"""Keeping secrets out of everything that is written: the values of secret variables, and what looks like a key."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from evopolicy.kernel.errors import ProgramError

if TYPE_CHECKING:
    from evopolicy.kernel.program import Program

MASK = "***"
SHORTEST = 8
"""A shorter value is a word, not a secret: replacing it would spoil every text that holds it."""
_SECRET_WORDS = frozenset(("KEY", "APIKEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASS", "CREDENTIAL"))
_WORD = 16
"""A value of letters alone that is shorter is taken for a word, unless its variable is named by the config."""
_LOOKS_LIKE_A_KEY = re.compile(
    rb"(?P<before>(?i:authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:bearer|basic)\s+))[A-Za-z0-9+/_.=-]{16,}"
    rb"|(?i:(?<=bearer )|(?<=basic ))(?=[A-Za-z+/_.=-]*[0-9])[A-Za-z0-9+/_.=-]{24,}"
    rb"|(?<![A-Za-z0-9_-])(?:"
    rb"sk-(?=[A-Za-z_-]*(?:[0-9]|[A-Za-z]{16}))[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}"
    rb"|xox[abprs]-[A-Za-z0-9-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}|hf_[A-Za-z0-9]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    rb"|npm_[A-Za-z0-9]{36}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    rb")|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\n)*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)
"""Forms that providers give their keys, and logins in headers."""
_MARKS = (
    *(b"sk-", b"aiza", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"xox", b"akia", b"asia", b"hf_"),
    *(b"glpat-", b"npm_", b"eyj", b"private key", b"authorization", b"bearer ", b"basic "),
)
"""One of them, in lower case, is in whatever looks like a key: most text has none, and the search is slow."""


def _may_have_a_key(data: bytes) -> bool:
    lower = data.lower()
    return any(mark in lower for mark in _MARKS)


def is_secret_name(variable: str) -> bool:
    """Whether a variable's name says that it holds a secret: one of its words does."""
    return bool(_SECRET_WORDS & set(variable.upper().split("_")))


def _is_a_word(value: str) -> bool:
    """Whether to mask `value` wherever it stands would spoil honest text."""
    return value.isalpha() and len(value) < _WORD


def _masked(found: re.Match[bytes]) -> bytes:
    return (found["before"] or b"") + MASK.encode()


@dataclass(frozen=True)
class Masker:
    """Replaces secrets by `***`: the given values, however they are quoted, and whatever looks like a key."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str], names: Iterable[str] = ()) -> Masker:
        """Of the variables of `environment` that are named in `names`, or like a secret."""
        wanted = set(names)
        found = {
            value
            for name, value in environment.items()
            if len(value.strip()) >= SHORTEST
            and (name in wanted or (is_secret_name(name) and not _is_a_word(value.strip())))
        }
        return cls(tuple(sorted(found | {value.strip() for value in found}, key=lambda value: (-len(value), value))))

    @cached_property
    def written(self) -> tuple[bytes, ...]:
        """Every way a value may stand in a file, the longest first."""
        forms = {
            form.encode("utf-8", "surrogateescape")
            for value in self.values
            for form in (value, json.dumps(value)[1:-1], quote(value, safe=""))
        }
        return tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def data(self, data: bytes) -> bytes:
        """`data` with every secret masked."""
        for form in self.written:
            if form in data:
                data = data.replace(form, MASK.encode())
        return _LOOKS_LIKE_A_KEY.sub(_masked, data) if _may_have_a_key(data) else data

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        masked = self.data(data)
        return text if masked == data else masked.decode("utf-8", "surrogatepass")

    def holds(self, data: bytes) -> bool:
        """Whether `data` has a secret in it."""
        return any(form in data for form in self.written) or (
            _may_have_a_key(data) and bool(_LOOKS_LIKE_A_KEY.search(data))
        )

    def value(self, value: Any) -> Any:
        """A copy of a JSON value without secrets, in its keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value


NO_SECRETS = Masker()
"""Masks what looks like a key, and nothing by its value."""


_FREE_TEXT = ("error", "message", "verb", "session_id")


def masked_events(mask: Masker, words: Collection[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Masks what an agent or its provider may have written into a journal's event; `words` are reasons of our own.

    The rest are keys, numbers and names of ours: a secret that equals one must not spoil the journal.
    """

    def masked(content: dict[str, Any]) -> dict[str, Any]:
        free = {key for key in _FREE_TEXT if isinstance(content.get(key), str)}
        if isinstance(content.get("reason"), str) and content["reason"] not in words:
            free.add("reason")
        return {key: mask.text(value) if key in free else value for key, value in content.items()}

    return masked


def without_secrets(program: Program, mask: Masker) -> Program:
    """`program` itself. Raises ProgramError, naming the file, where it holds a secret: Programs are published."""
    for name, content in program.files.items():
        if mask.holds(os.fsencode(name)):
            raise ProgramError(f"the name '{mask.text(name)}' holds a key, or what looks like one")
        if mask.holds(content):
            lines = content.split(b"\n")
            line = next((f", line {n}," for n, text in enumerate(lines, 1) if mask.holds(text)), "")
            raise ProgramError(f"'{name}'{line} holds a key, or what looks like one")
    return program


MASKED_BYTES = 1 << 30
"""Of a file: a larger one is not read for secrets."""
_DEEPEST = 200
"""Folders below this are not looked into: their paths would be too long to name."""


def mask_files(folder: Path, mask: Masker) -> None:
    """Mask what is below `folder` in place: files, their names, where links lead. Never raises.

    Links are not followed. A file with a second name, which may be one outside, is replaced by a masked copy.
    """
    waiting = [(folder, 0)]
    while waiting:
        current, depth = waiting.pop()
        for path in _entries(current):
            with suppress(OSError):
                path = _with_masked_name(path, mask)
                if path.is_symlink():
                    _mask_link(path, mask)
                elif path.is_dir():
                    if depth < _DEEPEST:
                        waiting.append((path, depth + 1))
                else:
                    _mask_file(path, mask)


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError):
        if not os.access(folder, os.R_OK | os.X_OK | os.W_OK):
            folder.chmod(0o700)
        return sorted(folder.iterdir())
    return []


def _with_masked_name(path: Path, mask: Masker) -> Path:
    name = os.fsencode(path.name)
    if not mask.holds(name):
        return path
    target = path.with_name(os.fsdecode(mask.data(name).replace(b"/", b"_")))
    while target.exists() or target.is_symlink():
        target = target.with_name(f"{target.name}_")
    return path.rename(target)


def _mask_link(path: Path, mask: Masker) -> None:
    if mask.holds(os.fsencode(path.readlink())):
        path.unlink()


def _mask_file(path: Path, mask: Masker) -> None:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MASKED_BYTES:
        return
    if not os.access(path, os.R_OK | os.W_OK) and status.st_nlink == 1:
        path.chmod(0o600)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        data = file.read()
    if not mask.holds(data):
        return
    staging = path.with_name(".masking")
    staging.write_bytes(mask.data(data))
    staging.chmod(stat.S_IMODE(status.st_mode) & 0o777)
    staging.replace(path)
