"""Which price list a file is, by its content."""

import re

from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.prices import neutral

_OFFER = re.compile(r'"offerCode"\s*:\s*"(\w+)"')
_PUBLISHED = re.compile(r'"publicationDate"\s*:\s*"([^"]+)"')
# (format, provider, keys that all stand in the first bytes)
_LISTS = (
    ("aws-price-list-products", "aws", ("PriceList",)),
    ("aws-spot-price-history", "aws", ("SpotPrice", "ProductDescription", "InstanceType")),
    ("gcp-billing-catalog", "gcp", ("skuId", "serviceRegions", "category")),
    ("azure-retail-prices", "azure", ("retailPrice", "armRegionName", "unitOfMeasure")),
)


def recognise(file: LandingFile, shape: Shape) -> Recognised | None:
    """The price list that a file is, None where it is none."""
    if shape.form in ("csv", "parquet", "jsonl") and neutral.is_prices(shape):
        return Recognised(file, shape, "prices", f"prices-{shape.form}", None)
    head = shape.head.lstrip()
    if not head.startswith(("{", "[")):
        return None
    offer, published = _OFFER.search(head), _PUBLISHED.search(head)
    if offer and '"formatVersion"' in head:
        details = {"offer": offer.group(1), "date": published.group(1) if published else None}
        return Recognised(file, shape, "prices", "aws-price-list-offer", "aws", details)
    for name, provider, keys in _LISTS:
        if all(f'"{key}"' in head for key in keys) and (
            name != "aws-price-list-products" or '"FormatVersion"' in head or "serviceCode" in head
        ):
            return Recognised(file, shape, "prices", name, provider)
    return None
