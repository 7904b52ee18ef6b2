"""Takes one delivery in: its lines added up by key and day, its keys mapped to FOCUS and classified, both balanced."""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from auditor.errors import LakeError, SourceError
from auditor.focus import (
    CHARGE_COLUMNS,
    CHARGE_KEY_COLUMNS,
    CLASSIFICATION_KEYS,
    COSTS,
    DERIVED_COLUMNS,
    MEASURES,
    MONEY,
    QUANTITY,
)
from auditor.landing import Recognised
from auditor.normalise import classify, ownership
from auditor.normalise.billing import azure_cost, feed, formats, identities, invoice, passes, salvage, source
from auditor.normalise.billing.deliveries import Delivery
from auditor.normalise.billing.source import Source, literal, quote
from auditor.normalise.billing.spread import spread
from auditor.tagging import TagSettings

log = logging.getLogger(__name__)

# A change of what a delivery becomes must re-derive what is in the lake.
NORMALISER_VERSION = "4"

# What the mapping to FOCUS says of a charge: all of its columns but for its time and its amounts.
_DESCRIBED = {
    name: kind
    for name, kind in CHARGE_COLUMNS.items()
    if name not in (*MEASURES, "ChargePeriodStart", "ChargePeriodEnd")
}


@dataclass(frozen=True)
class Ingested:
    """One delivery, taken in: what its charges are is in the table `keys`, their days and hours in `charges` and `hourly`."""

    delivery: Delivery
    id: str
    provider: str
    keys: str
    charges: str
    hourly: str
    rows: int
    totals: tuple[invoice.PeriodTotal, ...]
    newest_charge: datetime | None
    role: str | None
    has_resource_ids: bool
    is_net: bool
    messages: tuple[str, ...] = field(default=())
    is_damaged: bool = False
    is_whole: bool = True  # false where every file breaks off, so that the invoice it belongs to is not known
    is_monthly: bool = False  # most lines cover more than a day


def delivery_id(delivery: Delivery, digests: Mapping[str, str], tags: TagSettings) -> str:
    """Digest of the delivery's content and of everything that decides what it becomes."""
    parts = [
        NORMALISER_VERSION,
        classify.CLASSIFIER_VERSION,
        repr(tags),
        delivery.family,
        delivery.role or "",
        *sorted(digests[name] for name in delivery.names),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def ingest(
    con: duckdb.DuckDBPyConnection,
    delivery: Delivery,
    id_: str,
    spool: Path,
    tags: TagSettings,
    say: Callable[[str], None],
) -> Ingested:
    """Reads the delivery into tables `charge_keys_<id>`, `charge_days_<id>` and `charge_hours_<id>`.

    Raises SourceError where nothing of it can be read. A file that breaks off in the middle is read up to the break and
    marks the delivery as damaged.
    """
    module = formats.MODULES[delivery.family]
    con.execute(source.MACROS)
    con.execute(getattr(module, "MACROS", "") or "select 1")
    try:
        opened, damage, net, note, bill = _read(con, delivery, module, spool)
    except duckdb.Error as error:
        if any(sign in str(error) for sign in ("File too large", "No space left", "Disk quota")):
            raise LakeError(
                f"{delivery.names[0]}: the spool cannot be written: {_first_line(error)}; free some space in the temporary directory"
            ) from error
        files = salvage.mended(delivery.files, spool)
        refused = f"{delivery.names[0]}: cannot be read as {delivery.format}: {_first_line(error)}"
        if files is None:
            raise SourceError(refused) from error
        try:
            opened, damage, net, note, bill = _read(con, replace(delivery, files=tuple(files)), module, spool)
        except duckdb.Error as again:
            raise SourceError(refused) from again
    messages = [*damage, *note, *_rejects(con, opened, bill)]
    role = _role(con, delivery, opened, messages)
    if opened.form == "csv" and not messages and not bill.totals and any(_has_rows(file) for file in delivery.files):
        raise SourceError(f"{delivery.names[0]}: no row of the file could be read; check its line ends and quotes")
    keys, charges, hourly = f"charge_keys_{id_}", f"charge_days_{id_}", f"charge_hours_{id_}"
    _describe(con, module, role, id_, keys)
    _price(con, module)
    _derive(con, keys, tags)
    spread(con, "bill_amounts", keys, charges, hourly)
    con.execute(f"delete from {keys} where charge_key not in (select charge_key from {charges})")
    rows, newest, monthly = con.execute("""
        select
            coalesce(sum(source_rows), 0),
            max(start_at),
            coalesce(sum(source_rows) filter (where end_at - start_at > interval 1 day) * 2 > sum(source_rows), false)
        from bill_facts
    """).fetchone() or (0, None, False)
    if delivery.expected_rows is not None and int(rows) != delivery.expected_rows:
        messages.append(f"the manifest announces {delivery.expected_rows:,} rows, {int(rows):,} were found")
    if delivery.problem:
        messages.append(delivery.problem)
    if delivery.missing:
        messages.append(
            f"{len(delivery.missing)} of {len(delivery.missing) + len(delivery.files)} files of the manifest are missing, first {delivery.missing[0]}"
        )
    totals = _balance(con, keys, charges, id_, bill.totals)
    messages += identities.broken(con, delivery.family, charges, totals, net=net)
    provider, has_ids = con.execute(f"select min(provider), count(ResourceId) > 0 from {keys}").fetchone() or (
        None,
        False,
    )
    for table in ("bill_keys", "bill_facts", "bill_parts", "bill_amounts"):
        con.execute(f"drop table {table}")
    say(f"{delivery.format} {delivery.names[0]}: {int(rows):,} rows")
    return Ingested(
        delivery=delivery,
        id=id_,
        provider=provider or delivery.provider or "unknown",
        keys=keys,
        charges=charges,
        hourly=hourly,
        rows=int(rows),
        totals=totals,
        newest_charge=newest,
        role=role,
        has_resource_ids=bool(has_ids),
        is_net=net,
        messages=tuple(messages),
        is_whole=sum(salvage.BREAK in message for message in damage) < len(delivery.files),
        is_monthly=bool(monthly),
        is_damaged=bool(damage)
        or bool(delivery.missing)
        or delivery.problem is not None
        or any("rows could not be read" in message for message in messages),
    )


def _read(
    con: duckdb.DuckDBPyConnection, delivery: Delivery, module: object, spool: Path
) -> tuple[Source, list[str], bool, list[str], invoice.Invoice]:
    opened, damage = _open(con, delivery, spool)
    net, note = _net(con, delivery, opened)
    passes.add_up(con, opened, passes.lines(module, opened, net=net))
    return opened, damage, net, note, invoice.read(con, delivery.family, opened, net=net)


def _has_rows(file: Recognised) -> bool:
    return len(file.shape.head.strip().splitlines()) > file.shape.skip_lines + 1


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300]


