"""Masking what comes, or is read, in pieces: no secret is cut apart, and memory stays bounded."""

from __future__ import annotations

import re

from evopolicy.kernel.secrecy.secrets import Masker

PENDING_BYTES = 4 << 20
"""Of one line, held until it ends; a longer one is written in pieces."""
_KEY_BYTES = 4096
"""Longest key that is known by its looks alone, but for private ones."""
_PRIVATE_KEY_BYTES = 64 << 10
_KEY_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+/=-"
_ADDRESS_BEGUN = re.compile(
    rb"[A-Za-z][A-Za-z0-9+.-]*(?::/?|://[^\s/\"'<>\\]*)\Z|[?&;][A-Za-z0-9_.-]*(?:=[^\s&;\"'<>\\{}]*)?\Z"
)
"""The beginning of an address with a login, or of a part of a query."""
_HEADER_BEGUN = re.compile(
    rb"authorization\\?[\"']?\s*(?:[:=]\s*\\?[\"']?(?:[a-z]*|(?:bearer|basic)\s+[a-z0-9+/_.=-]*))?\Z",
    re.IGNORECASE,
)
"""The beginning of a login in a header, which is known by the header's name."""
_PRIVATE_KEY_BEGUN = re.compile(
    rb"-----BEGIN(?:[A-Z -]*|[A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\n]*(?:-[A-Z -]*)?)\Z"
)


class Masking:
    """Masks bytes that come in pieces. It cuts them where no secret is cut apart, whole or
    begun."""

    def __init__(self, mask: Masker) -> None:
        self._mask = mask
        self._pending = bytearray()
        self.masked = False
        """Whether a secret was in what has been given back."""

    @property
    def _reach(self) -> int:
        """Of the longest secret there is by now."""
        return max(max(map(len, self._mask.written), default=0), _PRIVATE_KEY_BYTES)

    @property
    def pending(self) -> int:
        """Bytes that were taken and not given back yet."""
        return len(self._pending)

    def feed(self, data: bytes) -> bytes:
        """Take `data`; returns, masked, whole lines, and pieces of one that is longer than
        PENDING_BYTES."""
        before = len(self._pending)
        self._pending += data
        end = data.rfind(b"\n") + 1
        if end:
            return self._taken(before + end)
        return self.begun() if len(self._pending) >= PENDING_BYTES else b""

    def begun(self) -> bytes:
        """The beginning of a line, masked, but for what may be the beginning of a secret."""
        return self._taken(len(self._pending))

    def end(self) -> bytes:
        """All that is left, masked."""
        data = bytes(self._pending)
        self._pending.clear()
        return self._given(data)

    def _taken(self, end: int) -> bytes:
        cut, floor = end, max(0, end - 2 * self._reach)
        while cut > floor and (held := self._secret_begun(cut)):
            cut -= held
        cut = max(cut, floor)
        data = bytes(self._pending[:cut])
        del self._pending[:cut]
        return self._given(data)

    def _given(self, data: bytes) -> bytes:
        masked = self._mask.data(data)
        self.masked = self.masked or masked != data
        return masked

    def _secret_begun(self, end: int) -> int:
        """How many bytes before `end` may be the beginning of a secret, at most."""
        before = bytes(self._pending[max(0, end - self._reach) : end])
        length = max((_overlap(before, form) for form in self._mask.written), default=0)
        key = before[-_KEY_BYTES:]
        rest = key.rstrip(_KEY_LETTERS)
        login = rest[-7:].lower()
        length = max(
            length,
            len(key)
            - len(rest)
            + (7 if login == b"bearer " else 6 if login[-6:] == b"basic " else 0),
        )
        if address := _ADDRESS_BEGUN.search(key):
            length = max(length, len(key) - address.start())
        if header := _HEADER_BEGUN.search(key):
            length = max(length, len(key) - header.start())
        start = before.rfind(b"-----BEGIN")
        if start >= 0 and _PRIVATE_KEY_BEGUN.match(before, start):
            length = max(length, len(before) - start)
        return length


def _overlap(text: bytes, form: bytes) -> int:
    """The length of the longest beginning of `form`, not all of it, that `text` ends with."""
    last = text[-1:]
    length = min(len(form) - 1, len(text))
    while (length := form.rfind(last, 0, length) + 1) > 0:
        if text.endswith(form[:length]):
            return length
        length -= 1
    return 0
