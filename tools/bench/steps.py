"""The steps that the benchmark of bills measures, each to be run in a process of its own.

    python tools/bench/steps.py STEP FOLDER WORK

FOLDER holds a month made by make_cur2.py, make_gcp.py or make_azure.py; WORK is where a step may write.
"""

import argparse
import shutil
from datetime import UTC, datetime
from pathlib import Path

import duckdb

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


def floor(folder: Path, work: Path) -> None:
    """The sum of the cost column: what nobody can be faster than."""
    _connect(work).execute(f"select sum({_cost(folder)}) from {_read(folder)}").fetchall()


def nothing(folder: Path, work: Path) -> None:
    """The start of Python, its libraries and the engine."""
    _connect(work).execute("select 1").fetchall()


def rows(folder: Path, work: Path) -> None:
    """Every row of a CUR as FOCUS in Parquet, by one plain query: no recognising, checking, adding up or state."""
    source = _read(folder)
    if not any(folder.glob("*.parquet")):
        maps = ", ".join(
            f"{name}::json::map(varchar, varchar) as {name}" for name in ("resource_tags", "product", "cost_category")
        )
        source = f"(select * replace ({maps}) from {source})"
    _connect(work).execute(ROWS.format(source=source, target=work / "rows.parquet"))


def ingest(folder: Path, work: Path) -> None:
    """What a scan does to take the bills in: recognised, checked, added up by day, written to the lake."""
    from auditor.collect.local import gather
    from auditor.intake import take_bills
    from auditor.lake import store
    from auditor.normalise.recognise import sort_files
    from auditor.progress import Silent
    from auditor.state import State
    from auditor.tagging import TagSettings

    now = datetime.now(UTC)
    data_dir, spool = work / "ingest", work / "spool"
    for path in (data_dir, spool):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
    con = store.connect(None, None, spool)
    with State.open(f"sqlite:///{data_dir / 'state.db'}") as state, state.run_lock("benchmark"):
        run_id = state.begin_run(as_of=None, now=now, note=None)
        files, _ = gather([str(folder)], spool)
        taken = take_bills(sort_files(files), con, state, run_id, data_dir, spool, TagSettings(), Silent())
        wrong = [report for report in taken.reports if report.status != "ok"]
        state.finish_run(run_id, "complete", None, exit_status=0)
    if wrong or not taken.reports:
        raise SystemExit(f"the bills were not taken in: {wrong[0].message if wrong else 'none was found'}")


def billed(folder: Path, work: Path) -> None:
    """What the bill says, exactly, so that the audit of it can be checked."""
    total = f"sum({_cost(folder)}::decimal(30,12))"
    if any(folder.glob("*.json.gz")):
        total += " + sum(list_sum(list_transform(credits, lambda each: each.amount::decimal(30,12))))"
    print((_connect(work).execute(f"select {total} from {_read(folder)}").fetchone() or [None])[0])


STEPS = {step.__name__: step for step in (nothing, floor, rows, ingest, billed)}


def _connect(work: Path) -> duckdb.DuckDBPyConnection:
    from auditor.lake import store

    return store.connect("2GiB", None, work)


def _cost(folder: Path) -> str:
    if any(folder.glob("*.json.gz")):
        return "cost"
    return "costInBillingCurrency" if any(folder.glob("part_*.csv")) else "line_item_unblended_cost"


def _read(folder: Path) -> str:
    """The reader of the folder's files; where it can be, told which columns are wanted, as is fastest."""
    paths = [str(path) for path in sorted(folder.iterdir())]
    if paths[0].endswith(".parquet"):
        return f"read_parquet({paths})"
    if paths[0].endswith(".json.gz"):
        return f"read_json({paths}, format='newline_delimited', columns={{'cost': 'DOUBLE', 'credits': 'STRUCT(amount VARCHAR)[]'}})"
    return f"read_csv({paths}, header=true, types={{'{_cost(folder)}': 'DECIMAL(30,12)'}})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("work", type=Path)
    asked = parser.parse_args()
    STEPS[asked.step](asked.folder, asked.work)


if __name__ == "__main__":
    main()