def _open(con: duckdb.DuckDBPyConnection, delivery: Delivery, spool: Path) -> tuple[Source, list[str]]:
    files, damage = salvage.readable(delivery.files, spool, is_checked_later=feed.is_fed)
    with feed.feeding(files, spool) as fed:
        opened = _opened(con, delivery, fed.files, spool, damage)
    if fed.is_sound:
        return opened, damage
    files, damage = salvage.readable(delivery.files, spool)
    return _opened(con, delivery, files, spool, damage), damage


def _opened(
    con: duckdb.DuckDBPyConnection, delivery: Delivery, files: Sequence[Recognised], spool: Path, damage: Sequence[str]
) -> Source:
    con.execute("drop table if exists csv_rejects; drop table if exists csv_rejects_scan")
    if not files:
        raise SourceError("; ".join(damage))
    columns = formats.JSON_COLUMNS.get(delivery.family)
    return source.open_source(con, "bill", files, spool, columns, lambda opened: _used(delivery.family, opened))


def _used(family: str, opened: Source) -> list[str]:
    """Columns that the reading of a bill of this family looks at."""
    module = formats.MODULES[family]
    expressions = [
        *module.keys(opened).values(),
        *module.measures(opened, net=False).values(),
        invoice.query(family, opened, net=False),
    ]
    if hasattr(module, "is_net"):
        expressions += [
            *module.measures(opened, net=True).values(),
            invoice.query(family, opened, net=True),
            module.is_net(opened) or "",
        ]
    if family == "azure":
        expressions.append(azure_cost.basis_query(opened))
    return passes.mentioned(expressions, opened.columns)


def _net(con: duckdb.DuckDBPyConnection, delivery: Delivery, opened: Source) -> tuple[bool, list[str]]:
    """Whether the net columns are taken. All net or all gross: where some rows lack the net amount, all are gross."""
    module = formats.MODULES[delivery.family]
    condition = module.is_net(opened) if hasattr(module, "is_net") else None
    if condition is None:
        return False, []
    found = con.execute(
        f"select {condition}, count({opened.money('lineitemnetunblendedcost')}) from {opened.relation}"
    ).fetchone()
    net, filled = found or (False, 0)
    if filled and not net:
        return False, ["some rows lack the net amount, so all amounts are taken before private discounts"]
    return bool(net), []


