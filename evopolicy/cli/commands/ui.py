"""`evopolicy ui`: MLflow opened on the result."""

from __future__ import annotations

from collections.abc import Sequence

from evopolicy.cli.options import output_of, pairs, sweep_of
from evopolicy.cli.store import known_store, tracking_of
from evopolicy.kernel.files.seal import is_ours


def ui(words: Sequence[str]) -> int:
    """`sweep=NAME` of `output=`, in the store it was logged to; without: the latest, or a single
    Run begun after it."""
    from evopolicy.tracking.ui import find_single, find_sweep, run_ui

    options = pairs("ui", words)
    output = output_of(options)
    name = options.get("sweep", "")
    if name:
        sweep_of(output, name)
    sweep = find_sweep(output, name)
    single = None if name else find_single(output, sweep)
    if single is not None:
        config, seal = single.record.config, single.record.seal
        known = config.get("tracking", {}) if is_ours(config, seal) else {}
    else:
        known = known_store(sweep, options) if sweep else {}
    run_ui(output, tracking_of(options, known), name)
    return 0
