"""Which billing format a file has, by its columns."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.billing import answers, aws_cur, azure_cost, focus_bill, gcp_export, respelled
from auditor.normalise.billing.source import canonical

MODULES: dict[str, ModuleType] = {"cur": aws_cur, "gcp": gcp_export, "azure": azure_cost, "focus": focus_bill}

JSON_COLUMNS: dict[str, dict[str, str]] = {"gcp": gcp_export.JSON_COLUMNS, "focus": focus_bill.JSON_COLUMNS}


def recognise(file: LandingFile, shape: Shape) -> Recognised | None:
    """The file as a bill of one of the four families, or None."""
    names = {canonical(column): column for column in shape.columns}
    answer = answers.recognise(file, shape)
    if answer is not None:
        return answer
    for family, test in (("focus", _focus), ("cur", _cur), ("gcp", _gcp), ("azure", _azure)):
        found = test(names, shape)
        if found:
            provider, variant = found
            details: dict[str, Any] = {"family": family}
            if respelled.is_needed(family, shape):
                details |= {"answer": True, "respelled": True}  # written out anew as an answer is, before it is read
            suffix = {"csv": "csv", "parquet": "parquet", "avro": "avro"}.get(shape.form, "jsonl")
            return Recognised(file, shape, "billing", f"{variant}-{suffix}", provider, details)
    return None


def _cur(names: Mapping[str, str], shape: Shape) -> tuple[str, str] | None:
    if not all(name in names for name in aws_cur.REQUIRED):
        return None
    if shape.form not in ("csv", "parquet"):
        return None
    # Legacy CSV headers bear a slash; legacy Parquet has none, but lacks the maps of the newer report.
    has_maps = any(name in names for name in ("resourcetags", "product", "billpayeraccountname"))
    legacy = any("/" in header for header in shape.columns) or (shape.form == "parquet" and not has_maps)
    return "aws", "legacy-cur" if legacy else "cur2"


def _gcp(names: Mapping[str, str], shape: Shape) -> tuple[str, str] | None:
    if gcp_export.recognises(names, shape):
        return "gcp", "gcp-detailed" if any(
            name in names for name in ("resource", "resourcename", "resourceglobalname")
        ) else "gcp-standard"
    return None


def _azure(names: Mapping[str, str], shape: Shape) -> tuple[str, str] | None:
    return ("azure", "azure-cost") if shape.form in ("csv", "parquet") and azure_cost.recognises(names) else None


def _focus(names: Mapping[str, str], shape: Shape) -> tuple[str | None, str] | None:
    if not focus_bill.recognises(names):
        return None
    return None, f"focus-{focus_bill.version(names)}"
