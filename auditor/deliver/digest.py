"""What a message says, before it is written as mail, chat or JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from auditor import money
from auditor.deliver import words
from auditor.finding import Finding, short_name
from auditor.records import FindingChange, RealisedSaving

_OPEN = ("new", "open", "reopened", "acknowledged")
_CLASSES = {
    "productive": "Productive",
    "starved": "Starved of data",
    "held": "Held, not used",
    "idle": "Idle",
    "reserved_unused": "Reserved, unused",
    "no_telemetry": "No telemetry",
}


@dataclass(frozen=True)
class Item:
    """One finding in a message. `savings` is net, a month."""

    id: str
    rule_id: str
    title: str
    severity: str
    confidence: str
    where: str
    owner: str | None
    reason: str
    remedy: str
    savings: Decimal
    currency: str


@dataclass(frozen=True)
class Part:
    """One class of the GPU ledger: its cost and its share of the whole, 0 to 100."""

    name: str
    cost: Decimal
    share: int


@dataclass(frozen=True)
class Saved:
    """What the bill of a period shows that a resolved finding saved, and what had been estimated for the same days."""

    saving: RealisedSaving
    finding: Finding
    estimated: Decimal


@dataclass(frozen=True)
class SavedItem:
    """One resolved finding beside the bill of a period."""

    title: str
    where: str
    savings: Decimal
    estimated: Decimal


@dataclass(frozen=True)
class Realised:
    """What the bill of a period shows that resolved findings saved, beside the estimate for the same days.

    `items` are those that saved most, at most as many as rows of the digest; `findings` counts all of them.
    """

    billing_period: str
    currency: str
    savings: Decimal
    estimated: Decimal
    findings: int
    items: tuple[SavedItem, ...]


@dataclass(frozen=True)
class Digest:
    """A report in one page. `new`, `reopened` and `resolved` are since the last report, all of them where `is_first`.

    The lists hold every finding at or above `min_savings`; `rows` says how many of each are shown. `owner` is given when
    only the findings of one owner are told; then the figures are of these findings, and costs and ledger are left out.
    """

    kind: str
    run_id: str
    as_of: str | None
    status: str
    currency: str
    owner: str | None
    effective_cost: Decimal | None
    savings: Decimal
    savings_low: Decimal
    other_savings: tuple[tuple[str, Decimal], ...]
    gpu_cost: Decimal
    gpu: tuple[Part, ...]
    open: tuple[Item, ...]
    new: tuple[Item, ...]
    reopened: tuple[Item, ...]
    resolved: tuple[Item, ...]
    unlisted: int
    realised: tuple[Realised, ...]
    notices: tuple[str, ...]
    unknown: tuple[str, ...]
    failed_sources: tuple[str, ...]
    is_first: bool
    rows: int
    report_url: str | None

    @property
    def has_news(self) -> bool:
        """Whether a daily digest has anything to say."""
        return bool(self.new or self.reopened or self.resolved or self.notices or self.unknown or self.failed_sources)

    def with_rows(self, rows: int) -> "Digest":
        """The same with fewer findings shown."""
        return replace(self, rows=rows)


def make_digest(
    document: Mapping[str, Any],
    changes: Sequence[FindingChange],
    *,
    kind: str,
    is_first: bool,
    realised: Iterable[Saved] = (),
    notices: Sequence[str] = (),
    unknown: Sequence[str] = (),
    owner: str | None = None,
    min_savings: Decimal = Decimal(0),
    rows: int = 15,
    report_url: str | None = None,
) -> Digest:
    """The digest of a run's document; `changes` are those since the last report to the same reader."""
    open_ = [
        finding for finding in document["findings"] if finding["status"] in _OPEN and _is_of(finding["owner"], owner)
    ]
    told = sorted((_item(finding) for finding in open_), key=lambda item: (-item.savings, item.id))
    listed = [item for item in told if item.savings >= min_savings]
    by_id = {item.id: item for item in listed}
    mine = [change for change in changes if _is_of(change.record.owner, owner)]
    gone = [_gone(change) for change in mine if change.kind == "resolved"]
    currency = document["totals"]["currency"]
    ledger = [row for row in document["gpu_ledger"] if row["currency"] == currency and owner is None]
    gpu = _parts(ledger)
    return Digest(
        kind=kind,
        run_id=document["run"]["id"],
        as_of=document["run"]["as_of"],
        status=document["run"]["status"],
        currency=currency,
        owner=owner,
        effective_cost=Decimal(document["totals"]["effective_cost"]) if owner is None else None,
        savings=_sum(open_, currency, ("high", "medium")),
        savings_low=_sum(open_, currency, ("low",)),
        other_savings=tuple(
            (other, _sum(open_, other, ("high", "medium")))
            for other in sorted({finding["currency"] for finding in open_} - {currency})
        ),
        gpu_cost=money.total(part.cost for part in gpu),
        gpu=gpu,
        open=tuple(listed),
        new=tuple(by_id[change.record.id] for change in mine if change.kind == "new" and change.record.id in by_id),
        reopened=tuple(
            by_id[change.record.id] for change in mine if change.kind == "reopened" and change.record.id in by_id
        ),
        resolved=tuple(item for item in gone if item.savings >= min_savings),
        unlisted=len(told) - len(listed),
        realised=_realised(realised, rows),
        notices=tuple(words.plain(notice, 300) for notice in notices),
        unknown=tuple(unknown),
        failed_sources=tuple(
            words.plain(f"{(source['paths'] or ['?'])[0]}: {source['message'] or 'no reason given'}", 300)
            for source in document["sources"]
            if source["status"] == "failed"
        ),
        is_first=is_first,
        rows=rows,
        report_url=None if report_url is None else report_url.replace("{run}", document["run"]["id"]),
    )


