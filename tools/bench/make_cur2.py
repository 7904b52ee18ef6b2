"""Writes a month of CUR 2.0 for the benchmark: hourly rows of an invented fleet, maps for tags and product attributes.

    python tools/bench/make_cur2.py FOLDER ROWS [--csv]

Shaped like reports of live accounts: a resource has two lines an hour and lives for a day or a part of one, costs of hours
repeat and costs of bytes do not, descriptions say the price of a SKU, and within a day the rows are in no order. About 28,000
resources per 10 million rows, each with a tag map of its own, in 120 accounts; the ids of lines are random. 9 % of the rows are
covered by a savings plan (and as many negate them), 4 % are reserved, a tenth of the machines have accelerators. The same
arguments give the same content.
"""

from making import listed, wanted, write

ROWS_A_FILE = 1_250_000

# Columns that a fleet of machines and volumes leaves empty.
EMPTY = (
    "bill_payer_account_name capacity_reservation_capacity_reservation_arn "
    "capacity_reservation_capacity_reservation_status capacity_reservation_capacity_reservation_type line_item_net_unblended_rate "
    "line_item_tax_type pricing_lease_contract_length pricing_offering_class pricing_purchase_option product_comment product_fee_code "
    "product_fee_description reservation_availability_zone reservation_end_time reservation_modification_status "
    "reservation_normalized_units_per_reservation reservation_number_of_reservations reservation_start_time "
    "reservation_total_reserved_normalized_units reservation_total_reserved_units reservation_units_per_reservation "
    "split_line_item_parent_resource_id"
).split()
ZERO = (
    "line_item_normalization_factor line_item_normalized_usage_amount "
    "reservation_amortized_upfront_cost_for_usage reservation_amortized_upfront_fee_for_billing_period reservation_net_amortized_upfront_cost_for_usage "
    "reservation_net_amortized_upfront_fee_for_billing_period reservation_net_effective_cost reservation_net_recurring_fee_for_usage "
    "reservation_net_unused_amortized_upfront_fee_for_billing_period reservation_net_unused_recurring_fee reservation_net_upfront_value "
    "reservation_unused_amortized_upfront_fee_for_billing_period reservation_unused_normalized_unit_quantity "
    "reservation_unused_quantity reservation_unused_recurring_fee reservation_upfront_value savings_plan_amortized_upfront_commitment_for_billing_period "
    "savings_plan_net_amortized_upfront_commitment_for_billing_period savings_plan_net_recurring_commitment_for_billing_period "
    "savings_plan_net_savings_plan_effective_cost savings_plan_recurring_commitment_for_billing_period "
    "savings_plan_total_commitment_to_date savings_plan_used_commitment split_line_item_actual_usage split_line_item_reserved_usage "
    "split_line_item_split_cost split_line_item_split_usage split_line_item_unused_cost discount_total_discount discount_bundled_discount"
).split()

FAMILIES = ["m5", "m6i", "m7g", "c5", "c6i", "c7g", "r5", "r6i", "t3"]
SIZES = ["large", "xlarge", "2xlarge", "4xlarge"]
ACCELERATED = ["g5.xlarge", "g5.12xlarge", "g6.2xlarge", "p4d.24xlarge"]
# Region, the prefix of its usage types, and its name in the price list.
REGIONS = {
    "us-east-1": ("", "US East (N. Virginia)"),
    "us-east-2": ("USE2-", "US East (Ohio)"),
    "us-west-2": ("USW2-", "US West (Oregon)"),
    "eu-west-1": ("EU-", "EU (Ireland)"),
    "eu-central-1": ("EUC1-", "EU (Frankfurt)"),
    "ap-southeast-1": ("APS1-", "Asia Pacific (Singapore)"),
}

