"""A finding as JSON text and back."""

import json
from dataclasses import fields, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from auditor import money
from auditor.finding import Finding, Remedy

_MONEY = tuple(f.name for f in fields(Finding) if f.type is Decimal)
_TIMES = tuple(f.name for f in fields(Finding) if f.type is datetime)
_NAMES = tuple(f.name for f in fields(Finding))
_REMEDY = tuple(f.name for f in fields(Remedy))
_TUPLES = ("references", "instead_of")


def encode(finding: Finding) -> str:
    """The finding as JSON. Decimals and times of the evidence become text and stay text."""
    values = {name: getattr(finding, name) for name in _NAMES}
    values["remedy"] = {name: getattr(finding.remedy, name) for name in _REMEDY}
    values["tags"] = dict(finding.tags)
    values["evidence"] = dict(finding.evidence)
    return json.dumps(values, default=_text)


def decode(payload: str, **changes: Any) -> Finding:
    """The finding that `encode` wrote, with the changes given; fields that a newer auditor wrote are left out."""
    stored = json.loads(payload)
    values = {name: stored[name] for name in _NAMES if name in stored}
    for name in _MONEY:
        values[name] = Decimal(values[name])
    for name in _TIMES:
        values[name] = datetime.fromisoformat(values[name])
    for name in _TUPLES:
        values[name] = tuple(values[name])
    remedy = values["remedy"]
    values["remedy"] = Remedy(
        remedy["summary"], tuple(remedy["commands"]), remedy["risk"], remedy["effort"], remedy.get("terraform", "")
    )
    return replace(Finding(**values), **changes)


def _text(value: Any) -> Any:
    if isinstance(value, Decimal):
        return money.text(value)
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"evidence holds a {type(value).__name__}, which has no JSON form: {value!r}")
