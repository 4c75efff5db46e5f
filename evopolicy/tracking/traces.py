"""Writing an attempt's trace to MLflow: whole or not yet, and never twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evopolicy.kernel.ports.transcript import TOKENS
from evopolicy.kernel.values import digest
from evopolicy.tracking.spans import PREVIEW, Span, Trace
from evopolicy.tracking.store import Store

CONTENT = "evopolicy.content"
"""Tag of a trace that is whole: the digest of what is in it."""
_BATCH = 100


def log_trace(store: Store, run_id: str, trace: Trace) -> None:
    """Write `trace` and link it to the run. One that is there and the same is left alone.

    Its id and those of its spans follow from what it is of, so what an earlier try left behind is
    overwritten; its tag `CONTENT` comes last. Whatever MLflow raises passes."""
    from mlflow.entities.trace_data import TraceData
    from mlflow.tracing.client import TracingClient
    from mlflow.tracing.constant import SpansLocation, TraceTagKey

    client = TracingClient(store.uri)
    name = f"tr-{trace.id}"
    content = digest(
        "evopolicy/tracking/trace/content/1", json.dumps(_plain(trace), sort_keys=True, default=str)
    )
    if _is_there(client, name, run_id, content):
        return
    spans = [_span(trace, span) for span in trace.spans]
    try:
        for first in range(0, len(spans), _BATCH):
            client.log_spans(store.experiment_id, spans[first : first + _BATCH])
    except NotImplementedError:
        pass  # an older server keeps spans in a file
    info = client.start_trace(_info(store, run_id, trace, name, content))
    if info.tags.get(TraceTagKey.SPANS_LOCATION) != SpansLocation.TRACKING_STORE.value:
        client._upload_trace_data(info, TraceData(spans))


def _is_there(client: Any, name: str, run_id: str, content: str) -> bool:
    from mlflow.exceptions import MlflowException
    from mlflow.tracing.constant import TraceMetadataKey

    try:
        info = client.get_trace_info(name)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"):
            return False
        raise
    linked = info.trace_metadata.get(TraceMetadataKey.SOURCE_RUN) == run_id
    return linked and bool(info.tags.get(CONTENT) == content)


def _plain(trace: Trace) -> dict[str, Any]:
    return {**vars(trace), "spans": [vars(span) for span in trace.spans]}


def _span(trace: Trace, span: Span) -> Any:
    """As `mlflow.entities.Span`, which holds its attributes as JSON texts."""
    from mlflow.entities import Span as MlflowSpan
    from mlflow.tracing.constant import SpanAttributeKey
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    def context(key: str) -> SpanContext:
        return SpanContext(
            int(trace.id, 16), _span_id(trace, key), is_remote=False, trace_flags=TraceFlags(1)
        )

    attributes = dict(span.attributes)
    attributes[SpanAttributeKey.REQUEST_ID] = f"tr-{trace.id}"
    attributes[SpanAttributeKey.SPAN_TYPE] = span.type
    sides = {SpanAttributeKey.INPUTS: span.inputs, SpanAttributeKey.OUTPUTS: span.outputs}
    attributes.update({key: value for key, value in sides.items() if value is not None})
    if not span.parent:
        usage = {
            SpanAttributeKey.CHAT_USAGE: tokens(trace.usage),
            SpanAttributeKey.LLM_COST: cost(trace.usage),
        }
        attributes.update({key: value for key, value in usage.items() if value})
        if trace.model:
            attributes[SpanAttributeKey.MODEL] = trace.model
    status = Status(StatusCode.OK) if span.error is None else Status(StatusCode.ERROR, span.error)
    return MlflowSpan(
        ReadableSpan(
            name=span.name,
            context=context(span.key),
            parent=context(span.parent) if span.parent else None,
            resource=Resource.get_empty(),
            attributes={
                key: json.dumps(value, ensure_ascii=False, default=str)
                for key, value in attributes.items()
            },
            status=status,
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
        )
    )


def _span_id(trace: Trace, key: str) -> int:
    return int(digest("evopolicy/tracking/span/1", [trace.id, key])[:16], 16) or 1


def _nanoseconds(seconds: float) -> int:
    """To the microsecond: a float of Unix seconds holds no more."""
    return round(seconds * 1e6) * 1_000


def _info(store: Store, run_id: str, trace: Trace, name: str, content: str) -> Any:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState
    from mlflow.tracing.constant import (
        TRACE_SCHEMA_VERSION,
        TRACE_SCHEMA_VERSION_KEY,
        TraceMetadataKey,
        TraceTagKey,
    )

    root = trace.spans[0]
    numbers = {
        TraceMetadataKey.TOKEN_USAGE: tokens(trace.usage),
        TraceMetadataKey.COST: cost(trace.usage),
    }
    return TraceInfo(
        trace_id=name,
        trace_location=TraceLocation.from_experiment_id(store.experiment_id),
        request_time=_nanoseconds(root.start) // 1_000_000,
        execution_duration=(_nanoseconds(root.end) - _nanoseconds(root.start)) // 1_000_000,
        state=TraceState.OK if root.error is None else TraceState.ERROR,
        request_preview=trace.request[:PREVIEW],
        response_preview=trace.response[:PREVIEW],
        trace_metadata={
            TRACE_SCHEMA_VERSION_KEY: str(TRACE_SCHEMA_VERSION),
            TraceMetadataKey.SOURCE_RUN: run_id,
            **{key: json.dumps(value) for key, value in numbers.items() if value},
        },
        tags={
            **{key: value for key, value in trace.tags.items() if value},
            TraceTagKey.TRACE_NAME: trace.name,
            CONTENT: content,
        },
    )


def tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """A Usage as MLflow counts tokens, the cached ones among the input; {} where the provider does
    not say."""
    if all(usage.get(kind) is None for kind in TOKENS):
        return {}
    fresh, cached, written, output = (int(usage.get(kind) or 0) for kind in TOKENS)
    return {
        "input_tokens": fresh + cached + written,
        "output_tokens": output,
        "total_tokens": fresh + cached + written + output,
        **({"cache_read_input_tokens": cached} if cached else {}),
        **({"cache_creation_input_tokens": written} if written else {}),
    }


def cost(usage: Mapping[str, Any]) -> dict[str, float]:
    """US dollars in all: neither the providers nor an estimate of all attempts say which part is
    for what."""
    dollars = usage.get("cost_usd")
    return {} if dollars is None else {"total_cost": float(dollars)}
