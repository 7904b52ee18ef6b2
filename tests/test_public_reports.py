"""What users of other tools found wrong in public, as small inputs of our own: none of it may happen here.

A docstring begins with the report, repository#number. Left out is Azure/azqr#1025 (a page answered with 429 in the midst
of a scan), which needs a live collector.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auditor import bills
from auditor.cli.request import make_request
from auditor.deliver import make_digest, write
from auditor.lake import marts, store
from auditor.progress import Silent
from auditor.render import render
from auditor.scan import ScanResult, scan
from auditor.state import State

D = Decimal
NOW = datetime(2026, 11, 20, 6, tzinfo=UTC)  # October is long over: none of its days is held back
PAYER = "111122223333"
OCTOBER = range(1, 32)
CHEAP = ("spend.untagged_accelerators",)  # one rule, where a test is about the bill alone
START = datetime(2026, 10, 1, tzinfo=UTC)
SCRIPT, HANDLER, FORMULA = (
    "<script>alert(1)</script>",
    '"><i onmouseover="alert(2)">',
    '=HYPERLINK("https://evil.example.com","x")',
)
Row = Mapping[str, object]


@dataclass(frozen=True)
class Audited:
    """One run over one folder, and every charge that counts afterwards."""

    result: ScanResult
    charges: list[dict[str, Any]]
    ledger: list[dict[str, Any]]  # the hours of accelerators as the bill alone tells them

    @property
    def document(self) -> dict[str, Any]:
        return self.result.document

    def of(self, **wanted: object) -> list[dict[str, Any]]:
        return [row for row in self.charges if all(row[name] == value for name, value in wanted.items())]

    def findings(self, resource: str, rule: str | None = None) -> list[dict[str, Any]]:
        return [
            finding
            for finding in self.document["findings"]
            if (finding["resource_id"] or "").endswith(resource) and rule in (None, finding["rule_id"])
        ]

    def rules_of(self, resource: str) -> set[str]:
        return {finding["rule_id"] for finding in self.findings(resource)}


def audited(
    folder: Path, files: Mapping[str, str], data_dir: Path, *, as_of: date, rules: Sequence[str] = ()
) -> Audited:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    request = make_request(paths=(str(folder),), data_dir=data_dir, as_of=as_of, rules=tuple(rules))
    result = scan(request, Silent(), NOW)
    with closing(store.connect("512MiB", 1, folder)) as con:
        with State.open(request.settings.state.address(data_dir)) as state:
            choice = bills.choose([bills.from_record(record) for record in state.deliveries() if record.identities])
            store.load(con, data_dir, state.live_files())
        store.keep_counted(con, choice.counted, choice.partly)
        store.pair_azure_costs(con)
        end = datetime(as_of.year, as_of.month, as_of.day, tzinfo=UTC)
        window = marts.Window(end - timedelta(days=30), end)
        marts.build_marts(con, dict.fromkeys(("aws", "gcp", "azure"), window), marts.LedgerThresholds(0.05, 0.05, 0.8))

        def rows(table: str) -> list[dict[str, Any]]:
            cursor = con.execute(f"select * from {table}")
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        return Audited(result, rows("charges"), rows("accelerator_hours"))


def total(rows: Iterable[Row], measure: str = "BilledCost") -> Decimal:
    return sum((D(str(row[measure] or 0)) for row in rows), D(0))


def as_csv(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def aws(account: str, cost: str, day: int = 1, kind: str = "Usage", days: int = 1, **more: object) -> dict[str, object]:
    """A line of a Cost and Usage Report of October 2026."""
    start = START + timedelta(days=day - 1)
    return {
        "bill/PayerAccountId": PAYER,
        "bill/BillingPeriodStartDate": "2026-10-01T00:00:00Z",
        "bill/BillingPeriodEndDate": "2026-11-01T00:00:00Z",
        "lineItem/UsageAccountId": account,
        "lineItem/LineItemType": kind,
        "lineItem/UsageStartDate": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "lineItem/UsageEndDate": f"{start + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}",
        "lineItem/ProductCode": "AmazonEC2",
        "lineItem/CurrencyCode": "USD",
        "lineItem/UnblendedCost": cost,
        "product/region": "us-east-1",
        **{f"lineItem/{name}": value for name, value in more.items() if "/" not in name},
        **{name: value for name, value in more.items() if "/" in name},
    }


def machine(account: str, resource: str, machine_type: str, hourly: str, days: Iterable[int] = OCTOBER) -> list[Row]:
    """A machine that runs around the clock at the on-demand price, a line a day."""
    return [
        aws(
            account,
            str(D(hourly) * 24),
            day,
            UsageType=f"BoxUsage:{machine_type}",
            Operation="RunInstances",
            ResourceId=resource,
            UsageAmount="24",
            **{"product/instanceType": machine_type, "pricing/unit": "Hrs"},
        )
        for day in days
    ]


def nat_gateway(account: str, resource: str, daily: str = "1.08", gigabytes: str = "", **more: object) -> list[Row]:
    resource_id = f"arn:aws:ec2:us-east-1:{account}:natgateway/{resource}"
    common = {"Operation": "NatGateway", "ResourceId": resource_id, **more}
    hours = [aws(account, daily, day, UsageType="NatGateway-Hours", UsageAmount="24", **common) for day in OCTOBER]
    carried = [
        aws(account, str(D(gigabytes) * D("0.045")), day, UsageType="NatGateway-Bytes", UsageAmount=gigabytes, **common)
        for day in OCTOBER
        if gigabytes
    ]
    return hours + carried


def gcp(cost: str, sku: str, start: datetime, hours: int, **more: object) -> dict[str, object]:
    """A row of a billing export."""
    return {
        "billing_account_id": "0A1B2C-3D4E5F-0A1B2C",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": sku[:9], "description": sku},
        "usage_start_time": f"{start:%Y-%m-%d %H:%M:%S} UTC",
        "usage_end_time": f"{start + timedelta(hours=hours):%Y-%m-%d %H:%M:%S} UTC",
        "project": {"id": "acme-ml", "name": "acme-ml"},
        "location": {"location": "us-central1", "region": "us-central1", "zone": "us-central1-a"},
        "export_time": f"{start + timedelta(days=1):%Y-%m-%d %H:%M:%S} UTC",
        "cost": cost,
        "currency": "USD",
        "usage": {"amount_in_pricing_units": str(hours), "pricing_unit": "hour"},
        "credits": [],
        "invoice": {"month": f"{start:%Y%m}"},
        "cost_type": "regular",
        **more,
    }


def gcp_machine(name: str, machine_type: str, parts: Mapping[str, str], days: Iterable[int]) -> list[Row]:
    """A machine as the export has it: cores, memory and accelerators on lines of their own, costs by the hour."""
    resource = f"//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/{name}"
    return [
        gcp(
            str(D(hourly) * 24),
            sku,
            START + timedelta(days=day - 1),
            24,
            resource={"name": name, "global_name": resource},
            system_labels=[{"key": "compute.googleapis.com/machine_spec", "value": machine_type}],
        )
        for day in days
        for sku, hourly in parts.items()
    ]


def azure(
    cost: str, day: int, resource: str, month: int = 10, currency: str = "USD", **more: object
) -> dict[str, object]:
    subscription = "00000000-1111-2222-3333-444444444444"
    return {
        "BillingAccountId": "8000001",
        "SubscriptionId": subscription,
        "BillingPeriodStartDate": f"{month:02d}/01/2026",
        "Date": f"{month:02d}/{day:02d}/2026",
        "ChargeType": "Usage",
        "PricingModel": "OnDemand",
        "ResourceLocation": "westeurope",
        "ResourceId": f"/subscriptions/{subscription}/resourceGroups/rg/providers/{resource}",
        "Quantity": "24",
        "UnitOfMeasure": "1 Hour",
        "CostInBillingCurrency": cost,
        "BillingCurrencyCode": currency,
        **more,
    }


def prometheus(*series: tuple[str, float, Mapping[str, str]]) -> str:
    """An answer of `query_range`, a reading an hour for all of October."""
    result = [
        {
            "metric": {"__name__": name, **labels},
            "values": [[START.timestamp() + 3600 * hour, str(value)] for hour in range(31 * 24)],
        }
        for name, value, labels in series
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def samples(*series: tuple[str, str, str, float]) -> str:
    """Our own metrics table, a reading an hour for all of October."""
    return as_csv(
        [
            {
                "time": f"{START + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ}",
                "provider": "gcp" if resource == UNBILLED else "aws",
                "resource_id": resource,
                "device": device,
                "metric": metric,
                "value": value,
            }
            for resource, device, metric, value in series
            for hour in range(31 * 24)
        ]
    )


def price(machine_type: str, kind: str, amount: str, unit: str = "hour", **more: str) -> dict[str, object]:
    return {
        "provider": "aws",
        "region": "us-east-1",
        "machine_type": machine_type,
        "price_kind": kind,
        "price": amount,
        "unit": unit,
        "currency": "USD",
        "source": "price agreement",
        "as_of": "2026-09-01",
        **more,
    }


def offer(machine_type: str) -> str:
    """An AWS offer file: one machine at 1.00 an hour on demand, and six ways to commit to it."""

    def term(years: int, option: str, upfront: str, hourly: str) -> dict[str, Any]:
        fees = [("Quantity", upfront), ("Hrs", hourly)]
        return {
            "priceDimensions": {unit: {"unit": unit, "pricePerUnit": {"USD": fee}} for unit, fee in fees if fee},
            "termAttributes": {
                "LeaseContractLength": f"{years}yr",
                "PurchaseOption": option,
                "OfferingClass": "standard",
            },
        }

    return json.dumps(
        {
            "formatVersion": "v1.0",
            "offerCode": "AmazonEC2",
            "publicationDate": "2026-10-02T10:11:12Z",
            "products": {
                "A": {
                    "sku": "A",
                    "productFamily": "Compute Instance",
                    "attributes": {
                        "servicecode": "AmazonEC2",
                        "instanceType": machine_type,
                        "regionCode": "us-east-1",
                        "locationType": "AWS Region",
                        "operatingSystem": "Linux",
                        "tenancy": "Shared",
                        "preInstalledSw": "NA",
                        "capacitystatus": "Used",
                    },
                }
            },
            "terms": {
                "OnDemand": {
                    "A": {
                        "A.1": {
                            "priceDimensions": {"h": {"unit": "Hrs", "pricePerUnit": {"USD": "1.00"}}},
                            "termAttributes": {},
                        }
                    }
                },
                "Reserved": {
                    "A": {
                        "A.2": term(1, "No Upfront", "", "0.70"),
                        "A.3": term(1, "Partial Upfront", "2978.4", "0.34"),  # 0.34 + 2978.4 / 8760 = 0.68
                        "A.4": term(1, "All Upfront", "5781.6", "0.00"),  # 5781.6 / 8760 = 0.66
                        "A.5": term(3, "No Upfront", "", "0.50"),
                        "A.6": term(3, "Partial Upfront", "6307.2", "0.24"),
                        "A.7": term(3, "All Upfront", "12088.8", "0.00"),  # 12088.8 / 26280 = 0.46
                    }
                },
            },
        }
    )


def flow(start: datetime, size: int) -> str:
    """A record of a balancer in one zone that sends to its target in another."""
    at = int(start.timestamp())
    return f"5 111100000019 vpc-0a - eni-0balancer 10.0.1.10 10.0.2.20 10.0.1.10 10.0.2.20 443 8080 6 {size} {at} {at + 59} ACCEPT OK use1-az1 egress - - 1"


FLOW_FIELDS = "version account-id vpc-id instance-id interface-id srcaddr dstaddr pkt-srcaddr pkt-dstaddr srcport dstport protocol bytes start end action log-status az-id flow-direction pkt-src-aws-service pkt-dst-aws-service traffic-path"
BALANCER = "arn:aws:elasticloadbalancing:us-east-1:111100000019:loadbalancer/app/front/0a1b2c3d4e5f6a7b"
UNBILLED = "//compute.googleapis.com/projects/acme-new/zones/us-central1-a/instances/unbilled"
SLICE = {"hostname": "i-0mig000000000011", "gpu": "0", "UUID": "GPU-11", "GPU_I_ID": "1", "GPU_I_PROFILE": "3g.40gb"}
WHOLE = {"hostname": "i-0idle00000000011", "gpu": "0", "UUID": "GPU-12"}
NEW_MACHINES = {
    "ultra": (
        "a2-ultragpu-1g",
        {
            "A2 Instance Core running in Americas": "0.40",
            "A2 Instance Ram running in Americas": "0.60",
            "Nvidia Tesla A100 80GB GPU running in Americas": "4.00",
        },
    ),
    "small": (
        "g2-standard-4",
        {
            "G2 Instance Core running in Americas": "0.10",
            "G2 Instance Ram running in Americas": "0.05",
            "Nvidia L4 GPU running in Americas": "0.55",
        },
    ),
    "large": (
        "a3-highgpu-8g",
        {
            "A3 Instance Core running in Americas": "6.00",
            "A3 Instance Ram running in Americas": "4.00",
            "Nvidia H100 80GB GPU running in Americas": "78.00",
        },
    ),
    "novel": (
        "a9-novagpu-2g",
        {
            "A9 Instance Core running in Americas": "1.00",
            "A9 Instance Ram running in Americas": "2.00",
            "Nvidia X900 480GB GPU running in Americas": "30.00",
        },
    ),
}


def october() -> dict[str, str]:
    """The files of one estate; each report has an account of its own in it."""
    plan = {"savingsPlan/SavingsPlanARN": "arn:aws:savingsplans::111122223333:savingsplan/0a1b"}
    refunded = {"ProductCode": "ComputeSavingsPlans", "UsageType": "ComputeSP:1yrAllUpfront"}
    pair = {
        "UsageType": "BoxUsage:m5.large",
        "Operation": "RunInstances",
        "ResourceId": "i-0covered",
        "UsageAmount": "1",
        **plan,
    }
    cur: list[Row] = [
        aws("111100000001", "0.096", kind="SavingsPlanCoveredUsage", **pair, **{"savingsPlan/SavingsPlanEffectiveCost": "0.07"}),
        aws("111100000001", "-0.096", kind="SavingsPlanNegation", **pair),
        aws("111100000002", "1000", 5, kind="SavingsPlanUpfrontFee", LineItemDescription="1 year All Upfront Compute Savings Plan", **refunded),
        aws("111100000002", "-1000", 9, kind="Refund", LineItemDescription="Refund for one-time fee for Savings Plan ID 0a1b", **refunded),
        *nat_gateway("111100000007", "nat-0credited", "33.86"),
        *(aws("111100000007", "-33.86", day, kind="Credit", LineItemDescription="Promotional credit") for day in OCTOBER),
        *nat_gateway("111100000008", "nat-0dollars", "2.40"),
        *nat_gateway("111100000009", "nat-0public", gigabytes="5"),
        *nat_gateway("111100000009", "nat-0silent"),
        *machine("111100000011", "i-0mig000000000011", "p5.4xlarge", "6.88"),
        *machine("111100000011", "i-0idle00000000011", "p5.4xlarge", "6.88"),
        *machine("111100000015", "i-0node00000000015", "g5.2xlarge", "1.35296", (31,)),
        *nat_gateway("111100000017", "nat-0script", **{"resourceTags/user:team": SCRIPT, "resourceTags/user:note": HANDLER}),
        *nat_gateway("111100000017", "nat-0formula", **{"resourceTags/user:team": FORMULA}),
        *(aws("111100000019", "0.54", day, ProductCode="AWSELB", UsageType="LoadBalancerUsage", Operation="LoadBalancing:Application", UsageAmount="24", ResourceId=BALANCER) for day in OCTOBER),
        *(aws("111100000019", "9.60", day, ProductCode="AWSELB", UsageType="LCUUsage", Operation="LoadBalancing:Application", UsageAmount="1200", ResourceId=BALANCER) for day in OCTOBER),
        *(aws("111100000019", "0", day, ProductCode="AWSELB", UsageType="DataTransfer-Regional-Bytes", Operation="LoadBalancing-Out", UsageAmount="2000", ResourceId=BALANCER) for day in OCTOBER),
        *(aws("111100000019", "20", day, UsageType="DataTransfer-Regional-Bytes", Operation="InterZone-Out", UsageAmount="2000", ResourceId="i-0talker") for day in OCTOBER),
        *machine("111100000021", "i-0busy00000000021", "g5.xlarge", "1.006"),
        *machine("111100000021", "i-0dark00000000021", "g5.xlarge", "1.006"),
        *machine("111100000023", "i-0steady000000023", "g6.2xlarge", "1.00"),
        aws("111100000025", "29.76", days=31, UsageType="EBS:VolumeUsage.gp3", Operation="CreateVolume-Gp3", ResourceId="vol-0month", UsageAmount="372"),
        aws("111100000025", "0.30", days=31, ProductCode="AmazonCloudWatch", UsageType="CW:AlarmMonitorUsage", ResourceId="alarm-0month", UsageAmount="1", **{"pricing/unit": "Alarms"}),
        *machine("111100000027", "i-0single0000000027", "g4dn.xlarge", "2.00"),
        *machine("111100000027", "i-0fourfold00000027", "g4dn.12xlarge", "8.00"),
        *machine("111100000027", "i-0monthly000000027", "g6.xlarge", "2.00"),
    ]  # fmt: skip
    rows_of_gcp = [
        row
        for name, (machine_type, parts) in NEW_MACHINES.items()
        for row in gcp_machine(name, machine_type, parts, OCTOBER)
    ]
    parts = {
        "G2 Instance Core running in Americas": "0.2",
        "G2 Instance Ram running in Americas": "0.09371",
        "Nvidia L4 GPU running in Americas": "1.05925",
    }
    rows_of_gcp += gcp_machine("node", "g2-standard-8", parts, (31,))
    at_midnight = datetime(2025, 8, 1, tzinfo=UTC)
    crossing = [
        gcp("10.25", "N2 Instance Core running in Americas", at_midnight, 1, invoice={"month": "202507"}),
        gcp(
            "5.50",
            "N2 Instance Core running in Americas",
            at_midnight + timedelta(hours=7),
            1,
            invoice={"month": "202508"},
        ),
        gcp(
            "7.75",
            "N2 Instance Ram running in Americas",
            at_midnight + timedelta(hours=23),
            1,
            invoice={"month": "202508"},
        ),
    ]
    euros = [
        row
        for day in OCTOBER
        for row in (
            azure("1.20", day, "Microsoft.Network/natGateways/nat-euros", currency="EUR", MeterCategory="NAT Gateway", MeterName="Standard Gateway"),
            azure("96.00", day, "Microsoft.Compute/virtualMachines/vm-euros", currency="EUR", MeterCategory="Virtual Machines", MeterSubCategory="NCads A100 v4 Series", MeterName="NC24ads A100 v4", AdditionalInfo='{"ServiceType":"Standard_NC24ads_A100_v4"}'),
        )
    ]  # fmt: skip
    in_dollars = {"provider": "azure", "region": "westeurope"}
    prices = [
        price("Standard_NC24ads_A100_v4", "on_demand", "4.00", **in_dollars),
        price("Standard_NC24ads_A100_v4", "commit_1y", "0.40", **in_dollars),
        price("Standard_NC24ads_A100_v4", "commit_1y", "0.20", currency="", **in_dollars),
        price("g4dn.xlarge", "on_demand", "2.00"),
        price("g4dn.xlarge", "commit_1y", "1.00"),
        price("g4dn.12xlarge", "on_demand", "2.00", "gpu-hour"),
        price("g4dn.12xlarge", "commit_1y", "1.00", "gpu-hour"),
        price("g6.xlarge", "on_demand", "2.00"),
        price("g6.xlarge", "commit_1y", "730", "month"),
    ]
    nats = {
        "NatGateways": [
            {"NatGatewayId": name, "VpcId": "vpc-0a", "SubnetId": "subnet-0public", "State": "available", "ConnectivityType": "public", "CreateTime": "2026-01-01T00:00:00+00:00", "NatGatewayAddresses": [], "Tags": []}
            for name in ("nat-0public", "nat-0silent")
        ]
    }  # fmt: skip
    subnets = {"Subnets": [{"SubnetId": "subnet-0public", "VpcId": "vpc-0a", "AvailabilityZone": "us-east-1a", "OwnerId": "111100000009", "CidrBlock": "10.0.0.0/24", "State": "available", "SubnetArn": "arn:aws:ec2:us-east-1:111100000009:subnet/subnet-0public"}]}  # fmt: skip
    volumes = {"Volumes": [{"VolumeId": "vol-0month", "VolumeType": "gp3", "Size": 372, "State": "available", "AvailabilityZone": "us-east-1a", "CreateTime": "2026-01-01T00:00:00+00:00", "Attachments": [], "Tags": []}]}  # fmt: skip
    unbilled = [{"id": "424242", "name": "unbilled", "kind": "compute#instance", "status": "RUNNING", "zone": "https://www.googleapis.com/compute/v1/projects/acme-new/zones/us-central1-a", "machineType": "https://www.googleapis.com/compute/v1/projects/acme-new/zones/us-central1-a/machineTypes/a9-novagpu-2g", "selfLink": "https://www.googleapis.com/compute/v1/projects/acme-new/zones/us-central1-a/instances/unbilled", "creationTimestamp": "2026-09-01T00:00:00.000-07:00", "guestAccelerators": [{"acceleratorCount": 2, "acceleratorType": "https://www.googleapis.com/compute/v1/projects/acme-new/zones/us-central1-a/acceleratorTypes/nvidia-x900"}]}]  # fmt: skip
    flows = [FLOW_FIELDS, *(flow(START + timedelta(days=day - 1, hours=12), 2 * 10**12) for day in OCTOBER)]
    return {
        "aws/cur.csv": as_csv(cur),
        "gcp/october.jsonl": "".join(json.dumps(row) + "\n" for row in rows_of_gcp),
        "gcp-august/rows.jsonl": "".join(json.dumps(row) + "\n" for row in crossing),
        "azure/euros.csv": as_csv(euros),
        "prices/agreed.csv": as_csv(prices),
        "prices/offer.json": offer("g6.2xlarge"),
        "inventory/nat.json": json.dumps(nats),
        "inventory/subnets.json": json.dumps(subnets),
        "inventory/volumes.json": json.dumps(volumes),
        "inventory/gcloud.json": json.dumps(unbilled),
        "flows/vpc.log": "\n".join(flows) + "\n",
        "telemetry/dcgm.json": prometheus(
            ("DCGM_FI_DEV_GPU_UTIL", 0, SLICE),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.8, SLICE),
            ("DCGM_FI_DEV_GPU_UTIL", 0, WHOLE),
        ),
        "telemetry/metrics.csv": samples(
            ("i-0busy00000000021", "", "cpu.utilization", 0.05),
            ("i-0busy00000000021", "0", "gpu.utilization", 0.95),
            ("i-0dark00000000021", "", "cpu.utilization", 0.01),
            (UNBILLED, "0", "gpu.utilization", 0.0),
        ),
    }


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp("reports")
    made = audited(folder / "files", october(), folder / "data", as_of=date(2026, 11, 1))
    assert {(s["paths"][0], s["status"]) for s in made.document["sources"] if s["status"] != "ok"} == set()
    return made


def money(finding: Mapping[str, Any], name: str = "monthly_savings") -> Decimal:
    return D(finding[name]).quantize(D("0.0001"))


def test_covered_usage_and_its_negation_are_one_hour_at_the_effective_cost(estate: Audited) -> None:
    """project-koku/koku#5252"""
    rows = estate.of(SubAccountId="111100000001")
    assert total(rows, "ConsumedQuantity") == 1
    assert total(rows, "EffectiveCost") == D("0.07")
    assert total(rows) == 0


