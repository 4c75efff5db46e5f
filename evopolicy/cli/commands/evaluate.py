"""`evopolicy evaluate`: measures a Program without an agent, isolated and in parallel, and records
nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from evopolicy import build
from evopolicy.cli.hydra import compose
from evopolicy.cli.options import unquoted
from evopolicy.config import config_from
from evopolicy.kernel.errors import ConfigError, ProgramError
from evopolicy.kernel.ports.benchmark import Split
from evopolicy.kernel.ports.evaluation import Evaluation
from evopolicy.kernel.ports.outcome import Graded, failure_counts
from evopolicy.kernel.ports.pool import SPLITS
from evopolicy.kernel.session.selection import Measurement
from evopolicy.kernel.shown import clean
from evopolicy.present.numbers import plural
from evopolicy.sweeps.text import number

_OWN = ("program", "split", "episodes")
_SHOWN_FAILURES = 3


def evaluate(words: Sequence[str]) -> int:
    """`program=DIR benchmark=NAME`, `split=` (training), `episodes=` (all of it), and any config
    override."""
    own = {
        key: unquoted(value)
        for key, sign, value in (word.partition("=") for word in words)
        if sign and key in _OWN
    }
    rest = [word for word in words if word.partition("=")[0] not in _OWN]
    if "program" not in own:
        raise ConfigError("evaluate: name the folder that has policy.py in it, program=DIR")
    program = Path(own["program"])
    if not program.is_dir():
        raise ConfigError(
            f"program: there is no folder '{program}'; name the folder that has policy.py in it"
        )
    split = own.get("split", "training")
    if "episodes" in own and split in SPLITS:
        rest.append(f"pool.{split}={own['episodes']}")
    # No agent takes part; one has to be named all the same.
    config = compose.plain(compose.compose_one(["agent=baseline", *rest]))
    run = config_from(
        {key: value for key, value in config.items() if key not in ("sweep", "dry_run", "launcher")}
    )
    try:
        evaluation, measurement = build.measure_program(run, program, cast(Split, split))
    except ProgramError as error:
        raise ConfigError(f"program: '{program}' is refused: {error}") from None
    _print(program, str(run.benchmark["name"]), split, evaluation, measurement)
    # A Program that fails wherever it is tried is a mistake to mend, not a score to note.
    return 1 if measurement.failed == measurement.episodes else 0


def _print(
    program: Path, benchmark: str, split: str, evaluation: Evaluation, measurement: Measurement
) -> None:
    error = "" if measurement.standard_error is None else f" ± {number(measurement.standard_error)}"
    print(
        f"{clean(str(program))} on {benchmark}, {plural(measurement.episodes, 'Episode')} of "
        f"{split}"
    )
    print(f"  score     {number(measurement.mean)}{error}")
    scores = sorted(graded.score for graded in evaluation.graded)
    print(f"  worst     {number(scores[0])}")
    print(f"  median    {number(scores[len(scores) // 2])}")
    print(f"  best      {number(scores[-1])}")
    if measurement.failed:
        kinds = ", ".join(
            f"{count} {kind}" for kind, count in failure_counts(evaluation.outcomes).items()
        )
        print(
            f"  failed    {measurement.failed} of {plural(measurement.episodes, 'Episode')}: "
            f"{kinds}"
        )
        for graded in [g for g in evaluation.graded if g.outcome.failure][:_SHOWN_FAILURES]:
            print(f"    {_failure(graded)}")


def _failure(graded: Graded) -> str:
    failure = graded.outcome.failure
    step = "" if failure is None or failure.step is None else f" at step {failure.step}"
    if not failure:
        return ""
    # The frame it was raised in, with its file and line, is the last but one or two lines of a
    # traceback.
    frames = [
        line.strip() for line in failure.traceback.splitlines() if line.strip().startswith("File ")
    ]
    place = f" ({clean(frames[-1], 120)})" if frames else ""
    return f"Episode {graded.outcome.index}{step}: {clean(failure.message, 200)}{place}"
