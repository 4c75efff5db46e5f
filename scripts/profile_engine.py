"""Shows where the engine's time goes, part by part, so that the next cost is seen. Numbers for a
quiet machine.

    python scripts/profile_engine.py [--isolation LEVEL] [--json]

The parts of a step and of an Episode are measured alone, warm; what the engine takes beyond their
sum is Python between them and memory that went cold while another process ran."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import statistics
import threading
import time
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import measure_engine as measure  # type: ignore[import-not-found]  # beside this file
import numpy as np

from evopolicy.execution.wire import codec

_SENT, _ANSWERED = 170, 60


@dataclass(frozen=True)
class Part:
    of: str
    name: str
    micros: float


def _alone(function: Callable[[], Any], count: int = 5_000) -> float:
    return min(timeit.repeat(function, number=count, repeat=5)) / count * 1e6


def hand_over(count: int = 5_000) -> float:
    """Microseconds of a question and its answer between two bare processes on one core: four calls,
    two switches."""
    ours, theirs = socket.socketpair()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    pid = os.fork()
    if pid == 0:
        ours.close()
        buffer = bytearray(4096)
        while os.readv(theirs.fileno(), (buffer,)):
            os.write(theirs.fileno(), bytes(_ANSWERED))
        os._exit(0)
    theirs.close()
    question, buffer = bytes(_SENT), bytearray(4096)

    def turn() -> None:
        ours.send(question)
        ours.recv_into(buffer)

    micros = _alone(turn, count)
    ours.close()
    os.waitpid(pid, 0)
    os.sched_setaffinity(0, cores)
    return micros


def of_a_step() -> list[Part]:
    benchmark = measure.null(1)
    observe, decode = (make(benchmark.spec.observation_space) for make in _CODECS)
    body = memoryview(observe(benchmark.observation)[0])
    action = np.zeros(6, np.float32)
    encoded = codec.encode_action(action, 1 << 16)
    read = codec.action_reader(benchmark.spec.action_space, clip=False)
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return [
        Part("step", "kernel: a question and its answer between two processes", hand_over()),
        Part(
            "step", "worker: encode the observation", _alone(lambda: observe(benchmark.observation))
        ),
        Part("step", "Policy: decode the observation", _alone(lambda: decode(body))),
        Part(
            "step",
            "Policy: encode the Action",
            _alone(lambda: codec.encode_action(action, 1 << 16)),
        ),
        Part("step", "worker: decode and check the Action", _alone(lambda: read(encoded))),
        Part(
            "step", "worker: read the Policy's CPU clock", _alone(lambda: time.clock_gettime(clock))
        ),
    ]


_CODECS: tuple[Callable[[Any], Any], ...] = (codec.observation_encoder, codec.observation_decoder)


def of_an_episode(count: int = 100) -> list[Part]:
    """A fork of a process of this size that ends at once."""
    fork = ctypes.PyDLL(None).fork

    def once() -> float:
        began = time.perf_counter()
        pid = fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return (time.perf_counter() - began) * 1e6

    return [
        Part("Episode", "kernel: fork and end", statistics.median(once() for _ in range(count)))
    ]


def whole(level: str) -> list[Part]:
    """What the engine takes, by the rows of `measure_engine.py`."""
    step = measure.step_cost(level, 5, 2_000, frame=False, lanes=1, reach=25.0)
    lanes = measure.step_cost(level, 5, 2_000, frame=False, lanes=4, reach=25.0)
    episode = measure.fixed_cost(level, 5, 50)
    return [
        Part("step", "engine, one lane: all of it", step.value),
        Part("step", "engine, four lanes: all of it", lanes.value),
        Part("Episode", "engine: all of it", episode.value * 1e3),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--isolation", default="auto")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    parts = [*of_a_step(), *of_an_episode(), *whole(arguments.isolation)]
    if arguments.json:
        print(json.dumps([asdict(part) for part in parts], indent=2))
        return
    for of in ("step", "Episode"):
        print(f"of {'a step' if of == 'step' else 'an Episode'}, microseconds")
        for part in parts:
            if part.of == of:
                print(f"  {part.name:62} {part.micros:9.1f}")


if __name__ == "__main__":
    main()
