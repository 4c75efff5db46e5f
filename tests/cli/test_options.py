"""Words of a verb: yes and no, and lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evopolicy.cli.options import listed, output_above, pairs, truth, unquoted
from evopolicy.kernel.errors import ConfigError


def test_true_and_false_are_read_in_any_case() -> None:
    assert [truth("log", text) for text in ("true", "True", " FALSE ")] == [True, True, False]
    with pytest.raises(ConfigError, match="log: true or false is needed, found 'yes'"):
        truth("log", "yes")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("'a b'", "a b"),
        ('"it\'s, so"', "it's, so"),
        (r"'it\'s'", "it's"),
        ("''", ""),
        ("plain", "plain"),
        ("'", "'"),
        ("'a','b'", "'a','b'"),
        ("'a", "'a"),
        ("", ""),
    ],
)
def test_a_value_may_have_the_quotes_that_overrides_have(typed: str, meant: str) -> None:
    assert unquoted(typed) == meant
    assert pairs("status", [f"output={typed}"]) == {"output": meant}


def test_a_list_has_no_spaces_and_nothing_empty() -> None:
    assert listed(" isolation, pool,,") == ["isolation", "pool"]
    assert listed("") == []


def test_the_output_of_a_run_is_above_it_however_its_path_is_written(
    records: Any, tmp_path: Path
) -> None:
    folder = records.write_run(tmp_path / "a%20b?")
    sibling = folder / ".." / ".." / "cma_es" / folder.name
    assert output_above(folder) == output_above(sibling) == tmp_path / "a%20b?"
