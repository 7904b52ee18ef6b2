"""Benchmark of telemetry, of the GPU-hour ledger and of the rules: 20 million samples of 1,000 machines with 8 devices each.

    python tools/bench/telemetry.py FOLDER [--machines 1000] [--memory-limit 1GiB] [--threads 2]

Writes the samples once (Parquet and CSV) and runs every step in a process of its own, because the peak of memory is a
figure of a process. The engine's own read of the same file stands beside each ingestion: on a busy machine the ratio
and the CPU seconds mean something, the seconds do not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from auditor.assets import room
from auditor.budgets import create_table as create_budgets
from auditor.detect import Window as RuleWindow
from auditor.detect import detect, load_rules
from auditor.lake import store
from auditor.lake.marts import LedgerThresholds, Window, build_marts
from auditor.landing import LandingFile
from auditor.normalise import telemetry
from auditor.normalise.look import look

DEVICES = 8
SAMPLES = 2_500  # a series: 8.7 days of five minutes, so that 1,000 machines make 20 million
START = datetime(2026, 9, 1, tzinfo=UTC)
END = datetime(2026, 9, 10, tzinfo=UTC)
_MACHINE = "'i-0' || lpad(to_hex(machine), 16, '0')"

STEPS = ("read-parquet", "ingest-parquet", "read-csv", "ingest-csv", "ledger", "marts", "rules")
FLEET = 14_000  # further resources, each billed on 31 days: the days of ten million hourly rows


def write_samples(folder: Path, machines: int) -> None:
    """Two files of the same samples, in the order in which a collector meets them: machine by machine."""
    with duckdb.connect() as con:
        con.execute("set memory_limit = '1GiB'")
        for form, options in (("parquet", "format parquet"), ("csv", "format csv, header")):
            path = folder / f"metrics.{form}"
            if path.exists():
                continue
            con.execute(f"""
                copy (
                    select
                        timestamp '{START:%Y-%m-%d}' + to_minutes(tick * 5) as time, 'aws' as provider, {_MACHINE} as resource_id,
                        device::varchar as device, 'gpu.utilization' as metric,
                        case when machine % 5 = 0 then 0.01 else hash(machine, device, tick) % 100 / 100 end as value
                    from range({machines}) as m(machine), range({DEVICES}) as d(device), range({SAMPLES}) as t(tick)
                ) to '{path}' ({options})
            """)


def _connect(arguments: argparse.Namespace) -> duckdb.DuckDBPyConnection:
    scratch = arguments.folder / f"scratch-{os.getpid()}"
    scratch.mkdir()
    return store.connect(arguments.memory_limit, arguments.threads, scratch)


def _read(con: duckdb.DuckDBPyConnection, path: Path, form: str) -> None:
    """The engine's own read into a table of the lake's columns, with nothing judged or converted."""
    columns = ", ".join(f'"{name}" {kind}' for name, kind in store.OBSERVED["metrics"].items())
    con.execute(f"create table metrics ({columns})")
    reader = "read_parquet" if form == "parquet" else "read_csv"
    con.execute(
        f"insert into metrics select time, provider, resource_id, device, metric, value, 'ratio' from {reader}('{path}')"
    )


def _ingest(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    file = LandingFile(path, path.name, path.stat().st_size)
    found = telemetry.recognise(file, look(file))
    if found is None:
        raise SystemExit(f"{path} is not recognised as telemetry")
    reports = telemetry.load(con, [found])
    telemetry.finish(con)
    if any(report.status != "ok" for report in reports):
        raise SystemExit(f"{path} was not read: {reports[0].message}")


def _bill(con: duckdb.DuckDBPyConnection, machines: int) -> None:
    """Every machine billed by the hour for the whole window."""
    for table in ("resources_seen", "flows_seen", "prices_seen"):
        store.create_empty(con, table, store.OBSERVED[table])
    for table, columns in store.TABLES.items():
        store.create_empty(con, table, columns)
    hours = int((END - START).total_seconds() // 3600)
    con.execute(f"""
        insert into accelerator_charges by name
        select
            'aws' as provider, 'USD' as BillingCurrency, {_MACHINE} as ResourceId, 'accelerator.hours' as usage_kind, 'Usage' as ChargeCategory,
            timestamp '{START:%Y-%m-%d}' + to_hours(tick) as hour, 'hour' as grain, 98.32 as EffectiveCost, 1 as ConsumedQuantity,
            'Hrs' as ConsumedUnit, 8 as accelerator_count, 'p5.48xlarge' as machine_type, 'H100' as accelerator_model
        from range({machines}) as m(machine), range({hours}) as t(tick)
    """)
    con.execute("""
        insert into charges by name
        select * exclude (hour, grain) replace (hour::date as day) from accelerator_charges
    """)


def _bill_a_fleet(con: duckdb.DuckDBPyConnection) -> None:
    """What else a month's bill holds: machines, volumes, gateways and transfer, one row a resource and day."""
    con.execute(f"""
        insert into charges by name
        select
            'aws' as provider, 'USD' as BillingCurrency, '111122223333' as BillingAccountId, lpad((r % 120)::varchar, 12, '0') as SubAccountId,
            list_extract(['us-east-1', 'us-west-2', 'eu-west-1'], (r % 3 + 1)::bigint) as RegionId, 'res-' || r as ResourceId,
            list_extract(['Amazon Elastic Compute Cloud', 'Amazon Simple Storage Service', 'Amazon Virtual Private Cloud'], (r % 3 + 1)::bigint) as ServiceName,
            'Usage' as ChargeCategory, 'Usage-Based' as ChargeFrequency,
            list_extract(
                ['compute.hours', 'storage.capacity', 'transfer.inter_zone', 'nat.bytes', 'nat.hours', 'object.capacity', 'transfer.internet', 'load_balancer.hours'],
                (r % 8 + 1)::bigint
            ) as usage_kind,
            date '2026-08-10' + d::integer as day, timestamp '2026-08-01' as BillingPeriodStart, 24 as ConsumedQuantity, 'Hrs' as ConsumedUnit,
            round(0.1 + (hash(r) % 977) / 31.0, 10)::decimal(30,12) as EffectiveCost, 24 as source_rows, 'team-' || (r % 60) as owner, false as standby
        from range({FLEET}) as f(r), range(31) as t(d)
    """)


