"""The lake: Parquet files written by DuckDB, and their live ones read back as tables.

Which files are live is the state's business; this room writes files that nobody refers to yet, and reads what it is told.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb

from auditor.errors import LakeError
from auditor.focus import CHARGE_FACTS, CHARGE_KEY_COLUMNS, LAKE_CHARGE_COLUMNS, MEASURES
from auditor.records import LakeFileRecord
from auditor.views import FLOWS, METRICS, PRICES, RESOURCES

HOURLY_COLUMNS: dict[str, str] = {**LAKE_CHARGE_COLUMNS, "hour": "TIMESTAMP", "grain": "VARCHAR"}

# What is written: what charges are, one row a key, and their days and hours, which name the key by its number.
FILES: dict[str, dict[str, str]] = {
    "charge_keys": {"charge_key": "INTEGER", **CHARGE_KEY_COLUMNS},
    "charge_days": {"charge_key": "INTEGER", **CHARGE_FACTS},
    "charge_hours": {"charge_key": "INTEGER", **CHARGE_FACTS, "hour": "TIMESTAMP", "grain": "VARCHAR"},
}
_FACTS = ("charge_days", "charge_hours")
# What rules and marts read: each is a view that joins the keys to their days or hours.
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
    keys: str,
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
    belongs = f"charge_key in (select charge_key from {keys} where delivery_id = ?)"
    selections = {
        "charge_keys": (keys, "delivery_id = ?", "charge_key"),
        "charge_days": (charges, belongs, "charge_key, day"),
        "charge_hours": (hourly, belongs, "charge_key, hour"),
    }
    files = []
    for table, (relation, where, order) in selections.items():
        folder = f"lake/{table}/provider={_safe(provider)}/billing_period={billing_period}"
        path = data_dir / folder / f"{delivery_id}.parquet"
        columns = _listed(FILES[table])
        rows = _write(con, f"select {columns} from {relation} where {where} order by {order}", path, [delivery_id])
        files.append(
            LakeFileRecord(table, f"{folder}/{path.name}", provider, source, billing_period, rows, delivery_id)
        )
    return files


def _listed(columns: Iterable[str], of: str = "") -> str:
    return ", ".join(f'{of}"{name}"' for name in columns)


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
    """The relations of TABLES over the live files; empty without files.

    Raises LakeError where a file that the state calls live is gone, damaged, or of an earlier version's making.
    """
    for file in files:
        if file.table not in FILES:
            raise LakeError(
                f"{data_dir / file.path} was written by an earlier version; scan the bills again with another --data-dir"
            )
        if not (data_dir / file.path).is_file():
            raise LakeError(
                f"{data_dir / file.path} is missing from the lake; scan the bills again with another --data-dir, or restore the file"
            )
    for name in TABLES:
        con.execute(f"drop view if exists {name}")
    _load_files(con, data_dir, files)
    _join_keys(con)
    for table, columns in OBSERVED.items():
        create_empty(con, table, columns, replace=False)


def _load_files(con: duckdb.DuckDBPyConnection, data_dir: Path, files: Sequence[LakeFileRecord]) -> None:
    """Tables of FILES; each delivery's key numbers are moved behind those of the deliveries before it."""
    import json

    for table, columns in FILES.items():
        create_empty(con, table, columns)
    paths = {table: [str(data_dir / file.path) for file in files if file.table == table] for table in FILES}
    if not paths["charge_keys"]:
        return
    read = "read_parquet(?, union_by_name=true, hive_partitioning=false, filename=true)"
    largest = con.execute(
        f"select parse_filename(filename), max(charge_key) from {read} group by all order by all",
        [paths["charge_keys"]],
    ).fetchall()
    before, moved = 0, []
    for name, last in largest:
        moved.append({"name": name, "before": before})
        before += last
    for table, columns in FILES.items():
        con.execute(
            f"""
            insert into {table} by name
            select t.charge_key + before as charge_key, {_listed((name for name in columns if name != "charge_key"), "t.")}
            from {read} as t
            join (select unnest(from_json(?, '[{{"name":"VARCHAR","before":"INTEGER"}}]'), recursive := true)) as m on m.name = parse_filename(t.filename)
            """,
            [paths[table], json.dumps(moved)],
        )


