"""What the Google Cloud projects run, and the detailed billing export of it."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from acme.aws import nat_gigabytes, tags
from acme.files import write_gzip
from acme.truth import (
    AS_OF,
    BILLED_FROM,
    DAY,
    GCP_BILLING,
    GCP_PROJECTS,
    HOUR,
    MONTHS,
    Row,
    Truth,
    digest,
    guid,
    money,
    month_end,
    number,
    plain,
    stamp,
    steps,
)


@dataclass(frozen=True)
class Vm:
    """One Compute Engine instance: its SKUs as (text, devices, units, price an hour)."""

    name: str
    project: str
    type: str
    zone: str
    labels: Mapping[str, str]
    cores: int
    memory_gib: int
    skus: tuple[tuple[str, int, str, str], ...]
    gpus: int = 0
    gpu_type: str = ""

    @property
    def id(self) -> str:
        return number(f"{self.project}/{self.name}")

    @property
    def global_name(self) -> str:
        return f"//compute.googleapis.com/projects/{GCP_PROJECTS[self.project]}/zones/{self.zone}/instances/{self.id}"


FLEX_CUD = f"subscriptions/{guid('flexible commitment')}"
FLEX_RATIO, FLEX_AN_HOUR = Decimal("0.72"), Decimal("0.65")
N2_COMMITTED_CORES = 32


def n2_broker(name: str, zone: str) -> Vm:
    return Vm(
        name, "acme-serving", "n2-standard-16", zone, tags("data", app="kafka"), 16, 64,
        (("N2 Instance Core running in Americas", 16, "hour", "0.031611"),
         ("N2 Instance Ram running in Americas", 64, "gibibyte hour", "0.004237")),
    )  # fmt: skip


VMS = (
    Vm(
        "train-nav-01", "acme-ml-train", "a2-highgpu-8g", "us-central1-a", tags("navigation", workload="training"), 96,
        680,
        (("Nvidia Tesla A100 GPU running in Americas", 8, "hour", "2.933908"),
         ("A2 Instance Core running in Americas", 96, "hour", "0.031611"),
         ("A2 Instance Ram running in Americas", 680, "gibibyte hour", "0.004237")),
        8, "nvidia-tesla-a100",
    ),
    Vm(
        "dev-marco", "acme-ml-train", "a2-highgpu-1g", "us-central1-a", tags("navigation", purpose="dev"), 12, 85,
        (("Nvidia Tesla A100 GPU running in Americas", 1, "hour", "2.933908"),
         ("A2 Instance Core running in Americas", 12, "hour", "0.031611"),
         ("A2 Instance Ram running in Americas", 85, "gibibyte hour", "0.004237")),
        1, "nvidia-tesla-a100",
    ),
    Vm(
        "serve-map-01", "acme-serving", "g2-standard-8", "us-central1-b", tags("navigation", workload="inference"), 8, 32,
        (("Nvidia L4 GPU running in Americas", 1, "hour", "0.56004"),
         ("G2 Instance Core running in Americas", 8, "hour", "0.024988"),
         ("G2 Instance Ram running in Americas", 32, "gibibyte hour", "0.002927")),
        1, "nvidia-l4",
    ),
    Vm(
        "label-batch", "acme-serving", "n1-standard-8", "us-central1-b", tags("quality"), 8, 30,
        (("Nvidia Tesla T4 GPU running in Americas", 1, "hour", "0.35"),
         ("N1 Predefined Instance Core running in Americas", 8, "hour", "0.031611"),
         ("N1 Predefined Instance Ram running in Americas", 30, "gibibyte hour", "0.004237")),
        1, "nvidia-tesla-t4",
    ),
    n2_broker("stream-1", "us-central1-a"),
    n2_broker("stream-2", "us-central1-b"),
    n2_broker("stream-3", "us-central1-c"),
)  # fmt: skip
VM = {vm.name: vm for vm in VMS}
ROUTER = (
    f"//compute.googleapis.com/projects/{GCP_PROJECTS['acme-ml-train']}/regions/us-central1/routers/{number('router')}"
)
ROUTER_GIB_A_DAY = 8.0
DEFAULT_MODEL = {"id": "7754-699E-0EBF", "description": "Default"}
GCP_SERVICES = {"Compute Engine": "6F81-5844-456A", "Networking": "E505-1604-58F8", "Support": "2062-016F-44A2"}
UNIT_SIZES = {"hour": ("seconds", 3600), "gibibyte hour": ("byte-seconds", 3600 * 2**30), "gibibyte": ("bytes", 2**30)}


def credit(kind: str, name: str, amount: Decimal) -> Row:
    return {
        "id": name.lower().replace(" ", "_"),
        "full_name": name,
        "type": kind,
        "name": name,
        "amount": amount,
    }


def gcp_row(
    day: datetime,
    sku: str,
    quantity: Decimal,
    unit: str,
    price: Decimal,
    *,
    project: str | None,
    **more: Any,
) -> Row:
    """One line of the detailed export: a SKU of a resource for a day. `cost` and what else differs come in `more`."""
    service = more.pop("service", "Compute Engine")
    usage_unit, size = UNIT_SIZES.get(unit, (unit, 1))
    cost = more.pop("cost", money(quantity * price, 6))
    listed = more.pop("list_price", price)
    row: Row = {
        "billing_account_id": GCP_BILLING,
        "service": {"id": GCP_SERVICES[service], "description": service},
        "sku": {"id": "-".join(digest(sku, length=12).upper()[i : i + 4] for i in (0, 4, 8)), "description": sku},
        "usage_start_time": f"{stamp(day)} UTC",
        "usage_end_time": f"{stamp(day + DAY)} UTC",
    }
    if project is not None:
        row["project"] = {
            "id": project,
            "number": GCP_PROJECTS[project],
            "name": project,
            "labels": [],
            "ancestry_numbers": "/900000000001/",
            "ancestors": [{"resource_name": "organizations/900000000001", "display_name": "example.com"}],
        }
    return row | {
        "labels": [],
        "system_labels": [],
        "location": {"location": "us-central1", "country": "US", "region": "us-central1"},
        "tags": [],
        "transaction_type": "GOOGLE",
        "seller_name": "Google",
        "export_time": f"{stamp(day + DAY + 5 * HOUR)} UTC",
        "cost": cost,
        "currency": "USD",
        "currency_conversion_rate": 1.0,
        "usage": {
            "amount": quantity * size,
            "unit": usage_unit,
            "amount_in_pricing_units": quantity,
            "pricing_unit": unit,
        },
        "credits": [],
        "invoice": {"month": f"{day:%Y%m}", "publisher_type": "GOOGLE"},
        "cost_type": "regular",
        "adjustment_info": {},
        "resource": {},
        "price": {
            "list_price": plain(listed),
            "effective_price": plain(price),
            "effective_price_default": plain(listed),
            "list_price_consumption_model": plain(price),
            "tier_start_amount": "0",
            "unit": unit,
            "pricing_unit_quantity": 1.0,
        },
        "cost_at_list": cost if listed == price else money(quantity * listed, 6),
        "cost_at_effective_price_default": cost if listed == price else money(quantity * listed, 6),
        "cost_at_list_consumption_model": cost,
        "subscription": {},
        "consumption_model": DEFAULT_MODEL,
        **more,
    }


def vm_rows(vm: Vm, day: datetime) -> Iterator[Row]:
    place: Row = {
        "labels": [{"key": key, "value": value} for key, value in vm.labels.items()],
        "system_labels": [
            {"key": "compute.googleapis.com/machine_spec", "value": vm.type},
            {"key": "compute.googleapis.com/cores", "value": str(vm.cores)},
            {"key": "compute.googleapis.com/memory", "value": str(vm.memory_gib * 1024)},
        ],
        "location": {"location": vm.zone, "country": "US", "region": vm.zone[:-2], "zone": vm.zone},
        "resource": {"name": f"projects/{vm.project}/instances/{vm.name}", "global_name": vm.global_name},
    }
    for sku, count, unit, price_text in vm.skus:
        price, quantity, more = Decimal(price_text), Decimal(count * 24), dict(place)
        if vm.name == "serve-map-01":
            more |= {
                "list_price": price,
                "subscription": {"instance_id": FLEX_CUD},
                "consumption_model": {"id": "D97B-0795-975B", "description": "Compute Flexible CUDs 1 Year"},
            }
            price = money(price * FLEX_RATIO, 6)
        cost = money(quantity * price, 6)
        if sku.startswith("N1"):
            more["credits"] = [
                credit("SUSTAINED_USAGE_DISCOUNT", "Sustained Usage Discount", -money(cost / 5, 6)),
            ]
        if sku.startswith("N2 Instance Core") and vm.name in {"stream-1", "stream-2"}:
            more["credits"] = [credit("COMMITTED_USAGE_DISCOUNT", "Committed Usage Discount: CPU", -cost)]
        yield gcp_row(day, sku, quantity, unit, price, project=vm.project, **more)
    if vm.name.startswith("stream"):
        yield gcp_row(
            day, "Network Inter Zone Data Transfer Out", Decimal(2400), "gibibyte", Decimal("0.01"), project=vm.project,
            **place | {"system_labels": []},
        )  # fmt: skip


def commitment_rows(day: datetime, used: Decimal) -> Iterator[Row]:
    """The fee of the flexible commitment, less what the usage already paid, and the fee of the N2 cores."""
    fee = money(FLEX_AN_HOUR * 24, 6)
    yield gcp_row(
        day, "Commitment - dollar based v1: GCE Flexible CUDs for 1 year", fee, "hour", Decimal(1), project="acme-serving",
        subscription={"instance_id": FLEX_CUD},
        credits=[credit("FEE_UTILIZATION_OFFSET", "Fee utilization offset", -used)],
    )  # fmt: skip
    yield gcp_row(
        day, "Commitment v1: N2 Cpu in Americas for 1 Year", Decimal(N2_COMMITTED_CORES * 24), "hour",
        Decimal("0.019915"), project="acme-serving",
    )  # fmt: skip


def gcp_rows() -> Iterator[Row]:
    router: Row = {
        "service": "Networking",
        "labels": [{"key": "team", "value": "platform"}],
        "resource": {"name": "projects/acme-ml-train/routers/nat-edge", "global_name": ROUTER},
    }
    gib = dict(nat_gigabytes("router", ROUTER_GIB_A_DAY, BILLED_FROM, DAY))
    for day in steps(BILLED_FROM, AS_OF, DAY):
        rows = [row for vm in VMS for row in vm_rows(vm, day)]
        yield from rows
        yield from commitment_rows(day, sum((r["cost"] for r in rows if r["subscription"]), Decimal(0)))
        project = "acme-ml-train"
        yield gcp_row(
            day,
            "Networking Cloud Nat Gateway Uptime",
            Decimal(48),
            "hour",
            Decimal("0.0014"),
            project=project,
            **router,
        )
        yield gcp_row(
            day,
            "Networking Cloud Nat Data Processing",
            gib[day],
            "gibibyte",
            Decimal("0.045"),
            project=project,
            **router,
        )
    for month in MONTHS:
        last = month_end(month) - DAY
        nowhere: Row = {"location": {"location": "global"}}
        none = Decimal(0)
        yield gcp_row(
            month,
            "Enhanced Support Subscription Fee",
            Decimal(1),
            "month",
            Decimal(500),
            project=None,
            service="Support",
            **nowhere,
        )
        yield gcp_row(last, "Tax", none, "", none, project=None, cost=Decimal("640.18"), cost_type="tax", **nowhere)
        yield gcp_row(
            last,
            "Rounding error",
            none,
            "",
            none,
            project=None,
            cost=Decimal("-0.004"),
            cost_type="rounding_error",
            **nowhere,
        )
        yield gcp_row(
            last, "E2 Instance Core running in Americas", Decimal(48), "hour", Decimal("0.021811"), project="acme-ml-train",
            credits=[credit("PROMOTION", "Robotics start-up credit", -money(Decimal(48) * Decimal("0.021811"), 6))],
        )  # fmt: skip


def make_gcp(root: Path, truth: Truth) -> None:
    shards: dict[str, list[str]] = defaultdict(list)
    for row in gcp_rows():
        day = datetime.fromisoformat(row["usage_start_time"].removesuffix(" UTC")).replace(tzinfo=UTC)
        net = row["cost"] + sum((credit["amount"] for credit in row["credits"]), Decimal(0))
        truth.add("gcp", GCP_BILLING, day, net, net)
        shards[f"{day:%Y%m}"].append(json.dumps(row, default=float, separators=(",", ":")))
    table = f"gcp_billing_export_resource_v1_{GCP_BILLING.replace('-', '_')}"
    for month, lines in shards.items():
        half = len(lines) // 2
        for shard, part in enumerate((lines[:half], lines[half:])):
            name = f"{table}_{month}_{shard:012d}.json.gz"
            write_gzip(root / "gcp" / "billing-export" / name, "\n".join(part) + "\n")
