"""Writes a month of a detailed Google Cloud billing export for the benchmark, as gzip JSON lines in BigQuery's own spelling.

    python tools/bench/make_gcp.py FOLDER ROWS

Hourly rows of about one resource per 360 rows, in 120 projects: cores and memory of machines, bytes between zones and disks,
with price, labels, system labels and tags, and on a third of the rows a credit. Numbers are text where BigQuery writes them so.
A tenth of the machines have accelerators. The same arguments give the same content.
"""

from making import listed, wanted, write

ROWS_A_FILE = 500_000
MACHINES = [f"{family}-{size}" for family in ("n2-standard", "c3-standard", "e2-standard") for size in (4, 8, 16)] + [
    "a2-highgpu-1g"
]
REGIONS = ["europe-west4", "us-central1", "asia-east1", "us-east4"]
WHAT = ["Instance Core", "Instance Ram", "Network Inter Zone Data Transfer"]
UNITS = ["hour", "gibibyte hour", "gibibyte"]


def rows(first: int, count: int, total: int) -> str:
    resources = max(50, total // 360)
    return f"""
    with numbered as (
        select
            i, hash(i // 72) % {resources} as r, i % 3 as k, (i * 31 // {total})::bigint as day, (i // 3 % 24)::bigint as hour
        from range({first}, {first + count}) as t(i)
    ),
    described as (
        select *, timestamp '2026-10-01' + to_days(day::integer) + to_hours(hour) as start_at,
            list_extract({listed(MACHINES)}, (r // 5 % {len(MACHINES)} + 1)::bigint) as machine, list_extract({listed(REGIONS)}, (r % 4 + 1)::bigint) as region,
            list_extract({listed(WHAT)}, k + 1) as what, list_extract({listed(UNITS)}, k + 1) as unit,
            round(case k when 0 then 8 when 1 then 32 else hash(i, 'bytes') % 1000003 / 25000.0 end, 6) as amount
        from numbered
    ),
    priced as (
        select *, split_part(machine, '-', 1) as family, round(0.004 + hash(split_part(machine, '-', 1), what, region) % 97 / 4000.0, 6) as price from described
    ),
    costed as (
        select *, round(price * amount, 6) as cost from priced
    )
    select
        '0A1B2C-3D4E5F-678901' as billing_account_id,
        {{'id': '6F81-5844-456A', 'description': 'Compute Engine'}} as service,
        {{'id': upper(md5(family || what || region)[:4]) || '-' || upper(md5(family || what || region)[5:8]) || '-' || upper(md5(what || region)[:4]),
            'description': if(k = 2, what || ' Out from ' || region, upper(family) || ' ' || what || ' running in ' || region)}} as sku,
        strftime(start_at, '%Y-%m-%d %H:%M:%S UTC') as usage_start_time,
        strftime(start_at + interval 1 hour, '%Y-%m-%d %H:%M:%S UTC') as usage_end_time,
        {{'id': 'acme-' || (r % 120), 'number': (100000000000 + r % 120)::varchar, 'name': 'acme ' || (r % 120), 'labels': [{{'key': 'cost-center', 'value': 'cc-' || (r % 60)}}],
            'ancestry_numbers': '/987654321098/', 'ancestors': [{{'resource_name': 'projects/' || (100000000000 + r % 120), 'display_name': 'acme ' || (r % 120)}},
                {{'resource_name': 'organizations/987654321098', 'display_name': 'example.com'}}]}} as project,
        [{{'key': 'team', 'value': 'team-' || (r % 60)}}, {{'key': 'app', 'value': 'app-' || (r % 25000)}}, {{'key': 'goog-gke-node', 'value': ''}}] as labels,
        [{{'key': 'compute.googleapis.com/machine_spec', 'value': machine}}, {{'key': 'compute.googleapis.com/cores', 'value': '8'}}, {{'key': 'compute.googleapis.com/memory', 'value': '32768'}}] as system_labels,
        {{'location': region, 'country': 'XX', 'region': region, 'zone': region || '-a'}} as location,
        [{{'key': 'env', 'value': 'prod', 'inherited': true, 'namespace': '987654321098'}}] as tags, [] as transaction_ids, 'GOOGLE' as transaction_type, 'Google' as seller_name,
        strftime(start_at + interval 5 hour + to_seconds((i % 3600)::bigint), '%Y-%m-%d %H:%M:%S.%f UTC') as export_time,
        cost, 'USD' as currency, 1.0 as currency_conversion_rate,
        {{'amount': if(k = 2, amount * 1073741824, amount * 3600), 'unit': if(k = 2, 'bytes', 'seconds'), 'amount_in_pricing_units': amount, 'pricing_unit': unit}} as usage,
        case when k = 0 then [{{'id': 'x', 'full_name': 'Sustained use discount', 'type': 'SUSTAINED_USAGE_DISCOUNT', 'name': 'Sustained use discount', 'amount': round(-cost * 0.2, 6)}}]
            else [] end as credits,
        {{'month': '202610', 'publisher_type': 'GOOGLE'}} as invoice, 'regular' as cost_type,
        {{'effective_price': price::varchar, 'tier_start_amount': '0', 'unit': unit, 'pricing_unit_quantity': '1', 'list_price': price::varchar}} as price,
        cost as cost_at_list,
        {{'name': 'instance-' || r, 'global_name': '//compute.googleapis.com/projects/' || (100000000000 + r % 120) || '/zones/' || region || '-a/instance/' || (5000000000 + r)}} as resource
    from costed
    order by day, hash(i)
    """


def main() -> None:
    asked = wanted(__doc__)
    write(
        asked.folder,
        asked.rows,
        ROWS_A_FILE,
        lambda first, count: rows(first, count, asked.rows),
        "export-{number:012}.json.gz",
        "format json, compression gzip",
    )


if __name__ == "__main__":
    main()
