"""Manifests: what the vendor says belongs to one delivery."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from auditor.landing import LandingFile, Recognised, Shape

_GUID_SUFFIX = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_COMPACT_TIME = re.compile(r"^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})")


@dataclass(frozen=True)
class Manifest:
    """One manifest. `keys` are the object keys of its data files; `role` is actual or amortized where it says so."""

    name: str
    provider: str
    export: str
    keys: tuple[str, ...]
    account: str | None
    period: str | None  # YYYY-MM
    time: datetime | None
    role: str | None
    rows: int | None

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]


def recognise(file: LandingFile, shape: Shape) -> Recognised | None:
    """The file as a manifest of an AWS or Azure export, or None."""
    document = shape.sample
    if not isinstance(document, Mapping):
        return None
    if "reportKeys" in document or ("dataFiles" in document and "exportArn" in document):
        return Recognised(file, shape, "manifest", "aws-manifest", "aws", {"document": document})
    if "exportConfig" in document and "blobs" in document:
        return Recognised(file, shape, "manifest", "azure-manifest", "azure", {"document": document})
    return None


def parse(recognised: Recognised) -> Manifest:
    document: Mapping[str, Any] = recognised.details["document"]
    return (_aws if recognised.provider == "aws" else _azure)(recognised.file.name, document)


def _aws(name: str, document: Mapping[str, Any]) -> Manifest:
    keys = tuple(str(key) for key in document.get("reportKeys") or document.get("dataFiles") or ())
    # An export's ARN ends in an id of its own, which a re-created export of the same name changes.
    export = str(
        document.get("reportName") or _GUID_SUFFIX.sub("", str(document.get("exportArn", "")).rpartition("/")[2])
    )
    period = str((document.get("billingPeriod") or {}).get("start") or "")
    digits = re.sub(r"\D", "", period)[:6]
    return Manifest(
        name=name,
        provider="aws",
        export=export,
        keys=keys,
        account=str(document["account"]) if document.get("account") else None,
        period=f"{digits[:4]}-{digits[4:]}" if len(digits) == 6 else None,
        time=_time(document.get("createdAt") or document.get("timestamp")),
        role=None,
        rows=None,
    )


def _azure(name: str, document: Mapping[str, Any]) -> Manifest:
    config, run = document.get("exportConfig") or {}, document.get("runInfo") or {}
    kind = str(config.get("type", "")).lower()
    blobs = document.get("blobs") or []
    counts = [blob.get("dataRowCount") for blob in blobs]
    return Manifest(
        name=name,
        provider="azure",
        export=str(config.get("exportName") or ""),
        keys=tuple(str(blob.get("blobName", "")) for blob in blobs),
        account=str(config.get("resourceId") or "") or None,
        period=str(run.get("startDate", ""))[:7] or None,
        time=_time(run.get("submittedTime") or run.get("endTime")),
        role={"actualcost": "actual", "usage": "actual", "amortizedcost": "amortized"}.get(kind),
        rows=sum(counts) if counts and all(isinstance(count, int) for count in counts) else None,
    )


def _time(text: object) -> datetime | None:
    if not text:
        return None
    compact = _COMPACT_TIME.match(str(text))
    if compact:
        return datetime(*(int(part) for part in compact.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
    try:
        when = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
