"""What tries to do harm, and who it could be done to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from evopolicy.kernel.ports.protocols import Isolation
from tests.execution.conftest import LEVELS
from tests.execution.hostile.innocents import Innocents

GROUPED = [
    pytest.param(level, marks=pytest.mark.xdist_group(f"hostile-{level}")) for level in LEVELS
]
"""All tests of a level in one process, which has one Host of innocents."""


@pytest.fixture(params=GROUPED)
def level(request: pytest.FixtureRequest) -> Isolation:
    """Every isolation level that works here, one test each."""
    found: Isolation = request.param
    return found


@pytest.fixture(scope="session")
def innocents(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Isolation], Innocents]]:
    """The innocents of a level: their Host is started for the first test that asks, and asked once
    more at the end."""
    found: dict[Isolation, Innocents] = {}

    def at(level: Isolation) -> Innocents:
        if level not in found:
            found[level] = stack.enter_context(
                closing(Innocents(tmp_path_factory.mktemp(f"innocents-{level}"), level))
            )
        return found[level]

    with ExitStack() as stack:
        yield at
