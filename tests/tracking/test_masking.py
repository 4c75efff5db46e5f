"""No secret reaches a tag, a param or an artifact."""

from __future__ import annotations

from pathlib import Path

import pytest

from evopolicy.kernel.secrecy.secrets import Masker
from evopolicy.tracking import masking
from evopolicy.tracking.masking import copy_masked, mask, named_variables


@pytest.mark.parametrize(
    "key", ["api_key", "provider_token", "SECRET", "password", "openai_apikey"]
)
def test_a_text_under_a_key_that_names_a_secret_is_masked(key: str) -> None:
    assert mask({"agent": {key: "s3cret-value"}}, {}) == {"agent": {key: "***"}}


@pytest.mark.parametrize("key", ["secret_file", "token_variable", "output_tokens", "keyboard"])
def test_a_key_that_says_where_a_secret_lies_stays(key: str) -> None:
    assert mask({key: "/run/secrets/pool"}, {}) == {key: "/run/secrets/pool"}


def test_the_value_of_a_secret_variable_is_masked_wherever_it_occurs() -> None:
    environment = {"OPENAI_API_KEY": "sk-123456789", "SHORT_KEY": "abc", "HOME": "/home/someone"}
    value = {"argv": ["--key=sk-123456789", "abc"], "home": "/home/someone", "n": 3}
    assert mask(value, environment) == {
        "argv": ["--key=***", "abc"],
        "home": "/home/someone",
        "n": 3,
    }


def test_what_looks_like_a_key_is_masked_without_any_variable() -> None:
    assert mask(["Bearer sk-abcdefghijklmnopqrstuvwxyz"], {}) == ["Bearer ***"]


def test_the_value_of_a_named_variable_is_masked() -> None:
    config = {
        "agent": {
            "key_variable": "GATE",
            "variables": ["PLAIN_ONE"],
            "nested": [{"variable": "DEEP"}],
        }
    }
    assert list(named_variables(config)) == ["GATE", "PLAIN_ONE", "DEEP"]
    environment = {"GATE": "gate-value", "PLAIN_ONE": "plain-value", "OTHER": "other-value"}
    text = "gate-value plain-value other-value"
    assert mask(text, environment, named_variables(config)) == "*** *** other-value"


def test_a_file_is_copied_without_secrets_whatever_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "stdout.log", tmp_path / "copy"
    source.write_bytes(b"\xff one-secret\n" * 3)
    for at_once in (100, 1):
        monkeypatch.setattr(masking, "_CHUNK", at_once)
        with source.open("rb", buffering=0) as file:
            copy_masked(file, target, Masker(("one-secret",)))
        assert target.read_bytes() == b"\xff ***\n" * 3