def test_a_refund_of_a_savings_plan_is_no_negative_cost_once_amortised(estate: Audited) -> None:
    """aws-solutions-library-samples/cloud-intelligence-dashboards-framework#1087"""
    rows = estate.of(SubAccountId="111100000002")
    by_day = {day: total([row for row in rows if row["day"] == day]) for day in {row["day"] for row in rows}}
    assert by_day == {date(2026, 10, 5): 1000, date(2026, 10, 9): -1000}
    assert {row["EffectiveCost"] for row in rows} == {0}


def test_usage_of_a_day_that_two_invoices_share_adds_up_in_both_views(estate: Audited) -> None:
    """project-koku/koku#3098"""
    rows = [row for row in estate.charges if row["provider"] == "gcp" and row["day"].year == 2025]
    assert {row["day"] for row in rows} == {date(2025, 8, 1)}
    invoices = {
        row["billing_period"]: D(row["lake_billed_cost"])
        for row in estate.document["reconciliation"]
        if row["provider"] == "gcp" and row["billing_period"] < "2026"
    }
    assert invoices == {"2025-07": D("10.25"), "2025-08": D("13.25")}
    assert sum(invoices.values()) == total(rows)
    assert {D(row["difference"]) for row in estate.document["reconciliation"]} == {0}


