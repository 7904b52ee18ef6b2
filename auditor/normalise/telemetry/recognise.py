"""Tells which telemetry format a landing file has, by its content."""

import re
from collections.abc import Mapping
from typing import Any

from auditor.landing import LandingFile, Recognised, Shape

_TABLE = frozenset({"time", "resource_id", "metric", "value"})
_STREAM = frozenset({"namespace", "metric_name", "dimensions", "timestamp", "value"})

# For documents too large or too damaged to be parsed whole: what their first bytes always contain.
_HEADS = (
    ("prometheus-json", None, re.compile(r'"resultType"\s*:\s*"(?:matrix|vector|scalar|string)"')),
    ("cloudwatch-metric-data-json", "aws", re.compile(r'"MetricDataResults"\s*:\s*\[')),
    ("cloud-monitoring-json", "gcp", re.compile(r'"timeSeries"\s*:\s*\[')),
    (
        "azure-monitor-json",
        "azure",
        re.compile(r'"(?:timeseries"\s*:\s*\[|type"\s*:\s*"Microsoft\.Insights/metrics")', re.IGNORECASE),
    ),
    ("cloudwatch-stream-json", "aws", re.compile(r'"metric_stream_name"|"namespace"[^{}]*"metric_name"')),
)


def recognise(file: LandingFile, shape: Shape) -> Recognised | None:
    """The telemetry format of a file, or None where it is something else."""
    columns = {column.strip().lower() for column in shape.columns}
    if shape.form in {"csv", "parquet", "jsonl", "json", "json_stream"} and columns >= _TABLE:
        form = shape.form if shape.form in {"csv", "parquet"} else "jsonl"
        return Recognised(file, shape, "telemetry", f"metrics-{form}", None)
    if shape.form not in {"jsonl", "json", "json_stream", "text"}:
        return None
    sample = shape.sample[0] if isinstance(shape.sample, list) and shape.sample else shape.sample
    found = _by_keys(sample) if isinstance(sample, Mapping) else _by_head(shape.head)
    return Recognised(file, shape, "telemetry", found[0], found[1]) if found else None


def _by_head(head: str) -> tuple[str, str | None] | None:
    if not head.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return None
    return next(((name, provider) for name, provider, pattern in _HEADS if pattern.search(head)), None)


def _by_keys(sample: Mapping[str, Any]) -> tuple[str, str | None] | None:
    if _is_prometheus(sample):
        return "prometheus-json", None
    if "timeSeries" in sample or sample.keys() >= {"metric", "resource", "points"}:
        return "cloud-monitoring-json", "gcp"
    if "MetricDataResults" in sample:
        return "cloudwatch-metric-data-json", "aws"
    if sample.keys() >= _STREAM:
        return "cloudwatch-stream-json", "aws"
    return ("azure-monitor-json", "azure") if _is_azure(sample) else None


def _is_prometheus(sample: Mapping[str, Any]) -> bool:
    data = sample.get("data")
    if isinstance(data, Mapping) and "resultType" in data and "result" in data:
        return True
    return sample.get("status") == "error" and "errorType" in sample


def _is_azure(sample: Mapping[str, Any]) -> bool:
    value, values = sample.get("value"), sample.get("values")
    if isinstance(value, list):
        if not value:
            return sample.keys() >= {"timespan", "interval"}
        return isinstance(value[0], Mapping) and "timeseries" in value[0]
    return isinstance(values, list) and bool(values) and isinstance(values[0], Mapping) and "resourceid" in values[0]
