"""Writing projections to MLflow: only what is not there yet, so that doing it twice changes
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.secrecy.secrets import MASK, Masker
from evopolicy.tracking.files import Upload, stage
from evopolicy.tracking.metrics import HELDOUT, Point
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
LINES = "journal_lines"
"""Tag of a cell: how many lines of its journal its MLflow run holds whole."""
ARTIFACTS = "tracked_artifacts"
"""Tag of a cell: which artifacts were logged up to there, as `Tracking.artifacts`."""
FILES = "tracked_files"
"""Tag of a cell: which kinds of files were logged."""
PARENT = "mlflow.parentRunId"
_REPLACED = "replaced"
"""Tag of a run in whose place another was made; it is deleted next."""
_OWN_METRICS = (
    *("submission/", "validation/", "heldout/", "time/", "usage/", "session/", "cells/"),
    *("rank_score", "wins", "top2", "failures", "policy_failures"),
)
"""What our metrics' names begin with, but for those that begin with a Benchmark's."""
_OWN_TAGS = ("version.",)


class RunLog:
    """One MLflow run and what is known to be in it. After any error make a new one: what arrived is
    unknown then."""

    def __init__(self, store: Store, run: Any) -> None:
        self._store = store
        self._run = run
        self.run_id = str(run.info.run_id)
        self.deleted = str(run.info.lifecycle_stage) != "active"
        """Somebody deleted it in the UI: it is left alone."""
        self._status = (str(run.info.status), run.info.end_time)
        self._tags: dict[str, str] = dict(run.data.tags)
        self._params: dict[str, str] = dict(run.data.params)
        self._keys = frozenset(run.data.metrics)
        self._rows: dict[_Row, float] | None = None
        self._models: dict[str, str] | None = None
        self._uploaded: dict[str, tuple[int, bytes]] = {}
        self._traced: dict[int, int] = {}
        self.left_out: list[str] = []
        """Files that are not logged, and why, a sentence each."""

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
        self._uploaded.update(
            (upload.target, (upload.version, upload.content)) for upload in uploads
        )

    def consider_traced(self, attempts: Iterable[Attempt]) -> None:
        """Likewise, these attempts."""
        self._traced.update((attempt.number, attempt.version) for attempt in attempts)

    def push(self, projection: Projection, *, facts_only: bool = False) -> None:
        """Bring the run up to `projection`. Raises TrackingError.

        `facts_only`: its tags, params and status, where all that grows is there already.
        """
        self._push_tags(projection)
        self._push_params(projection)
        if not facts_only:
            models = self._push_models(projection) if projection.models else {}
            self._push_points(projection, models)
            self._push_uploads(projection)
        self._push_status(projection)
        if not facts_only:
            self._push_traces(projection)

    def contradicts(self, projection: Projection, *, metrics: bool) -> bool:
        """Whether the run says what `projection` does not and MLflow never takes back: a param, or
        a metric if asked.

        A masked value is as good as any: who logs in another environment may know fewer secrets.
        """
        groups = {name.partition(".")[0] for name in projection.params}
        for key, value in self._params.items():
            if (
                key.partition(".")[0] in groups
                and projection.params.get(key) != value
                and MASK not in value
            ):
                return True
        if not metrics:
            return False
        if projection.present:
            keys = {clean_metric(point.key) for point in projection.points}
            return any(_is_own(key) and key not in keys for key in self._keys)
        rows = {_row(point) for point in projection.points}
        return any(_is_own(row[0]) and row not in rows for row in self._known())

    def replaced(self, projection: Projection) -> RunLog:
        """A new run in the place of this one, with its parent and the tags others gave it; this one
        is deleted.

        Killed in between, `open_run` goes on with it.
        """
        self.set_tag(_REPLACED, "true")
        self._call("deleting a run", _delete, self._store, self._run)
        progress = (LINES, ARTIFACTS, FILES, _REPLACED)
        tags = {key: value for key, value in self._tags.items() if key not in progress}
        return RunLog(
            self._store, self._call("creating a run", _create, self._store, projection, tags)
        )

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
        self._push("tagging a run", tags=[RunTag(key, value) for key, value in new.items()])
        self._tags.update(new)
        for key in [*self._tags]:
            if key in projection.absent or (key.startswith(_OWN_TAGS) and key not in wanted):
                self.drop_tag(key)

    def _push_params(self, projection: Projection) -> None:
        from mlflow.entities import Param

        new = {key: value for key, value in projection.params.items() if key not in self._params}
        self._push("logging params", params=[Param(key, value) for key, value in new.items()])
        self._params.update(new)

    def _push(self, what: str, **entities: Sequence[object]) -> None:
        """Tags or params, as many at once as a request takes."""
        ((kind, whole),) = entities.items()
        for batch in _batches(whole, _PARAMS_AND_TAGS):
            self._call(what, self._client.log_batch, self.run_id, **{kind: batch})

    def _push_points(self, projection: Projection, models: dict[str, str]) -> None:
        from mlflow.entities import Metric

        rows = self._known()
        points = _news(projection.points, rows) if projection.present else projection.points
        new = [point for point in points if _row(point) not in rows]
        for batch in _batches(new, _METRICS):
            metrics = [
                Metric(
                    clean_metric(p.key),
                    p.value,
                    p.milliseconds,
                    p.step,
                    model_id=models.get(p.program),
                )
                for p in batch
            ]
            self._call("logging metrics", self._client.log_batch, self.run_id, metrics=metrics)
            rows.update((_row(point), point.value) for point in batch)

    def _known(self) -> dict[_Row, float]:
        """The metrics' values that are there."""
        if self._rows is None:
            rows: dict[_Row, float] = {}
            for key in self._keys:
                history = self._call(
                    "reading metrics", self._client.get_metric_history, self.run_id, key
                )
                rows.update(
                    {
                        (metric.key, metric.step, metric.timestamp): metric.value
                        for metric in history
                    }
                )
            self._rows = rows
        return self._rows

    def _push_uploads(self, projection: Projection) -> None:
        new = [
            u for u in projection.uploads if self._uploaded.get(u.target) != (u.version, u.content)
        ]
        if new:
            self._call("logging artifacts", self._upload, new, projection.mask)
            self.consider_uploaded(new)

    def _upload(self, uploads: Sequence[Upload], mask: Masker) -> None:
        with HeldFolder("tracking") as folder:
            self.left_out += stage(uploads, folder, mask)
            self._client.log_artifacts(self.run_id, str(folder))

    def _push_status(self, projection: Projection) -> None:
        end = None if projection.ended is None else round(projection.ended * 1000)
        wanted = (projection.status, end)
        if wanted == self._status:
            return
        if projection.status == "RUNNING":
            self._call("updating a run", self._client.update_run, self.run_id, status="RUNNING")
        else:
            self._call(
                "ending a run", self._client.set_terminated, self.run_id, projection.status, end
            )
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

    # --- LoggedModels -----------------------------------------------------------------------------

    def _push_models(self, projection: Projection) -> dict[str, str]:
        """Ids by Program digest; those that are missing are made, filled, bound to the run and
        finalized."""
        if self._models is None or any(
            model.program not in self._models for model in projection.models
        ):
            with hold(self._store.lock):  # another tracker may be making the same
                self._models = self._call("looking up models", self._known_models)
                for model in projection.models:
                    if model.program not in self._models:
                        self._models[model.program] = self._call(
                            "logging a model", self._make, model, projection.mask
                        )
        return self._models

    def _known_models(self) -> dict[str, str]:
        """The models that are whole; what a killed tracker left of others is deleted."""
        known: dict[str, str] = {}
        for model in _models_of(self._store, self.run_id):
            program = str(model.tags.get("program", ""))
            if str(model.status) == "READY" and program not in known:
                known[program] = str(model.model_id)
            else:
                self._client.delete_logged_model(model.model_id)
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
        with HeldFolder("tracking") as folder:
            self.left_out += stage(model.files, folder, mask)
            if any(folder.iterdir()):
                self._client.log_model_artifacts(made.model_id, str(folder))
        self._client.log_outputs(self.run_id, [LoggedModelOutput(made.model_id, step=model.step)])
        self._client.finalize_logged_model(made.model_id, LoggedModelStatus.READY)
        return str(made.model_id)


