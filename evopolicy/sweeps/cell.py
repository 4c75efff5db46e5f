"""The process of one cell: `python -m evopolicy.sweeps.cell JOB.json LOCK`. It knows no Hydra.

LOCK is a descriptor of the command's `Ownership` of the Run's folder, which is held until this
process has ended."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.errors import EvoPolicyError
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.files.versioned import JOB_FORMAT
from evopolicy.kernel.secrecy.secrets import Masker
from evopolicy.kernel.session.record import Run

_MASK = Masker.of(os.environ)
"""Of what an error may say."""


@dataclass(frozen=True)
class Job:
    """What a cell's process is told."""

    config: Mapping[str, Any]
    """The resolved config, as RunConfig."""
    folder: str
    """The Run's folder."""
    entry: str
    benchmark: str
    seed: int
    workers: int | None
    outcome: str
    """File the outcome is written to."""
    overrides: tuple[str, ...] = ()
    """What made it a cell of its command."""
    schema: int = JOB_FORMAT.newest
    seal: str = ""
    """Of `config`, as `seal.seal`."""


@dataclass(frozen=True)
class CellOutcome:
    """How a cell's process ended, by its own word."""

    status: str
    """'finished', 'failed' or 'interrupted'."""
    error: str = ""
    """One sentence, unless it finished well."""
    valid: bool = False
    """The Run counts in tables."""
    score: float | None = None
    """Held-out mean of the selected Program."""
    standard_error: float | None = None


def main(argv: list[str]) -> int:
    from evopolicy.execution.sandbox.descendants import kill_descendants
    from evopolicy.sweeps.processes import end_with_parent

    job = msgspec.json.decode(Path(argv[1]).read_bytes(), type=Job)
    os.set_inheritable(int(argv[2]), False)  # what this process starts may outlive it
    # SIGINT too: a command that was started to ignore it (`nohup`, `&` in a script) ends its cells
    # by it all the same.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    end_with_parent()
    try:
        outcome = _attempt(job)
        write_durably(Path(job.outcome), msgspec.json.encode(outcome))
    finally:
        kill_descendants()
    return {"finished": 0, "interrupted": 130}.get(outcome.status, 1)


def _attempt(job: Job) -> CellOutcome:
    try:
        return _run(job)
    except KeyboardInterrupt:
        return CellOutcome("interrupted", "interrupted; the same command goes on with it")
    except MemoryError:
        return CellOutcome(
            "failed", "the Host ran out of memory; run fewer cells at once (launcher.cells)"
        )
    except EvoPolicyError as error:
        return _failed(str(error))
    except OSError as error:
        print(_MASK.text(traceback.format_exc()), file=sys.stderr)
        return _failed(f"{error.filename or 'the system'}: {error.strerror or error}")
    except Exception as error:
        print(_MASK.text(traceback.format_exc()), file=sys.stderr)
        return _failed(f"a fault inside evopolicy: {type(error).__name__}: {error}")


def _failed(error: str) -> CellOutcome:
    return CellOutcome("failed", _MASK.text(error))


def _run(job: Job) -> CellOutcome:
    from evopolicy import build
    from evopolicy.config import config_from
    from evopolicy.sweeps.live import LiveFile

    config = config_from(job.config)
    live = LiveFile(Path(job.folder), job.entry, job.benchmark, job.seed, config.budget.episodes)
    try:
        return outcome_of(build.run_cell(config, [live], job.workers, owned=Path(job.folder)))
    finally:
        live.remove()


def outcome_of(run: Run) -> CellOutcome:
    """The outcome of a Run that has ended."""
    measured = run.result.assessment
    error = (
        ""
        if run.valid
        else "the Run is left out of tables: "
        f"{run.state.explained(run.result.reasons) or 'it has not ended'}"
    )
    return CellOutcome(
        "finished" if run.valid else "failed",
        error,
        run.valid,
        measured.mean if measured else None,
        measured.standard_error if measured else None,
    )


def read_outcome(path: Path) -> CellOutcome | None:
    """What a cell's process left; None where it left nothing readable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=CellOutcome)
    except (OSError, msgspec.MsgspecError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv))
