"""The bill's own totals, read straight from the delivered columns: the other side of every reconciliation.

Nothing here goes through the normalisers: the amount column is summed as delivered, each amount rounded to 12 decimals.
"""

from dataclasses import dataclass
from decimal import Decimal

import duckdb

from auditor.normalise.billing.source import Source, quote


@dataclass(frozen=True)
class _Columns:
    amount: tuple[str, ...]
    account: str
    sub_account: str
    period: str
    currency: str


def _columns(family: str, source: Source, *, net: bool) -> _Columns:
    text = source.text
    if family == "cur":
        start = f"coalesce({source.time('billbillingperiodstartdate')}, {source.time('lineitemusagestartdate')})"
        return _Columns(
            ("lineitemnetunblendedcost" if net else "lineitemunblendedcost",),
            text("billpayeraccountid"),
            text("lineitemusageaccountid", "billpayeraccountid"),
            start,
            f"coalesce({text('lineitemcurrencycode', 'pricingcurrency')}, 'USD')",
        )
    if family == "azure":
        profile = source.has("costinpricingcurrency", "previousinvoiceid")
        subscription = f"regexp_replace(lower({text('subscriptionguid', 'subscriptionid')}), '^/subscriptions/', '')"
        account = f"lower({text('billingprofileid')})" if profile else text("billingaccountid", "billingprofileid")
        start = f"coalesce({source.time('billingperiodstartdate', 'billingperiodstart')}, {source.time('date', 'usagedatetime', 'usagedate')})"
        return _Columns(
            ("costinbillingcurrency", "cost", "pretaxcost"),
            f"coalesce({account}, {subscription})",
            subscription,
            start,
            f"coalesce({text('billingcurrencycode', 'billingcurrency', 'currency')}, 'XXX')",
        )
    start = f"coalesce({source.time('billingperiodstart')}, {source.time('chargeperiodstart')})"
    return _Columns(("billedcost",), text("billingaccountid"), text("subaccountid"), start, f"coalesce({text('billingcurrency')}, 'XXX')")


def totals(con: duckdb.DuckDBPyConnection, family: str, source: Source, *, net: bool) -> dict[tuple[str, str | None, str, str], tuple[Decimal, int]]:
    """(billing account, sub account, period, currency) -> (sum of the amounts, rows)."""
    if family == "gcp":
        return _gcp_totals(con, source)
    columns = _columns(family, source, net=net)
    query = f"""
        select coalesce({columns.account}, 'unknown'), {columns.sub_account}, strftime({columns.period}, '%Y-%m'), {columns.currency},
            sum({source.money(*columns.amount)}), count(*)
        from {source.relation} group by all
    """
    return {(row[0], row[1], row[2], row[3]): (row[4] or Decimal(0), row[5]) for row in con.execute(query).fetchall()}


def _gcp_totals(con: duckdb.DuckDBPyConnection, source: Source) -> dict[tuple[str, str | None, str, str], tuple[Decimal, int]]:
    from auditor.normalise.billing import gcp_export

    names = gcp_export.keys(source)
    credits = gcp_export._list(source, "credits")
    cost = source.money("cost")
    flat_credits = source.money("creditsamount") if source.has("creditsamount") and credits == "null" else "0"
    credited = (
        "coalesce((select sum(try_cast(c.amount::varchar as decimal(30,12))) from (select unnest(credit_list) as c)), 0)" if credits != "null" else f"coalesce({flat_credits}, 0)"
    )
    listed = f", {credits} as credit_list" if credits != "null" else ""
    query = f"""
        select coalesce(payer, 'unknown'), account, strftime(period_start, '%Y-%m'), currency, sum(amount + credited), count(*)
        from (
            select payer, account, period_start, currency, amount, {credited if credits != "null" else "credited_flat"} as credited
            from (
                select {names["payer"]} as payer, {names["account"]} as account, {names["period_start"]} as period_start, {names["currency"]} as currency,
                    coalesce({cost}, 0) as amount, {"0" if credits != "null" else credited} as credited_flat{listed}
                from {source.relation}
            )
        )
        group by all
    """
    return {(row[0], row[1], row[2], row[3]): (row[4] or Decimal(0), row[5]) for row in con.execute(query).fetchall()}


def unreadable_amounts(con: duckdb.DuckDBPyConnection, family: str, source: Source) -> tuple[int, str] | None:
    """How many amounts are text that is no number, and the first of them; None where all can be read."""
    candidates = {"cur": ("lineitemunblendedcost",), "gcp": ("cost",), "azure": ("costinbillingcurrency", "cost", "pretaxcost"), "focus": ("billedcost",)}[family]
    column = next((name for name in candidates if source.columns.get(name) == "VARCHAR"), None)
    if column is None:
        return None
    found = con.execute(f"select count(*), any_value({quote(column)}) from {source.relation} where is_no_number({quote(column)})").fetchone()
    return (int(found[0]), str(found[1])) if found and found[0] else None
