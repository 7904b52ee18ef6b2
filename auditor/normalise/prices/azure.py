"""Azure Retail Prices: virtual machines, on demand, spot, reserved and under a savings plan."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from auditor.landing import Recognised
from auditor.normalise.prices.quotes import HOURS_A_YEAR, Quote, Reading, amount, each

_TERMS = {"1 Year": (1, "commit_1y"), "3 Years": (3, "commit_3y")}
_UNIT = re.compile(r"^(\d+) Hours?$", re.IGNORECASE)


def read_items(one: Recognised) -> Reading:
    """Pages of the API or their items. Windows, spelt only in the product's name, and old variants are passed over."""
    reading = Reading()
    for item in each(one, "Items", reading):
        why = _passed_over(item)
        if why is not None:
            reading.passed_over[why] += 1
            continue
        reading.quotes.extend(_quotes(item))
    if re.search(r'"NextPageLink"\s*:\s*"', one.shape.head):
        reading.notes.append("the answer says that further pages follow")
    return reading


def _passed_over(item: Mapping[str, Any]) -> str | None:
    product, sku = str(item.get("productName", "")), str(item.get("skuName", ""))
    reasons = {
        "are no virtual machines": item.get("serviceName", "Virtual Machines") != "Virtual Machines"
        or not item.get("armSkuName"),
        "are of Windows machines": "Windows" in product,
        "are low priority, cloud services or dedicated hosts": "Low Priority" in sku
        or "Cloud Services" in product
        or "Dedicated Host" in product,
        "are for development and test subscriptions": item.get("type") == "DevTestConsumption",
        "are of a higher tier": amount(item.get("tierMinimumUnits") or 0) != 0,
        "repeat the price of another meter": item.get("isPrimaryMeterRegion") is False,
    }
    return next((why for why, holds in reasons.items() if holds), None)


def _quotes(item: Mapping[str, Any]) -> Iterator[Quote]:
    price = amount(item.get("retailPrice") if item.get("retailPrice") is not None else item.get("unitPrice"))
    if item.get("type") == "Reservation":
        # the unit says hour, yet the price is that of the whole term
        years, kind = _TERMS.get(str(item.get("reservationTerm")), (0, ""))
        if kind:
            hourly = price / (years * HOURS_A_YEAR) if price is not None else None
            yield _quote(item, kind, hourly, "hour", "reservation")
        return
    unit = _UNIT.match(str(item.get("unitOfMeasure", "")))
    hours = Decimal(unit.group(1)) if unit else Decimal(1)
    unit_name = "hour" if unit else str(item.get("unitOfMeasure"))
    kind = "spot" if str(item.get("skuName", "")).endswith("Spot") else "on_demand"
    yield _quote(item, kind, price / hours if price is not None else None, unit_name, "")
    for plan in item.get("savingsPlan") or ():
        _, kind = _TERMS.get(str(plan.get("term")), (0, ""))
        rate = amount(plan.get("retailPrice") if plan.get("retailPrice") is not None else plan.get("unitPrice"))
        if kind:
            yield _quote(item, kind, rate / hours if rate is not None else None, unit_name, "savings plan")


def _quote(item: Mapping[str, Any], kind: str, price: Decimal | None, unit: str, variant: str) -> Quote:
    since = item.get("effectiveStartDate")
    return Quote(
        "azure",
        item.get("armRegionName") or None,
        None,
        item.get("armSkuName"),
        kind,
        price,
        price,
        item.get("currencyCode"),
        str(since)[:10] if since else None,
        unit=unit,
        variant=variant,
    )
