"""The lake holds the old delivery or the new one, never a mixture, whatever ends a scan and however many run at once."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from auditor.cli.request import make_request
from auditor.errors import LakeError
from auditor.housekeeping import drop_left_behind
from auditor.lake import store
from auditor.progress import Silent
from auditor.scan import ScanResult, scan
from auditor.state import State

NOW = datetime(2026, 11, 3, 6, 0, tzinfo=UTC)
HEADER = (
    "bill/PayerAccountId,bill/BillingPeriodStartDate,lineItem/UsageAccountId,lineItem/LineItemType,"
    "lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/ProductCode,lineItem/UsageType,lineItem/Operation,"
    "lineItem/ResourceId,lineItem/UsageAmount,lineItem/UnblendedCost,lineItem/CurrencyCode"
)
OLD, NEW = Decimal("0.1"), Decimal("0.3")  # what a line costs in the first and in the second delivery


def deliver(place: Path, cost: Decimal, *, resources: int = 50, months: tuple[int, ...] = (9, 10)) -> None:
    """One export of two months; the second delivery has a day more, so that it is the newer one."""
    days = 3 if cost == OLD else 4
    names = [hashlib.sha256(str(resource).encode()).hexdigest()[:17] for resource in range(resources)]
    lines = [
        f"111122223333,2026-{month:02}-01T00:00:00Z,111122223333,Usage,2026-{month:02}-{day:02}T00:00:00Z,"
        f"2026-{month:02}-{day:02}T01:00:00Z,AmazonEC2,BoxUsage:m5.large,RunInstances,i-{names[resource]},1,{cost},USD"
        for month in months
        for day in range(1, days + 1)
        for resource in range(resources)
    ]
    (place / "in").mkdir(exist_ok=True)
    (place / "in" / "bill.csv").write_text("\n".join([HEADER, *lines]) + "\n")


def run(place: Path) -> ScanResult:
    asked = make_request(paths=(str(place / "in"),), data_dir=place / "data", rules=("purchase.expiring*",))
    return scan(asked, Silent(), NOW)


def in_lake(place: Path) -> dict[str, Decimal]:
    """Billing period -> what the live files of the lake hold, read as any scan would read them."""
    con = store.connect("256MiB", 1, place)
    with State.open(f"sqlite:///{place / 'data' / 'state.db'}") as state:
        store.load(con, place / "data", state.live_files())
    rows = con.execute(
        "select strftime(BillingPeriodStart, '%Y-%m'), sum(BilledCost) from charges group by all"
    ).fetchall()
    con.close()
    return dict(rows)


def whole(cost: Decimal, resources: int = 50) -> dict[str, Decimal]:
    amount = cost * resources * (3 if cost == OLD else 4)
    return {"2026-09": amount, "2026-10": amount}


def left_behind(place: Path) -> list[str]:
    with State.open(f"sqlite:///{place / 'data' / 'state.db'}") as state:
        files = [path.relative_to(place / "data").as_posix() for path in (place / "data" / "lake").rglob("*.p*")]
        return state.unreferenced(files)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data directory with the first delivery; the second has arrived."""
    deliver(tmp_path, OLD)
    run(tmp_path)
    assert in_lake(tmp_path) == whole(OLD)
    deliver(tmp_path, NEW)
    return tmp_path


class Death(BaseException):
    """Ends a scan on the spot, as a signal would: nothing catches it and nothing is tidied."""


@pytest.mark.parametrize(
    ("stage", "after"),
    [
        ("before the first file", OLD),
        ("in the middle of a file", OLD),
        ("between two files of a delivery", OLD),
        ("when all files are written", OLD),
        ("after the commit", NEW),
    ],
)
def test_a_scan_that_dies_leaves_one_delivery_whole_and_the_next_is_exact(
    place: Path, monkeypatch: pytest.MonkeyPatch, stage: str, after: Decimal
) -> None:
    write, commit, calls = store._write, State.commit_deliveries, []

    def dying_write(con: duckdb.DuckDBPyConnection, query: str, path: Path, parameters: list[str]) -> int:
        calls.append(path)
        if stage == "before the first file" or (stage == "between two files of a delivery" and len(calls) == 3):
            raise Death
        if stage == "in the middle of a file":
            path.with_suffix(f".{os.getpid()}.part").write_bytes(b"PAR1 and no more")
            raise Death
        return write(con, query, path, parameters)

    def dying_commit(state: State, *given: object) -> list[str]:
        if stage == "when all files are written":
            raise Death
        done = commit(state, *given)  # type: ignore[arg-type]
        if stage == "after the commit":
            raise Death
        return done

    with monkeypatch.context() as patched:
        patched.setattr(store, "_write", dying_write)
        patched.setattr(State, "commit_deliveries", dying_commit)
        with pytest.raises(Death):
            run(place)
    assert in_lake(place) == whole(after)
    document = run(place).document
    assert in_lake(place) == whole(NEW)
    assert {row["lake_billed_cost"] for row in document["reconciliation"]} == {"60"}
    assert {row["difference"] for row in document["reconciliation"]} == {"0"}
    assert not list((place / "data").rglob("*.part"))


