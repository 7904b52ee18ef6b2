"""Which of the delivered bills count: every charge once.

Two deliveries may tell of the same charges: two exports of one account, one export delivered again, a bill beside an
API's answer. What is compared is small: the sums of a delivery by account and by day of the bill's lines.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from auditor.records import DeliveryRecord

UNKNOWN = "unknown"  # the billing account of a bill that names none
# Answers of cost APIs: sums without resources, which stand in only where no bill is.
_COARSE = ("aws-cost-explorer", "azure-query")
_RESTATED = Decimal("0.005")  # by which the newest days may have grown between two questions


@dataclass(frozen=True)
class AccountTotal:
    """One delivery's sums for one sub account, billing period, currency and day, and how many rows they add up.

    `bill_day` is the day on which the bill's lines begin, for GCP the day of their export; null where neither is known.
    """

    billing_account_id: str
    sub_account_id: str | None
    billing_period: str
    currency: str
    source_billed_cost: Decimal
    lake_billed_cost: Decimal
    rows: int
    bill_day: str | None = None


@dataclass(frozen=True)
class Bill:
    """One billing period of one delivery and provider."""

    id: str
    provider: str
    source: str
    format: str
    role: str | None
    billing_period: str
    paths: tuple[str, ...]
    rows: int
    totals: tuple[AccountTotal, ...]
    has_resource_ids: bool
    is_net: bool
    newest_charge: datetime | None
    delivered_at: datetime | None
    messages: tuple[str, ...] = field(default=())
    is_damaged: bool = False
    is_whole: bool = True  # false where every file of the delivery breaks off: its invoice is not known
    is_monthly: bool = False  # most lines cover more than a day, so that a line's day does not tell what it covers
    is_invoiced: bool = False  # every line bears its invoice, so that the bill is final

    @property
    def rank(self) -> tuple[Any, ...]:
        """Better sources rank higher: with resource ids, then net costs, then more rows, then invoiced; the name settles ties."""
        return (not self.is_coarse, self.has_resource_ids, self.is_net, self.rows, self.is_invoiced, self.source)

    @property
    def export(self) -> str:
        """The source without the mark of a delivery that stands beside another one of the same export."""
        return self.source.partition("#")[0]

    @property
    def is_coarse(self) -> bool:
        return self.format.startswith(_COARSE)

    @property
    def counts_by_export(self) -> bool:
        """Whether `bill_day` is the day of export: GCP's rows are appended and never restated."""
        return self.format.startswith("gcp-")

    @cached_property
    def _days(self) -> dict[str | None, dict[str, int]]:
        """Billing account (null: all of them) -> bill day -> rows."""
        found: dict[str | None, dict[str, int]] = {None: {}}
        for total in self.totals:
            for account in (None, total.billing_account_id) if total.bill_day else ():
                days = found.setdefault(account, {})
                days[str(total.bill_day)] = days.get(str(total.bill_day), 0) + total.rows
        return found

    def days(self, billing_account_id: str | None = None) -> dict[str, int]:
        """Rows by bill day, of one billing account or of all."""
        return self._days.get(billing_account_id, {})

    def spans(self, day: str | None, billing_account_id: str) -> bool:
        """Whether a day lies within what the delivery tells of an account, quiet days included: from its first day to
        its last. For GCP, whose rows are appended, an export day is there or not."""
        days = self.days(billing_account_id)
        if day is None or self.is_monthly or not days:
            return True
        return day in days if self.counts_by_export else min(days) <= day <= max(days)

    def covers(self, day: str | None, billing_account_id: str | None = None) -> bool:
        """Whether the delivery speaks for a day: it has lines of it, or of both of its neighbours."""
        if day is None or self.is_monthly:
            return True
        days = self.days(billing_account_id)
        if day in days or self.counts_by_export:
            return day in days
        return _shifted(day, -1) in days and _shifted(day, 1) in days


def _shifted(day: str, by: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=by)).isoformat()


