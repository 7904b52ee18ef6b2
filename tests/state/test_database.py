"""The database opens, upgrades and is shared."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from auditor.errors import LakeError, SettingsError
from auditor.state import State, database
from auditor.state.tables import METADATA
from tests.state.conftest import NOW, a_delivery, a_file, a_finding, a_postgres_server, commit

ROOT = Path(__file__).parents[2]


def engine_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


def migrate(url: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).parent / "migrations"))
    with create_engine(engine_url(url)).begin() as connection:
        config.attributes["connection"] = connection
        move = command.downgrade if revision == "base" else command.upgrade
        move(config, revision)


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_migrations_build_exactly_the_tables_of_the_code(state: State, url: str) -> None:
    with create_engine(engine_url(url)).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []


def test_the_known_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [database.HEAD]


def test_an_older_database_is_upgraded_with_its_data(url: str) -> None:
    migrate(url, "0001")
    with create_engine(engine_url(url)).begin() as connection:
        connection.execute(
            text(
                "insert into runs (id, started_at, status, windows) values ('r1', '2026-01-01 00:00:00', 'complete', '{}')"
            )
        )
    with State.open(url, clock=lambda: NOW) as state:
        assert [run.id for run in state.runs_list()] == ["r1"]
        assert state.record_findings("r1", [a_finding()], set())[0].status == "new"


def test_a_notification_of_the_schema_before_keeps_its_place(url: str) -> None:
    migrate(url, "0002")
    with create_engine(engine_url(url)).begin() as connection:
        connection.execute(
            text(
                "insert into notifications (channel, recipient, slot, status, claimed_at) values ('smtp', 'a', 's', 'sent', '2026-01-01 00:00:00')"
            )
        )
    with State.open(url, clock=lambda: NOW) as state:
        assert state.claim_slot("smtp", "a", "s", message_id="<m@example.com>") is None
        forced = state.claim_slot("smtp", "a", "s", message_id="<m@example.com>", force=True)
        assert forced is not None
        assert (forced.message_id, forced.attempt) == ("<m@example.com>", 2)


def test_everything_that_the_first_schema_with_a_schedule_held_is_there_after_the_upgrade(url: str) -> None:
    migrate(url, "0003")
    at = "'2026-01-01 00:00:00'"
    finding = dict.fromkeys(("id", "rule_id", "title", "provider", "subject", "severity", "confidence"), "'x'")
    finding |= dict.fromkeys(("monthly_cost", "monthly_savings"), "'1234567890.123456789012'")
    finding |= {"monthly_savings_net": "'0.000000000001'", "billing_currency": "'USD'", "status": "'resolved'"}
    finding |= {"first_seen": at, "last_seen": at, "last_run_id": "'r1'", "tags": "'{}'", "payload": "'{}'"}
    with create_engine(engine_url(url)).begin() as connection:
        for statement in (
            f"insert into runs (id, started_at, status, windows) values ('r1', {at}, 'running', '{{}}')",
            f"insert into locks (name, owner, token, acquired_at, expires_at) values ('run', 'old', 't', {at}, {at})",
            f"insert into findings ({', '.join(finding)}) values ({', '.join(finding.values())})",
            f"insert into schedule_slots (job, slot, slot_at, status, attempts, claimed_at) values ('audit', 's', {at}, 'done', 1, {at})",
            f"insert into notifications (channel, recipient, slot, status, claimed_at) values ('smtp', 'a', 's', 'sent', {at})",
            "insert into realised_savings (finding_id, billing_period, billing_currency, baseline_effective_cost,"
            f" actual_effective_cost, realised_savings, run_id, recorded_at) values ('x', '2026-01', 'USD', '2', '1', '1', 'r1', {at})",
        ):
            connection.execute(text(statement))
    with State.open(url, clock=lambda: NOW) as state:
        [record] = state.list_findings()
        assert str(record.monthly_cost) == "1234567890.123456789012"
        assert record.monthly_savings_net == Decimal("0.000000000001")
        assert [slot.status for slot in state.slots()] == ["done"]
        assert [each.status for each in state.notifications()] == ["sent"]
        assert [(each.realised_savings, each.estimated_savings) for each in state.realised_savings()] == [(1, None)]
        with state.run_lock("new"):  # a lock that names no process is one that expires
            assert [run.status for run in state.runs_list()] == ["interrupted"]


def test_every_migration_can_be_taken_back(url: str) -> None:
    State.open(url).close()
    migrate(url, "base")
    assert set(inspect(create_engine(engine_url(url))).get_table_names()) <= {"alembic_version"}
    with State.open(url) as state:
        assert state.runs_list() == []


def test_a_database_of_a_newer_auditor_is_refused(url: str) -> None:
    State.open(url).close()
    with create_engine(engine_url(url)).begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(LakeError, match=r"9999.*upgrade auditor"):
        State.open(url)


def test_an_empty_sqlite_database_opens_within_three_tenths_of_a_second(tmp_path: Path) -> None:
    State.open(str(tmp_path / "first.db")).close()
    begin = time.process_time()
    State.open(str(tmp_path / "folder" / "state.db")).close()
    assert time.process_time() - begin < 0.3


@pytest.mark.parametrize("wrong", ["sqlite://", "sqlite:///:memory:", "mysql://x/y", "no url://"])
def test_a_url_of_no_usable_database_is_a_settings_error(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"\[state\] url"):
        State.open(wrong)


def test_a_file_that_is_no_database_is_a_lake_error(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(LakeError, match="cannot be opened"):
        State.open(str(tmp_path / "state.db"))


def test_a_password_is_not_in_the_error(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(LakeError) as caught:
        State.open(f"postgresql://auditor:hunter2@/x?host={tmp_path}")
    assert "hunter2" not in str(caught.value)


COMMITS = """
import sys
from auditor.state import State
from tests.state.conftest import a_delivery, a_file, commit
url, who = sys.argv[1:]
with State.open(url) as state:
    for turn in range(10):
        name = f"{who}-{turn}"
        run = state.begin_run(note=name)
        commit(state, run, a_delivery(name), [a_file(f"{name}.parquet"), a_file(f"{name}-mart.parquet", "transfers")])
