"""Column types that hold money and time exactly on SQLite and on PostgreSQL."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlalchemy import DateTime, Dialect, Numeric, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from auditor import money


class Money(TypeDecorator[Decimal]):
    """Decimal at 12 places: NUMERIC(38,12) on PostgreSQL, text on SQLite, whose NUMERIC keeps only a float's digits.

    Refuses anything that it could not give back unchanged: a float, or more than 12 decimals.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Decimal] | TypeEngine[str]:
        """The dialect's own column type."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(Numeric(38, money.PLACES))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Decimal | str | None:
        """The amount as the database takes it. Raises TypeError for a float, ValueError where digits would be lost."""
        if value is None:
            return None
        if not isinstance(value, Decimal):
            raise TypeError(f"money is a Decimal, got {type(value).__name__}: {value!r}")
        exact = money.quantise(value)
        if exact != value:
            raise ValueError(f"money has at most {money.PLACES} decimals, got {value}")
        return exact if dialect.name == "postgresql" else format(exact, "f")

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Decimal | None] | None:
        """What makes the amount of the database's value; psycopg gives the Decimal itself."""
        return None if dialect.name == "postgresql" else _decimal


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time in UTC; SQLite, which knows no zones, holds it as UTC without one."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        """The dialect's own column type."""
        return dialect.type_descriptor(DateTime(timezone=dialect.name == "postgresql"))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The time in UTC. Raises ValueError for a time without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a stored time has a zone, got {value.isoformat()}")
        utc = value.astimezone(UTC)
        return utc if dialect.name == "postgresql" else utc.replace(tzinfo=None)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None] | None:
        """What makes the aware time of the database's value."""
        return _utc if dialect.name == "postgresql" else _parsed


# The next three run once for every value of every row read, hence not through TypeDecorator's own two calls more.


def _decimal(value: str | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def _utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)


@lru_cache(maxsize=4096)  # the rows of one run share their times
def _parsed(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value).replace(tzinfo=UTC)
