"""A state on SQLite and, where its server is installed, on a real PostgreSQL."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path

import pytest

from auditor.finding import Finding, Remedy
from auditor.records import DeliveryRecord, LakeFileRecord
from auditor.state import State

NOW = datetime(2026, 3, 1, 6, tzinfo=UTC)
_names = count()


class PostgresServer:
    """A server that listens on a socket in its folder."""

    def __init__(self, initdb: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="auditor-pg-"))
        self._pg_ctl = str(Path(initdb).with_name("pg_ctl"))
        who: dict[str, object] = {}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self._how = {"stdout": subprocess.DEVNULL, "cwd": self.folder, **who}
        self._run(initdb, "-D", "data", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8")

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self._run(self._pg_ctl, "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def stop(self) -> None:
        self._run(self._pg_ctl, "-D", "data", "-m", "immediate", "stop")

    def _run(self, *words: str) -> None:
        subprocess.run(words, check=True, **self._how)  # type: ignore[call-overload]


@contextmanager
def a_postgres_server() -> Iterator[PostgresServer]:
    """A running server of its own; skips where none can be had."""
    pytest.importorskip("psycopg")
    places = [shutil.which("initdb"), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")))]
    initdb = next((place for place in places if place), None)
    if initdb is None:
        pytest.skip("no PostgreSQL server is installed")
    server = PostgresServer(initdb)
    try:
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(server.folder)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Path]:
    """The socket folder of a server that lives as long as the tests; skips where none can be had."""
    with a_postgres_server() as server:
        yield server.folder


@pytest.fixture(scope="session")
def new_postgres(postgres_server: Path) -> Callable[[], str]:
    """Makes an empty schema, which is quicker than a database, and gives its URL."""
    import psycopg

    def make() -> str:
        name = f"t{next(_names)}"
        with psycopg.connect(
            host=str(postgres_server), user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(f"create schema {name}")
        return f"postgresql://postgres@/postgres?host={postgres_server}&options=-csearch_path%3D{name}"

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    return empty_database(request, tmp_path)


def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of the kind that the fixture's parameter names."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state.db'}"
    return request.getfixturevalue("new_postgres")()


@pytest.fixture
def state(url: str) -> Iterator[State]:
    """An empty state."""
    with State.open(url, clock=lambda: NOW) as opened:
        yield opened


def commit(
    state: State,
    run_id: str,
    delivery: DeliveryRecord,
    files: Sequence[LakeFileRecord],
    supersedes: Sequence[str] = (),
) -> str:
    """Takes one delivery in by itself; returns the id under which it is live."""
    return state.commit_deliveries(run_id, [(delivery, files, supersedes)])[0]


def a_delivery(name: str = "d1", **changes: object) -> DeliveryRecord:
    """A delivery of one source and billing period."""
    plain = DeliveryRecord(
        id=name,
        provider="aws",
        source="aws/111122223333/hourly",
        billing_account_id="111122223333",
        format="cur2-parquet",
        role=None,
        billing_period="2026-02",
        digest=f"digest of {name}",
        delivered_at=NOW,
        rows=3_000_000_000,
        source_billed_cost=Decimal("1234567890.123456789012"),
        lake_billed_cost=Decimal("1234567890.123456789012"),
        billing_currency="USD",
        totals={"USD": {"tax": Decimal("0.000000000001")}},
        identities={"sum": "holds"},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def a_file(path: str, table: str = "charges", **changes: object) -> LakeFileRecord:
    """A file of the lake of that same source and billing period."""
    return replace(LakeFileRecord(table, path, "aws", "aws/111122223333/hourly", "2026-02", 10), **changes)  # type: ignore[arg-type]


def a_finding(subject: str = "i-0a", rule_id: str = "gpu.idle_instance", **changes: object) -> Finding:
    """A finding of 100 a month."""
    plain = Finding(
        rule_id=rule_id,
        title="Accelerator instance idle",
        provider="aws",
        sub_account_id="444455556666",
        region_id="eu-west-1",
        resource_id=subject,
        subject=subject,
        billing_currency="USD",
        window_start=datetime(2026, 2, 1, tzinfo=UTC),
        window_end=datetime(2026, 3, 1, tzinfo=UTC),
        effective_cost=Decimal(90),
        committed_cost=Decimal(0),
        monthly_cost=Decimal(100),
        monthly_savings=Decimal(100),
        monthly_savings_low=Decimal(100),
        monthly_savings_high=Decimal(100),
        freed_commitment=Decimal(0),
        confidence="high",
        severity="medium",
        reason="idle for 28 days",
        remedy=Remedy("Stop it", ("aws ec2 stop-instances --instance-ids " + subject,), "none", "minutes"),
        references=("https://example.com/idle",),
        stage="remove",
        monthly_savings_net=Decimal(100),
        tags={"Team": "vision", "cost_center": "42"},
        evidence={"max_utilization": Decimal("0.01"), "since": NOW},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture
def new_state(url: str) -> Iterator[Callable[[], State]]:
    """Opens one and the same database anew."""
    opened: list[State] = []

    def make() -> State:
        opened.append(State.open(url, clock=lambda: NOW))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