@dataclass(frozen=True)
class Choice:
    """What counts: whole (delivery, sub account) pairs, single days of others, and a note on all that gives way."""

    counted: frozenset[tuple[str, str | None]]
    partly: frozenset[tuple[str, str | None, str | None]]
    notes: tuple[tuple[Bill, str], ...]
    primaries: tuple[tuple[Bill, str], ...]

    def counts(self, bill: Bill, total: AccountTotal) -> bool:
        pair = (bill.id, total.sub_account_id)
        return pair in self.counted or (*pair, total.bill_day) in self.partly


@dataclass(frozen=True)
class Placement:
    """How a delivery joins the live ones of its export and period: under which source, in whose place, or not at all."""

    source: str
    supersedes: tuple[Bill, ...] = ()
    outdated_by: Bill | None = None


def place(bill: Bill, live: Iterable[Bill]) -> Placement:
    """A newer delivery replaces an older one, but for days that only the older one has: then both stay."""
    rivals = [
        other
        for other in live
        if (other.provider, other.export, other.billing_period) == (bill.provider, bill.export, bill.billing_period)
    ]
    for other in rivals:
        if _is_newer(other, bill) and _speaks_for(other, bill):
            return Placement(bill.source, outdated_by=other)
    gone = tuple(other for other in rivals if not _is_newer(other, bill) and _speaks_for(bill, other))
    taken = {other.source for other in rivals if other not in gone}
    return Placement(f"{bill.export}#{bill.id[:20]}" if bill.export in taken else bill.export, gone)


def _speaks_for(bill: Bill, other: Bill) -> bool:
    mine, theirs = bill.days(), other.days()
    if bill.counts_by_export and other.counts_by_export:  # a day's rows are never taken back: fewer of them are a part
        return all(mine.get(day, 0) >= rows for day, rows in theirs.items())
    return all(bill.covers(day) for day in theirs)


def _is_newer(bill: Bill, other: Bill) -> bool:
    """By delivery time where both have one, else by newest charge, invoice and rows; a damaged delivery outdates no sound one."""
    if bill.is_damaged != other.is_damaged:
        return other.is_damaged
    if bill.delivered_at and other.delivered_at:
        return bill.delivered_at > other.delivered_at
    if bill.newest_charge and other.newest_charge and bill.newest_charge != other.newest_charge:
        return bill.newest_charge > other.newest_charge
    if bill.is_invoiced != other.is_invoiced:
        return bill.is_invoiced
    return bill.rows > other.rows


def choose(bills: Sequence[Bill]) -> Choice:
    """Takes each (billing account, sub account, period) from one source, from two where they tell of different weeks.

    Azure's actual and amortized exports of one account are two halves of one bill and count both.
    """
    gave_way: dict[str, dict[tuple[str, str | None, str | None], Bill]] = {}
    primaries: list[tuple[Bill, str]] = []
    for (_, account, period), group in _by_account([bill for bill in bills if not bill.is_coarse]).items():
        if account == UNKNOWN:
            continue  # without an account nothing tells that two bills are about the same charges
        for bill, unit, holder in _conflicts(group, account):
            gave_way.setdefault(bill.id, {})[(account, *unit)] = holder
        first = _ordered(group)[0]
        if any(bill.id in gave_way for bill in group):
            primaries.append((first, f"primary for account {account}, {period}"))
    for bill, total, holder in _coarse_conflicts(bills):
        gave_way.setdefault(bill.id, {})[(total.billing_account_id, total.sub_account_id, total.bill_day)] = holder
    counted, partly = _counted(bills, gave_way)
    notes = tuple(note for bill in bills if bill.id in gave_way for note in _notes(bill, gave_way[bill.id]))
    return Choice(counted, partly, notes, tuple(primaries))


def _by_account(bills: Iterable[Bill]) -> dict[tuple[str, str, str], list[Bill]]:
    groups: dict[tuple[str, str, str], list[Bill]] = {}
    for bill in bills:
        for account in sorted({total.billing_account_id for total in bill.totals}):
            groups.setdefault((bill.provider, account, bill.billing_period), []).append(bill)
    return groups


