"""Realised savings: what later bills show that a resolved finding saved."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from auditor import money
from auditor.finding import Finding
from auditor.records import RealisedSaving

if TYPE_CHECKING:
    import duckdb

_MONTH_DAYS = Decimal(730) / 24  # the month that estimates are made for


def realised_savings(
    con: "duckdb.DuckDBPyConnection", resolved: Sequence[Finding], ends: Mapping[str, date]
) -> list[RealisedSaving]:
    """One row per finding and billing period since the finding's window, up to `ends`, the end of complete data per provider.

    The baseline is what the whole resource cost a day in the window of the finding's last sight, times the days; the
    actual cost is the bill's for the same resource and days. A resource with several findings counts once, shared by
    their net savings. Left out are findings without a resource or without savings, and those whose window the lake no
    longer holds.
    """
    counted = [f for f in resolved if f.resource_id is not None and f.monthly_savings > 0 and f.provider in ends]
    costs = _daily_costs(con, counted)
    rows: list[RealisedSaving] = []
    for finding in counted:
        days = costs.get((finding.provider, str(finding.resource_id), finding.billing_currency), {})
        start, end = finding.window_start.date(), finding.window_end.date()
        before = [cost for day, cost in days.items() if start <= day < end]
        if not before or end <= start:
            continue
        a_day = money.total(before) / (end - start).days
        share = _share(finding, counted)
        rows += [
            _saving(finding, period, count, a_day, share, _cost(days, first, count))
            for period, first, count in _months(end, ends[finding.provider])
        ]
    return rows


def _daily_costs(
    con: "duckdb.DuckDBPyConnection", findings: Sequence[Finding]
) -> dict[tuple[str, str, str], dict[date, Decimal]]:
    """(provider, ResourceId, currency) -> day -> EffectiveCost."""
    costs: dict[tuple[str, str, str], dict[date, Decimal]] = defaultdict(dict)
    rows = con.execute(
        """
        with asked as (select distinct unnest(from_json(?, '[["varchar"]]')) as pair)
        select c.provider, c.ResourceId, c.BillingCurrency, c.day, sum(c.EffectiveCost)
        from charges as c join asked as a on c.provider = a.pair[1] and c.ResourceId = a.pair[2]
        group by all
        """,
        [json.dumps([[finding.provider, finding.resource_id] for finding in findings])],
    ).fetchall()
    for provider, resource_id, currency, day, cost in rows:
        costs[(provider, resource_id, currency)][day] = cost
    return costs


def _share(finding: Finding, others: Sequence[Finding]) -> Decimal:
    """The part of a resource's saving that is this finding's, so that several findings of one resource count it once."""
    rivals = [f for f in others if (f.provider, f.resource_id) == (finding.provider, finding.resource_id)]
    whole = money.total(f.monthly_savings_net for f in rivals)
    return finding.monthly_savings_net / whole if whole > 0 else Decimal(1) / len(rivals)


def _months(start: date, end: date) -> list[tuple[str, date, int]]:
    """The billing periods between two days: name, first day in it, number of days."""
    found = []
    while start < end:
        following = (start.replace(day=1) + timedelta(days=32)).replace(day=1)
        stop = min(following, end)
        found.append((f"{start:%Y-%m}", start, (stop - start).days))
        start = stop
    return found


def _cost(days: Mapping[date, Decimal], first: date, count: int) -> Decimal:
    return money.total(days.get(first + timedelta(days=n), Decimal(0)) for n in range(count))


def _saving(
    finding: Finding, period: str, days: int, a_day: Decimal, share: Decimal, actual: Decimal
) -> RealisedSaving:
    baseline = money.quantise(a_day * days * share)
    actual = money.quantise(actual * share)
    estimated = money.quantise(finding.monthly_savings_net * days / _MONTH_DAYS)
    saved = money.difference(baseline, actual)
    return RealisedSaving(finding.id, period, finding.billing_currency, baseline, actual, saved, estimated)
