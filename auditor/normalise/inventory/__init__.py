"""Inventory: what exists, from the neutral `resources` table and from what the vendors' own tools print."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from auditor.landing import LandingFile, Recognised, Shape, SourceReport
from auditor.normalise.inventory import aws, azure, gcp, neutral, slurm
from auditor.normalise.inventory.documents import Contents, flat, is_json, look_for_first, read
from auditor.normalise.inventory.merge import complete
from auditor.normalise.inventory.rows import Row
from auditor.views import RESOURCES

__all__ = ["load", "recognise"]

# Where tools and programs put a list of resources into an envelope of their own.
_ENVELOPES = ("data", "value", "items", "resources", "assets", "results")


def recognise(file: LandingFile, shape: Shape) -> Recognised | None:
    """The inventory format of a file by its content, None where it is no inventory."""
    if shape.form in ("csv", "parquet"):
        columns = dict.fromkeys(shape.columns)
        accounting = slurm.match(columns)
        if accounting is None and not neutral.match(columns):
            return None
        return Recognised(file, shape, "inventory", accounting or f"resources-{shape.form}", None)
    if not is_json(shape):
        return None
    found = _format_of(look_for_first(shape), envelopes=True)
    if found is None and slurm.begins(shape.head):
        found = "slurm-sacct-json", None
    if found is None:
        return None
    name, provider = found
    return Recognised(file, shape, "inventory", f"resources-{shape.form}" if name == "resources" else name, provider)


def _format_of(document: Mapping[str, Any], *, envelopes: bool) -> tuple[str, str | None] | None:
    if neutral.match(document):
        return "resources", None
    answer = aws.match(document)
    for name, provider in (
        (answer[0] if answer else None, "aws"),
        (gcp.match(document), "gcp"),
        (azure.match(document), "azure"),
        (slurm.match(document), None),
    ):
        if name is not None:
            return name, provider
    return _format_in_envelope(document) if envelopes else None


def _format_in_envelope(document: Mapping[str, Any]) -> tuple[str, str | None] | None:
    for key in _ENVELOPES:
        items = document.get(key)
        if isinstance(items, list) and items and isinstance(items[0], dict):
            inner = _format_of(items[0], envelopes=False)
            if inner is not None:
                return ("az-graph-query" if key == "data" and inner[1] == "azure" else inner[0]), inner[1]
    # A query that found nothing is still an answer.
    return (
        ("az-graph-query", "azure")
        if isinstance(document.get("data"), list)
        and ({"count", "total_records"} <= set(document) or {"count", "totalRecords"} <= set(document))
        else None
    )


def load(con: duckdb.DuckDBPyConnection, files: Sequence[Recognised]) -> list[SourceReport]:
    """Appends the files' resources to `resources_seen` (created if absent); one report a file.

    Rows of one resource from several files become one row: attributes, tags, relations and aliases are joined, what
    the vendor's tool prints going before what a neutral table says. `observed_at` is null where no file tells it.
    `attributes` bear neutral names, `related` maps a relation to a list of ids. A damaged file is `failed` and what
    stands before the damage is kept; an object in a good file that is no resource is counted in the message.
    """
    columns = ", ".join(f'"{name}" {kind}' for name, kind in RESOURCES.items())
    con.execute(f"create table if not exists resources_seen ({columns})")
    rows: list[Row] = []
    reports: list[SourceReport] = []
    for one in files:
        contents = read(con, one)
        found, unknown = _rows(contents, one)
        rows.extend(found)
        reports.append(_report(one, found, unknown, contents))
    _write(con, complete(rows))
    return reports


def _rows(contents: Contents, recognised: Recognised) -> tuple[list[Row], int]:
    rows: list[Row] = []
    unknown = 0
    for value in flat(contents.values):
        found = _of_document(value, recognised.file.name) if isinstance(value, dict) else None
        if found is None:
            unknown += 1
        else:
            rows.extend(found)
    return rows, unknown


def _of_document(document: Mapping[str, Any], place: str) -> list[Row] | None:
    if neutral.match(document):
        row = neutral.read(document, place)
        return [row] if row is not None else None
    answer = aws.match(document)
    if answer is not None:
        return list(answer[1](document, place))
    name = gcp.match(document)
    if name is not None:
        return gcp.read(document, name, place)
    for matches, read_one in ((azure.match, azure.read), (slurm.match, slurm.read)):
        if matches(document) is not None:
            return read_one(document, place)
    for key in _ENVELOPES:
        items = document.get(key)
        if isinstance(items, list):
            return [row for item in items if isinstance(item, dict) for row in _of_document(item, place) or []]
    return None


def _tells_local_time(row: object) -> bool:
    return isinstance(row, dict) and any(key.lower() == "start" and "T" in str(text) for key, text in row.items())


def _report(recognised: Recognised, rows: list[Row], unknown: int, contents: Contents) -> SourceReport:
    providers = {row.provider for row in rows}
    notes = []
    if recognised.format == "slurm-sacct" and any(_tells_local_time(value) for value in flat(contents.values)):
        notes.append("times without a zone were read as UTC: run sacct with TZ=UTC or SLURM_TIME_FORMAT=%s")
    if contents.damage:
        notes.append(f"{contents.damage}; {len(rows)} resources read before the damage")
    if unknown:
        notes.append(f"{unknown} objects are no resource that is known and were left out")
    return SourceReport(
        provider=recognised.provider or (providers.pop() if len(providers) == 1 else None),
        kind="inventory",
        format=recognised.format,
        paths=[recognised.file.name],
        files=1,
        rows=len(rows),
        billing_periods=[],
        status="failed" if contents.damage else "ok",
        message="; ".join(notes) or None,
    )


def _write(con: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
    """One statement from one JSON parameter: row-by-row inserts are slow."""
    if not rows:
        return
    payload = [
        {
            "provider": row.provider,
            "account_id": row.account_id,
            "region": row.region,
            "zone": row.zone,
            "resource_id": row.resource_id,
            "resource_type": row.resource_type,
            "name": row.name,
            "state": row.state,
            "created_at": row.created_at,
            "observed_at": row.observed_at,
            "tags": json.dumps(row.tags, sort_keys=True, ensure_ascii=False),
            "attributes": json.dumps(row.attributes, sort_keys=True, ensure_ascii=False, default=str),
            "related": json.dumps(row.related, sort_keys=True, ensure_ascii=False),
            "aliases": row.aliases,
        }
        for row in rows
    ]
    names = ", ".join(f'"{name}"' for name in RESOURCES)
    structure = json.dumps([dict(RESOURCES)])
    selected = ", ".join(f'r."{name}"' for name in RESOURCES)
    con.execute(
        f"insert into resources_seen ({names}) select {selected} from (select unnest(from_json(?::json, '{structure}')) as r)",
        [json.dumps(payload)],
    )
