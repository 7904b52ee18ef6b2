"""Takes one delivery in: one pass over its files, added up to days, mapped to FOCUS, classified, and balanced."""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb

from auditor.errors import SourceError
from auditor.focus import (
    CHARGE_COLUMNS,
    CLASSIFICATION_KEYS,
    COSTS,
    DERIVED_COLUMNS,
    LAKE_CHARGE_COLUMNS,
    MEASURES,
    MONEY,
    QUANTITY,
)
from auditor.landing import Recognised
from auditor.normalise import classify, ownership
from auditor.normalise.billing import azure_cost, formats, identities, invoice, salvage, source
from auditor.normalise.billing.deliveries import Delivery
from auditor.normalise.billing.source import Source, quote
from auditor.tagging import TagSettings

log = logging.getLogger(__name__)

# A change of what a delivery becomes must re-derive what is in the lake.
NORMALISER_VERSION = "3"


@dataclass(frozen=True)
class PeriodTotal:
    """What a delivery says one account's lines of one day cost, beside what the lake will hold of them.

    `bill_id` is the `delivery_id` of these charges: one for each billing period and provider.
    """

    provider: str
    billing_account_id: str
    sub_account_id: str | None
    billing_period: str
    currency: str
    source_billed_cost: Decimal
    lake_billed_cost: Decimal
    source_rows: int
    bill_day: date | None
    bill_id: str


@dataclass(frozen=True)
class Ingested:
    """One delivery, taken in: its rows are in the tables `charges` and `hourly` of the given names."""

    delivery: Delivery
    id: str
    provider: str
    charges: str
    hourly: str
    rows: int
    totals: tuple[PeriodTotal, ...]
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
    """Reads the delivery into tables `charges_<id>` and `hourly_<id>`.

    Raises SourceError where nothing of it can be read. A file that breaks off in the middle is read up to the break and
    marks the delivery as damaged.
    """
    module = formats.MODULES[delivery.family]
    con.execute(source.MACROS)
    con.execute(getattr(module, "MACROS", "") or "select 1")
    try:
        opened, damage, net, note, bill = _read(con, delivery, module, spool)
    except duckdb.Error as error:
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
    _map_to_focus(con, module, role)
    if opened.form == "csv" and not messages and not bill.totals and any(_has_rows(file) for file in delivery.files):
        raise SourceError(f"{delivery.names[0]}: no row of the file could be read; check its line ends and quotes")
    charges, hourly = f"charges_{id_}", f"hourly_{id_}"
    _expand(con, id_, charges, hourly)
    _derive(con, charges, hourly, tags)
    rows, newest, monthly = con.execute("""
        select
            coalesce(sum(source_rows), 0),
            max(start_at),
            coalesce(sum(source_rows) filter (where end_at - start_at > interval 1 day) * 2 > sum(source_rows), false)
        from aggregated
    """).fetchone() or (0, None, False)
    if delivery.expected_rows is not None and int(rows) != delivery.expected_rows:
        messages.append(f"the manifest announces {delivery.expected_rows:,} rows, {int(rows):,} were found")
    if delivery.problem:
        messages.append(delivery.problem)
    if delivery.missing:
        messages.append(
            f"{len(delivery.missing)} of {len(delivery.missing) + len(delivery.files)} files of the manifest are missing, first {delivery.missing[0]}"
        )
    totals = _balance(con, charges, id_, bill.totals)
    messages += identities.broken(con, delivery.family, charges, bill.totals, net=net)
    provider = con.execute(f"select min(provider) from {charges}").fetchone()
    has_ids = con.execute(f"select count(ResourceId) > 0 from {charges}").fetchone()
    for table in ("aggregated", "focus_rows"):
        con.execute(f"drop table if exists {table}")
    say(f"{delivery.format} {delivery.names[0]}: {int(rows):,} rows")
    return Ingested(
        delivery=delivery,
        id=id_,
        provider=(provider[0] if provider and provider[0] else delivery.provider) or "unknown",
        charges=charges,
        hourly=hourly,
        rows=int(rows),
        totals=totals,
        newest_charge=newest,
        role=role,
        has_resource_ids=bool(has_ids and has_ids[0]),
        is_net=net,
        messages=tuple(messages),
        is_whole=len(damage) < len(delivery.files),
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
    _aggregate(con, module, opened, net=net)
    return opened, damage, net, note, invoice.read(con, delivery.family, opened, net=net)


def _has_rows(file: Recognised) -> bool:
    return len(file.shape.head.strip().splitlines()) > file.shape.skip_lines + 1


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300]


