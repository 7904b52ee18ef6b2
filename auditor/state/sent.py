"""What went out to whom, and what came of it: notifications and realised savings."""

import secrets
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, func, insert, or_, select, update

from auditor.records import Claim, NotificationRecord, RealisedSaving
from auditor.state.book import Book, run_number
from auditor.state.process import is_dead, this_process
from auditor.state.tables import NOTIFICATIONS, REALISED_SAVINGS

CLAIM_TTL = timedelta(minutes=15)  # longer than rendering a report and every timeout of a conversation with a server


class SentBook(Book):
    """Notifications and realised savings."""

    def claim_slot(
        self,
        channel: str,
        recipient: str,
        slot: str,
        *,
        message_id: str,
        run_id: str | None = None,
        force: bool = False,
        ttl: timedelta = CLAIM_TTL,
        now: datetime | None = None,
    ) -> Claim | None:
        """The right to send the report of this slot, for exactly one caller; null for all others.

        A slot that failed can be claimed again once its `retry_at` has come, and one whose sender died before it handed
        anything over; a slot that was sent, or of which nobody knows, only with `force`. The message id of the first
        claim is that of all later ones.
        """
        at = now or self._clock()
        of_slot = _slot(channel, recipient, slot)
        token = secrets.token_hex(8)
        values = {"status": "claimed", "claimed_at": at, "run_id": run_id, "token": token, "retry_at": None}
        values |= {"process": this_process()}
        with self._database.write() as connection:
            free = or_(
                (NOTIFICATIONS.c.status == "failed") & (NOTIFICATIONS.c.retry_at <= at),
                (NOTIFICATIONS.c.status == "claimed") & _abandoned(connection, at, ttl),
            )
            if force:
                free = or_(free, NOTIFICATIONS.c.status.in_(("failed", "sent", "unknown")))
            known = connection.execute(select(NOTIFICATIONS).where(of_slot)).first()
            if known is None:
                fresh = {"channel": channel, "recipient": recipient, "slot": slot, "message_id": message_id}
                connection.execute(insert(NOTIFICATIONS), values | fresh | {"attempts": 1})
                return Claim(channel, recipient, slot, message_id, 1, token)
            values |= {"message_id": known.message_id or message_id, "attempts": known.attempts + 1}
            if connection.execute(update(NOTIFICATIONS).where(of_slot, free).values(values)).rowcount == 0:
                return None
        return Claim(channel, recipient, slot, known.message_id or message_id, known.attempts + 1, token)

    def slot_sending(self, claim: Claim, *, now: datetime | None = None) -> bool:
        """Note that the message is being handed over from now on. False when the claim was lost: then send nothing."""
        ours = _claimed(claim) & (NOTIFICATIONS.c.status == "claimed")
        values = {"status": "sending", "claimed_at": now or self._clock()}
        with self._database.write() as connection:
            return connection.execute(update(NOTIFICATIONS).where(ours).values(values)).rowcount == 1

    def slot_sent(self, claim: Claim, *, now: datetime | None = None) -> None:
        """The report of a claimed slot went out."""
        self._end(claim, status="sent", sent_at=now or self._clock(), error=None)

    def slot_failed(self, claim: Claim, error: str, *, retry_at: datetime | None = None) -> None:
        """The report of a claimed slot was not handed over; it is tried again at `retry_at`, without one only by force."""
        self._end(claim, status="failed", error=error, retry_at=retry_at)

    def slot_unknown(self, claim: Claim, error: str) -> None:
        """Nobody can tell whether the report of a claimed slot arrived."""
        self._end(claim, status="unknown", error=error)

    def slot_skipped(self, claim: Claim, reason: str) -> None:
        """There was nothing to report in this slot."""
        self._end(claim, status="skipped", error=reason)

    def settle_unknown(self, *, ttl: timedelta = CLAIM_TTL, now: datetime | None = None) -> int:
        """Call unknown what a sender was handing over when it died; returns how many."""
        values = {"status": "unknown", "error": "its sender died while handing it over"}
        with self._database.write() as connection:
            abandoned = _abandoned(connection, now or self._clock(), ttl)
            stale = (NOTIFICATIONS.c.status == "sending") & abandoned
            return connection.execute(update(NOTIFICATIONS).where(stale).values(values)).rowcount

    def _end(self, claim: Claim, **values: object) -> None:
        with self._database.write() as connection:
            connection.execute(update(NOTIFICATIONS).where(_claimed(claim)).values(values))

    def slot_free_at(
        self, channel: str, recipient: str, slot: str, *, ttl: timedelta = CLAIM_TTL, now: datetime | None = None
    ) -> datetime | None:
        """When to look again at a slot that could not be claimed: its sender may die, or its next try comes.

        Null where the slot is over, for good or because nobody knows.
        """
        query = select(NOTIFICATIONS.c.status, NOTIFICATIONS.c.claimed_at, NOTIFICATIONS.c.retry_at)
        with self._database.read() as connection:
            row = connection.execute(query.where(_slot(channel, recipient, slot))).first()
        if row is None or row.status not in ("claimed", "sending", "failed"):
            return None
        free_at: datetime | None = row.retry_at if row.status == "failed" else row.claimed_at + ttl
        # a clock that was set back must not put it off
        return None if free_at is None else min(free_at, (now or self._clock()) + ttl)

    def notifications(
        self, *, status: str | None = None, slot: str | None = None, limit: int | None = None
    ) -> list[NotificationRecord]:
        """The notifications, newest claim first."""
        columns = (NOTIFICATIONS.c[f.name] for f in fields(NotificationRecord))
        query = select(*columns).order_by(NOTIFICATIONS.c.claimed_at.desc(), NOTIFICATIONS.c.id.desc()).limit(limit)
        if status is not None:
            query = query.where(NOTIFICATIONS.c.status == status)
        if slot is not None:
            query = query.where(NOTIFICATIONS.c.slot == slot)
        with self._database.read() as connection:
            return [NotificationRecord(*row) for row in connection.execute(query)]

    def count_notifications(self) -> dict[str, int]:
        """Status -> number of notifications."""
        with self._database.read() as connection:
            query = select(NOTIFICATIONS.c.status, func.count()).group_by(NOTIFICATIONS.c.status)
            return {row[0]: row[1] for row in connection.execute(query)}

    def last_reported_run(self, channel: str, recipient: str, *, kind: str, before_slot: str) -> str | None:
        """The run whose report this recipient was last sent in an earlier slot of a kind; null for the first report.

        A slot is named `<kind> <local time>`. A report of which nobody knows whether it arrived counts as not sent:
        better to tell the same news twice than never.
        """
        query = (
            select(NOTIFICATIONS.c.run_id)
            .where(
                NOTIFICATIONS.c.channel == channel,
                NOTIFICATIONS.c.recipient == recipient,
                NOTIFICATIONS.c.slot.startswith(f"{kind} ", autoescape=True),
                NOTIFICATIONS.c.slot != before_slot,
                NOTIFICATIONS.c.status == "sent",
                NOTIFICATIONS.c.run_id.is_not(None),
            )
            .order_by(NOTIFICATIONS.c.sent_at.desc(), NOTIFICATIONS.c.id.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            run_id: str | None = connection.execute(query).scalar()
        return run_id

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


def _abandoned(connection: Connection, now: datetime, ttl: timedelta) -> ColumnElement[bool]:
    """What a sender has in its hands that died, for certain or by the time it takes."""
    held = select(NOTIFICATIONS.c.id, NOTIFICATIONS.c.process).where(NOTIFICATIONS.c.status.in_(("claimed", "sending")))
    return or_(
        NOTIFICATIONS.c.claimed_at <= now - ttl,
        NOTIFICATIONS.c.claimed_at > now + ttl,  # the clock was set back: no living sender claimed ahead of it
        NOTIFICATIONS.c.id.in_([row.id for row in connection.execute(held) if is_dead(row.process)]),
    )


def _claimed(claim: Claim) -> ColumnElement[bool]:
    return and_(_slot(claim.channel, claim.recipient, claim.slot), NOTIFICATIONS.c.token == claim.token)
