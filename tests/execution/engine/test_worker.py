"""Worker: how many zygotes it makes anew before it gives up."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from evopolicy.execution.engine import worker
from evopolicy.execution.engine.control import Link
from evopolicy.execution.policy.handles import ZygoteLost
from evopolicy.kernel.ports.outcome import EpisodeResult, Outcome
from tests.execution import toys
from tests.execution.conftest import LIMITS

PROGRAM: Any = "a Program"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A function that makes a worker whose next zygotes end, so many of them."""
    ends = [0]
    pairs = []

    class Short:
        def fork_server(self, program: Any) -> Any:
            if ends[0]:
                ends[0] -= 1
                raise ZygoteLost("it ended")
            return program

        def close(self) -> None:
            pass

    monkeypatch.setattr(worker, "start_zygote", lambda *_: Short())

    def make() -> tuple[worker.Worker, list[int]]:
        pairs.append(socket.socketpair())
        config: Any = SimpleNamespace(limits=LIMITS)
        made = worker.Worker(Link(pairs[-1][0]), config, toys.load(), None)
        made._watch(pairs[-1][0].fileno(), lambda _event: None)
        return made, ends

    yield make
    for pair in pairs:
        for end in pair:
            end.close()


def end_of_an_episode(serving: worker.Worker, result: EpisodeResult | None) -> None:
    with socket.socket() as sock:
        lane = Mock(job=1)
        lane.process.wire.sock = sock
        serving.done(lane, result, "lost")


def test_zygotes_that_end_one_after_the_other_are_given_up_and_an_episode_played_begins_the_count_anew(
    served: Callable[..., Any],
) -> None:
    serving, ends = served()
    for _ in range(3):
        ends[0] = 2
        assert serving._new_fork_server(PROGRAM) is PROGRAM
        end_of_an_episode(serving, EpisodeResult(0, Outcome(0, 1.0, 1, "terminated")))
    ends[0] = 2
    assert serving._new_fork_server(PROGRAM) is PROGRAM
    end_of_an_episode(serving, None)
    ends[0] = 1
    with pytest.raises(ZygoteLost):
        serving._new_fork_server(PROGRAM)
