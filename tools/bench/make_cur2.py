"""Writes a month of CUR 2.0 for the benchmark: hourly rows of an invented fleet, maps for tags and product attributes.

    python tools/bench/make_cur2.py FOLDER ROWS [--csv]

About 28,000 resources per 10 million rows, 120 accounts, 25,000 distinct tag maps; 82 % on-demand usage, 11 % under a
savings plan (with its negations), 7 % reserved. The same arguments give the same content.
"""

import argparse
from pathlib import Path

import duckdb

ROWS_A_FILE = 1_250_000

# Columns of the export that this fleet leaves empty, so that the file is as wide as a real one.
EMPTY = (
    "bill_bill_type bill_billing_entity bill_invoicing_entity bill_payer_account_name capacity_reservation_capacity_reservation_arn "
    "capacity_reservation_capacity_reservation_status capacity_reservation_capacity_reservation_type identity_time_interval "
    "line_item_blended_rate line_item_legal_entity line_item_net_unblended_rate line_item_tax_type line_item_unblended_rate "
    "line_item_usage_account_name pricing_currency pricing_lease_contract_length pricing_offering_class pricing_public_on_demand_rate "
    "pricing_purchase_option pricing_rate_code pricing_rate_id product_comment product_fee_code product_fee_description "
    "product_from_location product_from_location_type product_from_region_code product_instance_family product_instancesku "
    "product_location product_location_type product_operation product_pricing_unit product_servicecode product_to_location "
    "product_to_location_type product_to_region_code product_usagetype reservation_availability_zone reservation_end_time "
    "reservation_modification_status reservation_normalized_units_per_reservation reservation_number_of_reservations "
    "reservation_start_time reservation_subscription_id reservation_total_reserved_normalized_units reservation_total_reserved_units "
    "reservation_units_per_reservation savings_plan_end_time savings_plan_instance_type_family savings_plan_offering_type "
    "savings_plan_payment_option savings_plan_purchase_term savings_plan_region savings_plan_start_time split_line_item_parent_resource_id"
).split()
ZERO = (
    "line_item_blended_cost line_item_normalization_factor line_item_normalized_usage_amount "
    "reservation_amortized_upfront_cost_for_usage reservation_amortized_upfront_fee_for_billing_period reservation_net_amortized_upfront_cost_for_usage "
    "reservation_net_amortized_upfront_fee_for_billing_period reservation_net_effective_cost reservation_net_recurring_fee_for_usage "
    "reservation_net_unused_amortized_upfront_fee_for_billing_period reservation_net_unused_recurring_fee reservation_net_upfront_value "
    "reservation_recurring_fee_for_usage reservation_unused_amortized_upfront_fee_for_billing_period reservation_unused_normalized_unit_quantity "
    "reservation_unused_quantity reservation_unused_recurring_fee reservation_upfront_value savings_plan_amortized_upfront_commitment_for_billing_period "
    "savings_plan_net_amortized_upfront_commitment_for_billing_period savings_plan_net_recurring_commitment_for_billing_period "
    "savings_plan_net_savings_plan_effective_cost savings_plan_recurring_commitment_for_billing_period savings_plan_savings_plan_rate "
    "savings_plan_total_commitment_to_date savings_plan_used_commitment split_line_item_actual_usage split_line_item_reserved_usage "
    "split_line_item_split_cost split_line_item_split_usage split_line_item_unused_cost discount_total_discount discount_bundled_discount"
).split()

TYPES = [
    "m5.large",
    "m5.xlarge",
    "c6i.2xlarge",
    "r6i.xlarge",
    "g5.xlarge",
    "g5.12xlarge",
    "p4d.24xlarge",
    "t3.medium",
    "c7g.large",
    "m6i.4xlarge",
]
REGIONS = ["us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-southeast-1"]