def _ordered(group: Sequence[Bill]) -> list[Bill]:
    """Best export first, and of one export the newest delivery first."""
    best: dict[str, tuple[Any, ...]] = {}
    for bill in group:
        best[bill.export] = max(best.get(bill.export, bill.rank), bill.rank)

    def newness(bill: Bill) -> tuple[bool, str, str, int]:
        return (not bill.is_damaged, str(bill.delivered_at or ""), str(bill.newest_charge or ""), bill.rows)

    return sorted(group, key=lambda bill: (best[bill.export], newness(bill)), reverse=True)


def _conflicts(group: Sequence[Bill], account: str) -> Iterator[tuple[Bill, tuple[str | None, str | None], Bill]]:
    """(bill, (sub account, day), the bill that counts in its stead) for everything that must give way."""
    ordered = _ordered(group)
    units = {
        bill.id: {
            (total.sub_account_id, total.bill_day) for total in bill.totals if total.billing_account_id == account
        }
        for bill in ordered
    }
    lost: dict[str, set[tuple[str | None, str | None]]] = {bill.id: set() for bill in ordered}
    for position, bill in enumerate(ordered):
        for sub, day in sorted(units[bill.id], key=str):
            for other in _rivals(bill, ordered, position, account, day):
                # What gave way itself takes nobody's place.
                standing = units[other.id] - lost[other.id]
                holds = any(name == sub for name, _ in standing) and (sub, day) not in lost[other.id]
                if holds and _tells(other, bill, day, account):
                    lost[bill.id].add((sub, day))
                    yield bill, (sub, day), other
                    break


def _rivals(bill: Bill, ordered: Sequence[Bill], position: int, account: str, day: str | None) -> list[Bill]:
    """The bills that come before this one for a day. Of two extracts of one GCP table the one with more rows of it does."""

    def precedes(at: int, other: Bill) -> bool:
        if not (bill.counts_by_export and other.format == bill.format) or day is None:
            return at < position
        mine, theirs = bill.days(account).get(day, 0), other.days(account).get(day, 0)
        return theirs > mine or (theirs == mine and at < position)

    return [
        other
        for at, other in enumerate(ordered)
        if other is not bill and _same_side(bill, other) and precedes(at, other)
    ]


def _same_side(bill: Bill, other: Bill) -> bool:
    """Whether the two tell of the same charges; an actual and an amortized export are halves of one bill."""
    return bill.role is None or other.role is None or bill.role == other.role


def _tells(other: Bill, bill: Bill, day: str | None, account: str) -> bool:
    """Whether another bill of the account counts in place of this one on a day.

    Another export of the same weeks counts whole, so that no month is put together from two; one that ends where this
    one begins does not. Of one export's own deliveries, and of Google's appended rows, each day is told by one.
    """
    if not _comparable(bill, other):
        return True
    if other.export == bill.export or other.counts_by_export:
        return other.spans(day, account)
    mine, theirs = bill.days(account), other.days(account)
    if not mine or not theirs or bill.is_monthly or other.is_monthly:
        return True
    return min(mine) <= max(theirs) and min(theirs) <= max(mine)


def _comparable(bill: Bill, other: Bill) -> bool:
    return bill.counts_by_export == other.counts_by_export


def _coarse_conflicts(bills: Sequence[Bill]) -> Iterator[tuple[Bill, AccountTotal, Bill]]:
    """What of the answers of cost APIs must give way: to a bill, or to another answer about the same money."""
    answered = list(_answered_by_bills(bills))
    yield from answered
    gone = {(bill.id, total) for bill, total, _ in answered}  # what gives way to a bill stands in for no other answer
    coarse = [bill for bill in bills if bill.is_coarse]
    yield from _answered_twice(
        [replace(bill, totals=tuple(t for t in bill.totals if (bill.id, t) not in gone)) for bill in coarse]
    )


