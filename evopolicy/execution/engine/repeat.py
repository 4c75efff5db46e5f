"""Whether the Actions of an Episode are why its Environment raised: given to a fresh one, they make
it raise again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from evopolicy.kernel.errors import HOST_ERRNOS, EvoPolicyError
from evopolicy.kernel.ports.benchmark import Environment


class Reading(Protocol):
    """What it needs of `lane.Play`."""

    @property
    def read(self) -> Callable[[bytes], tuple[Any, bool]]: ...

    @property
    def watch(self) -> Any: ...


def may_be_actions(error: BaseException) -> bool:
    """Not what EvoPolicy says of an Environment (a reward that is no number), nor what the machine
    has run out of."""
    machine = isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in HOST_ERRNOS
    )
    return not (machine or isinstance(error, EvoPolicyError))


def raises_again(
    kind: type[BaseException],
    make: Callable[[], Environment],
    actions: Sequence[bytes],
    play: Reading,
    watched: Callable[[], contextlib.AbstractContextManager[None]],
) -> bool:
    """Whether `actions`, as the Policy sent them, make a fresh Environment of the same seed raise
    `kind` at the last.

    `watched` is around every call of the Environment, so that one that hangs is ended.
    """
    environment: Environment | None = None
    try:
        with watched():
            environment = make()
            environment.reset()
        for number, body in enumerate(actions, 1):
            play.watch[2] = time.monotonic()  # it is at work, however many steps these are
            action, _ = play.read(body)
            try:
                with watched():
                    environment.step(action)
            except BaseException as error:
                return number == len(actions) and type(error) is kind
        return False
    except BaseException:
        return False
    finally:
        with contextlib.suppress(BaseException), watched():
            if environment is not None:
                environment.close()