def _run_rules(con: duckdb.DuckDBPyConnection) -> None:
    rules = load_rules([room("rules")])
    result = detect(con, rules, {"aws": RuleWindow(START, END)})
    slowest = sorted(result.seconds.items(), key=lambda item: item[1], reverse=True)[:6]
    print("slowest rules:", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in slowest), file=sys.stderr)
    failed = [entry for entry in result.coverage if entry.status == "failed"]
    if failed:
        raise SystemExit(f"{failed[0].rule_id}: {failed[0].reason}")


def run(arguments: argparse.Namespace) -> dict[str, float]:
    """One step: wall and CPU seconds of its work, and the peak memory of its process in MiB."""
    kind, _, form = arguments.step.partition("-")
    con = _connect(arguments)
    if kind in ("ledger", "marts"):
        _read(con, arguments.folder / "metrics.parquet", "parquet")
        _bill(con, arguments.machines)
    if kind == "marts":
        _bill_a_fleet(con)
        create_budgets(con, (), ("aws",))
    if kind == "rules":
        con.execute(f"import database '{arguments.folder / 'marts'}'")
    started, used = time.perf_counter(), time.process_time()
    if kind == "read":
        _read(con, arguments.folder / f"metrics.{form}", form)
    elif kind == "ingest":
        _ingest(con, arguments.folder / f"metrics.{form}")
    elif kind in ("ledger", "marts"):
        build_marts(con, {"aws": Window(START, END)}, LedgerThresholds())
    else:
        _run_rules(con)
    if kind == "marts":
        con.execute("drop table metrics")
        con.execute(f"export database '{arguments.folder / 'marts'}' (format parquet)")
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    if kind == "ledger":
        exact = con.execute(
            "select (select sum(EffectiveCost) from accelerator_hours) = (select sum(EffectiveCost) from accelerator_charges)"
        ).fetchone()
        if exact != (True,):
            raise SystemExit("the ledger does not add up to the bill")
    elif kind in ("read", "ingest"):
        count = con.execute("select count(*) from metrics").fetchone()
        if count != (arguments.machines * DEVICES * SAMPLES,):
            raise SystemExit(f"{count} samples were kept")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_mib": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--machines", type=int, default=1_000)
    parser.add_argument("--memory-limit", default="1GiB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--step", choices=STEPS, help="run this one here and print its figures as JSON")
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(run(arguments)))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write_samples(arguments.folder, arguments.machines)
    samples = arguments.machines * DEVICES * SAMPLES
    read_cpu = 0.0
    for step in STEPS:
        printed = subprocess.run(  # this file, with the arguments it was given
            [sys.executable, __file__, *sys.argv[1:], "--step", step], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        figures = json.loads(printed)
        line = (
            f"{step:15} {figures['seconds']:7.1f} s {figures['cpu_seconds']:7.1f} s CPU {figures['peak_mib']:7.0f} MiB"
        )
        if step.startswith("read"):
            read_cpu = figures["cpu_seconds"]
        if step != "ledger":
            line += f" {samples / figures['cpu_seconds'] * arguments.threads / 1e6:6.2f} M samples/s of {arguments.threads} cores"
        if step.startswith("ingest"):
            line += f" {figures['cpu_seconds'] / read_cpu:5.2f} x the engine's own read (CPU)"
        print(line, flush=True)


if __name__ == "__main__":
    main()