def _rejects(con: duckdb.DuckDBPyConnection, opened: Source, bill: invoice.Invoice) -> list[str]:
    """Rows that the CSV reader or the amount's own text refused: counted and shown, never silent."""
    messages = []
    if opened.form == "csv":
        found = con.execute(
            "select count(distinct (file_path, line)), min(line), any_value(file_path), any_value(error_message) from csv_rejects join csv_rejects_scan using (scan_id, file_id)"
        ).fetchone()
        if found and found[0]:
            messages.append(
                f"{found[0]:,} rows could not be read, first at line {found[1]}: {str(found[3]).splitlines()[0][:160]}"
            )
    if bill.unreadable:
        messages.append(
            f"{bill.unreadable:,} rows could not be read: their amount is no number, first {bill.example!r}"
        )
    if bill.doubtful:
        messages.append(
            f"{bill.doubtful:,} rows could not be read in full: their {bill.doubtful_name} is no number, first {bill.doubtful_example!r}"
        )
    undated = con.execute("select coalesce(sum(source_rows), 0) from bill_facts where start_at is null").fetchone()
    lost = con.execute("""
        delete from bill_facts using bill_keys
        where bill_facts.key_hash = bill_keys.key_hash and bill_facts.other_hash = bill_keys.other_hash
            and start_at is null and period_start is null
        returning source_rows
    """)
    homeless = sum(row[0] for row in lost.fetchall())
    if homeless:
        messages.append(f"{homeless:,} rows could not be read: they have no date and no billing period")
    if undated and undated[0] > homeless:
        messages.append(
            f"{int(undated[0]) - homeless:,} rows have no readable date; they count on the first day of their billing period"
        )
    return messages


def _role(con: duckdb.DuckDBPyConnection, delivery: Delivery, opened: Source, messages: list[str]) -> str | None:
    """Whether an Azure export is actual or amortized: from its manifest, else from what only one of them has."""
    if delivery.family != "azure":
        return None
    role = delivery.role or azure_cost.basis(con, opened)
    if role is None:
        messages.append(
            "neither a manifest nor the rows tell whether this is actual or amortized cost: it is taken as both"
        )
    return role


def _describe(con: duckdb.DuckDBPyConnection, module: Any, role: str | None, id_: str, keys: str) -> None:
    """Table `keys`, one row for each distinct FOCUS row but for its time and amounts, and `bill_parts`, which part of which key it is."""
    basis = literal(role) if role else "null::varchar"
    parts = module.parts(f"(select *, {basis} as basis from bill_keys)")
    con.execute(
        f"create or replace temp view described as select key as bill_key, part as bill_part, hourly, {module.DESCRIBED} from ({parts})"
    )
    have = {row[0] for row in con.execute("describe described").fetchall()}
    columns = ", ".join(f"{name if name in have else 'null'}::{kind} as {name}" for name, kind in _DESCRIBED.items())
    names = ", ".join(_DESCRIBED)
    con.execute(f"""
        create or replace temp table described_parts as
        select *, hash(hourly, {names}) as row_hash, hash({", ".join(reversed(_DESCRIBED))}, hourly) as reverse_hash
        from (select bill_key, bill_part, hourly, {columns} from described)
    """)
    # The charges of another provider in the same file are another bill.
    bill_id = f"'{id_}-' || strftime(BillingPeriodStart, '%Y-%m') || case when provider_count > 1 then '-' || provider else '' end"
    con.execute(f"""
        create or replace temp table {keys} as
        with distinct_rows as (
            select row_hash, reverse_hash, any_value(ResourceId) as first_resource, min((bill_key, bill_part)) as first_part
            from described_parts
            group by row_hash, reverse_hash
        ),
        -- In the order of resources, so that what is written in the order of keys is small.
        numbered as (select row_number() over (order by first_resource, row_hash, reverse_hash)::integer as charge_key, first_part from distinct_rows),
        providers as (select count(distinct provider) as provider_count from described_parts)
        select charge_key, described_parts.* exclude (bill_key, bill_part), {bill_id} as delivery_id
        from numbered join described_parts on first_part = (bill_key, bill_part), providers
    """)
    carried = "".join(f", p.{name}" for name in module.CARRIED)
    con.execute(f"""
        create or replace temp table bill_parts as
        select p.key, p.key_hash, p.other_hash, p.part{carried}, k.charge_key, k.hourly, k.BillingPeriodStart as period_at, coalesce(k.x_LineItemType = 'SavingsPlanNegation', false) as is_negation
        from ({parts}) as p
        join described_parts as d on d.bill_key = p.key and d.bill_part = p.part
        join {keys} as k using (row_hash, reverse_hash)
    """)
    con.execute(f"drop table described_parts; alter table {keys} drop row_hash; alter table {keys} drop reverse_hash")


