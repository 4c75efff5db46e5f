"""Keeping secrets out of everything that is written: the values of secret variables, and what looks
like a key."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from evopolicy.kernel.errors import ProgramError
from evopolicy.kernel.secrecy.logins import Logins

if TYPE_CHECKING:
    from evopolicy.kernel.files.program import Program

MASK = "***"
SHORTEST = 8
"""A shorter value is a word, not a secret: replacing it would spoil every text that holds it."""
_SECRET_WORDS = frozenset(
    ("KEY", "APIKEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASS", "CREDENTIAL")
)
_SECRET_KEY = re.compile(
    r"(^|_)(api_?key|access_?key|secret|token|password|passwd|credentials?)$", re.IGNORECASE
)
_SECRET_ARGUMENT = re.compile(
    r"--?[\w-]*(key|token|password|passwd|secret|credentials?)=.", re.IGNORECASE
)
_WORD = 16
"""A value of letters alone that is shorter is taken for a word, unless its variable is named by the
config."""
_LOOKS_LIKE_A_KEY = re.compile(
    rb"(?P<before>(?i:authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:bearer|basic)\s+))[A-Za-z0-9+/_.=-]{16,}"
    rb"|(?i:(?<=bearer )|(?<=basic ))(?=[A-Za-z+/_.=-]*[0-9])[A-Za-z0-9+/_.=-]{24,}"
    rb"|(?<![A-Za-z0-9_-])(?:"
    rb"sk-(?=[A-Za-z_-]*(?:[0-9]|[A-Za-z]{16}))[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}"
    rb"|xox[abprs]-[A-Za-z0-9-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}|hf_[A-Za-z0-9]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    rb"|npm_[A-Za-z0-9]{36}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    rb"|rt_(?=[A-Za-z0-9._-]*[0-9])[A-Za-z0-9._-]{20,}|ya29\.(?=[A-Za-z0-9_.-]*[0-9])[A-Za-z0-9_.-]{20,}"
    rb"|1//0[A-Za-z0-9_-]{20,}"
    rb")"
    rb"|(?P<login>(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,40}://[^\s/:@\"'<>\\]*:)[^\s/@\"'<>\\]+(?=@)"
    rb"|(?P<query>[?&;](?i:[a-z0-9_.-]*(?:passw(?:or)?d|pwd|token|secret|api_?key|access_?key|signature|credential)[a-z0-9_.-]*)=)"
    rb"[^\s&;\"'<>\\{}]{4,}"
    rb"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\n)*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)
"""Forms that providers give their keys and tokens, and logins in headers."""
_MARKS = (
    *(
        b"sk-",
        b"aiza",
        b"ghp_",
        b"gho_",
        b"ghu_",
        b"ghs_",
        b"ghr_",
        b"github_pat_",
        b"xox",
        b"akia",
        b"asia",
        b"hf_",
    ),
    *(
        b"glpat-",
        b"npm_",
        b"eyj",
        b"private key",
        b"authorization",
        b"bearer ",
        b"basic ",
        b"rt_",
        b"ya29.",
        b"1//0",
    ),
    *(
        b"://",
        b"passwd",
        b"password",
        b"pwd",
        b"token",
        b"secret",
        b"api_key",
        b"apikey",
        b"access_key",
        b"accesskey",
    ),
    *(b"signature", b"credential"),
)
"""One of them, in lower case, is in whatever looks like a key: most text has none, and the search
is slow."""
_WINDOW = 1 << 16
_MARGIN = 4096
"""What of a key is enough to know it by, at most."""


def _keys_in(data: bytes) -> Iterator[re.Match[bytes]]:
    """What looks like a key in `data`, in order; only where a mark of one is."""
    position = 0
    for start in range(0, len(data), _WINDOW):
        end = min(start + _WINDOW + _MARGIN, len(data))
        if end <= position or not _may_have_a_key(data[start:end]):
            continue
        position = max(position, start)
        while match := _LOOKS_LIKE_A_KEY.search(data, position, end):
            if match.end() == end:
                match = _LOOKS_LIKE_A_KEY.match(data, match.start()) or match
            yield match
            position = match.end()


def _may_have_a_key(data: bytes) -> bool:
    lower = data.lower()
    return any(mark in lower for mark in _MARKS)


def _without_keys(data: bytes) -> bytes:
    parts, position = [], 0
    for match in _keys_in(data):
        before = match["before"] or match["login"] or match["query"] or b""
        parts += [data[position : match.start()], before, MASK.encode()]
        position = match.end()
    return b"".join([*parts, data[position:]]) if parts else data


def mask_uri(uri: str) -> str:
    """`uri` without a login that has a password, or is a token, and without what its query names
    like a secret."""
    scheme, sign, rest = uri.partition("://")
    login, at, host = rest.rpartition("@")
    if at and not rest.startswith("/") and (":" in login or scheme.startswith("http")):
        rest = f"{MASK}@{host}"
    return NO_SECRETS.text(f"{scheme}{sign}{rest}")


def is_secret_name(variable: str) -> bool:
    """Whether a variable's name says that it holds a secret: one of its words does."""
    return bool(_SECRET_WORDS & set(variable.upper().split("_")))


