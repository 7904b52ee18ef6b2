"""The lines of a delivery as FOCUS rows, each for itself: what `ingest` adds up to days stays apart here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb

from auditor.errors import SourceError
from auditor.focus import CHARGE_COLUMNS, MEASURES
from auditor.landing import Recognised
from auditor.normalise.billing import formats, salvage, source
from auditor.normalise.billing.deliveries import Delivery
from auditor.normalise.billing.source import Source, literal, quote

_TIMES = ("ChargePeriodStart", "ChargePeriodEnd")
# The line types of AWS of which the one negates the other.
_NEGATING = "('SavingsPlanCoveredUsage', 'SavingsPlanNegation')"


def read_lines(
    con: duckdb.DuckDBPyConnection,
    delivery: Delivery,
    spool: Path,
    use: Callable[[str], None],
    *,
    net: bool,
    role: str | None,
) -> None:
    """Gives `use` a relation with the columns of CHARGE_COLUMNS and `bill_day`, one row for each FOCUS row of each line.

    `net` and `role` are as the delivery was taken in. Lines without any date are left out, as there. A Savings Plan's
    negations appear only as far as they fail to cancel, one row a key and day, so that every total is the bill's.
    Raises SourceError where nothing of it can be read.
    """
    module = formats.MODULES[delivery.family]
    con.execute(source.MACROS)
    con.execute(getattr(module, "MACROS", "") or "select 1")
    try:
        use(_relation(con, delivery, delivery.files, spool, net=net, role=role))
    except duckdb.OutOfMemoryException:
        raise
    except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
        files = salvage.mended(delivery.files, spool)
        if files is None:
            refused = f"cannot be read as {delivery.format}: {str(error).splitlines()[0][:300]}"
            raise SourceError(f"{delivery.names[0]}: {refused}") from error
        use(_relation(con, delivery, files, spool, net=net, role=role))


def _relation(
    con: duckdb.DuckDBPyConnection,
    delivery: Delivery,
    files: Sequence[Recognised],
    spool: Path,
    *,
    net: bool,
    role: str | None,
) -> str:
    module = formats.MODULES[delivery.family]
    con.execute("drop table if exists csv_rejects; drop table if exists csv_rejects_scan")
    sound, damage = salvage.readable(files, spool)
    if not sound:
        raise SourceError("; ".join(damage))
    opened = source.open_source(con, "exported_bill", sound, spool, formats.JSON_COLUMNS.get(delivery.family))
    con.execute(f"create or replace temp view exported_lines as {_lines(module, opened, net=net, role=role)}")
    _charges(con, module, "exported_lines", "exported_charges")
    if delivery.family != "cur":
        return "exported_charges"
    con.execute(f"create or replace temp view negating_lines as select * from exported_lines where kind in {_NEGATING}")
    _charges(con, module, "negating_lines", "negating_charges")
    return _with_negations_cancelled("exported_charges", "negating_charges")


def _charges(con: duckdb.DuckDBPyConnection, module: Any, lines: str, view: str) -> None:
    """View of the FOCUS rows of lines, typed as in the lake but for their own times."""
    rows = f"({module.rows(lines)})"
    have = {row[0] for row in con.execute(f"describe select * from {rows}").fetchall()}
    columns = ", ".join(
        f"{quote(name) if name in have else 'null'}::{kind} as {quote(name)}"
        for name, kind in CHARGE_COLUMNS.items()
        if name not in _TIMES
    )
    con.execute(f"""
        create or replace temp view {view} as
        select
            {columns},
            coalesce(start_at, BillingPeriodStart)::timestamp as ChargePeriodStart,
            coalesce(end_at, start_at + interval 1 hour, BillingPeriodStart + interval 1 day)::timestamp as ChargePeriodEnd,
            bill_day
        from {rows}
        where BillingPeriodStart is not null
    """)


def _lines(module: object, opened: Source, *, net: bool, role: str | None) -> str:
    """SQL of the lines with the columns that the format's `rows` reads; a charge of over ten years has no dates."""
    keys: dict[str, str] = module.keys(opened)  # type: ignore[attr-defined]
    measures: dict[str, str] = module.measures(opened, net=net)  # type: ignore[attr-defined]
    start, end = keys.pop("start_at"), keys.pop("end_at", "null::timestamp")
    keys = {"hourly": "false", "bill_day": f"({start})::date", **keys}
    named = ", ".join(f"{sql} as {name}" for name, sql in (keys | measures).items())
    return f"""
        select * exclude (line_start, line_end),
            case when line_end > line_start + interval 10 year then null else line_start end as start_at,
            case when line_end > line_start + interval 10 year then null else line_end end as end_at
        from (
            select {named}, {start} as line_start, {end} as line_end, 1 as source_rows,
                {literal(role) if role else "null::varchar"} as basis
            from {opened.relation}
        )
    """


def _with_negations_cancelled(charges: str, negating: str) -> str:
    """The charges without negations, but with what these fail to cancel of the usage that they negate."""
    keys = ", ".join(quote(name) for name in CHARGE_COLUMNS if name not in (*MEASURES, *_TIMES))
    sums = ", ".join(f"sum({name})::{CHARGE_COLUMNS[name]} as {name}" for name in MEASURES)
    return f"""(
        select * from {charges} where x_LineItemType is distinct from 'SavingsPlanNegation'
        union all by name
        select
            {keys}, {sums}, bill_day,
            date_trunc('day', min(ChargePeriodStart)) as ChargePeriodStart,
            date_trunc('day', min(ChargePeriodStart)) + interval 1 day as ChargePeriodEnd
        from {negating}
        where x_LineItemType = 'SavingsPlanNegation'
        group by {keys}, bill_day
        having sum(BilledCost) <> 0
    )"""