def _is_of(found: str | None, owner: str | None) -> bool:
    return owner is None or (found or "").strip().casefold() == owner.strip().casefold()


def _sum(findings: Sequence[Mapping[str, Any]], currency: str, confidences: Sequence[str]) -> Decimal:
    return money.total(
        Decimal(finding["monthly_savings_net"])
        for finding in findings
        if finding["currency"] == currency and finding["confidence"] in confidences
    )


def _item(finding: Mapping[str, Any]) -> Item:
    name = short_name(finding["resource_name"], finding["resource_id"]) or finding["service"] or "—"
    return Item(
        id=finding["id"],
        rule_id=finding["rule_id"],
        title=words.plain(finding["title"], 120),
        severity=finding["severity"],
        confidence=finding["confidence"],
        where=_where(name, finding["provider"], finding["account_id"], finding["region"]),
        owner=None if finding["owner"] is None else words.plain(finding["owner"], 60),
        reason=words.plain(finding["reason"], 280),
        remedy=words.plain(finding["remediation"]["summary"], 200),
        savings=Decimal(finding["monthly_savings_net"]),
        currency=finding["currency"],
    )


def _gone(change: FindingChange) -> Item:
    record = change.record
    name = short_name(record.resource_name, record.resource_id) or record.subject
    return Item(
        id=record.id,
        rule_id=record.rule_id,
        title=words.plain(record.title, 120),
        severity=record.severity,
        confidence=record.confidence,
        where=_where(name, record.provider, record.sub_account_id, record.region_id),
        owner=None if record.owner is None else words.plain(record.owner, 60),
        reason="",
        remedy="",
        savings=record.monthly_savings_net,
        currency=record.billing_currency,
    )


def _parts(ledger: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    costs: dict[str, Decimal] = {}
    for row in ledger:
        costs[row["class"]] = costs.get(row["class"], Decimal(0)) + Decimal(row["effective_cost"])
    whole = money.total(costs.values())
    if whole <= 0:
        return ()
    return tuple(
        Part(name, costs[key], max(0, round(100 * costs[key] / whole)))
        for key, name in _CLASSES.items()
        if costs.get(key)
    )


def _realised(savings: Iterable[Saved], rows: int) -> tuple[Realised, ...]:
    """The newest two billing periods by currency: the month that runs and the one before."""
    groups: dict[tuple[str, str], list[Saved]] = {}
    for each in savings:
        groups.setdefault((each.saving.billing_period, each.saving.billing_currency), []).append(each)
    newest = sorted({period for period, _ in groups}, reverse=True)[:2]
    return tuple(
        Realised(
            period,
            currency,
            money.total(each.saving.realised_savings for each in group),
            money.total(each.estimated for each in group),
            len(group),
            tuple(_saved(each) for each in sorted(group, key=_most_saved)[:rows]),
        )
        for (period, currency), group in sorted(groups.items(), reverse=True)
        if period in newest
    )


def _most_saved(each: Saved) -> tuple[Decimal, str]:
    return -each.saving.realised_savings, each.finding.id


def _saved(each: Saved) -> SavedItem:
    finding = each.finding
    return SavedItem(
        words.plain(finding.title, 120),
        _where(
            short_name(finding.resource_name, finding.resource_id) or finding.subject,
            finding.provider,
            finding.sub_account_id,
            finding.region_id,
        ),
        each.saving.realised_savings,
        each.estimated,
    )


def _where(name: str, *places: str | None) -> str:
    place = " · ".join(part for part in places if part)
    return f"{words.plain(name, 80)} ({words.plain(place, 100)})"
