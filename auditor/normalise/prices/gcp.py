"""Google Cloud Billing Catalog: devices, cores and memory have prices of their own; a machine's is put together here."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from auditor.assets import room
from auditor.landing import Recognised
from auditor.normalise.prices.quotes import Quote, Reading, amount, each

_KINDS = {"OnDemand": "on_demand", "Preemptible": "spot", "Commit1Yr": "commit_1y", "Commit3Yr": "commit_3y"}
# Not plain on-demand, though the usage type says so: a calendar or flex SKU taken for it would make spot look dear.
_SPECIAL = re.compile(
    r"\bDWS\b|Calendar|Defined Duration|Flex[ -]?Start|^Reserved |Sole Tenancy|Custom|Windows|Licens", re.I
)
_SPOT = re.compile(r"\b(Spot|Preemptible)\b", re.I)
_HOST = re.compile(r"\b(A2|A3 ?Plus|A3 ?Ultra|A3|G2|G4)\b(?: Instance)? (Core|Cpu|Ram)\b", re.I)
_SLICE = re.compile(r"\b(B200|B300|GB200|GB300)\b.*\((\d+) gpu slice\)", re.I)
_DEVICES = (
    (re.compile(r"\bH100\b.*\b(Plus|Mega)\b", re.I), "H100 Plus"),
    (re.compile(r"\bH100\b.*\bGPU", re.I), "H100"),
    (re.compile(r"\bH200\b.*\bGPU", re.I), "H200"),
    (re.compile(r"\bA100 80 ?GB\b.*\bGPU", re.I), "A100 80GB"),
    (re.compile(r"\bA100\b.*\bGPU", re.I), "A100 40GB"),
    (re.compile(r"\bL4\b.*\bGPU", re.I), "L4"),
    (re.compile(r"\bRTX (?:PRO )?6000\b", re.I), "RTX PRO 6000"),
)
_CHIPS = (
    (re.compile(r"TPU[ -]?(v7|7x)|Ironwood", re.I), "TPU v7"),
    (re.compile(r"TPU[ -]?v6e?|Trillium", re.I), "TPU v6e"),
    (re.compile(r"TPU[ -]?v5[ -]?p", re.I), "TPU v5p"),
    (re.compile(r"TPU[ -]?v5[ -]?(e|lite)", re.I), "TPU v5e"),
)
# machine family: the label of its cores and memory, and its device
_FAMILIES = {
    "a2-highgpu": ("A2", "A100 40GB"),
    "a2-megagpu": ("A2", "A100 40GB"),
    "a2-ultragpu": ("A2", "A100 80GB"),
    "a3-highgpu": ("A3", "H100"),
    "a3-edgegpu": ("A3", "H100"),
    "a3-megagpu": ("A3PLUS", "H100 Plus"),
    "a3-ultragpu": ("A3ULTRA", "H200"),
    "g2-standard": ("G2", "L4"),
    "g4-standard": ("G4", "RTX PRO 6000"),
}
# machine family whose slices are priced with their host
_SLICED = {"a4-highgpu": "B200"}


class _Shape(NamedTuple):
    machine_type: str
    family: str
    devices: Decimal
    cores: Decimal | None
    memory_gib: Decimal | None


@dataclass
class Catalogue:
    """Parts of machines, gathered over all pages: what a price is of is known only when all of them are read."""

    parts: dict[tuple[str, str, str], dict[str, tuple[Decimal, str | None, int]]] = field(default_factory=dict)

    def read(self, one: Recognised, at: int) -> Reading:
        """Takes the SKUs of one file; `at` is its place among the files."""
        reading = Reading()
        for sku in each(one, "skus", reading):
            reading.quotes.extend(self._take(sku, at, reading))
        if re.search(r'"nextPageToken"\s*:\s*"[^"]', one.shape.head):
            reading.notes.append("the page says that another follows; machines whose parts stand there have no price")
        return reading

    def machines(self) -> Iterator[tuple[int, Quote]]:
        """Whole machines, each with the place of the file that has its devices. Local SSD is not in them."""
        for (region, kind, currency), parts in self.parts.items():
            for shape in _shapes():
                price = _assembled(shape, parts)
                if price is not None:
                    total, as_of, at = price
                    yield at, Quote("gcp", region, None, shape.machine_type, kind, total, total, currency, as_of)

    def _take(self, sku: Mapping[str, Any], at: int, reading: Reading) -> Iterator[Quote]:
        description = str(sku.get("description", ""))
        part = _part(description)
        if part is None:
            return
        if _SPECIAL.search(description):
            reading.passed_over["are calendar, flex, reserved or custom"] += 1
            return
        usage = str((sku.get("category") or {}).get("usageType"))
        kind = _KINDS.get(usage)
        if kind == "on_demand" and _SPOT.search(description):
            kind = "spot"
        price = _newest_price(sku)
        if kind is None or price is None:
            reading.passed_over["have no price by the hour"] += 1
            return
        figure, currency, as_of = price
        if figure <= 0:
            reading.passed_over["are 0, which is not free"] += 1
            return
        for region in sku.get("serviceRegions") or ():
            if part.startswith("TPU"):
                yield Quote(
                    "gcp",
                    region,
                    None,
                    f"{part} chip",
                    kind,
                    figure,
                    figure,
                    currency,
                    as_of,
                    scope="per_chip",
                    accelerator_model=part,
                    accelerator_count=Decimal(1),
                )
                continue
            found = self.parts.setdefault((region, kind, currency), {})
            known = found.get(part)
            if known is not None and known[0] != figure:
                reading.passed_over["differ from another price of the same part"] += 1
                continue
            found[part] = (figure, as_of, at)


def _part(description: str) -> str | None:
    """Which part of a machine a SKU prices: `A3 core`, `A3 ram`, a device, a slice with its host, or a TPU chip."""
    host = _HOST.search(description)
    if host:
        kind = "ram" if host.group(2).lower() == "ram" else "core"
        return f"{host.group(1).upper().replace(' ', '')} {kind}"
    sliced = _SLICE.search(description)
    if sliced:
        return f"slice {sliced.group(1).upper()}" if sliced.group(2) == "1" else None
    for patterns in (_DEVICES, _CHIPS):
        for pattern, name in patterns:
            if pattern.search(description):
                return name
    return None


def _newest_price(sku: Mapping[str, Any]) -> tuple[Decimal, str, str | None] | None:
    """(price of an hour, currency, date) of the newest pricing; of tiers the first that costs something."""
    infos = [info for info in sku.get("pricingInfo") or () if isinstance(info, dict)]
    if not infos:
        return None
    info = max(infos, key=lambda each_: str(each_.get("effectiveTime", "")))
    expression = info.get("pricingExpression") or {}
    if expression.get("usageUnit") not in ("h", "GiBy.h"):
        return None
    figures = []
    currency = None
    for tier in sorted(expression.get("tieredRates") or (), key=lambda t: amount(t.get("startUsageAmount")) or 0):
        unit_price = tier.get("unitPrice") or {}
        currency = currency or unit_price.get("currencyCode")
        units, nanos = amount(unit_price.get("units") or 0), amount(unit_price.get("nanos") or 0)
        if units is not None and nanos is not None:
            figures.append(units + nanos / 10**9)
    if not figures or not currency:
        return None
    since = info.get("effectiveTime")
    return next((figure for figure in figures if figure > 0), figures[0]), currency, str(since)[:10] if since else None


def _assembled(
    shape: _Shape, parts: Mapping[str, tuple[Decimal, str | None, int]]
) -> tuple[Decimal, str | None, int] | None:
    """The price of a whole machine, None where one of its parts has none: a part that is missing is not free."""
    if shape.family in _SLICED:
        found = parts.get(f"slice {_SLICED[shape.family]}")
        return (found[0] * shape.devices, found[1], found[2]) if found else None
    label, device = _FAMILIES[shape.family]
    if shape.cores is None or shape.memory_gib is None:
        return None
    needed = ((device, shape.devices), (f"{label} core", shape.cores), (f"{label} ram", shape.memory_gib))
    if any(name not in parts for name, _ in needed):
        return None
    total = sum((parts[name][0] * quantity for name, quantity in needed), Decimal(0))
    dates = [parts[name][1] for name, _ in needed]
    # the machine's price is as old as its oldest part
    as_of = min(str(date) for date in dates) if all(dates) else None
    return total, as_of, parts[device][2]


@lru_cache(maxsize=1)
def _shapes() -> tuple[_Shape, ...]:
    with (room("config") / "accelerators.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["provider"] == "gcp"]
    shapes = []
    for row in rows:
        family = "-".join(row["instance_type"].split("-")[:2])
        devices = amount(row["accelerator_count"])
        if devices is not None and (family in _FAMILIES or family in _SLICED):
            shapes.append(
                _Shape(
                    row["instance_type"], family, devices, amount(row["vcpu"] or None), amount(row["ram_gib"] or None)
                )
            )
    return tuple(shapes)
