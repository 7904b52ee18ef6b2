"""The bundled example: its generator repeats itself, and what it says of its totals is what its files add up to."""

import csv
import gzip
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[1]
ESTATE = ROOT / "examples" / "estate"
EXPECTED: dict[str, Any] = json.loads((ESTATE.parent / "expected.json").read_text(encoding="utf-8"))
Totals = dict[tuple[str, str, str], tuple[Decimal, Decimal]]


def expected_totals(provider: str) -> Totals:
    return {
        (total["billing_account_id"], total["billing_period"], total["currency"]): (
            Decimal(total["billed_cost"]),
            Decimal(total["effective_cost"]),
        )
        for total in EXPECTED["totals"]
        if total["provider"] == provider
    }


def content(path: Path) -> Any:
    """What a file says, without what a compressor of another version would write differently."""
    if path.suffix == ".parquet":
        return duckdb.execute(
            "select count(*), sum(hash(t)::hugeint) from read_parquet(?) as t", [str(path)]
        ).fetchall()
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.name == "manifest.json":
        return [line for line in path.read_text(encoding="utf-8").splitlines() if "byteCount" not in line]
    return path.read_bytes()


def files(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())


def number(cell: str | None) -> Decimal:
    return Decimal(cell or 0)


def csv_rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as lines:
        yield from csv.DictReader(lines)


def in_percent(document: Any) -> dict[str, list[float]]:
    """Utilisation by resource from the two foreign formats, as ratios in the order of time."""
    series: dict[str, list[float]] = defaultdict(list)
    for one in document.get("data", {}).get("result", []):
        series[one["metric"]["provider_id"].rpartition("/")[2]] += [float(value) / 100 for _, value in one["values"]]
    for one in document.get("timeSeries", []):
        values = [point["value"]["doubleValue"] / 100 for point in reversed(one["points"])]
        series[one["resource"]["labels"]["instance_id"]] += values
    return series


@pytest.fixture(scope="module")
def utilisation() -> dict[str, list[float]]:
    """The highest sample of all devices, by resource and in the order of time."""
    folder = ESTATE / "monitoring"
    series: dict[str, list[float]] = defaultdict(list)
    rows = duckdb.execute(
        "select resource_id, max(value) from read_parquet(?) where metric = 'gpu.utilization' "
        "group by resource_id, time order by resource_id, time",
        [str(folder / "metrics-gpu.parquet")],
    ).fetchall()
    for resource_id, value in rows:
        series[resource_id].append(value)
    for path in folder.glob("*.json.gz"):
        series |= in_percent(json.loads(gzip.decompress(path.read_bytes())))
    return series


def test_the_generator_writes_the_bundled_files_again(tmp_path: Path) -> None:
    again = tmp_path / "estate"
    subprocess.run([sys.executable, str(ROOT / "tools" / "make_example.py"), str(again)], check=True)
    assert files(again) == files(ESTATE)
    for name in files(ESTATE):
        assert content(again / name) == content(ESTATE / name), f"{name} differs"
    assert json.loads((tmp_path / "expected.json").read_text(encoding="utf-8")) == EXPECTED


def test_the_generator_does_not_delete_a_folder_that_is_no_estate(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("keep me")
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_example.py"), str(tmp_path)], capture_output=True, check=False
    )
    assert made.returncode != 0
    assert (tmp_path / "letter.txt").read_text() == "keep me"


def test_the_example_stays_small() -> None:
    assert sum((ESTATE / name).stat().st_size for name in files(ESTATE)) < 1_500_000


def test_cur2_files_add_up_to_the_expected_totals() -> None:
    summed = duckdb.execute(
        """
        select
            bill_payer_account_id,
            strftime(bill_billing_period_start_date, '%Y-%m'),
            line_item_currency_code,
            sum(line_item_unblended_cost::decimal(30, 12)),
            sum(case line_item_line_item_type
                when 'SavingsPlanCoveredUsage' then savings_plan_savings_plan_effective_cost::decimal(30, 12)
                when 'SavingsPlanNegation' then 0
                when 'SavingsPlanRecurringFee' then savings_plan_total_commitment_to_date::decimal(30, 12)
                    - savings_plan_used_commitment::decimal(30, 12)
                else line_item_unblended_cost::decimal(30, 12)
            end)
        from read_parquet(?)
        group by all
        """,
        [str(ESTATE / "aws/cur2/acme-hourly/data/*/*.parquet")],
    ).fetchall()
    expected = {key: value for key, value in expected_totals("aws").items() if key[0] == "111122223333"}
    assert {
        (account, period, currency): (billed, used) for account, period, currency, billed, used in summed
    } == expected


def test_every_hour_of_the_savings_plan_cancels_and_is_used_as_its_fee_says() -> None:
    hours = duckdb.execute(
        """
        select
            sum(line_item_unblended_cost::decimal(30, 12)) filter (where line_item_line_item_type <> 'SavingsPlanRecurringFee'),
            sum(savings_plan_savings_plan_effective_cost::decimal(30, 12)) = sum(savings_plan_used_commitment::decimal(30, 12))
        from read_parquet(?)
        where line_item_line_item_type like 'SavingsPlan%'
        group by line_item_usage_start_date
        """,
        [str(ESTATE / "aws/cur2/acme-hourly/data/*/*.parquet")],
    ).fetchall()
    assert len(hours) == 61 * 24
    assert set(hours) == {(Decimal(0), True)}


