"""Masking in pieces gives what masking the whole gives, wherever the pieces are cut."""

from __future__ import annotations

import pytest

from evopolicy.kernel.secrecy.masking import Masking
from evopolicy.kernel.secrecy.secrets import Masker

MASK = Masker(("a-value-of-mine",))


@pytest.mark.parametrize(
    "line",
    [
        b"key: a-value-of-mine, and more",
        b"Authorization: Bearer abcdEFGH12345678ijkl, and more",
        b"authorization: Basic dXNlcjpwYXNzd29yZA==, and more",
        b"with Bearer abcdEFGH12345678ijklMNOP and more",
        b"with basic dXNlcjpwYXNzd29yZDpsb25nMTI= and more",
        b"sk-abcdefghijklmnopqrstuvwx0123456789 and more",
        b"postgresql://bob:hunter22@host/name and more",
    ],
)
def test_no_cut_shows_a_part_of_a_secret(line: bytes) -> None:
    whole = MASK.data(line)
    assert b"***" in whole
    for cut in range(len(line) + 1):
        masking = Masking(MASK)
        given = (
            masking.feed(line[:cut])
            + masking.begun()
            + masking.feed(line[cut:])
            + masking.begun()
            + masking.end()
        )
        assert given == whole, cut
        assert masking.masked and masking.pending == 0
