"""Which of the delivered bills count: every charge once.

Sources that cover the same account and period are ranked and the best is taken, sub account by sub account; a delivery
that is damaged counts as far as it could be read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from auditor.records import DeliveryRecord


@dataclass(frozen=True)
class AccountTotal:
    """One delivery's sums for one sub account of one billing period and currency, and how many rows they add up."""

    billing_account_id: str
    sub_account_id: str | None
    billing_period: str
    currency: str
    source_billed_cost: Decimal
    lake_billed_cost: Decimal
    rows: int


@dataclass(frozen=True)
class Bill:
    """One billing period of one delivery."""

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

    @property
    def rank(self) -> tuple[Any, ...]:
        """Better sources rank higher: with resource ids, then net costs, then more rows; the name settles ties."""
        return (self.has_resource_ids, self.is_net, self.rows, self.source)


@dataclass(frozen=True)
class Choice:
    """What counts: (delivery, sub account) pairs, and a note on every source that gives way to another."""

    counted: frozenset[tuple[str, str | None]]
    notes: tuple[tuple[Bill, str], ...]
    primaries: tuple[tuple[Bill, str], ...]


def choose(bills: Sequence[Bill]) -> Choice:
    """Takes each (billing account, sub account, period) from one source.

    Azure's actual and amortized exports of one account are two halves of one source.
    """
    counted: set[tuple[str, str | None]] = set()
    notes: list[tuple[Bill, str]] = []
    primaries: list[tuple[Bill, str]] = []
    for (_, account, period), group in _by_account(bills).items():
        taken: dict[str | None, str] = {}
        sides = _sides(group, account)
        for side in sides:
            gave_way = None
            for bill in side:
                for total in bill.totals:
                    if total.billing_account_id != account:
                        continue
                    holder = taken.get(total.sub_account_id)
                    if holder is None or any(holder == other.id for other in side):
                        counted.add((bill.id, total.sub_account_id))
                    else:
                        gave_way = holder
            for bill in side:
                for total in bill.totals:
                    if total.billing_account_id == account:
                        taken.setdefault(total.sub_account_id, bill.id)
            if gave_way is not None:
                winner = next(bill for bill in group if bill.id == gave_way)
                notes.extend((bill, f"not counted for account {account}, {period}: {_name(winner)} covers it {_why(winner, bill)}") for bill in side)
        if len(sides) > 1:
            primaries.extend((bill, f"primary for account {account}, {period}") for bill in sides[0])
    return Choice(frozenset(counted), tuple(notes), tuple(primaries))


def _by_account(bills: Iterable[Bill]) -> dict[tuple[str, str, str], list[Bill]]:
    groups: dict[tuple[str, str, str], list[Bill]] = {}
    for bill in bills:
        for account in sorted({total.billing_account_id for total in bill.totals}):
            groups.setdefault((bill.provider, account, bill.billing_period), []).append(bill)
    return groups


def _sides(group: Sequence[Bill], account: str) -> list[list[Bill]]:
    """Alternatives for the same account and period, best first; an actual and an amortized export stand together."""
    by_role: dict[str, list[Bill]] = {}
    whole: list[list[Bill]] = []
    for bill in sorted(group, key=lambda b: b.rank, reverse=True):
        if bill.role in ("actual", "amortized"):
            by_role.setdefault(bill.role, []).append(bill)
        else:
            whole.append([bill])
    halves = [list(pair) for pair in zip(*by_role.values(), strict=False)] if len(by_role) == 2 else []
    paired = {bill.id for half in halves for bill in half}
    single = [[bill] for bills in by_role.values() for bill in bills if bill.id not in paired]
    return sorted([*whole, *halves, *single], key=lambda side: (max(bill.rank for bill in side)), reverse=True)


def _name(bill: Bill) -> str:
    return f"{bill.format} {bill.paths[0]}" if bill.paths else bill.source


def _why(winner: Bill, loser: Bill) -> str:
    if winner.has_resource_ids != loser.has_resource_ids:
        return "and has resource ids"
    if winner.is_net != loser.is_net:
        return "and has net costs"
    return f"with {winner.rows:,} rows against {loser.rows:,}"


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
        "totals": [
            [t.billing_account_id, t.sub_account_id, t.billing_period, t.currency, str(t.source_billed_cost), str(t.lake_billed_cost), t.rows] for t in bill.totals
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
        totals=tuple(AccountTotal(t[0], t[1], t[2], t[3], Decimal(t[4]), Decimal(t[5]), t[6]) for t in summary["totals"]),
        has_resource_ids=summary["has_resource_ids"],
        is_net=summary["is_net"],
        newest_charge=datetime.fromisoformat(newest) if newest else None,
        delivered_at=record.delivered_at,
        messages=tuple(summary["messages"]),
        is_damaged=summary["is_damaged"],
        is_whole=summary["is_whole"],
    )
