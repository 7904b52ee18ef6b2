"""The map of transfer charges: ribbons from places to where their bytes go, and who pays for what."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from auditor.render import charts, figures, view
from auditor.render.extras import TransferEdge, TransferPayer

KINDS = {
    "transfer.inter_zone": "between zones",
    "transfer.inter_region": "between regions",
    "transfer.internet": "to the internet",
    "transfer.internet_in": "from the internet",
    "transfer.public_ip_same_region": "within a region over public addresses",
    "transfer.peering": "over peering",
    "transfer.direct_connect": "over a dedicated line",
    "transfer.transit_gateway": "through a transit gateway",
    "transfer.vpn": "over VPN",
    "transfer.cdn": "from the CDN",
    "transfer.other": "other transfer",
    "nat.bytes": "processed by NAT",
    "nat.hours": "NAT gateway hours",
}
_TARGETS = {
    "transfer.inter_zone": "other zones",
    "transfer.inter_region": "other regions",
    "transfer.internet": "the internet",
    "transfer.public_ip_same_region": "public addresses",
    "nat.bytes": "NAT, by the byte",
    "nat.hours": "NAT, by the hour",
}
PLACES = 8  # of each side; the others are one
SLOT = 38  # pixels that a place's two lines of text need
RIBBONS = 240  # pixels that all the money takes, if it were one ribbon


@dataclass(frozen=True)
class Place:
    """One end: name, cost, and where its bar and text stand."""

    name: str
    cost: Decimal
    y: float
    height: float
    middle: float


@dataclass(frozen=True)
class Ribbon:
    """The money between two places."""

    style: str
    path: str
    about: str


@dataclass(frozen=True)
class Map:
    """Places left and right and the ribbons between, in one currency."""

    currency: str
    height: int
    sources: tuple[Place, ...]
    targets: tuple[Place, ...]
    ribbons: tuple[Ribbon, ...]


@dataclass(frozen=True)
class Payers:
    """Who pays: a line an owner, a column a kind; and the resources that pay most."""

    currency: str
    kinds: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Decimal | None, ...], Decimal], ...]
    sums: tuple[Decimal, ...]
    cost: Decimal
    resources: tuple[TransferPayer, ...]


def target(edge: TransferEdge) -> str:
    """Where the bytes go, or what carries them, where the bill names no other place."""
    if edge.target in (None, "internet", edge.source):
        return _TARGETS.get(edge.kind, KINDS.get(edge.kind, edge.kind))
    return str(edge.target)


def maps(edges: Iterable[TransferEdge], first: str) -> list[Map]:
    """A map for each currency, the report's first."""
    by_currency: dict[str, list[TransferEdge]] = defaultdict(list)
    for edge in edges:
        if edge.effective_cost > 0:
            by_currency[edge.currency].append(edge)
    return [_map(by_currency[c], c) for c in sorted(by_currency, key=lambda c: (c != first, c))]


def _map(edges: Sequence[TransferEdge], currency: str) -> Map:
    flows: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for edge in edges:
        flows[edge.source or "place unknown", target(edge)] += edge.effective_cost
    left = _ranked([(a, cost) for (a, _), cost in flows.items()], "other places")
    right = _ranked([(b, cost) for (_, b), cost in flows.items()], "other ends")
    merged: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for (a, b), cost in flows.items():
        merged[a if a in left else "other places", b if b in right else "other ends"] += cost
    whole = sum(merged.values(), Decimal(0))
    sources, targets = _places(left, whole), _places(right, whole)
    height = max(_bottom(places) for places in (sources, targets))
    return Map(currency, height, sources, targets, tuple(_ribbons(merged, sources, targets, whole, currency)))


def _ranked(costs: Iterable[tuple[str, Decimal]], rest: str) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for name, cost in costs:
        sums[name] += cost
    order = sorted(sums, key=lambda name: (-sums[name], name))
    kept = {name: sums[name] for name in order[:PLACES]}
    if order[PLACES:]:
        kept[rest] = sum((sums[name] for name in order[PLACES:]), Decimal(0))
    return kept