"""


def test_two_processes_open_an_empty_database_and_commit_at_once(url: str) -> None:
    processes = [python(COMMITS, url, who) for who in ("left", "right")]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    with State.open(url) as state:
        assert len(state.runs_list()) == 20
        [live] = state.deliveries()
        assert [file.path for file in state.live_files()] == [f"{live.id}.parquet", f"{live.id}-mart.parquet"]
        assert len(state.deliveries(status="superseded")) == 19


KILLED = """
import os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from auditor.state import State
from tests.state.conftest import a_delivery, a_file, commit
state = State.open(sys.argv[1])
run = state.begin_run()
event.listen(Engine, "commit", lambda connection: os.kill(os.getpid(), signal.SIGKILL))
commit(state, run, a_delivery("new"), [a_file("new.parquet")])
"""


def test_a_process_killed_before_its_commit_leaves_the_old_delivery_live(url: str, state: State) -> None:
    commit(state, state.begin_run(), a_delivery("old"), [a_file("old.parquet")])
    process = python(KILLED, url)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == -9, output
    with State.open(url) as after:
        assert [delivery.id for delivery in after.deliveries(status=None)] == ["old"]
        assert [file.path for file in after.live_files("charges")] == ["old.parquet"]
        assert after.unreferenced(["old.parquet", "new.parquet"]) == ["new.parquet"]
        commit(after, after.begin_run(), a_delivery("new"), [a_file("new.parquet")])
        assert [file.path for file in after.live_files("charges")] == ["new.parquet"]


def test_a_reader_sees_one_moment_while_another_commits(new_state: Callable[[], State]) -> None:
    reader, writer = new_state(), new_state()
    commit(writer, writer.begin_run(), a_delivery("old"), [a_file("old.parquet")])
    with reader._database.read() as connection:
        query = text("select count(*) from lake_files")
        before = connection.execute(query).scalar()
        commit(writer, writer.begin_run(), a_delivery("new"), [a_file("new.parquet")])
        assert connection.execute(query).scalar() == before == 1


def test_what_a_database_that_went_away_makes_of_a_question_is_a_lake_error(tmp_path: Path) -> None:
    with State.open(str(tmp_path / "state.db")) as state:
        state.ping()
        with create_engine(f"sqlite:///{tmp_path / 'state.db'}").begin() as connection:
            connection.execute(text("drop table schedule_slots"))
        with pytest.raises(LakeError, match="cannot be used: no such table"):
            state.slots()


@pytest.mark.slow
def test_a_server_that_restarts_is_waited_for() -> None:
    with a_postgres_server() as server:
        url = f"postgresql://postgres@/postgres?host={server.folder}"
        with State.open(url, clock=lambda: NOW) as state:
            run = state.begin_run()
            server.stop()
            with pytest.raises(LakeError, match="cannot be used"):
                state.ping()
            later = threading.Timer(2, server.start)
            later.start()
            state.finish_run(run, "complete", {"a": 1})
            later.join()
            assert state.run_document(run) == {"a": 1}
