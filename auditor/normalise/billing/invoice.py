"""The bill's own totals, read straight from the delivered columns: the other side of every reconciliation.

No amount here goes through a normaliser: the amount column (for GCP with its credits) is summed as delivered, each amount
rounded to 12 decimals. Which column bears which header, and for GCP which account and month a row belongs to, is read alike.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import duckdb

from auditor.normalise.billing.passes import mentioned
from auditor.normalise.billing.source import Source, quote

# (billing account, sub account, period, currency, day of the line; for GCP of its export)
Key = tuple[str, str | None, str, str, date | None]
Totals = dict[Key, tuple[Decimal, int]]


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
class _Columns:
    amount: tuple[str, ...]
    account: str
    sub_account: str
    period: str
    currency: str
    day: str


def _columns(family: str, source: Source, *, net: bool) -> _Columns:
    text = source.text
    if family == "cur":
        start = f"coalesce({source.time('billbillingperiodstartdate')}, {source.time('lineitemusagestartdate')})"
        return _Columns(
            ("lineitemnetunblendedcost" if net else "lineitemunblendedcost",),
            text("billpayeraccountid"),
            text("lineitemusageaccountid", "billpayeraccountid"),
            start,
            f"upper(coalesce({text('lineitemcurrencycode', 'pricingcurrency')}, 'USD'))",
            source.time("lineitemusagestartdate"),
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
            f"upper(coalesce({text('billingcurrencycode', 'billingcurrency', 'currency')}, 'XXX'))",
            source.time("date", "usagedatetime", "usagedate"),
        )
    start = f"coalesce({source.time('billingperiodstart')}, {source.time('chargeperiodstart')})"
    day = source.time("chargeperiodstart", "billingperiodstart")
    return _Columns(
        ("billedcost",),
        text("billingaccountid"),
        text("subaccountid"),
        start,
        f"upper(coalesce({text('billingcurrency')}, 'XXX'))",
        day,
    )


@dataclass(frozen=True)
class Invoice:
    """A delivery's own sums, and how many amounts are no number, with one of them.

    `unreadable` are amounts the sums lack; `doubtful` those beside them, which are in no total of the bill or a part of
    one: EffectiveCost, a credit.
    """

    totals: Totals
    unreadable: int
    example: str | None
    doubtful: int = 0
    doubtful_name: str = ""
    doubtful_example: str | None = None


def read(con: duckdb.DuckDBPyConnection, family: str, source: Source, *, net: bool) -> Invoice:
    """Everything in one pass: opening a compressed text costs more than what is done with it."""
    rows = con.execute(query(family, source, net=net)).fetchall()
    return Invoice(
        {
            (row[0], row[1], row[2], row[3], row[4]): (row[5] or Decimal(0), row[6])
            for row in rows
            if row[2] is not None
        },
        sum(row[7] for row in rows),
        next((str(row[8]) for row in rows if row[7]), None),
        sum(row[9] for row in rows),
        "credit" if family == "gcp" else "EffectiveCost",
        next((str(row[10]) for row in rows if row[9]), None),
    )


def query(family: str, source: Source, *, net: bool) -> str:
    """SQL of the sums by account, period, currency and day, with what is no amount."""
    return _gcp_query(source) if family == "gcp" else _query(family, _columns(family, source, net=net), source)


def _query(family: str, columns: _Columns, source: Source) -> str:
    """Grouped by the columns as delivered first: their texts are worked out once for each group, not on every line."""
    unreadable, example = _counted(source, *columns.amount)
    doubtful, doubtful_example = _counted(source, *(["effectivecost"] if family == "focus" else []))
    texts = mentioned([columns.account, columns.sub_account, columns.currency], source.columns)
    month = f"date_trunc('month', {columns.period})"
    fields = "".join(f", {quote(name)} := {quote(name)}" for name in texts)
    hashed = "".join(f", {quote(name)}" for name in texts)
    return f"""
        with grouped as (
            select any_value(line_columns) as line_columns, line_day, sum(line_amount) as line_amount, count(*) as line_count,
                {unreadable} as unreadable_count, {example} as unreadable_example, {doubtful} as doubtful_count, {doubtful_example} as doubtful_example
            from (
                select *, hash({month}{hashed}) as group_hash, struct_pack(period_month := {month}{fields}) as line_columns,
                    ({columns.day})::date as line_day, {source.money(*columns.amount)} as line_amount
                from {source.relation}
            )
            group by group_hash, line_day
        )
        select coalesce({columns.account}, 'unknown'), {columns.sub_account}, strftime(period_month, '%Y-%m'), {columns.currency}, line_day,
            sum(line_amount), sum(line_count)::bigint, sum(unreadable_count)::bigint, any_value(unreadable_example), sum(doubtful_count)::bigint,
            any_value(doubtful_example)
        from (select unnest(line_columns), * exclude (line_columns) from grouped)
        group by 1, 2, 3, 4, 5
    """


def _counted(source: Source, *names: str) -> tuple[str, str]:
    """SQL that counts what is no number in the first of these columns that exists, and shows one."""
    name = next((name for name in names if name in source.columns), None)
    if name is None:
        return "0", "null"
    test = source.is_no_amount(name)
    return f"count(*) filter (where {test})", f"any_value({quote(name)}) filter (where {test})"


def _gcp_query(source: Source) -> str:
    from auditor.normalise.billing import gcp_export

    names = gcp_export.keys(source)
    credits = gcp_export._list(source, "credits")
    cost = source.money("cost")
    flat_credits = source.money("creditsamount") if source.has("creditsamount") and credits == "null" else "0"
    credited = (
        "coalesce((select sum(credit_amount(c.amount)) from (select unnest(credit_list) as c)), 0)"
        if credits != "null"
        else f"coalesce({flat_credits}, 0)"
    )
    unreadable, example = _counted(source, "cost")
    listed = f", {credits} as credit_list" if credits != "null" else ""
    if credits != "null":
        odd, odd_example = "has_no_amount(credit_list)", "credit_list::varchar"
    elif source.has("creditsamount"):
        listed, odd, odd_example = (
            f", creditsamount as odd, {source.is_no_amount('creditsamount')} as is_odd",
            "is_odd",
            "odd",
        )
    else:
        odd, odd_example = "false", "null"
    return f"""
        select coalesce(payer, 'unknown'), account, strftime(period_start, '%Y-%m'), currency, bill_day, sum(amount + credited), count(*),
            {unreadable}, {example}, count(*) filter (where is_odd), any_value(left(odd_example::varchar, 80)) filter (where is_odd)
        from (
            select {odd} as is_odd, {odd_example} as odd_example, payer, account, period_start, currency, bill_day, amount, cost, {credited if credits != "null" else "credited_flat"} as credited
            from (
                select {names["payer"]} as payer, {names["account"]} as account, {names["period_start"]} as period_start, {names["currency"]} as currency,
                    {names["bill_day"]} as bill_day, coalesce({cost}, 0) as amount, cost, {"0" if credits != "null" else credited} as credited_flat{listed}
                from {source.relation}
            )
        )
        group by 1, 2, 3, 4, 5
    """
