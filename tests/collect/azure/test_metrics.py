"""Azure Monitor in batches: only what is missing, and every sum exact."""

import gzip
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from auditor.collect.azure import metrics
from auditor.journal import Journal
from auditor.settings import Limits
from tests.collect.azure.fake import NOW, Cloud, Seen, denied, machine, throttled

Pull = Callable[..., Journal]
ML, APPS = "11111111-0000-0000-0000-000000000001", "11111111-0000-0000-0000-000000000010"
ONLY = {"inventory": False}


def nat(subscription: str = ML) -> dict[str, object]:
    kind = "Microsoft.Network/natGateways"
    return {
        "id": f"/subscriptions/{subscription}/resourceGroups/rg/providers/{kind}/nat-a",
        "name": "nat-a",
        "type": kind.lower(),
        "location": "eastus",
        "subscriptionId": subscription,
        "properties": {},
    }


def series(resource: str, metric: str, when: datetime) -> list[tuple[dict[str, str], dict[str, float]]]:
    if metric.startswith("Data Disk"):
        return [({"LUN": str(lun)}, {"average": 1.0}) for lun in range(12)]
    return [({}, {"average": 1.0, "total": float(when.day * 100 + when.hour)})]


@pytest.fixture
def estate(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Enough machines for two batches, which are small here."""
    monkeypatch.setattr(metrics, "_BATCH", 5)
    cloud.subscriptions = [ML, APPS]
    cloud.resources = [*(machine(ML, f"vm-{n:03d}") for n in range(6)), machine(APPS, "vm-x"), nat()]
    cloud.series = series
    return cloud


def batches(cloud: Cloud) -> list[Seen]:
    return [seen for seen in cloud.seen if seen.path.endswith(":getBatch")]


def telemetry(journal: Journal) -> list[str]:
    return sorted(name for name in journal.entries if name.startswith("telemetry/"))


def test_fifty_resources_of_one_subscription_and_type_share_a_call(
    estate: Cloud, pull: Pull, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    estate.resources += [machine(ML, f"vm-{n:03d}") for n in range(6, 60)]
    journal = pull(days=0, **ONLY)
    assert journal.problems == []
    counts = sorted(
        (seen.path.split("/")[2], seen.query.get("filter", ""), len(seen.body["resourceids"]))
        for seen in batches(estate)
    )
    split = "LUN eq '*'"
    machines = [(ML, "", 1), (ML, "", 10), (ML, "", 50), (ML, split, 10), (ML, split, 50)]
    assert counts == sorted([*machines, (APPS, "", 1), (APPS, split, 1)])
    assert all(int(seen.query["top"]) > 1000 for seen in batches(estate) if "filter" in seen.query)


def test_a_month_and_more_is_asked_in_windows_of_thirty_days(estate: Cloud, pull: Pull) -> None:
    estate.resources = [nat()]
    pull(days=33, **ONLY)
    spans = sorted((seen.query["starttime"], seen.query["endtime"]) for seen in batches(estate))
    assert [span[0][:13] for span in spans] == ["2026-08-31T00", "2026-09-30T00"]
    assert spans[0][1] == spans[1][0]


def test_a_second_pull_in_the_same_hour_asks_for_no_metric(estate: Cloud, pull: Pull) -> None:
    first = pull(days=0, **ONLY)
    estate.seen.clear()
    second = pull(days=0, **ONLY)
    assert batches(estate) == []
    assert second.entries == first.entries


def test_a_later_pull_asks_for_the_hours_since_and_all_of_what_is_new(estate: Cloud, pull: Pull) -> None:
    estate.resources = [machine(ML, "vm-old")]
    pull(days=0, **ONLY)
    estate.seen.clear()
    estate.resources.append(machine(ML, "vm-new"))
    pull(now=NOW + timedelta(hours=5), days=0, **ONLY)
    asked = {(seen.body["resourceids"][0].rpartition("/")[2], seen.query["starttime"][:13]) for seen in batches(estate)}
    assert asked == {("vm-old", "2026-10-03T05"), ("vm-new", "2026-10-03T00")}


def test_files_wholly_before_the_window_are_dropped(estate: Cloud, pull: Pull) -> None:
    estate.resources = [nat()]
    first = telemetry(pull(days=3, **ONLY))
    later = telemetry(pull(now=NOW + timedelta(days=9), days=3, **ONLY))
    assert first and not set(first) & set(later)


def test_overlapping_hours_are_counted_once(estate: Cloud, pull: Pull, tmp_path: Path) -> None:
    import duckdb

    from auditor.landing import LandingFile
    from auditor.normalise import telemetry as room
    from auditor.normalise.look import look

    estate.resources = [nat()]
    incomplete = NOW.replace(minute=0) - timedelta(hours=1)
    estate.series = lambda resource, metric, when: [({}, {"total": 1.0 if when == incomplete else 7.0})]
    pull(days=2, **ONLY)
    estate.series = lambda resource, metric, when: [({}, {"total": 7.0})]
    journal = pull(now=NOW + timedelta(hours=3), days=2, **ONLY)
    assert len(telemetry(journal)) == 2
    recognised = []
    for name in telemetry(journal):
        path = tmp_path / "azure" / name
        file = LandingFile(path, name, path.stat().st_size)
        found = room.recognise(file, look(file))
        assert found is not None
        recognised.append(found)
    with duckdb.connect() as con:
        room.load(con, recognised)
        room.finish(con)
        row = con.execute("select sum(value), count(*) from metrics where metric = 'nat.bytes'").fetchone()
    hours = 2 * 24 + 6 + 3
    assert row == (7.0 * hours, hours)


def test_throttling_of_one_batch_is_waited_out(estate: Cloud, pull: Pull) -> None:
    estate.once(lambda seen: ":getBatch" in seen.path, throttled(Retry_After="0.05"), throttled(Retry_After="0.05"))
    journal = pull(days=0, **ONLY)
    assert journal.problems == []
    assert len(telemetry(journal)) == 7


def test_a_denied_subscription_costs_no_other_its_metrics_and_is_asked_again(estate: Cloud, pull: Pull) -> None:
    denying = [True]
    estate.faults.append(lambda seen: denied() if denying[0] and f"{APPS}/metrics" in seen.path else None)
    journal = pull(days=0, **ONLY)
    assert {(problem.account_id, problem.region) for problem in journal.problems} == {(APPS, "eastus")}
    fix = journal.problems[0].fix
    assert fix is not None and "Microsoft.Insights/Metrics/Read" in fix and f"/subscriptions/{APPS}" in fix
    assert len(telemetry(journal)) == 5
    denying[0] = False
    estate.seen.clear()
    journal = pull(days=0, **ONLY)
    assert {seen.path.split("/")[2] for seen in batches(estate)} == {APPS}
    assert len(telemetry(journal)) == 7


def test_an_answer_that_is_cut_is_asked_for_again_and_never_half(estate: Cloud, pull: Pull, tmp_path: Path) -> None:
    estate.resources = [nat()]
    cuts = [500]
    estate.cut_after = lambda seen: cuts.pop() if cuts and ":getBatch" in seen.path else None
    journal = pull(days=0, **ONLY)
    (name,) = telemetry(journal)
    document = json.loads(gzip.decompress((tmp_path / "azure" / name).read_bytes()))
    assert len(document["values"][0]["value"][0]["timeseries"][0]["data"]) == 6
    assert not cuts
    assert journal.problems == []


def test_a_batch_that_is_too_large_for_azure_is_halved(estate: Cloud, pull: Pull) -> None:
    too_large = (413, {}, b'{"error": {"code": "RequestEntityTooLarge", "message": "too large"}}')
    estate.always(lambda seen: ":getBatch" in seen.path and len(seen.body["resourceids"]) > 2, too_large)
    journal = pull(days=0, **ONLY)
    assert journal.problems == []
    assert len(telemetry(journal)) == 2 * (3 + 1 + 1) + 1  # five in three parts, one, another one; and a gateway
    estate.seen.clear()
    pull(days=0, **ONLY)
    assert batches(estate) == []


def test_after_a_kill_only_what_is_missing_is_asked_for(
    estate: Cloud, pull: Pull, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Killed(BaseException):
        pass

    ask, asked = metrics._ask, []

    def dying(*args: object) -> object:
        asked.append(args)
        if len(asked) == 4:
            raise Killed
        return ask(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(metrics, "_ask", dying)
    with pytest.raises(Killed):
        pull(days=0, limits=Limits(parallel=1), **ONLY)
    monkeypatch.setattr(metrics, "_ask", ask)
    lying = len(list((tmp_path / "azure" / "telemetry").rglob("*.gz")))
    assert lying >= 3
    estate.seen.clear()
    journal = pull(days=0, limits=Limits(parallel=1), **ONLY)
    assert len(batches(estate)) == 7 - lying
    assert len(telemetry(journal)) == 7
    assert journal.problems == []


def test_more_series_than_were_asked_for_are_told(estate: Cloud, pull: Pull, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_TOP", 12)
    estate.resources = [machine(ML, "vm-a")]
    (problem,) = pull(days=0, **ONLY).problems
    assert "12 series of one resource" in problem.reason


def test_calls_are_booked_with_their_price(estate: Cloud, pull: Pull) -> None:
    journal = pull(days=0, **ONLY)
    (used,) = [usage for usage in journal.usage if usage.api == "monitor:metrics.getBatch"]
    assert (used.calls, str(used.money)) == (7, "0.00007")
    assert used.bytes > 1_000


def test_a_cap_on_money_stops_the_metrics(estate: Cloud, pull: Pull) -> None:
    journal = pull(days=0, limits=Limits(money="0.00003", parallel=1), **ONLY)  # type: ignore[arg-type]
    assert len(telemetry(journal)) == 3
    assert len(journal.problems) == 4
    assert "[limits] money" in journal.problems[0].reason
