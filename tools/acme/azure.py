"""What the Azure subscriptions run, and the actual and amortized exports of the enterprise agreement."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from acme.aws import nat_gigabytes, tags
from acme.files import csv_text, write_gzip, write_json
from acme.truth import (
    BILLED_FROM,
    COMPANY,
    DAY,
    EA_ACCOUNT,
    HOUR,
    MONTHS,
    PARTIAL_UNTIL,
    SUB_APPS,
    SUB_ML,
    WATCHED_FROM,
    Row,
    Truth,
    digest,
    guid,
    money,
    month_end,
    plain,
    rfc3339,
    steps,
)

AZURE_COLUMNS = (
    "InvoiceSectionName", "AccountName", "AccountOwnerId", "SubscriptionId", "SubscriptionName", "ResourceGroup",
    "ResourceLocation", "Date", "ProductName", "MeterCategory", "MeterSubCategory", "MeterId", "MeterName",
    "MeterRegion", "UnitOfMeasure", "Quantity", "EffectivePrice", "CostInBillingCurrency", "CostCenter",
    "ConsumedService", "ResourceId", "Tags", "OfferId", "AdditionalInfo", "ServiceInfo1", "ServiceInfo2",
    "ResourceName", "ReservationId", "ReservationName", "UnitPrice", "ProductOrderId", "ProductOrderName", "Term",
    "PublisherType", "PublisherName", "ChargeType", "Frequency", "PricingModel", "AvailabilityZone",
    "BillingAccountId", "BillingAccountName", "BillingCurrencyCode", "BillingPeriodStartDate", "BillingPeriodEndDate",
    "BillingProfileId", "BillingProfileName", "InvoiceSectionId", "IsAzureCreditEligible", "PartNumber", "PayGPrice",
    "PlanName", "ServiceFamily", "CostAllocationRuleName", "benefitId", "benefitName",
)  # fmt: skip
GROUPS = {SUB_ML: ("Acme ML", "rg-ml"), SUB_APPS: ("Acme Apps", "rg-apps")}


def arm(subscription: str, kind: str, name: str) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{GROUPS[subscription][1]}/providers/{kind}/{name}"


@dataclass(frozen=True)
class AzureVm:
    """One virtual machine; a reserved one has actual cost 0 and its share of the reservation in the amortized file."""

    name: str
    subscription: str
    size: str
    series: str
    rate: Decimal
    tags: Mapping[str, str]
    reserved: bool = False

    @property
    def id(self) -> str:
        return arm(self.subscription, "Microsoft.Compute/virtualMachines", self.name)


A100 = "NCads A100 v4 Series"
VCPUS = {"Standard_NC24ads_A100_v4": 24, "Standard_NC4as_T4_v3": 4, "Standard_D8s_v5": 8}
AZURE_VMS = (
    AzureVm("vm-sim-01", SUB_ML, "Standard_NC24ads_A100_v4", A100, Decimal("3.673"), tags("simulation")),
    AzureVm(
        "vm-policy-train", SUB_ML, "Standard_NC24ads_A100_v4", A100, Decimal("3.673"), tags("planning", workload="training")
    ),
    AzureVm(
        "vm-serve-01", SUB_ML, "Standard_NC24ads_A100_v4", A100, Decimal("3.673"), tags("fulfilment", workload="inference"),
        reserved=True,
    ),
    AzureVm("vm-annotate", SUB_APPS, "Standard_NC4as_T4_v3", "NCasT4_v3 Series", Decimal("0.526"), {}),
    AzureVm("vm-erp", SUB_APPS, "Standard_D8s_v5", "Dsv5 Series", Decimal("0.384"), tags("finance")),
)  # fmt: skip
AZURE_VM = {vm.name: vm for vm in AZURE_VMS}
ORDER, RESERVATION = guid("reservation order"), guid("reservation")
BENEFIT = f"/providers/Microsoft.Capacity/reservationOrders/{ORDER}/reservations/{RESERVATION}"
RESERVED_RATE = Decimal("2.2038")
AZURE_NATS = {"nat-legacy": (SUB_APPS, 0.004), "nat-egress": (SUB_ML, 6.0)}  # gigabytes a day


def azure_nat(name: str) -> str:
    return arm(AZURE_NATS[name][0], "Microsoft.Network/natGateways", name)


def azure_row(day: datetime, subscription: str, quantity: Decimal, price: Decimal, cost: Decimal, **cells: Any) -> Row:
    month = day.replace(day=1)
    meter = f"{cells.get('MeterSubCategory', '')} - {cells.get('MeterName', '')}"
    return {
        "InvoiceSectionName": "Robotics",
        "AccountName": COMPANY,
        "AccountOwnerId": "billing@example.com",
        "SubscriptionId": subscription,
        "SubscriptionName": GROUPS[subscription][0],
        "ResourceGroup": GROUPS[subscription][1],
        "ResourceLocation": "eastus",
        "Date": f"{day:%m/%d/%Y}",
        "ProductName": f"{cells.get('MeterCategory', '')} {meter} - US East",
        "MeterId": guid(f"meter {meter}"),
        "MeterRegion": "US East",
        "Quantity": plain(quantity),
        "EffectivePrice": plain(price if cost else Decimal(0)),
        "CostInBillingCurrency": plain(cost),
        "CostCenter": "CC-1001",
        "OfferId": "MS-AZR-0017P",
        "UnitPrice": plain(price),
        "PublisherType": "Azure",
        "PublisherName": "Microsoft",
        "ChargeType": "Usage",
        "Frequency": "UsageBased",
        "PricingModel": "OnDemand",
        "BillingAccountId": EA_ACCOUNT,
        "BillingAccountName": COMPANY,
        "BillingCurrencyCode": "USD",
        "BillingPeriodStartDate": f"{month:%m/%d/%Y}",
        "BillingPeriodEndDate": f"{month_end(month) - DAY:%m/%d/%Y}",
        "BillingProfileId": EA_ACCOUNT,
        "BillingProfileName": COMPANY,
        "IsAzureCreditEligible": "True",
        "PartNumber": f"AAH-{digest(meter, length=5).upper()}",
        "PayGPrice": plain(price),
        **cells,
    }


def reservation_cells() -> Row:
    return {
        "ReservationId": RESERVATION,
        "ReservationName": "VM_RI_serving",
        "ProductOrderId": ORDER,
        "ProductOrderName": "Reserved VM Instance, Standard_NC24ads_A100_v4, US East, 1 Year",
        "Term": "12",
        "PricingModel": "Reservation",
        "benefitId": BENEFIT,
        "benefitName": "VM_RI_serving",
    }


def azure_vm_row(vm: AzureVm, day: datetime, amortized: bool) -> Row:
    hours = Decimal(24)
    info: Row = {"UsageType": "ComputeHR", "ImageType": "Canonical", "ServiceType": vm.size, "VMName": None}
    info["VCPUs"] = VCPUS[vm.size]
    cells: Row = {
        "MeterCategory": "Virtual Machines",
        "MeterSubCategory": vm.series,
        "MeterName": vm.size.removeprefix("Standard_").replace("_", " "),
        "UnitOfMeasure": "1 Hour",
        "ConsumedService": "Microsoft.Compute",
        "ResourceId": vm.id,
        "ResourceName": vm.name,
        # EA exports write tags without the braces that would make them JSON.
        "Tags": ",".join(f'"{key}": "{value}"' for key, value in vm.tags.items()),
        "ServiceFamily": "Compute",
    }
    cost = money(vm.rate * hours, 4)
    if vm.reserved:
        info |= {"ReservationOrderId": ORDER, "ReservationId": RESERVATION}
        cost = money(RESERVED_RATE * hours, 4) if amortized else Decimal(0)
        cells |= reservation_cells()
    cells["AdditionalInfo"] = json.dumps(info, separators=(",", ":"))
    row = azure_row(day, vm.subscription, hours, vm.rate, cost, **cells)
    return row | {"EffectivePrice": plain(RESERVED_RATE)} if vm.reserved and amortized else row


def azure_rows(month: datetime, amortized: bool) -> Iterator[Row]:
    one, days = Decimal(1), (month_end(month) - month) // DAY
    order = reservation_cells() | {
        "MeterCategory": "Virtual Machines", "MeterSubCategory": A100, "MeterName": "NC24ads A100 v4",
        "ConsumedService": "Microsoft.Capacity", "ResourceGroup": "", "ServiceFamily": "Compute",
        "UnitOfMeasure": "1 Hour", "ResourceName": "VM_RI_serving",
    }  # fmt: skip
    if not amortized:  # two machines are reserved for a year and paid by the month; one of them is never used
        fee = money(RESERVED_RATE * 24 * days, 4)
        yield azure_row(
            month, SUB_ML, Decimal(2), fee, fee * 2, **order | {"ReservationId": ORDER},
            ChargeType="Purchase", Frequency="Recurring", ResourceId=f"/providers/Microsoft.Capacity/reservationOrders/{ORDER}",
        )  # fmt: skip
    gigabytes = {name: dict(nat_gigabytes(name, mean, BILLED_FROM, DAY)) for name, (_, mean) in AZURE_NATS.items()}
    for day in steps(month, month_end(month), DAY):
        for vm in AZURE_VMS:
            yield azure_vm_row(vm, day, amortized)
        if amortized:
            unused = money(RESERVED_RATE * 24, 4)
            yield azure_row(day, SUB_ML, Decimal(24), RESERVED_RATE, unused, **order, ChargeType="UnusedReservation")
        for name, (subscription, _) in AZURE_NATS.items():
            for meter, unit, quantity in (
                ("Standard Gateway", "1 Hour", Decimal(24)),
                ("Standard Data Processed", "1 GB", gigabytes[name][day]),
            ):
                price = Decimal("0.045")
                yield azure_row(
                    day, subscription, quantity, price, money(quantity * price),
                    MeterCategory="NAT Gateway", MeterSubCategory="NAT Gateway", MeterName=meter, UnitOfMeasure=unit,
                    ConsumedService="Microsoft.Network", ResourceId=azure_nat(name), ResourceName=name,
                    Tags='"team": "platform"', ServiceFamily="Networking",
                )  # fmt: skip
    late = month + 27 * DAY
    yield azure_row(
        month + 3 * DAY, SUB_APPS, one, Decimal("249"), Decimal("249"), MeterCategory="SaaS", MeterName="Fleet Monitor Pro",
        UnitOfMeasure="1", ConsumedService="Microsoft.SaaS", PublisherType="Marketplace", PublisherName="Example Software",
        ResourceId=arm(SUB_APPS, "Microsoft.SaaS/resources", "fleet-monitor"), ResourceName="fleet-monitor",
        ChargeType="Purchase", Frequency="Recurring", ServiceFamily="Marketplace",
    )  # fmt: skip
    yield azure_row(
        late, SUB_APPS, -one, Decimal("12.5"), Decimal("-12.5"), MeterCategory="Virtual Machines",
        MeterSubCategory="Dsv5 Series", MeterName="D8s v5", UnitOfMeasure="1 Hour", ChargeType="Refund", Frequency="OneTime",
    )  # fmt: skip
    yield azure_row(
        late, SUB_ML, Decimal(0), Decimal(0), Decimal("0.0042"), ChargeType="RoundingAdjustment", Frequency="OneTime",
        ProductName="", ResourceGroup="", ResourceLocation="",
    )  # fmt: skip


def make_azure(root: Path, truth: Truth) -> None:
    """Actual and amortized exports. September was run twice: on the 19th, and after the month had ended."""
    for month in MONTHS:
        for kind, amortized in (("actual", False), ("amortized", True)):
            rows = list(azure_rows(month, amortized))
            for row in rows:
                cost = Decimal(row["CostInBillingCurrency"])
                billed, effective = (Decimal(0), cost) if amortized else (cost, Decimal(0))
                truth.add("azure", EA_ACCOUNT, month, billed, effective)
            runs = [(month_end(month) + 2 * DAY + 6 * HOUR, rows)]
            if month == WATCHED_FROM:
                cut = f"{PARTIAL_UNTIL:%m/%d/%Y}"
                runs.insert(0, (PARTIAL_UNTIL + 6 * HOUR, [row for row in rows if row["Date"] < cut]))
            for submitted, delivered in runs:
                write_azure_run(root, f"ea-{kind}", month, submitted, delivered)


def write_azure_run(root: Path, export: str, month: datetime, submitted: datetime, rows: Sequence[Row]) -> None:
    last = month_end(month) - DAY
    run = guid(f"{export}/{submitted:%Y%m%d}")
    folder = f"azure/exports/{export}/{month:%Y%m%d}-{last:%Y%m%d}/{run}"
    size = write_gzip(root / folder / "part_0_0001.csv.gz", "\ufeff" + csv_text(AZURE_COLUMNS, rows))
    write_json(
        root / folder / "manifest.json",
        {
            "manifestVersion": "2024-04-01",
            "byteCount": size,
            "blobCount": 1,
            "dataRowCount": len(rows),
            "exportConfig": {
                "exportName": export,
                "resourceId": f"/providers/Microsoft.Billing/billingAccounts/{EA_ACCOUNT}"
                f"/providers/Microsoft.CostManagement/exports/{export}",
                "dataVersion": "2021-10-01",
                "apiVersion": "2023-07-01-preview",
                "type": "AmortizedCost" if export == "ea-amortized" else "ActualCost",
                "timeFrame": "MonthToDate",
                "granularity": "Daily",
            },
            "deliveryConfig": {
                "partitionData": True,
                "dataOverwriteBehavior": "CreateNewReport",
                "fileFormat": "Csv",
                "compressionMode": "gzip",
                "containerUri": "https://acmecosts.blob.core.windows.net/exports",
                "rootFolderPath": "azure/exports",
            },
            "runInfo": {
                "executionType": "Scheduled",
                "submittedTime": rfc3339(submitted),
                "runId": run,
                "startDate": f"{month:%Y-%m-%dT%H:%M:%S}",
                "endDate": f"{last:%Y-%m-%dT%H:%M:%S}",
            },
            "blobs": [{"blobName": f"{folder}/part_0_0001.csv.gz", "byteCount": size, "dataRowCount": len(rows)}],
        },
    )