def _answered_by_bills(bills: Sequence[Bill]) -> Iterator[tuple[Bill, AccountTotal, Bill]]:
    """What cost APIs say of sub accounts for which there is a bill; an answer without accounts speaks of all of them."""
    full = [bill for bill in bills if not bill.is_coarse]
    for bill in bills:
        if not bill.is_coarse:
            continue
        for total in bill.totals:
            named = total.sub_account_id
            holder = next(
                (
                    other
                    for other in full
                    if other.provider == bill.provider
                    and other.billing_period == bill.billing_period
                    and (named is None or any(named in (t.sub_account_id, t.billing_account_id) for t in other.totals))
                ),
                None,
            )
            if holder is not None:
                yield bill, total, holder


def _answered_twice(answers: Sequence[Bill]) -> Iterator[tuple[Bill, AccountTotal, Bill]]:
    """Days that an answer shares with a better one that splits the same sum by other groups: by a tag, say, or a service."""
    days = {answer.id: {total.bill_day for total in answer.totals} for answer in answers}
    ordered = sorted(answers, key=lambda answer: answer.rank, reverse=True)
    for position, answer in enumerate(ordered):
        for other in ordered[:position]:
            shared = days[answer.id] & days[other.id]
            if not shared or not _same_sum(answer, other, shared):
                continue
            days[answer.id] -= shared
            named = {total.sub_account_id for total in other.totals}
            for total in answer.totals:
                if total.bill_day in shared and (None in named or total.sub_account_id in (None, *named)):
                    yield answer, total, other


def _same_sum(answer: Bill, other: Bill, days: set[str | None]) -> bool:
    """Whether two answers to different questions add up to the same in the days and accounts that they share.

    An answer does not tell by which filter it was asked for, so only the sum shows that two are about the same charges.
    """

    def asked(bill: Bill) -> tuple[str, str, str, str]:
        return bill.provider, bill.format, bill.billing_period, bill.export.rpartition("/")[2]

    if asked(answer)[:3] != asked(other)[:3] or asked(answer) == asked(other):
        return False
    accounts = [{total.sub_account_id for total in bill.totals} for bill in (answer, other)]
    shared = accounts[0] & accounts[1] if None not in accounts[0] | accounts[1] else None
    sums: list[dict[str, Decimal]] = [{}, {}]
    for found, bill in zip(sums, (answer, other), strict=True):
        for total in bill.totals:
            if total.bill_day in days and (shared is None or total.sub_account_id in shared):
                found[total.currency] = found.get(total.currency, Decimal(0)) + total.source_billed_cost
    mine, theirs = sums
    return (
        bool(mine)
        and any(mine.values())
        and mine.keys() == theirs.keys()
        and all(abs(mine[currency] - theirs[currency]) <= abs(theirs[currency]) * _RESTATED for currency in mine)
    )


def _counted(
    bills: Sequence[Bill], gave_way: dict[str, dict[tuple[str, str | None, str | None], Bill]]
) -> tuple[frozenset[tuple[str, str | None]], frozenset[tuple[str, str | None, str | None]]]:
    whole: set[tuple[str, str | None]] = set()
    partly: set[tuple[str, str | None, str | None]] = set()
    for bill in bills:
        lost = {(sub, day) for _, sub, day in gave_way.get(bill.id, {})}
        units = {(total.sub_account_id, total.bill_day) for total in bill.totals}
        broken = {sub for sub, _ in lost}
        whole.update((bill.id, sub) for sub, _ in units if sub not in broken)
        partly.update((bill.id, sub, day) for sub, day in units if sub in broken and (sub, day) not in lost)
    return frozenset(whole), frozenset(partly)


