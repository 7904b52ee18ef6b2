"""A price as a list states it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, TypeVar

from auditor.landing import Recognised
from auditor.normalise.prices.stream import Damaged, Document, entries, members

HOURS_A_YEAR = 8760
_T = TypeVar("_T")


class Quote(NamedTuple):
    """One price of one list. `variant` keeps apart what one list prices under several names (a reservation beside a
    savings plan, training beside hosting): of each the newest counts.
    """

    provider: str | None
    region_id: str | None
    zone: str | None
    machine_type: str | None
    price_kind: str | None
    low: Decimal | None
    high: Decimal | None
    currency: str | None
    as_of: str | None
    unit: str | None = "hour"
    scope: str = "whole_instance"
    variant: str = ""
    accelerator_model: str | None = None
    accelerator_count: Decimal | None = None
    source: str | None = None


@dataclass
class Reading:
    """What one file gave: its quotes, what was passed over and why, and what stopped the reading."""

    quotes: list[Quote] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    damage: str | None = None


def amount(value: object) -> Decimal | None:
    """The figure as an exact decimal, None where it is no number."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def each(one: Recognised, key: str, reading: Reading) -> Iterator[Any]:
    """The entries under `key` of a file's documents, or its documents where none has that key.

    Damage ends the reading; what stands before it was given.
    """
    with Document(one) as document:
        yield from _guarded(entries(document, key if f'"{key}"' in one.shape.head else None), reading)


def in_step(one: Recognised, paths: Iterable[str], reading: Reading) -> Iterator[tuple[str, str, Any]]:
    """The members of the objects at several dotted paths in one pass: (path, key, value)."""
    with Document(one) as document:
        yield from _guarded(members(document, frozenset(paths)), reading)


def parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _guarded(found: Iterator[_T], reading: Reading) -> Iterator[_T]:
    try:
        yield from found
    except Damaged as error:
        reading.damage = str(error)
