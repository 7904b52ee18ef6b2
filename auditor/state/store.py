"""The state: everything that auditor remembers between runs."""

from types import TracebackType
from typing import Self

from auditor.state.book import Clock, utc_now
from auditor.state.database import open_database
from auditor.state.deliveries import DeliveryBook
from auditor.state.findings import FindingBook
from auditor.state.lock import LockBook
from auditor.state.runs import RunBook
from auditor.state.sent import SentBook
from auditor.state.slots import SlotBook


class State(RunBook, DeliveryBook, FindingBook, SentBook, SlotBook, LockBook):
    """One state database. Every method is one short transaction, whole or not at all; times are aware, money is Decimal."""

    @classmethod
    def open(cls, url: str, *, clock: Clock = utc_now) -> Self:
        """The state at `sqlite:///PATH`, a plain path or `postgresql://…`, created or upgraded as needed.

        Raises SettingsError for a URL that names no such database, LakeError where it cannot be opened.
        """
        return cls(open_database(url), clock)

    def ping(self) -> None:
        """Ask the database for a sign of life. Raises LakeError where there is none."""
        self._database.ping()

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
