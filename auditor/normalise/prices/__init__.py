"""Price lists that a user gives: AWS, Google Cloud and Azure catalogues, spot histories, and the neutral `prices` table."""

from collections import Counter
from collections.abc import Sequence

import duckdb

from auditor.landing import Recognised, SourceReport
from auditor.normalise.prices import aws, azure, gcp, neutral
from auditor.normalise.prices.checks import VERDICTS, judge, stage
from auditor.normalise.prices.quotes import Quote, Reading
from auditor.normalise.prices.recognise import recognise
from auditor.views import PRICES

__all__ = ["load", "recognise"]

_NAMES = {
    "aws-price-list-offer": "AWS Price List",
    "aws-price-list-products": "AWS Price List",
    "aws-spot-price-history": "AWS spot price history",
    "gcp-billing-catalog": "Google Cloud Billing Catalog",
    "azure-retail-prices": "Azure Retail Prices",
}


def load(con: duckdb.DuckDBPyConnection, files: Sequence[Recognised]) -> list[SourceReport]:
    """Appends the prices of accelerator machines to `prices_seen` (created if absent); one report a file.

    A price that lacks its unit, Region, currency or date, or that contradicts another, is dropped and counted in the
    message. A damaged file is `failed` and what stands before the damage is kept.
    """
    columns = ", ".join(f'"{name}" {kind}' for name, kind in PRICES.items())
    con.execute(f"create table if not exists prices_seen ({columns})")
    catalogue = gcp.Catalogue()
    readings = [_read(con, one, at, catalogue) for at, one in enumerate(files)]
    sources = [f"{_NAMES.get(one.format, 'price table')} {one.file.name}" for one in files]
    quotes: list[tuple[int, str, Quote]] = [
        (at, sources[at], quote) for at, reading in enumerate(readings) for quote in reading.quotes
    ]
    quotes += [(at, sources[at], quote) for at, quote in catalogue.machines()]
    stage(con, quotes)
    counts, notes = judge(con)
    return [
        _report(one, reading, counts.get(at, Counter()), notes.get(at, []))
        for at, (one, reading) in enumerate(zip(files, readings, strict=True))
    ]


def _read(con: duckdb.DuckDBPyConnection, one: Recognised, at: int, catalogue: gcp.Catalogue) -> Reading:
    if one.format == "aws-price-list-offer":
        return aws.read_offer(one)
    if one.format == "aws-price-list-products":
        return aws.read_products(one)
    if one.format == "aws-spot-price-history":
        return aws.read_spot_history(one)
    if one.format == "gcp-billing-catalog":
        return catalogue.read(one, at)
    if one.format == "azure-retail-prices":
        return azure.read_items(one)
    return neutral.read_table(con, one)


def _report(one: Recognised, reading: Reading, counts: Counter[str], notes: list[str]) -> SourceReport:
    said = [reading.damage] if reading.damage else []
    said += [text.format(n=f"{counts[verdict]:,}") for verdict, text in VERDICTS.items() if counts[verdict]]
    if counts["other"]:
        said.append(f"{counts['other']:,} prices are of machines without accelerators")
    if reading.passed_over:
        passed = ", ".join(f"{n:,} {why}" for why, n in reading.passed_over.most_common())
        said.append(f"entries not used: {passed}")
    said += reading.notes + notes
    status = "failed" if reading.damage else "ok"
    return SourceReport(
        one.provider, "prices", one.format, [one.file.name], 1, counts["good"], [], status, "; ".join(said) or None
    )
