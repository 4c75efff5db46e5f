"""Settings that a CLI finds in its home."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from evopolicy.agents.coding.home import with_home_files
from evopolicy.agents.contract import example_task


def laid(tmp_path: Path, texts: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Start a program that lists the home behind the one that lays `texts` there."""
    staging = tmp_path / "staging"
    staging.mkdir()
    task = example_task(staging=staging, python=Path(sys.executable))
    argv, files = with_home_files(
        task, ("/bin/sh", "-c", 'cd "$HOME" && find . -type f | sort'), texts
    )
    for name, text in files.items():
        (staging / name).write_text(text)
    (tmp_path / "home").mkdir(exist_ok=True)
    environment = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=300, check=True
    )


def test_settings_are_there_before_the_program_begins(tmp_path: Path) -> None:
    done = laid(tmp_path, {".one/settings.json": '{"a": 1}', ".two/config.toml": "b = 2\n"})
    assert done.stdout.split() == ["./.one/settings.json", "./.two/config.toml"]
    assert (tmp_path / "home" / ".one" / "settings.json").read_text() == '{"a": 1}'


def test_a_copied_configuration_is_kept_where_nothing_is_said_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".one"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(
        '{"ui": {"theme": "dark", "tips": true}, "servers": {"mine": 1}}'
    )
    (folder / "config.toml").write_text("mine = true\n")
    laid(
        tmp_path,
        {
            ".one/settings.json": '{"ui": {"tips": false}, "telemetry": false}',
            ".one/config.toml": "x = 1\n",
        },
    )
    assert json.loads((folder / "settings.json").read_text()) == {
        "ui": {"theme": "dark", "tips": False}, "servers": {"mine": 1}, "telemetry": False,
    }  # fmt: skip
    assert (folder / "config.toml").read_text() == "mine = true\n"


def test_settings_that_are_no_plain_json_are_replaced_and_it_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".one"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"ui": 1} // mine')
    done = laid(tmp_path, {".one/settings.json": '{"a": 1}'})
    assert json.loads((folder / "settings.json").read_text()) == {"a": 1}
    assert "settings.json of the configuration is not plain JSON" in done.stderr


def test_without_settings_nothing_is_put_in_front() -> None:
    assert with_home_files(example_task(), ("agent", "--go"), {}) == (("agent", "--go"), {})
