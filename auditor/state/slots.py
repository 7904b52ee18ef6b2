"""The schedule's slots: which job was due when, who took it, and how it ended."""

import secrets
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from auditor.records import SlotRecord
from auditor.state.book import Book
from auditor.state.process import is_dead, this_process
from auditor.state.tables import SCHEDULE_SLOTS
from auditor.state.types import UtcDateTime

SLOT_TTL = timedelta(minutes=2)
MAX_ATTEMPTS = 6
_COLUMNS = tuple(SCHEDULE_SLOTS.c[f.name] for f in fields(SlotRecord))


class SlotBook(Book):
    """The slots that daemons claim, so that each is run by one of them."""

    def note_baseline(self, job: str, slot: str, slot_at: datetime, *, now: datetime | None = None) -> None:
        """Take a slot as past when a job is met for the first time: what was due before is not caught up."""
        at = now or self._clock()
        row = _row(job, slot, slot_at) | {"status": "baseline", "attempts": 0, "claimed_at": at}
        with self._database.write() as connection:
            if connection.execute(select(SCHEDULE_SLOTS.c.id).where(_of(job, slot))).first() is None:
                connection.execute(insert(SCHEDULE_SLOTS), row)

    def newest_slot(self, job: str, *, now: datetime | None = None) -> SlotRecord | None:
        """The newest known slot of a job; those ahead of the clock, left by a clock that was wrong, do not count."""
        query = select(*_COLUMNS).where(SCHEDULE_SLOTS.c.job == job, SCHEDULE_SLOTS.c.slot_at <= (now or self._clock()))
        with self._database.read() as connection:
            row = connection.execute(query.order_by(SCHEDULE_SLOTS.c.slot_at.desc()).limit(1)).first()
        return None if row is None else SlotRecord(*row)

    def claim_job(
        self,
        job: str,
        slot: str,
        slot_at: datetime,
        owner: str,
        *,
        ttl: timedelta = SLOT_TTL,
        now: datetime | None = None,
    ) -> str | None:
        """A token for exactly one daemon, which then runs the slot; null for all others.

        A slot whose owner died, or that failed and whose `retry_at` has come, can be claimed again, MAX_ATTEMPTS times in all.
        """
        at = now or self._clock()
        token = secrets.token_hex(8)
        values = {"status": "running", "owner": owner, "token": token, "claimed_at": at, "expires_at": at + ttl}
        values |= {"ended_at": None, "retry_at": None, "process": this_process()}
        with self._database.write() as connection:
            known = connection.execute(select(SCHEDULE_SLOTS).where(_of(job, slot))).first()
            if known is None:
                connection.execute(insert(SCHEDULE_SLOTS), values | _row(job, slot, slot_at) | {"attempts": 1})
                return token
            values["attempts"] = known.attempts + 1
            again = update(SCHEDULE_SLOTS).where(_of(job, slot), _free(connection, at, ttl)).values(values)
            return token if connection.execute(again).rowcount == 1 else None

    def unfinished_jobs(self, *, ttl: timedelta = SLOT_TTL, now: datetime | None = None) -> list[SlotRecord]:
        """The slots that can be claimed again, oldest first."""
        with self._database.read() as connection:
            query = select(*_COLUMNS).where(_free(connection, now or self._clock(), ttl))
            rows = connection.execute(query.order_by(SCHEDULE_SLOTS.c.slot_at)).all()
        return [SlotRecord(*row) for row in rows]

    def beat_job(self, token: str, *, ttl: timedelta = SLOT_TTL, now: datetime | None = None) -> bool:
        """Keep a slot that is being run; false when another daemon took it over."""
        ours = (SCHEDULE_SLOTS.c.token == token) & (SCHEDULE_SLOTS.c.status == "running")
        values = {"expires_at": (now or self._clock()) + ttl}
        with self._database.write() as connection:
            return connection.execute(update(SCHEDULE_SLOTS).where(ours).values(values)).rowcount == 1

    def end_job(
        self,
        token: str,
        status: str,
        *,
        error: str | None = None,
        retry_at: datetime | None = None,
        is_counted: bool = True,
        now: datetime | None = None,
    ) -> None:
        """End a slot as done or failed; one that failed is run again at `retry_at`. An attempt cut short does not count."""
        values: dict[str, Any] = {"status": status, "error": error, "retry_at": retry_at}
        values |= {"ended_at": now or self._clock()}
        if not is_counted:
            values["attempts"] = SCHEDULE_SLOTS.c.attempts - 1
        with self._database.write() as connection:
            connection.execute(update(SCHEDULE_SLOTS).where(SCHEDULE_SLOTS.c.token == token).values(values))

    def slots(self, limit: int | None = None) -> list[SlotRecord]:
        """The slots, newest first."""
        query = select(*_COLUMNS).order_by(SCHEDULE_SLOTS.c.slot_at.desc(), SCHEDULE_SLOTS.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            return [SlotRecord(*row) for row in connection.execute(query)]

    def last_done(self) -> dict[str, datetime]:
        """Job -> when a slot of it last ended well."""
        query = select(SCHEDULE_SLOTS.c.job, func.max(SCHEDULE_SLOTS.c.ended_at, type_=UtcDateTime()))
        query = query.where(SCHEDULE_SLOTS.c.status == "done").group_by(SCHEDULE_SLOTS.c.job)
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def forget_slots(self, before: datetime) -> int:
        """Drop slots older than a time, but the newest of each job, which tells what need not be caught up."""
        newest = (
            select(SCHEDULE_SLOTS.c.id)
            .order_by(SCHEDULE_SLOTS.c.slot_at.desc())
            .where(SCHEDULE_SLOTS.c.slot_at <= self._clock())
        )
        with self._database.write() as connection:
            jobs = connection.execute(select(SCHEDULE_SLOTS.c.job).distinct()).scalars().all()
            kept = [connection.execute(newest.where(SCHEDULE_SLOTS.c.job == job).limit(1)).scalar() for job in jobs]
            old = (SCHEDULE_SLOTS.c.slot_at < before) & SCHEDULE_SLOTS.c.id.not_in([key for key in kept if key])
            return connection.execute(delete(SCHEDULE_SLOTS).where(old)).rowcount


def _of(job: str, slot: str) -> ColumnElement[bool]:
    return (SCHEDULE_SLOTS.c.job == job) & (SCHEDULE_SLOTS.c.slot == slot)


def _row(job: str, slot: str, slot_at: datetime) -> dict[str, object]:
    return {"job": job, "slot": slot, "slot_at": slot_at}


def _free(connection: Connection, now: datetime, ttl: timedelta) -> ColumnElement[bool]:
    running = select(SCHEDULE_SLOTS.c.id, SCHEDULE_SLOTS.c.process).where(SCHEDULE_SLOTS.c.status == "running")
    dead = or_(
        SCHEDULE_SLOTS.c.id.in_([row.id for row in connection.execute(running) if is_dead(row.process)]),
        SCHEDULE_SLOTS.c.expires_at <= now,
        SCHEDULE_SLOTS.c.expires_at > now + 2 * ttl,  # further ahead than any claim reaches: the clock was set back
    )
    again = or_(
        (SCHEDULE_SLOTS.c.status == "running") & dead,
        (SCHEDULE_SLOTS.c.status == "failed") & (SCHEDULE_SLOTS.c.retry_at <= now),
    )
    return again & (SCHEDULE_SLOTS.c.attempts < MAX_ATTEMPTS)
