"""The service runs each slot once, whatever happens to it, to its clock and to its database."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from auditor import child, systemd
from auditor.collect import Collected
from auditor.daemon import Again, Job, Service, Stopped
from auditor.errors import LakeError, SettingsError
from auditor.health import parse_listen, serving
from auditor.housekeeping import tidy
from auditor.journal import Problem
from auditor.records import SlotRecord
from auditor.render import Extras
from auditor.schedule import Cron
from auditor.settings import Settings, parse
from auditor.state import RunLocked, State
from auditor.stored import dump_extras
from tests.state.conftest import NOW, a_delivery, a_file, a_postgres_server, commit
from tests.test_cli import one_bill

ROOT = Path(__file__).parents[1]
NIGHTLY = Cron("0 5 * * *", "UTC")


class Clock:
    """A clock that the test moves. It starts at 6 on Sunday, 1 March 2026."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class Work:
    """A job that notes the slots it was given."""

    def __init__(self) -> None:
        self.slots: list[str] = []
        self.fails: list[Exception] = []

    def __call__(self, slot: str) -> None:
        self.slots.append(slot)
        if self.fails:
            raise self.fails.pop(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path, clock: Clock) -> Iterator[State]:
    with State.open(str(tmp_path / "state.db"), clock=clock) as made:
        yield made


def daemon(state: State, clock: Clock, work: Job, cron: Cron = NIGHTLY, **how: Any) -> Service:
    made = Service(state, {"audit": cron}, {"audit": work}, clock, **how)
    made.come_round()
    return made


def test_what_was_due_before_the_first_start_is_not_caught_up(state: State, clock: Clock) -> None:
    work = Work()
    daemon(state, clock, work)
    assert work.slots == []


def test_many_missed_slots_are_caught_up_once(state: State, clock: Clock) -> None:
    work = Work()
    service = daemon(state, clock, work)
    clock.now += timedelta(days=9)
    service.come_round()
    service.come_round()
    assert work.slots == ["2026-03-10T05:00"]


def test_two_daemons_run_a_slot_once(state: State, clock: Clock) -> None:
    work = Work()
    services = [daemon(state, clock, work) for _ in range(2)]
    for _ in range(3):
        clock.now += timedelta(days=1)
        for service in services:
            service.come_round()
    assert work.slots == ["2026-03-02T05:00", "2026-03-03T05:00", "2026-03-04T05:00"]


def test_a_clock_that_is_set_back_and_forth_runs_no_slot_twice(state: State, clock: Clock) -> None:
    work = Work()
    service = daemon(state, clock, work)
    for hours in (24, -24, 24, -48, 72, -1, 1, -9000, 9000):
        clock.now += timedelta(hours=hours)
        service.come_round()
    assert work.slots == ["2026-03-02T05:00", "2026-03-03T05:00"]


def test_a_clock_that_was_years_ahead_for_a_moment_does_not_silence_the_service(state: State, clock: Clock) -> None:
    work = Work()
    service = daemon(state, clock, work)
    clock.now += timedelta(days=9000)
    service.come_round()
    clock.now -= timedelta(days=8999)
    service.come_round()
    assert work.slots[1:] == ["2026-03-02T05:00"]


def test_the_hour_that_a_zone_repeats_is_one_slot_and_the_one_it_skips_is_not_lost(state: State, clock: Clock) -> None:
    work = Work()
    clock.now = datetime(2026, 3, 28, 12, tzinfo=UTC)
    service = daemon(state, clock, work, Cron("30 2 * * *", "Europe/Berlin"))
    for at in (datetime(2026, 3, 29, 3), datetime(2026, 10, 25, 0, 45), datetime(2026, 10, 25, 1, 45)):
        clock.now = at.replace(tzinfo=UTC)
        service.come_round()
    assert work.slots == ["2026-03-29T02:30", "2026-10-25T02:30"]


def test_a_job_that_fails_is_tried_again_with_backoff_and_then_left(state: State, clock: Clock) -> None:
    work = Work()
    work.fails = [LakeError("disk full"), ValueError("odd"), Again("half", NOW + timedelta(days=1, minutes=30))]
    service = daemon(state, clock, work)
    clock.now += timedelta(days=1)
    service.come_round()
    service.come_round()
    assert len(work.slots) == 1
    for minutes in (2, 4, 30):
        clock.now += timedelta(minutes=minutes)
        service.come_round()
    assert work.slots == ["2026-03-02T05:00"] * 4
    assert [slot.status for slot in state.slots() if slot.status != "baseline"] == ["done"]


