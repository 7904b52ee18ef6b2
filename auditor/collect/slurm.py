"""Jobs of a Slurm cluster: what its own sacct prints, as it prints it."""

import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import IO

from auditor.checks import Check
from auditor.collect.work import Collection, Refusal, Task
from auditor.errors import SourceError
from auditor.settings import SlurmSource

log = logging.getLogger(__name__)

FIELDS = (
    "JobID",
    "Cluster",
    "User",
    "Account",
    "Partition",
    "State",
    "Start",
    "End",
    "ElapsedRaw",
    "AllocTRES",
    "NodeList",
    "JobName",  # last: a user may write the delimiter into it
)
NAME = "inventory/slurm/sacct.txt"

# sacct reads and writes times in the zone of where it runs: UTC for the first, Unix seconds for the second.
_ZONE = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
_TIMEOUT_SECONDS = 600
_CHECK_SECONDS = 60
# slurmdbd refuses a wider range than its MaxQueryTimeRange, and a busy one does not come to an end.
_TOO_WIDE = ("too wide of a date range", "timed out", "timeout", "connection reset")
_NARROWEST = timedelta(days=1)
_BLOCK = 64 * 1024
_HIDES = "which jobs held the machines, and whose they were"


class _Failed(Exception):
    """sacct could not be run, or said that it failed."""

    def __init__(self, reason: str, fix: str | None = None) -> None:
        super().__init__(reason)
        self.fix = fix


class _TooWide(_Failed):
    """Less must be asked for."""


def collect(source: SlurmSource, collection: Collection) -> None:
    """Replaces the table of all jobs that ran between `collection.start` and `end`."""
    collection.attempt(Task("inventory", "sacct", _HIDES, lambda: _fetch(source, collection)), _explain)


def _explain(error: Exception) -> Refusal | None:
    return Refusal(str(error), error.fix) if isinstance(error, _Failed) else None


def _fetch(source: SlurmSource, collection: Collection) -> None:
    with tempfile.TemporaryFile(dir=collection.spool) as table:
        _ask(source, collection, collection.start, collection.end, table)
        table.seek(0)
        collection.folder.write(NAME, iter(lambda: table.read(_BLOCK), b""), kind="inventory", now=collection.now)


def _ask(source: SlurmSource, collection: Collection, start: datetime, end: datetime, table: IO[bytes]) -> None:
    """Appends the jobs of a stretch of time, asked for at once or, where that is too much, in halves."""
    collection.budget.spend("slurm:sacct")
    at = table.tell()
    try:
        with tempfile.TemporaryFile(dir=collection.spool) as printed:
            _run([*_command(source), *_arguments(start, end)], printed, _TIMEOUT_SECONDS)
            _append(printed, table, collection)
    except _TooWide:
        table.seek(at)
        table.truncate()
        if end - start <= _NARROWEST:
            raise
        middle = start + (end - start) / 2
        log.info("sacct halved start=%s end=%s", start, end)
        _ask(source, collection, start, middle, table)
        _ask(source, collection, middle, end, table)


def _command(source: SlurmSource) -> list[str]:
    """The command as configured, with sacct's own environment where it runs elsewhere (ssh, kubectl exec, sudo)."""
    command = list(source.command)
    where = max((at for at, word in enumerate(command) if PurePosixPath(word).name == "sacct"), default=0)
    if where == 0:
        return command
    return [*command[:where], "env", *(f"{name}={value}" for name, value in _ZONE.items()), *command[where:]]


def _arguments(start: datetime, end: datetime) -> list[str]:
    # no --state: with one, jobs that were running before and after the time asked for would be left out
    return [
        "--allusers",
        "--parsable2",
        f"--format={','.join(FIELDS)}",
        f"--starttime={start.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
        f"--endtime={end.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
    ]