def _open(con: duckdb.DuckDBPyConnection, delivery: Delivery, spool: Path) -> tuple[Source, list[str]]:
    con.execute("drop table if exists csv_rejects; drop table if exists csv_rejects_scan")
    files, damage = salvage.readable(delivery.files, spool)
    if not files:
        raise SourceError("; ".join(damage))
    return source.open_source(con, "bill", files, spool, formats.JSON_COLUMNS.get(delivery.family)), damage


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


def _aggregate(con: duckdb.DuckDBPyConnection, module: object, opened: Source, *, net: bool) -> None:
    """The one pass over the bill: rows of one key and one day (hour for accelerators and commitments) become one."""
    keys: dict[str, str] = module.keys(opened)  # type: ignore[attr-defined]
    measures: dict[str, str] = module.measures(opened, net=net)  # type: ignore[attr-defined]
    start, end, hourly = keys.pop("start_at"), keys.pop("end_at", "null::timestamp"), keys.pop("hourly", "false")
    bill_day = keys.pop("bill_day", f"({start})::date")
    select_keys = ", ".join(f"{sql} as {name}" for name, sql in keys.items())
    select_measures = ", ".join(f"{sql} as {name}" for name, sql in measures.items())
    names = ", ".join(keys)
    sums = ", ".join(f"sum({name}) as {name}" for name in measures)
    con.execute(f"""
        create or replace temp table aggregated as
        with lines as (
            select {select_keys}, {bill_day} as bill_day, {select_measures}, {start} as line_start, {end} as line_end, {hourly} as hourly
            from {opened.relation}
        ),
        dated as (
            -- A charge of more than ten years has no dates worth the name: commitments last five at most.
            select * replace (
                case when line_end > line_start + interval 10 year then null else line_start end as line_start,
                case when line_end > line_start + interval 10 year then null else line_end end as line_end
            )
            from lines
        ),
        slotted as (
            select
                * exclude (line_start, line_end),
                case
                    when line_end - line_start > interval 1 hour and (hourly or line_end - line_start > interval 1 day) then line_start
                    when hourly then date_trunc('hour', line_start)
                    else date_trunc('day', line_start)
                end as start_at,
                case
                    when line_end - line_start > interval 1 hour and (hourly or line_end - line_start > interval 1 day) then line_end
                    when hourly then date_trunc('hour', line_start) + interval 1 hour
                    else date_trunc('day', line_start) + interval 1 day
                end as end_at
            from dated
        )
        select {names}, bill_day, start_at, end_at, hourly, {sums}, count(*) as source_rows
        from slotted
        group by all
    """)


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
    undated = con.execute("select coalesce(sum(source_rows), 0) from aggregated where start_at is null").fetchone()
    lost = con.execute("delete from aggregated where start_at is null and period_start is null returning source_rows")
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


def _map_to_focus(con: duckdb.DuckDBPyConnection, module: object, role: str | None) -> None:
    con.execute("alter table aggregated add column if not exists basis varchar")
    if role:
        con.execute("update aggregated set basis = ?", [role])
    con.execute(f"create or replace temp table focus_rows as {module.rows('aggregated')}")  # type: ignore[attr-defined]