def test_a_job_cut_short_by_the_stop_is_resumed_by_the_next_daemon_and_costs_no_attempt(
    state: State, clock: Clock
) -> None:
    work = Work()
    work.fails = [Stopped()]
    service = daemon(state, clock, lambda slot: (service.stop.set(), work(slot))[1])  # type: ignore[func-returns-value]
    clock.now += timedelta(days=1)
    service.come_round()
    again = Work()
    daemon(state, clock, again)
    assert again.slots == ["2026-03-02T05:00"]
    assert state.slots()[0].attempts == 1


def test_the_slot_of_a_daemon_that_died_is_taken_over(state: State, clock: Clock) -> None:
    daemon(state, clock, Work())
    clock.now += timedelta(days=1)
    assert state.claim_job("audit", "2026-03-02T05:00", clock.now - timedelta(hours=1), "dead:1") is not None
    work = Work()
    service = daemon(state, clock, work)
    assert work.slots == []
    clock.now += timedelta(minutes=3)
    service.come_round()
    assert work.slots == ["2026-03-02T05:00"]


def test_a_report_waits_for_the_audit_that_another_daemon_is_at(state: State, clock: Clock) -> None:
    reports = Work()
    crons = {"audit": NIGHTLY, "report": Cron("0 5 * * *", "UTC")}
    service = Service(state, crons, {"audit": Work(), "report": reports}, clock)
    service.come_round()
    clock.now += timedelta(days=1)
    token = state.claim_job("audit", "2026-03-02T05:00", clock.now - timedelta(hours=1), "another:1")
    service.come_round()
    assert reports.slots == []
    assert token is not None
    state.end_job(token, "done")
    service.come_round()
    assert reports.slots == ["2026-03-02T05:00"]


