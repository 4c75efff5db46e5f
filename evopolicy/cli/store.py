"""Which of MLflow's stores a verb means: the one its options name, else the one a sweep was logged
to."""

from __future__ import annotations

from collections.abc import Mapping

from evopolicy.cli.options import TRACKING
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.files.seal import is_ours
from evopolicy.kernel.run.sweep import Sweep
from evopolicy.kernel.shown import clean
from evopolicy.tracking.store import Tracking, unused_variable


def known_store(sweep: Sweep, options: Mapping[str, str]) -> Mapping[str, str]:
    """Where `sweep` was logged. Raises ConfigError where somebody else names the store, and the
    command does not."""
    if (
        sweep.tracking.get("uri")
        and "tracking.uri" not in options
        and not is_ours(sweep.tracking, sweep.seal)
    ):
        raise ConfigError(
            f"tracking.uri: the sweep '{clean(sweep.name, 80)}' was not made by you on this "
            "machine and names a store of its own; say which store is meant: tracking.uri=URI, "
            "or tracking.uri= for the output folder's own"
        )
    return sweep.tracking


def tracking_of(options: Mapping[str, str], known: Mapping[str, str]) -> Tracking:
    """What the options say, else what the sweep was logged with."""
    named = {key.partition(".")[2]: value for key, value in options.items() if key in TRACKING}
    found = Tracking.from_mapping({**known, **named})
    if "uri" not in named and (note := unused_variable(found.uri)):
        print(note)
    return found
