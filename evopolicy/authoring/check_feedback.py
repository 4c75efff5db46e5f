"""The part of `check_benchmark` about scores and Feedback: in bounds, complete, and without a
hidden seed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evopolicy.authoring.replay import rollout
from evopolicy.kernel.errors import BenchmarkError
from evopolicy.kernel.ports.benchmark import Artifact, Benchmark, EpisodeSpec
from evopolicy.kernel.ports.evaluation import grade
from evopolicy.kernel.ports.feedback import check_artifacts
from evopolicy.kernel.ports.outcome import EpisodeResult, Fault, Outcome, PolicyFailure
from evopolicy.kernel.trace import read_trace
from evopolicy.kernel.values import public

MEDIA_TYPES = (
    "text/csv",
    "application/json",
    "image/gif",
    "image/png",
    "application/x-npz",
    "text/plain",
)


def check_feedback(
    benchmark: Benchmark, episodes: Sequence[EpisodeSpec], folder: Path, steps: int, render: bool
) -> Iterator[str]:
    """Findings on whole Episodes of random Actions, on what is made of them, and on what is made of
    failed ones."""
    results = []
    for episode in episodes:
        result = _play(benchmark, episode, folder / f"{episode.index}.trace", steps)
        results.append(result)
        yield from _check_outcome(benchmark, result, steps)
        yield from _check_rows(episode, result)
    outcomes = [r.outcome for r in results if r.outcome is not None]
    yield from _check_summary(benchmark, outcomes, episodes)
    place = folder / "feedback"
    place.mkdir()
    artifacts = list(benchmark.artifacts(results, place))
    yield from _check_artifacts(artifacts, place, episodes)
    yield from _check_failed(benchmark, results, folder)
    yield from _check_pictures(benchmark, episodes, results, folder, render)


def _play(benchmark: Benchmark, episode: EpisodeSpec, trace: Path, steps: int) -> EpisodeResult:
    rng = np.random.default_rng(episode.index)
    space = benchmark.spec.action_space
    outcome = rollout(benchmark, episode, lambda _: space.sample(rng), trace=trace, steps=steps)
    return EpisodeResult(episode.index, outcome, trace=trace)


def _check_outcome(benchmark: Benchmark, result: EpisodeResult, steps: int) -> Iterator[str]:
    outcome, spec = result.outcome, benchmark.spec
    if outcome is None:
        return
    score = benchmark.score(outcome)
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        yield f"the score {score!r} is not a finite number"
    elif outcome.length < steps and score < spec.failure_score:
        yield (
            f"a finished Episode scores {score:g}, below failure_score {spec.failure_score:g}: "
            "failing would pay"
        )
    if outcome.length > spec.max_steps:
        yield f"an Episode of {outcome.length} steps goes on past max_steps {spec.max_steps}"
    public(dict(outcome.measures), "measures")
    declared, found = {field.name for field in spec.measures}, set(outcome.measures)
    if declared != found:
        yield (
            f"measures: declared {sorted(declared - found)} are missing, "
            f"{sorted(found - declared)} are not declared"
        )


def _check_rows(episode: EpisodeSpec, result: EpisodeResult) -> Iterator[str]:
    """What the agent reads of every step holds public numbers and no seed."""
    if result.trace is None:
        return
    seeds = _secrets(episode)
    for row in read_trace(result.trace):
        for name, value in row.info.items():
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not math.isfinite(value)
            ):
                yield (
                    f"step {row.step}: the info column '{name}' is {value!r}, it must be a "
                    "finite number"
                )
                return
        if seeds & _values(row.observation):
            yield f"step {row.step}: the observation holds a hidden seed"
            return
        if seeds & _values(row.info):
            yield f"step {row.step}: the info columns hold a hidden seed"
            return
    if result.outcome is not None and seeds & _values(result.outcome.measures):
        yield "the measures hold a hidden seed"


def _check_summary(
    benchmark: Benchmark, outcomes: Sequence[Outcome], episodes: Sequence[EpisodeSpec]
) -> Iterator[str]:
    summary = public(dict(benchmark.summarize(outcomes)), "summary")
    for episode in episodes:
        if _secrets(episode) & _values(summary) or any(
            t in repr(summary).encode() for t in _spellings(episode)
        ):
            yield "the summary holds a hidden seed"
            return


def _check_artifacts(
    artifacts: Sequence[Artifact], place: Path, episodes: Sequence[EpisodeSpec]
) -> Iterator[str]:
    try:
        check_artifacts(artifacts, {episode.index for episode in episodes})
    except BenchmarkError as error:
        yield str(error)  # what a Session would refuse
        return
    names: set[str] = set()
    for artifact in artifacts:
        name = artifact.name
        if name.casefold() in names:
            yield f"two artifacts are called '{name}'"
        names.add(name.casefold())
        if artifact.media_type not in MEDIA_TYPES:
            yield (
                f"'{name}' has the media type {artifact.media_type!r}; known are "
                f"{', '.join(MEDIA_TYPES)}"
            )
        if place.resolve() not in artifact.path.resolve().parents:
            yield f"'{name}' is not a file in the folder it was to be written to"
            continue
        content = _content(artifact.path)
        if artifact.media_type == "text/csv" and (doubled := _doubled_columns(content)):
            yield f"'{name}' has two columns of one name: {', '.join(doubled)}"
        if any(text in content for episode in episodes for text in _spellings(episode)):
            yield f"'{name}' holds a hidden seed"


def _doubled_columns(table: bytes) -> list[str]:
    header = table.partition(b"\n")[0].decode("utf-8", "replace").strip().split(",")
    return sorted({name for name in header if header.count(name) > 1})


def _check_failed(
    benchmark: Benchmark, results: Sequence[EpisodeResult], folder: Path
) -> Iterator[str]:
    """Feedback is made of failed and faulty Episodes too."""
    failure = PolicyFailure("exception", "ValueError: told by check_benchmark", step=0)
    faulty = EpisodeResult(results[0].index, fault=Fault("environment", "told by check_benchmark"))
    cases: dict[str, list[EpisodeResult]] = {
        "no Episode": [],
        "a faulty Episode": [faulty],
        "failed Episodes": [
            replace(
                r,
                outcome=replace(
                    r.outcome, ending="failed", failure=failure, length=0, episode_return=0.0
                ),
            )
            for r in results
            if r.outcome is not None
        ],
    }
    for number, (name, case) in enumerate(cases.items()):
        place = folder / f"failed{number}"
        place.mkdir()
        try:
            public(
                dict(benchmark.summarize([r.outcome for r in case if r.outcome is not None])),
                "summary",
            )
            benchmark.artifacts(case, place)
            benchmark.pictured(case)
            for result in case:
                if result.outcome is not None:
                    grade(benchmark, result.outcome)
        except Exception as error:
            yield f"of {name} none can be made: {type(error).__name__}: {error}"


def _check_pictures(
    benchmark: Benchmark,
    episodes: Sequence[EpisodeSpec],
    results: Sequence[EpisodeResult],
    folder: Path,
    render: bool,
) -> Iterator[str]:
    pictured = list(benchmark.pictured(results))
    known = {r.index for r in results}
    if not set(pictured) <= known or len(pictured) != len(set(pictured)):
        yield f"pictured names {pictured}, of the Episodes {sorted(known)}"
        return
    if not render or not pictured:
        return
    place = folder / "pictures"
    place.mkdir()
    episode = next(e for e in episodes if e.index == pictured[0])
    trace = next(r.trace for r in results if r.index == pictured[0])
    corrupt = folder / "corrupt.trace"
    corrupt.write_bytes(b"\x07\x00\x00\x00no")
    for kind, path in (("a trace", trace), ("a corrupt trace", corrupt)):
        try:
            drawn = [] if path is None else list(benchmark.render(episode, path, place))
        except Exception as error:
            yield (
                f"render raises on {kind}, it must give nothing instead: "
                f"{type(error).__name__}: {error}"
            )
            continue
        yield from _check_artifacts(drawn, place, episodes)


# --- secrets --------------------------------------------------------------------------------------


def _secrets(episode: EpisodeSpec) -> frozenset[float]:
    """The seeds as numbers, also as a float would hold them."""
    return frozenset(f(seed) for seed in (episode.seed, episode.policy_seed) for f in (int, float))


def _values(value: Any) -> set[float]:
    if isinstance(value, Mapping):
        return {x for item in value.values() for x in _values(item)}
    if isinstance(value, list | tuple):
        return {x for item in value for x in _values(item)}
    if isinstance(value, np.ndarray):
        return set(value.ravel().tolist()) if value.size <= 4_096 else set()
    return {value} if isinstance(value, int | float) else set()


def _spellings(episode: EpisodeSpec) -> list[bytes]:
    """A seed in decimal, hexadecimal and as eight bytes."""
    texts = []
    for seed in (episode.seed, episode.policy_seed):
        texts += [str(seed).encode(), f"{seed:x}".encode(), f"{seed:X}".encode()]
        texts += [seed.to_bytes(8, "little"), seed.to_bytes(8, "big")]
    return texts


def _content(path: Path) -> bytes:
    """The bytes of a file; those inside it, where it is an archive."""
    if path.suffix == ".npz" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return b"".join(archive.read(name) for name in archive.namelist())
    return path.read_bytes()