def _join_keys(con: duckdb.DuckDBPyConnection) -> None:
    kept = {
        "charges": ("charge_days", LAKE_CHARGE_COLUMNS, "true"),
        "accelerator_charges": ("charge_hours", HOURLY_COLUMNS, "k.usage_kind like 'accelerator.%'"),
        "commitment_charges": ("charge_hours", HOURLY_COLUMNS, "k.CommitmentDiscountId is not null"),
    }
    dates = {"ChargePeriodStart": "f.day::timestamp", "ChargePeriodEnd": "f.day + interval 1 day"}
    for view, (facts, columns, where) in kept.items():
        listed = ", ".join(
            f'{dates.get(name) or ("k" if name in CHARGE_KEY_COLUMNS else "f") + "." + name} as "{name}"'
            for name in columns
        )
        con.execute(
            f"create view {view} as select {listed} from {facts} as f join charge_keys as k using (charge_key) where {where}"
        )


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
    con.execute("""
        create or replace temp table doubtful as
        select charge_key, delivery_id, SubAccountId from charge_keys as k
        where not exists (
            select 1 from counted where counted.delivery = k.delivery_id and counted.account is not distinct from k.SubAccountId
        )
    """)
    for table in _FACTS:
        con.execute(
            f"""delete from {table} as t using doubtful as k where k.charge_key = t.charge_key and not exists (
                select 1 from counted_days as d
                where d.delivery = k.delivery_id and d.account is not distinct from k.SubAccountId and d.day is not distinct from t.bill_day
            )"""
        )


def pair_azure_costs(con: duckdb.DuckDBPyConnection) -> None:
    """Takes BilledCost from actual and EffectiveCost from amortized rows where a subscription's period has both.

    Quantities are taken once as well, from the amortized rows: what only the actual export has are purchases.
    """
    con.execute("""
        create or replace temp table paired as
        select
            k.SubAccountId,
            k.BillingPeriodStart,
            min(f.bill_day) as first_day,
            max(f.bill_day) as last_day
        from charge_days as f
        join charge_keys as k using (charge_key)
        where k.x_CostBasis in ('actual', 'amortized')
        group by all having count(distinct k.x_CostBasis) = 2
    """)
    found = con.execute("select count(*) from paired").fetchone()
    if found is None or not found[0]:
        return
    _pair_keys(con)
    for table in _FACTS:
        con.execute(f"""
            update {table} as t
            set EffectiveCost = case when x_CostBasis = 'actual' then 0 else EffectiveCost end,
                BilledCost = case when x_CostBasis = 'amortized' then 0 else BilledCost end,
                ListCost = case when x_CostBasis = 'actual' and ChargeCategory <> 'Purchase' then 0 else ListCost end,
                ContractedCost = case when x_CostBasis = 'actual' and ChargeCategory <> 'Purchase' then 0 else ContractedCost end,
                ConsumedQuantity = case when x_CostBasis = 'actual' then null else ConsumedQuantity end,
                PricingQuantity = case when x_CostBasis = 'actual' and ChargeCategory <> 'Purchase' then null else PricingQuantity end,
                charge_key = paired_key
            from paired_keys as p
            where p.charge_key = t.charge_key and t.bill_day between first_day and last_day
        """)
        _merge(con, table)


def _pair_keys(con: duckdb.DuckDBPyConnection) -> None:
    """Table `paired_keys`, and a new key for what the two exports say of the same charge.

    What each export writes in its own way must not keep the two halves of one charge apart.
    """
    loose = {
        "delivery_id",
        "x_CostBasis",
        "ChargeDescription",
        "InvoiceId",
        "ListUnitPrice",
        "ContractedUnitPrice",
    }
    same = _listed((name for name in CHARGE_KEY_COLUMNS if name not in loose), "k.")
    either = ", ".join(f'max(k."{name}") as "{name}"' for name in CHARGE_KEY_COLUMNS if name in loose)
    con.execute(f"""
        create or replace temp table new_keys as
        select (select max(charge_key) from charge_keys) + row_number() over (order by min(k.charge_key)) as charge_key,
            list(k.charge_key) as members, any_value(first_day) as first_day, any_value(last_day) as last_day, {same}, {either}
        from charge_keys as k
        join paired as p on p.SubAccountId is not distinct from k.SubAccountId and p.BillingPeriodStart = k.BillingPeriodStart
        where k.x_CostBasis is not null
        group by {same}
    """)
    con.execute("""
        create or replace temp table paired_keys as
        select m.charge_key, m.paired_key, m.first_day, m.last_day, k.x_CostBasis, k.ChargeCategory
        from (select unnest(members) as charge_key, charge_key as paired_key, first_day, last_day from new_keys) as m
        join charge_keys as k on k.charge_key = m.charge_key
    """)
    con.execute("insert into charge_keys by name select * exclude (members, first_day, last_day) from new_keys")


def _merge(con: duckdb.DuckDBPyConnection, table: str) -> None:
    """One row for what the two exports say of the same charge."""
    summed = (*MEASURES, "source_rows")
    select = ", ".join(
        f'sum("{name}")::{kind} as "{name}"'
        if name in summed
        else f'max("{name}") as "{name}"'
        if name == "bill_day"
        else f'"{name}"'
        for name, kind in FILES[table].items()
    )
    keys = _listed(name for name in FILES[table] if name not in summed and name != "bill_day")
    both = "charge_key in (select charge_key from new_keys)"
    con.execute(f"create or replace temp table merged as select {select} from {table} where {both} group by {keys}")
    con.execute(f"delete from {table} where {both}")
    con.execute(f"insert into {table} by name select * from merged")
