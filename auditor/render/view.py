"""Turns the document and its extras into what the pages show: sums, orders, verdicts. No markup here."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from auditor.finding import short_name
from auditor.render import charts, figures
from auditor.render.extras import DailyCost, Extras, GpuSlice
from auditor.render.forecast import Forecast, Unknown, forecast

CLASSES: Mapping[str, str] = {
    "productive": "Productive",
    "starved": "Starved of data",
    "held": "Held, not used",
    "idle": "Idle",
    "reserved_unused": "Reserved, unused",
    "no_telemetry": "No telemetry",
}
CLASS_MEANINGS: Mapping[str, str] = {
    "productive": "at work",
    "starved": "waiting for a disk, file system or input that is at its limit",
    "held": "next to no work, memory occupied or unknown",
    "idle": "next to no work, memory empty",
    "reserved_unused": "paid capacity in which nothing ran",
    "no_telemetry": "too few samples for a verdict; not the same as idle",
}
SEVERITIES = ("critical", "high", "medium", "low")
CONFIDENCES = ("high", "medium", "low")
OPEN = ("new", "open", "reopened", "acknowledged")  # muted and resolved findings are listed, not counted
NO_OWNER = "No owner known"
LISTED = 1000  # findings on the page; what is beyond is counted and named as left to the data files
ROWS = 12  # lines of a ranking before the rest is added up
SERIES = 6  # colours that can be told apart in one chart


@dataclass(frozen=True)
class Ranked:
    """A line of a ranking, with its days as a small picture."""

    name: str
    within: str
    cost: Decimal
    share: str
    spark: str
    days: int


@dataclass(frozen=True)
class Ranking:
    """A table of the dearest, the rest added up in `rest`."""

    title: str
    rows: tuple[Ranked, ...]
    rest: Decimal
    rest_count: int


@dataclass(frozen=True)
class Spend:
    """Cost over the days in one currency."""

    currency: str
    cost: Decimal
    legend: tuple[tuple[str, str], ...]
    columns: charts.Columns | None
    rankings: tuple[Ranking, ...]
    forecast: Forecast | Unknown


@dataclass(frozen=True)
class Line:
    """One line of the ledger's tables: a bar by class and its sums."""

    name: str
    segments: tuple[charts.Segment, ...]
    hours: Decimal
    cost: Decimal
    at_work: str
    per_hour: Decimal | None


@dataclass(frozen=True)
class Ledger:
    """The GPU ledger in one currency. The cuts are null where the run did not supply them."""

    currency: str
    cost: Decimal
    hours: Decimal
    at_work: str
    per_hour: Decimal | None
    segments: tuple[charts.Segment, ...]
    classes: tuple[tuple[str, str, str, Decimal, Decimal, str], ...]
    providers: tuple[Line, ...]
    owners: tuple[Line, ...] | None
    models: tuple[Line, ...] | None
    columns: charts.Columns | None


@dataclass(frozen=True)
class Owner:
    """The findings of one owner, dearest first, and their net savings by currency."""

    name: str
    anchor: str
    savings: tuple[tuple[str, Decimal], ...]
    findings: tuple[Mapping[str, Any], ...]


def counted(finding: Mapping[str, Any]) -> bool:
    """Whether the finding's net savings are part of the total."""
    return finding["status"] in OPEN and finding["confidence"] in ("high", "medium")


def by_worth(findings: Iterable[Mapping[str, Any]], currency: str | None) -> list[Mapping[str, Any]]:
    """Dearest first: counted before uncounted, the report's currency before others, which no rate makes comparable."""
    return sorted(
        findings,
        key=lambda f: (
            not counted(f),
            f["currency"] != currency,
            -figures.amount(f["monthly_savings_net"]),
            -figures.amount(f["monthly_cost"]),
            str(f["id"]),
        ),
    )


