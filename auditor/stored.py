"""A report's extras as JSON text and back, so that a stored run is rendered again to the very same bytes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from auditor import render
from auditor.errors import LakeError

# Marks a value that JSON has no form for: {"$": kind, "v": content}. No mapping of ours has such a key.
_KIND, _CONTENT = "$", "v"


def dump_extras(extras: render.Extras) -> str:
    """The extras as JSON, every type kept."""
    return json.dumps(_plain(extras), separators=(",", ":"), ensure_ascii=False)


def load_extras(text: str | None) -> render.Extras:
    """The extras that `dump_extras` wrote; none of them for a run that left none.

    Fields that another version of auditor wrote are left out. Raises LakeError for text that holds something else.
    """
    if text is None:
        return render.Extras()
    found = _value(json.loads(text))
    if not isinstance(found, render.Extras):
        raise LakeError("what is stored beside the report is not of this auditor; run the audit again")
    return found


def change_extras(text: str, change: Callable[[render.Extras], Mapping[str, Any]]) -> tuple[str, render.Extras]:
    """The stored extras with some fields changed, as JSON and as they are: `change` gives fields for the extras it sees.

    What does not change is not written anew, which for the series of a large estate takes longest.
    """
    extras = load_extras(text)
    changes = change(extras)
    stored = json.loads(text)
    stored[_CONTENT] |= {name: _plain(value) for name, value in changes.items()}
    return json.dumps(stored, separators=(",", ":"), ensure_ascii=False), replace(extras, **changes)


def _plain(value: Any) -> Any:
    if (content := _parts(value)) is not None:
        return {_KIND: type(value).__name__, _CONTENT: content}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != _KIND for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return {_KIND: "dict", _CONTENT: [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    for kind, (type_, encode, _) in _SCALARS.items():
        if type(value) is type_:
            return {_KIND: kind, _CONTENT: encode(value)}
    return value


def _parts(value: Any) -> Any:
    """The content of a named tuple or a dataclass; null for everything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [_plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return None


_SCALARS: Mapping[str, tuple[type, Any, Any]] = {
    "decimal": (Decimal, str, Decimal),
    "time": (datetime, datetime.isoformat, datetime.fromisoformat),
    "day": (date, date.isoformat, date.fromisoformat),
    "tuple": (
        tuple,
        lambda value: [_plain(part) for part in value],
        lambda value: tuple(_value(part) for part in value),
    ),
}


def _value(found: Any) -> Any:
    if isinstance(found, list):
        return [_value(part) for part in found]
    if not isinstance(found, dict):
        return found
    if _KIND not in found:
        return {key: _value(item) for key, item in found.items()}
    kind, content = found[_KIND], found[_CONTENT]
    if kind in _SCALARS:
        return _SCALARS[kind][2](content)
    if kind == "dict":
        return {_value(key): _value(item) for key, item in content}
    return _object(kind, content)


def _object(kind: str, content: Any) -> Any:
    """A value of one of the classes of the report's extras; text of the database names no other."""
    from auditor.render import extras

    class_ = getattr(extras, kind, None)
    if not isinstance(class_, type) or class_.__module__ != extras.__name__:
        raise LakeError(f"what is stored beside the report holds a {kind}, which this auditor does not know")
    if isinstance(content, dict):
        known = {f.name for f in fields(class_)}
        return class_(**{name: _value(item) for name, item in content.items() if name in known})
    names = class_._fields  # type: ignore[attr-defined]  # a named tuple: only those are stored as a list
    return class_(*(_value(part) for part in content[: len(names)]))