def _price(con: duckdb.DuckDBPyConnection, module: Any) -> None:
    """Table `bill_amounts`: what the lines of one key and slot cost, by charge_key, from first_at to last_at."""
    what = ("charge_key", "hourly", "is_negation", "period_at")
    carried = "".join(f", {name}" for name in ("key", "part", *module.CARRIED, *what))
    amounts = module.amounts(
        f"(select f.*{carried} from bill_facts as f join bill_parts using (key_hash, other_hash))", "key desc"
    )
    if module.DECIDES_PARTS:
        amounts = f"""
            select a.* exclude ({", ".join(what)}), {", ".join(f"p.{name}" for name in what)}
            from ({amounts}) as a
            join bill_parts as p on p.key = a.key and p.part = a.part
        """
    measures = ", ".join(f"{name}::{MONEY if name in COSTS else QUANTITY} as {name}" for name in MEASURES)
    con.execute(f"""
        create or replace temp table bill_amounts as
        select charge_key, hourly, is_negation, bill_day, coalesce(start_at, period_at) as first_at,
            coalesce(end_at, start_at + interval 1 hour, period_at + interval 1 day) as last_at, source_rows, {measures}
        from ({amounts})
    """)


def _derive(con: duckdb.DuckDBPyConnection, table: str, tags: TagSettings) -> None:
    """Adds what the charge is, who owns it and what it is for; decided by distinct key, tag text and name, not by row."""
    keys = ", ".join(CLASSIFICATION_KEYS)
    con.execute(f"create or replace temp table classification_keys as select distinct {keys} from {table}")
    classify.classify(con, "classification_keys", "classified")
    ownership.learn(con, table, tags)
    classify.find_machines(con, classify.settled(_classified(table)), "machines")
    rows = ownership.owned(classify.with_parts(classify.settled(_classified(table)), "machines"))
    con.execute(f"""
        create or replace temp table derived as
        select charge_key, hourly, {", ".join(quote(name) for name in CHARGE_KEY_COLUMNS)} from {rows}
    """)
    con.execute(f"drop table {table}")
    con.execute(f"alter table derived rename to {table}")


def _classified(table: str) -> str:
    """SQL of the table with the derived columns: those of its key's class, the others empty."""
    added = [name for name in DERIVED_COLUMNS if name in CHARGE_KEY_COLUMNS and name != "delivery_id"]
    of_class = {"usage_kind", "machine_type", "accelerator_model", "accelerator_count", "purchase_option"}
    derived = ", ".join(
        f"{'classified.' + name if name in of_class else 'null'}::{DERIVED_COLUMNS[name]} as {name}" for name in added
    )
    same_key = " and ".join(f"t.{key} is not distinct from classified.{key}" for key in CLASSIFICATION_KEYS)
    return f"(select t.*, {derived}, classified.service_workload_kind from {table} as t left join classified on {same_key})"


def _balance(
    con: duckdb.DuckDBPyConnection, keys: str, charges: str, id_: str, source_totals: invoice.Totals
) -> tuple[invoice.PeriodTotal, ...]:
    """The source's own sums beside those of the charges, for every account, period, currency and day of either."""
    lake: dict[invoice.Key, tuple[str, str, Decimal]] = {}
    for provider, bill_id, *found, cost in con.execute(f"""
        select
            min(provider), min(delivery_id), coalesce(BillingAccountId, 'unknown'), SubAccountId, strftime(BillingPeriodStart, '%Y-%m'),
            BillingCurrency, bill_day, sum(BilledCost)
        from {charges} join {keys} using (charge_key)
        group by BillingAccountId, SubAccountId, BillingPeriodStart, BillingCurrency, bill_day
    """).fetchall():
        lake[(found[0], found[1], found[2], found[3], found[4])] = (provider, bill_id, cost)
    fallback = next(iter(lake.values()))[0] if lake else "unknown"
    totals = []
    for key in sorted({*lake, *source_totals}, key=str):
        provider, bill_id, cost = lake.get(key, (fallback, f"{id_}-{key[2]}", Decimal(0)))
        source_cost, count = source_totals.get(key, (Decimal(0), 0))
        totals.append(
            invoice.PeriodTotal(provider, key[0], key[1], key[2], key[3], source_cost, cost, count, key[4], bill_id)
        )
    return tuple(totals)
