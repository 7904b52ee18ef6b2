"""FOCUS amounts of any length as days, and as hours where these are kept."""

from collections.abc import Sequence

import duckdb

from auditor.focus import COSTS, MEASURES, MONEY, QUANTITY

_TYPES = {name: MONEY if name in COSTS else QUANTITY for name in MEASURES}
_SUMS = ", ".join(f"sum({name})::{kind} as {name}" for name, kind in _TYPES.items())


def spread(con: duckdb.DuckDBPyConnection, amounts: str, keys: str, days: str, hours: str) -> None:
    """Tables `days`, one row a charge_key, day and bill_day, and `hours`, likewise with hour and grain.

    A charge longer than a day is spread evenly over its hours; the remainder of the division goes to the last part. Hours
    are kept of accelerators and commitments alone.
    """
    _slice_days(con, amounts)
    con.execute(f"""
        create or replace temp table {days} as
        select charge_key, day, bill_day, {_SUMS}, sum(source_rows)::bigint as source_rows
        from bill_days
        group by charge_key, day, bill_day
        -- Negations meet what they cancel here; what is left of them is a charge.
        having not any_value(is_negation) or sum(BilledCost) <> 0
    """)
    _slice_hours(con, keys, hours)
    con.execute(f"""
        insert into {hours} by name
        select d.*, d.day::timestamp as hour, 'day' as grain
        from {days} as d
        join {keys} as k using (charge_key)
        where k.usage_kind like 'accelerator.%' and not k.hourly
    """)
    con.execute("drop view bill_days")


def _slice_days(con: duckdb.DuckDBPyConnection, amounts: str) -> None:
    """View `bill_days`: the amounts, those longer than a day cut into days."""
    kept = "charge_key, bill_day, hourly, is_negation, first_at, last_at"
    has_long = con.execute(f"select count(*) from {amounts} where last_at > first_at + interval 1 day").fetchone()
    short = f"""
        select {kept}, first_at::date as day, source_rows, {_listed(MEASURES)}
        from {amounts}
        where last_at <= first_at + interval 1 day
    """
    long = f"""
        union all
        select {kept}, day_at::date as day, case when day_at = date_trunc('day', first_at) then source_rows else 0 end as source_rows,
            {", ".join(_part_of_day(name, kind) for name, kind in _TYPES.items())}
        from (
            select
                *,
                (epoch(least(day_at + interval 1 day, last_at)) - epoch(greatest(day_at, first_at)))::bigint as seconds,
                (epoch(last_at) - epoch(first_at))::bigint as total,
                day_at + interval 1 day >= last_at as is_last
            from (
                select *, unnest(range(date_trunc('day', first_at), last_at, interval 1 day)) as day_at
                from (select *, row_number() over () as charge from {amounts} where last_at > first_at + interval 1 day)
            )
        )
    """
    con.execute(f"create or replace temp view bill_days as {short} {long if has_long and has_long[0] else ''}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _part_of_day(name: str, kind: str) -> str:
    """The part of a measure that falls on one day of a long charge, rounded; the last day takes the rest."""
    part = f"round({name}::double / total * seconds, 12)::{kind}"
    rest = f"({name} - coalesce(sum(case when is_last then 0 else {part} end) over (partition by charge), 0))::{kind}"
    return f"case when is_last then {rest} else {part} end as {name}"


def _slice_hours(con: duckdb.DuckDBPyConnection, keys: str, hours: str) -> None:
    """The flagged charges again by the hour; what covers a whole day or more stays a day, for the ledger to divide."""
    con.execute(f"""
        create or replace temp view hourly_days as
        select bill_days.*, last_at >= first_at + interval 1 day as is_day
        from bill_days
        join {keys} as k using (charge_key)
        where k.hourly and (usage_kind like 'accelerator.%' or CommitmentDiscountId is not null)
    """)
    takes_hours = "not is_day and last_at > first_at + interval 1 hour"
    has_long = con.execute(f"select count(*) from hourly_days where {takes_hours}").fetchone()
    measures = _listed(MEASURES)
    whole = f"""
        select charge_key, day, bill_day, {measures}, source_rows, case when is_day then day::timestamp else date_trunc('hour', first_at) end as hour, is_day
        from hourly_days
        where not ({takes_hours})
    """
    parts = ", ".join(
        f"case when is_last then {name} - round({name}::double / hours, 12)::{kind} * (hours - 1) else round({name}::double / hours, 12)::{kind} end as {name}"
        for name, kind in _TYPES.items()
    )
    sliced = f"""
        union all
        select charge_key, day, bill_day, {parts}, case when is_last then source_rows else 0 end as source_rows, hour, is_day
        from (
            select *, date_trunc('hour', first_at) + to_hours(slice) as hour, slice = hours - 1 as is_last
            from (
                select *, unnest(range(hours)) as slice
                from (
                    select *, ceil((epoch(last_at) - epoch(date_trunc('hour', first_at))) / 3600)::bigint as hours
                    from hourly_days
                    where {takes_hours}
                )
            )
        )
    """
    con.execute(f"""
        create or replace temp table {hours} as
        select charge_key, day, bill_day, {_SUMS}, sum(source_rows)::bigint as source_rows, hour, case when is_day then 'day' else 'hour' end as grain
        from ({whole} {sliced if has_long and has_long[0] else ""})
        group by charge_key, day, bill_day, hour, is_day
    """)
    con.execute("drop view hourly_days")
