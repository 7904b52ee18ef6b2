"""What the AWS accounts run, and the hourly CUR 2.0 of the first payer."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from acme.files import write_json, write_parquet
from acme.truth import (
    AS_OF,
    BILLED_FROM,
    DAY,
    HOUR,
    MONTHS,
    PAYER,
    SEED,
    SERVING,
    VISION,
    Row,
    Truth,
    digest,
    guid,
    money,
    month_end,
    plain,
    rfc3339,
    stamp,
    steps,
)

P4D, P5 = Decimal("21.9576"), Decimal("6.88")
SP_RATE, SP_COMMITMENT = Decimal("4.816"), Decimal("4.916")  # the plan is a little larger than what it covers
SP_ARN = f"arn:aws:savingsplans::{PAYER}:savingsplan/{guid('savings plan')}"


@dataclass(frozen=True)
class Machine:
    """One EC2 instance. `option` is on_demand, savings_plan or spot."""

    name: str
    account: str
    type: str
    rate: Decimal
    zone: str
    vpc: str
    tags: Mapping[str, str]
    start: datetime = BILLED_FROM
    end: datetime = AS_OF
    option: str = "on_demand"

    @property
    def id(self) -> str:
        return f"i-0{digest(self.account, self.name, length=16)}"


def tags(team: str, **more: str) -> dict[str, str]:
    return {"team": team} | more


MACHINES = (
    Machine("sim-batch-01", PAYER, "p4d.24xlarge", P4D, "us-east-1a", "train", tags("simulation")),
    Machine("train-llm-01", PAYER, "p4d.24xlarge", P4D, "us-east-1a", "train", tags("planning", workload="training")),
    Machine(
        "train-grasp-01", PAYER, "p5.4xlarge", P5, "us-east-1b", "train", tags("grasping", workload="training"),
        option="savings_plan",
    ),
    Machine("lena-notebook", PAYER, "g5.xlarge", Decimal("1.006"), "us-east-1a", "train", tags("grasping")),
    Machine("render-sim-01", PAYER, "g6.12xlarge", Decimal("4.6016"), "us-east-1b", "train", tags("simulation")),
    Machine("nightly-eval", PAYER, "g5.2xlarge", Decimal("1.212"), "us-east-1a", "train", tags("quality")),
    Machine("encode-video", PAYER, "g6.4xlarge", Decimal("1.3232"), "us-east-1a", "train", tags("quality")),
    Machine(
        "scratch-new", PAYER, "g5.12xlarge", Decimal("5.672"), "us-east-1a", "train", tags("planning"),
        start=AS_OF - 2 * DAY,
    ),
    Machine(
        "sweep-77", PAYER, "g5.xlarge", Decimal("0.4521"), "us-east-1b", "train", tags("planning", workload="training"),
        start=datetime(2026, 9, 10, tzinfo=UTC), end=datetime(2026, 9, 15, tzinfo=UTC), option="spot",
    ),
    Machine(
        "serve-pick", SERVING, "g5.xlarge", Decimal("1.006"), "us-east-1a", "serve",
        tags("fulfilment", workload="inference"),
    ),
    Machine("api-01", SERVING, "m6i.large", Decimal("0.096"), "us-east-1b", "serve", tags("fulfilment")),
    Machine("kafka-1", SERVING, "m6i.4xlarge", Decimal("0.768"), "us-east-1a", "serve", tags("data", app="kafka")),
    Machine("kafka-2", SERVING, "m6i.4xlarge", Decimal("0.768"), "us-east-1b", "serve", tags("data", app="kafka")),
    Machine("kafka-3", SERVING, "m6i.4xlarge", Decimal("0.768"), "us-east-1c", "serve", tags("data", app="kafka")),
)  # fmt: skip
BY_NAME = {machine.name: machine for machine in MACHINES}
LABEL_INFER = Machine(
    "label-infer", VISION, "g4dn.xlarge", Decimal("0.587"), "eu-west-1a", "vision", tags("vision", workload="inference")
)

VPC_REGION = {"train": "us-east-1", "sandbox": "us-east-1", "serve": "us-east-1", "vision": "eu-west-1"}
VPC_ACCOUNT = {"train": PAYER, "sandbox": PAYER, "serve": SERVING, "vision": VISION}
VPC_ZONES = {"train": "ab", "sandbox": "a", "serve": "abc", "vision": "a"}
NAT_GB_AN_HOUR = {"train": 42.0, "sandbox": 0.0002, "serve": 0.3, "vision": 0.1}


def nat_arn(vpc: str) -> str:
    return f"arn:aws:ec2:{VPC_REGION[vpc]}:{VPC_ACCOUNT[vpc]}:natgateway/nat-0{digest(vpc, 'nat', length=16)}"


def nat_gigabytes(name: str, mean: float, start: datetime, step: timedelta) -> Iterator[tuple[datetime, Decimal]]:
    """What a gateway processed in each step: the bill and the metric are made from the same figures."""
    rng = random.Random(f"{SEED}/nat/{name}")
    for when in steps(start, AS_OF, step):
        yield when, Decimal(str(round(mean * rng.uniform(0.7, 1.3), 6)))


CUR2_COLUMNS = {
    "bill_bill_type": "VARCHAR",
    "bill_billing_entity": "VARCHAR",
    "bill_billing_period_end_date": "TIMESTAMP",
    "bill_billing_period_start_date": "TIMESTAMP",
    "bill_invoice_id": "VARCHAR",
    "bill_invoicing_entity": "VARCHAR",
    "bill_payer_account_id": "VARCHAR",
    "bill_payer_account_name": "VARCHAR",
    "cost_category": "MAP(VARCHAR, VARCHAR)",
    "discount": "MAP(VARCHAR, DOUBLE)",
    "identity_line_item_id": "VARCHAR",
    "identity_time_interval": "VARCHAR",
    "line_item_availability_zone": "VARCHAR",
    "line_item_currency_code": "VARCHAR",
    "line_item_legal_entity": "VARCHAR",
    "line_item_line_item_description": "VARCHAR",
    "line_item_line_item_type": "VARCHAR",
    "line_item_operation": "VARCHAR",
    "line_item_product_code": "VARCHAR",
    "line_item_resource_id": "VARCHAR",
    "line_item_tax_type": "VARCHAR",
    "line_item_unblended_cost": "DOUBLE",
    "line_item_unblended_rate": "VARCHAR",
    "line_item_usage_account_id": "VARCHAR",
    "line_item_usage_account_name": "VARCHAR",
    "line_item_usage_amount": "DOUBLE",
    "line_item_usage_end_date": "TIMESTAMP",
    "line_item_usage_start_date": "TIMESTAMP",
    "line_item_usage_type": "VARCHAR",
    "pricing_currency": "VARCHAR",
    "pricing_public_on_demand_cost": "DOUBLE",
    "pricing_public_on_demand_rate": "VARCHAR",
    "pricing_purchase_option": "VARCHAR",
    "pricing_rate_code": "VARCHAR",
    "pricing_term": "VARCHAR",
    "pricing_unit": "VARCHAR",
    "product": "MAP(VARCHAR, VARCHAR)",
    "product_from_location": "VARCHAR",
    "product_instance_type": "VARCHAR",
    "product_location": "VARCHAR",
    "product_operation": "VARCHAR",
    "product_product_family": "VARCHAR",
    "product_region_code": "VARCHAR",
    "product_servicecode": "VARCHAR",
    "product_sku": "VARCHAR",
    "product_to_location": "VARCHAR",
    "product_usagetype": "VARCHAR",
    "resource_tags": "MAP(VARCHAR, VARCHAR)",
    "savings_plan_end_time": "VARCHAR",
    "savings_plan_offering_type": "VARCHAR",
    "savings_plan_payment_option": "VARCHAR",
    "savings_plan_purchase_term": "VARCHAR",
    "savings_plan_recurring_commitment_for_billing_period": "DOUBLE",
    "savings_plan_savings_plan_a_r_n": "VARCHAR",
    "savings_plan_savings_plan_effective_cost": "DOUBLE",
    "savings_plan_savings_plan_rate": "DOUBLE",
    "savings_plan_start_time": "VARCHAR",
    "savings_plan_total_commitment_to_date": "DOUBLE",
    "savings_plan_used_commitment": "DOUBLE",
}
AWS_SERVICES = {
    "AmazonEC2": "Amazon Elastic Compute Cloud",
    "AmazonVPC": "Amazon Virtual Private Cloud",
    "AmazonS3": "Amazon Simple Storage Service",
    "ComputeSavingsPlans": "Savings Plans for AWS Compute usage",
    "OCBPremiumSupport": "AWS Support (Business)",
}
AWS_ACCOUNT_NAMES = {PAYER: "acme-ml-platform", SERVING: "acme-serving", VISION: "acme-vision-lab"}


@dataclass(frozen=True)
class Line:
    """A kind of AWS line item; `charge` adds period, quantity and money."""

    account: str
    kind: str
    code: str
    usage_type: str | None = None
    operation: str | None = None
    resource_id: str | None = None
    unit: str | None = None
    rate: Decimal | None = None
    text: str = ""
    family: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def charge(self, start: datetime, end: datetime, quantity: Decimal, unblended: Decimal, **more: Any) -> Row:
        month = start.replace(day=1, hour=0)
        name = [self.account, self.kind, self.code, self.usage_type or "", self.operation or "", self.resource_id or ""]
        sku = digest(self.code, self.usage_type or "", self.operation or "", length=16).upper()
        listed = self.rate is not None and self.kind in {"Usage", "SavingsPlanCoveredUsage"}
        return {
            "bill_bill_type": "Anniversary",
            "bill_billing_entity": "AWS",
            "bill_billing_period_start_date": stamp(month),
            "bill_billing_period_end_date": stamp(month_end(month)),
            "bill_invoice_id": f"19{month:%Y%m}01",
            "bill_invoicing_entity": "Amazon Web Services, Inc.",
            "bill_payer_account_id": PAYER,
            "bill_payer_account_name": AWS_ACCOUNT_NAMES[PAYER],
            "identity_line_item_id": digest(*name, length=52),  # repeats from hour to hour, as Amazon's do
            "identity_time_interval": f"{rfc3339(start)}/{rfc3339(end)}",
            "line_item_availability_zone": self.zone,
            "line_item_currency_code": "USD",
            "line_item_legal_entity": "Amazon Web Services, Inc.",
            "line_item_line_item_description": self.text,
            "line_item_line_item_type": self.kind,
            "line_item_operation": self.operation,
            "line_item_product_code": self.code,
            "line_item_resource_id": self.resource_id,
            "line_item_unblended_cost": unblended,
            "line_item_unblended_rate": None if self.rate is None else plain(self.rate),
            "line_item_usage_account_id": self.account,
            "line_item_usage_account_name": AWS_ACCOUNT_NAMES[self.account],
            "line_item_usage_amount": quantity,
            "line_item_usage_start_date": stamp(start),
            "line_item_usage_end_date": stamp(end),
            "line_item_usage_type": self.usage_type,
            "pricing_currency": "USD",
            "pricing_public_on_demand_cost": unblended if listed else None,
            "pricing_public_on_demand_rate": plain(self.rate) if listed and self.rate is not None else None,
            "pricing_rate_code": f"{sku}.JRTCKXETXF.6YS6EN2CT7" if listed else None,
            "pricing_term": "OnDemand" if listed else None,
            "pricing_unit": self.unit,
            "product": {"product_name": AWS_SERVICES[self.code]},
            "product_instance_type": self.instance_type,
            "product_location": "US East (N. Virginia)" if self.usage_type else None,
            "product_operation": self.operation,
            "product_product_family": self.family,
            "product_region_code": "us-east-1" if self.usage_type else None,
            "product_servicecode": self.code,
            "product_sku": sku,
            "product_usagetype": self.usage_type,
            "resource_tags": {f"user_{key}": value for key, value in self.tags.items()},
            **self.more,
            **more,
        }


def machine_lines(machine: Machine) -> Iterator[tuple[Row, Decimal]]:
    """The rows of one instance, each with its EffectiveCost."""
    spot, covered = machine.option == "spot", machine.option == "savings_plan"
    line = Line(
        machine.account,
        "SavingsPlanCoveredUsage" if covered else "Usage",
        "AmazonEC2",
        f"{'SpotUsage' if spot else 'BoxUsage'}:{machine.type}",
        "RunInstances:SV001" if spot else "RunInstances",
        machine.id,
        "Hrs",
        machine.rate,
        f"{machine.type} Linux/UNIX Spot Instance-hour in US East (Virginia)"
        if spot
        else f"${plain(machine.rate)} per On Demand Linux {machine.type} Instance Hour",
        None if spot else "Compute Instance",
        machine.zone,
        None if spot else machine.type,  # Amazon leaves it empty on spot rows
        {"name": machine.name, **machine.tags},
        {"pricing_term": "Spot", "pricing_public_on_demand_cost": Decimal("1.006")} if spot else {},
    )
    plan = {
        "savings_plan_savings_plan_a_r_n": SP_ARN,
        "savings_plan_offering_type": "ComputeSavingsPlans",
        "savings_plan_payment_option": "No Upfront",
        "savings_plan_purchase_term": "1yr",
        "savings_plan_start_time": "2026-06-30T00:00:00.000Z",
        "savings_plan_end_time": "2027-06-30T00:00:00.000Z",
    }
    negation = Line(
        machine.account, "SavingsPlanNegation", "AmazonEC2", line.usage_type, line.operation, machine.id,
        text=f"SavingsPlanNegation used by AccountId : {machine.account}", zone=machine.zone, tags=line.tags, more=plan,
    )  # fmt: skip
    fee = Line(
        machine.account, "SavingsPlanRecurringFee", "ComputeSavingsPlans", "ComputeSP:1yrNoUpfront", "None", SP_ARN,
        text="1 year No Upfront Compute Savings Plan", more=plan | {"pricing_purchase_option": "No Upfront"},
    )  # fmt: skip
    one = Decimal(1)
    for when in steps(machine.start, machine.end, HOUR):
        if not covered:
            yield line.charge(when, when + HOUR, one, machine.rate), machine.rate
            continue
        used = {"savings_plan_savings_plan_effective_cost": SP_RATE, "savings_plan_savings_plan_rate": SP_RATE}
        yield line.charge(when, when + HOUR, one, machine.rate, **plan, **used), SP_RATE
        yield negation.charge(when, when + HOUR, one, -machine.rate), Decimal(0)
        commitment = {
            "savings_plan_recurring_commitment_for_billing_period": SP_COMMITMENT,
            "savings_plan_total_commitment_to_date": SP_COMMITMENT,
            "savings_plan_used_commitment": SP_RATE,
        }
        yield fee.charge(when, when + HOUR, one, SP_COMMITMENT, **commitment), SP_COMMITMENT - SP_RATE


def kafka_lines(machine: Machine, gigabytes: Decimal) -> Iterator[tuple[Row, Decimal]]:
    """Both directions of what crosses a zone border; each is charged once at either end."""
    rate = Decimal("0.01")
    places = {"product_from_location": "US East (N. Virginia)", "product_to_location": "US East (N. Virginia)"}
    for direction in ("In", "Out"):
        line = Line(
            machine.account, "Usage", "AmazonEC2", "DataTransfer-Regional-Bytes", f"InterZone-{direction}", machine.id,
            "GB", rate, "$0.010 per GB - regional data transfer - in/out/between EC2 AZs", "Data Transfer", machine.zone,
            tags={"name": machine.name, **machine.tags},
            more=places | {"product_servicecode": "AWSDataTransfer",
                           "product": {"product_name": AWS_SERVICES["AmazonEC2"], "transfer_type": "IntraRegion"}},
        )  # fmt: skip
        for when in steps(machine.start, machine.end, HOUR):
            cost = gigabytes * rate
            yield line.charge(when, when + HOUR, gigabytes, cost), cost


def nat_lines(vpc: str) -> Iterator[tuple[Row, Decimal]]:
    rate, arn = Decimal("0.045"), nat_arn(vpc)
    owner = tags("platform", name=f"nat-{vpc}")
    hours = Line(
        VPC_ACCOUNT[vpc], "Usage", "AmazonEC2", "NatGateway-Hours", "NatGateway", arn, "Hrs", rate,
        "$0.045 per NAT Gateway Hour", "NAT Gateway", tags=owner,
    )  # fmt: skip
    gigabytes = Line(
        VPC_ACCOUNT[vpc], "Usage", "AmazonEC2", "NatGateway-Bytes", "NatGateway", arn, "GB", rate,
        "$0.045 per GB Data Processed by NAT Gateways", "NAT Gateway", tags=owner,
    )  # fmt: skip
    for when, amount in nat_gigabytes(vpc, NAT_GB_AN_HOUR[vpc], BILLED_FROM, HOUR):
        yield hours.charge(when, when + HOUR, Decimal(1), rate), rate
        yield gigabytes.charge(when, when + HOUR, amount, money(amount * rate)), money(amount * rate)


UNATTACHED = f"vol-0{digest('unattached volume', length=16)}"
ROOT_VOLUME = f"vol-0{digest('root volume', length=16)}"
IDLE_ADDRESS = f"eipalloc-0{digest('idle address', length=16)}"
BUCKET = "acme-robotics-datasets"


def storage_lines() -> Iterator[tuple[Row, Decimal]]:
    for volume, size, owner in ((UNATTACHED, 2000, tags("simulation")), (ROOT_VOLUME, 500, tags("planning"))):
        line = Line(
            PAYER, "Usage", "AmazonEC2", "EBS:VolumeUsage.gp3", "CreateVolume-Gp3", volume, "GB-Mo", Decimal("0.08"),
            "$0.08 per GB-month of General Purpose (gp3) provisioned storage - US East (Northern Virginia)", "Storage",
            tags=owner,
        )  # fmt: skip
        for month in MONTHS:
            hours = (month_end(month) - month) // HOUR
            amount = money(Decimal(size) / hours)
            for when in steps(month, month_end(month), HOUR):
                cost = money(amount * Decimal("0.08"))
                yield line.charge(when, when + HOUR, amount, cost), cost
    address = Line(
        PAYER, "Usage", "AmazonVPC", "PublicIPv4:IdleAddress", "AllocateAddressVPC",
        f"arn:aws:ec2:us-east-1:{PAYER}:elastic-ip/{IDLE_ADDRESS}", "Hrs", Decimal("0.005"),
        "$0.005 per Idle public IPv4 address per hour", "VpcPublicIPv4Address", tags=tags("platform"),
    )  # fmt: skip
    for when in steps(BILLED_FROM, AS_OF, HOUR):
        yield address.charge(when, when + HOUR, Decimal(1), Decimal("0.005")), Decimal("0.005")
    bucket = Line(
        PAYER, "Usage", "AmazonS3", "TimedStorage-ByteHrs", "StandardStorage", BUCKET, "GB-Mo", Decimal("0.023"),
        "$0.023 per GB - first 50 TB / month of storage used", "Storage", tags=tags("planning"),
    )  # fmt: skip
    for when in steps(BILLED_FROM, AS_OF, DAY):
        cost = money(Decimal("1300.5") * Decimal("0.023"))
        yield bucket.charge(when, when + DAY, Decimal("1300.5"), cost), cost


def monthly_lines() -> Iterator[tuple[Row, Decimal]]:
    """What is no usage: tax, support, a credit, a refund."""
    for month in MONTHS:
        for account, kind, code, text, amount in (
            (PAYER, "Tax", "AmazonEC2", "Tax for product code AmazonEC2", "812.41"),
            (SERVING, "Tax", "AmazonEC2", "Tax for product code AmazonEC2", "96.07"),
            (PAYER, "Fee", "OCBPremiumSupport", "AWS Support (Business)", "1500"),
            (PAYER, "Credit", "AmazonEC2", "AWS Activate credit", "-750.25"),
            (SERVING, "Refund", "AmazonEC2", "Refund for an outage in us-east-1", "-38.4"),
        ):
            line = Line(account, kind, code, text=text, usage_type="Dollar" if kind == "Fee" else None)
            yield line.charge(month, month_end(month), Decimal(1), Decimal(amount)), Decimal(amount)


def all_cur2_lines() -> Iterator[tuple[Row, Decimal]]:
    for machine in MACHINES:
        yield from machine_lines(machine)
        if machine.name.startswith("kafka"):
            yield from kafka_lines(machine, Decimal(60))
    yield from kafka_lines(BY_NAME["api-01"], Decimal("0.5"))
    for vpc in ("train", "sandbox", "serve"):
        yield from nat_lines(vpc)
    yield from storage_lines()
    yield from monthly_lines()


def make_cur2(root: Path, truth: Truth) -> None:
    export = root / "aws" / "cur2" / "acme-hourly"
    months: dict[datetime, list[Row]] = {month: [] for month in MONTHS}
    for row, effective in all_cur2_lines():
        month = datetime.fromisoformat(row["bill_billing_period_start_date"]).replace(tzinfo=UTC)
        months[month].append(row)
        truth.add("aws", PAYER, month, row["line_item_unblended_cost"], effective)
    for month, rows in months.items():
        partition = f"BILLING_PERIOD={month:%Y-%m}"
        write_parquet(export / "data" / partition / "acme-hourly-00001.parquet", CUR2_COLUMNS, rows)
        write_json(
            export / "metadata" / partition / "acme-hourly-Manifest.json",
            {
                "executionId": guid(partition),
                "exportArn": f"arn:aws:bcm-data-exports:us-east-1:{PAYER}:export/acme-hourly-{guid('export')}",
                "bucket": "acme-robotics-billing",
                "region": "us-east-1",
                "contentType": "Parquet",
                "compression": "Parquet",
                "account": PAYER,
                "billingPeriod": {
                    "start": f"{month:%Y-%m-%dT%H:%M:%S.000Z}",
                    "end": f"{month_end(month):%Y-%m-%dT%H:%M:%S.000Z}",
                },
                "dataFiles": [
                    f"s3://acme-robotics-billing/aws/cur2/acme-hourly/data/{partition}/acme-hourly-00001.parquet"
                ],
                "columns": [
                    {"name": name, "type": {"DOUBLE": "OptionalDouble"}.get(kind, "OptionalString")}
                    for name, kind in CUR2_COLUMNS.items()
                ],
            },
        )
