"""Rows of an invented billing export, and the schema of its table."""

from typing import Any

Json = dict[str, Any]

DETAILED = "gcp_billing_export_resource_v1_0A1B2C_3D4E5F_6A7B8C"
STANDARD = "gcp_billing_export_v1_0A1B2C_3D4E5F_6A7B8C"


def column(name: str, kind: str = "STRING", mode: str = "NULLABLE", fields: list[Json] | None = None) -> Json:
    return {"name": name, "type": kind, "mode": mode, **({"fields": fields} if fields else {})}


def record(name: str, *fields: Json, mode: str = "NULLABLE") -> Json:
    return column(name, "RECORD", mode, list(fields))


def pairs(name: str) -> Json:
    return record(name, column("key"), column("value"), mode="REPEATED")


SCHEMA = [
    column("billing_account_id"),
    record("service", column("id"), column("description")),
    record("sku", column("id"), column("description")),
    column("usage_start_time", "TIMESTAMP"),
    column("usage_end_time", "TIMESTAMP"),
    record(
        "project",
        column("id"),
        column("number"),
        column("name"),
        pairs("labels"),
        column("ancestry_numbers"),
        record("ancestors", column("resource_name"), column("display_name"), mode="REPEATED"),
    ),
    pairs("labels"),
    pairs("system_labels"),
    record("location", column("location"), column("country"), column("region"), column("zone")),
    record(
        "tags", column("key"), column("value"), column("inherited", "BOOLEAN"), column("namespace"), mode="REPEATED"
    ),
    column("transaction_type"),
    column("seller_name"),
    column("export_time", "TIMESTAMP"),
    column("cost", "FLOAT"),
    column("currency"),
    column("currency_conversion_rate", "FLOAT"),
    record(
        "usage",
        column("amount", "FLOAT"),
        column("unit"),
        column("amount_in_pricing_units", "FLOAT"),
        column("pricing_unit"),
    ),
    record(
        "credits",
        column("id"),
        column("full_name"),
        column("type"),
        column("name"),
        column("amount", "FLOAT"),
        mode="REPEATED",
    ),
    record("invoice", column("month"), column("publisher_type")),
    column("cost_type"),
    record("adjustment_info", column("id"), column("description"), column("mode"), column("type")),
    record("resource", column("name"), column("global_name")),
    record(
        "price",
        column("list_price", "NUMERIC"),
        column("effective_price", "NUMERIC"),
        column("effective_price_default", "NUMERIC"),
        column("list_price_consumption_model", "NUMERIC"),
        column("tier_start_amount", "NUMERIC"),
        column("unit"),
        column("pricing_unit_quantity", "NUMERIC"),
    ),
    column("cost_at_list", "FLOAT"),
    column("cost_at_effective_price_default", "FLOAT"),
    column("cost_at_list_consumption_model", "FLOAT"),
    record("subscription", column("instance_id")),
    record("consumption_model", column("id"), column("description")),
]


def charge(day: str, cost: float | str, month: str | None = None, **more: Any) -> Json:
    """A line of a day, as an export writes it."""
    return {
        "billing_account_id": "0A1B2C-3D4E5F-6A7B8C",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": "25FB-9BD4-4842", "description": "Nvidia L4 GPU running in Americas"},
        "usage_start_time": f"{day} 00:00:00 UTC",
        "usage_end_time": f"{day} 01:00:00 UTC",
        "project": {"id": "acme-ml", "number": "100000000001", "name": "acme-ml", "labels": []},
        "labels": [{"key": "team", "value": "navigation"}],
        "location": {"location": "us-central1-a", "country": "US", "region": "us-central1", "zone": "us-central1-a"},
        "export_time": f"{day} 05:00:00.123456 UTC",
        "cost": cost,
        "currency": "USD",
        "usage": {"amount": 3600.0, "unit": "seconds"},
        "credits": [],
        "invoice": {"month": month or day[:7].replace("-", "")},
        "cost_type": "regular",
        "resource": {"name": "vm-1", "global_name": "//compute.googleapis.com/projects/100000000001/zones/us-central1-a/instances/1"},
        **more,
    }  # fmt: skip
