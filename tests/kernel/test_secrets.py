"""No secret stays in what is written: not by its value, not by its looks, however it is quoted."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from evopolicy.kernel.errors import ProgramError
from evopolicy.kernel.program import Program
from evopolicy.kernel.secrets import MASK, NO_SECRETS, Masker, mask_files, masked_events, without_secrets

VALUE = 'pa"ss/word+with ä'
MASKER = Masker.of(
    {"MY_VALUE": VALUE, "OTHER_API_KEY": "plain-value-1", "SHORT_KEY": "abc", "USER": "someone"}, ["MY_VALUE"]
)
LOOKS = [
    "sk-" + "a1" * 15,
    "sk-ant-api03-" + "Xy_-" * 10,
    "AIza" + "b" * 35,
    "ghp_" + "c" * 36,
    "xoxb-" + "1" * 24,
    "AKIA" + "D" * 16,
    "hf_" + "e" * 34,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("form", [VALUE, json.dumps(VALUE)[1:-1], quote(VALUE, safe="")])
def test_a_value_is_masked_however_it_is_quoted(form: str) -> None:
    assert MASKER.text(f"before {form} after") == f"before {MASK} after"
    assert MASKER.holds(form.encode())


def test_values_come_from_named_variables_and_from_those_named_like_a_secret() -> None:
    assert MASKER.values == (VALUE, "plain-value-1"), "neither what is short nor what is no secret"


@pytest.mark.parametrize("key", LOOKS)
def test_what_looks_like_a_key_is_masked(key: str) -> None:
    assert NO_SECRETS.text(f"key = '{key}'") == f"key = '{MASK}'"


def test_headers_with_a_login_are_masked() -> None:
    login = base64.b64encode(b"user:a long password").decode()
    assert NO_SECRETS.text(f"Authorization: Basic {login}") == f"Authorization: Basic {MASK}"
    assert NO_SECRETS.text("authorization: bearer " + "z" * 30) == f"authorization: bearer {MASK}"
    assert NO_SECRETS.text('{"Authorization": "Bearer ' + "z" * 30 + '"}') == f'{{"Authorization": "Bearer {MASK}"}}'


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn-style-parameters-of-the-model", "# A basic proportional_derivative_controller for the pole.",
        "task-1234567890123456789012345", "a" * 64, "risk-averse-policy-gradient-method", "Basic idea: go on",
        "the bearer of news", "import numpy as np", "0x7f3a",
    ],
)  # fmt: skip
def test_what_only_resembles_a_key_is_left(text: str) -> None:
    assert MASKER.text(text) == text


def test_a_json_value_is_masked_in_its_keys_and_texts_alone() -> None:
    masked = MASKER.value({"plain-value-1": [VALUE, 3, None, {"a": ("x", VALUE)}]})
    assert masked == {MASK: [MASK, 3, None, {"a": ["x", MASK]}]}


def test_a_program_with_a_secret_is_refused_by_the_file_that_holds_it() -> None:
    program = Program("0" * 64, {"policy.py": b"x = 1\n", "data/key.txt": VALUE.encode()})
    with pytest.raises(ProgramError, match=r"'data/key\.txt', line 1, holds a key"):
        without_secrets(program, MASKER)
    with pytest.raises(ProgramError, match=r"the name '\*\*\*\.txt' holds a key"):
        without_secrets(Program("0" * 64, {"plain-value-1.txt": b""}), MASKER)
    assert without_secrets(Program("0" * 64, {"policy.py": b"x = 1\n"}), MASKER).files


def test_files_are_masked_in_place_and_nothing_outside_is_touched(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep").mkdir(parents=True)
    outside.write_text(VALUE)
    (inside / "deep" / "notes").write_bytes(b"\xff" + VALUE.encode() + b"\x00")
    (inside / "link").symlink_to(outside)
    os.link(outside, inside / "hard")
    os.mkfifo(inside / "pipe")
    clean = inside / "clean"
    clean.write_text("nothing")
    before = clean.stat().st_mtime_ns
    mask_files(inside, MASKER)
    assert (inside / "deep" / "notes").read_bytes() == b"\xff" + MASK.encode() + b"\x00"
    assert outside.read_text() == VALUE
    assert (inside / "hard").read_text() == MASK, "its other name has what it had"
    assert clean.stat().st_mtime_ns == before


def test_names_links_modes_and_depth_do_not_keep_a_secret_and_never_stop_the_masking(tmp_path: Path) -> None:
    (tmp_path / "plain-value-1.txt").write_text("x")
    (tmp_path / "link").symlink_to("/x/plain-value-1")
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "file").write_text(VALUE)
    (closed / "file").chmod(0)
    closed.chmod(0)
    deep = tmp_path
    handles = os.open(deep, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("a", dir_fd=handles)
        inner = os.open("a", os.O_RDONLY, dir_fd=handles)
        os.close(handles)
        handles = inner
    os.close(handles)
    try:
        mask_files(tmp_path, MASKER)
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "a")], check=True)  # deeper than Python's own way of removing goes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["***.txt", "closed"]
    assert (closed / "file").read_text() == MASK


def test_a_word_is_no_secret_unless_its_variable_is_named() -> None:
    words = {"SORT_KEY": "episodes", "MY_TOKEN_2": "abcd1234", "A_PASS": "word1word"}
    assert Masker.of(words).values == ("word1word", "abcd1234")
    assert Masker.of(words, ["SORT_KEY"]).values == ("word1word", "abcd1234", "episodes")


def test_an_event_keeps_its_own_words_and_numbers() -> None:
    mask = masked_events(Masker(("episodes", "exited")), {"exited"})
    event = {"measurement": {"episodes": 4}, "error": "5 episodes", "reason": "exited", "session_id": None}
    assert mask(event) == {**event, "error": f"5 {MASK}"}
    assert mask({"reason": "it exited"}) == {"reason": f"it {MASK}"}
