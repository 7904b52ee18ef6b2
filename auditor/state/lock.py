"""One run at a time: a row in the database that its owner keeps alive.

A dead owner's row is taken over at once where the owner was a process of this machine, else when it expires.
"""

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from auditor.errors import LakeError
from auditor.state.book import Book
from auditor.state.process import is_dead, this_process
from auditor.state.tables import LOCKS, RUNS

log = logging.getLogger(__name__)

RUN_LOCK = "run"
LOCK_TTL = timedelta(minutes=2)


class RunLocked(LakeError):
    """Another run holds the lock, or took it over."""


class RunLock:
    """A lock that is held; `check` tells whether it still is."""

    def __init__(self, owner: str, token: str) -> None:
        self.owner = owner
        self.token = token
        self.is_lost = False

    def check(self) -> None:
        """Raises RunLocked when the lock expired and another owner took it, so that the run must not commit."""
        if self.is_lost:
            raise RunLocked(
                f"the run lock of {self.owner} expired and was taken over: this run stops without committing"
            )


class _Watch:
    """Tells a dead holder whose expiry lies further ahead than any lock reaches: the clock was set back since.

    Such an expiry would hold for years. A living holder moves it; one that stands still for a whole `ttl` is dead.
    """

    def __init__(self, ttl: timedelta) -> None:
        self._ttl = ttl
        self._seen: tuple[str, datetime] | None = None
        self._since = 0.0

    def is_dead(self, held: Row[Any], now: datetime) -> bool:
        if held.expires_at - now <= 2 * self._ttl:
            return False
        if self._seen != (held.token, held.expires_at):
            self._seen, self._since = (held.token, held.expires_at), time.monotonic()
        return time.monotonic() - self._since >= self._ttl.total_seconds()


class LockBook(Book):
    """The run lock."""

    @contextmanager
    def run_lock(self, owner: str, ttl: timedelta = LOCK_TTL, wait: timedelta = timedelta(0)) -> Iterator[RunLock]:
        """Hold the only right to run; a heartbeat moves its expiry while the body runs.

        Runs that a dead owner left as `running` become `interrupted`. Raises RunLocked when another owner holds the lock
        for longer than `wait`.
        """
        lock = RunLock(owner, secrets.token_hex(8))
        deadline = time.monotonic() + wait.total_seconds()
        watch = _Watch(ttl)
        told = False
        while (holder := self._acquire(lock, ttl, watch)) is not None:
            if time.monotonic() >= deadline:
                raise RunLocked(f"another run is going on: {holder}; wait for it, or for its lock to expire")
            if not told:
                log.warning("another run is going on, waiting for it or for its lock to expire holder=%s", holder)
                told = True
            time.sleep(0.1)
        stop = threading.Event()
        heartbeat = threading.Thread(target=self._beat, args=(lock, ttl, stop), name="auditor-run-lock", daemon=True)
        heartbeat.start()
        try:
            yield lock
        finally:
            stop.set()
            heartbeat.join()
            with self._database.write() as connection:
                connection.execute(delete(LOCKS).where(LOCKS.c.name == RUN_LOCK, LOCKS.c.token == lock.token))

    def _acquire(self, lock: RunLock, ttl: timedelta, watch: "_Watch") -> str | None:
        """Take the lock, or say who holds it until when."""
        now = self._clock()
        with self._database.write() as connection:
            held = connection.execute(select(LOCKS).where(LOCKS.c.name == RUN_LOCK)).first()
            if held is not None and not (held.expires_at <= now or is_dead(held.process) or watch.is_dead(held, now)):
                return f"{held.owner}, since {held.acquired_at:%Y-%m-%dT%H:%M:%SZ}, until {held.expires_at:%Y-%m-%dT%H:%M:%SZ} at least"
            if held is not None:
                log.warning(
                    "run lock taken from the dead owner=%s expires_at=%s", held.owner, held.expires_at.isoformat()
                )
                connection.execute(delete(LOCKS).where(LOCKS.c.name == RUN_LOCK))
            row = {
                "name": RUN_LOCK,
                "owner": lock.owner,
                "token": lock.token,
                "acquired_at": now,
                "expires_at": now + ttl,
                "process": this_process(),
            }
            connection.execute(insert(LOCKS), row)
            self._interrupt(connection)
        return None

    def _interrupt(self, connection: Connection) -> None:
        # whoever holds the lock knows that no other run is alive
        connection.execute(
            update(RUNS).where(RUNS.c.status == "running").values(status="interrupted", ended_at=self._clock())
        )

    def _beat(self, lock: RunLock, ttl: timedelta, stop: threading.Event) -> None:
        ours = (LOCKS.c.name == RUN_LOCK) & (LOCKS.c.token == lock.token)
        while not stop.wait(ttl.total_seconds() / 4):
            try:
                with self._database.write() as connection:
                    moved = connection.execute(
                        update(LOCKS).where(ours).values(expires_at=self._clock() + ttl)
                    ).rowcount
            except (SQLAlchemyError, LakeError) as error:
                # the next beat may succeed; if none does, the lock expires and `check` tells once the database answers
                log.warning("run lock heartbeat failed owner=%s reason=%s", lock.owner, error)
                continue
            if moved == 0:
                lock.is_lost = True
                return
