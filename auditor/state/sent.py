"""What went out to whom, and what came of it: notifications and realised savings."""

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, insert, or_, select, update

from auditor.records import NotificationRecord, RealisedSaving
from auditor.state.book import Book, run_number
from auditor.state.tables import NOTIFICATIONS, REALISED_SAVINGS

CLAIM_TTL = timedelta(minutes=15)


class SentBook(Book):
    """Notifications and realised savings."""

    def claim_slot(
        self,
        channel: str,
        recipient: str,
        slot: str,
        *,
        run_id: str | None = None,
        ttl: timedelta = CLAIM_TTL,
        now: datetime | None = None,
    ) -> bool:
        """True for exactly one caller, who then sends the report of this slot and says `slot_sent` or `slot_failed`.

        A slot that failed, or whose claim is older than `ttl` because the sender died, can be claimed again.
        """
        at = now or self._clock()
        of_slot = _slot(channel, recipient, slot)
        free = or_(
            NOTIFICATIONS.c.status == "failed",
            (NOTIFICATIONS.c.status == "claimed") & (NOTIFICATIONS.c.claimed_at <= at - ttl),
        )
        values = {"status": "claimed", "claimed_at": at, "run_id": run_id, "error": None}
        with self._database.write() as connection:
            if connection.execute(select(NOTIFICATIONS.c.id).where(of_slot)).first() is None:
                connection.execute(
                    insert(NOTIFICATIONS), values | {"channel": channel, "recipient": recipient, "slot": slot}
                )
                return True
            return connection.execute(update(NOTIFICATIONS).where(of_slot, free).values(values)).rowcount == 1

    def slot_sent(self, channel: str, recipient: str, slot: str, *, now: datetime | None = None) -> None:
        """The report of a claimed slot went out."""
        values = {"status": "sent", "sent_at": now or self._clock()}
        with self._database.write() as connection:
            connection.execute(update(NOTIFICATIONS).where(_slot(channel, recipient, slot)).values(values))

    def slot_failed(self, channel: str, recipient: str, slot: str, error: str) -> None:
        """The report of a claimed slot could not be sent; it may be tried again."""
        values = {"status": "failed", "error": error}
        with self._database.write() as connection:
            connection.execute(update(NOTIFICATIONS).where(_slot(channel, recipient, slot)).values(values))

    def notifications(self, *, status: str | None = None, limit: int | None = None) -> list[NotificationRecord]:
        """The notifications, newest claim first."""
        columns = (NOTIFICATIONS.c[f.name] for f in fields(NotificationRecord))
        query = select(*columns).order_by(NOTIFICATIONS.c.claimed_at.desc(), NOTIFICATIONS.c.id.desc()).limit(limit)
        if status is not None:
            query = query.where(NOTIFICATIONS.c.status == status)
        with self._database.read() as connection:
            return [NotificationRecord(*row) for row in connection.execute(query)]

    def record_realised(self, run_id: str, savings: Iterable[RealisedSaving], *, now: datetime | None = None) -> None:
        """Keep what a run saw saved; a finding's earlier figure for the same billing period is replaced.

        Raises SettingsError for an unknown run.
        """
        at = now or self._clock()
        with self._database.write() as connection:
            run_number(connection, run_id)
            for saving in savings:
                row = {f.name: getattr(saving, f.name) for f in fields(RealisedSaving)} | {
                    "run_id": run_id,
                    "recorded_at": at,
                }
                of_period = (REALISED_SAVINGS.c.finding_id == saving.finding_id) & (
                    REALISED_SAVINGS.c.billing_period == saving.billing_period
                )
                if connection.execute(update(REALISED_SAVINGS).where(of_period).values(row)).rowcount == 0:
                    connection.execute(insert(REALISED_SAVINGS), row)

    def realised_savings(self, *, billing_period: str | None = None) -> list[RealisedSaving]:
        """What was saved, by billing period and finding."""
        columns = (REALISED_SAVINGS.c[f.name] for f in fields(RealisedSaving))
        query = select(*columns).order_by(REALISED_SAVINGS.c.billing_period, REALISED_SAVINGS.c.finding_id)
        if billing_period is not None:
            query = query.where(REALISED_SAVINGS.c.billing_period == billing_period)
        with self._database.read() as connection:
            return [RealisedSaving(*row) for row in connection.execute(query)]


def _slot(channel: str, recipient: str, slot: str) -> ColumnElement[bool]:
    return and_(
        NOTIFICATIONS.c.channel == channel, NOTIFICATIONS.c.recipient == recipient, NOTIFICATIONS.c.slot == slot
    )
