"""Bills as FOCUS: every line, every total, and the rules of the specification about columns, values and nulls."""

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import conform
from auditor.assets import room
from auditor.cli.request import make_request
from auditor.errors import LakeError, SettingsError
from auditor.export import Exported, Unit, export
from auditor.progress import Silent
from auditor.scan import DONE, NOTHING, PARTIAL, scan
from auditor.state import State

NOW = datetime(2026, 10, 3, 6, 0, tzinfo=UTC)
EXPECTED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "examples" / "expected.json").read_text("utf-8"))
SAMPLES = Path(__file__).parents[2] / "shared" / "samples"

# Columns of FOCUS 1.2 that are never null; the others are null where the specification says so or the bill is silent.
NEVER_NULL = (
    "BilledCost BillingAccountId BillingAccountType BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory "
    "ChargeFrequency ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost "
    "PricingCurrency ProviderName PublisherName ServiceCategory ServiceName ServiceSubcategory"
).split()
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"Correction", None},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "CommitmentDiscountCategory": {"Spend", "Usage", None},
    "CommitmentDiscountStatus": {"Used", "Unused", None},
    "CapacityReservationStatus": {"Used", "Unused", None},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other", None},
}
# What no row may be.
FORBIDDEN = {
    "a tax has a price, a quantity or a SKU": "ChargeCategory = 'Tax' and coalesce(PricingCategory, SkuId, SkuPriceId, PricingUnit, PricingQuantity::varchar, ListUnitPrice::varchar, ContractedUnitPrice::varchar) is not null",
    "a purchase is usage-based": "ChargeCategory = 'Purchase' and ChargeFrequency = 'Usage-Based'",
    "consumed quantity of what is no used usage": "ConsumedQuantity is not null and (ChargeCategory <> 'Usage' or CommitmentDiscountStatus = 'Unused')",
    "a consumed quantity and its unit": "(ConsumedQuantity is null) <> (ConsumedUnit is null)",
    "a priced quantity and its unit": "(PricingQuantity is null) <> (PricingUnit is null)",
    "commitment columns without a commitment": "CommitmentDiscountId is null and coalesce(CommitmentDiscountCategory, CommitmentDiscountName, CommitmentDiscountStatus, CommitmentDiscountType, CommitmentDiscountUnit) is not null",
    "a commitment without its kind": "CommitmentDiscountId is not null and (CommitmentDiscountCategory is null or CommitmentDiscountType is null)",
    "covered usage without a status": "CommitmentDiscountId is not null and ChargeCategory = 'Usage' and CommitmentDiscountStatus is null",
    "a commitment's quantity and its unit": "(CommitmentDiscountQuantity is null) <> (CommitmentDiscountUnit is null)",
    "a reservation and its status": "CapacityReservationId is null and CapacityReservationStatus is not null",
    "a meter or details without their SKU": "(SkuId is null and SkuMeter is not null) or (SkuPriceId is null and SkuPriceDetails is not null)",
    "a name without its id": "(SubAccountId is null and coalesce(SubAccountName, SubAccountType) is not null) or (ResourceId is null and coalesce(ResourceName, ResourceType) is not null) or (RegionId is null) <> (RegionName is null)",
    "a sub account without name or type": "SubAccountId is not null and (SubAccountName is null or SubAccountType is null)",
    "what nobody used of a commitment is no charge of it": "CommitmentDiscountStatus = 'Unused' and ResourceId is null",
    "a negative unit price": "ListUnitPrice < 0 or ContractedUnitPrice < 0",
    "a price times its quantity is not the cost": "abs(ListUnitPrice::double * PricingQuantity::double - ListCost::double) > 1e-9 or abs(ContractedUnitPrice::double * PricingQuantity::double - ContractedCost::double) > 1e-9",
    "a credit costs something else effectively": "ChargeCategory = 'Credit' and EffectiveCost <> BilledCost",
    "a period that ends before it begins": "ChargePeriodEnd <= ChargePeriodStart or BillingPeriodEnd <= BillingPeriodStart",
    "tags that are no object": "Tags is not null and coalesce(json_type(Tags), '') <> 'OBJECT'",
    "an empty text for null": "ResourceId = '' or RegionId = '' or SkuId = '' or Tags = '{}'",
}


def exported(source: Path, target: Path, version: str = "1.2", **more: Any) -> Exported:
    return export(make_request(paths=(str(source),), **more), version, target, Silent(), NOW)


