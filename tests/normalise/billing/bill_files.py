"""Bills of invented accounts, taken in as a scan takes them: files written, recognised, read, chosen and balanced."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from auditor import bills, document
from auditor.collect.local import gather
from auditor.intake import take_bills
from auditor.lake import store
from auditor.landing import SourceReport
from auditor.normalise.recognise import sort_files
from auditor.progress import Silent
from auditor.state import State
from auditor.tagging import TagSettings

Files = Mapping[str, str | bytes]


class Audit:
    """One data directory into which files are taken, run after run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("data", "spool"):
            (folder / name).mkdir(parents=True)
        self.con = store.connect("512MiB", 1, folder / "spool")
        self.runs = 0
        self.reports: list[SourceReport] = []
        self.unread: dict[str, str] = {}

    def take(self, files: Files) -> "Audit":
        """Writes the files into a fresh folder, takes them in, and loads what counts."""
        self.runs += 1
        inbox = self.folder / f"inbox{self.runs}"
        for name, content in files.items():
            path = inbox / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        landed, unopened = gather([str(inbox)], self.folder / "spool")
        found = sort_files(landed)
        self.unread = {unread.file.name: unread.reason for unread in found.unread} | dict(unopened)
        with State.open(f"sqlite:///{self.folder / 'data' / 'state.db'}") as state:
            run = state.begin_run(as_of=None, now=datetime(2026, 11, 3, 0, self.runs, tzinfo=UTC))
            tags = TagSettings()
            self.reports = take_bills(
                found, self.con, state, run, self.folder / "data", self.folder / "spool", tags, Silent()
            ).reports
            self.known = [bills.from_record(record) for record in state.deliveries() if record.identities]
            self.choice = bills.choose(self.known)
            store.load(self.con, self.folder / "data", state.live_files())
        store.keep_counted(self.con, self.choice.counted, self.choice.partly)
        store.pair_azure_costs(self.con)
        return self

    def rows(self, what: str, where: str = "true", table: str = "charges") -> list[tuple[Any, ...]]:
        return self.con.execute(f"select {what} from {table} where {where} order by all").fetchall()

    def total(self, cost: str = "BilledCost", where: str = "true") -> Decimal:
        return Decimal(self.rows(f"coalesce(sum({cost}), 0)", where)[0][0]).normalize()

    def costs(self, where: str = "true") -> tuple[Decimal, Decimal]:
        """(BilledCost, EffectiveCost)."""
        return self.total("BilledCost", where), self.total("EffectiveCost", where)

    def differences(self) -> set[Decimal]:
        return {Decimal(entry["difference"]) for entry in document._reconciliation(self.con, self.known, self.choice)}

    @property
    def messages(self) -> str:
        notes = [note for _, note in self.choice.notes]
        return "\n".join([*(report.message or "" for report in self.reports), *notes])

    @property
    def statuses(self) -> list[str]:
        return sorted(report.status for report in self.reports)


def as_csv(rows: Sequence[Mapping[str, object]], delimiter: str = ",", columns: Iterable[str] | None = None) -> str:
    out = io.StringIO()
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, delimiter=delimiter, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def gz(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


def as_json_lines(rows: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_parquet(rows: Sequence[Mapping[str, object]], path: Path) -> bytes:
    lines = path / "rows.jsonl"
    lines.write_text(as_json_lines(rows))
    with duckdb.connect() as con:
        con.execute(
            f"copy (select * from read_json('{lines}', format='newline_delimited')) to '{path / 'rows.parquet'}'"
        )
    return (path / "rows.parquet").read_bytes()


def cur_line(
    kind: str = "Usage", cost: str = "1", day: int = 1, hour: int | None = None, **more: object
) -> dict[str, object]:
    """One line of a legacy Cost and Usage Report of October 2026: a day, or an hour of it."""
    start = f"2026-10-{day:02d}T{hour or 0:02d}:00:00Z"
    end = f"2026-10-{day:02d}T{hour + 1:02d}:00:00Z" if hour is not None else f"2026-10-{day + 1:02d}T00:00:00Z"
    return {
        "identity/LineItemId": "same",
        "bill/PayerAccountId": "111122223333",
        "bill/BillingPeriodStartDate": "2026-10-01T00:00:00Z",
        "bill/BillingPeriodEndDate": "2026-11-01T00:00:00Z",
        "bill/InvoiceId": "",
        "lineItem/UsageAccountId": "444455556666",
        "lineItem/LineItemType": kind,
        "lineItem/UsageStartDate": start,
        "lineItem/UsageEndDate": end,
        "lineItem/ProductCode": "AmazonEC2",
        "lineItem/UsageType": "BoxUsage:m5.large",
        "lineItem/Operation": "RunInstances",
        "lineItem/ResourceId": "i-1",
        "lineItem/UsageAmount": "24",
        "lineItem/CurrencyCode": "USD",
        "lineItem/UnblendedCost": cost,
        "lineItem/LineItemDescription": "",
        **more,
    }


def focus_line(cost: str = "1", day: int = 1, **more: object) -> dict[str, object]:
    return {
        "BillingAccountId": "111122223333",
        "SubAccountId": "444455556666",
        "BillingPeriodStart": "2026-10-01T00:00:00Z",
        "BillingPeriodEnd": "2026-11-01T00:00:00Z",
        "ChargePeriodStart": f"2026-10-{day:02d}T00:00:00Z",
        "ChargePeriodEnd": f"2026-10-{day + 1:02d}T00:00:00Z",
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "BilledCost": cost,
        "EffectiveCost": cost,
        "BillingCurrency": "USD",
        "ProviderName": "AWS",
        "ServiceName": "Amazon EC2",
        "ResourceId": "i-1",
        **more,
    }


def gcp_line(cost: object = "1", day: int = 1, export_day: int | None = None, **more: object) -> dict[str, object]:
    return {
        "billing_account_id": "0A1B2C-3D4E5F-0A1B2C",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": "AAAA-0001", "description": "N1 Predefined Instance Core running in Americas"},
        "usage_start_time": f"2026-10-{day:02d} 00:00:00 UTC",
        "usage_end_time": f"2026-10-{day:02d} 01:00:00 UTC",
        "project": {"id": "acme-ml", "name": "acme-ml"},
        "location": {"location": "us-central1", "region": "us-central1"},
        "export_time": f"2026-10-{export_day or day:02d} 12:00:00 UTC",
        "cost": cost,
        "currency": "USD",
        "usage": {"amount": "3600", "unit": "seconds", "amount_in_pricing_units": "1", "pricing_unit": "hour"},
        "invoice": {"month": "202610"},
        "cost_type": "regular",
        "resource": {"name": f"vm-{day}", "global_name": f"//compute.googleapis.com/vm-{day}"},
        **more,
    }


def azure_line(
    cost: str = "1", day: int = 1, kind: str = "Usage", model: str = "OnDemand", **more: object
) -> dict[str, object]:
    return {
        "BillingAccountId": "8000001",
        "SubscriptionId": "00000000-1111-2222-3333-444444444444",
        "BillingPeriodStartDate": "10/01/2026",
        "Date": f"10/{day:02d}/2026",
        "ChargeType": kind,
        "PricingModel": model,
        "MeterCategory": "Virtual Machines",
        "MeterSubCategory": "Dv3 Series",
        "MeterName": "D2 v3",
        "ConsumedService": "Microsoft.Compute",
        "ResourceId": f"/subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/vm-{day}",
        "Quantity": "24",
        "UnitOfMeasure": "1 Hour",
        "CostInBillingCurrency": cost,
        "BillingCurrencyCode": "USD",
        "Tags": "",
        **more,
    }
