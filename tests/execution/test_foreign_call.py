"""Foreign code in a process of its own: whatever it does, the Host gets a plain value or one
sentence."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution import foreign_call
from evopolicy.kernel.errors import ConfigError, ExecutionError
from tests.execution.conftest import becomes

SECONDS = 600.0


def call(name: str, seconds: float = SECONDS, **arguments: Any) -> Any:
    return foreign_call.call(f"tests.execution.foreign:{name}", arguments, seconds)


def test_what_it_returns_comes_back_and_what_it_prints_does_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    answer = call("answers", a=[1, {"b": None}])
    assert answer["given"] == {"a": [1, {"b": None}]}
    assert not answer["terminal"]
    assert answer["session"] != os.getsid(0)
    assert answer["folder"] != str(Path.cwd())
    assert not Path(answer["folder"]).exists()
    assert capfd.readouterr() == ("", "")


def test_what_evopolicy_refuses_there_is_refused_here() -> None:
    with pytest.raises(ConfigError, match=r"^it is the wrong one$"):
        call("refuses")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("exits", "its process ended with exit code 3 while it was made"),
        ("exits_at_once", "its process ended with exit code 7 while it was made"),
        (
            "aborts",
            "its process ended with SIGABRT in step 2; it last wrote: the simulator gives up",
        ),
        (
            "raises",
            "its process ended with exit code 1 while it was made; it last wrote: RuntimeError: "
            "no simulator",
        ),
        ("answers_too_much", "it answered more than 1048576 bytes while it was started"),
        ("writes_what_is_no_answer", "it wrote b'hello' where its answer belongs"),
    ],
)
def test_an_end_without_an_answer_is_told_in_one_sentence(
    name: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_call, "LARGEST", 1 << 20)
    with pytest.raises(ExecutionError, match=f"^{re.escape(sentence)}$"):
        call(name)


def test_what_hangs_is_ended_and_the_phase_is_told(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match=re.escape("it did not return within 0.2 s in close")):
        call("hangs", 0.2, mark=str(tmp_path / "mark"))


def test_the_host_stays_where_it_is(tmp_path: Path) -> None:
    before = Path.cwd()
    assert call("moves", folder=str(tmp_path)) == str(tmp_path)
    assert Path.cwd() == before


def test_nothing_it_leaves_behind_goes_on() -> None:
    pid = call("leaves_a_child")
    assert becomes(lambda: not Path(f"/proc/{pid}").exists())