def test_legacy_cur_adds_up_over_the_files_its_manifests_name() -> None:
    totals: Totals = {}
    for manifest_path in ESTATE.glob("aws/legacy/acme-vision/*/acme-vision-Manifest.json"):
        manifest = json.loads(manifest_path.read_text(encoding="utf-8"))
        billed = effective = Decimal(0)
        for key in manifest["reportKeys"]:
            for row in csv_rows(ESTATE / key):
                cost = number(row["lineItem/UnblendedCost"])
                unused = number(row["reservation/UnusedRecurringFee"]) + number(
                    row["reservation/UnusedAmortizedUpfrontFeeForBillingPeriod"]
                )
                amortised = {"DiscountedUsage": number(row["reservation/EffectiveCost"]), "RIFee": unused}
                billed += cost
                effective += amortised.get(row["lineItem/LineItemType"], cost)
        start = manifest["billingPeriod"]["start"]
        totals[manifest["account"], f"{start[:4]}-{start[4:6]}", "USD"] = (billed, effective)
    assert totals == {key: value for key, value in expected_totals("aws").items() if key[0] == "444455556666"}
    assert all(effective > billed for billed, effective in totals.values()), "the upfront fee was paid earlier"


def test_gcp_rows_add_up_with_their_credits() -> None:
    totals: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for path in ESTATE.glob("gcp/billing-export/*.json.gz"):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            row = json.loads(line, parse_float=Decimal)
            month = row["invoice"]["month"]
            net = row["cost"] + sum(credit["amount"] for credit in row["credits"])
            totals[row["billing_account_id"], f"{month[:4]}-{month[4:]}", row["currency"]] += net
    assert {key: (net, net) for key, net in totals.items()} == expected_totals("gcp")


def azure_runs(export: str) -> dict[str, list[tuple[str, Decimal, set[tuple[str, str, str]]]]]:
    """By month: the runs, oldest first, each with its total and the scope of its rows."""
    runs: dict[str, list[tuple[str, Decimal, set[tuple[str, str, str]]]]] = defaultdict(list)
    for path in (ESTATE / "azure/exports" / export).glob("*/*/manifest.json"):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        rows = [row for blob in manifest["blobs"] for row in csv_rows(ESTATE / blob["blobName"])]
        assert len(rows) == sum(blob["dataRowCount"] for blob in manifest["blobs"])
        cost = sum((number(row["CostInBillingCurrency"]) for row in rows), Decimal(0))
        scope = {
            (row["BillingAccountId"], manifest["runInfo"]["startDate"][:7], row["BillingCurrencyCode"]) for row in rows
        }
        runs[manifest["runInfo"]["startDate"][:7]].append((manifest["runInfo"]["submittedTime"], cost, scope))
    return {month: sorted(found, key=lambda run: run[0]) for month, found in runs.items()}


def test_the_newest_azure_runs_add_up_and_the_older_one_is_partial() -> None:
    actual, amortized = azure_runs("ea-actual"), azure_runs("ea-amortized")
    totals = {scope: (runs[-1][1], amortized[month][-1][1]) for month, runs in actual.items() for scope in runs[-1][2]}
    assert totals == expected_totals("azure")
    for runs in (actual["2026-09"], amortized["2026-09"]):
        assert len(runs) == 2
        assert runs[0][1] < runs[1][1]


def test_idle_machines_are_idle_to_the_end_and_their_look_alikes_are_not(utilisation: dict[str, list[float]]) -> None:
    week = 7 * 24

    def samples(resource_id: str) -> list[float]:
        return utilisation.get(resource_id) or utilisation.get(resource_id.rpartition("/")[2], [])

    for planted in EXPECTED["planted"]:
        values = samples(planted["resource_id"])
        if planted["rule_id"] == "gpu.idle_instance":
            assert len(values) == 30 * 24
            assert max(values[-2 * week :]) < 0.05
        if planted["rule_id"] == "gpu.no_telemetry":
            assert values == []
    for silent in EXPECTED["silent"]:
        values = samples(silent["resource_id"])
        if silent["rule_id"] == "gpu.idle_instance" and len(values) >= week:
            assert sum(value >= 0.05 for value in values) > 0.05 * len(values), silent["why"]


def test_nothing_is_both_planted_and_silent_and_everything_is_on_a_bill() -> None:
    planted = {(one["rule_id"], one["resource_id"]) for one in EXPECTED["planted"]}
    silent = {(one["rule_id"], one["resource_id"]) for one in EXPECTED["silent"]}
    assert not planted & silent
    billed = {
        resource_id
        for (resource_id,) in duckdb.execute(
            "select distinct line_item_resource_id from read_parquet(?)",
            [str(ESTATE / "aws/cur2/acme-hourly/data/*/*.parquet")],
        ).fetchall()
    }
    texts = [
        gzip.decompress(path.read_bytes()).decode() for path in ESTATE.rglob("*.gz") if "monitoring" not in path.parts
    ]
    for _, resource_id in planted | silent:
        assert resource_id in billed or any(resource_id in text for text in texts), resource_id