def open_run(
    store: Store, projection: Projection, *, parent: str = "", known: str = "", revive: bool = False
) -> RunLog:
    """The MLflow run of `projection`: the one with its identity, or a new one under the run
    `parent`.

    `known` is tried first. One that somebody deleted is given back as `deleted`, or brought back
    where `revive` says so. Raises TrackingError."""
    run = (
        guarded(store.uri, "looking up a run", _alive, store, known, projection.identity)
        if known
        else None
    )
    if run is None:
        with hold(store.lock):
            run = guarded(store.uri, "looking up a run", _find, store, projection, revive)
            tags = {PARENT: parent} if parent else {}
            run = run or guarded(store.uri, "creating a run", _create, store, projection, tags)
    return RunLog(store, run)


def find_run(store: Store, identity: str, kind: str) -> str:
    """The id of the run with this identity, '' where there is none; it may be deleted. Raises
    TrackingError."""
    found = guarded(store.uri, "looking up a run", _search, store, identity, kind)
    return str(found[0].info.run_id) if found else ""


def tagged_runs(store: Store, tag: str) -> list[Any]:
    """Every run, not deleted, that has `tag` as 'true'. Raises TrackingError."""
    found: list[Any] = []
    token: str | None = None
    while True:
        clause = f"tags.`{tag}` = 'true'"
        search = store.client.search_runs
        page = guarded(
            store.uri, "listing runs", search, [store.experiment_id], clause, page_token=token
        )
        found.extend(page)
        token = page.token
        if not token:
            return found