def _expand(con: duckdb.DuckDBPyConnection, id_: str, charges: str, hourly: str) -> None:
    """Daily charges and hourly detail.

    A charge longer than a day is spread evenly over its hours; the remainder of the division goes to the last part.
    """
    keys = [
        name for name in CHARGE_COLUMNS if name not in MEASURES and name not in ("ChargePeriodStart", "ChargePeriodEnd")
    ]
    columns = _available(con, keys)
    # The charges of another provider in the same file are another bill.
    bill_id = f"'{id_}-' || strftime(BillingPeriodStart, '%Y-%m') || case when provider_count > 1 then '-' || provider else '' end"
    con.execute(f"""
        create or replace temp view daily as
        with providers as (select count(distinct provider) as provider_count from focus_rows),
        dated as (
            select *, {bill_id} as delivery_id, coalesce(start_at, BillingPeriodStart) as first_at, coalesce(end_at, start_at + interval 1 hour, BillingPeriodStart + interval 1 day) as last_at
            from focus_rows, providers
        ),
        long as (
            select
                *,
                (epoch(least(day_at + interval 1 day, last_at)) - epoch(greatest(day_at, first_at)))::bigint as seconds,
                (epoch(last_at) - epoch(first_at))::bigint as total,
                day_at + interval 1 day >= last_at as is_last
            from (
                select *, unnest(range(date_trunc('day', first_at), last_at, interval 1 day)) as day_at
                from (select *, row_number() over () as charge from dated where last_at - first_at > interval 1 day)
            )
        )
        select {columns}, delivery_id, bill_day, hourly, first_at, last_at, date_trunc('day', first_at) as day_at, source_rows,
            {", ".join(f"{name}::{kind} as {name}" for name, kind in _measure_types())}
        from dated
        where last_at - first_at <= interval 1 day
        union all
        select {columns}, delivery_id, bill_day, hourly, first_at, last_at, day_at,
            case when day_at = date_trunc('day', first_at) then source_rows else 0 end as source_rows,
            {", ".join(_spread(name, kind) for name, kind in _measure_types())}
        from long
    """)
    names = ", ".join(keys)
    measures = ", ".join(name for name, _ in _measure_types())
    sums = ", ".join(f"sum({name})::{kind} as {name}" for name, kind in _measure_types())
    day = "day_at as ChargePeriodStart, day_at + interval 1 day as ChargePeriodEnd, day_at::date as day"
    # Only what came by the hour, and negations with what they cancel, has anything to be added up.
    is_single = "not coalesce(hourly, false) and x_LineItemType is distinct from 'SavingsPlanNegation'"
    con.execute(f"""
        create or replace temp table {charges} as
        select {names}, {day}, {measures}, source_rows::bigint as source_rows, delivery_id, bill_day
        from daily
        where {is_single}
        union all
        select {names}, {day}, {sums}, sum(source_rows)::bigint as source_rows, delivery_id, bill_day
        from daily
        where not ({is_single})
        group by all
        having x_LineItemType is distinct from 'SavingsPlanNegation' or sum(BilledCost) <> 0
    """)
    _expand_hours(con, names, hourly)


def _available(con: duckdb.DuckDBPyConnection, keys: Sequence[str]) -> str:
    have = {row[0] for row in con.execute("describe focus_rows").fetchall()}
    return ", ".join(
        f"{name}::{CHARGE_COLUMNS[name]} as {name}" if name in have else f"null::{CHARGE_COLUMNS[name]} as {name}"
        for name in keys
    )


def _measure_types() -> list[tuple[str, str]]:
    return [(name, MONEY if name in COSTS else QUANTITY) for name in MEASURES]


def _spread(name: str, kind: str) -> str:
    """The part of a measure that falls on one day of a long charge, rounded; the last day takes the rest."""
    part = f"round({name}::double / total * seconds, 12)::{kind}"
    rest = f"({name} - coalesce(sum(case when is_last then 0 else {part} end) over (partition by charge), 0))::{kind}"
    return f"case when is_last then {rest} else {part} end as {name}"


def _expand_hours(con: duckdb.DuckDBPyConnection, names: str, hourly: str) -> None:
    """The flagged charges again by the hour; what covers a whole day or more stays a day, for the ledger to divide."""
    measures = _measure_types()
    parts = ", ".join(
        f"case when hours is null then {name} when is_last then {name} - round({name}::double / hours, 12)::{kind} * (hours - 1) "
        f"else round({name}::double / hours, 12)::{kind} end as {name}"
        for name, kind in measures
    )
    sums = ", ".join(f"sum({name})::{kind} as {name}" for name, kind in measures)
    con.execute(f"""
        create or replace temp table {hourly} as
        with flagged as (
            select *, case when last_at - first_at >= interval 1 day then 'day' else 'hour' end as grain
            from daily where hourly
        ),
        sliced as (
            select * exclude (slice), first_hour + to_hours(slice) as hour, slice = coalesce(hours, 1) - 1 as is_last
            from (
                select *, unnest(range(coalesce(hours, 1))) as slice
                from (
                    select
                        *,
                        case when grain = 'day' then day_at else date_trunc('hour', first_at) end as first_hour,
                        case when grain = 'hour' and last_at - first_at > interval 1 hour
                            then ceil((epoch(last_at) - epoch(date_trunc('hour', first_at))) / 3600)::bigint
                        end as hours
                    from flagged
                )
            )
        ),
        divided as (select {names}, delivery_id, bill_day, day_at, hour, grain, {parts}, case when is_last then source_rows else 0 end as source_rows from sliced)
        select {names}, day_at as ChargePeriodStart, day_at + interval 1 day as ChargePeriodEnd, day_at::date as day, hour, grain, {sums},
            sum(source_rows)::bigint as source_rows, delivery_id, bill_day
        from divided
        group by all
    """)


