"""A report among the artifacts of the MLflow run it is about."""

from __future__ import annotations

from evopolicy.kernel.errors import TrackingError
from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.secrecy.secrets import mask_uri
from evopolicy.kernel.session.record import RunRecord
from evopolicy.tracking.compare import sweep_identity
from evopolicy.tracking.files import Upload, stage
from evopolicy.tracking.masking import masker, named_variables
from evopolicy.tracking.project import identity, shown_config
from evopolicy.tracking.store import Store, guarded

REPORT = "report.html"


def upload_run_report(store: Store, record: RunRecord, html: str) -> str:
    """Log `html` as REPORT to the MLflow run of the Run's result, in place of an older one; returns
    the run's id.

    Raises TrackingError where the Run is not in the store yet, or the store does not take it.
    """
    return _upload(
        store, "cell", identity(record), html, tuple(named_variables(shown_config(record)))
    )


def upload_sweep_report(store: Store, sweep: str, html: str) -> str:
    """Likewise, to the MLflow run of the sweep of that name."""
    return _upload(store, "sweep", sweep_identity(sweep), html, ())


def _upload(store: Store, kind: str, name: str, html: str, variables: tuple[str, ...]) -> str:
    clause = f"tags.identity = '{name}' and tags.kind = '{kind}'"
    found = guarded(
        store.uri, "looking up a run", store.client.search_runs, [store.experiment_id], clause
    )
    if not found:
        what = "Run" if kind == "cell" else kind
        place = mask_uri(store.uri)
        raise TrackingError(
            f"tracking: the {what} is not in {place} yet; log it first: 'evopolicy track "
            "source=FOLDER'"
        )
    run_id = str(found[0].info.run_id)
    with HeldFolder("tracking") as folder:
        stage([Upload(REPORT, content=html.encode())], folder, masker(variables))
        guarded(store.uri, "logging the report", store.client.log_artifacts, run_id, str(folder))
    return run_id
