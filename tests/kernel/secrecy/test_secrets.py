"""No secret stays in what is written: not by its value, not by its looks, however it is quoted."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from evopolicy.kernel.errors import ProgramError
from evopolicy.kernel.files.program import Program
from evopolicy.kernel.secrecy.secrets import (
    MASK,
    NO_SECRETS,
    Masker,
    mask_uri,
    masked_events,
    without_secrets,
)

VALUE = 'pa"ss/word+with ä'
MASKER = Masker.of(
    {"MY_VALUE": VALUE, "OTHER_API_KEY": "plain-value-1", "SHORT_KEY": "abc", "USER": "someone"},
    ["MY_VALUE"],
)
LOOKS = [
    "sk-" + "a1" * 15,
    "sk-ant-api03-" + "Xy_-" * 10,
    "AIza" + "b" * 35,
    "ghp_" + "c" * 36,
    "xoxb-" + "1" * 24,
    "AKIA" + "D" * 16,
    "hf_" + "e" * 34,
    "rt_" + "Ab1.-_" * 6,
    "ya29." + "a0Af_-" * 6,
    "1//0g" + "Cx-_" * 8,
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


def test_keys_are_found_wherever_they_lie_in_a_large_text() -> None:
    """It is looked through in windows: at every place around the end of one, and beside others, a
    key is a key."""
    for key in LOOKS:
        for place in (65_536 - len(key), 65_536 - 1, 65_536, 65_536 + 4096 - 3, 65_536 + 4096):
            text = " " * place + key + " " * 70_000 + key + " "
            assert NO_SECRETS.text(text) == text.replace(key, MASK), (key, place)
    long = "sk-" + "a1" * 100_000
    assert NO_SECRETS.text(f"{long} {LOOKS[0]}") == f"{MASK} {MASK}"


def test_headers_with_a_login_are_masked() -> None:
    login = base64.b64encode(b"user:a long password").decode()
    assert NO_SECRETS.text(f"Authorization: Basic {login}") == f"Authorization: Basic {MASK}"
    assert NO_SECRETS.text("authorization: bearer " + "z" * 30) == f"authorization: bearer {MASK}"
    assert (
        NO_SECRETS.text('{"Authorization": "Bearer ' + "z" * 30 + '"}')
        == f'{{"Authorization": "Bearer {MASK}"}}'
    )


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn-style-parameters-of-the-model", "# A basic proportional_derivative_controller " "for the pole.",
        "task-1234567890123456789012345", "a" * 64, "risk-averse-policy-gradient-method", "Basic idea: go on",
        "the bearer of news", "ya29.com", "start_of_the_episode_and_more_words", "https://a1//some_long_path_in_the_url_x",
        "x // 1//reduced_by_the_number_of_steps", "import numpy as np", "0x7f3a",
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


ADDRESSES = {
    "postgresql://me:pw@db.local/x": "postgresql://***@db.local/x",
    "postgresql+psycopg2://me:p/w@d@db.local:5432/x": "postgresql+psycopg2://***@db.local:5432/x",
    "https://a-token@tracking.local/x": "https://***@tracking.local/x",
    "https://tracking.local/x?access_token=abcdef&kind=1": "https://tracking.local/x?access_token=***&kind=1",
    "postgresql:///x?user=me&password=abcdef": "postgresql:///x?user=me&password=***",
    "postgresql://me@db.local/x": "postgresql://me@db.local/x",
    "sqlite:////tmp/me@home/a:b/mlflow.db": "sqlite:////tmp/me@home/a:b/mlflow.db",
    "sqlite:////tmp/x.db?mode=ro": "sqlite:////tmp/x.db?mode=ro",
    "": "",
}


@pytest.mark.parametrize("uri", ADDRESSES)
def test_what_an_address_holds_of_a_login_is_masked_and_the_rest_is_not(uri: str) -> None:
    assert mask_uri(uri) == ADDRESSES[uri]
    assert mask_uri(mask_uri(uri)) == mask_uri(uri)


def test_logins_in_addresses_are_masked_in_any_text() -> None:
    text = 'proxy "http://bob:secret-1@10.0.0.1:3128" and https://h/?a=1&token=abcdef ssh://git@host:22/x'
    masked = 'proxy "http://bob:***@10.0.0.1:3128" and https://h/?a=1&token=*** ssh://git@host:22/x'
    assert NO_SECRETS.text(text) == masked and NO_SECRETS.text(masked) == masked


def test_a_word_is_no_secret_unless_its_variable_is_named() -> None:
    words = {"SORT_KEY": "episodes", "MY_TOKEN_2": "abcd1234", "A_PASS": "word1word"}
    assert Masker.of(words).values == ("word1word", "abcd1234")
    assert Masker.of(words, ["SORT_KEY"]).values == ("word1word", "abcd1234", "episodes")


def test_an_event_keeps_its_own_words_and_numbers() -> None:
    mask = masked_events(Masker(("episodes", "exited")), {"exited"})
    event = {
        "measurement": {"episodes": 4},
        "error": "5 episodes",
        "reason": "exited",
        "session_id": None,
    }
    assert mask(event) == {**event, "error": f"5 {MASK}"}
    assert mask({"reason": "it exited"}) == {"reason": f"it {MASK}"}
