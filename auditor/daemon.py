"""The service: does what the schedule says, one thing at a time, and survives being killed at any moment.

What is due is asked of the database, not remembered: a slot that nobody has claimed is run, whether the clock jumped, the
machine slept, the database was away or the daemon died. APScheduler only wakes the loop at the right moment.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

from auditor import outbox, systemd
from auditor.errors import AuditorError, LakeError, SettingsError
from auditor.health import labelled, metric, serving
from auditor.housekeeping import tidy
from auditor.live import is_live
from auditor.records import SlotRecord
from auditor.schedule import Cron, Due
from auditor.settings import Settings
from auditor.state import State
from auditor.state.slots import MAX_ATTEMPTS

log = logging.getLogger(__name__)

POLL_SECONDS = 20.0  # how late at most a slot is seen that a dead daemon left, or a clock that jumped made due
BEAT_SECONDS = 30.0  # a quarter of what a claim lives without one
_TELLING = ("report", "digest")  # jobs that speak of an audit
STALL_SECONDS = 600.0  # a loop that has not come round for this long, and runs nothing, hangs


class Again(Exception):
    """Part of a job is left to do at a time."""

    def __init__(self, reason: str, at: datetime) -> None:
        super().__init__(reason)
        self.at = at


class Stopped(Exception):
    """The service was told to stop in the middle of a job."""


Job = Callable[[str], None]


@dataclass
class _Running:
    job: str
    slot: str
    token: str
    is_lost: bool = False


class Service:
    """The loop, its heart and what it tells of itself. `jobs` maps a name to what does a slot of it."""

    def __init__(
        self,
        state: State,
        crons: Mapping[str, Cron],
        jobs: Mapping[str, Job],
        clock: Callable[[], datetime],
        poll_seconds: float = POLL_SECONDS,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        self.stop = threading.Event()
        self.failure: Exception | None = None
        self._state = state
        self._crons = crons
        self._jobs = jobs
        self._clock = clock
        self._poll = poll_seconds
        self._beat_every = beat_seconds
        self._wake = threading.Event()
        self._owner = f"{socket.gethostname()}:{os.getpid()}"
        self._running: _Running | None = None
        self._came_round = time.monotonic()
        self._ended: dict[tuple[tuple[str, str], ...], float] = {}
        self._is_ready = False

    def run(self) -> None:
        """Come round until told to stop. Made for a thread: what ends it early is kept as `failure`, not raised."""
        try:
            with self._alarm_clock(), self._heart():
                while not self.stop.is_set() and self.failure is None:
                    self.come_round()
                    self._wake.wait(self._poll)
                    self._wake.clear()
        except Exception as error:
            self.failure = error

    def wake(self) -> None:
        """Look at once for what is due."""
        self._wake.set()

    def come_round(self) -> None:
        """Run every slot that is due and that nobody has claimed, the earliest first."""
        self._came_round = time.monotonic()
        try:
            for job, due in self._due():
                if self.stop.is_set():
                    return
                if not self._waits(job, due):
                    self._take(job, due)
            self._is_ready = True
        except LakeError as error:
            log.warning("state out of reach, trying again reason=%s", error)
        self._came_round = time.monotonic()

    def _due(self) -> list[tuple[str, Due]]:
        now = self._clock()
        found = [(slot.job, Due(slot.slot, slot.slot_at)) for slot in self._unfinished(now)]
        for job, cron in self._crons.items():
            due = cron.last(now)
            if due is None:
                continue
            newest = self._state.newest_slot(job, now=now)
            if newest is None:
                # met for the first time: what was due before the service existed is not caught up
                self._state.note_baseline(job, due.slot, due.at, now=now)
            elif due.at > newest.slot_at:
                found.append((job, due))
        return sorted(dict.fromkeys(found), key=lambda each: each[1].at)

    def _unfinished(self, now: datetime) -> list[SlotRecord]:
        return [slot for slot in self._state.unfinished_jobs(now=now) if slot.job in self._jobs]

    def _waits(self, job: str, due: Due) -> bool:
        """Whether another daemon is at the audit that a report is to tell of.

        A claim that ran out is free to be taken; the last attempt of all is not waited for, as nobody takes it over.
        """
        if job not in _TELLING:
            return False
        free = {slot.slot for slot in self._state.unfinished_jobs(now=self._clock()) if slot.job == "audit"}
        return any(
            (slot.job, slot.status) == ("audit", "running")
            and slot.slot_at <= due.at
            and slot.slot not in free
            and slot.attempts < MAX_ATTEMPTS
            for slot in self._state.slots(50)
        )

    def _take(self, job: str, due: Due) -> None:
        token = self._state.claim_job(job, due.slot, due.at, self._owner, now=self._clock())
        if token is None:
            return
        log.info("job started job=%s slot=%s", job, due.slot)
        begin = time.monotonic()
        self._running = _Running(job, due.slot, token)
        systemd.notify(f"STATUS=running {job} of {due.slot}")
        try:
            status, error, retry_at = self._attempt(job, due)
        finally:
            lost, self._running = self._running.is_lost, None
            systemd.notify("STATUS=waiting for the schedule")
        labels = (("job", job), ("status", status))
        self._ended[labels] = self._ended.get(labels, 0) + 1
        log.log(
            logging.INFO if status == "done" else logging.WARNING,
            "job ended job=%s slot=%s status=%s seconds=%.1f reason=%s",
            job,
            due.slot,
            status,
            time.monotonic() - begin,
            error,
        )
        if not lost:
            self._state.end_job(
                token, status, error=error, retry_at=retry_at, is_counted=not self.stop.is_set(), now=self._clock()
            )

    def _attempt(self, job: str, due: Due) -> tuple[str, str | None, datetime | None]:
        """Status, reason and time of the next try of a slot that was run now."""
        try:
            self._jobs[job](due.slot)
        except Again as later:
            return "failed", str(later), later.at
        except Stopped:
            return "failed", "stopped with the service", self._clock()
        except AuditorError as error:
            return "failed", str(error), self._next_try(job, due)
        except Exception as error:
            # whatever it is, it must not end the service: the other jobs go on, and this one is tried again
            log.debug("job broke job=%s slot=%s", job, due.slot, exc_info=True)
            return "failed", f"{type(error).__name__}: {error}", self._next_try(job, due)
        return "done", None, None

    def _next_try(self, job: str, due: Due) -> datetime:
        attempts = next((s.attempts for s in self._state.slots(200) if (s.job, s.slot) == (job, due.slot)), 1)
        return self._clock() + min(timedelta(minutes=2**attempts), timedelta(hours=1))

    @contextmanager
    def _alarm_clock(self) -> Iterator[None]:
        """Wakes the loop when something is due, to the second."""
        from apscheduler.executors.pool import ThreadPoolExecutor  # type: ignore[import-untyped]
        from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]

        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        alarm = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1)}, timezone="UTC")
        for job, cron in self._crons.items():
            alarm.add_job(self.wake, cron.trigger(), id=job, coalesce=True, misfire_grace_time=None)
        alarm.start()
        try:
            yield
        finally:
            alarm.shutdown(wait=False)

    @contextmanager
    def _heart(self) -> Iterator[None]:
        """Keeps the claim of the job that runs."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(self._beat_every):
                running = self._running
                if running is None:
                    continue
                try:
                    if not self._state.beat_job(running.token, now=self._clock()):
                        running.is_lost = True
                except LakeError as error:
                    log.warning("claim not renewed job=%s reason=%s", running.job, error)
                except Exception as error:
                    # without a heart the claim runs out and another daemon runs the slot: this one must end, and say so
                    running.is_lost = True
                    self.failure = error
                    self.wake()
                    return

        thread = threading.Thread(target=beat, name="auditor-heart", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    @property
    def is_lost(self) -> bool:
        """Whether another daemon took over what is running here."""
        return self._running is not None and self._running.is_lost

    def is_alive(self) -> bool:
        """Whether the loop comes round, or is busy with a job."""
        return self._running is not None or time.monotonic() - self._came_round < STALL_SECONDS

    def health(self) -> tuple[int, str]:
        """Answers /healthz."""
        return (200, "ok\n") if self.is_alive() else (503, "the loop hangs\n")

    def readiness(self) -> tuple[int, str]:
        """Answers /readyz: the state is in reach and the schedule is being kept."""
        try:
            self._state.ping()
        except LakeError as error:
            log.debug("not ready reason=%s", error)
            return 503, "the state database does not answer\n"
        return (200, "ready\n") if self._is_ready and not self.stop.is_set() else (503, "starting or stopping\n")

    def metrics(self) -> tuple[int, str]:
        """Answers /metrics in the text format of Prometheus."""
        now = self._clock()
        due = {job: found.at.timestamp() for job, cron in self._crons.items() if (found := cron.next(now))}
        running = self._running
        busy = {job: float(running is not None and running.job == job) for job in self._crons}
        lines = metric("auditor_info", "gauge", "Version.", labelled("version", {metadata.version("auditor"): 1}))
        lines += metric("auditor_job_runs_total", "counter", "Slots run by this process.", dict(self._ended))
        lines += metric("auditor_job_running", "gauge", "1 while a job runs.", labelled("job", busy))
        lines += metric("auditor_job_next_timestamp_seconds", "gauge", "When a job is due next.", labelled("job", due))
        try:
            lines += self._state_metrics()
            up = 1.0
        except LakeError as error:
            log.debug("no metrics of the state reason=%s", error)
            up = 0.0
        lines += metric("auditor_state_up", "gauge", "1 when the state database answers.", {(): up})
        return 200, "\n".join(lines) + "\n"

    def _state_metrics(self) -> list[str]:
        self._state.ping()
        done = {job: ended.timestamp() for job, ended in self._state.last_done().items()}
        findings, sent = self._state.count_findings(), self._state.count_notifications()
        return [
            *metric(
                "auditor_job_last_success_timestamp_seconds",
                "gauge",
                "When a job last ended well.",
                labelled("job", done),
            ),
            *metric("auditor_findings", "gauge", "Findings by status.", labelled("status", findings)),
            *metric("auditor_notifications", "gauge", "Reports by what became of them.", labelled("status", sent)),
        ]


def run_service(settings: Settings, data_dir: Path, config: Path | None, listen: str | None) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises SettingsError and LakeError for what is wrong at the start, and whatever ended the service by itself.
    """
    if settings.schedule.pull is not None and not is_live(settings):
        raise SettingsError("[schedule] pull: no live source is configured, and an audit reads files by itself")
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(f"the data directory {data_dir} cannot be made: {error.strerror}") from error
    with State.open(settings.state.address(data_dir)) as state:
        jobs = _Jobs(state, settings, data_dir, config)
        crons = settings.schedule.crons()
        service = Service(state, crons, jobs.by_name, _now)
        jobs.service = service
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: service.stop.set())
        answers = {"/healthz": service.health, "/readyz": service.readiness, "/metrics": service.metrics}
        with serving(settings.service.listen if listen is None else listen, answers) as address:
            worker = threading.Thread(target=service.run, name="auditor-service", daemon=True)
            worker.start()
            log.info("service started jobs=%s address=%s", ",".join(crons), address)
            systemd.notify("READY=1\nSTATUS=waiting for the schedule")
            _wait(service, worker)
            systemd.notify("STOPPING=1")
            service.wake()
            worker.join(settings.service.stop_seconds + 5)
            if service.failure is not None:
                log.error("service died reason=%s: %s", type(service.failure).__name__, service.failure)
                raise service.failure
            log.info("service stopped finished=%s", not worker.is_alive())


def _now() -> datetime:
    return datetime.now(UTC)


def _wait(service: Service, worker: threading.Thread) -> None:
    """Until told to stop; says meanwhile that the service is alive, as long as it is."""
    wanted = systemd.watchdog_seconds()
    pause = min(1.0, wanted / 3) if wanted else 1.0
    while not service.stop.wait(pause) and worker.is_alive():
        if wanted and service.is_alive():
            systemd.notify("WATCHDOG=1")


class _Jobs:
    """What each job does."""

    def __init__(self, state: State, settings: Settings, data_dir: Path, config: Path | None) -> None:
        self.service: Service | None = None
        self._state = state
        self._settings = settings
        self._data_dir = data_dir
        self._config = config
        self.by_name: dict[str, Job] = {
            "pull": lambda _: self._pull(),
            "audit": self._audit,
            "report": lambda slot: self._send("report", slot),
            "digest": lambda slot: self._send("digest", slot),
            "housekeeping": lambda _: self._tidy(),
        }

    @property
    def _report_dir(self) -> Path:
        return self._settings.service.report_dir or self._data_dir / "reports"

    def _pull(self) -> None:
        words = ["pull", str(self._data_dir), *([] if self._config is None else [str(self._config)])]
        code, said = self._run_child(words)
        if code != 0:
            raise LakeError(f"fetching ended with exit status {code}: {_last(said)}")

    def _audit(self, slot: str) -> None:
        words = ["scan", "--quiet", "--no-progress", "--log-format", "json", "-v"]
        words += ["--data-dir", str(self._data_dir), "-o", str(self._report_dir / slot.replace(":", "."))]
        words += [word for name in self._settings.service.formats for word in ("-f", name)]
        if self._config is not None:
            words += ["-c", str(self._config)]
        code, said = self._run_child(words)
        if code not in (0, 1, 3):  # found something, or partial: both are audits
            raise LakeError(f"the audit ended with exit status {code}: {_last(said)}")

    def _run_child(self, words: Sequence[str]) -> tuple[int, list[str]]:
        """Exit status and the last lines of stderr of a job in a process of its own; stderr also goes to our own log."""
        child = subprocess.Popen(  # noqa: S603 - our own program, with words of our own
            [sys.executable, "-m", "auditor.child", *words],
            stdin=subprocess.PIPE,  # held open, so that the child sees our end
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        said: list[str] = []

        def pass_on() -> None:
            for line in child.stderr or ():
                said.append(line.rstrip())
                del said[:-20]
                with suppress(OSError):  # our own log may be gone; the audit must not wait for a reader
                    sys.stderr.write(line)

        reader = threading.Thread(target=pass_on, daemon=True)
        reader.start()
        service = self.service
        try:
            while child.poll() is None:
                if service is not None and (service.stop.wait(0.2) or service.is_lost):
                    self._end_child(child)
                    raise Stopped
            reader.join(5)
        finally:
            if child.stdin is not None:
                child.stdin.close()
        return child.returncode, said

    def _end_child(self, child: "subprocess.Popen[str]") -> None:
        child.terminate()
        try:
            child.wait(self._settings.service.stop_seconds)
        except subprocess.TimeoutExpired:
            child.kill()  # what it was about to commit is committed whole or not at all
            child.wait()

    def _send(self, kind: str, slot: str) -> None:
        outcomes = outbox.send_slot(self._state, self._settings, kind, slot, _now)
        waiting = [outcome for outcome in outcomes if outcome.retry_at is not None]
        if waiting:
            first = min(outcome.retry_at for outcome in waiting if outcome.retry_at is not None)
            raise Again(f"{len(waiting)} of {len(outcomes)} deliveries are not over: {waiting[0].error}", first)

    def _tidy(self) -> None:
        tidy(self._state, self._settings, self._data_dir, self._report_dir, _now())


def _last(said: Sequence[str]) -> str:
    return said[-1] if said else "it said nothing"


def describe(slot: SlotRecord) -> str:
    """A slot in one line, for people."""
    tail = f": {slot.error}" if slot.error else ""
    again = f", again at {slot.retry_at:%Y-%m-%d %H:%M} UTC" if slot.retry_at else ""
    return f"{slot.job} of {slot.slot} {slot.status} after {slot.attempts} attempts{again}{tail}"