def june(last: int) -> str:
    return as_csv(
        [
            azure("1", day, f"Microsoft.Compute/virtualMachines/vm-{day}", month=6, MeterCategory="Virtual Machines", MeterName="D2 v3")
            for day in range(1, last + 1)
        ]
    )  # fmt: skip


@pytest.mark.parametrize("name", ["once/e.csv", "daily/e.csv"])
def test_a_one_time_export_beside_the_daily_one_counts_its_days_once_and_takes_none_away(
    tmp_path: Path, name: str
) -> None:
    """microsoft/finops-toolkit#320"""
    first = {"once/e.csv": june(9), "daily/e.csv": june(20)}
    made = audited(tmp_path / "first", first, tmp_path / "data", as_of=date(2026, 7, 1), rules=CHEAP)
    assert total(made.charges) == 20
    again = audited(tmp_path / "later", {name: june(9)}, tmp_path / "data", as_of=date(2026, 7, 1), rules=CHEAP)
    assert {row["day"].day: row["BilledCost"] for row in again.charges} == dict.fromkeys(range(1, 21), D(1))
    assert len(again.charges) == 20


def test_credits_that_pay_for_all_usage_hide_neither_the_usage_nor_its_waste(estate: Audited) -> None:
    """awslabs/mcp#1909"""
    rows = estate.of(SubAccountId="111100000007", day=date(2026, 10, 31))
    assert total(row for row in rows if row["ChargeCategory"] == "Usage") == D("33.86")
    assert total(row for row in rows if row["ChargeCategory"] == "Credit") == D("-33.86")
    assert total(rows) == 0
    (finding,) = estate.findings("nat-0credited", "network.nat_idle")
    assert money(finding) == money({"monthly_savings": D("33.86") * 730 / 24})


