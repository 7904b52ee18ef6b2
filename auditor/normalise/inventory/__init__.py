"""Inventory: what exists, from the neutral `resources` table and from what the vendors' own tools print."""

import json
import logging
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

log = logging.getLogger(__name__)

# What readers meet in an object of which a part is missing or of another type than its vendor writes.
_MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
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
        found, unknown, broken = _rows(contents, one)
        rows.extend(found)
        reports.append(_report(one, found, unknown, broken, contents))
    _write(con, complete(rows))
    return reports


def _rows(contents: Contents, recognised: Recognised) -> tuple[list[Row], int, int]:
    """The resources of a file, and how many objects are none that is known, or are but cannot be read."""
    rows: list[Row] = []
    unknown = broken = 0
    for value in flat(contents.values):
        found, unreadable = _guarded(value, recognised.file.name) if isinstance(value, dict) else (None, 0)
        broken += unreadable
        if found is None:
            unknown += 1
        else:
            rows.extend(found)
    return rows, unknown, broken


def _guarded(document: Mapping[str, Any], place: str) -> tuple[list[Row] | None, int]:
    """The rows of a document, entry by entry where one of them is not laid out as its vendor does; and how many are not."""
    try:
        return _of_document(document, place), 0
    except _MALFORMED as error:
        log.debug("inventory object cannot be read name=%s error=%r", place, error)
    lists = [key for key, value in document.items() if isinstance(value, list) and value]
    if len(lists) != 1 or len(document[lists[0]]) == 1:
        return [], 1
    parts = [_guarded({**document, lists[0]: [entry]}, place) for entry in document[lists[0]]]
    return [row for rows, _ in parts for row in rows or []], sum(broken or rows is None for rows, broken in parts)


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


def _report(recognised: Recognised, rows: list[Row], unknown: int, broken: int, contents: Contents) -> SourceReport:
    providers = {row.provider for row in rows}
    notes = []
    if recognised.format == "slurm-sacct" and any(_tells_local_time(value) for value in flat(contents.values)):
        notes.append("times without a zone were read as UTC: run sacct with TZ=UTC or SLURM_TIME_FORMAT=%s")
    if contents.damage:
        notes.append(f"{contents.damage}; {len(rows)} resources read before the damage")
    if broken:
        notes.append(f"{broken} objects are not laid out as their format is and were left out; fetch the file again")
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
        status="failed" if contents.damage or broken else "ok",
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
        # half of a surrogate pair is no character, and DuckDB takes no text with one
        [json.dumps(payload, ensure_ascii=False).encode(errors="replace").decode()],
    )
