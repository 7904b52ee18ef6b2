"""The neutral `resources` table: one object a row, whatever words its writer uses for types and attributes."""

import json
import re
from typing import Any

from auditor.normalise.inventory.rows import (
    Json,
    Row,
    as_list,
    first,
    number,
    region_of_zone,
    tag_map,
    tail,
    timestamp,
    truth,
)
from auditor.normalise.inventory.vocabulary import neutral_attribute, neutral_type

_FIGURES = {
    "size_gib",
    "provisioned_iops",
    "provisioned_mibps",
    "accelerator_count",
    "reserved_count",
    "used_count",
    "instance_count",
}
_TIMES = {"starts_at", "ends_at", "started_at", "ended_at", "stopped_at", "launched_at"}
_FLAGS = {"has_rdma", "private_google_access", "is_main", "uses_spot"}
_PROVIDERS = {
    "amazon": "aws",
    "amazonwebservices": "aws",
    "google": "gcp",
    "googlecloud": "gcp",
    "gcloud": "gcp",
    "googlecloudplatform": "gcp",
    "microsoft": "azure",
    "microsoftazure": "azure",
    "az": "azure",
}


def match(document: Json) -> bool:
    """Whether a row or a header is the `resources` table: it names a resource and its type, and measures nothing."""
    keys = {key.lower() for key in document}
    return (
        {"resource_id", "resource_type"} <= keys
        and bool(keys & {"provider", "attributes", "related", "tags", "state", "account_id"})
        and not keys & {"metric", "value", "billedcost"}
    )


def read(document: Json, place: str) -> Row | None:
    """One row; None where it names no resource."""
    cells = {key.lower(): value for key, value in document.items()}
    resource_id = str(cells.get("resource_id") or "").strip()
    if not resource_id:
        return None
    provider = _provider(cells.get("provider"), resource_id)
    attributes = _json(cells.get("attributes"))
    attributes = attributes if isinstance(attributes, dict) else {}
    kind = _kind(str(cells.get("resource_type") or ""), attributes)
    zone = str(cells["zone"]) if cells.get("zone") else None
    row = Row(
        provider=provider,
        resource_id=resource_id,
        resource_type=kind,
        account_id=str(cells["account_id"]) if cells.get("account_id") else None,
        region=first((cells.get("region"), region_of_zone(zone))),
        zone=zone,
        name=str(cells["name"]) if cells.get("name") else None,
        state=str(cells["state"]).lower() if cells.get("state") else None,
        created_at=timestamp(cells.get("created_at")),
        observed_at=timestamp(cells.get("observed_at")),
        tags=tag_map(_json(cells.get("tags"))),
        place=place,
        neutral=True,
    )
    row.describe(vendor_type=str(cells.get("resource_type") or "") or None)
    for name, value in attributes.items():
        _describe(row, str(name), value)
    _relate(row, _json(cells.get("related")))
    row.also_known_as(*(str(one) for one in as_list(_json(cells.get("aliases")))), row.name)
    _spellings(row)
    return row


def _provider(value: Any, resource_id: str) -> str:
    word = str(value or "").strip().lower()
    if word:
        return _PROVIDERS.get(re.sub(r"[^a-z]", "", word), word)
    if resource_id.startswith("//") and "googleapis.com" in resource_id:
        return "gcp"
    return "azure" if resource_id.lower().startswith(("/subscriptions/", "/providers/")) else "aws"


def _kind(vendor_word: str, attributes: Json) -> str:
    kind = neutral_type(vendor_word)
    compute = str(first(attributes.get(key) for key in ("compute_type", "computeType", "computetype")) or "")
    return "notebook" if kind == "ml_compute" and compute.lower() == "computeinstance" else kind


def _json(value: Any) -> Any:
    """A cell that holds JSON, parsed; tables carry it as text."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] not in ("{", "["):
        return text or None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _describe(row: Row, name: str, value: Any) -> None:
    neutral = neutral_attribute(name)
    if row.resource_type == "bucket" and re.sub(r"[^a-z]", "", name.lower()) in (
        "lifecyclerules",
        "lifecycle",
        "lifecyclepolicy",
        "haslifecycle",
    ):
        flag = truth(value) if not isinstance(value, (list, dict)) else bool(value)
        row.describe(has_lifecycle=bool(value) if flag is None and value is not None else flag)
        return
    if neutral in _FIGURES:
        value = number(value) if number(value) is not None else value
    elif neutral in _TIMES:
        value = timestamp(value) or value
    elif neutral in _FLAGS:
        flag = truth(value)
        value = flag if flag is not None else value
    elif neutral == "lifecycle":
        # Only spot is a fact that rules read; every other word means that the machine is not.
        value = "spot" if re.search(r"spot|preempt|low.?priority", str(value), re.IGNORECASE) else None
    row.describe(**{neutral: value})


def _relate(row: Row, related: Any) -> None:
    """Relations as a map, a list of {type, resource_id}, or a bare list of ids."""
    if isinstance(related, dict):
        for relation, ids in related.items():
            row.relate(
                str(relation),
                [one.get("resource_id") or one.get("id") if isinstance(one, dict) else one for one in as_list(ids)],
            )
        return
    for one in as_list(related):
        if isinstance(one, dict):
            row.relate(
                str(first((one.get("type"), one.get("relation"), "related"))),
                first((one.get("resource_id"), one.get("id"))),
            )
        else:
            row.relate("related", one)


def _spellings(row: Row) -> None:
    identity = row.resource_id
    if row.provider == "azure":
        row.also_known_as(identity.lower())
    elif row.provider == "gcp" and row.resource_type == "bucket":
        name = tail(identity)
        row.also_known_as(
            f"//storage.googleapis.com/projects/_/buckets/{name}",
            f"//storage.googleapis.com/{name}",
            f"gs://{name}",
            name,
        )
    elif row.provider == "gcp":
        row.also_known_as(
            identity.removeprefix("//").partition("/")[2] if identity.startswith("//") else None, tail(identity)
        )
    elif row.resource_type == "bucket":
        row.also_known_as(
            f"arn:aws:s3:::{identity}" if not identity.startswith("arn:") else identity.rpartition(":")[2]
        )
    elif identity.startswith("arn:"):
        row.also_known_as(re.split(r"[:/]", identity)[-1])