# The two lines of each kind of resource (a NAT gateway is one in a hundred): its numbers, line, usage type, operation, unit, its family of products, price, and amount.
_RANDOM = "(hash(i, 'amount') % 1000003) / 1000003.0"
LINES = """
    select * from (values
        (0, 6, 0, 'BoxUsage:{machine}', 'RunInstances', 'Hrs', 'Compute Instance'),
        (0, 6, 1, 'DataTransfer-Regional-Bytes', 'InterZone-Out', 'GB', 'Data Transfer'),
        (6, 8, 0, 'EBS:VolumeUsage.gp3', 'CreateVolume-Gp3', 'GB-Mo', 'Storage'),
        (6, 8, 1, 'EBS:VolumeP-IOPS.gp3', 'CreateVolume-Gp3', 'IOPS-Mo', 'System Operation'),
        (8, 9, 0, 'TimedStorage-ByteHrs', 'StandardStorage', 'GB-Mo', 'Storage'),
        (8, 9, 1, 'Requests-Tier2', 'GetObject', 'Requests', 'API Request'),
        (9, 10, 0, 'NatGateway-Hours', 'NatGateway', 'Hrs', 'NAT Gateway'),
        (9, 10, 1, 'NatGateway-Bytes', 'NatGateway', 'GB', 'NAT Gateway')
    ) as t(share_from, share_to, k, usage, operation, unit, product_family)
"""


