"""Keeping secrets out of everything that is written: the values of secret variables, and what looks like a key."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
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
_SECRET_VARIABLE = re.compile(r"(KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_LOOKS_LIKE_A_KEY = re.compile(
    rb"(?<![A-Za-z0-9_-])(?:"
    rb"sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}"
    rb"|xox[abprs]-[A-Za-z0-9-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}|hf_[A-Za-z0-9]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    rb"|npm_[A-Za-z0-9]{36}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    rb")|-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\n]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
    rb"|(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9+/_.=-]{24,}"
)
"""Forms that providers give their keys, and logins in headers."""
_MARKS = (
    *(b"sk-", b"aiza", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"xox", b"akia", b"asia", b"hf_"),
    *(b"glpat-", b"npm_", b"eyj", b"private key", b"bearer ", b"basic "),
)
"""One of them, in lower case, is in whatever looks like a key: most text has none, and the search is slow."""


def _may_have_a_key(data: bytes) -> bool:
    lower = data.lower()
    return any(mark in lower for mark in _MARKS)


def is_secret_name(variable: str) -> bool:
    """Whether a variable's name says that it holds a secret."""
    return bool(_SECRET_VARIABLE.search(variable))


@dataclass(frozen=True)
class Masker:
    """Replaces secrets by `***`: the given values, however they are quoted, and whatever looks like a key."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str], names: Iterable[str] = ()) -> Masker:
        """Of the variables of `environment` that are named in `names`, or like a secret."""
        wanted = set(names)
        found = {
            value for name, value in environment.items() if name in wanted or is_secret_name(name)
            if len(value.strip()) >= SHORTEST
        }  # fmt: skip
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
        return _LOOKS_LIKE_A_KEY.sub(MASK.encode(), data) if _may_have_a_key(data) else data

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


def without_secrets(program: Program, mask: Masker) -> Program:
    """`program` itself. Raises ProgramError, naming the file, where it holds a secret: Programs are published."""
    for name, content in program.files.items():
        if mask.holds(content) or mask.holds(os.fsencode(name)):
            raise ProgramError(f"'{name}' holds a key, or what looks like one")
    return program


MASKED_BYTES = 64 << 20
"""Of a file: a larger one is not read for secrets."""


def mask_files(folder: Path, mask: Masker) -> None:
    """Mask every regular file below `folder` in place; links are not followed, what cannot be read is left alone."""
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                _mask_file(Path(root, name), mask)
            except OSError:
                continue


def _mask_file(path: Path, mask: Masker) -> None:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb+") as file:
        status = os.fstat(handle)
        # A second name may be one outside the folder.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size > MASKED_BYTES:
            return
        data = file.read()
        if mask.holds(data):
            file.seek(0)
            file.truncate()
            file.write(mask.data(data))
