"""What files of logins hold: each text in them that could be a token, in every form it may be
printed in.

An agent's program may refresh its login while it runs: such a file is looked at again whenever
something is to be masked, and what was ever in it stays known."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evopolicy.kernel.files import beneath

MAX_FILE_BYTES = 1 << 20
MAX_TEXTS = 400
"""Remembered of all files; an agent that fills its login with words hides its own output, and not
for ever."""
MAX_FILES = 500
"""Looked at of a folder that is let in."""
MAX_WATCHED = 16
SHORTEST = 8
_UNNAMED = 16
"""Of a text whose place does not say that it is secret."""
_NAMED_FILE = re.compile(r"auth|cred|token|login|secret|key|account|session", re.IGNORECASE)
_NAMED_KEY = re.compile(
    r"token|secret|passw|api_?key|auth|cred|cookie|refresh|bearer", re.IGNORECASE
)
_WORDS = re.compile(rb"[A-Za-z0-9_.+/=~-]{%d,}" % SHORTEST)
_MIXED = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{8}|[A-Za-z0-9]{24}")
"""A run that no word, version, date or name of a model has."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^@?]*", re.IGNORECASE)
_HARMLESS = re.compile(r"[0-9T:.+Z -]+|[~.]?/.*", re.IGNORECASE)
"""Times and paths."""
MAX_WHOLES = 32
_WHOLE = 64 << 10
"""A larger file is not looked for as a whole, encoded."""
_NEVER = (0, 0, 0)
_WRAPS = (76, 64)
"""Letters in a line of base64, as the usual programs write it."""


class Logins:
    """Files of logins and what they hold. Safe to use from several threads."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, tuple[str, ...]], tuple[int, int, int]] = {}
        self._texts: set[str] = set()
        self._wholes = 0
        self._lock = threading.Lock()
        self._forms: tuple[bytes, ...] = ()

    @property
    def texts(self) -> list[str]:
        """All that was ever found."""
        with self._lock:
            return sorted(self._texts)

    def tell(self, texts: Iterable[str]) -> None:
        """Know what another has found."""
        self._add(set(texts), b"")

    def watch(self, folder: Path, name: str) -> None:
        """Know what is in the file `name` below `folder` from now on, whoever writes to it, until
        the folder goes."""
        key = (folder, Path(name).parts)
        before = len(self._texts)
        self._look(key, _NEVER)
        if len(self._texts) == before and not _NAMED_FILE.search(key[1][-1]):
            self._files.pop(key, None)

    @property
    def watched(self) -> list[tuple[str, str]]:
        """Folder and name of each file that is watched."""
        return [(str(folder), str(Path(*parts))) for folder, parts in self._files]

    def learn(self, source: Path) -> None:
        """Know what is in the file, or the files of the folder, at `source` now, the user's own."""
        inner = (path for path in source.rglob("*") if path.is_file())
        for path in [source] if source.is_file() else islice(inner, MAX_FILES):
            self._learn(path)

    def _learn(self, path: Path) -> None:
        with suppress(OSError), path.open("rb") as file:
            self._know(path.name, file.read(MAX_FILE_BYTES))

    def forms(self) -> tuple[bytes, ...]:
        """Every way in which a text of theirs may be written, the longest first."""
        for key, before in list(self._files.items()):
            self._look(key, before)
        return self._forms

    def _look(self, key: tuple[Path, tuple[str, ...]], before: tuple[int, int, int]) -> None:
        folder, parts = key
        if not folder.is_dir():
            self._files.pop(key, None)
            return
        with suppress(OSError), beneath.opened(folder, parts[:-1]) as fd:
            status = beneath.status_of(parts[-1], fd)
            now = (
                (status.st_mtime_ns, status.st_size, status.st_ino)
                if status is not None
                else before
            )
            if now != before:
                with beneath.reading(parts[-1], fd) as file:
                    self._know(parts[-1], beneath.first_bytes(file, MAX_FILE_BYTES))
                if before != _NEVER or len(self._files) < MAX_WATCHED:
                    self._files[key] = now

    def _know(self, name: str, content: bytes) -> None:
        self._add(set(_texts(content, named=bool(_NAMED_FILE.search(name)))), content)

    def _add(self, texts: set[str], content: bytes) -> None:
        with self._lock:
            room = MAX_TEXTS - len(self._texts)
            new = sorted(texts - self._texts, key=lambda text: (-len(text), text))[:room]
            whole = 0 < len(content) <= _WHOLE and self._wholes < MAX_WHOLES
            lines = set(_lines(content)) - set(self._forms) if whole else set()
            if not new and not lines:
                return
            self._texts.update(new)
            self._wholes += bool(lines)
            forms = {*self._forms, *written(new), *lines}
            self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))


def written(texts: Iterable[str]) -> Iterator[bytes]:
    """Each text as it is, JSON-escaped, URL-quoted, and in base64 wherever it lies in what is
    encoded."""
    for text in texts:
        raw = text.encode("utf-8", "surrogateescape")
        yield from (raw, json.dumps(text)[1:-1].encode(), quote(raw, safe="").encode())
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            for before in range(3):
                # Letters that neighbours have a part in are left out: two bits of six, or four,
                # belong to them.
                first, last = (0, 2, 3)[before], (before + len(raw)) // 3 * 4
                form = encode(bytes(before) + raw)[first:last]
                if len(form) >= SHORTEST:
                    yield form
        yield from _lines(raw)


def _lines(content: bytes) -> Iterator[bytes]:
    """What a program prints that encodes `content`: lines of base64."""
    encoded = base64.b64encode(content)
    for width in _WRAPS:
        lines = [encoded[start : start + width] for start in range(0, len(encoded), width)]
        yield from (line for line in lines[:-1] if line != line[:1] * width)
        if len(lines) > 1 and len(lines[-1]) >= _UNNAMED:
            yield lines[-1].rstrip(b"=")[:-1]


def _texts(content: bytes, *, named: bool) -> Iterator[str]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict | list):
        yield from _of_json(value, named)
        return
    for line in content.splitlines():
        stripped = line.strip().decode("utf-8", "surrogateescape")
        if named and " " not in stripped and _is_token(stripped, SHORTEST):
            yield stripped
        for word in _WORDS.findall(line):
            text = word.decode().strip(".=")
            key = line[: line.find(word)].decode("utf-8", "replace")
            if _is_secret(text, key, named):
                yield text


def _of_json(value: Any, named: bool) -> Iterator[str]:
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        key, inner = waiting.pop()
        if isinstance(inner, dict):
            waiting.extend((str(name), item) for name, item in inner.items())
        elif isinstance(inner, list):
            waiting.extend((key, item) for item in inner)
        elif isinstance(inner, str) and _is_secret(inner, key, named):
            yield inner


def _is_secret(text: str, key: str, named: bool) -> bool:
    """Whether `text`, under `key` of a file that is `named` as a login or is not, could be one."""
    if _NAMED_KEY.search(key):
        return _is_token(text, SHORTEST)
    return _is_token(text, SHORTEST if named else _UNNAMED) and (
        not _HARMLESS.fullmatch(text)
        if named
        else bool(_MIXED.search(text)) and text[:1] not in "/~."
    )


def _is_token(text: str, shortest: int) -> bool:
    """Whether to mask `text` wherever it stands spoils no honest text."""
    if len(text) < shortest or any(letter.isspace() for letter in text) or _ADDRESS.fullmatch(text):
        return False
    return not (text.isalpha() and len(text) < _UNNAMED)