def test_credits_of_a_cost_api_stand_beside_the_usage_of_their_service(tmp_path: Path) -> None:
    """awslabs/mcp#1909"""
    groups = [
        {"Keys": ["EC2 - Other", kind], "Metrics": {"UnblendedCost": {"Amount": amount, "Unit": "USD"}}}
        for kind, amount in (("Usage", "33.86"), ("Credit", "-33.86"))
    ]
    answer = cost_explorer([("DIMENSION", "SERVICE"), ("DIMENSION", "RECORD_TYPE")], groups)
    made = audited(tmp_path / "in", {"ce/answer.json": answer}, tmp_path / "data", as_of=date(2026, 11, 1), rules=CHEAP)
    assert {row["ChargeCategory"]: row["BilledCost"] for row in made.charges} == {
        "Usage": D("33.86"),
        "Credit": D("-33.86"),
    }


def test_two_currencies_are_never_one_sum_and_no_price_crosses_over(estate: Audited) -> None:
    """helderpinto/AzureOptimizationEngine#112"""
    (euros,), (dollars,) = (estate.findings(name, "network.nat_idle") for name in ("nat-euros", "nat-0dollars"))
    assert (euros["currency"], money(euros)) == ("EUR", D("36.5000"))
    assert (dollars["currency"], money(dollars)) == ("USD", D("73.0000"))
    sums = {
        currency: sum(
            D(finding["monthly_savings_net"])
            for finding in estate.document["findings"]
            if finding["currency"] == currency and finding["confidence"] != "low"
        )
        for currency in ("USD", "EUR")
    }
    totals = estate.document["totals"]
    (other,) = totals["other_currencies"]
    assert (totals["currency"], other["currency"]) == ("USD", "EUR")
    assert abs(D(totals["monthly_savings_net"]) - sums["USD"]) < D("0.000001")
    assert abs(D(other["monthly_savings_net"]) - sums["EUR"]) < D("0.000001")
    # The list is in dollars, one price without a currency at all: neither is a discount of a bill in euros.
    (steady,) = estate.findings("vm-euros", "purchase.on_demand_steady")
    assert steady["confidence"] == "low"
    assert D(steady["monthly_savings"]) == 0
    assert "discount" not in steady["evidence"]


