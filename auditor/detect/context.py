"""What bill and inventory know of a finding's resource beside what its rule said."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from auditor.finding import Finding
from auditor.views import VIEWS

_CONTEXT_COLUMNS = ("AvailabilityZone", "ResourceName", "ResourceType", "ServiceName", "Tags", "owner")


def with_context(con: duckdb.DuckDBPyConnection, findings: Sequence[Finding]) -> list[Finding]:
    """The findings with name, type, zone, service, tags and owner of their resource where the rule did not say them.

    The newest charge of the resource knows best, then the inventory.
    """
    keys = sorted({(finding.provider, finding.resource_id) for finding in findings if finding.resource_id})
    if not keys:
        return list(findings)
    tables = {row[0] for row in con.execute("select table_name from information_schema.tables").fetchall()}
    known: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for view, newest, columns in (
        ("charges", "day", _CONTEXT_COLUMNS),
        # most inventories do not tell when they were taken, and a maximum over nothing would be nothing
        (
            "resources",
            "coalesce(observed_at, timestamp '1970-01-01')",
            tuple(name for name in _CONTEXT_COLUMNS if name in VIEWS["resources"]),
        ),
    ):
        if view in tables:
            for provider, resource_id, *values in _newest(con, view, newest, columns, keys):
                facts = known[provider, resource_id]
                for name, value in zip(columns, values, strict=True):
                    if value not in (None, ""):
                        facts.setdefault(name, value)
    return [_enriched(finding, known.get((finding.provider, finding.resource_id or ""), {})) for finding in findings]


def _newest(
    con: duckdb.DuckDBPyConnection, view: str, newest: str, columns: Sequence[str], keys: Sequence[tuple[str, str]]
) -> list[tuple[Any, ...]]:
    facts = ", ".join(f"arg_max({name}, {newest}) filter (where {name} is not null)" for name in columns)
    wanted = json.dumps([{"provider": provider, "resource_id": resource_id} for provider, resource_id in keys])
    return con.execute(
        f"""
        with wanted as (
            select unnest(from_json($keys, '[{{"provider": "VARCHAR", "resource_id": "VARCHAR"}}]'), recursive := true)
        )
        select {view}.provider, {view}.ResourceId, {facts}
        from {view}
        join wanted on wanted.provider = {view}.provider and wanted.resource_id = {view}.ResourceId
        group by all
        """,
        {"keys": wanted},
    ).fetchall()


def _enriched(finding: Finding, facts: Mapping[str, Any]) -> Finding:
    return replace(
        finding,
        availability_zone=finding.availability_zone or facts.get("AvailabilityZone"),
        resource_name=finding.resource_name or facts.get("ResourceName"),
        resource_type=finding.resource_type or facts.get("ResourceType"),
        service_name=finding.service_name or facts.get("ServiceName"),
        tags=finding.tags or tags_of(facts.get("Tags")),
        owner=finding.owner or facts.get("owner"),
    )


def tags_of(value: object) -> dict[str, str]:
    """Tags from JSON text or a map; what is neither is no tags, for a bill may bear anything in that column."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):  # a text of nothing but brackets goes too deep
            return {}
    if not isinstance(value, Mapping):
        return {}
    return {str(key): "" if item is None else str(item) for key, item in value.items()}