def is_secret_key(key: str) -> bool:
    """Whether a config's key holds a secret: `api_key`, a variable `A_TOKEN`; not `secret_file`,
    which names a file."""
    return bool(_SECRET_KEY.search(key)) or (key.isupper() and is_secret_name(key))


def is_secret_argument(word: str) -> bool:
    """Whether a word of a command line gives a secret: `--api-key=...`."""
    return bool(_SECRET_ARGUMENT.match(word))


def _is_a_word(value: str) -> bool:
    """Whether to mask `value` wherever it stands would spoil honest text."""
    return value.isalpha() and len(value) < _WORD


@dataclass(frozen=True)
class Masker:
    """Replaces secrets by `***`: the given values, however they are quoted, and whatever looks like
    a key."""

    values: tuple[str, ...] = ()
    logins: Logins | None = field(default=None, compare=False)
    """Files whose contents are masked as well."""

    @classmethod
    def of(cls, environment: Mapping[str, str], names: Iterable[str] = ()) -> Masker:
        """Of the variables of `environment` that are named in `names`, or like a secret."""
        wanted = set(names)
        values = {
            value
            for name, value in environment.items()
            if len(value.strip()) >= SHORTEST
            and (name in wanted or (is_secret_name(name) and not _is_a_word(value.strip())))
        }
        return cls(
            tuple(
                sorted(
                    values | {value.strip() for value in values},
                    key=lambda value: (-len(value), value),
                )
            )
        )

    @property
    def written(self) -> tuple[bytes, ...]:
        """Every way a value may stand in a file, the longest first; what logins hold by now behind
        the values."""
        return self._forms if self.logins is None else (*self._forms, *self.logins.forms())

    @cached_property
    def _forms(self) -> tuple[bytes, ...]:
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
        return _without_keys(data)

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        masked = self.data(data)
        return text if masked == data else masked.decode("utf-8", "surrogatepass")

    def holds(self, data: bytes) -> bool:
        """Whether `data` has a secret in it."""
        return any(form in data for form in self.written) or next(_keys_in(data), None) is not None

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


def masked_events(
    mask: Masker, reasons: Collection[str]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Masks what an agent or its provider may have written into a journal's event; `reasons` are
    our own.

    The rest are keys, numbers and names of ours: a secret that equals one must not spoil the
    journal."""

    def masked(content: dict[str, Any]) -> dict[str, Any]:
        free = {key for key in _FREE_TEXT if isinstance(content.get(key), str)}
        if isinstance(content.get("reason"), str) and content["reason"] not in reasons:
            free.add("reason")
        return {key: mask.text(value) if key in free else value for key, value in content.items()}

    return masked


def without_secrets(program: Program, mask: Masker) -> Program:
    """`program` itself. Raises ProgramError, naming the file, where it holds a secret: Programs are
    published."""
    for name, content in program.files.items():
        if mask.holds(os.fsencode(name)):
            raise ProgramError(f"the name '{mask.text(name)}' holds a key, or what looks like one")
        if mask.holds(content):
            lines = content.split(b"\n")
            line = next((f", line {n}," for n, text in enumerate(lines, 1) if mask.holds(text)), "")
            raise ProgramError(f"'{name}'{line} holds a key, or what looks like one")
    return program
