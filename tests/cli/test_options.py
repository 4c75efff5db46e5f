"""Words of a verb: yes and no, and lists."""

from __future__ import annotations

import pytest

from evopolicy.cli.options import listed, truth
from evopolicy.kernel.errors import ConfigError


def test_true_and_false_are_read_in_any_case() -> None:
    assert [truth("log", text) for text in ("true", "True", " FALSE ")] == [True, True, False]
    with pytest.raises(ConfigError, match="log: true or false is needed, found 'yes'"):
        truth("log", "yes")


def test_a_list_has_no_spaces_and_nothing_empty() -> None:
    assert listed(" isolation, pool,,") == ["isolation", "pool"]
    assert listed("") == []
