"""BigQuery's rows as it exports them to JSON: nested, every figure in the very digits that the API gave."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.bigquery import SchemaField

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Convert = Callable[[Any], Any]


def reader(schema: Sequence[SchemaField]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Turns rows of the API (`{"f": [{"v": …}]}`) into objects; all top-level keys are there, null or not."""
    fields = [(field.name, _converter(field)) for field in schema]

    def read(row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: convert(cell["v"]) for (name, convert), cell in zip(fields, row["f"], strict=True)}

    return read


def _converter(field: SchemaField) -> _Convert:
    one = _record(field.fields) if field.field_type in ("RECORD", "STRUCT") else _SCALARS.get(field.field_type, _same)
    if field.mode == "REPEATED":
        return lambda cells: [one(cell["v"]) for cell in cells or ()]
    return one


def _record(fields: Sequence[SchemaField]) -> _Convert:
    inner = [(field.name, _converter(field)) for field in fields]

    def convert(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        told = ((name, one(cell["v"])) for (name, one), cell in zip(inner, value["f"], strict=True))
        return {name: found for name, found in told if found is not None}

    return convert


def _same(value: Any) -> Any:
    return value  # figures come as text, and stay text: a float would lose digits


def _time(value: Any) -> str | None:
    """RFC 3339 of microseconds since 1970, which is how the client asks for times."""
    if value is None:
        return None
    when = _EPOCH + timedelta(microseconds=int(value))
    return when.isoformat().replace("+00:00", "Z")


def _flag(value: Any) -> bool | None:
    return None if value is None else value == "true"


def _document(value: Any) -> Any:
    return None if value is None else json.loads(value)


_SCALARS: dict[str, _Convert] = {
    "TIMESTAMP": _time,
    "BOOLEAN": _flag,
    "BOOL": _flag,
    "JSON": _document,
}


def period_of(row: Mapping[str, Any]) -> str:
    """YYYYMM of the bill that a row belongs to: the invoice's month, else that of the charge."""
    invoice = row.get("invoice")
    month = invoice.get("month") if isinstance(invoice, Mapping) else None
    if month:
        return str(month)
    begun = row.get("BillingPeriodStart") or row.get("usage_start_time") or row.get("ChargePeriodStart")
    return str(begun or "")[:7].replace("-", "") or "unknown"
