"""Writing projections to MLflow: only what is not there yet, so that doing it twice changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from evopolicy.kernel.secrets import Masker
from evopolicy.tracking.files import Upload, stage
from evopolicy.tracking.metrics import Point
from evopolicy.tracking.project import Model, Projection, clean_key
from evopolicy.tracking.spans import Attempt
from evopolicy.tracking.store import Store, guarded, hold
from evopolicy.tracking.traces import log_trace

_P = ParamSpec("_P")
_T = TypeVar("_T")
_METRICS = 1_000
_PARAMS_AND_TAGS = 50
"""In one batch: MLflow takes 100, and a megabyte in all."""
_Row = tuple[str, int, int]
"""Key, step and milliseconds of a metric's value."""


class RunLog:
    """One MLflow run and what is known to be in it. After any error make a new one: what arrived is unknown then."""

    def __init__(self, store: Store, run: Any) -> None:
        self._store = store
        self.run_id = str(run.info.run_id)
        self._status = (str(run.info.status), run.info.end_time)
        self._tags: dict[str, str] = dict(run.data.tags)
        self._params: dict[str, str] = dict(run.data.params)
        self._keys = frozenset(run.data.metrics)
        self._rows: set[_Row] | None = None
        self._models: dict[str, str] | None = None
        self._uploaded: dict[str, tuple[int, bytes]] = {}
        self._traced: dict[int, int] = {}

    @property
    def status(self) -> str:
        return self._status[0]

    @property
    def tags(self) -> Mapping[str, str]:
        return self._tags

    @property
    def _client(self) -> Any:
        return self._store.client

    def _call(self, what: str, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return guarded(self._store.uri, what, call, *args, **kwargs)

    def consider_uploaded(self, uploads: Iterable[Upload]) -> None:
        """Take these artifacts for logged: whoever had this run before has said so."""
        self._uploaded.update((upload.target, (upload.version, upload.content)) for upload in uploads)

    def consider_traced(self, attempts: Iterable[Attempt]) -> None:
        """Likewise, these attempts."""
        self._traced.update((attempt.number, attempt.version) for attempt in attempts)

    def push(self, projection: Projection) -> None:
        """Bring the run up to `projection`. Raises TrackingError."""
        self._push_tags(projection)
        self._push_params(projection)
        models = self._push_models(projection) if projection.models else {}
        self._push_points(projection.points, models)
        self._push_uploads(projection)
        self._push_status(projection)
        self._push_traces(projection)

    def set_tag(self, key: str, value: str) -> None:
        if self._tags.get(key) != value:
            self._call("tagging a run", self._client.set_tag, self.run_id, key, value)
            self._tags[key] = value

    def drop_tag(self, key: str) -> None:
        if key in self._tags:
            self._call("untagging a run", self._client.delete_tag, self.run_id, key)
            del self._tags[key]

    def _push_tags(self, projection: Projection) -> None:
        from mlflow.entities import RunTag

        wanted = {**projection.tags, "mlflow.runName": projection.name}
        new = {key: value for key, value in wanted.items() if self._tags.get(key) != value}
        for batch in _batches(new.items(), _PARAMS_AND_TAGS):
            tags = [RunTag(key, value) for key, value in batch]
            self._call("tagging a run", self._client.log_batch, self.run_id, tags=tags)
        self._tags.update(new)

    def _push_params(self, projection: Projection) -> None:
        from mlflow.entities import Param

        new = {key: value for key, value in projection.params.items() if key not in self._params}
        for batch in _batches(new.items(), _PARAMS_AND_TAGS):
            params = [Param(key, value) for key, value in batch]
            self._call("logging params", self._client.log_batch, self.run_id, params=params)
        self._params.update(new)

    def _push_points(self, points: Sequence[Point], models: dict[str, str]) -> None:
        from mlflow.entities import Metric

        if self._rows is None:
            self._rows = self._known_rows()
        new = [point for point in points if _row(point) not in self._rows]
        for batch in _batches(new, _METRICS):
            metrics = [
                Metric(clean_metric(p.key), p.value, p.milliseconds, p.step, model_id=models.get(p.program))
                for p in batch
            ]
            self._call("logging metrics", self._client.log_batch, self.run_id, metrics=metrics)
            self._rows.update(_row(point) for point in batch)

    def _known_rows(self) -> set[_Row]:
        rows: set[_Row] = set()
        for key in self._keys:
            history = self._call("reading metrics", self._client.get_metric_history, self.run_id, key)
            rows.update((metric.key, metric.step, metric.timestamp) for metric in history)
        return rows

    def _push_uploads(self, projection: Projection) -> None:
        new = [u for u in projection.uploads if self._uploaded.get(u.target) != (u.version, u.content)]
        if new:
            self._call("logging artifacts", self._upload, new, projection.mask)
            self.consider_uploaded(new)

    def _upload(self, uploads: Sequence[Upload], mask: Masker) -> None:
        with tempfile.TemporaryDirectory(prefix="evopolicy-tracking-") as folder:
            stage(uploads, Path(folder), mask)
            self._client.log_artifacts(self.run_id, folder)

    def _push_status(self, projection: Projection) -> None:
        end = None if projection.ended is None else round(projection.ended * 1000)
        wanted = (projection.status, end)
        if wanted == self._status:
            return
        if projection.status == "RUNNING":
            self._call("updating a run", self._client.update_run, self.run_id, status="RUNNING")
        else:
            self._call("ending a run", self._client.set_terminated, self.run_id, projection.status, end)
        self._status = wanted

    def _push_traces(self, projection: Projection) -> None:
        """Last, so that one which the store refuses holds up nothing else of the run."""
        for attempt in projection.attempts:
            if self._traced.get(attempt.number) == attempt.version:
                continue
            trace = attempt.trace(projection.mask)
            if trace is not None:
                self._call("logging a trace", log_trace, self._store, self.run_id, trace)
            self.consider_traced([attempt])

    # --- LoggedModels --------------------------------------------------------------------------------------------

    def _push_models(self, projection: Projection) -> dict[str, str]:
        """Ids by Program digest; those that are missing are made, filled, bound to the run and finalized."""
        if self._models is None:
            self._models = self._call("looking up models", self._known_models)
        for model in projection.models:
            if model.program not in self._models:
                self._models[model.program] = self._call("logging a model", self._make, model, projection.mask)
        return self._models

    def _known_models(self) -> dict[str, str]:
        known: dict[str, str] = {}
        token: str | None = None
        while True:
            clause = f"source_run_id = '{self.run_id}'"
            page = self._client.search_logged_models([self._store.experiment_id], clause, page_token=token)
            for model in page:
                if str(model.status) == "READY":
                    known[str(model.tags["program"])] = str(model.model_id)
                else:
                    self._client.delete_logged_model(model.model_id)
            token = page.token
            if not token:
                return known

    def _make(self, model: Model, mask: Masker) -> str:
        from mlflow.entities import LoggedModelOutput, LoggedModelStatus

        made = self._client.create_logged_model(
            self._store.experiment_id,
            name=model.name,
            source_run_id=self.run_id,
            tags=dict(model.tags),
            model_type="Policy",
        )
        with tempfile.TemporaryDirectory(prefix="evopolicy-tracking-") as folder:
            stage(model.files, Path(folder), mask)
            if any(Path(folder).iterdir()):
                self._client.log_model_artifacts(made.model_id, folder)
        self._client.log_outputs(self.run_id, [LoggedModelOutput(made.model_id, step=model.step)])
        self._client.finalize_logged_model(made.model_id, LoggedModelStatus.READY)
        return str(made.model_id)


def open_run(store: Store, projection: Projection, *, parent: str = "", known: str = "") -> RunLog:
    """The MLflow run of `projection`: `known` where it still exists, else the one with its identity, else a new one.

    `parent` is the run it is made under; one that exists keeps the parent it has. Raises TrackingError.
    """
    run = guarded(store.uri, "looking up a run", _alive, store, known) if known else None
    if run is None:
        with hold(store.lock):
            run = guarded(store.uri, "looking up a run", _find, store, projection)
            run = run or guarded(store.uri, "creating a run", _create, store, projection, parent)
    return RunLog(store, run)


def _alive(store: Store, run_id: str) -> Any:
    """The run, or None where it is not in this store or was deleted."""
    from mlflow.exceptions import MlflowException

    try:
        run = store.client.get_run(run_id)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise
    alive = run.info.lifecycle_stage == "active" and run.info.experiment_id == store.experiment_id
    return run if alive else None


def _find(store: Store, projection: Projection) -> Any:
    clause = f"tags.identity = '{projection.identity}' and tags.kind = '{projection.tags['kind']}'"
    found = store.client.search_runs([store.experiment_id], clause, max_results=1)
    return found[0] if found else None


def _create(store: Store, projection: Projection, parent: str) -> Any:
    tags = {"kind": projection.tags["kind"], "identity": projection.identity, "mlflow.source.name": "evopolicy"}
    if parent:
        tags["mlflow.parentRunId"] = parent
    started = round(projection.started * 1000)
    return store.client.create_run(store.experiment_id, started, tags, projection.name)


def clean_metric(key: str) -> str:
    """`key` as MLflow takes a metric's name; its slashes group the charts."""
    return "/".join(clean_key(part) for part in key.split("/"))


def _row(point: Point) -> _Row:
    return clean_metric(point.key), point.step, point.milliseconds


def _batches(items: Iterable[_T], size: int) -> Iterable[list[_T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
