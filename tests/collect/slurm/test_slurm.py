"""Collecting from Slurm: whatever sacct prints, or complains of."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from auditor.collect import slurm
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.local import gather
from auditor.collect.work import Collection
from auditor.journal import Problem
from auditor.normalise.inventory import load
from auditor.normalise.recognise import sort_files
from auditor.progress import Silent
from auditor.settings import Limits, SlurmSource

END = datetime(2026, 10, 31, 6, tzinfo=UTC)
START = END - timedelta(days=32)
HEADER = "|".join(slurm.FIELDS)
JOB = "4711|hpc|lena|robots|gpu|COMPLETED|1790000000|1790003600|3600|cpu=8,gres/gpu=4|gpu-[1-2]|train | deep"
STEP = "4711.batch|hpc|||| COMPLETED|1790000000|1790003600|3600|cpu=8|gpu-1|batch"


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that stands in for sacct; the test writes what it does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "sacct"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TZ", "America/New_York")
    return script


def does(script: Path, text: str) -> None:
    script.write_text(f'#!/bin/sh\necho "$TZ $SLURM_TIME_FORMAT $*" >> {script}.log\n{text}\n', "utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


def prints(*lines: str) -> str:
    return "cat <<'TABLE'\n" + "\n".join(lines) + "\nTABLE"


def calls(script: Path) -> list[str]:
    return Path(f"{script}.log").read_text("utf-8").splitlines()


def pull(path: Path, source: SlurmSource | None = None) -> list[Problem]:
    with LandingFolder(path, "cluster", None, END) as folder:
        work = Collection(folder, Budget(Limits()), Limits(), START, END, END, Silent(), path)
        slurm.collect(source or SlurmSource(name="cluster"), work)
        return folder.problems


def test_jobs_become_landing_files_that_the_audit_reads(sacct: Path, tmp_path: Path) -> None:
    does(sacct, prints(HEADER, JOB, STEP))
    assert pull(tmp_path / "landing") == []
    assert calls(sacct) == [
        f"UTC %s --allusers --parsable2 --format={','.join(slurm.FIELDS)} "
        "--starttime=2026-09-29T06:00:00 --endtime=2026-10-31T06:00:00"
    ]
    found = sort_files(gather([str(tmp_path / "landing")], tmp_path)[0])
    files = [each for each in found.recognised if each.kind == "inventory"]
    assert [each.format for each in files] == ["slurm-sacct"]
    import duckdb

    con = duckdb.connect()
    reports = load(con, files)
    assert [report.status for report in reports] == ["ok"]
    assert con.execute("select resource_id, name, state from resources_seen").fetchall() == [
        ("slurm/hpc/4711", "train   deep", "completed")
    ]


def test_a_later_table_replaces_the_earlier_one(sacct: Path, tmp_path: Path) -> None:
    does(sacct, prints(HEADER, JOB))
    pull(tmp_path / "landing")
    does(sacct, prints(HEADER, JOB.replace("COMPLETED", "RUNNING")))
    pull(tmp_path / "landing")
    table = (tmp_path / "landing" / slurm.NAME).read_text("utf-8").splitlines()
    assert (len(table), table[1].split("|")[5]) == (2, "RUNNING")


@pytest.mark.parametrize(
    ("text", "reason", "fix"),
    [
        ("echo 'sacct: error: Access/permission denied' >&2; exit 1", "Access/permission denied", "adminlevel"),
        ("echo 'Slurm accounting storage is disabled' >&2; exit 1", "storage is disabled", "AccountingStorageType"),
        ("exit 255", "status 255: without a word", None),
        ("echo hello", "another table", None),
        (prints(HEADER, JOB.replace("1790000000", "2026-10-01T08:00:00")), "its own zone", "TZ=UTC"),
    ],
    ids=["denied", "disabled", "silent", "no-table", "local-time"],
)
def test_what_sacct_complains_of_is_told_and_the_older_table_stays(
    sacct: Path, tmp_path: Path, text: str, reason: str, fix: str | None
) -> None:
    does(sacct, prints(HEADER, JOB))
    pull(tmp_path / "landing")
    before = (tmp_path / "landing" / slurm.NAME).read_bytes()
    does(sacct, text)
    [problem] = pull(tmp_path / "landing")
    assert reason in problem.reason
    assert fix is None or fix in str(problem.fix)
    assert problem.hides == "which jobs held the machines, and whose they were"
    assert (tmp_path / "landing" / slurm.NAME).read_bytes() == before


def test_a_missing_command_is_told(tmp_path: Path) -> None:
    [problem] = pull(tmp_path / "landing", SlurmSource(name="cluster", command=["/nowhere/sacct"]))
    assert "cannot be run" in problem.reason


def test_a_range_that_is_too_wide_is_asked_for_in_parts(sacct: Path, tmp_path: Path) -> None:
    does(
        sacct,
        'case "$*" in *starttime=2026-09-29*endtime=2026-10-31*) '
        f"echo 'Too wide of a date range in query' >&2; exit 1;; esac\n{prints(HEADER, JOB)}",
    )
    assert pull(tmp_path / "landing") == []
    assert [call.split()[-2:] for call in calls(sacct)] == [
        ["--starttime=2026-09-29T06:00:00", "--endtime=2026-10-31T06:00:00"],
        ["--starttime=2026-09-29T06:00:00", "--endtime=2026-10-15T06:00:00"],
        ["--starttime=2026-10-15T06:00:00", "--endtime=2026-10-31T06:00:00"],
    ]
    assert (tmp_path / "landing" / slurm.NAME).read_text("utf-8").count(HEADER) == 1


def test_a_command_that_hangs_is_ended(sacct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(slurm, "_NARROWEST", timedelta(days=20))
    does(sacct, "exec sleep 30")
    [problem] = pull(tmp_path / "landing")
    assert "did not end within" in problem.reason


def test_the_zone_is_set_where_sacct_runs(sacct: Path, tmp_path: Path) -> None:
    does(sacct, prints(HEADER, JOB))
    remote = tmp_path / "bin" / "elsewhere"
    remote.write_text('#!/bin/sh\nshift\nexec env -u TZ -u SLURM_TIME_FORMAT "$@"\n', "utf-8")
    remote.chmod(0o755)
    assert pull(tmp_path / "landing", SlurmSource(name="cluster", command=[str(remote), "login", "sacct"])) == []
    assert calls(sacct)[0].startswith("UTC %s --allusers")


def test_doctor_tells_what_slurm_hides(sacct: Path) -> None:
    does(sacct, prints(HEADER, JOB.replace("gres/gpu=4", "mem=1G")))
    said = [(each.state, each.fix) for each in slurm.check(SlurmSource(name="cluster"))]
    assert [state for state, _ in said] == ["ok", "warn", "warn"]
    assert "adminlevel" in str(said[1][1])
    assert "AccountingStorageTRES" in str(said[2][1])
    does(sacct, "exit 1")
    assert [each.state for each in slurm.check(SlurmSource(name="cluster"))] == ["bad"]
