"""Writes a finding's evidence and arithmetic as lines of text and figure."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from auditor.render import figures
from auditor.render.text import shorten

ITEMS = 12  # of a list; the rest is counted and stands in the data files
TEXT = 400
RATIOS = ("share", "ratio", "utilization", "coverage", "rate", "percent_of_hours")


class Fact(NamedTuple):
    """A line of evidence; `digits` is the exact figure where `text` rounds it, else null."""

    name: str
    text: str
    digits: str | None


class Step(NamedTuple):
    """A line of arithmetic: sign, words, money; `result` lines are what the ones above come to."""

    sign: str
    words: str
    value: Decimal
    result: bool


def facts(finding: Mapping[str, Any]) -> list[Fact]:
    """The evidence of a finding, nested tables flattened to one level."""
    found: list[Fact] = []
    for key, value in (finding.get("evidence") or {}).items():
        if isinstance(value, Mapping):
            found.extend(_fact(f"{key} {name}", item, finding["currency"]) for name, item in value.items())
        else:
            found.append(_fact(key, value, finding["currency"]))
    return found


def _fact(key: str, value: Any, currency: str) -> Fact:
    name = key.replace("_", " ")
    figure = decimal_of(value)
    if figure is None:
        return Fact(name, shorten(_plain(value), TEXT), None)
    word = key.lower()
    if word.endswith(RATIOS) and abs(figure) <= 2:
        return Fact(name, figures.percent(figure, 1, 1), figures.exact(figure))
    if word.endswith(("cost", "savings", "price_month")):
        return Fact(name, figures.money(figure, currency), figures.exact(figure))
    if word.endswith("bytes"):
        return Fact(name, figures.size(figure), figures.exact(figure))
    places = min(4, max(0, -int(figure.normalize().as_tuple().exponent)))
    text, digits = figures.number(figure, places), figures.exact(figure)
    return Fact(name, text, None if text == digits else digits)


def decimal_of(value: Any) -> Decimal | None:
    """The figure, for numbers and for decimal strings with a point; ids made of digits stay text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return figures.decimal(value)
    if isinstance(value, str) and "." in value and value.removeprefix("-").replace(".", "", 1).isdecimal():
        return figures.decimal(value)
    return None


def _plain(value: Any) -> str:
    if value is None:
        return figures.ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - ITEMS} more" if len(value) > ITEMS else ""
        mark = "; " if any(isinstance(item, Mapping) for item in value) else ", "
        return (mark.join(_plain(item) for item in value[:ITEMS]) + more) or "none"
    return str(value)


def arithmetic(finding: Mapping[str, Any], rivals: Iterable[Mapping[str, Any]] = ()) -> list[Step]:
    """From the window's cost to the finding's net savings a month, each step with its reason.

    `rivals` are the other findings on the same resource, which may have counted the same money first.
    """
    cost, gross = figures.amount(finding["monthly_cost"]), figures.amount(finding["monthly_savings"])
    net, freed = figures.amount(finding["monthly_savings_net"]), figures.amount(finding["freed_commitment"])
    length = figures.hours(finding["window"])
    steps: list[Step] = []
    if length and length != 730:
        words = f"Effective cost in the {figures.number(length)} hours of {figures.period(finding['window'])}"
        steps.append(Step("", words, (cost * length / 730).quantize(Decimal("1e-12")), False))
        steps.append(Step("×", f"730 / {figures.number(length)}, to a month of 730 hours", cost, False))
    else:
        steps.append(Step("", "Effective cost a month of 730 hours", cost, False))
    stays = cost - gross
    covered = min(freed, stays)
    if covered > 0:
        steps.append(Step("−", "Covered by a commitment, which goes on being billed", covered, False))
    if stays > covered:
        steps.append(Step("−", "Would still be billed", stays - covered, False))
    steps.append(Step("=", "Would no longer be billed", gross, True))
    if gross != net:
        words = "Already counted in other findings on the same resource"
        named = [rival["title"] for rival in rivals if figures.amount(rival["monthly_savings_net"]) > 0][:2]
        if named:
            words = f"Already counted in: {'; '.join(shorten(str(name), 80) for name in named)}"
        steps.append(Step("−", words, gross - net, False))
        steps.append(Step("=", "Net savings a month", net, True))
    return steps


def savings_range(finding: Mapping[str, Any]) -> tuple[Decimal, Decimal] | None:
    """Low and high of the savings where they differ."""
    low, high = (figures.decimal(value) for value in (finding.get("monthly_savings_range") or (None, None)))
    return (low, high) if low is not None and high is not None and low != high else None
