"""What a file of a login holds is masked in whatever way it is printed, also what it is refreshed
to."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from evopolicy.kernel.secrecy.logins import Logins
from evopolicy.kernel.secrecy.masking import Masking
from evopolicy.kernel.secrecy.secrets import Masker

REFRESH = "Zx81-refresh.of/nobody+at=all"
ACCESS = "opaque_" + "aB3dE6gH9" * 20
LOGIN = {
    "OPENAI_API_KEY": None,
    "auth_mode": "chatgpt",
    "tokens": {
        "access_token": ACCESS,
        "refresh_token": REFRESH,
        "account_id": "0f8fad5b-d9cb-469f-a165-70867728950e",
    },
    "list": ["plain-token-in-a-list"],
    "last_refresh": "2026-11-30T22:00:00Z",
}
TEXTS = [ACCESS, REFRESH, "0f8fad5b-d9cb-469f-a165-70867728950e", "plain-token-in-a-list"]


def masker(folder: Path, content: str, name: str = "auth.json") -> Masker:
    (folder / name).write_text(content)
    logins = Logins()
    logins.watch(folder, name)
    return Masker(logins=logins)


def wrapped(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()


def encoded(encode: Callable[[bytes], bytes], before: int) -> Callable[[str], str]:
    return lambda text: encode(b"x" * before + text.encode() + b"yz").decode()


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: f"a {text} b",
    "in JSON": lambda text: json.dumps({"x": json.dumps([text])}),
    "in an address": lambda text: "?x=" + quote(text, safe=""),
    **{f"base64 behind {n}": encoded(base64.b64encode, n) for n in range(3)},
    **{f"base64 for addresses behind {n}": encoded(base64.urlsafe_b64encode, n) for n in range(3)},
}


@pytest.mark.parametrize("text", TEXTS, ids=["access", "refresh", "account", "list"])
@pytest.mark.parametrize("form", FORMS)
def test_a_text_of_a_login_is_masked_in_each_form(tmp_path: Path, form: str, text: str) -> None:
    mask, shown = masker(tmp_path, json.dumps(LOGIN)), FORMS[form](text)
    masked = mask.text(shown)
    around = len(FORMS[form](""))
    assert masked.count("***") == 1 and len(masked) - 3 <= around + 6, (
        "of it no more than neighbours have a part in"
    )


@pytest.mark.parametrize("told", [False, True])
def test_the_whole_file_in_lines_of_base64_is_masked(tmp_path: Path, told: bool) -> None:
    """Also by a process that was told the texts of it before it looked at the file itself."""
    content = json.dumps(LOGIN, indent=2)
    logins = Logins()
    if told:
        logins.tell(masker(tmp_path, content).logins.texts)  # type: ignore[union-attr]
    (tmp_path / "auth.json").write_text(content)
    logins.watch(tmp_path, "auth.json")
    mask = Masker(logins=logins)
    masked = mask.text(wrapped(content))
    assert not [line for line in wrapped(content).splitlines() if len(line) > 40 and line in masked]


@pytest.mark.parametrize("quiet", [False, True])
def test_it_is_masked_wherever_its_output_is_cut(tmp_path: Path, quiet: bool) -> None:
    mask = masker(tmp_path, json.dumps(LOGIN))
    for text in (REFRESH, base64.b64encode(b"x" + REFRESH.encode()).decode()):
        whole = f"before {text} after\n".encode()
        for place in range(1, len(whole)):
            masking = Masking(mask)
            out = masking.feed(whole[:place]) + (masking.begun() if quiet else b"")
            assert out + masking.feed(whole[place:]) + masking.end() == mask.data(whole), place


def test_what_a_file_is_refreshed_to_is_known_at_once_and_what_it_was_stays_known(
    tmp_path: Path,
) -> None:
    mask = masker(tmp_path, json.dumps(LOGIN))
    (tmp_path / "auth.json").write_text(
        json.dumps({"tokens": {"refresh_token": "another-one-entirely"}})
    )
    assert mask.text(f"{REFRESH} another-one-entirely") == "*** ***"
    (tmp_path / "auth.json").unlink()
    (tmp_path / "auth.json").symlink_to("/etc/passwd")
    assert mask.text(f"{REFRESH} another-one-entirely root:x:0:0:root:/root:/bin/bash") == (
        "*** *** root:x:0:0:root:/root:/bin/bash"
    )


OTHERS: dict[str, tuple[str, str, list[str], list[str]]] = {
    "a line": ("token", "one-long-line-of-a-token\n", ["one-long-line-of-a-token"], []),
    "TOML": (
        "config.toml",
        'model = "claude-sonnet-4-20250514"\nbase = "https://api.example.com/v1"\napi_key = '
        '"12345-abcdef"\n',
        ["12345-abcdef"],
        ["claude-sonnet-4-20250514", "https://api.example.com/v1"],
    ),
    "settings": (
        "settings.json",
        '{"theme": "dark", "model": "gpt-5.1-codex-max", "selected": "oauth-personal", "X_TOKEN": '
        '"abcd-efgh-1"}',
        ["abcd-efgh-1"],
        ["gpt-5.1-codex-max", "oauth-personal"],
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_words_and_models_of_a_configuration_stay_readable(tmp_path: Path, kind: str) -> None:
    name, content, hidden, shown = OTHERS[kind]
    mask = masker(tmp_path, content, name)
    assert [mask.text(text) for text in hidden] == ["***"] * len(hidden)
    assert [mask.text(text) for text in shown] == shown


def test_a_login_full_of_words_costs_no_more_than_its_bound(tmp_path: Path) -> None:
    content: dict[str, Any] = {str(n): f"word-number-{n}" for n in range(10_000)}
    mask = masker(tmp_path, json.dumps({**content, "refresh_token": ACCESS}))
    assert mask.logins is not None and len(mask.logins.texts) == 400
    assert mask.text(ACCESS) == "***", "the longest are known first"
