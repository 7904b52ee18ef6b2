"""Landing folders, budgets and tasks: what every collector stands on."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from auditor import journal, live
from auditor.collect.budget import Budget, BudgetReached
from auditor.collect.folder import LandingFolder, plain
from auditor.collect.local import gather
from auditor.collect.work import Collection, Refusal, Task
from auditor.errors import LakeError, SourceError
from auditor.journal import JOURNAL, Usage
from auditor.normalise.recognise import sort_files
from auditor.progress import Silent
from auditor.settings import Limits

NOW = datetime(2026, 10, 5, 6, 0, tzinfo=UTC)


def opened(path: Path) -> LandingFolder:
    return LandingFolder(path, "prod", "aws", NOW)


def collection(folder: LandingFolder, **limits: int) -> Collection:
    asked = Limits(**limits)
    return Collection(folder, Budget(asked), asked, NOW, NOW, NOW, Silent(), folder.path)


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    def cut() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionError("reset")

    with opened(tmp_path) as folder:
        with pytest.raises(ConnectionError):
            folder.write("billing/a.csv", cut(), kind="billing", now=NOW)
        with pytest.raises(SourceError, match="4 of 9 bytes"):
            folder.write("billing/a.csv", b"half", kind="billing", now=NOW, size=9)
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [JOURNAL]
        folder.write("billing/a.csv", [b"one ", b"file"], kind="billing", now=NOW, etag="e1", size=8)
        assert (tmp_path / "billing/a.csv").read_bytes() == b"one file"


def test_what_lies_whole_in_the_folder_is_known_to_the_next_collection(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.write("a.csv", b"one", kind="billing", now=NOW, etag="e1")
        folder.write("b.csv", b"two", kind="billing", now=NOW, etag="e2")
        folder.set_mark("metrics", {"until": "2026-10-04"})
        folder.drop(["b.csv"])
    with opened(tmp_path) as folder:
        assert folder.holds("a.csv", "e1") and not folder.holds("a.csv", "e9") and not folder.holds("b.csv", "e2")
        assert folder.mark("metrics") == {"until": "2026-10-04"}
    (tmp_path / "a.csv").write_bytes(b"on")  # a disk that was full, or a hand
    with opened(tmp_path) as folder:
        assert not folder.holds("a.csv", "e1")


def test_a_killed_collection_leaves_a_journal_without_an_end_and_the_report_says_so(tmp_path: Path) -> None:
    with opened(tmp_path / "prod") as folder:
        folder.write("a.csv", b"one", kind="billing", now=NOW, etag="e1")
    with (tmp_path / "prod" / JOURNAL).open("a") as stream:
        stream.write('{"file": {"name": "b.c')  # torn by the kill
    files, _ = gather([str(tmp_path)], tmp_path)
    found = live.journals(sort_files(files).recognised)
    (report,) = live.problems(found)
    assert (report.status, report.paths) == ("failed", ["prod"])
    assert "did not come to its end" in (report.message or "")
    with opened(tmp_path / "prod") as folder:
        assert list(folder.entries) == ["a.csv"]
        folder.finish([Usage("ce:GetCostAndUsage", 3, 0, Decimal("0.03"))], NOW)
    finished = journal.read(tmp_path / "prod" / JOURNAL)
    assert finished is not None and live.problems([finished]) == []
    assert live.usage_document([finished, finished]) == [
        {"api": "ce:GetCostAndUsage", "calls": 6, "bytes": 0, "cost": "0.06", "currency": "USD"}
    ]


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/passwd", "a/../../b", "..\\..\\b", "a\0b", "x" * 999])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with opened(tmp_path / "prod") as folder:
        path = folder.write(name, b"1", kind="billing", now=NOW)
    assert path.resolve().is_relative_to((tmp_path / "prod").resolve())
    with pytest.raises(SourceError, match="no name"):
        plain("../..")


def test_one_task_that_fails_stops_no_other_and_is_told_with_its_remedy(tmp_path: Path) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number % 3 == 0:
            raise PermissionError("not authorised")
        done.append(number)

    def explain(error: Exception) -> Refusal | None:
        return Refusal("access is denied", "grant ec2:DescribeVolumes") if isinstance(error, PermissionError) else None

    with opened(tmp_path / "prod") as folder:
        tasks = (
            Task("inventory", "ec2:DescribeVolumes", "volumes", lambda n=n: work(n), region=f"r{n}")  # type: ignore[misc]
            for n in range(100)
        )
        collection(folder, parallel=4).each(tasks, explain)
        folder.finish([], NOW)
    assert sorted(done) == [number for number in range(100) if number % 3]
    found = journal.read(tmp_path / "prod" / JOURNAL)
    assert found is not None
    (report,) = live.problems([found])  # one entry for one reason, wherever it applies
    assert len(report.paths) == 34
    assert report.message == (
        "ec2:DescribeVolumes: access is denied; the report misses volumes; grant ec2:DescribeVolumes"
    )


def test_an_unknown_failure_is_told_as_one_and_a_full_disk_ends_the_collection(tmp_path: Path) -> None:
    def fail(error: Exception) -> None:
        raise error

    with opened(tmp_path) as folder:
        asked = collection(folder)
        assert not asked.attempt(Task("billing", "s3:GetObject", "bills", lambda: fail(KeyError("x"))), lambda _: None)
        assert "failed unexpectedly (KeyError: 'x')" in folder.problems[0].reason
        with pytest.raises(LakeError):
            asked.each([Task("billing", "s3:GetObject", "bills", lambda: fail(LakeError("full")))], lambda _: None)


def test_no_more_tasks_run_at_once_than_allowed(tmp_path: Path) -> None:
    lock, running, most = threading.Lock(), 0, 0
    gate = threading.Event()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(0.02)
        with lock:
            running -= 1

    with opened(tmp_path) as folder:
        collection(folder, parallel=3).each([Task("telemetry", "x", "y", work)] * 30, lambda _: None)
    assert most == 3


def test_a_cap_is_not_passed_and_what_was_refused_is_not_booked() -> None:
    budget = Budget(Limits(money=Decimal("0.02"), calls=10, bytes=100))
    budget.spend("ce:GetCostAndUsage", money=Decimal("0.01"))
    budget.spend("ce:GetCostAndUsage", money=Decimal("0.01"))
    with pytest.raises(BudgetReached, match=r"\[limits\] money = 0.02"):
        budget.spend("ce:GetCostAndUsage", money=Decimal("0.01"))
    with pytest.raises(BudgetReached, match="bytes"):
        budget.spend("s3:GetObject", bytes_=101)
    assert budget.take() == [Usage("ce:GetCostAndUsage", 2, 0, Decimal("0.02"))]
    assert budget.take() == []  # the next source's journal tells of its own part only
    with pytest.raises(BudgetReached):
        budget.spend("ce:GetCostAndUsage", money=Decimal("0.01"))


def test_files_of_several_folders_do_not_share_a_name(tmp_path: Path) -> None:
    for folder in ("a/x", "b/x", "c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "bill.csv").write_text("1")
    (tmp_path / "spool").mkdir()
    paths = [str(tmp_path / folder) for folder in ("a/x", "b/x", "c")]
    names = [file.name for file in gather(paths, tmp_path / "spool")[0]]
    assert len(set(names)) == 3
    assert names[2] == "c/bill.csv"
    assert [file.name for file in gather(paths[:1], tmp_path / "spool")[0]] == ["bill.csv"]