def test_a_database_that_goes_away_stops_nothing_for_good(
    state: State, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    service = daemon(state, clock, work)
    clock.now += timedelta(days=1)
    with monkeypatch.context() as away:
        away.setattr(state, "unfinished_jobs", lambda **_: (_ for _ in ()).throw(LakeError("away")))
        service.come_round()
    assert work.slots == []
    service.come_round()
    assert work.slots == ["2026-03-02T05:00"]


def test_a_long_job_keeps_its_claim_and_says_that_it_runs(state: State) -> None:
    started, ended = threading.Event(), threading.Event()

    def work(_: str) -> None:
        started.set()
        ended.wait(10)

    def now() -> datetime:
        return datetime.now(UTC)

    every_minute = Cron("* * * * *", "UTC")
    state.note_baseline("audit", "long ago", now() - timedelta(hours=2))
    service = Service(state, {"audit": every_minute}, {"audit": work}, now, poll_seconds=0.05, beat_seconds=0.05)
    thread = threading.Thread(target=service.run)
    thread.start()
    assert started.wait(10)
    [before] = [slot for slot in state.slots() if slot.status == "running"]
    token_row = state.unfinished_jobs(now=now() + timedelta(minutes=3))
    assert [slot.slot for slot in token_row] == [before.slot]
    assert 'auditor_job_running{job="audit"} 1' in service.metrics()[1]
    service.stop.set()
    ended.set()
    service.wake()
    thread.join(10)
    assert not thread.is_alive()


def test_the_service_tells_of_itself(state: State, clock: Clock) -> None:
    service = daemon(state, clock, Work())
    clock.now += timedelta(days=1)
    service.come_round()
    answers = {"/healthz": service.health, "/readyz": service.readiness, "/metrics": service.metrics}
    with serving("127.0.0.1:0", answers) as address:
        assert address is not None

        def get(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}{path}", timeout=5) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, ""

        assert get("/healthz") == (200, "ok\n")
        assert get("/readyz") == (200, "ready\n")
        assert get("/etc/passwd")[0] == 404
        text = get("/metrics")[1]
        assert 'auditor_job_runs_total{job="audit",status="done"} 1' in text
        assert f'auditor_job_last_success_timestamp_seconds{{job="audit"}} {clock.now.timestamp():.0f}' in text
        assert "auditor_state_up 1" in text
        state.close()
        service.stop.set()
        assert get("/readyz")[0] == 503


@pytest.mark.parametrize("listen", ["8321", "localhost", "localhost:x", "localhost:99999"])
def test_an_address_that_is_none_is_named(listen: str) -> None:
    with pytest.raises(SettingsError, match="HOST:PORT"):
        parse_listen(listen)


def test_systemd_hears_of_us_and_nobody_else_does(tmp_path: Path) -> None:
    assert not systemd.notify("READY=1", {})
    assert not systemd.notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        assert systemd.notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(100) == b"READY=1"
    assert systemd.watchdog_seconds({"WATCHDOG_USEC": "120000000"}) == 120
    assert systemd.watchdog_seconds({"WATCHDOG_USEC": "120000000", "WATCHDOG_PID": "1"}) is None
    assert systemd.watchdog_seconds({}) is None


def test_housekeeping_drops_what_is_old_and_what_killed_runs_left(state: State, clock: Clock, tmp_path: Path) -> None:
    lake, reports = tmp_path / "lake", tmp_path / "reports"
    for folder in (lake, reports / "2026-01-01T05.00", reports / "2026-03-01T05.00"):
        folder.mkdir(parents=True)
    for name in ("old.parquet", "new.parquet", "orphan.parquet", "fresh.parquet"):
        (lake / name).write_bytes(b"x")
        if name != "fresh.parquet":
            os.utime(lake / name, (0, NOW.timestamp() - 200_000))
    os.utime(lake / "fresh.parquet", (0, NOW.timestamp()))
    os.utime(reports / "2026-01-01T05.00", (0, NOW.timestamp() - 500 * 86400))
    os.utime(reports / "2026-03-01T05.00", (0, NOW.timestamp()))
    first = state.begin_run()
    state.finish_run(first, "complete", {"a": 1})
    commit(state, first, a_delivery("old"), [a_file("lake/old.parquet")])
    commit(state, state.begin_run(), a_delivery("new"), [a_file("lake/new.parquet")])
    clock.now += timedelta(days=91)
    for path in (lake / "fresh.parquet", reports / "2026-03-01T05.00"):
        os.utime(path, (0, clock.now.timestamp()))
    dropped = tidy(state, parse({}, "x"), tmp_path, reports, clock.now)
    assert sorted(path.name for path in lake.iterdir()) == ["fresh.parquet", "new.parquet"]
    assert [path.name for path in reports.iterdir()] == ["2026-03-01T05.00"]
    assert (dropped["lake_files"], dropped["left_behind"], dropped["reports"], dropped["documents"]) == (1, 1, 1, 0)


def broken_service(config: Path, how: str) -> subprocess.CompletedProcess[str]:
    """`auditor serve` of which something is broken."""
    program = (
        "import sys\nfrom auditor import daemon, health\nfrom auditor.state import State\n"
        f"{how}\n"
        f"sys.argv = ['auditor', 'serve', '-c', {str(config)!r}, '--listen', '127.0.0.1:0']\n"
        "from auditor.cli import main\nmain()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


def test_a_loop_that_dies_keeps_why_and_ends(state: State, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    service = daemon(state, clock, Work())
    broken = KeyError("odd")
    monkeypatch.setattr(state, "unfinished_jobs", lambda **_: (_ for _ in ()).throw(broken))
    service.run()
    assert service.failure is broken


def test_a_heart_that_dies_gives_the_job_up_and_ends_the_service(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = KeyError("odd")
    monkeypatch.setattr(state, "beat_job", lambda *_, **__: (_ for _ in ()).throw(broken))
    was_lost: list[bool] = []

    def work(_: str) -> None:
        wait_for(lambda: service.is_lost, 10)
        was_lost.append(service.is_lost)
        raise Stopped

    state.note_baseline("audit", "long ago", datetime.now(UTC) - timedelta(hours=2))
    crons = {"audit": Cron("* * * * *", "UTC")}
    service = Service(state, crons, {"audit": work}, lambda: datetime.now(UTC), poll_seconds=0.05, beat_seconds=0.05)
    service.run()
    assert was_lost == [True]
    assert service.failure is broken


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        ("daemon.Service._due = lambda self: {}['odd']", 4, "unexpected failure (KeyError: 'odd')"),
        ("daemon.Path.mkdir = lambda *_, **__: open('/')", 4, "cannot be made: Is a directory"),
        ("health.parse_listen = lambda _: ('192.0.2.1', 9)", 2, "[service] listen"),
    ],
)
def test_a_service_that_dies_or_cannot_start_says_so_and_ends_with_a_failure(
    config: Path, how: str, status: int, message: str
) -> None:
    done = broken_service(config, how)
    assert done.returncode == status
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}


def serve(config: Path, tmp_path: Path, **more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "auditor", "serve", "-c", str(config), "--listen", "127.0.0.1:0", "-v"]
    with (tmp_path / "serve.log").open("a") as log:
        return subprocess.Popen(words, env={**environment(), **more}, stderr=log, cwd=tmp_path, text=True)


def wait_for(check: Callable[[], Any], seconds: float = 90) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.2)
    raise AssertionError("it never came true")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    one_bill(tmp_path / "in")
    path = tmp_path / "auditor.toml"
    path.write_text(
        f'[lake]\ndata_dir = "{tmp_path}/data"\n[[sources.files]]\nname = "x"\npaths = ["{tmp_path}/in"]\n'
        '[schedule]\naudit = "* * * * *"\nreport = "* * * * *"\nhousekeeping = "0 3 1 1 *"\n'
        f'[delivery.files]\npath = "{tmp_path}/drop"\nformats = ["json"]\n'
    )
    (tmp_path / "data").mkdir()
    return path