def _places(costs: dict[str, Decimal], whole: Decimal) -> tuple[Place, ...]:
    made, y = [], Decimal(0)
    for name, cost in costs.items():
        height = max(RIBBONS * cost / whole, Decimal(1))
        slot = max(height, Decimal(SLOT))
        top = y + (slot - height) / 2
        made.append(Place(name, cost, charts.rounded(top), charts.rounded(height), charts.rounded(y + slot / 2)))
        y += slot + 6
    return tuple(made)


def _bottom(places: Sequence[Place]) -> int:
    last = places[-1]
    return int(last.middle + max(last.height, SLOT) / 2) + 1


def _ribbons(
    flows: dict[tuple[str, str], Decimal],
    sources: Sequence[Place],
    targets: Sequence[Place],
    whole: Decimal,
    currency: str,
) -> Iterable[Ribbon]:
    used_left: dict[str, float] = defaultdict(float)
    used_right: dict[str, float] = defaultdict(float)
    right = {place.name: place for place in targets}
    for i, source in enumerate(sources):
        for name, end in right.items():
            cost = flows.get((source.name, name))
            if not cost:
                continue
            thick = max(float(RIBBONS * cost / whole), 1.0)
            a = source.y + used_left[source.name]
            b = end.y + used_right[name]
            used_left[source.name] += thick
            used_right[name] += thick
            c, d = a + thick, b + thick
            path = f"M0 {a:.1f}C50 {a:.1f} 50 {b:.1f} 100 {b:.1f}V{d:.1f}C50 {d:.1f} 50 {c:.1f} 0 {c:.1f}z"
            style = f"s{min(i + 1, view.SERIES)}"
            yield Ribbon(style, path, f"{source.name} to {name}: {figures.money(cost, currency)}")


def payers(rows: Iterable[TransferPayer], first: str) -> list[Payers]:
    """Owners by kind of transfer, one table a currency."""
    by_currency: dict[str, list[TransferPayer]] = defaultdict(list)
    for row in rows:
        by_currency[row.currency].append(row)
    return [_payers(by_currency[c], c) for c in sorted(by_currency, key=lambda c: (c != first, c))]


def _payers(rows: Sequence[TransferPayer], currency: str) -> Payers:
    kinds: dict[str, Decimal] = defaultdict(Decimal)
    owners: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in rows:
        kinds[row.kind] += row.effective_cost
        owners[row.owner or view.NO_OWNER][row.kind] += row.effective_cost
    order = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    if len(order) > 5:  # columns that an A4 page holds
        rest = set(order[4:])
        order = [*order[:4], "all other kinds"]
        kinds["all other kinds"] = sum((kinds[kind] for kind in rest), Decimal(0))
        for costs in owners.values():
            costs["all other kinds"] = sum((costs[kind] for kind in rest if kind in costs), Decimal(0))
    ranked = sorted(owners, key=lambda name: (-sum((owners[name].get(k, Decimal(0)) for k in order), Decimal(0)), name))
    shown = ranked[: view.ROWS]
    if ranked[view.ROWS :]:
        rest_name = f"{len(ranked) - view.ROWS} others"
        for name in ranked[view.ROWS :]:
            for kind in order:
                owners[rest_name][kind] += owners[name].get(kind, Decimal(0))
        shown = [*shown, rest_name]
    lines = tuple(
        (
            name,
            tuple(owners[name].get(kind) or None for kind in order),
            sum((owners[name].get(kind, Decimal(0)) for kind in order), Decimal(0)),
        )
        for name in shown
    )
    named = [row for row in rows if row.resource_id]
    resources = tuple(sorted(named, key=lambda row: (-row.effective_cost, str(row.resource_id), row.kind))[:20])
    return Payers(
        currency,
        tuple(KINDS.get(kind, kind) for kind in order),
        lines,
        tuple(kinds[kind] for kind in order),
        sum((kinds[kind] for kind in order), Decimal(0)),
        resources,
    )
