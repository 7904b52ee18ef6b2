"""Opens the state database, brings its schema up to date and gives out short transactions."""

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError

from auditor.errors import LakeError, SettingsError

log = logging.getLogger(__name__)

HEAD = "0006"  # the newest migration; known here so that opening a current database does not read the scripts
BUSY_SECONDS = 30.0
AWAY_SECONDS = 90.0  # a server that restarts is back before this; who waits longer holds up people
# One number for all of auditor's writers on a PostgreSQL server; "audi" in ASCII.
WRITER_LOCK = 0x61756469
_MIGRATIONS = Path(__file__).parent / "migrations"


class Database:
    """One state database with its schema at HEAD."""

    def __init__(self, engine: Engine) -> None:
        self._reader = engine
        self._writer = engine.execution_options(auditor_writes=True)
        self._is_postgres = engine.dialect.name == "postgresql"
        self._was_reached = False  # a URL that never worked is wrong: no sense in waiting

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one moment of the database. Raises LakeError where the database is out of reach."""
        with self._begin(self._reader) as connection:
            if self._is_postgres:
                connection.execute(text("set transaction isolation level repeatable read, read only"))
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is the only writer, on PostgreSQL as on SQLite: no lost updates, no deadlocks.

        Raises LakeError where the database is out of reach or its disk is full.
        """
        with self._begin(self._writer) as connection:
            if self._is_postgres:
                connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": WRITER_LOCK})
            yield connection

    def ping(self) -> None:
        """Ask the database for a sign of life, without waiting for one. Raises LakeError where there is none."""
        try:
            with self._reader.connect() as connection:
                connection.execute(text("select 1"))
        except OperationalError as error:
            raise _unreachable(error) from error

    @contextmanager
    def _begin(self, engine: Engine) -> Iterator[Connection]:
        try:
            with self._connect(engine) as connection, connection.begin():
                yield connection
        except OperationalError as error:
            raise _unreachable(error) from error

    def _connect(self, engine: Engine) -> Connection:
        """A connection; to a server that does not answer, once it does again: nothing has been asked of it yet."""
        deadline = time.monotonic() + (AWAY_SECONDS if self._is_postgres and self._was_reached else 0)
        pause = 0.25
        while True:
            try:
                connection = engine.connect()
            except OperationalError as error:
                if time.monotonic() >= deadline:
                    raise
                log.warning("state database does not answer, waiting reason=%s", _reason(error))
                time.sleep(pause)
                pause = min(pause * 2, 5.0)
            else:
                self._was_reached = True
                return connection

    def close(self) -> None:
        """Give the connections back."""
        self._reader.dispose()


def open_database(url: str) -> Database:
    """The database at `url`, created where it is missing and upgraded to the newest schema.

    Takes `sqlite:///state.db`, `postgresql://user@host/name`, or a plain path. Processes that open it at once wait for
    one another. Raises SettingsError for a URL that names no such database, LakeError where it cannot be opened or was
    written by a newer auditor.
    """
    target = _target(url)
    try:
        engine = _engine(target)
        database = Database(engine)
        try:
            _upgrade(database)
        except BaseException:
            database.close()
            raise
    except (DBAPIError, sqlite3.Error, OSError) as error:
        reason = getattr(error, "orig", None) or error
        raise LakeError(f"the state database {target.render_as_string()} cannot be opened: {reason}") from error
    except DatabaseAway as error:
        raise LakeError(f"the state database {target.render_as_string()} cannot be opened: {error.reason}") from error
    return database


class DatabaseAway(LakeError):
    """The state database does not answer, or cannot write."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the state database cannot be used: {reason}")
        self.reason = reason


def _unreachable(error: OperationalError) -> DatabaseAway:
    return DatabaseAway(_reason(error))


def _reason(error: OperationalError) -> str:
    return str(error.orig or error).strip().partition("\n")[0]


def _target(url: str) -> URL:
    try:
        target = make_url(url if "://" in url else f"sqlite:///{url}")
    except ArgumentError as error:
        raise SettingsError("[state] url is not a database URL: wanted sqlite:///PATH or postgresql://…") from error
    backend = target.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return target.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise SettingsError(f"[state] url names the database {backend!r}: wanted sqlite:///PATH or postgresql://…")
    if not target.database or target.database == ":memory:":
        # the heartbeat of the run lock, and every other process, would see a database of its own
        raise SettingsError("[state] url names no file: wanted sqlite:///PATH")
    return target


def _engine(target: URL) -> Engine:
    if target.get_backend_name() == "postgresql":
        try:
            return create_engine(target, pool_pre_ping=True)
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise SettingsError("PostgreSQL state needs psycopg: install auditor[postgres]") from error
    Path(str(target.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(target, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves: Python's sqlite3 would leave DDL out of transactions
    connection.execute("pragma foreign_keys = on")
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("pragma journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            # SQLite does not wait its busy timeout when two connections switch to WAL at once
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    # a transaction that begins as a reader and then writes fails at once when another wrote in between
    writes = connection.get_execution_options().get("auditor_writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _upgrade(database: Database) -> None:
    with database.read() as connection:
        if _revision(connection) == HEAD:
            return
    with database.write() as connection:  # whoever comes second finds the work done
        found = _revision(connection)
        if found == HEAD:
            return
        # a current database needs none of this, and commands start quicker without it
        from alembic import command
        from alembic.config import Config
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if found is not None and found not in known:
            raise LakeError(
                f"the state database has schema {found}, newer than {HEAD} that this auditor knows: upgrade auditor"
            )
        log.info("state schema from=%s to=%s", found or "empty", HEAD)
        command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("select version_num from alembic_version")).scalar()
    return revision