def due_now(url: str) -> None:
    """Makes the jobs look as if they had run long ago."""
    with State.open(url) as state:
        for job in ("audit", "report"):
            state.note_baseline(job, "long ago", datetime.now(UTC) - timedelta(hours=1))


@contextmanager
def service_manager(path: Path) -> Iterator[list[str]]:
    """What systemd would hear."""
    said: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))

        def listen() -> None:
            while (text := manager.recv(500).decode()) != "end":
                said.append(text)

        thread = threading.Thread(target=listen)
        thread.start()
        yield said
        systemd.notify("end", {"NOTIFY_SOCKET": str(path)})
        thread.join(5)


@pytest.mark.slow
def test_a_service_audits_reports_and_stops_at_once_when_told(config: Path, tmp_path: Path) -> None:
    due_now(str(tmp_path / "data" / "state.db"))
    with service_manager(tmp_path / "notify") as said:
        process = serve(config, tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="3000000")
        try:
            latest = tmp_path / "drop" / "latest" / "findings.json"
            wait_for(latest.is_file)
            [row] = json.loads(latest.read_text())["reconciliation"]
            assert row["lake_billed_cost"] == "4.608000000001"
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert time.monotonic() - begin < 30
        finally:
            process.kill()
            process.wait()
    assert said[0].startswith("READY=1")
    assert said[-1] == "STOPPING=1"
    assert "WATCHDOG=1" in said


