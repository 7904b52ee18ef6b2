"""Cron expressions: when a job is due next, and when it was last."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# How far to look back for the last due time: the first that holds one is not much longer than the job's own period.
_LOOKBACKS = tuple(timedelta(hours=hours) for hours in (1, 25, 8 * 24, 32 * 24, 400 * 24, 4 * 366 * 24))


@dataclass(frozen=True)
class Due:
    """A time at which a job is due. `slot` is its wall time: an hour that a zone repeats is one slot."""

    slot: str
    at: datetime


@dataclass(frozen=True)
class Cron:
    """Five fields as cron knows them (0 and 7 are Sunday; day of month or day of week, where both are given), in a zone."""

    expression: str
    zone: str

    def __post_init__(self) -> None:
        """Raises ValueError for an expression or a zone that nobody can read."""
        for field, (low, high, names) in zip(self._fields(), _LIMITS, strict=True):
            _numbers(field, low, high, names)
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"no time zone is called {self.zone!r}; write one as Europe/Berlin") from error

    def last(self, now: datetime) -> Due | None:
        """The newest time, not after `now`, at which the job is due; null where the last years hold none."""
        for lookback in _LOOKBACKS:
            found = None
            for due in self._between(now - lookback, now):
                found = due
            if found is not None:
                return found
        return None

    def next(self, now: datetime) -> Due | None:
        """The first time after `now` at which the job is due; null for a date that never comes."""
        trigger = self.trigger()
        found = trigger.get_next_fire_time(None, now + timedelta(seconds=1))
        return None if found is None else self._due(found)

    def trigger(self) -> Any:
        """The expression as a trigger of APScheduler."""
        return _trigger(self._fields(), self.zone)

    def _fields(self) -> tuple[str, ...]:
        fields = tuple(self.expression.lower().split())
        if len(fields) != 5:
            raise ValueError(f"a cron expression has five fields (minute hour day month weekday), got {len(fields)}")
        return fields

    def _between(self, start: datetime, end: datetime) -> Iterator[Due]:
        trigger = self.trigger()
        at = trigger.get_next_fire_time(None, start)
        while at is not None and at <= end:
            yield self._due(at)
            at = trigger.get_next_fire_time(at, at)

    def _due(self, at: datetime) -> Due:
        return Due(at.astimezone(ZoneInfo(self.zone)).strftime("%Y-%m-%dT%H:%M"), at.astimezone(UTC))


_LIMITS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, ("", *_MONTHS)),
    (0, 7, _DAYS),
)


def _numbers(field: str, low: int, high: int, names: tuple[str, ...]) -> list[int]:
    """The numbers that a field of cron stands for."""
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        if slash and (not step.isdecimal() or int(step) == 0):
            raise ValueError(f"{field!r} has a step that is no number above 0")
        if span == "*":
            first, last = low, 6 if high == 7 else high
        else:
            begin, dash, end = span.partition("-")
            first = _number(begin, field, low, high, names)
            last = _number(end, field, low, high, names) if dash else (high if slash else first)
        if last < first:
            raise ValueError(f"{field!r} has a range that runs backwards")
        found.update(range(first, last + 1, int(step or 1)))
    return sorted(found)


def _number(text: str, field: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if text and text in names:
        return names.index(text)
    if not text.isdecimal() or not low <= int(text) <= high:
        raise ValueError(f"{field!r} holds {text!r}: wanted {low} to {high}")
    return int(text)


@lru_cache(maxsize=64)
def _trigger(fields: tuple[str, ...], zone: str) -> Any:
    """APScheduler counts weekdays from Monday and wants all fields to match; cron does neither."""
    from apscheduler.triggers.combining import OrTrigger  # type: ignore[import-untyped]  # it ships no types
    from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped]

    minute, hour, day, month, weekday = fields
    month = ",".join(str(number) for number in _numbers(month, *_LIMITS[3]))
    weekdays = ",".join(_DAYS[number % 7] for number in _numbers(weekday, *_LIMITS[4]))

    def trigger(day: str, weekday: str) -> Any:
        return CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=ZoneInfo(zone))

    if day.startswith("*") or weekday.startswith("*"):
        return trigger(day, weekdays)
    return OrTrigger([trigger(day, "*"), trigger("*", weekdays)])
