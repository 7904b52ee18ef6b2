"""Column types that hold money and time exactly on SQLite and on PostgreSQL."""

from datetime import UTC, datetime
from decimal import Decimal

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

    def process_result_value(self, value: Decimal | str | None, dialect: Dialect) -> Decimal | None:
        """The amount at 12 places."""
        return None if value is None else Decimal(value)


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

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The time, aware, in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
