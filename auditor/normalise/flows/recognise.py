"""Recognises flow logs by their content."""

import re
from collections.abc import Mapping
from typing import Any

from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.inventory.documents import is_json, look_for_first

# A custom format may hold any fields in any order; these three make it a flow log that can be added up.
_NEEDED = {"srcaddr", "dstaddr", "bytes"}
_TRUE_ENDS = {"pkt-srcaddr", "pkt-dstaddr", "bytes"}
DEFAULT_FIELDS = (
    "version",
    "account-id",
    "interface-id",
    "srcaddr",
    "dstaddr",
    "srcport",
    "dstport",
    "protocol",
    "packets",
    "bytes",
    "start",
    "end",
    "action",
    "log-status",
)
_DEFAULT_LINE = re.compile(r"^(?:\S+Z )?2 \d{12} eni-[0-9a-f]+ (?:\S+ ){9}\S+ (?:OK|NODATA|SKIPDATA)$")
_GCP_LOG = re.compile(r"vpc_flows")


def field_names(columns: list[str] | tuple[str, ...]) -> list[str]:
    """Field names as the service documents them: lower case, with hyphens (Parquet has underscores)."""
    return [re.sub(r"[${}]", "", column).strip().lower().replace("_", "-") for column in columns]


def recognise(file: LandingFile, shape: Shape) -> Recognised | None:
    """The flow log format of a file by its content, None where it is none."""
    if shape.form == "parquet":
        fields = set(field_names(shape.columns))
        if (fields >= _NEEDED or fields >= _TRUE_ENDS) and "start" in fields:
            return Recognised(file, shape, "flows", "aws-vpc-flow-log-parquet", "aws")
        return None
    if is_json(shape):
        return _recognise_json(file, shape)
    return _recognise_text(file, shape) if shape.form in ("csv", "text") else None


def _recognise_text(file: LandingFile, shape: Shape) -> Recognised | None:
    line = shape.head.lstrip("\ufeff\r\n ").partition("\n")[0].strip()
    delimiter = "," if "," in line else "\t" if "\t" in line else " "
    fields = field_names(line.split(delimiter))
    if (set(fields) >= _NEEDED or set(fields) >= _TRUE_ENDS) and "start" in fields:
        return Recognised(
            file,
            shape,
            "flows",
            "aws-vpc-flow-log-text",
            "aws",
            {"fields": fields, "header": True, "delimiter": delimiter},
        )
    if _DEFAULT_LINE.match(line):
        names = (*(("delivered",) if line.split(" ")[0].endswith("Z") else ()), *DEFAULT_FIELDS)
        return Recognised(
            file,
            shape,
            "flows",
            "aws-vpc-flow-log-text",
            "aws",
            {"fields": list(names), "header": False, "delimiter": " "},
        )
    return None


def _recognise_json(file: LandingFile, shape: Shape) -> Recognised | None:
    document = look_for_first(shape)
    envelope = next((key for key in ("records", "entries") if isinstance(document.get(key), list)), None)
    entry = _first(document[envelope]) if envelope else document
    if _is_gcp(entry):
        return Recognised(file, shape, "flows", "gcp-vpc-flow-log-json", "gcp", {"envelope": envelope})
    category = str(entry.get("category") or "")
    if category == "FlowLogFlowEvent" or "flowRecords" in entry:
        return Recognised(file, shape, "flows", "azure-vnet-flow-log-json", "azure", {"envelope": envelope})
    if category == "NetworkSecurityGroupFlowEvent":
        return Recognised(file, shape, "flows", "azure-nsg-flow-log-json", "azure", {"envelope": envelope})
    return None


def _is_gcp(entry: Mapping[str, Any]) -> bool:
    payload = entry.get("jsonPayload") or entry.get("json_payload")
    if not isinstance(payload, Mapping) or not isinstance(payload.get("connection"), Mapping):
        return False
    return bool(_GCP_LOG.search(str(entry.get("logName") or entry.get("log_name") or ""))) or "bytes_sent" in payload


def _first(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        value = next((one for one in value if isinstance(one, dict)), None)
    return value if isinstance(value, dict) else {}