@pytest.mark.slow
def test_a_service_killed_in_the_middle_of_an_audit_is_resumed_and_loses_nothing(config: Path, tmp_path: Path) -> None:
    url = str(tmp_path / "data" / "state.db")
    due_now(url)

    def runs(status: str) -> list[Any]:
        with State.open(url) as state:
            return [run for run in state.runs_list() if run.status == status]

    process = serve(config, tmp_path)
    wait_for(lambda: runs("running"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert len(runs("running")) == 0  # the audit gave its lock back
    again = serve(config, tmp_path)
    try:
        wait_for(lambda: runs("complete"))
    finally:
        again.kill()
        again.wait()


@pytest.mark.slow
def test_an_audit_killed_outright_leaves_a_lake_that_the_next_one_completes(config: Path, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "auditor",
        "scan",
        "-c",
        str(config),
        "-o",
        str(tmp_path / "out"),
        "-f",
        "json",
        "-q",
    ]
    for delay in (1.0, 1.6, 2.4):
        process = subprocess.Popen(words, env=environment(), cwd=tmp_path)
        time.sleep(delay)
        process.kill()
        process.wait()
    done = subprocess.run(words, env=environment(), cwd=tmp_path, check=False)
    assert done.returncode == 0
    document = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert [row["difference"] for row in document["reconciliation"]] == ["0"]
    assert [row["lake_billed_cost"] for row in document["reconciliation"]] == ["4.608000000001"]


class Pair:
    """Two services of one database, one lake and one reader, with an audit and a report that are due at once."""

    def __init__(self, folder: Path, socket_folder: Path, post: Any) -> None:
        self.url = f"postgresql://postgres@/postgres?host={socket_folder}"
        self.post = post
        self._folder = folder
        one_bill(folder / "in")
        self._config = folder / "auditor.toml"
        self._config.write_text(
            f'[lake]\ndata_dir = "{folder}/data"\n[state]\nurl = "{self.url}"\n'
            f'[[sources.files]]\nname = "x"\npaths = ["{folder}/in"]\n'
            '[schedule]\naudit = "0 0 1 1 *"\nreport = "0 1 1 1 *"\nhousekeeping = "0 3 29 2 *"\n'
            f'[delivery.smtp]\nhost = "localhost"\nport = {post.port}\nsecurity = "none"\n'
            'sender = "auditor@example.com"\nrecipients = ["finops@example.com"]\n'
        )
        with State.open(self.url) as state:
            for job in ("audit", "report"):
                state.note_baseline(job, "long ago", datetime(2020, 1, 1, tzinfo=UTC))
        self.processes = [self.start(), self.start()]

    def start(self) -> subprocess.Popen[str]:
        """A service in a session of its own, so that it can be killed with all that it started, as a machine dies."""
        words = [sys.executable, "-m", "auditor", "serve", "-c", str(self._config), "--listen", "127.0.0.1:0"]
        with (self._folder / "serve.log").open("a") as log:
            return subprocess.Popen(
                words, env=environment(), stderr=log, cwd=self._folder, text=True, start_new_session=True
            )

    def slots(self) -> dict[str, SlotRecord]:
        with State.open(self.url) as state:
            return {slot.job: slot for slot in state.slots() if slot.status != "baseline"}

    def runs(self) -> list[str]:
        with State.open(self.url) as state:
            return sorted(run.status for run in state.runs_list())

    def is_reported(self) -> bool:
        slots = self.slots()
        return "report" in slots and slots["report"].status == "done"

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pytest.importorskip("aiosmtpd")
    from tests.deliver.conftest import mail_server

    with a_postgres_server() as server, mail_server() as post:
        made = Pair(tmp_path, server.folder, post)
        try:
            yield made
        finally:
            made.end()


@pytest.mark.slow
def test_two_services_of_one_database_audit_and_mail_a_slot_once(pair: Pair) -> None:
    wait_for(pair.is_reported)
    again = pair.start()  # a third, which comes round anew
    pair.processes.append(again)
    time.sleep(8)
    assert pair.runs() == ["complete"]
    assert {job: (slot.status, slot.attempts) for job, slot in pair.slots().items()} == {
        "audit": ("done", 1),
        "report": ("done", 1),
    }
    assert len(pair.post.mails) == 1
    for process in pair.processes:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(30) for process in pair.processes] == [0, 0, 0]


@pytest.mark.slow
def test_a_database_that_is_away_in_an_audit_ends_no_service_and_doubles_no_mail(tmp_path: Path) -> None:
    pytest.importorskip("aiosmtpd")
    import psycopg

    from tests.deliver.conftest import mail_server

    with a_postgres_server() as server, mail_server() as post:
        pair = Pair(tmp_path, server.folder, post)
        try:
            wait_for(lambda: pair.runs() == ["running"])
            server.stop()
            time.sleep(10)
            assert [process.poll() for process in pair.processes] == [None, None]
            server.start()
            # what the outage made fail is tried again in minutes; they pass
            wait_for(lambda: pair.slots()["audit"].status in ("done", "failed"), 60)
            with psycopg.connect(pair.url) as connection:
                connection.execute("update schedule_slots set retry_at = ended_at where status = 'failed'")
            wait_for(pair.is_reported)
            assert pair.runs()[0] == "complete"
            assert "running" not in pair.runs()
            assert pair.slots()["audit"].status == "done"
            assert len(post.mails) == 1
            for process in pair.processes:
                process.send_signal(signal.SIGTERM)
            assert [process.wait(30) for process in pair.processes] == [0, 0]
        finally:
            pair.end()


@pytest.mark.slow
def test_a_service_whose_machine_dies_in_an_audit_is_followed_by_the_other(pair: Pair) -> None:
    import psycopg

    wait_for(lambda: pair.runs() == ["running"])
    dead = int(str(pair.slots()["audit"].owner).rpartition(":")[2])
    with psycopg.connect(pair.url) as connection:  # the other runs elsewhere, where nobody sees our processes
        connection.execute("update schedule_slots set process = null")
        connection.execute("update locks set process = null")
    os.killpg(dead, signal.SIGKILL)
    assert pair.runs() == ["running"]
    with psycopg.connect(pair.url) as connection:  # the minutes pass in which nobody renews the claims of the dead
        connection.execute("update schedule_slots set expires_at = claimed_at where status = 'running'")
        connection.execute("update locks set expires_at = acquired_at")
    wait_for(pair.is_reported)
    assert pair.runs() == ["complete", "interrupted"]
    slots = pair.slots()
    assert (slots["audit"].status, slots["audit"].attempts) == ("done", 2)
    assert int(str(slots["audit"].owner).rpartition(":")[2]) != dead
    assert len(pair.post.mails) == 1
    with State.open(pair.url) as state:
        document = state.run_document(next(run.id for run in state.runs_list() if run.status == "complete"))
    assert document is not None
    assert [(row["difference"], row["lake_billed_cost"]) for row in document["reconciliation"]] == [
        ("0", "4.608000000001")
    ]


def children(pid: int) -> list[int]:
    """The processes that a process started and that still live."""
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's list of processes")
def test_the_audit_of_a_killed_service_ends_with_it_and_the_next_service_does_it_at_once(
    config: Path, tmp_path: Path
) -> None:
    url = str(tmp_path / "data" / "state.db")
    due_now(url)
    with State.open(url) as state:
        with state.run_lock("somebody else"):  # the audit waits, and so is there when its service dies
            process = serve(config, tmp_path)
            [audit] = wait_for(lambda: children(process.pid))
            process.kill()
            process.wait()
            wait_for(lambda: not is_alive(audit), 30)
        begin = time.monotonic()
        again = serve(config, tmp_path)
        try:
            wait_for(lambda: [slot for slot in state.slots() if (slot.job, slot.attempts) == ("audit", 2)], 60)
            wait_for(lambda: [slot for slot in state.slots() if (slot.job, slot.status) == ("audit", "done")], 60)
            assert time.monotonic() - begin < 60  # and not the two minutes for which a claim lives
        finally:
            again.terminate()
            assert again.wait(30) == 0


def a_live_configuration() -> Settings:
    return parse({"sources": {"prometheus": [{"name": "dcgm", "url": "http://127.0.0.1:9"}]}}, "here")


def fetched(monkeypatch: pytest.MonkeyPatch, *collected: Collected) -> None:
    monkeypatch.setattr("auditor.live.pull", lambda *_: list(collected))


REFUSED = Problem("telemetry", "query_range", "connection refused", "all samples")


def test_a_pull_holds_the_run_lock_and_says_what_a_source_did_not_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    locked: list[bool] = []

    def pull(settings: Settings, data_dir: Path, spool: Path, progress: Any, now: datetime) -> list[Collected]:
        with State.open(settings.state.address(data_dir)) as state:
            try:
                with state.run_lock("another"):
                    locked.append(False)
            except RunLocked:
                locked.append(True)
        return [Collected("dcgm", data_dir, 3, []), Collected("slurm", data_dir, 0, [REFUSED])]

    monkeypatch.setattr("auditor.live.pull", pull)
    child.pull(a_live_configuration(), tmp_path, NOW)
    assert locked == [True]
    assert "source=slurm what=query_range reason=connection refused" in caplog.text


def test_a_pull_that_brought_nothing_at_all_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fetched(monkeypatch, Collected("dcgm", tmp_path, 0, [REFUSED]))
    with pytest.raises(LakeError, match="dcgm: connection refused"):
        child.pull(a_live_configuration(), tmp_path, NOW)
    fetched(monkeypatch, Collected("dcgm", tmp_path, 0, []))  # nothing new there is no failure
    child.pull(a_live_configuration(), tmp_path, NOW)


def test_fetching_is_scheduled_only_where_there_is_something_to_fetch(config: Path) -> None:
    config.write_text(config.read_text().replace("[schedule]\n", '[schedule]\npull = "0 * * * *"\n'))
    done = broken_service(config, "")
    assert done.returncode == 2
    assert "no live source is configured" in done.stderr


DIES = """
import os, signal, sys
from auditor import daemon, outbox
from auditor.state import State
stage, config = sys.argv[1:]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
def after(what):
    def done_and_die(*given, **named):
        what(*given, **named)
        die()
    return done_and_die
if stage == "slot claimed":
    daemon._Jobs._send = die
if stage == "reader claimed":
    outbox._digest = die
if stage == "composed":
    outbox._about_to = die
if stage == "handing over":
    import smtplib
    smtplib.SMTP.data = die
if stage == "handed over":
    State.slot_sent = die
if stage == "sent":
    State.slot_sent = after(State.slot_sent)
if stage == "slot to be ended":
    State.end_job = die
if stage == "slot ended":
    State.end_job = after(State.end_job)
sys.argv = ["auditor", "serve", "-c", config, "--listen", "127.0.0.1:0"]
from auditor.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "mails", "status"),
    [
        ("slot claimed", 1, "sent"),
        ("reader claimed", 1, "sent"),
        ("composed", 1, "sent"),
        ("handing over", 0, "unknown"),  # the server got a mail without an end, and threw it away; nobody here knows
        ("handed over", 1, "unknown"),
        ("sent", 1, "sent"),
        ("slot to be ended", 1, "sent"),
        ("slot ended", 1, "sent"),
    ],
)
def test_a_service_killed_at_any_stage_of_a_delivery_is_followed_by_one_that_mails_at_most_once(
    tmp_path: Path, stage: str, mails: int, status: str
) -> None:
    pytest.importorskip("aiosmtpd")
    from tests.deliver.conftest import mail_server
    from tests.deliver.documents import a_document

    url = str(tmp_path / "data" / "state.db")
    with mail_server() as post, State.open(url) as state:
        run = state.begin_run()
        state.finish_run(run, "complete", a_document(id=run), extras=dump_extras(Extras()))
        state.note_baseline("report", "long ago", datetime(2020, 1, 1, tzinfo=UTC))
        config = tmp_path / "auditor.toml"
        config.write_text(
            f'[lake]\ndata_dir = "{tmp_path}/data"\n'
            '[schedule]\naudit = "0 0 29 2 *"\nreport = "0 1 1 1 *"\nhousekeeping = "0 3 29 2 *"\n'
            f'[delivery.smtp]\nhost = "localhost"\nport = {post.port}\nsecurity = "none"\nattach = false\n'
            'sender = "auditor@example.com"\nrecipients = ["finops@example.com"]\n'
        )
        dead = subprocess.run(
            [sys.executable, "-c", DIES, stage, str(config)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert dead.returncode == -signal.SIGKILL, dead.stderr
        process = serve(config, tmp_path)
        try:
            wait_for(lambda: [slot for slot in state.slots() if (slot.job, slot.status) == ("report", "done")], 30)
            wait_for(lambda: "service started" in (tmp_path / "serve.log").read_text(), 30)
        finally:
            process.terminate()
            assert process.wait(30) == 0
        assert [each.status for each in state.notifications()] == [status]
        assert len(post.mails) == mails


@pytest.mark.slow
def test_a_pull_of_the_schedule_fetches_what_the_live_sources_have(tmp_path: Path) -> None:
    from auditor.collect import slurm

    sacct = tmp_path / "sacct"
    job = "4711|hpc|lena|robots|gpu|COMPLETED|1790000000|1790003600|3600|cpu=8,gres/gpu=4|gpu-1|train"
    sacct.write_text("#!/bin/sh\ncat <<'TABLE'\n" + "|".join(slurm.FIELDS) + f"\n{job}\nTABLE\n")
    sacct.chmod(0o755)
    config = tmp_path / "auditor.toml"
    config.write_text(
        f'[lake]\ndata_dir = "{tmp_path}/data"\n[[sources.slurm]]\nname = "cluster"\ncommand = ["{sacct}"]\n'
        '[schedule]\npull = "* * * * *"\naudit = "0 0 29 2 *"\nreport = "0 0 29 2 *"\nhousekeeping = "0 3 29 2 *"\n'
    )
    with State.open(str(tmp_path / "data" / "state.db")) as state:
        state.note_baseline("pull", "long ago", datetime.now(UTC) - timedelta(hours=1))
        process = serve(config, tmp_path)
        try:
            wait_for(lambda: [slot for slot in state.slots() if (slot.job, slot.status) == ("pull", "done")])
        finally:
            process.terminate()
            process.wait(30)
    landed = tmp_path / "data" / "landing" / "cluster"
    assert any("4711" in path.read_text() for path in landed.rglob("*") if path.is_file())
    assert "fetched source=cluster" in (tmp_path / "serve.log").read_text()
