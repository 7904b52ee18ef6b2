"""An audit killed at every stage: the next one finishes what was left, nothing is lost and nothing is doubled."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from auditor.progress import Silent
from auditor.state import State
from auditor.state.database import Database

HEADER = "bill/PayerAccountId,bill/BillingPeriodStartDate,lineItem/UsageAccountId,lineItem/LineItemType,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/ProductCode,lineItem/UsageType,lineItem/Operation,lineItem/ResourceId,lineItem/UsageAmount,lineItem/UnblendedCost,lineItem/CurrencyCode"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the stages are many: each starts as a copy of this process"),
]


def a_bill(folder: Path, *gateways: str) -> None:
    """Ten days of March of NAT gateways that carry nothing, at 1.080000000001 a day."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"111122223333,2026-03-01T00:00:00Z,111122223333,Usage,2026-03-{day:02}T00:00:00Z,2026-03-{day + 1:02}T00:00:00Z,AmazonEC2,NatGateway-Hours,NatGateway,arn:aws:ec2:us-east-1:111122223333:natgateway/{gateway},24,1.080000000001,USD"
        for gateway in gateways
        for day in range(1, 11)
    ]
    (folder / "cur.csv").write_text("\n".join([HEADER, *lines]) + "\n")


def audit(place: Path) -> int:
    """One audit with its report, as the command line does it."""
    from auditor.cli import main

    sys.argv = ["auditor", "scan", str(place / "in"), "--data-dir", str(place / "data"), "-o", str(place / "out")]
    sys.argv += ["-q", "-f", "json", "-f", "html", "--as-of", "2026-03-11", "--rules", "network.nat_idle"]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def forked(work: Callable[[], int]) -> int:
    """The exit status of work that a copy of this process does; negative for the signal that ended it."""
    child = os.fork()
    if child == 0:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        try:
            os._exit(work())
        except BaseException:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Stages:
    """Counts the moments between which an audit does something lasting, and dies in the one that is asked for."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def reached(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Steps that begin and end, transactions before and after their commit, files before and after they appear."""
        write, replace = Database.write, Path.replace

        @contextmanager
        def watched_write(database: Database) -> Iterator[Any]:
            with write(database) as connection:
                yield connection
                self.reached()
            self.reached()

        def watched_replace(path: Path, target: Any) -> Path:
            self.reached()
            moved = replace(path, target)
            self.reached()
            return moved

        Database.write = watched_write  # type: ignore[assignment, method-assign]
        Path.replace = watched_replace  # type: ignore[method-assign, assignment]
        Silent.start = lambda *_: self.reached()  # type: ignore[method-assign]
        Silent.finish = lambda *_: self.reached()  # type: ignore[method-assign]


def counted(place: Path) -> int:
    """How many stages an audit has that nobody kills; written down, as the audit runs in a copy of this process."""

    def work() -> int:
        stages = Stages(0)
        stages.watch()
        status = audit(place)
        (place / "stages").write_text(str(stages.count))
        return status

    assert forked(work) == 0
    return int((place / "stages").read_text())


def killed(place: Path, stage: int) -> int:
    def work() -> int:
        Stages(stage).watch()
        return audit(place)

    return forked(work)


def remembered(place: Path) -> dict[str, Any]:
    """What is known after an audit, without what tells one run from another."""
    with State.open(str(place / "data" / "state.db")) as state:
        records = sorted(state.list_findings(), key=lambda each: each.subject)
        document = json.loads((place / "out" / "findings.json").read_text())
        live = state.live_files()
        return {
            "findings": [(each.subject[-5:], each.status, each.monthly_savings_net) for each in records],
            "events": [
                [(event.status_from, event.status_to) for event in state.get_finding(each.id).events]
                for each in records
            ],
            "reconciliation": [(row["lake_billed_cost"], row["difference"]) for row in document["reconciliation"]],
            "net": document["totals"]["monthly_savings_net"],
            "live": [(file.table, file.billing_period, file.rows) for file in live],
            "files": [(place / "data" / file.path).is_file() for file in live],
            "left running": [run.id for run in state.runs_list() if run.status == "running"],
        }


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of two gateways, and then another delivery of the month: one of them is gone, and a third is there."""
    place = tmp_path_factory.mktemp("killed")
    a_bill(place / "in", "nat-1", "nat-2")
    assert forked(lambda: audit(place)) == 0
    assert [status for _, status, _ in remembered(place)["findings"]] == ["new", "new"]
    a_bill(place / "in", "nat-1", "nat-3")
    return place


def test_an_audit_killed_at_any_stage_is_made_good_by_the_next(audited: Path, tmp_path: Path) -> None:
    import auditor.scan  # noqa: F401 - loaded once, for all the copies

    whole = tmp_path / "whole"
    shutil.copytree(audited, whole)
    stages = counted(whole)
    expected = remembered(whole)
    assert [(name, status) for name, status, _ in expected["findings"]] == [
        ("nat-1", "open"),
        ("nat-2", "resolved"),
        ("nat-3", "new"),
    ]
    assert expected["reconciliation"] == [("21.60000000002", "0")]
    assert stages > 30
    assert len(expected["live"]) > 2
    assert all(expected["files"])
    assert forked(lambda: audit(whole)) == 0
    once_more = remembered(whole)
    assert ("nat-3", "open") in [(name, status) for name, status, _ in once_more["findings"]]
    for stage in range(1, stages + 1):
        place = tmp_path / "place"
        shutil.copytree(audited, place)
        assert killed(place, stage) == -signal.SIGKILL, stage
        # one that had ended before it was killed was an audit: what it found is no news to the next
        wanted = once_more if ended(place) == 2 else expected
        assert forked(lambda place=place: audit(place)) == 0, stage  # type: ignore[misc]
        assert remembered(place) == wanted, stage
        shutil.rmtree(place)


def ended(place: Path) -> int:
    with State.open(str(place / "data" / "state.db")) as state:
        return sum(run.status == "complete" for run in state.runs_list())
