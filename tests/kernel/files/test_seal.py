"""A seal is made and known by this user's key on this machine, and by no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evopolicy.kernel.files.seal import is_ours, key_folder, seal

CONTENT = {"agent": {"name": "cma_es"}, "seed": 3, "output": "outputs"}


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a key that is not made yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = key_folder()
    assert folder == tmp_path / "evopolicy"
    return folder / "owner.key"


def test_a_seal_is_of_all_but_the_place(key: Path) -> None:
    assert not is_ours(CONTENT, "") and not key.exists(), "asking makes no key"
    made = seal(CONTENT)
    assert len(made) == 64 and is_ours(CONTENT, made)
    assert is_ours({**CONTENT, "output": "elsewhere"}, made)
    for other in ({**CONTENT, "seed": 4}, {**CONTENT, "more": 1}, {"seed": 3}):
        assert not is_ours(other, made)
    assert not is_ours(CONTENT, made[:-1] + "é") and not is_ours(CONTENT, "0" * 64)


def test_another_key_made_another_seal(key: Path) -> None:
    made = seal(CONTENT)
    key.unlink()
    assert not is_ours(CONTENT, made)
    assert seal(CONTENT) != made


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_that_others_may_open_is_none(key: Path, mode: int) -> None:
    made = seal(CONTENT)
    key.chmod(mode)
    assert not is_ours(CONTENT, made) and seal(CONTENT) == ""


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 31])
def test_a_key_that_is_not_whole_is_none(key: Path, content: bytes) -> None:
    seal(CONTENT)
    key.write_bytes(content)
    assert seal(CONTENT) == "" and not is_ours(CONTENT, "0" * 64)


@pytest.mark.usefixtures("key")
def test_a_key_of_another_user_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    made = seal(CONTENT)
    monkeypatch.setattr("evopolicy.kernel.files.seal.os.geteuid", lambda: os.getuid() + 1)
    assert not is_ours(CONTENT, made) and seal(CONTENT) == ""


def test_a_link_in_the_keys_place_is_none(key: Path, tmp_path: Path) -> None:
    made = seal(CONTENT)
    key.rename(tmp_path / "elsewhere")
    key.symlink_to(tmp_path / "elsewhere")
    assert not is_ours(CONTENT, made) and seal(CONTENT) == ""