def sources(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sources as a reader wants them: what failed first, and those alike in all but their files as one line."""
    grouped: dict[tuple[Any, ...], dict[str, Any]] = {}
    for source in document["sources"]:
        key = (source["provider"], source["kind"], source["format"], source["status"], source["message"])
        line = grouped.get(key)
        if line is None:
            grouped[key] = {
                **source,
                "paths": list(source["paths"]),
                "billing_periods": source["billing_periods"] or [],
            }
            continue
        line["files"] = (line["files"] or 0) + (source["files"] or 0)
        line["rows"] = (line["rows"] or 0) + (source["rows"] or 0)
        line["paths"] += source["paths"]
        line["billing_periods"] = sorted({*line["billing_periods"], *(source["billing_periods"] or [])})
    order = {"failed": 0, "skipped": 1}
    return sorted(grouped.values(), key=lambda line: order.get(line["status"], 2))


def savings(document: Mapping[str, Any]) -> dict[str, Decimal]:
    """Net monthly savings of open findings in the report's currency, by confidence."""
    currency = document["totals"]["currency"]
    return {
        confidence: figures.total(
            f["monthly_savings_net"]
            for f in document["findings"]
            if f["confidence"] == confidence and f["status"] in OPEN and f["currency"] == currency
        )
        for confidence in CONFIDENCES
    }


def savings_disagree(document: Mapping[str, Any]) -> bool:
    """Whether the findings listed do not add up to the totals, a cent a finding being left to rounding."""
    split = savings(document)
    difference = split["high"] + split["medium"] - figures.amount(document["totals"]["monthly_savings_net"])
    return abs(difference) > Decimal("0.01") * max(1, len(document["findings"]))


def share_of_spend(document: Mapping[str, Any]) -> str | None:
    """Net savings as a share of a month's cost; null unless all windows are equally long."""
    lengths = {figures.hours(window) for window in document["run"]["windows"].values()}
    cost = figures.amount(document["totals"]["effective_cost"])
    if len(lengths) != 1 or not (length := lengths.pop()) or cost <= 0:
        return None
    return figures.percent(figures.amount(document["totals"]["monthly_savings_net"]) * length, cost * 730)


def windows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(providers, period): one line where all providers share a window."""
    periods: dict[str, list[str]] = defaultdict(list)
    for provider, window in document["run"]["windows"].items():
        periods[figures.period(window)].append(provider)
    return [(provider_names(providers), period) for period, providers in periods.items()]


def provider_name(provider: str | None) -> str:
    """How people write the provider."""
    return {"aws": "AWS", "gcp": "Google Cloud", "azure": "Azure", None: figures.ABSENT}.get(provider, provider or "")


def provider_names(providers: Iterable[str]) -> str:
    return ", ".join(provider_name(provider) for provider in providers)


def spend(extras: Extras, currency: str) -> list[Spend]:
    """Cost over the days, one part a currency, the report's first."""
    by_currency: dict[str, list[DailyCost]] = defaultdict(list)
    for row in extras.daily_costs or ():
        by_currency[row.currency].append(row)
    return [_spend(by_currency[c], c, extras) for c in sorted(by_currency, key=lambda c: (c != currency, c))]


def _spend(rows: Sequence[DailyCost], currency: str, extras: Extras) -> Spend:
    cuts: list[dict[tuple[str, str], dict[date, Decimal]]] = [
        defaultdict(lambda: defaultdict(Decimal)) for _ in range(4)
    ]
    for row in rows:
        provider = provider_name(row.provider)
        keys = (
            (provider, ""),
            (row.service or "No service", provider),
            _account(row.account_id, provider, extras.account_names),
            (row.owner or NO_OWNER, ""),
        )
        for cut, key in zip(cuts, keys, strict=True):
            cut[key][row.day] += row.effective_cost
    cost = figures.total(row.effective_cost for row in rows)
    days = sorted({row.day for row in rows})
    titles = ("Provider", "Service", "Account", "Owner")
    rankings = tuple(_ranking(title, cut, days, cost) for title, cut in zip(titles, cuts, strict=True))
    names = [row.name for row in rankings[0].rows]
    series = [(f"s{i + 1}" if i < SERIES - 1 else "s6", name) for i, name in enumerate(names)]
    values = {(day, key[0]): value for key, by_day in cuts[0].items() for day, value in by_day.items()}
    ahead = forecast(extras.history or (), currency)
    expected = {}
    if isinstance(ahead, Forecast):
        expected = {(day, provider_name(name)): value for (day, name), value in ahead.by_day.items()}
    columns = charts.columns(values, series, currency, expected)
    return Spend(currency, cost, tuple(series), columns, rankings, ahead)


def _account(account_id: str | None, provider: str, names: Mapping[str, str]) -> tuple[str, str]:
    """(name, where it is): by the bill's name for it where there is one, the id beside it."""
    if account_id is None:
        return "No account", provider
    name = names.get(account_id)
    return (name, f"{provider} {account_id}") if name else (account_id, provider)


def _ranking(
    title: str, cut: Mapping[tuple[str, str], Mapping[date, Decimal]], days: Sequence[date], cost: Decimal
) -> Ranking:
    sums = sorted(((figures.total(by_day.values()), key) for key, by_day in cut.items()), key=lambda s: (-s[0], s[1]))
    rows = tuple(
        Ranked(
            name,
            within,
            value,
            figures.percent(value, cost),
            charts.spark(values),
            len(values),
        )
        for value, (name, within) in sums[:ROWS]
        for values in [charts.folded([cut[name, within].get(day, Decimal(0)) for day in days])]
    )
    rest = sums[ROWS:]
    return Ranking(title, rows, figures.total(value for value, _ in rest), len(rest))


def ledgers(document: Mapping[str, Any], extras: Extras) -> list[Ledger]:
    """The GPU ledger, one a currency, the report's first."""
    rows = [
        GpuSlice(
            r["provider"],
            r["class"],
            figures.amount(r["accelerator_hours"]),
            figures.amount(r["effective_cost"]),
            r["currency"],
        )
        for r in document["gpu_ledger"]
    ]
    first = document["totals"]["currency"]
    return [_ledger(rows, extras, c) for c in sorted({r.currency for r in rows}, key=lambda c: (c != first, c))]


def _ledger(every: Sequence[GpuSlice], extras: Extras, currency: str) -> Ledger:
    rows = [r for r in every if r.currency == currency]
    cost = figures.total(r.effective_cost for r in rows)
    hours = figures.total(r.accelerator_hours for r in rows)
    classes = []
    for name in _class_order(rows):
        of_class = [r for r in rows if r.accelerator_class == name]
        value = figures.total(r.effective_cost for r in of_class)
        spent = figures.total(r.accelerator_hours for r in of_class)
        classes.append(
            (
                class_style(name),
                CLASSES.get(name, name),
                CLASS_MEANINGS.get(name, ""),
                spent,
                value,
                figures.percent(value, cost),
            )
        )
    days = {
        (_as_date(r.key), r.accelerator_class): r.effective_cost
        for r in extras.gpu_by_day or ()
        if r.currency == currency
    }
    order = [(class_style(name), CLASSES.get(name, name)) for name in _class_order(rows)]
    named = {(day, CLASSES.get(name, name)): value for (day, name), value in days.items()}
    return Ledger(
        currency,
        cost,
        hours,
        _at_work(rows),
        _per_hour(rows),
        charts.bar([(style, label, value) for style, label, _, _, value, _ in classes], cost),
        tuple(classes),
        _lines([r._replace(key=provider_name(str(r.key))) for r in rows], figures.ABSENT),
        None if extras.gpu_by_owner is None else _lines(_of(extras.gpu_by_owner, currency), NO_OWNER),
        None if extras.gpu_by_model is None else _lines(_of(extras.gpu_by_model, currency), "Unknown model"),
        charts.columns(named, order, currency),
    )


def _of(rows: Iterable[GpuSlice], currency: str) -> list[GpuSlice]:
    return [r for r in rows if r.currency == currency]


def _as_date(key: str | date | None) -> date:
    return key if isinstance(key, date) else date.fromisoformat(str(key)[:10])


def class_style(name: str) -> str:
    """Style name of a class of the ledger, also of one that this version does not know."""
    return f"c-{name}" if name in CLASSES else "c-other"


def _class_order(rows: Iterable[GpuSlice]) -> list[str]:
    seen = {r.accelerator_class for r in rows}
    return [*(name for name in CLASSES if name in seen), *sorted(seen - set(CLASSES))]


def _at_work(rows: Sequence[GpuSlice]) -> str:
    """Productive share of the cost that could be judged: silence is not counted either way."""
    judged = [r for r in rows if r.accelerator_class != "no_telemetry"]
    productive = figures.total(r.effective_cost for r in judged if r.accelerator_class == "productive")
    return figures.percent(productive, figures.total(r.effective_cost for r in judged))


def _per_hour(rows: Sequence[GpuSlice]) -> Decimal | None:
    """What a productive device hour really costs: all that could be judged, over the hours at work."""
    hours = figures.total(r.accelerator_hours for r in rows if r.accelerator_class == "productive")
    judged = figures.total(r.effective_cost for r in rows if r.accelerator_class != "no_telemetry")
    return judged / hours if hours > 0 else None


def _lines(rows: Sequence[GpuSlice], unnamed: str) -> tuple[Line, ...]:
    groups: dict[str, list[GpuSlice]] = defaultdict(list)
    for row in rows:
        groups[str(row.key) if row.key else unnamed].append(row)
    order = sorted(groups, key=lambda name: (-figures.total(r.effective_cost for r in groups[name]), name))
    if len(order) > ROWS:
        rest = f"{len(order) - ROWS} others"
        groups[rest] = [row for name in order[ROWS:] for row in groups[name]]
        order = [*order[:ROWS], rest]
    scale = max((figures.total(r.effective_cost for r in groups[name]) for name in order), default=Decimal(0))
    return tuple(_line(name, groups[name], scale) for name in order)


def _line(name: str, rows: Sequence[GpuSlice], scale: Decimal) -> Line:
    cost = figures.total(r.effective_cost for r in rows)
    parts = [
        (class_style(c), CLASSES.get(c, c), figures.total(r.effective_cost for r in rows if r.accelerator_class == c))
        for c in _class_order(rows)
    ]
    hours = figures.total(r.accelerator_hours for r in rows)
    return Line(name, charts.bar(parts, cost, scale), hours, cost, _at_work(rows), _per_hour(rows))


def owners(document: Mapping[str, Any]) -> list[Owner]:
    """Open findings by owner, the one with most to save first; findings beyond the page's limit are left out."""
    currency = document["totals"]["currency"]
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for finding in shown(document):
        groups[finding["owner"] or NO_OWNER].append(finding)
    made = []
    for name, findings in groups.items():
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for finding in findings:
            if counted(finding):
                sums[finding["currency"]] += figures.amount(finding["monthly_savings_net"])
        ordered = tuple(sorted(sums.items(), key=lambda s: (s[0] != currency, s[0])))
        made.append((name, ordered, tuple(findings)))
    made.sort(key=lambda m: (-dict(m[1]).get(currency, Decimal(0)), m[0]))
    return [Owner(name, f"owner-{n}", sums, findings) for n, (name, sums, findings) in enumerate(made, 1)]


def shown(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Open findings that the page names, dearest first."""
    return opened(document)[:LISTED]


def opened(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Open findings, dearest first."""
    found = [f for f in document["findings"] if f["status"] in OPEN]
    return by_worth(found, document["totals"]["currency"])


def rivals(document: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Open findings by the resource whose money they compete for."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for finding in opened(document):
        if finding["resource_id"]:
            groups[finding["provider"], finding["resource_id"]].append(finding)
    return groups


def closed(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Muted and resolved findings, dearest first."""
    found = [f for f in document["findings"] if f["status"] not in OPEN]
    return by_worth(found, document["totals"]["currency"])


def where(finding: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """The place of a finding in a few words: provider, account (by name where known), zone or region."""
    account = (names or {}).get(finding["account_id"], finding["account_id"])
    # a zone that is only a number, as Azure's, says nothing without its region
    place = finding["zone"] if not str(finding["zone"] or "1").isdecimal() else finding["region"]
    parts = (provider_name(finding["provider"]), account, place or finding["zone"])
    return " · ".join(str(part) for part in parts if part)


def subject(finding: Mapping[str, Any]) -> str:
    """What the finding is about: the resource's name, else the last part of its id, else the scope."""
    return str(
        short_name(finding["resource_name"], finding["resource_id"])
        or finding["service"]
        or finding["account_id"]
        or provider_name(finding["provider"])
    )


def plural(count: int, noun: str) -> str:
    """`1 bill`, `2 bills`."""
    return f"{figures.number(count)} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Moved:
    """Findings that came, came back or went since the run before."""

    title: str
    findings: tuple[Mapping[str, Any], ...]
    savings: Decimal


def moved(document: Mapping[str, Any], extras: Extras) -> list[Moved]:
    """New, reopened and resolved findings, dearest first; empty without a run before."""
    if extras.previous is None:
        return []
    currency = document["totals"]["currency"]
    found = []
    for status, title in (("new", "New"), ("reopened", "Back again"), ("resolved", "Resolved")):
        mine = by_worth((f for f in document["findings"] if f["status"] == status), currency)
        worth = figures.total(
            f["monthly_savings_net"] for f in mine if f["currency"] == currency and f["confidence"] != "low"
        )
        found.append(Moved(title, tuple(mine), worth))
    return found


def changes(document: Mapping[str, Any], extras: Extras) -> list[tuple[str, str, str, str]]:
    """(figure, before, now, step) against the run before; empty without one or where the currency changed."""
    before = extras.previous
    totals = document["totals"]
    if before is None or before.currency != totals["currency"]:
        return []
    pairs = (
        ("Effective cost in the window", before.effective_cost, figures.amount(totals["effective_cost"])),
        ("Avoidable a month, net", before.monthly_savings_net, figures.amount(totals["monthly_savings_net"])),
    )
    return [
        (
            name,
            figures.money(old, before.currency),
            figures.money(new, before.currency),
            ("+" if new > old else "") + figures.number(new - old, 2),
        )
        for name, old, new in pairs
    ]
