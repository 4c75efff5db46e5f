"""A Provider says itself what it may not be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.protocols import Provider

PROVIDER = Provider("https://api.example.com/v1", ("POST /chat",), ())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"paths": ()}, "provider.paths: names nothing"), ({"paths": ("/chat",)}, "'POST /name' is needed"),
        ({"paths": ("POST /chat?x=1",)}, "'POST /name' is needed"), ({"paths": ("POST /a b",)}, "'POST /name'"),
        ({"key_variable": "KEY", "key_form": "Bearer"}, "no place for the key"),
    ],
)  # fmt: skip
def test_a_provider_that_could_never_be_asked_is_refused(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(PROVIDER, **changes)


@pytest.mark.parametrize(
    "url",
    [
        "", "api.example.com", "ftp://example.com", "https://", "https:///v1", "https://x/?a=b", "https://x/#a",
        "https://user:word@x/", "https://x:port/", "https://x:99999", "https://[x", "https://x /v1",
    ],
)  # fmt: skip
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="'https://name/path' is needed"):
        replace(PROVIDER, url=url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "https://api.example.com/v1/", "http://[::1]:8000/v1"]
)
def test_a_base_url_passes(url: str) -> None:
    assert replace(PROVIDER, url=url).url == url
