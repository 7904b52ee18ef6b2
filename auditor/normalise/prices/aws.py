"""AWS price lists: offer files, `aws pricing get-products`, and the spot price history."""

import csv
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from auditor.assets import room
from auditor.landing import Recognised
from auditor.normalise.prices.quotes import HOURS_A_YEAR, Quote, Reading, amount, each, in_step, parsed

OFFERS = ("AmazonEC2", "AmazonSageMaker")

_HOURS = ("hrs", "hours", "hour")
_TERMS = {"1yr": (1, "commit_1y"), "3yr": (3, "commit_3y")}
_ML_TYPE = re.compile(r"^(ml\.[a-z][a-z0-9-]*\.[a-z0-9]+)")
_REGION = re.compile(r"^([a-z]+(?:-[a-z]+)+-\d+)")


def read_offer(one: Recognised) -> Reading:
    """An offer file, of which products come before terms."""
    reading = Reading()
    if one.details["offer"] not in OFFERS:
        reading.notes.append(
            f"the offer {one.details['offer']} prices no accelerator machines; {' and '.join(OFFERS)} are read"
        )
        return reading
    as_of = _date(one.details.get("date"))
    machines: dict[str, Mapping[str, Any]] = {}
    for prefix, sku, value in in_step(one, ("products", "terms.OnDemand", "terms.Reserved"), reading):
        if prefix == "products":
            machine = _machine(value)
            if machine is not None:
                machines[sku] = machine
        elif sku in machines:
            reading.quotes.extend(_quotes(machines[sku], prefix.rpartition(".")[2], value, as_of))
    if not machines and reading.damage is None:
        reading.notes.append("no product of this offer is a Linux machine with accelerators")
    return reading


def read_products(one: Recognised) -> Reading:
    """Answers of `aws pricing get-products`, whose list holds JSON documents as texts."""
    reading = Reading()
    for item in each(one, "PriceList", reading):
        document = parsed(item) if isinstance(item, str) else item
        machine = _machine(document["product"]) if isinstance(document.get("product"), dict) else None
        if machine is None:
            continue
        for kind, terms in (document.get("terms") or {}).items():
            reading.quotes.extend(_quotes(machine, kind, terms, _date(document.get("publicationDate"))))
    if re.search(r'"NextToken"\s*:\s*"', one.shape.head):
        reading.notes.append("the answer says that further pages follow")
    return reading


def read_spot_history(one: Recognised) -> Reading:
    """The newest price of each machine type and zone: the history lists changes, so it is the one in force."""
    reading = Reading()
    newest: dict[tuple[str, str], tuple[str, Decimal | None]] = {}
    for item in each(one, "SpotPriceHistory", reading):
        if not str(item.get("ProductDescription", "")).startswith("Linux/UNIX"):
            reading.passed_over["are of another system than Linux"] += 1
            continue
        key = (str(item.get("AvailabilityZone") or ""), str(item.get("InstanceType") or ""))
        at = _time(item.get("Timestamp"))
        if key not in newest or at > newest[key][0]:
            newest[key] = (at, amount(item.get("SpotPrice")))
    for (zone, machine_type), (at, price) in newest.items():
        region = _REGION.match(zone)
        reading.quotes.append(
            Quote(
                "aws", region.group(1) if region else None, zone, machine_type, "spot", price, price, "USD", at or None
            )
        )
    return reading


def _machine(product: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the price of a product is about, None for what is not a plain Linux machine with accelerators in a Region."""
    attributes = product.get("attributes") or {}
    if not _has_accelerators(attributes.get("instanceName") or attributes.get("instanceType") or ""):
        return None
    if attributes.get("locationType", "AWS Region") != "AWS Region":
        return None
    if attributes.get("servicecode") == "AmazonSageMaker" or "instanceName" in attributes:
        found = _ML_TYPE.match(attributes.get("instanceName") or attributes.get("instanceType") or "")
        component = attributes.get("component") or attributes.get("operation") or ""
        return {**attributes, "type": found.group(1), "variant": component} if found else None
    plain = (
        str(product.get("productFamily", "")).startswith("Compute Instance")
        and attributes.get("operatingSystem") == "Linux"
        and attributes.get("tenancy") == "Shared"
        and attributes.get("preInstalledSw", "NA") == "NA"
        and attributes.get("capacitystatus", "Used") == "Used"
        and attributes.get("marketoption", "OnDemand") == "OnDemand"
    )
    return {**attributes, "type": attributes.get("instanceType"), "variant": ""} if plain else None


def _quotes(machine: Mapping[str, Any], kind: str, terms: Mapping[str, Any], as_of: str | None) -> Iterator[Quote]:
    prices: dict[tuple[str, str], list[Decimal | None]] = {}
    for term in terms.values():
        years, price_kind = _TERMS.get((term.get("termAttributes") or {}).get("LeaseContractLength", ""), (0, ""))
        if kind == "OnDemand":
            years, price_kind = 0, "on_demand"
        elif not price_kind:
            continue
        for currency, price in _hourly(term, years).items():
            prices.setdefault((price_kind, currency), []).append(price)
    for (price_kind, currency), found in prices.items():
        known = [price for price in found if price is not None]
        low, high = (min(known), max(known)) if known else (None, None)
        yield Quote(
            "aws",
            machine.get("regionCode"),
            None,
            machine["type"],
            price_kind,
            low,
            high,
            currency,
            as_of,
            variant=machine["variant"],
        )


def _hourly(term: Mapping[str, Any], years: int) -> dict[str, Decimal]:
    """The price of an hour by currency: the hourly rate, and of an upfront fee the hour's part."""
    hourly: dict[str, Decimal] = {}
    for dimension in (term.get("priceDimensions") or {}).values():
        unit = str(dimension.get("unit", "")).lower()
        for currency, text in (dimension.get("pricePerUnit") or {}).items():
            price = amount(text)
            if price is None:
                continue
            if unit in _HOURS:
                hourly[currency] = hourly.get(currency, Decimal(0)) + price
            elif unit == "quantity" and years:
                hourly[currency] = hourly.get(currency, Decimal(0)) + price / (years * HOURS_A_YEAR)
    return hourly


@lru_cache(maxsize=4096)
def _has_accelerators(machine_type: str) -> bool:
    """Whether a type is of a family with accelerators: a list has a thousand times as many others."""
    key = machine_type.removeprefix("ml.")
    return any(pattern.search(key) for pattern in _families()) or key.partition(".")[0] in _known_families()


@lru_cache(maxsize=1)
def _families() -> tuple[re.Pattern[str], ...]:
    with (room("config") / "classification" / "accelerator_families.csv").open(encoding="utf-8", newline="") as file:
        return tuple(re.compile(row["pattern"]) for row in csv.DictReader(file) if row["provider"] == "aws")


@lru_cache(maxsize=1)
def _known_families() -> frozenset[str]:
    with (room("config") / "accelerators.csv").open(encoding="utf-8", newline="") as file:
        return frozenset(
            row["instance_type"].partition(".")[0] for row in csv.DictReader(file) if row["provider"] == "aws"
        )


def _date(text: object) -> str | None:
    return str(text)[:10] if text else None


def _time(text: object) -> str:
    """A time that sorts as text; tools write fractions and offsets of UTC in several ways."""
    return re.sub(r"(\.\d+)?(Z|\+00:?00)?$", "Z", str(text), count=1) if text else ""
