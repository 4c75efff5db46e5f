"""Which secret a regrade draws its pool by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.config import SecretConfig
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.secrecy.pool_secret import POOL_SECRET, pool_secret
from evopolicy.kernel.session.record import load_run
from evopolicy.regrade import pool_secret as drawn_by


def test_a_generated_secret_that_was_never_made_is_told_as_that(
    records: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_run(records.write_run(tmp_path))
    config: Any = type("Config", (), {"secret": SecretConfig(None, None, False)})()
    monkeypatch.setattr("evopolicy.regrade.config_from", lambda _: config)
    asked: Any = type("Asked", (), {"secret": replace(config.secret, generated=True)})()
    with pytest.raises(
        ConfigError,
        match=f"was drawn without such a secret, and {tmp_path} holds none .*secret.file=",
    ):
        drawn_by(run, asked)
    assert not (tmp_path / POOL_SECRET).exists()
    made = pool_secret(tmp_path, make=True)
    assert drawn_by(run, asked) == made