def test_a_nat_gateway_in_a_subnet_without_machines_is_in_use_while_bytes_pass(estate: Audited) -> None:
    """turbot/steampipe-mod-aws-thrifty#101"""
    assert "network.nat_idle" not in estate.rules_of("nat-0public")
    assert "network.nat_idle" in estate.rules_of("nat-0silent")


def test_a_partitioned_gpu_is_judged_by_its_slices(estate: Audited) -> None:
    """NVIDIA/dcgm-exporter#216"""
    assert not estate.rules_of("i-0mig000000000011") & {
        "gpu.idle_instance",
        "gpu.no_telemetry",
        "gpu.underused_instance",
    }
    assert "gpu.idle_instance" in estate.rules_of("i-0idle00000000011")


@pytest.mark.parametrize("name", NEW_MACHINES)
def test_a_machine_type_that_nobody_has_heard_of_costs_what_its_bill_says(estate: Audited, name: str) -> None:
    """opencost/opencost#2215"""
    hours = [row for row in estate.ledger if row["ResourceId"].endswith(f"/{name}")]
    assert total(hours, "EffectiveCost") == sum(map(D, NEW_MACHINES[name][1].values())) * 24 * 30
    assert {row["machine_type"] for row in hours} == {NEW_MACHINES[name][0]}
    assert any(row["EffectiveCost"] > 0 for row in hours)