def _notes(bill: Bill, lost: dict[tuple[str, str | None, str | None], Bill]) -> Iterator[tuple[Bill, str]]:
    """One sentence for each billing account and each bill that counts instead: all of the period, or which days."""
    by_holder: dict[tuple[str, str], tuple[Bill, set[str]]] = {}
    for (account, _, day), holder in lost.items():
        by_holder.setdefault((account, holder.id), (holder, set()))[1].add(day or "")
    for (account, _), (holder, days) in sorted(by_holder.items(), key=lambda item: item[0]):
        everything = {day or "" for _, _, day in lost} >= {
            total.bill_day or "" for total in bill.totals if total.billing_account_id == account
        }
        scope = bill.billing_period if everything else f"{_span(days)} of {bill.billing_period}"
        yield bill, f"not counted for account {account}, {scope}: {_name(holder)} covers it {_why(holder, bill)}"


def _span(days: set[str]) -> str:
    named = sorted(day for day in days if day)
    return f"{named[0]} to {named[-1]}" if len(named) > 1 else (named or ["undated lines"])[0]


def _name(bill: Bill) -> str:
    return f"{bill.format} {bill.paths[0]}" if bill.paths else bill.source


def _why(winner: Bill, loser: Bill) -> str:
    if winner.is_coarse:
        return "with the same sum by other groups"
    if loser.is_coarse:
        return "line by line"
    if winner.export == loser.export:
        return "as the newer delivery" if not loser.is_damaged else "and is sound"
    apart = (
        ("and has resource ids", winner.has_resource_ids != loser.has_resource_ids),
        ("and has net costs", winner.is_net != loser.is_net),
        (f"with {winner.rows:,} rows against {loser.rows:,}", winner.rows != loser.rows),
        ("and is invoiced", winner.is_invoiced != loser.is_invoiced),
    )
    return next((why for why, tells in apart if tells), f"with {winner.rows:,} rows each")


def with_note(bill: Bill, note: str) -> Bill:
    return replace(bill, messages=(*bill.messages, note))


def outdated_note(bill: Bill, newer: Bill) -> str:
    return f"{bill.billing_period} is not counted: {newer.paths[0] if newer.paths else newer.source} is a newer export of the same"


def to_summary(bill: Bill) -> dict[str, Any]:
    """What the state keeps of a bill beside the delivery's own columns, as JSON."""
    return {
        "paths": list(bill.paths),
        "has_resource_ids": bill.has_resource_ids,
        "is_net": bill.is_net,
        "newest_charge": bill.newest_charge.isoformat() if bill.newest_charge else None,
        "messages": list(bill.messages),
        "is_damaged": bill.is_damaged,
        "is_whole": bill.is_whole,
        "is_monthly": bill.is_monthly,
        "is_invoiced": bill.is_invoiced,
        "totals": [
            [
                total.billing_account_id,
                total.sub_account_id,
                total.billing_period,
                total.currency,
                str(total.source_billed_cost),
                str(total.lake_billed_cost),
                total.rows,
                total.bill_day,
            ]
            for total in bill.totals
        ],
    }


def from_record(record: DeliveryRecord) -> Bill:
    """The bill of a delivery that was taken in earlier."""
    summary = record.identities
    newest = summary["newest_charge"]
    return Bill(
        id=record.id,
        provider=record.provider or "unknown",
        source=record.source,
        format=record.format,
        role=record.role,
        billing_period=record.billing_period,
        paths=tuple(summary["paths"]),
        rows=record.rows,
        totals=tuple(
            AccountTotal(t[0], t[1], t[2], t[3], Decimal(t[4]), Decimal(t[5]), t[6], t[7]) for t in summary["totals"]
        ),
        has_resource_ids=summary["has_resource_ids"],
        is_net=summary["is_net"],
        newest_charge=datetime.fromisoformat(newest) if newest else None,
        delivered_at=record.delivered_at,
        messages=tuple(summary["messages"]),
        is_damaged=summary["is_damaged"],
        is_whole=summary["is_whole"],
        is_monthly=summary["is_monthly"],
        is_invoiced=summary.get("is_invoiced", False),  # not told by what earlier versions took in
    )