def listed(values: list[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"


def rows(first: int, count: int, total: int, *, csv: bool) -> str:
    resources = max(50, total // 360)
    tags = "map {'user_team': 'team-' || (r % 60), 'user_env': list_extract(['prod', 'dev', 'stage'], (r % 3 + 1)::bigint), 'user_app': 'app-' || (r % 25000), 'aws_created_by': 'role-' || (r % 40)}"
    product = "map {'product_name': 'Amazon Elastic Compute Cloud', 'region': region, 'operating_system': 'Linux', 'tenancy': 'Shared'}"
    as_map = "to_json({0})::varchar" if csv else "{0}"
    empty = ", ".join(f"null::varchar as {name}" for name in EMPTY)
    zero = ", ".join(f"0.0::double as {name}" for name in ZERO)
    return f"""
    with numbered as (
        select i, hash(i // 2) % {resources} as r, ((i // 2) * 2 * 744 // {total})::bigint as hour_of_month
        from range({first}, {first + count}) as t(i)
    ),
    described as (
        select *, hash(r * 7 + 3) % 100 as dice, list_extract({listed(TYPES)}, (r % 10 + 1)::bigint) as machine, list_extract({listed(REGIONS)}, (r % 5 + 1)::bigint) as region,
            timestamp '2026-10-01' + to_hours(hour_of_month) as start_at, round(0.01 + (r % 977) / 311.0, 10) as price,
            case when dice < 80 then 'Usage' when dice >= 93 then 'DiscountedUsage' when i % 2 = 0 then 'SavingsPlanCoveredUsage' else 'SavingsPlanNegation' end as kind
        from numbered
    )
    select
        md5(i::varchar) || md5((i + 1)::varchar)[:20] as identity_line_item_id,
        '111122223333' as bill_payer_account_id,
        timestamp '2026-10-01' as bill_billing_period_start_date, timestamp '2026-11-01' as bill_billing_period_end_date,
        '1234567' as bill_invoice_id,
        lpad((100000000000 + r % 120)::varchar, 12, '0') as line_item_usage_account_id,
        kind as line_item_line_item_type, start_at as line_item_usage_start_date, start_at + interval 1 hour as line_item_usage_end_date,
        case when r % 9 = 0 then 'AmazonS3' else 'AmazonEC2' end as line_item_product_code,
        case when r % 9 = 0 then 'TimedStorage-ByteHrs' when r % 13 = 0 then 'DataTransfer-Regional-Bytes' else 'BoxUsage:' || machine end as line_item_usage_type,
        case when r % 9 = 0 then 'StandardStorage' when r % 13 = 0 then 'InterZone-Out' else 'RunInstances' end as line_item_operation,
        'USD' as line_item_currency_code, region || 'a' as line_item_availability_zone,
        case when r % 9 = 0 then 'bucket-' || r else 'i-' || lpad(to_hex(r), 17, '0') end as line_item_resource_id,
        1.0::double as line_item_usage_amount,
        '$' || price || ' per hour' as line_item_line_item_description,
        case when kind = 'DiscountedUsage' then 0 when kind = 'SavingsPlanNegation' then -price else price end::double as line_item_unblended_cost,
        null::double as line_item_net_unblended_cost,
        price::double as pricing_public_on_demand_cost, 'Hrs' as pricing_unit, 'OnDemand' as pricing_term,
        'SKU' || (r % 4000) as product_sku, region as product_region_code, machine as product_instance_type, 'Compute Instance' as product_product_family,
        case when kind = 'DiscountedUsage' then 'arn:aws:ec2:us-east-1:100000000001:reserved-instances/' || (r % 50) end as reservation_reservation_a_r_n,
        case when kind = 'DiscountedUsage' then price * 0.6 else 0 end::double as reservation_effective_cost,
        case when kind like 'SavingsPlan%' then 'arn:aws:savingsplans::111122223333:savingsplan/' || (r % 20) end as savings_plan_savings_plan_a_r_n,
        case when kind = 'SavingsPlanCoveredUsage' then price * 0.72 else 0 end::double as savings_plan_savings_plan_effective_cost,
        {as_map.format(tags)} as resource_tags, {as_map.format(product)} as product, {as_map.format("map {}::map(varchar, varchar)")} as cost_category,
        {empty}, {zero}
    from described
    """


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("--csv", action="store_true", help="gzip CSV instead of Parquet")
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    con = duckdb.connect(config={"memory_limit": "4GB"})
    size = ROWS_A_FILE // 2 if wanted.csv else ROWS_A_FILE
    for number, first in enumerate(range(0, wanted.rows, size), 1):
        query = rows(first, min(size, wanted.rows - first), wanted.rows, csv=wanted.csv)
        if wanted.csv:
            con.execute(
                f"copy ({query}) to '{wanted.folder}/bench-{number:05}.csv.gz' (format csv, header, compression gzip)"
            )
        else:
            con.execute(
                f"copy ({query}) to '{wanted.folder}/bench-{number:05}.snappy.parquet' (format parquet, compression snappy)"
            )


if __name__ == "__main__":
    main()