def test_a_machine_without_any_price_saves_nothing_and_is_named(estate: Audited) -> None:
    """opencost/opencost#2215"""
    found = [finding for finding in estate.document["findings"] if "unbilled" in json.dumps(finding)]
    assert [finding for finding in found if D(finding["monthly_savings"]) > 0] == []
    (gap,) = [gap for gap in estate.document["run"]["gaps"] if gap["account_id"] == "acme-new"]
    assert len(gap["days"]) == 30


@pytest.mark.parametrize("name", ["i-0node00000000015", "/node"])
def test_the_parts_of_a_node_cost_the_node(estate: Audited, name: str) -> None:
    """opencost/opencost#2657"""
    hours = [row for row in estate.ledger if row["ResourceId"].endswith(name)]
    by_hour = {
        hour: total([row for row in hours if row["hour"] == hour], "EffectiveCost")
        for hour in {r["hour"] for r in hours}
    }
    assert len(by_hour) == 24
    assert set(by_hour.values()) == {D("1.35296")}
    assert total(hours, "accelerator_hours") == 24


def test_tags_are_text_in_the_report_the_mail_and_the_spreadsheet(estate: Audited, tmp_path: Path) -> None:
    """prowler-cloud/prowler#12221"""
    render(estate.document, estate.result.extras, ("html", "csv"), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tagged = [finding for finding in estate.document["findings"] if finding["account_id"] == "111100000017"]
    mail = write(make_digest({**estate.document, "findings": tagged}, (), kind="report", is_first=True)).html
    for text in (page, mail):
        assert "alert(1)" in text
        assert SCRIPT not in text and "<i onmouseover" not in text
    rows = list(csv.DictReader(io.StringIO((tmp_path / "findings.csv").read_text(encoding="utf-8"))))
    owners = {row["owner"] for row in rows if row["account_id"] == "111100000017"}
    assert owners == {SCRIPT, f"'{FORMULA}"}
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "@", "\t", "\r"))]