def costs(done: Exported) -> dict[tuple[Unit, str], tuple[Decimal, Decimal]]:
    return {(file.unit, currency): sums for file in done.files for currency, sums in file.costs.items()}


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Exported, Path]:
    target = tmp_path_factory.mktemp("focus")
    return exported(room("examples") / "estate", target), target


@pytest.fixture(scope="module")
def rows(estate: tuple[Exported, Path]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    paths = [str(file.path) for file in estate[0].files]
    con.execute(
        "create table focus as select * from read_parquet($1, union_by_name=true, hive_partitioning=false)", [paths]
    )
    return con


def test_every_bill_of_three_clouds_adds_up_to_the_last_decimal(estate: tuple[Exported, Path]) -> None:
    done, target = estate
    assert (done.problems, done.exit_status) == ((), DONE)
    wanted = {
        (Unit(total["provider"], total["billing_account_id"], total["billing_period"]), total["currency"]): Decimal(
            total["billed_cost"]
        )
        for total in EXPECTED["totals"]
    }
    assert {key: billed for key, (billed, _) in costs(done).items()} == wanted
    assert sorted(target.rglob("*.parquet")) == sorted(file.path for file in done.files)


def test_a_scan_of_the_export_has_the_totals_of_a_scan_of_the_bills(estate: tuple[Exported, Path]) -> None:
    def totals(source: Path) -> tuple[dict[tuple[str, str, str, str], str], Any]:
        asked = make_request(paths=(str(source),), as_of=date(2026, 10, 1), rules=("purchase.expiring*",))
        document = scan(asked, Silent(), NOW).document
        rows = document["reconciliation"]
        assert {row["difference"] for row in rows} == {"0"}
        named = ("provider", "billing_account_id", "billing_period", "currency")
        billed = {tuple(row[name] for name in named): row["lake_billed_cost"] for row in rows}
        return billed, (document["totals"]["billed_cost"], document["totals"]["effective_cost"])

    assert totals(estate[1]) == totals(room("examples") / "estate")


def test_an_export_of_the_export_is_the_same(estate: tuple[Exported, Path], tmp_path: Path) -> None:
    again = exported(estate[1], tmp_path)
    assert costs(again) == costs(estate[0])
    assert [file.rows for file in again.files] == [file.rows for file in estate[0].files]


def test_the_columns_are_those_of_the_version_and_ours_come_behind(rows: duckdb.DuckDBPyConnection) -> None:
    found = [row[0] for row in rows.execute("describe focus").fetchall()]
    assert found[:57] == conform.columns("1.2")
    assert all(name.startswith("x_") for name in found[57:])
    types = {row[0]: row[1] for row in rows.execute("describe focus").fetchall()}
    for name in found[:57]:
        if name.endswith(("Cost", "Quantity", "Price")):
            assert types[name].startswith("DECIMAL"), name
        elif name.endswith(("Start", "End")):
            assert types[name] == "TIMESTAMP WITH TIME ZONE", name
        else:
            assert types[name] == "VARCHAR", name


@pytest.mark.parametrize("name", NEVER_NULL)
def test_columns_that_must_not_be_null_are_not(rows: duckdb.DuckDBPyConnection, name: str) -> None:
    assert rows.execute(f"select count(*) from focus where {name} is null").fetchone() == (0,)


@pytest.mark.parametrize("name", ALLOWED)
def test_values_are_those_allowed(rows: duckdb.DuckDBPyConnection, name: str) -> None:
    assert {row[0] for row in rows.execute(f"select distinct {name} from focus").fetchall()} <= ALLOWED[name]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_row_breaks_a_rule(rows: duckdb.DuckDBPyConnection, what: str) -> None:
    broken = rows.execute(f"select * from focus where {FORBIDDEN[what]} limit 1").fetchall()
    assert not broken, what


def test_a_service_has_one_category_and_one_subcategory_that_belongs_to_it(rows: duckdb.DuckDBPyConnection) -> None:
    parents = {row["ServiceSubcategory"]: row["ServiceCategory"] for row in conform.read_table("subcategories")}
    found = rows.execute(
        "select ProviderName, ServiceName, ServiceCategory, ServiceSubcategory from focus group by all"
    ).fetchall()
    assert len(found) == len({(row[0], row[1]) for row in found})
    assert all(parents[row[3]] == row[2] for row in found)
    named = {row[1]: row[3] for row in found}
    assert named["Compute Engine"] == "Virtual Machines"
    assert "Other (Other)" not in {named[name] for name in named if "Storage" in name or "S3" in name}


def test_the_tables_know_only_what_the_specification_allows() -> None:
    parents = {row["ServiceSubcategory"] for row in conform.read_table("subcategories")}
    assert len(parents) == 82
    assert {row["ServiceSubcategory"] for row in conform.read_table("services")} <= parents
    for name in ("providers", "regions", "resource_types", "services"):
        assert {row["provider"] for row in conform.read_table(name)} <= {"aws", "gcp", "azure"}


@pytest.mark.parametrize(("version", "count"), [("1.0", 43), ("1.1", 50), ("1.2", 57)])
def test_each_version_has_its_own_number_of_columns(version: str, count: int) -> None:
    assert len(conform.columns(version)) == count


def test_an_unknown_version_is_refused_by_naming_the_known(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--focus 1\.9: .* 1\.0, 1\.1, 1\.2"):
        exported(tmp_path, tmp_path / "out", "1.9")


CUR = {
    "bill/PayerAccountId": "111122223333",
    "bill/BillingPeriodStartDate": "2026-10-01T00:00:00Z",
    "bill/BillingPeriodEndDate": "2026-11-01T00:00:00Z",
    "lineItem/UsageAccountId": "111122223333",
    "lineItem/LineItemType": "Usage",
    "lineItem/UsageStartDate": "2026-10-02T00:00:00Z",
    "lineItem/UsageEndDate": "2026-10-02T01:00:00Z",
    "lineItem/ProductCode": "AmazonEC2",
    "lineItem/UsageType": "BoxUsage:m5.large",
    "lineItem/Operation": "RunInstances",
    "lineItem/ResourceId": "i-0123456789abcdef0",
    "lineItem/UsageAmount": "1",
    "lineItem/UnblendedCost": "0.1",
    "lineItem/CurrencyCode": "USD",
    "pricing/publicOnDemandCost": "0.1",
    "pricing/unit": "Hrs",
    "product/sku": "SKU1",
    "pricing/RateCode": "SKU1.RATE1",
    "savingsPlan/SavingsPlanARN": "",
    "savingsPlan/SavingsPlanEffectiveCost": "",
}
PLAN = {"savingsPlan/SavingsPlanARN": "arn:aws:savingsplans::111122223333:savingsplan/sp-1"}


def cur(*lines: Mapping[str, str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, CUR)
    writer.writeheader()
    writer.writerows({**CUR, **line} for line in lines)
    return out.getvalue()


def read(done: Exported, what: str, where: str = "true") -> list[tuple[Any, ...]]:
    paths = [str(file.path) for file in done.files]
    query = f"select {what} from read_parquet($1, hive_partitioning=false) where {where} order by all"
    return duckdb.execute(query, [paths]).fetchall()


def test_lines_of_one_key_and_day_stay_lines_with_their_own_hours(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    hours = [(f"2026-10-02T{hour:02}:00:00Z", f"2026-10-02T{hour + 1:02}:00:00Z") for hour in (0, 1, 1, 2)]
    lines = [{"lineItem/UsageStartDate": start, "lineItem/UsageEndDate": end} for start, end in hours]
    (tmp_path / "in" / "bill.csv").write_text(cur(*lines))
    done = exported(tmp_path / "in", tmp_path / "out")
    found = read(
        done, "extract(hour from ChargePeriodStart at time zone 'UTC'), BilledCost, SkuPriceDetails, ResourceType"
    )
    details = '{"InstanceType":"m5.large"}'
    assert found == [(hour, Decimal("0.1"), details, "Instance") for hour in (0, 1, 1, 2)]


def test_a_quantity_without_a_unit_gets_one_and_bytes_are_gigabytes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    transfer = {"lineItem/UsageType": "EU-DataTransfer-Regional-Bytes", "lineItem/Operation": "InterZone-Out"}
    lines = [{"pricing/unit": ""}, {**transfer, "pricing/unit": ""}, {**transfer, "pricing/unit": "TB"}]
    (tmp_path / "in" / "bill.csv").write_text(cur(*lines))
    done = exported(tmp_path / "in", tmp_path / "out")
    found = read(done, "ConsumedUnit, PricingUnit, ConsumedQuantity")
    assert found == [(unit, unit, Decimal(1)) for unit in ("GB", "TB", "Units")]


@pytest.mark.parametrize(
    ("resource_id", "kind"),
    [
        ("arn:aws:waf-regional:eu-west-1:111122223333:webacl+rule/1a2b+3c4d", "waf-regional/webacl+rule"),
        ("arn:aws:apigateway:eu-west-1::/restapis/a1b2c3/stages/live", "apigateway/restapis"),
        ("arn:aws:sns:eu-west-1:111122223333:alarms", "Topic"),
        ("arn:aws:sns:eu-west-1:111122223333:alarms:1a2b3c4d", "Topic"),
        ("arn:aws:sqs:eu-west-1:111122223333:jobs", "Queue"),
        ("arn:aws:lambda:eu-west-1:111122223333:function:resize", "lambda/function"),
        ("arn:aws:s3:::acme-models", "Bucket"),
    ],
)
def test_the_form_of_an_arn_tells_the_type_of_the_resource(resource_id: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bill.csv").write_text(cur({"lineItem/ResourceId": resource_id}))
    assert read(exported(tmp_path / "in", tmp_path / "out"), "ResourceType") == [(kind,)]


def test_the_meter_of_an_amazon_bill_without_one_is_the_usage_type(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "bill.csv").write_text(cur({}))
    exported(tmp_path / "first", tmp_path / "second", "1.0")
    done = exported(tmp_path / "second", tmp_path / "third", "1.2")
    assert read(done, "SkuMeter, SkuId") == [("BoxUsage:m5.large", "SKU1")]


def test_names_of_regions_are_ascii() -> None:
    assert all(row["RegionName"].isascii() for row in conform.read_table("regions"))


def test_what_a_savings_plan_covers_is_one_row_and_negations_that_cancel_are_none(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    covered = {
        **PLAN,
        "lineItem/LineItemType": "SavingsPlanCoveredUsage",
        "savingsPlan/SavingsPlanEffectiveCost": "0.07",
    }
    negation = {**PLAN, "lineItem/LineItemType": "SavingsPlanNegation", "lineItem/UnblendedCost": "-0.1"}
    (tmp_path / "in" / "bill.csv").write_text(cur(covered, covered, negation, negation, {}))
    done = exported(tmp_path / "in", tmp_path / "out")
    what = "ChargeCategory, CommitmentDiscountStatus, CommitmentDiscountQuantity, CommitmentDiscountUnit, BilledCost, EffectiveCost"
    used = ("Usage", "Used", Decimal("0.07"), "USD", Decimal(0), Decimal("0.07"))
    assert read(done, what) == [used, used, ("Usage", None, None, None, Decimal("0.1"), Decimal("0.1"))]


def test_a_negation_that_does_not_cancel_is_an_adjustment_so_that_the_total_is_the_bills(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    covered = {
        **PLAN,
        "lineItem/LineItemType": "SavingsPlanCoveredUsage",
        "savingsPlan/SavingsPlanEffectiveCost": "0.07",
    }
    negation = {**PLAN, "lineItem/LineItemType": "SavingsPlanNegation", "lineItem/UnblendedCost": "-0.09"}
    (tmp_path / "in" / "bill.csv").write_text(cur(covered, negation))
    done = exported(tmp_path / "in", tmp_path / "out")
    assert read(done, "ChargeCategory, BilledCost, EffectiveCost") == [
        ("Adjustment", Decimal("0.01"), Decimal(0)),
        ("Usage", Decimal(0), Decimal("0.07")),
    ]


def test_a_marketplace_product_keeps_its_publisher_and_the_provider_that_sold_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = cur({}).replace("lineItem/CurrencyCode", "bill/BillingEntity,lineItem/LegalEntity,lineItem/CurrencyCode")
    (tmp_path / "in" / "bill.csv").write_text(text.replace(",USD,", ",AWS Marketplace,Example Software Inc.,USD,"))
    done = exported(tmp_path / "in", tmp_path / "out")
    assert read(done, "ProviderName, PublisherName") == [("AWS", "Example Software Inc.")]


def test_of_two_exports_of_one_account_one_is_written_and_the_other_named(tmp_path: Path) -> None:
    for name, lines in (("long", [{}, {}, {}]), ("short", [{"lineItem/ResourceId": ""}])):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / f"{name}.csv").write_text(cur(*lines))
    done = exported(tmp_path / "in", tmp_path / "out")
    assert [(file.rows, file.costs) for file in done.files] == [(3, {"USD": (Decimal("0.3"), Decimal("0.3"))})]
    assert len(done.left_out) == 1
    assert "short/short.csv: not counted for account 111122223333, 2026-10" in done.left_out[0]
    assert done.exit_status == DONE


def test_each_account_and_period_of_one_delivery_gets_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    september = {
        "bill/BillingPeriodStartDate": "2026-09-01T00:00:00Z",
        "bill/BillingPeriodEndDate": "2026-10-01T00:00:00Z",
        "lineItem/UsageStartDate": "2026-09-02T00:00:00Z",
        "lineItem/UsageEndDate": "2026-09-02T01:00:00Z",
    }
    other = {"bill/PayerAccountId": "444455556666", "lineItem/UnblendedCost": "7"}
    (tmp_path / "in" / "bill.csv").write_text(cur({}, september, other))
    done = exported(tmp_path / "in", tmp_path / "out")
    assert [(file.unit, file.rows) for file in done.files] == [
        (Unit("aws", "111122223333", "2026-09"), 1),
        (Unit("aws", "111122223333", "2026-10"), 1),
        (Unit("aws", "444455556666", "2026-10"), 1),
    ]


def test_names_that_look_alike_when_written_as_folders_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bill.csv").write_text(cur({"bill/PayerAccountId": "a/b"}, {"bill/PayerAccountId": "a:b"}))
    done = exported(tmp_path / "in", tmp_path / "out")
    assert len({file.path for file in done.files}) == 2
    assert all(file.path.resolve().is_relative_to(tmp_path / "out") for file in done.files)


def test_a_damaged_bill_is_written_as_far_as_it_was_read_and_said(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = cur(*[{"lineItem/ResourceId": f"i-{number:017x}"} for number in range(3000)])
    import gzip

    (tmp_path / "in" / "bill.csv.gz").write_bytes(gzip.compress(text.encode())[:-2000])
    done = exported(tmp_path / "in", tmp_path / "out")
    assert done.exit_status == PARTIAL
    assert "rows before the break were read" in done.problems[0]
    assert 0 < done.files[0].rows < 3000


def test_a_bill_that_counts_but_is_not_at_hand_is_said_and_not_written_in_part(tmp_path: Path) -> None:
    for name, account in (("one", "111122223333"), ("two", "444455556666")):
        (tmp_path / name / name).mkdir(parents=True)
        (tmp_path / name / name / "bill.csv").write_text(cur({"lineItem/UsageAccountId": account}))
    exported(tmp_path / "one", tmp_path / "first", data_dir=tmp_path / "data")
    done = exported(tmp_path / "two", tmp_path / "second", data_dir=tmp_path / "data")
    assert done.files == ()
    assert done.exit_status == NOTHING
    assert "not under the paths" in done.problems[0]


def test_an_export_between_two_scans_does_not_make_the_second_one_read_everything(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bill.csv").write_text(cur({}))
    asked = make_request(paths=(str(tmp_path / "in"),), data_dir=tmp_path / "data", rules=("purchase.expiring*",))
    first = scan(asked, Silent(), NOW)
    exported(tmp_path / "in", tmp_path / "out", data_dir=tmp_path / "data")
    second = scan(asked, Silent(), NOW)
    with State.open(asked.settings.state.address(tmp_path / "data")) as state:
        run = state.get_run(second.run_id)
        assert run is not None
        assert run.note == f"nothing changed since run {first.run_id}"


def test_a_target_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bill.csv").write_text(cur({}))
    (tmp_path / "out").write_text("a file")
    with pytest.raises(LakeError, match="cannot be written"):
        exported(tmp_path / "in", tmp_path / "out")


def test_the_command_lists_files_with_their_totals_and_names_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bill.csv").write_text(cur({}, {}))
    words = [sys.executable, "-m", "auditor", "export", "in", "--focus", "1.2", "-o", "out"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == DONE, done.stderr
    path = "out/provider=aws/billing_account_id=111122223333/billing_period=2026-10/focus-1.2.parquet"
    assert done.stdout == f"{path}  2 rows, 0.2 USD billed, 0.2 effective\n"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure", "focus"])
def test_bills_that_clouds_wrote_survive_the_export_to_the_last_decimal(cloud: str, tmp_path: Path) -> None:
    if not (SAMPLES / cloud).is_dir():
        pytest.skip("the team's sample files are not there")
    shutil.copytree(SAMPLES / cloud, tmp_path / "in")
    done = exported(tmp_path / "in", tmp_path / "out")
    assert done.problems == ()
    again = exported(tmp_path / "out", tmp_path / "again")
    assert costs(again) == costs(done)