def _derive(con: duckdb.DuckDBPyConnection, charges: str, hourly: str, tags: TagSettings) -> None:
    """Adds what the charge is, who owns it and what it is for; decided by distinct key, tag text and name, not by row."""
    keys = ", ".join(CLASSIFICATION_KEYS)
    con.execute(
        f"create or replace temp table classification_keys as select distinct {keys} from {charges} union select distinct {keys} from {hourly}"
    )
    classify.classify(con, "classification_keys", "classified")
    ownership.learn(con, charges, tags)
    classify.find_machines(con, classify.settled(_classified(charges)), "machines")
    for table in (charges, hourly):
        rows = ownership.owned(classify.with_parts(classify.settled(_classified(table)), "machines"))
        extra = ", hour, grain" if table == hourly else ""
        where = "where usage_kind like 'accelerator.%' or CommitmentDiscountId is not null" if table == hourly else ""
        con.execute(f"""
            create or replace temp table derived as
            select {", ".join(quote(name) for name in LAKE_CHARGE_COLUMNS)}{extra} from {rows} {where}
        """)
        con.execute(f"drop table {table}")
        con.execute(f"alter table derived rename to {table}")
    _complete_hours(con, charges, hourly)


def _classified(table: str) -> str:
    """SQL of the table with the derived columns: those of its key's class, the others empty."""
    added = [name for name in DERIVED_COLUMNS if name not in ("day", "source_rows", "delivery_id", "bill_day")]
    of_class = {"usage_kind", "machine_type", "accelerator_model", "accelerator_count", "purchase_option"}
    derived = ", ".join(
        f"{'classified.' + name if name in of_class else 'null'}::{DERIVED_COLUMNS[name]} as {name}" for name in added
    )
    same_key = " and ".join(f"t.{key} is not distinct from classified.{key}" for key in CLASSIFICATION_KEYS)
    return f"(select t.*, {derived}, classified.service_workload_kind from {table} as t left join classified on {same_key})"


def _complete_hours(con: duckdb.DuckDBPyConnection, charges: str, hourly: str) -> None:
    """Accelerator charges that were not flagged by the hour stand as days, so that the detail adds up to the charges."""
    columns = ", ".join(quote(name) for name in LAKE_CHARGE_COLUMNS)
    con.execute(f"""
        insert into {hourly} by name
        select {columns}, day::timestamp as hour, 'day' as grain
        from {charges} as c
        where usage_kind like 'accelerator.%' and not exists (
            select 1 from {hourly} as h
            where h.day = c.day and h.bill_day is not distinct from c.bill_day and h.ResourceId is not distinct from c.ResourceId and h.SkuId is not distinct from c.SkuId
                and h.SkuMeter is not distinct from c.SkuMeter and h.ChargeCategory is not distinct from c.ChargeCategory
                and h.usage_kind is not distinct from c.usage_kind and h.SubAccountId is not distinct from c.SubAccountId
        )
    """)


def _balance(
    con: duckdb.DuckDBPyConnection, charges: str, id_: str, source_totals: invoice.Totals
) -> tuple[PeriodTotal, ...]:
    """The source's own sums beside those of the charges, for every account, period, currency and day of either."""
    lake: dict[invoice.Key, tuple[str, str, Decimal]] = {}
    for provider, bill_id, *found, cost in con.execute(f"""
        select
            min(provider), min(delivery_id), coalesce(BillingAccountId, 'unknown'), SubAccountId, strftime(BillingPeriodStart, '%Y-%m'),
            BillingCurrency, bill_day, sum(BilledCost)
        from {charges} group by BillingAccountId, SubAccountId, BillingPeriodStart, BillingCurrency, bill_day
    """).fetchall():
        lake[(found[0], found[1], found[2], found[3], found[4])] = (provider, bill_id, cost)
    fallback = next(iter(lake.values()))[0] if lake else "unknown"
    totals = []
    for key in sorted({*lake, *source_totals}, key=str):
        provider, bill_id, cost = lake.get(key, (fallback, f"{id_}-{key[2]}", Decimal(0)))
        source_cost, count = source_totals.get(key, (Decimal(0), 0))
        totals.append(PeriodTotal(provider, key[0], key[1], key[2], key[3], source_cost, cost, count, key[4], bill_id))
    return tuple(totals)