def test_traffic_across_zones_that_the_provider_does_not_charge_is_no_finding(estate: Audited) -> None:
    """opencost/opencost#1183"""
    free = [row for row in estate.of(ResourceId=BALANCER) if row["usage_kind"] == "transfer.inter_zone"]
    assert (total(free, "ConsumedQuantity"), total(free)) == (62_000, 0)
    paid = {"network.cross_zone_transfer", "network.public_ip_same_region"}
    assert not estate.rules_of(BALANCER) & paid
    assert estate.rules_of("i-0talker") & paid == {"network.cross_zone_transfer"}
    accused = [finding for finding in estate.document["findings"] if finding["rule_id"] in paid]
    assert "eni-0balancer" not in json.dumps(accused)


def test_a_quiet_processor_says_nothing_of_the_gpu_beside_it(estate: Audited) -> None:
    """kubeopt/kubeopt#21"""
    assert not estate.rules_of("i-0busy00000000021") & {
        "gpu.idle_instance",
        "gpu.underused_instance",
        "gpu.no_telemetry",
    }
    assert not estate.rules_of("i-0dark00000000021") & {"gpu.idle_instance", "gpu.underused_instance"}
    assert "gpu.no_telemetry" in estate.rules_of("i-0dark00000000021")


def test_six_ways_to_commit_to_one_machine_are_one_saving(estate: Audited) -> None:
    """LeanerCloud/CUDly#1100"""
    (finding,) = estate.findings("i-0steady000000023", "purchase.on_demand_steady")
    assert money(finding) == D("248.2000")  # 730 hours at 1.00, less the best of one year at 0.66
    assert [D(figure).quantize(D("0.01")) for figure in finding["monthly_savings_range"]] == [D("248.20"), D("394.20")]
    every = estate.findings("i-0steady000000023")
    assert sum(D(each["monthly_savings_net"]) for each in every) <= D(finding["monthly_cost"])


