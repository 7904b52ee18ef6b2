"""Writes a month of a detailed Google Cloud billing export for the benchmark, as gzip JSON lines.

    python tools/bench/make_gcp.py FOLDER ROWS

Hourly rows of about one resource per 360 rows, in 120 projects with three SKUs a machine, labels, system labels and, on a
third of the rows, a credit. The same arguments give the same content.
"""

import argparse
from pathlib import Path

import duckdb

ROWS_A_FILE = 500_000
MACHINES = ["n2-standard-8", "n2-standard-16", "e2-medium", "c3-highcpu-22", "a2-highgpu-1g"]


def rows(first: int, count: int, total: int) -> str:
    resources = max(50, total // 360)
    return f"""
    with numbered as (
        select i, hash(i) % {resources} as r, (i * 744 // {total})::bigint as hour_of_month, i % 3 as k
        from range({first}, {first + count}) as t(i)
    ),
    described as (
        select *, timestamp '2026-10-01' + to_hours(hour_of_month) as start_at, list_extract({MACHINES}, (r % 5 + 1)::bigint) as machine,
            list_extract(['europe-west4', 'us-central1', 'asia-east1'], (r % 3 + 1)::bigint) as region,
            list_extract(['Core', 'Ram', 'Network'], k + 1) as what, round(0.001 + (r % 977) / 3110.0, 9) as price
        from numbered
    )
    select
        '0A1B2C-3D4E5F-678901' as billing_account_id,
        {{'id': '6F81-5844-456A', 'description': 'Compute Engine'}} as service,
        {{'id': upper(md5(machine || what)[:4]) || '-' || upper(md5(what)[:4]) || '-0000', 'description': machine || ' Instance ' || what || ' running in ' || region}} as sku,
        strftime(start_at, '%Y-%m-%d %H:%M:%S UTC') as usage_start_time,
        strftime(start_at + interval 1 hour, '%Y-%m-%d %H:%M:%S UTC') as usage_end_time,
        {{'id': 'acme-' || (r % 120), 'number': (100000000000 + r % 120)::varchar, 'name': 'acme ' || (r % 120)}} as project,
        [{{'key': 'team', 'value': 'team-' || (r % 60)}}, {{'key': 'app', 'value': 'app-' || (r % 25000)}}] as labels,
        [{{'key': 'compute.googleapis.com/machine_spec', 'value': machine}}, {{'key': 'compute.googleapis.com/cores', 'value': '8'}}] as system_labels,
        {{'location': region, 'country': 'XX', 'region': region, 'zone': region || '-a'}} as location,
        strftime(start_at + interval 5 hour, '%Y-%m-%d %H:%M:%S UTC') as export_time,
        price as cost, 'USD' as currency, 1.0 as currency_conversion_rate,
        {{'amount': 3600.0, 'unit': 'seconds', 'amount_in_pricing_units': 1.0, 'pricing_unit': 'hour'}} as usage,
        case when k = 0 then [{{'id': 'x', 'full_name': 'Sustained use', 'type': 'SUSTAINED_USAGE_DISCOUNT', 'name': 'Sustained use', 'amount': round(-price * 0.2, 9)}}]
            else [] end as credits,
        {{'month': '202610'}} as invoice, 'regular' as cost_type,
        {{'name': 'instance-' || r, 'global_name': '//compute.googleapis.com/projects/acme-' || (r % 120) || '/zones/' || region || '-a/instances/' || (5000000000 + r)}} as resource
    from described
    order by hash(i + 1)
    """


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    con = duckdb.connect(config={"memory_limit": "4GB"})
    for number, first in enumerate(range(0, wanted.rows, ROWS_A_FILE)):
        query = rows(first, min(ROWS_A_FILE, wanted.rows - first), wanted.rows)
        con.execute(f"copy ({query}) to '{wanted.folder}/export-{number:012}.json.gz' (format json, compression gzip)")


if __name__ == "__main__":
    main()
