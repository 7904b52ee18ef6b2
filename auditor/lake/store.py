"""The lake: Parquet files written by DuckDB, and their live ones read back as tables.

Which files are live is the state's business; this room writes files that nobody refers to yet, and reads what it is told.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb

from auditor.errors import LakeError
from auditor.focus import LAKE_CHARGE_COLUMNS
from auditor.records import LakeFileRecord
from auditor.views import FLOWS, METRICS, PRICES, RESOURCES

HOURLY_COLUMNS: dict[str, str] = {**LAKE_CHARGE_COLUMNS, "hour": "TIMESTAMP", "grain": "VARCHAR"}

# Each table of facts: its columns.
TABLES: dict[str, dict[str, str]] = {
    "charges": LAKE_CHARGE_COLUMNS,
    "accelerator_charges": HOURLY_COLUMNS,
    "commitment_charges": HOURLY_COLUMNS,
}
OBSERVED: dict[str, dict[str, str]] = {
    "metrics": METRICS,
    "resources_seen": RESOURCES,
    "flows_seen": FLOWS,
    "prices_seen": PRICES,
}


def connect(memory_limit: str | None, threads: int | None, scratch: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection in memory that spills to `scratch`, with no extension loading and UTC times."""
    con = duckdb.connect(
        config={
            "memory_limit": memory_limit or default_memory_limit(),
            "temp_directory": str(scratch),
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            **({"threads": str(threads)} if threads else {}),
        }
    )
    con.execute("set TimeZone = 'UTC'")
    return con


def default_memory_limit() -> str:
    """The smaller of a quarter of the machine's memory and 768 MiB: twenty million samples then take 1.1 GiB in all."""
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    return f"{min(quarter, 768 * 1024**2) // 1024**2}MiB"


def write_delivery(
    con: duckdb.DuckDBPyConnection,
    data_dir: Path,
    *,
    charges: str,
    hourly: str,
    provider: str,
    source: str,
    delivery_id: str,
    billing_period: str,
) -> list[LakeFileRecord]:
    """Writes one billing period of a delivery's tables; the files are not live until the state says so.

    Raises LakeError where the disk is full or the directory cannot be written; no partial file stays.
    """
    selections = {
        "charges": f"select * from {charges}",
        "accelerator_charges": f"select * from {hourly} where usage_kind like 'accelerator.%'",
        "commitment_charges": f"select * from {hourly} where CommitmentDiscountId is not null",
    }
    files = []
    for table, query in selections.items():
        folder = f"lake/{table}/provider={_safe(provider)}/billing_period={billing_period}"
        path = data_dir / folder / f"{delivery_id}.parquet"
        where = f"{'and' if ' where ' in query else 'where'} delivery_id = ?"
        ordered = ", ".join(f'"{name}"' for name in TABLES[table])
        rows = _write(con, f"select {ordered} from ({query} {where}) order by ResourceId, day", path, [delivery_id])
        files.append(
            LakeFileRecord(table, f"{folder}/{path.name}", provider, source, billing_period, rows, delivery_id)
        )
    return files


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:60] or "unknown"


def _write(con: duckdb.DuckDBPyConnection, query: str, path: Path, parameters: list[str]) -> int:
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = con.execute(
            f"copy ({query}) to '{str(part).replace(chr(39), chr(39) * 2)}' (format parquet, compression zstd, compression_level 1)",
            parameters,
        ).fetchone()
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    except (OSError, duckdb.IOException) as error:
        with suppress(OSError):  # what hindered the writing may hinder this; the first reason is the one to tell
            part.unlink(missing_ok=True)
        raise LakeError(
            f"{path.parent} cannot be written: {str(error).splitlines()[0]}; free some space or choose another --data-dir"
        ) from error
    return int(found[0]) if found else 0


def load(con: duckdb.DuckDBPyConnection, data_dir: Path, files: Sequence[LakeFileRecord]) -> None:
    """Tables of facts from the live files; a table without files is empty.

    Raises LakeError where a file that the state calls live is gone or damaged.
    """
    for table, columns in TABLES.items():
        paths = [str(data_dir / file.path) for file in files if file.table == table]
        missing = [path for path in paths if not Path(path).is_file()]
        if missing:
            raise LakeError(
                f"{missing[0]} is missing from the lake; scan the bills again with another --data-dir, or restore the file"
            )
        selected = ", ".join(f'"{name}"' for name in columns)
        create_empty(con, table, columns)
        if paths:
            con.execute(
                f"insert into {table} by name select {selected} from read_parquet(?, union_by_name=true, hive_partitioning=false)",
                [paths],
            )
    for table, columns in OBSERVED.items():
        create_empty(con, table, columns, replace=False)