def _alive(store: Store, run_id: str, identity: str) -> Any:
    """The run, or None where it is not in this store, was deleted or is of something else."""
    from mlflow.exceptions import MlflowException

    try:
        run = store.client.get_run(run_id)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise
    alive = run.info.lifecycle_stage == "active" and run.info.experiment_id == store.experiment_id
    same = run.data.tags.get("identity") == identity and _REPLACED not in run.data.tags
    return run if alive and same else None


def _find(store: Store, projection: Projection, revive: bool) -> Any:
    """The run, deleted or not, or None."""
    found = _search(store, projection.identity, projection.tags["kind"])
    run = found[0] if found else None
    if run is not None and revive and run.info.lifecycle_stage != "active":
        store.client.restore_run(run.info.run_id)
        return store.client.get_run(run.info.run_id)
    return run


def _search(store: Store, identity: str, kind: str) -> list[Any]:
    """Runs with this identity, those that are not deleted first; what was being replaced is deleted
    to its end."""
    from mlflow.entities import ViewType

    clause = f"tags.identity = '{identity}' and tags.kind = '{kind}'"
    found = list(store.client.search_runs([store.experiment_id], clause, ViewType.ALL))
    for run in found:
        if _REPLACED in run.data.tags and run.info.lifecycle_stage == "active":
            _delete(store, run)
    found = [run for run in found if _REPLACED not in run.data.tags]
    return sorted(found, key=lambda run: bool(run.info.lifecycle_stage != "active"))


def _delete(store: Store, run: Any) -> None:
    """The run and its models."""
    for model in _models_of(store, str(run.info.run_id)):
        store.client.delete_logged_model(model.model_id)
    store.client.delete_run(run.info.run_id)


def _models_of(store: Store, run_id: str) -> list[Any]:
    found: list[Any] = []
    token: str | None = None
    while True:
        clause = f"source_run_id = '{run_id}'"
        page = store.client.search_logged_models([store.experiment_id], clause, page_token=token)
        found.extend(page)
        token = page.token
        if not token:
            return found


def _create(store: Store, projection: Projection, others: Mapping[str, str]) -> Any:
    """A new run; `others` are tags beside its own."""
    own = {
        "kind": projection.tags["kind"],
        "identity": projection.identity,
        "mlflow.source.name": "evopolicy",
    }
    started = round(projection.started * 1000)
    return store.client.create_run(store.experiment_id, started, {**others, **own}, projection.name)


def clean_metric(key: str) -> str:
    """`key` as MLflow takes a metric's name; its slashes group the charts."""
    return "/".join(clean_key(part) for part in key.split("/"))


def _is_own(key: str) -> bool:
    """Whether a metric of this name is ours: one that a projection has not holds no more."""
    return key.startswith(_OWN_METRICS) or key.endswith(HELDOUT)


def _row(point: Point) -> _Row:
    return clean_metric(point.key), point.step, point.milliseconds


def _news(points: Sequence[Point], rows: Mapping[_Row, float]) -> list[Point]:
    """The points that say something else than the newest value there is, each later than that."""
    newest: dict[str, tuple[int, int, float]] = {}
    for (key, step, time), value in rows.items():
        newest[key] = max(newest.get(key, (step, time, value)), (step, time, value))
    found = []
    for point in points:
        before = newest.get(clean_metric(point.key))
        if before is None:
            found.append(point)
        elif before[2] != point.value:
            found.append(replace(point, time=max(point.milliseconds, before[1] + 1) / 1000))
    return found


def _batches(items: Iterable[_T], size: int) -> Iterable[list[_T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
