"""The second AWS payer: a legacy report by the day, with a reservation half of which nobody uses."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from acme.aws import AWS_SERVICES, LABEL_INFER, NAT_GB_AN_HOUR, nat_arn, nat_gigabytes
from acme.files import csv_text, write_gzip, write_json
from acme.truth import (
    BILLED_FROM,
    DAY,
    HOUR,
    MONTHS,
    PARTIAL_UNTIL,
    VISION,
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

LEGACY_COLUMNS = (
    "identity/LineItemId", "identity/TimeInterval", "bill/InvoiceId", "bill/InvoicingEntity", "bill/BillingEntity",
    "bill/BillType", "bill/PayerAccountId", "bill/BillingPeriodStartDate", "bill/BillingPeriodEndDate",
    "lineItem/UsageAccountId", "lineItem/LineItemType", "lineItem/UsageStartDate", "lineItem/UsageEndDate",
    "lineItem/ProductCode", "lineItem/UsageType", "lineItem/Operation", "lineItem/AvailabilityZone",
    "lineItem/ResourceId", "lineItem/UsageAmount", "lineItem/CurrencyCode", "lineItem/UnblendedRate",
    "lineItem/UnblendedCost", "lineItem/LineItemDescription", "lineItem/TaxType", "lineItem/LegalEntity",
    "product/ProductName", "product/instanceType", "product/location", "product/productFamily", "product/regionCode",
    "product/servicecode", "product/sku", "pricing/LeaseContractLength", "pricing/OfferingClass",
    "pricing/PurchaseOption", "pricing/currency", "pricing/publicOnDemandCost", "pricing/publicOnDemandRate",
    "pricing/term", "pricing/unit", "reservation/AmortizedUpfrontCostForUsage",
    "reservation/AmortizedUpfrontFeeForBillingPeriod", "reservation/EffectiveCost", "reservation/EndTime",
    "reservation/NumberOfReservations", "reservation/RecurringFeeForUsage", "reservation/ReservationARN",
    "reservation/StartTime", "reservation/SubscriptionId", "reservation/TotalReservedUnits",
    "reservation/UnitsPerReservation", "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod",
    "reservation/UnusedQuantity", "reservation/UnusedRecurringFee", "resourceTags/user:Name",
    "resourceTags/user:team", "resourceTags/user:workload",
)  # fmt: skip
RI_ARN = f"arn:aws:ec2:eu-west-1:{VISION}:reserved-instances/{guid('reserved instances')}"
# Half of it was paid before the first bill here, so amortised cost is above what is billed.
RI_RECURRING, RI_UPFRONT = Decimal("0.1849"), Decimal("0.1849")
RI_RATE = RI_RECURRING + RI_UPFRONT


def legacy_row(kind: str, start: datetime, end: datetime, cost: Decimal, **cells: Any) -> Row:
    month = start.replace(day=1)
    name = (kind, str(cells.get("lineItem/UsageType")), str(cells.get("lineItem/ResourceId")))
    return {
        "identity/LineItemId": digest(*name, length=52),
        "identity/TimeInterval": f"{rfc3339(start)}/{rfc3339(end)}",
        "bill/InvoiceId": f"18{month:%Y%m}07",
        "bill/InvoicingEntity": "Amazon Web Services EMEA SARL",
        "bill/BillingEntity": "AWS",
        "bill/BillType": "Anniversary",
        "bill/PayerAccountId": VISION,
        "bill/BillingPeriodStartDate": rfc3339(month),
        "bill/BillingPeriodEndDate": rfc3339(month_end(month)),
        "lineItem/UsageAccountId": VISION,
        "lineItem/LineItemType": kind,
        "lineItem/UsageStartDate": rfc3339(start),
        "lineItem/UsageEndDate": rfc3339(end),
        "lineItem/ProductCode": "AmazonEC2",
        "lineItem/CurrencyCode": "USD",
        "lineItem/UnblendedCost": plain(cost),
        "lineItem/LegalEntity": "Amazon Web Services EMEA SARL",
        "product/ProductName": AWS_SERVICES["AmazonEC2"],
        "product/location": "EU (Ireland)",
        "product/regionCode": "eu-west-1",
        "product/servicecode": "AmazonEC2",
        "pricing/currency": "USD",
        **cells,
    }


def legacy_rows(month: datetime) -> Iterator[tuple[Row, Decimal]]:
    end = month_end(month)
    hours = Decimal((end - month) // HOUR)
    reservation = {
        "pricing/term": "Reserved",
        "pricing/LeaseContractLength": "1yr",
        "pricing/OfferingClass": "standard",
        "pricing/PurchaseOption": "Partial Upfront",
        "reservation/ReservationARN": RI_ARN,
        "reservation/SubscriptionId": "1234567890",
    }
    fee, upfront = RI_RECURRING * hours * 2, RI_UPFRONT * hours * 2
    yield legacy_row(
        "RIFee", month, end, fee, **reservation,
        **{
            "lineItem/UsageType": "EU-HeavyUsage:g4dn.xlarge", "lineItem/Operation": "RunInstances",
            "lineItem/ResourceId": RI_ARN, "lineItem/UsageAmount": plain(hours * 2),
            "lineItem/LineItemDescription": "USD 0.1849 hourly fee per Linux/UNIX (Amazon VPC), g4dn.xlarge instance",
            "reservation/NumberOfReservations": "2", "reservation/TotalReservedUnits": plain(hours * 2),
            "reservation/UnitsPerReservation": plain(hours), "reservation/UnusedQuantity": plain(hours),
            "reservation/UnusedRecurringFee": plain(fee / 2),
            "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": plain(upfront / 2),
            "reservation/AmortizedUpfrontFeeForBillingPeriod": plain(upfront),
            "reservation/StartTime": "2026-05-01T00:00:00.000Z", "reservation/EndTime": "2027-05-01T00:00:00.000Z",
        },
    ), (fee + upfront) / 2  # fmt: skip
    gigabytes = dict(nat_gigabytes("vision", NAT_GB_AN_HOUR["vision"] * 24, BILLED_FROM, DAY))
    box, nat = LABEL_INFER, nat_arn("vision")
    for when in steps(month, end, DAY):
        covered = money(RI_RATE * 24)
        yield legacy_row(
            "DiscountedUsage", when, when + DAY, Decimal(0), **reservation,
            **{
                "lineItem/UsageType": f"EU-BoxUsage:{box.type}", "lineItem/Operation": "RunInstances",
                "lineItem/ResourceId": box.id, "lineItem/AvailabilityZone": box.zone, "lineItem/UsageAmount": "24",
                "lineItem/UnblendedRate": "0",
                "lineItem/LineItemDescription": f"Linux/UNIX (Amazon VPC), {box.type} reserved instance applied",
                "product/instanceType": box.type, "product/productFamily": "Compute Instance",
                "product/sku": digest(box.type, length=16).upper(), "pricing/unit": "Hrs",
                "pricing/publicOnDemandRate": plain(box.rate), "pricing/publicOnDemandCost": plain(box.rate * 24),
                "reservation/EffectiveCost": plain(covered), "reservation/RecurringFeeForUsage": plain(RI_RECURRING * 24),
                "reservation/AmortizedUpfrontCostForUsage": plain(RI_UPFRONT * 24),
                "resourceTags/user:Name": box.name, "resourceTags/user:team": "vision",
                "resourceTags/user:workload": "inference",
            },
        ), covered  # fmt: skip
        for usage_type, amount, unit in (("NatGateway-Hours", Decimal(24), "Hrs"),
                                         ("NatGateway-Bytes", gigabytes[when], "GB")):  # fmt: skip
            cost = money(amount * Decimal("0.048"))
            yield legacy_row(
                "Usage", when, when + DAY, cost,
                **{
                    "lineItem/UsageType": f"EU-{usage_type}", "lineItem/Operation": "NatGateway",
                    "lineItem/ResourceId": nat, "lineItem/UsageAmount": plain(amount), "lineItem/UnblendedRate": "0.048",
                    "lineItem/LineItemDescription": f"$0.048 per {unit} of NAT gateway in EU (Ireland)",
                    "product/productFamily": "NAT Gateway", "product/sku": digest(usage_type, length=16).upper(),
                    "pricing/term": "OnDemand", "pricing/unit": unit, "pricing/publicOnDemandRate": "0.048",
                    "pricing/publicOnDemandCost": plain(cost), "resourceTags/user:team": "platform",
                },
            ), cost  # fmt: skip
        discount = money(Decimal(-5) * cost / 100)
        yield legacy_row(
            "EdpDiscount", when, when + DAY, discount,
            **{
                "lineItem/UsageType": "EU-NatGateway-Bytes", "lineItem/Operation": "NatGateway",
                "lineItem/ResourceId": nat, "lineItem/UsageAmount": "0",
                "lineItem/LineItemDescription": "AWS Enterprise Discount Program",
            },
        ), discount  # fmt: skip
    yield legacy_row(
        "Tax", month, end, Decimal("61.17"),
        **{"lineItem/UsageAmount": "1", "lineItem/TaxType": "VAT", "lineItem/LineItemDescription": "Tax of type VAT"},
    ), Decimal("61.17")  # fmt: skip


def make_legacy_cur(root: Path, truth: Truth) -> None:
    """September comes twice: an assembly that stops on the 18th, and the whole one that the period's manifest names."""
    for month in MONTHS:
        made = list(legacy_rows(month))
        for row, effective in made:
            truth.add("aws", VISION, month, Decimal(row["lineItem/UnblendedCost"]), effective)
        rows = [row for row, _ in made]
        assemblies = [("whole", rows)]
        if month == WATCHED_FROM:
            cut = rfc3339(PARTIAL_UNTIL)
            early = [row for row in rows if row["lineItem/UsageEndDate"] <= cut]
            assemblies.insert(0, ("early", early))
        period = f"{month:%Y%m%d}-{month_end(month):%Y%m%d}"
        folder = root / "aws" / "legacy" / "acme-vision" / period
        for name, delivered in assemblies:
            assembly = guid(f"{period}/{name}")
            key = f"aws/legacy/acme-vision/{period}/{assembly}/acme-vision-00001.csv.gz"
            manifest = {
                "assemblyId": assembly,
                "account": VISION,
                "columns": [
                    {"category": column.split("/")[0], "name": column.split("/")[1], "type": "OptionalString"}
                    for column in LEGACY_COLUMNS
                ],
                "charset": "UTF-8",
                "compression": "GZIP",
                "contentType": "text/csv",
                "reportId": digest("acme-vision", length=64),
                "reportName": "acme-vision",
                "billingPeriod": {
                    "start": f"{month:%Y%m%dT%H%M%S.000Z}",
                    "end": f"{month_end(month):%Y%m%dT%H%M%S.000Z}",
                },
                "bucket": "acme-vision-billing",
                "reportKeys": [key],
                "additionalArtifactKeys": [],
            }
            write_gzip(root / key, csv_text(LEGACY_COLUMNS, delivered))
            write_json(folder / assembly / "acme-vision-Manifest.json", manifest)
            write_json(folder / "acme-vision-Manifest.json", manifest)  # the last one stays: it names the whole one