def test_a_charge_of_a_month_is_that_of_a_month(estate: Audited) -> None:
    """mlabouardy/komiser#1298"""
    assert total(estate.of(ResourceId="alarm-0month")) == D("0.30")
    (finding,) = estate.findings("vol-0month", "storage.unattached_volume")
    assert money(finding, "monthly_cost") == D("29.2000")  # 29.76 in 744 hours is 0.04 an hour, 29.20 in 730


def test_a_price_keeps_its_unit_on_small_and_large_machines(estate: Audited) -> None:
    """kubecost/kubecost#2418"""
    (single,), (fourfold,), (monthly,) = (
        estate.findings(name, "purchase.on_demand_steady")
        for name in ("i-0single0000000027", "i-0fourfold00000027", "i-0monthly000000027")
    )
    assert money(single) == D("730.0000")  # 2.00 less 1.00 an hour
    assert money(fourfold) == D("2920.0000")  # 8.00 less 4 devices at 1.00
    # 730 a month is neither 730 an hour nor, mistaken for an hourly one, a 730th of it: unused, and the report says so.
    assert monthly["confidence"] == "low"
    (source,) = [s for s in estate.document["sources"] if s["paths"] == ["prices/agreed.csv"]]
    assert "1 prices dropped (their unit is no hour)" in source["message"]


def cost_explorer(by: Sequence[tuple[str, str]], groups: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(
        {
            "GroupDefinitions": [{"Type": kind, "Key": key} for kind, key in by],
            "ResultsByTime": [
                {
                    "TimePeriod": {"Start": "2026-10-01", "End": "2026-10-02"},
                    "Total": {},
                    "Groups": list(groups),
                    "Estimated": False,
                }
            ],
        }
    )


def by_tag(tag: str, split: Mapping[str, str]) -> str:
    groups = [
        {
            "Keys": ["Amazon Elastic Compute Cloud - Compute", f"{tag}${value}"],
            "Metrics": {"UnblendedCost": {"Amount": amount, "Unit": "USD"}},
        }
        for value, amount in split.items()
    ]
    return cost_explorer([("DIMENSION", "SERVICE"), ("TAG", tag)], groups)


@pytest.mark.parametrize(("rest", "spent", "notes"), [("30", 100, 1), ("5", 175, 0)], ids=["same-sum", "other-filter"])
def test_one_day_asked_for_by_two_tags_is_spent_once(tmp_path: Path, rest: str, spent: int, notes: int) -> None:
    """elastic/integrations#8942; answers that add up to something else are about other charges, and both count."""
    files = {
        "ce/team.json": by_tag("team", {"vision": "60", "speech": "40"}),
        "ce/project.json": by_tag("project", {"atlas": "70", "": rest}),
    }
    made = audited(tmp_path / "in", files, tmp_path / "data", as_of=date(2026, 11, 1), rules=CHEAP)
    assert total(made.charges) == spent
    messages = [source["message"] or "" for source in made.document["sources"]]
    assert sum("with the same sum by other groups" in message for message in messages) == notes
    assert {D(row["difference"]) for row in made.document["reconciliation"]} == {0}


def test_an_answer_that_a_bill_replaces_stands_in_for_no_other_answer(tmp_path: Path) -> None:
    """elastic/integrations#8942, beside a bill of one of the two accounts"""

    def grouped(by: str, keys: Sequence[tuple[str, str, str]]) -> str:
        groups = [
            {"Keys": [account, key], "Metrics": {"UnblendedCost": {"Amount": amount, "Unit": "USD"}}}
            for account, key, amount in keys
        ]
        return cost_explorer([("DIMENSION", "LINKED_ACCOUNT"), ("DIMENSION", by)], groups)

    billed, other = "111100000031", "111100000032"
    files = {
        "cur/cur.csv": as_csv(machine(billed, "i-0billed000000031", "m5.large", "1", (1,))),
        "ce/service.json": grouped("SERVICE", [(billed, "Amazon EC2", "24"), (other, "Amazon EC2", "7")]),
        "ce/region.json": grouped("REGION", [(billed, "us-east-1", "24"), (other, "us-east-1", "7")]),
    }
    made = audited(tmp_path / "in", files, tmp_path / "data", as_of=date(2026, 11, 1), rules=CHEAP)
    assert {account: total(made.of(SubAccountId=account)) for account in (billed, other)} == {billed: 24, other: 7}
