"""Measures how fast bills are read, as ratios of what DuckDB alone needs in the same run.

    python tools/bench/bills.py FOLDER [--scan]

FOLDER holds a month made by make_cur2.py (Parquet or CSV.gz), make_gcp.py or make_azure.py. Printed are wall and CPU seconds
and the peak memory of each step, run in a process of its own: `floor` sums the cost, `rows` writes every row of a CUR as FOCUS
Parquet with its tags, `ingest` takes the delivery in, `scan` audits it and writes the report. The CPU's ratio is the steadier
one where other programs run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

ROWS = """
copy (
    select
        'aws' as ProviderName, bill_payer_account_id as BillingAccountId, bill_billing_period_start_date as BillingPeriodStart,
        bill_billing_period_end_date as BillingPeriodEnd, bill_invoice_id as InvoiceId, bill_invoicing_entity as InvoiceIssuerName,
        line_item_usage_account_id as SubAccountId, line_item_usage_account_name as SubAccountName, line_item_usage_start_date as ChargePeriodStart,
        line_item_usage_end_date as ChargePeriodEnd, line_item_currency_code as BillingCurrency,
        case when line_item_line_item_type in ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') then 'Usage'
            when line_item_line_item_type = 'Tax' then 'Tax' when line_item_line_item_type = 'Credit' then 'Credit'
            when line_item_line_item_type like '%Fee' then 'Purchase' else 'Adjustment' end as ChargeCategory,
        line_item_line_item_description as ChargeDescription,
        (case when line_item_line_item_type = 'SavingsPlanCoveredUsage' then 0 else line_item_unblended_cost end)::decimal(30,12) as BilledCost,
        (case when line_item_line_item_type = 'DiscountedUsage' then reservation_effective_cost
            when line_item_line_item_type = 'SavingsPlanCoveredUsage' then savings_plan_savings_plan_effective_cost
            when line_item_line_item_type like '%Fee' then 0 else line_item_unblended_cost end)::decimal(30,12) as EffectiveCost,
        pricing_public_on_demand_cost::decimal(30,12) as ListCost, line_item_unblended_cost::decimal(30,12) as ContractedCost,
        line_item_usage_amount::decimal(30,12) as ConsumedQuantity, pricing_unit as ConsumedUnit, pricing_term as PricingCategory,
        coalesce(savings_plan_savings_plan_a_r_n, reservation_reservation_a_r_n) as CommitmentDiscountId,
        product_region_code as RegionId, line_item_availability_zone as AvailabilityZone, line_item_resource_id as ResourceId,
        product['product_name'] as ServiceName, product_product_family as ServiceCategory, product_sku as SkuId, pricing_rate_code as SkuPriceId,
        product_instance_type as x_InstanceType, line_item_usage_type as x_UsageType, line_item_operation as x_Operation,
        line_item_product_code as x_ServiceCode, line_item_line_item_type as x_LineItemType, identity_line_item_id as x_LineItemId,
        resource_tags as Tags, cost_category as x_CostCategories
    from {source}
    where line_item_line_item_type <> 'SavingsPlanNegation'
) to '{target}' (format parquet, compression zstd)
"""


def source(folder: Path) -> str:
    parquet = sorted(folder.glob("*.parquet"))
    if parquet:
        return f"read_parquet({[str(path) for path in parquet]})"
    paths = [str(path) for path in sorted(folder.glob("*.csv.gz"))]
    return f"(select * replace (resource_tags::json::map(varchar, varchar) as resource_tags, product::json::map(varchar, varchar) as product) from read_csv({paths}, types={{'line_item_unblended_cost': 'DECIMAL(30,12)'}}))"


def floor(folder: Path) -> None:
    from auditor.lake import store

    with tempfile.TemporaryDirectory() as scratch:
        con = store.connect("2GiB", None, Path(scratch))
        paths = [str(path) for path in sorted(folder.iterdir())]
        if ".json" in paths[0]:
            from auditor.normalise.billing.gcp_export import JSON_COLUMNS

            cost, read = (
                "cost::decimal(30,12)",
                f"read_json({paths}, format='newline_delimited', columns={JSON_COLUMNS})",
            )
        elif ".csv" in paths[0]:
            cost, read = _cost(con, paths), f"read_csv({paths}, all_varchar=true)"
        else:
            cost, read = "line_item_unblended_cost", f"read_parquet({paths})"
        print(con.execute(f"select sum({cost}) from {read}").fetchone(), file=sys.stderr)


def _cost(con: Any, paths: list[str]) -> str:
    names = {row[0] for row in con.execute(f"describe select * from read_csv({paths}, all_varchar=true)").fetchall()}
    return f"{'line_item_unblended_cost' if 'line_item_unblended_cost' in names else 'costInBillingCurrency'}::decimal(30,12)"


def rows(folder: Path) -> None:
    from auditor.lake import store

    with tempfile.TemporaryDirectory() as scratch:
        con = store.connect("2GiB", None, Path(scratch))
        con.execute(ROWS.format(source=source(folder), target=f"{scratch}/rows.parquet"))


def ingest(folder: Path) -> None:
    from auditor.collect.local import gather
    from auditor.lake import store
    from auditor.normalise.billing import deliveries
    from auditor.normalise.billing import ingest as billing
    from auditor.normalise.recognise import sort_files
    from auditor.tagging import TagSettings

    with tempfile.TemporaryDirectory() as scratch:
        spool = Path(scratch)
        con = store.connect(None, None, spool)
        files, _ = gather([str(folder)], spool)
        found, _ = deliveries.group(sort_files(files).recognised, [])
        for number, delivery in enumerate(found):
            taken = billing.ingest(con, delivery, f"d{number}", spool, TagSettings(), lambda _: None)
            for bill_id, provider, period in sorted({(t.bill_id, t.provider, t.billing_period) for t in taken.totals}):
                names = {
                    "keys": taken.keys,
                    "charges": taken.charges,
                    "hourly": taken.hourly,
                    "provider": provider,
                    "source": "bench",
                }
                store.write_delivery(con, spool, **names, delivery_id=bill_id, billing_period=period)


def scan(folder: Path) -> None:
    from datetime import UTC, datetime

    from auditor.cli.request import make_request
    from auditor.progress import Silent
    from auditor.render import render
    from auditor.scan import scan as run

    with tempfile.TemporaryDirectory() as scratch:
        result = run(make_request(paths=(str(folder),), as_of=date(2026, 11, 1)), Silent(), datetime.now(UTC))
        render(result.document, result.extras, ("html", "json"), Path(scratch))


STEPS = {"floor": floor, "rows": rows, "ingest": ingest, "scan": scan}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scan", action="store_true", help="also measure the whole audit")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.step:
        STEPS[wanted.step](wanted.folder)
        return
    steps = [
        "floor",
        *(["rows"] if any(wanted.folder.glob("bench-*")) else []),
        "ingest",
        *(["scan"] if wanted.scan else []),
    ]
    measured = {name: _measure(name, wanted.folder) for name in steps}
    for name in steps[steps.index("ingest") :]:
        for other in steps[: steps.index("ingest")]:
            wall, cpu = (measured[name][part] / measured[other][part] for part in (0, 1))
            print(f"{name} takes {wall:.2f} times as long as {other} ({cpu:.2f} times by CPU)")


def _measure(name: str, folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one step in a process of its own, after the files were read once."""
    command = [sys.executable, __file__, str(folder), "--step", name]
    start = time.perf_counter()
    with subprocess.Popen(command) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    wall, cpu = time.perf_counter() - start, used.ru_utime + used.ru_stime
    print(f"{name:8} {wall:8.1f} s wall {cpu:8.1f} s cpu {used.ru_maxrss / 1024:8.0f} MiB at most", flush=True)
    return wall, cpu


if __name__ == "__main__":
    main()
