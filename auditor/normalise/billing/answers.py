"""Answers of the vendors' cost APIs: AWS Cost Explorer `GetCostAndUsage*` and Azure Cost Management Query.

They hold sums without resources. Each group of the answer becomes one FOCUS row.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.errors import SourceError
from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.billing import respelled
from auditor.normalise.look import open_decoded

AWS, AZURE = "aws-cost-explorer-json", "azure-query-json"

_DIMENSIONS = {
    "LINKED_ACCOUNT": "SubAccountId",
    "SERVICE": "ServiceName",
    "REGION": "RegionId",
    "AZ": "AvailabilityZone",
    "USAGE_TYPE": "x_UsageType",
    "OPERATION": "x_Operation",
    "RESOURCE_ID": "ResourceId",
    "INVOICING_ENTITY": "InvoiceIssuerName",
}
_RECORD_TYPES = {"tax": "Tax", "credit": "Credit", "refund": "Adjustment"}
_REGION = re.compile(r"^(global|[a-z]{2}(-[a-z]+)+-\d)$")
_SUBSCRIPTION = re.compile(r"subscriptions/([0-9a-f-]{36})", re.IGNORECASE)
# Azure's column -> FOCUS column.
_AZURE = {
    "subscriptionid": "SubAccountId",
    "subscriptionname": "SubAccountName",
    "resourceid": "ResourceId",
    "resourcetype": "ResourceType",
    "resourcelocation": "RegionId",
    "servicename": "ServiceName",
    "metercategory": "x_SkuMeterCategory",
    "metersubcategory": "x_SkuMeterSubcategory",
    "meter": "x_SkuMeterName",
    "product": "ChargeDescription",
    "billingaccountid": "BillingAccountId",
    "billingprofileid": "BillingAccountId",
}


def recognise(file: LandingFile, shape: Shape) -> Recognised | None:
    """The file as a page of an answer, or None. `details` say which pages belong together and whether another follows."""
    document = shape.sample
    if not isinstance(document, Mapping):
        return None
    details: dict[str, Any] = {"family": "focus", "answer": True}
    if isinstance(document.get("ResultsByTime"), list):
        results = document["ResultsByTime"]
        metrics = sorted(_first_metrics(results))
        details["pages"] = repr((_group_keys(document), metrics, _month(results)))
        details["continues"] = bool(document.get("NextPageToken"))
        return Recognised(file, shape, "billing", AWS, "aws", details)
    properties = document.get("properties")
    if (
        isinstance(properties, Mapping)
        and isinstance(properties.get("columns"), list)
        and isinstance(properties.get("rows"), list)
    ):
        names = [str(column.get("name", "")) for column in properties["columns"]]
        if not any(name.lower() in ("cost", "pretaxcost", "costusd") for name in names):
            return None
        details["pages"] = repr((names, str(document.get("id", "")).rpartition("/")[0].lower()))
        details["continues"] = bool(properties.get("nextLink"))
        return Recognised(file, shape, "billing", AZURE, "azure", details)
    return None


def missing_page(files: Sequence[Recognised]) -> str | None:
    """Why the pages are not the whole answer, else None: every chain of pages ends in one without a next-page mark."""
    waiting = [file for file in files if file.details["continues"]]
    if waiting and len(waiting) == len(files):
        return f"{waiting[-1].file.name} says that another page follows, which was not delivered"
    return None


def to_focus(files: Sequence[Recognised], spool: Path) -> list[Recognised]:
    """The pages as FOCUS rows, one JSON lines file in the spool for each; likewise bills in other spellings.

    Raises SourceError where an answer has no dates: its sums cannot be put into a billing period.
    """
    return [
        respelled.to_json_lines(file, spool) if file.details.get("respelled") else _convert(file, spool)
        for file in files
    ]


def _convert(file: Recognised, spool: Path) -> Recognised:
    try:
        with open_decoded(file.file.path, file.shape.compression) as stream:
            text = stream.read().decode("utf-8-sig" if file.shape.encoding == "utf-8" else file.shape.encoding)
        document = json.loads(text.lstrip("\ufeff"), parse_float=str)  # every digit of an amount counts
    except (ValueError, EOFError, OSError) as error:
        raise SourceError(f"{file.file.name}: the answer is damaged or cut off ({error}); ask for it again") from error
    rows = _aws_rows(document) if file.format == AWS else _azure_rows(document, file.file.name)
    target = spool / f"answer-{abs(hash(file.file.name))}.jsonl"
    with target.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")
    keys = ("BilledCost", "ChargePeriodStart", "ChargeCategory")
    return replace(
        file,
        file=LandingFile(target, file.file.name, target.stat().st_size),
        shape=Shape("jsonl", columns=keys, sample=dict.fromkeys(keys)),
    )


def _first_metrics(results: Sequence[Any]) -> Mapping[str, Any]:
    for result in results:
        for group in result.get("Groups") or ():
            return dict(group.get("Metrics") or {})
        if result.get("Total"):
            return dict(result["Total"])
    return {}


def _month(results: Sequence[Any]) -> str:
    return min((str((result.get("TimePeriod") or {}).get("Start", ""))[:7] for result in results), default="")


def _group_keys(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(each.get("Type", "")), str(each.get("Key", ""))) for each in document.get("GroupDefinitions") or ()]


def _aws_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    definitions = _group_keys(document)
    names = {
        str(each.get("Value")): str((each.get("Attributes") or {}).get("description", ""))
        for each in document.get("DimensionValueAttributes") or ()
    }
    for result in document["ResultsByTime"]:
        period = result.get("TimePeriod") or {}
        groups = result.get("Groups") or ([{"Keys": [], "Metrics": result["Total"]}] if result.get("Total") else [])
        for group in groups:
            metrics = group.get("Metrics") or {}
            billed = _amount(
                metrics, "NetUnblendedCost", "UnblendedCost", "BlendedCost", "NetAmortizedCost", "AmortizedCost"
            )
            row: dict[str, Any] = {
                "ProviderName": "AWS",
                "ChargeCategory": "Usage",
                "ChargeFrequency": "Usage-Based",
                "ChargePeriodStart": period.get("Start"),
                "ChargePeriodEnd": period.get("End"),
                "BillingPeriodStart": str(period.get("Start", ""))[:7] + "-01",
                "BilledCost": billed[0],
                "BillingCurrency": billed[1],
                # Net beside net, gross beside gross: never one of each.
                "EffectiveCost": _amount(
                    metrics, *(("NetAmortizedCost",) if "NetUnblendedCost" in metrics else ("AmortizedCost",))
                )[0]
                or billed[0],
            }
            for at, key in enumerate(group.get("Keys") or ()):
                kind = definitions[at] if at < len(definitions) else _guessed(str(key))
                _put(row, kind, str(key))
            if row.get("SubAccountId") in names:
                row["SubAccountName"] = names[row["SubAccountId"]]
            yield row


def _amount(metrics: Mapping[str, Any], *wanted: str) -> tuple[str | None, str | None]:
    for name in wanted:
        if name in metrics:
            return str(metrics[name].get("Amount")), metrics[name].get("Unit")
    return None, None


def _guessed(key: str) -> tuple[str, str]:
    """What a group is by, where the answer was saved without its definitions."""
    if re.fullmatch(r"\d{12}", key):
        return "DIMENSION", "LINKED_ACCOUNT"
    if "$" in key:
        return "TAG", key.partition("$")[0]
    return "DIMENSION", "REGION" if _REGION.match(key) else "SERVICE"


def _put(row: dict[str, Any], kind: tuple[str, str], key: str) -> None:
    if kind[0] == "TAG":
        name, _, value = key.partition("$")
        if value:
            row["Tags"] = json.dumps({**json.loads(row.get("Tags", "{}")), name: value})
    elif kind[1] == "RECORD_TYPE":
        row["ChargeCategory"] = _RECORD_TYPES.get(key.lower(), "Usage")
    elif kind[1] in _DIMENSIONS and not key.startswith("No"):
        row[_DIMENSIONS[kind[1]]] = key


def _azure_rows(document: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    properties = document["properties"]
    columns = [str(column.get("name", "")).lower() for column in properties["columns"]]
    scope = _SUBSCRIPTION.search(str(document.get("id", "")))
    cost = next(column for column in ("cost", "pretaxcost", "costusd") if column in columns)
    date = next((column for column in ("usagedate", "billingmonth") if column in columns), None)
    if date is None:
        raise SourceError(f"{name}: the answer has no dates; ask with granularity Daily or Monthly")
    for values in properties["rows"]:
        row = dict(zip(columns, values, strict=False))
        day = str(row[date])
        start = f"{day[:4]}-{day[4:6]}-{day[6:8]}" if day.isdigit() else day[:10]
        kind = str(row.get("chargetype") or "usage").lower()
        made: dict[str, Any] = {
            "ProviderName": "Microsoft",
            "ChargeCategory": {"purchase": "Purchase", "refund": "Purchase", "tax": "Tax", "credit": "Credit"}.get(
                kind, "Usage"
            ),
            "ChargeFrequency": "Usage-Based",
            "ChargePeriodStart": start,
            "ChargePeriodEnd": _end(start, monthly=date == "billingmonth"),
            "BillingPeriodStart": start[:7] + "-01",
            "BilledCost": str(row[cost]),
            "BillingCurrency": "USD" if cost == "costusd" else row.get("currency"),
            "SubAccountId": scope[1].lower() if scope else None,
        }
        made |= {focus: row[column] for column, focus in _AZURE.items() if row.get(column) not in (None, "")}
        yield made


def _end(start: str, *, monthly: bool) -> str:
    from datetime import date, timedelta

    first = date.fromisoformat(start)
    last = (first.replace(day=1) + timedelta(days=32)).replace(day=1) if monthly else first + timedelta(days=1)
    return last.isoformat()