def create_empty(con: duckdb.DuckDBPyConnection, table: str, columns: dict[str, str], *, replace: bool = True) -> None:
    listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    con.execute(f"create {'or replace table' if replace else 'table if not exists'} {table} ({listed})")


def keep_counted(
    con: duckdb.DuckDBPyConnection,
    counted: Iterable[tuple[str, str | None]],
    partly: Iterable[tuple[str, str | None, str | None]] = (),
) -> None:
    """Leaves of the loaded charges what counts; the rest is covered by another source.

    `counted` are whole (delivery id, SubAccountId) pairs, `partly` single (delivery id, SubAccountId, bill_day).
    """
    import json

    whole = json.dumps([{"delivery": delivery, "account": account} for delivery, account in counted])
    days = json.dumps([{"delivery": delivery, "account": account, "day": day} for delivery, account, day in partly])
    con.execute(
        """create or replace temp table counted as
        select unnest(from_json(?, '[{"delivery":"VARCHAR","account":"VARCHAR"}]'), recursive := true)""",
        [whole],
    )
    con.execute(
        """create or replace temp table counted_days as
        select unnest(from_json(?, '[{"delivery":"VARCHAR","account":"VARCHAR","day":"DATE"}]'), recursive := true)""",
        [days],
    )
    for table in TABLES:
        con.execute(
            f"""delete from {table} as t where not exists (
                select 1 from counted where counted.delivery = t.delivery_id and counted.account is not distinct from t.SubAccountId
            ) and not exists (
                select 1 from counted_days as d
                where d.delivery = t.delivery_id and d.account is not distinct from t.SubAccountId and d.day is not distinct from t.bill_day
            )"""
        )


def pair_azure_costs(con: duckdb.DuckDBPyConnection) -> None:
    """Takes BilledCost from actual and EffectiveCost from amortized rows where a subscription's period has both.

    Quantities are taken once as well, from the amortized rows: what only the actual export has are purchases.
    """
    con.execute("""
        create or replace temp table paired as
        select
            SubAccountId,
            BillingPeriodStart,
            min(bill_day) as first_day,
            max(bill_day) as last_day
        from charges
        where x_CostBasis in ('actual', 'amortized')
        group by SubAccountId, BillingPeriodStart having count(distinct x_CostBasis) = 2
    """)
    for table in TABLES:
        con.execute(f"""
            update {table} as t
            set EffectiveCost = case when x_CostBasis = 'actual' then 0 else EffectiveCost end,
                BilledCost = case when x_CostBasis = 'amortized' then 0 else BilledCost end,
                ListCost = case when x_CostBasis = 'actual' and ChargeCategory <> 'Purchase' then 0 else ListCost end,
                ContractedCost = case when x_CostBasis = 'actual' and ChargeCategory <> 'Purchase' then 0 else ContractedCost end,
                ConsumedQuantity = case when x_CostBasis = 'actual' then null else ConsumedQuantity end,
                PricingQuantity = case when x_CostBasis = 'actual' and ChargeCategory <> 'Purchase' then null else PricingQuantity end
            from paired
            where paired.SubAccountId is not distinct from t.SubAccountId and paired.BillingPeriodStart = t.BillingPeriodStart
                and t.x_CostBasis is not null and t.bill_day between first_day and last_day
        """)
        _merge(con, table)


def _merge(con: duckdb.DuckDBPyConnection, table: str) -> None:
    """One row for what the two exports say of the same charge."""
    measures = {
        "BilledCost",
        "EffectiveCost",
        "ListCost",
        "ContractedCost",
        "ConsumedQuantity",
        "PricingQuantity",
        "CommitmentDiscountQuantity",
        "source_rows",
    }
    columns = TABLES[table]
    # What each export writes in its own way must not keep the two halves of one charge apart.
    loose = {
        "delivery_id",
        "bill_day",
        "x_CostBasis",
        "ChargeDescription",
        "InvoiceId",
        "ListUnitPrice",
        "ContractedUnitPrice",
    }
    select = ", ".join(
        f'sum("{name}")::{kind} as "{name}"'
        if name in measures
        else f'max("{name}") as "{name}"'
        if name in loose
        else f'"{name}"'
        for name, kind in columns.items()
    )
    keys = ", ".join(f'"{name}"' for name in columns if name not in measures and name not in loose)
    both = f"""x_CostBasis is not null and exists (
        select 1 from paired
        where paired.SubAccountId is not distinct from {table}.SubAccountId and paired.BillingPeriodStart = {table}.BillingPeriodStart
            and {table}.bill_day between first_day and last_day
    )"""
    con.execute(f"""
        create or replace temp table merged as
        select {select} from {table}
        where {both}
        group by {keys}
    """)
    con.execute(f"delete from {table} where {both}")
    con.execute(f"insert into {table} by name select * from merged")