def test_what_killed_scans_wrote_is_dropped_by_a_later_one(place: Path) -> None:
    run(place)
    lake = place / "data" / "lake"
    live = next(lake.rglob("*.parquet"))
    unfinished, orphan, fresh = (live.with_name(name) for name in ("a.77.part", "orphan.parquet", "fresh.parquet"))
    for path in (unfinished, orphan, fresh):
        path.write_bytes(b"PAR1")
    long_ago = (NOW - timedelta(days=2)).timestamp()
    os.utime(orphan, (long_ago, long_ago))
    os.utime(fresh, (NOW.timestamp(), NOW.timestamp()))
    with State.open(f"sqlite:///{place / 'data' / 'state.db'}") as state:
        assert drop_left_behind(state, place / "data", NOW) >= 2
    assert (unfinished.exists(), orphan.exists(), fresh.exists(), live.exists()) == (False, False, True, True)
    assert in_lake(place) == whole(NEW)


def test_a_new_state_deletes_nothing_of_a_lake_that_it_does_not_know(place: Path) -> None:
    files = sorted((place / "data" / "lake").rglob("*.parquet"))
    for path in files:
        os.utime(path, (0, 0))
    with State.open(f"sqlite:///{place / 'another.db'}") as state:
        assert drop_left_behind(state, place / "data", NOW) == 0
    assert sorted((place / "data" / "lake").rglob("*.parquet")) == files


def command(place: Path, *before: str) -> list[str]:
    words = ["scan", str(place / "in"), "--data-dir", str(place / "data"), "-o", str(place / "out"), "-q", "-f", "json"]
    return [*before, sys.executable, "-m", "auditor", *words, "--rules", "purchase.expiring*"]


def test_a_disk_that_fills_in_the_middle_of_a_file_leaves_the_old_delivery_and_no_rest(tmp_path: Path) -> None:
    deliver(tmp_path, OLD)
    run(tmp_path)
    resources = 40_000
    deliver(tmp_path, NEW, resources=resources, months=(10,))
    limit = "import resource, os, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); os.execv(sys.argv[1], sys.argv[1:])"
    words = command(tmp_path, sys.executable, "-c", limit)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert in_lake(tmp_path) == whole(OLD)
    assert not list((tmp_path / "data").rglob("*.part"))
    run(tmp_path)
    assert in_lake(tmp_path) == {"2026-09": whole(OLD)["2026-09"], "2026-10": whole(NEW, resources)["2026-10"]}


def test_two_scans_at_once_on_one_data_directory_take_turns(place: Path) -> None:
    scans = [subprocess.Popen(command(place), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=300)[1].decode() for process in scans]
    assert [process.returncode for process in scans] == [0, 0], said
    assert in_lake(place) == whole(NEW)
    assert left_behind(place) == []
    with State.open(f"sqlite:///{place / 'data' / 'state.db'}") as state:
        newest = state.runs_list(limit=2)
        assert {each.status for each in newest} == {"complete"}
        documents = [state.run_document(each.id) for each in newest]
    assert documents[0] is not None
    assert documents[1] is not None
    assert documents[0]["reconciliation"] == documents[1]["reconciliation"]


def test_a_file_of_the_lake_that_is_damaged_is_named(place: Path) -> None:
    run(place)
    for path in (place / "data" / "lake").rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises((LakeError, duckdb.Error)):
        in_lake(place)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_scan_killed_at_a_random_moment_leaves_one_delivery_whole(tmp_path: Path, seed: int) -> None:
    resources = 4_000
    deliver(tmp_path, OLD, resources=resources)
    started = time.monotonic()
    subprocess.run(command(tmp_path), check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - started
    deliver(tmp_path, NEW, resources=resources)
    process = subprocess.Popen(command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(random.Random(seed).uniform(0.2, 1.1) * took)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert in_lake(tmp_path) in (whole(OLD, resources), whole(NEW, resources))
    run(tmp_path)
    assert in_lake(tmp_path) == whole(NEW, resources)
