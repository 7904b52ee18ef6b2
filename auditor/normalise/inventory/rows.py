"""One resource as an inventory file shows it, and the small readings that every vendor's file needs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any

Json = Mapping[str, Any]

_REGION = re.compile(r"(?<![a-z0-9-])((?:us|eu|ap|sa|ca|me|af|il|mx|cn)(?:-gov|-iso[a-z]?)?-[a-z]+-\d{1,2})(?![0-9])")
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])(\d{12})(?![0-9A-Za-z])")
_TAG_LISTS = (("Key", "Value"), ("key", "value"), ("TagKey", "TagValue"))


@dataclass
class Row:
    """One row of `resources_seen`, before it is written.

    `attributes` bear one neutral name on every cloud; `related` maps a relation to a list of ids. `place` is the name
    of the file, which the second pass uses to find out what the file itself does not say; `neutral` marks a row of the
    neutral table, which a vendor's own word overrules.
    """

    provider: str
    resource_id: str
    resource_type: str
    account_id: str | None = None
    region: str | None = None
    zone: str | None = None
    name: str | None = None
    state: str | None = None
    created_at: str | None = None
    observed_at: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    related: dict[str, list[str]] = field(default_factory=dict)
    aliases: list[str] = field(default_factory=list)
    place: str = ""
    neutral: bool = False

    def relate(self, relation: str, ids: Any) -> None:
        """Adds ids to a relation; empty ones and repetitions are left out."""
        found = [str(one) for one in as_list(ids) if one]
        if found:
            known = self.related.setdefault(relation, [])
            known.extend(one for one in dict.fromkeys(found) if one not in known)

    def also_known_as(self, *ids: Any) -> None:
        """Adds further ids of the same resource."""
        for one in ids:
            text = str(one).strip() if one not in (None, "") else ""
            if text and text not in ("-", "None") and text != self.resource_id and text not in self.aliases:
                self.aliases.append(text)

    def describe(self, **attributes: Any) -> None:
        """Sets attributes; unknown ones (None) are left out, so that a missing figure stays missing."""
        self.attributes.update({key: value for key, value in attributes.items() if value is not None})


def as_list(value: Any) -> list[Any]:
    """The value as a list: none is empty, a single value is a list of one."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in a value that should be a list of them."""
    return [one for one in as_list(value) if isinstance(one, dict)]


def inside(value: Any, *keys: str) -> Any:
    """What lies under a path of keys, None where the path breaks off."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def number(value: Any) -> float | int | None:
    """A figure that vendors write as a number or as text."""
    if value is None or isinstance(value, bool):
        return None
    try:
        figure = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not isfinite(figure):
        return None
    return int(figure) if figure.is_integer() else figure


def truth(value: Any) -> bool | None:
    """A yes or no that vendors write as a boolean or as text."""
    if isinstance(value, bool) or value is None:
        return value
    text = str(value).strip().lower()
    return (
        True if text in ("true", "yes", "enabled", "1") else False if text in ("false", "no", "disabled", "0") else None
    )


def timestamp(value: Any) -> str | None:
    """A time as `YYYY-MM-DD HH:MM:SS` in UTC; Unix seconds and milliseconds are understood, anything else is None."""
    if value in (None, "") or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)) or re.fullmatch(r"\d{9,13}(\.\d+)?", str(value)):
        seconds = float(value)
        seconds = seconds / 1000 if seconds > 1e11 else seconds
        try:
            return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
        except (ValueError, OverflowError, OSError):  # a year that no calendar has
            return None
    # .NET writes seven decimals, which datetime does not take
    text = re.sub(r"(\.\d{6})\d+", r"\1", str(value).strip().replace(" GMT", "Z").replace(" UTC", "Z"))
    try:
        parsed = datetime.fromisoformat(text)
        parsed = parsed.astimezone(UTC) if parsed.tzinfo is not None else parsed
    except (ValueError, OverflowError):
        return None
    return f"{parsed:%Y-%m-%d %H:%M:%S}"


def tag_map(value: Any) -> dict[str, str]:
    """Tags as one map, from a map or from a list of key and value pairs."""
    if isinstance(value, Mapping):
        return {str(key): "" if text is None else str(text) for key, text in value.items()}
    tags: dict[str, str] = {}
    for pair in objects(value):
        for key, text in _TAG_LISTS:
            if key in pair:
                tags[str(pair[key])] = "" if pair.get(text) is None else str(pair[text])
                break
    return tags


def tail(path: Any) -> str | None:
    """The last part of a path or URL."""
    text = str(path).rstrip("/").rpartition("/")[2] if path else ""
    return text or None


def region_of_zone(zone: str | None) -> str | None:
    """Region of an AWS or GCP zone (`us-east-1a`, `us-central1-a`, local zones such as `us-west-2-lax-1a`)."""
    if not zone:
        return None
    gcp = re.fullmatch(r"([a-z]+-[a-z]+\d+)-[a-z]", zone)
    if gcp:
        return gcp.group(1)
    aws = re.match(r"[a-z]{2}(?:-gov|-iso[a-z]?)?-[a-z]+-\d+", zone)
    return aws.group(0) if aws else None


def aws_account_in(text: str) -> str | None:
    """The last account number that stands alone in a file's name."""
    found = _ACCOUNT.findall(text)
    return found[-1] if found else None


def aws_region_in(text: str) -> str | None:
    """The last AWS region in a file's name."""
    found = _REGION.findall(text)
    return found[-1] if found else None


def first(values: Iterable[Any]) -> Any:
    """The first value that is neither None nor empty."""
    return next((value for value in values if value not in (None, "", [], {})), None)
