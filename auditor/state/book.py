"""What the parts of the state share: its database and its clock."""

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, select

from auditor.errors import SettingsError
from auditor.state.database import Database
from auditor.state.tables import RUNS

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time of this machine, in UTC."""
    return datetime.now(UTC)


class Book:
    """One part of the state: some tables and the questions about them."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock


def run_number(connection: Connection, run_id: str) -> int:
    """The place of a run in the order of runs. Raises SettingsError for an unknown run."""
    number: int | None = connection.execute(select(RUNS.c.number).where(RUNS.c.id == run_id)).scalar()
    if number is None:
        raise SettingsError(f"no run has the id {run_id!r}; `auditor runs list` shows those there are")
    return number
