"""Google Cloud rows: costs with their credits, commitments, corrections, and the shapes an extract comes in."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest
from bill_files import Audit, as_csv, as_json_lines, as_parquet, gcp_line, gz

D = Decimal
CORE = {"id": "C1", "description": "A3 Instance Core running in Americas"}


def credit(kind: str, amount: str) -> dict[str, str]:
    return {"id": kind, "full_name": kind, "type": kind, "name": kind, "amount": amount}


def named(name: str, cost: str, *credits: dict[str, str], **more: object) -> dict[str, object]:
    return gcp_line(cost, credits=list(credits), resource={"name": name, "global_name": name}, **more)


DOLLAR_FEE = {"id": "F2", "description": "Commitment - dollar based v1: GCE for 1 year"}
ROWS = [
    named("sud", "100", credit("SUSTAINED_USAGE_DISCOUNT", "-20"), credit("DISCOUNT", "-5")),
    named("free", "1", credit("FREE_TIER", "-1")),
    named("promo", "50", credit("PROMOTION", "-30")),
    named("spend", "10", credit("COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE", "-3")),
    named("core1", "60", credit("COMMITTED_USAGE_DISCOUNT", "-60"), sku=CORE),
    named("core2", "40", credit("COMMITTED_USAGE_DISCOUNT", "-30"), sku=CORE),
    gcp_line("45", sku={"id": "F1", "description": "Commitment v1: A3 Cpu in Americas for 1 Year"}, resource=None),
    gcp_line(
        "80",
        sku=DOLLAR_FEE,
        credits=[credit("FEE_UTILIZATION_OFFSET", "-72")],
        resource=None,
        subscription={"instance_id": "sub-1"},
    ),
    gcp_line("7", cost_type="tax", project=None, resource=None, sku={"id": "T", "description": "Sales tax"}),
    gcp_line("0.01", cost_type="rounding_error", resource=None, sku={"id": "R", "description": "Rounding error"}),
    gcp_line(
        "-4", cost_type="adjustment", adjustment_info={"type": "GOODWILL", "mode": "MANUAL_ADJUSTMENT"}, resource=None
    ),
    named(
        "corrected",
        "-2",
        adjustment_info={"type": "USAGE_CORRECTION"},
        cost_type="adjustment",
        invoice={"month": "202611"},
    ),
    named("spot", "3", sku={"id": "S", "description": "Spot Preemptible A3 Instance Core running in Americas"}),
]


@pytest.fixture(scope="module")
def taken(new_audit: Callable[[], Audit]) -> Audit:
    return new_audit().take({"gcp/bill.json": as_json_lines(ROWS)})


@pytest.mark.parametrize(
    ("which", "billed", "effective"),
    [
        ("ResourceId = 'sud'", "75", "75"),
        ("ResourceId = 'free'", "0", "0"),
        ("ResourceId = 'promo'", "50", "50"),
        ("ChargeCategory = 'Credit'", "-30", "-30"),
        ("ResourceId = 'spend'", "7", "7"),
        ("ResourceId = 'core1'", "0", "30"),  # 45 x 60/90
        ("ResourceId = 'core2'", "10", "25"),  # 10 + 45 x 30/90
        ("SkuId = 'F1'", "45", "0"),
        ("SkuId = 'F2'", "8", "8"),
        ("ChargeCategory = 'Tax' and SubAccountId is null", "7", "7"),
        ("SkuId = 'R'", "0.01", "0.01"),
        ("ChargeCategory = 'Adjustment' and SkuId <> 'R'", "-4", "-4"),
        ("ChargeClass = 'Correction' and ChargeCategory = 'Usage'", "-2", "-2"),
        ("PricingCategory = 'Dynamic'", "3", "3"),
    ],
)
def test_each_row_type_has_its_two_costs(taken: Audit, which: str, billed: str, effective: str) -> None:
    assert taken.costs(which) == (D(billed), D(effective))


def test_allocating_a_fee_leaves_every_total_as_it_was(taken: Audit) -> None:
    assert taken.total("EffectiveCost") == taken.total("BilledCost")
    assert taken.differences() == {D(0)}


def test_trap_20_and_21_credits_are_added_once_however_many_a_row_has(taken: Audit) -> None:
    assert taken.rows("count(*), sum(BilledCost)", "ResourceId = 'sud'") == [(1, D(75))]


def test_trap_24_a_fee_counts_only_what_its_offset_leaves_and_is_the_unused_part(taken: Audit) -> None:
    assert taken.rows("BilledCost, CommitmentDiscountStatus, CommitmentDiscountId", "SkuId = 'F2'") == [
        (D(8), "Unused", "sub-1")
    ]


def test_trap_28_rows_without_a_project_stay(taken: Audit) -> None:
    assert taken.rows("sum(BilledCost)", "SubAccountId is null") == [(D(7),)]


def test_thirds_of_a_fee_add_up_to_the_fee(audit: Audit) -> None:
    rows = [named(str(at), "1", credit("COMMITTED_USAGE_DISCOUNT", "-1"), sku=CORE) for at in range(3)]
    fee = gcp_line("1", sku={"id": "F1", "description": "Commitment v1: A3 Cpu in Americas for 1 Year"}, resource=None)
    audit.take({"gcp/bill.json": as_json_lines([*rows, fee])})
    assert audit.total("EffectiveCost") == 1
    assert audit.rows("EffectiveCost", "ResourceId is null") == [(D(0),)]


def test_trap_25_four_currencies_are_four_sums(audit: Audit) -> None:
    rows = [
        gcp_line(cost, currency=currency) for cost, currency in (("1", "USD"), ("2", "EUR"), ("3", "GBP"), ("4", "AUD"))
    ]
    audit.take({"gcp/bill.json": as_json_lines(rows)})
    assert audit.rows("BillingCurrency, sum(BilledCost)", "true group by all") == [
        ("AUD", 4),
        ("EUR", 2),
        ("GBP", 3),
        ("USD", 1),
    ]


def test_trap_30_a_row_keeps_its_utc_day(audit: Audit) -> None:
    late = gcp_line("1", usage_start_time="2026-10-31 23:00:00 UTC", usage_end_time="2026-11-01 00:00:00 UTC")
    assert audit.take({"a.json": as_json_lines([late])}).rows("day::varchar") == [("2026-10-31",)]


SMALL = [
    gcp_line("1.25", credits=[credit("SUSTAINED_USAGE_DISCOUNT", "-0.25")], labels=[{"key": "team", "value": "ml"}]),
    gcp_line("2", day=2, credits=[credit("PROMOTION", "-0.5")], labels=[]),
]


def flattened(row: dict[str, object], quoting: Callable[[object], str]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = quoting(value) if isinstance(value, list) else value
    return flat


def to_json(value: object) -> str:
    import json

    return json.dumps(value)


def to_pretty(rows: list[dict[str, object]]) -> str:
    import json

    return "\n".join(json.dumps(row, indent=2) for row in rows)


AVRO = {
    "type": "record",
    "name": "Root",
    "fields": [
        {"name": "billing_account_id", "type": ["null", "string"]},
        *[
            {
                "name": name,
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": name.title(),
                        "fields": [{"name": key, "type": ["null", "string"]} for key in keys],
                    },
                ],
            }
            for name, keys in (
                ("service", ("id", "description")),
                ("sku", ("id", "description")),
                ("project", ("id", "name")),
                ("location", ("location", "region")),
                ("invoice", ("month",)),
                ("resource", ("name", "global_name")),
            )
        ],
        {"name": "usage_start_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "export_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "cost", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}]},
        {"name": "currency", "type": ["null", "string"]},
        {"name": "cost_type", "type": ["null", "string"]},
        {
            "name": "credits",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Credit",
                    "fields": [{"name": "type", "type": "string"}, {"name": "amount", "type": "double"}],
                },
            },
        },
        {
            "name": "labels",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "L",
                    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "string"}],
                },
            },
        },
    ],
}


def to_avro(path: Path) -> bytes:
    from datetime import datetime

    def moment(text: object) -> datetime:
        return datetime.fromisoformat(str(text).replace(" UTC", "+00:00"))

    rows = [
        {
            **row,
            "cost": D(str(row["cost"])),
            "usage_start_time": moment(row["usage_start_time"]),
            "export_time": moment(row["export_time"]),
            "credits": [{"type": each["type"], "amount": float(each["amount"])} for each in row["credits"]],  # type: ignore[index, attr-defined]
        }
        for row in SMALL
    ]
    with path.open("wb") as out:
        fastavro.writer(out, AVRO, rows)
    return path.read_bytes()


SHAPES: dict[str, Callable[[Path], str | bytes]] = {
    "lines.json": lambda _: as_json_lines(SMALL),
    "lines.json.gz": lambda _: gz(as_json_lines(SMALL)),
    "array.json": lambda _: to_json(SMALL),
    "pretty.json": lambda _: to_pretty(SMALL),
    "nested.parquet": lambda path: as_parquet(SMALL, path),
    "rows.avro": lambda path: to_avro(path / "rows.avro"),
    "dotted.csv": lambda _: as_csv([flattened(row, to_json) for row in SMALL]),
    "repr.csv": lambda _: as_csv([flattened(row, repr) for row in SMALL]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_an_extract_gives_the_same_charges(audit: Audit, tmp_path: Path, name: str) -> None:
    audit.take({name: SHAPES[name](tmp_path)})
    assert audit.rows("day::varchar, ChargeCategory, BilledCost, ResourceId") == [
        ("2026-10-01", "Usage", D(1), "//compute.googleapis.com/vm-1"),
        ("2026-10-02", "Credit", D("-0.5"), None),
        ("2026-10-02", "Usage", D(2), "//compute.googleapis.com/vm-2"),
    ]
    assert audit.rows("owner", "day = '2026-10-01'") == [("ml",)]
    assert audit.differences() == {D(0)}


def test_an_avro_file_that_breaks_off_is_read_up_to_the_break(audit: Audit, tmp_path: Path) -> None:
    whole = to_avro(tmp_path / "rows.avro")
    audit.take({"rows.avro": whole[:-20]})
    assert audit.statuses == ["failed"]
    assert "Avro data is damaged or cut off" in audit.messages
