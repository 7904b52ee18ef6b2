"""The audit window of each provider: up to --as-of, else up to the last complete day of its bill."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from auditor.settings import AuditSettings

if TYPE_CHECKING:
    import duckdb

    from auditor.bills import Bill


@dataclass(frozen=True)
class BillEnd:
    """The day after a provider's newest charge, and when its newest bill was exported, where that is known."""

    provider: str
    end: date
    exported: datetime | None


def bill_ends(
    con: "duckdb.DuckDBPyConnection", known: Iterable["Bill"], now: datetime
) -> tuple[list[BillEnd], date | None]:
    """Where each provider's charges end, and the first day of a charge that is dated later than it can have happened.

    A charge dated after tomorrow is a slip or a prepaid term, and no sign that the bill has come that far.
    """
    rows = con.execute(
        """
        select
            provider,
            coalesce(
                max(day) filter (where day <= $tomorrow and ChargeCategory = 'Usage' and ChargeFrequency is distinct from 'Recurring'),
                max(day) filter (where day <= $tomorrow),
                min(day)
            ) + 1,
            min(day) filter (where day > $tomorrow)
        from charges group by all order by all
        """,
        {"tomorrow": _tomorrow(now)},
    ).fetchall()
    exported: dict[str, datetime] = {}
    for bill in known:
        if bill.delivered_at:
            exported[bill.provider] = max(exported.get(bill.provider, bill.delivered_at), bill.delivered_at)
    ends = [BillEnd(provider, end, exported.get(provider)) for provider, end, _ in rows]
    return ends, min((day for _, _, day in rows if day is not None), default=None)


def is_ahead(day: date | None, now: datetime) -> bool:
    """Whether a charge of this day is still dated later than it can have happened."""
    return day is None or day > _tomorrow(now)


def spans(
    ends: Iterable[BillEnd], audit: AuditSettings, as_of: date | None, lookback_days: int | None, now: datetime
) -> Mapping[str, tuple[datetime, datetime]]:
    """Provider -> start and end of its audit window."""
    as_of = as_of or audit.as_of
    lookback = timedelta(days=lookback_days or audit.lookback_days)
    made = {}
    for bill in ends:
        last = _midnight(as_of) if as_of is not None else _held_back(bill, audit.hold_back_days, now)
        made[bill.provider] = (last - lookback, last)
    return made


def _held_back(bill: BillEnd, days: int, now: datetime) -> datetime:
    """The last days of an open month still change; a whole month, one exported well after its end, or a past one do not."""
    end, exported = _midnight(bill.end), bill.exported
    month_after = (end.replace(day=1) + timedelta(days=32)).replace(day=1)
    if (
        end.day == 1
        or now >= month_after + timedelta(days=days)
        or (exported is not None and exported >= end + timedelta(days=days))
    ):
        return end
    if exported is not None:
        day = datetime(exported.year, exported.month, exported.day, tzinfo=UTC)
        return min(end, day - timedelta(days=days))
    return end - timedelta(days=days)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _tomorrow(now: datetime) -> date:
    return (now + timedelta(days=1)).date()