def rows(first: int, count: int, total: int, *, csv: bool) -> str:
    resources = max(50, total // 360)
    names = list(REGIONS)
    machines = [f"{family}.{size}" for family in FAMILIES for size in SIZES]
    as_map = "to_json({0})::varchar" if csv else "{0}"
    tags = """map {
        'user_name': 'node-' || to_hex(hash(r, 'name'))[:10], 'user_team': 'team-' || (r % 60), 'user_env': list_extract(['prod', 'dev', 'stage'], (r % 3 + 1)::bigint),
        'user_app': 'app-' || (r % 25000), 'aws_created_by': 'AssumedRole:AROAEXAMPLE:role-' || (r % 40)
    }"""
    product = """case when kind_of < 6 and k = 0 then map {
        'product_name': product_name, 'region': region, 'operating_system': 'Linux', 'tenancy': 'Shared', 'vcpu': (4 + r % 5)::varchar, 'memory': (16 + r % 5) || ' GiB',
        'storage': 'EBS only', 'network_performance': 'Up to 10 Gigabit', 'physical_processor': 'Intel Xeon Platinum 8175', 'processor_architecture': '64-bit',
        'current_generation': 'Yes', 'license_model': 'No License required', 'pre_installed_sw': 'NA', 'capacitystatus': 'Used', 'marketoption': 'OnDemand', 'servicename': product_name
    } else map {'product_name': product_name, 'region': region, 'group': operation, 'group_description': product_family || ' of ' || product_name, 'servicename': product_name} end"""
    empty = ", ".join(f"null::varchar as {name}" for name in EMPTY)
    zero = ", ".join(f"0.0::double as {name}" for name in ZERO)
    return f"""
    with numbered as (
        -- Of three lives in a day two are whole and one ends after six hours.
        select i, i % 2 as k, i // 2 as pair, (i // 2) % 54 as place, ((i // 2) * 2 * 31 // {total})::bigint as day
        from range({first}, {first + count}) as t(i)
    ),
    living as (
        select *, hash(pair // 54 * 3 + place // 24) % {resources} as r, (place % 24)::bigint as hour from numbered
    ),
    described as (
        select
            *, if(hash(r, 'kind') % 100 = 99, 9, hash(r, 'kind') % 9) as kind_of, hash(r, 'plan') % 100 as dice, list_extract({listed(names)}, (r % {len(names)} + 1)::bigint) as region,
            list_extract({listed([REGIONS[name][0] for name in names])}, (r % {len(names)} + 1)::bigint) as prefix,
            list_extract({listed([REGIONS[name][1] for name in names])}, (r % {len(names)} + 1)::bigint) as region_name,
            case when hash(r, 'machine') % 10 = 0 then list_extract({listed(ACCELERATED)}, (r // 7 % {len(ACCELERATED)} + 1)::bigint)
                else list_extract({listed(machines)}, (r // 7 % {len(machines)} + 1)::bigint) end as machine,
            timestamp '2026-10-01' + to_days(day::integer) + to_hours(hour) as start_at
        from living
    ),
    priced as (
        select
            d.*, l.operation, l.unit, l.product_family, replace(l.usage, '{{machine}}', machine) as usage, prefix || replace(l.usage, '{{machine}}', machine) as usage_type,
            case when kind_of >= 6 then 'Usage' when dice < 68 then 'Usage' when dice < 82 then if(d.k = 0, 'DiscountedUsage', 'Usage')
                when d.k = 0 then 'SavingsPlanCoveredUsage' else 'SavingsPlanNegation' end as kind,
            case when kind_of = 8 then 'AmazonS3' else 'AmazonEC2' end as code,
            case when kind_of = 8 then 'Amazon Simple Storage Service' else 'Amazon Elastic Compute Cloud' end as product_name
        from described as d
        join ({LINES}) as l
            on d.kind_of >= l.share_from and d.kind_of < l.share_to
            -- A negation is a line of the same usage as what it takes back.
            and l.k = if(d.kind_of < 6 and d.dice >= 82, 0, d.k)
    ),
    metered as (
        select
            *, round(case unit when 'Hrs' then 0.02 + hash(usage_type) % 9973 / 7919.0 when 'Requests' then 0.0000004 else 0.005 + hash(usage_type) % 17 / 100.0 end, 7) as rate,
            round(case when unit = 'Hrs' then 1 when k = 0 then (20 + r % 500) / 744.0 when kind_of < 6 then {_RANDOM} * 2 when unit = 'Requests' then floor({_RANDOM} * 9000) else {_RANDOM} * 40 end, 10) as amount,
            upper(md5(usage_type || operation)[:16]) as sku, strftime(start_at, '%Y-%m-%dT%H:00:00Z') as starts
        from priced
    ),
    costed as (
        select *, round(rate * amount, 10) as price from metered
    )
    select
        md5(i::varchar) || md5((i + 1)::varchar)[:20] as identity_line_item_id, starts || '/' || strftime(start_at + interval 1 hour, '%Y-%m-%dT%H:00:00Z') as identity_time_interval,
        'Anniversary' as bill_bill_type, 'AWS' as bill_billing_entity, 'Amazon Web Services, Inc.' as bill_invoicing_entity, '111122223333' as bill_payer_account_id,
        timestamp '2026-10-01' as bill_billing_period_start_date, timestamp '2026-11-01' as bill_billing_period_end_date, '1234567' as bill_invoice_id,
        lpad((100000000000 + r % 120)::varchar, 12, '0') as line_item_usage_account_id, 'acme account ' || (r % 120) as line_item_usage_account_name,
        'Amazon Web Services, Inc.' as line_item_legal_entity,
        kind as line_item_line_item_type, start_at as line_item_usage_start_date, start_at + interval 1 hour as line_item_usage_end_date,
        code as line_item_product_code, usage_type as line_item_usage_type, case when kind = 'SavingsPlanNegation' then 'RunInstances' else operation end as line_item_operation,
        'USD' as line_item_currency_code, case when kind_of < 8 then region || list_extract(['a', 'b', 'c'], (r % 3 + 1)::bigint) end as line_item_availability_zone,
        case when kind_of < 6 then 'i-0' || to_hex(hash(r, 'id'))[:16] when kind_of < 8 then 'vol-0' || to_hex(hash(r, 'id'))[:16] when kind_of = 8 then 'acme-data-' || r
            else 'arn:aws:ec2:' || region || ':' || (100000000000 + r % 120) || ':natgateway/nat-0' || to_hex(hash(r, 'id'))[:16] end as line_item_resource_id,
        amount::double as line_item_usage_amount,
        case when kind = 'SavingsPlanNegation' then 'SavingsPlanNegation used by AccountId : ' || (100000000000 + r % 120) || ' and UsageSku : ' || sku
            else '$' || rate || ' per ' || unit || ' of ' || usage || ' in ' || region_name end as line_item_line_item_description,
        rate::varchar as line_item_unblended_rate, rate::varchar as line_item_blended_rate, rate::varchar as pricing_public_on_demand_rate,
        case when kind = 'DiscountedUsage' then 0 when kind = 'SavingsPlanNegation' then -price else price end::double as line_item_unblended_cost,
        case when kind = 'DiscountedUsage' then 0 when kind = 'SavingsPlanNegation' then -price else price end::double as line_item_blended_cost,
        null::double as line_item_net_unblended_cost,
        price::double as pricing_public_on_demand_cost, unit as pricing_unit, case when kind = 'DiscountedUsage' then 'Reserved' else 'OnDemand' end as pricing_term,
        'USD' as pricing_currency, sku || '.JRTCKXETXF.6YS6EN2CT7' as pricing_rate_code, (hash(sku) % 1000000000)::varchar as pricing_rate_id,
        sku as product_sku, sku as product_instancesku, region as product_region_code, case when unit = 'Hrs' and kind_of < 6 then machine end as product_instance_type,
        case when kind_of < 6 then 'General purpose' end as product_instance_family, product_family as product_product_family, region_name as product_location, 'AWS Region' as product_location_type,
        operation as product_operation, unit as product_pricing_unit, code as product_servicecode, usage_type as product_usagetype,
        case when product_family = 'Data Transfer' then region_name end as product_from_location, case when product_family = 'Data Transfer' then 'AWS Region' end as product_from_location_type,
        case when product_family = 'Data Transfer' then region end as product_from_region_code, case when product_family = 'Data Transfer' then region_name end as product_to_location,
        case when product_family = 'Data Transfer' then 'AWS Region' end as product_to_location_type, case when product_family = 'Data Transfer' then region end as product_to_region_code,
        case when kind = 'DiscountedUsage' then 'arn:aws:ec2:us-east-1:100000000001:reserved-instances/' || (r % 50) end as reservation_reservation_a_r_n,
        case when kind = 'DiscountedUsage' then (7000000000 + r % 50)::varchar end as reservation_subscription_id,
        case when kind = 'DiscountedUsage' then round(price * 0.6, 10) else 0 end::double as reservation_effective_cost,
        case when kind = 'DiscountedUsage' then round(price * 0.6, 10) else 0 end::double as reservation_recurring_fee_for_usage,
        case when kind like 'SavingsPlan%' then 'arn:aws:savingsplans::111122223333:savingsplan/' || (r % 20) end as savings_plan_savings_plan_a_r_n,
        case when kind = 'SavingsPlanCoveredUsage' then round(price * 0.72, 10) else 0 end::double as savings_plan_savings_plan_effective_cost,
        case when kind = 'SavingsPlanCoveredUsage' then round(rate * 0.72, 7) else 0 end::double as savings_plan_savings_plan_rate,
        case when kind like 'SavingsPlan%' then 'ComputeSavingsPlans' end as savings_plan_offering_type, case when kind like 'SavingsPlan%' then 'No Upfront' end as savings_plan_payment_option,
        case when kind like 'SavingsPlan%' then '1yr' end as savings_plan_purchase_term, case when kind like 'SavingsPlan%' then 'Any' end as savings_plan_region,
        null::varchar as savings_plan_instance_type_family,
        case when kind like 'SavingsPlan%' then '2026-01-01T00:00:00.000Z' end as savings_plan_start_time, case when kind like 'SavingsPlan%' then '2026-12-31T23:59:59.000Z' end as savings_plan_end_time,
        {as_map.format(tags)} as resource_tags, {as_map.format(product)} as product,
        {as_map.format("map {'business_unit': 'unit-' || (r % 12), 'cost_center': 'cc-' || (r % 60)}")} as cost_category, {as_map.format("map {}::map(varchar, double)")} as discount,
        {empty}, {zero}
    from costed
    order by day, hash(i)
    """


def main() -> None:
    asked = wanted(__doc__, "--csv")
    size = ROWS_A_FILE // 2 if asked.csv else ROWS_A_FILE
    name, options = (
        ("bench-{number:05}.csv.gz", "format csv, header, compression gzip, timestampformat '%Y-%m-%dT%H:%M:%S.000Z'")
        if asked.csv
        else ("bench-{number:05}.snappy.parquet", "format parquet, compression snappy")
    )
    write(
        asked.folder,
        asked.rows,
        size,
        lambda first, count: rows(first, count, asked.rows, csv=asked.csv),
        name,
        options,
    )


if __name__ == "__main__":
    main()
