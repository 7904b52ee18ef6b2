"""What must hold in every delivery; a bill that breaks one of these is read all the same, and its source says so.

Commitments are checked by day, in which the bill's own rounding stays far below the tolerance of a cent or a thousandth.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal

import duckdb

from auditor.normalise.billing import azure_cost
from auditor.normalise.billing.invoice import PeriodTotal

_AMOUNTS = {"cur": ("lineitemunblendedcost",), "azure": azure_cost.COST, "gcp": ("cost",), "focus": ("billedcost",)}
_OFF = "abs({a} - ({b})) > greatest(0.01, 0.001 * abs({a}))"


def broken(
    con: duckdb.DuckDBPyConnection, family: str, charges: str, totals: Iterable[PeriodTotal], *, net: bool
) -> list[str]:
    """A sentence for each identity that fails; of the bill's lines added up in `bill_keys`, `bill_facts`, `bill_amounts`."""
    totals = list(totals)
    found = _amounts(con, family, totals) + _money(totals) + _rows(con, charges, totals)
    if family == "cur":
        con.execute(
            "create or replace temp view aggregated as select * from bill_facts join bill_keys using (key_hash, other_hash)"
        )
        found += _negations(con) + ([] if net else _savings_plans(con)) + _reservations(con)
    return found


def _amounts(con: duckdb.DuckDBPyConnection, family: str, totals: Sequence[PeriodTotal]) -> list[str]:
    """A bill whose amounts are all empty is not free of charge, and Google's without credits is no invoice; `bill` is its source."""
    have = {row[0] for row in con.execute("describe bill").fetchall()}
    found = []
    if family == "gcp" and not have & {"credits", "creditsamount"}:
        found.append("the export has no credits, so its costs are those before credits")
    if any(total.source_billed_cost for total in totals):
        return found
    column = next(name for name in _AMOUNTS[family] if name in have)
    filled = f'count(*) filter (where blank_to_null("{column}"::varchar) is not null)'
    lines, amounts = con.execute(f"select count(*), {filled} from bill").fetchone() or (0, 0)
    if lines and not amounts:
        found.append(
            f"{lines:,} rows could not be read: their amount is empty on every one; export the file again with it"
        )
    return found


def _money(totals: Iterable[PeriodTotal]) -> list[str]:
    """The sum of BilledCost is the invoice; EffectiveCost differs from it only where a commitment is amortised."""
    sums: dict[str, tuple[Decimal, Decimal]] = {}
    for total in totals:
        lake, source = sums.get(total.currency, (Decimal(0), Decimal(0)))
        sums[total.currency] = (lake + total.lake_billed_cost, source + total.source_billed_cost)
    return [
        f"the charges add up to {lake} {currency}, the bill to {source}"
        for currency, (lake, source) in sorted(sums.items())
        if lake != source
    ]


def _rows(con: duckdb.DuckDBPyConnection, charges: str, totals: Iterable[PeriodTotal]) -> list[str]:
    """Rows in = rows out + dropped: every line of the bill is in a charge, but for negations that cancelled."""
    out, dropped = con.execute(f"""
        select (select coalesce(sum(source_rows), 0) from {charges}),
            (select coalesce(sum(source_rows), 0) from bill_amounts where is_negation)
            - (select coalesce(sum(source_rows), 0) from {charges} where charge_key in (select charge_key from bill_parts where is_negation))
    """).fetchone() or (0, 0)
    came = sum(total.source_rows for total in totals)
    went = int(out) + int(dropped)
    return [] if came == went else [f"{came:,} lines were read, {went:,} are in the charges"]


def _negations(con: duckdb.DuckDBPyConnection) -> list[str]:
    found = con.execute("""
        select savings_plan, sum(unblended) as remainder, count(*) over () as plans
        from aggregated
        where kind in ('SavingsPlanCoveredUsage', 'SavingsPlanNegation')
        group by savings_plan
        having abs(sum(unblended)) > 0.000001
        order by abs(remainder) desc, savings_plan
    """).fetchone()
    if found is None:
        return []
    return [
        f"{found[2]} savings plans' covered usage and its negation do not cancel, most {found[0]} by {found[1]}: the remainder is billed"
    ]


def _savings_plans(con: duckdb.DuckDBPyConnection) -> list[str]:
    found = con.execute(f"""
        select savings_plan, count(*) as days, sum(used) as used, sum(effective) as effective
        from (
            select savings_plan, start_at::date as day,
                coalesce(sum(savings_plan_used) filter (where kind = 'SavingsPlanRecurringFee'), 0) as used,
                coalesce(sum(savings_plan_effective) filter (where kind = 'SavingsPlanCoveredUsage'), 0) as effective,
                coalesce(sum(savings_plan_unused) filter (where kind = 'SavingsPlanRecurringFee'), 0) as unused
            from aggregated
            where savings_plan is not null
            group by all
            having count(*) filter (where kind = 'SavingsPlanRecurringFee') > 0
        )
        where {_OFF.format(a="used", b="effective")} or unused < -0.01
        group by savings_plan order by days desc, savings_plan
    """).fetchall()
    return [
        f"savings plan {plan}: on {days} days the usage it covers ({effective}) is not what its fee calls used ({used})"
        for plan, days, used, effective in found[:3]
    ]


def _reservations(con: duckdb.DuckDBPyConnection) -> list[str]:
    """A reservation's fee and amortised upfront are its used and unused parts; known only when the month is over."""
    found = con.execute(f"""
        select reservation, fee + upfront as paid, used + unused as told
        from (
            select reservation, period_start,
                coalesce(sum(unblended) filter (where kind = 'RIFee'), 0) as fee,
                coalesce(sum(reservation_upfront) filter (where kind = 'RIFee'), 0) as upfront,
                coalesce(sum(reservation_effective) filter (where kind = 'DiscountedUsage'), 0) as used,
                coalesce(sum(reservation_unused) filter (where kind = 'RIFee'), 0) as unused
            from aggregated
            where reservation is not null
            group by all
            having count(*) filter (where kind = 'RIFee') > 0
                and max(period_end) <= (select max(start_at) from aggregated where kind = 'Usage') + interval 1 day
        )
        where {_OFF.format(a="fee + upfront", b="used + unused")}
        order by reservation
    """).fetchall()
    return [
        f"reservation {name}: fee and upfront are {paid}, its used and unused parts {told}"
        for name, paid, told in found[:3]
    ]
