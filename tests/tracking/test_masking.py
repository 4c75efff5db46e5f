"""No secret reaches a tag, a param or an artifact."""

from __future__ import annotations

import pytest

from evopolicy.tracking.masking import mask, mask_uri


@pytest.mark.parametrize("key", ["api_key", "provider_token", "SECRET", "password", "openai_apikey"])
def test_a_text_under_a_key_that_names_a_secret_is_masked(key: str) -> None:
    assert mask({"agent": {key: "s3cret-value"}}, {}) == {"agent": {key: "***"}}


@pytest.mark.parametrize("key", ["secret_file", "token_variable", "output_tokens", "keyboard"])
def test_a_key_that_says_where_a_secret_lies_stays(key: str) -> None:
    assert mask({key: "/run/secrets/pool"}, {}) == {key: "/run/secrets/pool"}


def test_the_value_of_a_secret_variable_is_masked_wherever_it_occurs() -> None:
    environment = {"OPENAI_API_KEY": "sk-123456789", "SHORT_KEY": "abc", "HOME": "/home/someone"}
    value = {"argv": ["--key=sk-123456789", "abc"], "home": "/home/someone", "n": 3}
    assert mask(value, environment) == {"argv": ["--key=***", "abc"], "home": "/home/someone", "n": 3}


def test_user_and_password_of_an_address_are_masked() -> None:
    assert mask_uri("postgresql://me:pw@db.local/x") == "postgresql://***@db.local/x"
    assert mask_uri("sqlite:////tmp/mlflow.db") == "sqlite:////tmp/mlflow.db"