def _run(command: Sequence[str], printed: IO[bytes], seconds: int) -> None:
    """Raises _Failed with what the command said, _TooWide where it took too long or says that it was asked too much."""
    with tempfile.TemporaryFile() as complaints:
        try:
            done = subprocess.run(  # noqa: S603  # what runs is what the configuration says
                list(command),
                stdin=subprocess.DEVNULL,  # ssh must not wait for a password that nobody types
                stdout=printed,
                stderr=complaints,
                env={**os.environ, **_ZONE},
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _TooWide(f"{command[0]} did not end within {seconds} seconds", "ask a less busy slurmdbd") from error
        except OSError as error:
            raise _Failed(
                f"{command[0]} cannot be run: {error.strerror}",
                'set `command` of [[sources.slurm]], for example ["ssh", "login", "sacct"]',
            ) from error
        complaints.seek(0)
        said = complaints.read(4096).decode("utf-8", "replace").strip()
    if done.returncode == 0:
        if said:
            log.warning("sacct says: %s", said.splitlines()[0])
        return
    reason = f"{command[0]} ended with status {done.returncode}: {' '.join(said.split())[:300] or 'without a word'}"
    if any(words in said.lower() for words in _TOO_WIDE):
        raise _TooWide(reason, "raise MaxQueryTimeRange of slurmdbd.conf")
    raise _Failed(reason, _fix(said.lower()))


def _fix(said: str) -> str | None:
    if "access" in said or "permission denied" in said or "not authorized" in said:
        return "run as a user whom Slurm lets see all jobs: sacctmgr modify user NAME set adminlevel=operator"
    if "accounting storage is disabled" in said:
        return "set AccountingStorageType=accounting_storage/slurmdbd in slurm.conf"
    if "invalid field" in said:
        return "Slurm older than 20.11 does not know these fields: let it print --json, and audit that file"
    return None


def _append(printed: IO[bytes], table: IO[bytes], collection: Collection) -> None:
    """Copies a table, its header once. Raises SourceError where it is none, or where its times are of an unknown zone."""
    printed.seek(0)
    header = printed.readline()
    if header.strip().decode("utf-8", "replace").split("|") != list(FIELDS):
        shown = header[:200].decode("utf-8", "replace").strip()
        raise SourceError(f"sacct printed another table than was asked for: {shown!r}")
    if table.tell() == 0:
        table.write(header)
    start = FIELDS.index("Start")
    for line in printed:
        *cells, name = line.split(b"|", len(FIELDS) - 1)
        if len(cells) > start and not cells[start].isdigit() and b"-" in cells[start]:
            raise _Failed(
                f"sacct writes times in its own zone ({cells[start].decode('utf-8', 'replace')}), which nobody knows here",
                "let `command` set TZ=UTC and SLURM_TIME_FORMAT=%s before sacct",
            )
        table.write(b"|".join([*cells, name.replace(b"|", b" ")]))
        collection.progress.advance(len(line))


def check(source: SlurmSource) -> Iterator[Check]:
    """Whether sacct answers, sees jobs of the last week, and tells their accelerators."""
    subject = f"source {source.name}"
    end = datetime.now(UTC).replace(microsecond=0)
    try:
        with tempfile.TemporaryFile() as printed:
            _run([*_command(source), *_arguments(end - timedelta(days=7), end)], printed, _CHECK_SECONDS)
            printed.seek(0)
            lines = [line.decode("utf-8", "replace").rstrip("\n").split("|") for line in printed]
    except _Failed as error:
        yield Check("bad", subject, str(error), error.fix)
        return
    jobs = [dict(zip(FIELDS, line, strict=False)) for line in lines[1:] if "." not in line[0]]
    users = {job.get("User") for job in jobs}
    yield Check("ok" if jobs else "warn", subject, f"sacct tells {len(jobs):,} jobs of {len(users)} users in 7 days")
    if jobs and len(users) == 1:
        yield Check(
            "warn",
            subject,
            "all jobs are of one user: Slurm may hide the others",
            "run as a user whom Slurm lets see all jobs: sacctmgr modify user NAME set adminlevel=operator",
        )
    if jobs and not any("gres/" in job.get("AllocTRES", "") for job in jobs):
        yield Check(
            "warn",
            f"{subject}: accelerators",
            "no job tells the accelerators it held",
            "set AccountingStorageTRES=gres/gpu in slurm.conf, so that slurmdbd keeps them",
        )
