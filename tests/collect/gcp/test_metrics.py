"""Cloud Monitoring, asked for what is missing and put down as delivered."""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest

from auditor.collect import gcp
from auditor.collect.gcp import metrics
from auditor.collect.local import gather as gather_files
from auditor.collect.work import Collection
from auditor.normalise import telemetry
from auditor.normalise.recognise import sort_files
from auditor.normalise.telemetry.signals import SIGNALS
from auditor.settings import GcpSource
from tests.collect.gcp.conftest import NOW
from tests.collect.gcp.server import Answer, FakeGoogle, error

Make = Callable[..., Collection]
PROJECT = "acme-ml"
GPU = "agent.googleapis.com/gpu/utilization"
SENT = "router.googleapis.com/nat/sent_bytes_count"
VM = f"//compute.googleapis.com/projects/{PROJECT}/zones/us-central1-a/instances/1000"
ROUTER = f"//compute.googleapis.com/projects/{PROJECT}/regions/us-central1/routers/77"
HOUR = timedelta(hours=1)


def source(google: FakeGoogle, *projects: str) -> GcpSource:
    return GcpSource(name="prod", projects=list(projects or (PROJECT,)), inventory=False, endpoint_url=google.url)


def vm(number: int, gpu: int, points: list[tuple[datetime, float]]) -> dict[str, Any]:
    return {
        "metric": {"type": GPU, "labels": {"gpu_number": str(gpu), "model": "L4", "uuid": f"GPU-{number}-{gpu}"}},
        "resource": {
            "type": "gce_instance",
            "labels": {"project_id": PROJECT, "instance_id": str(1000 + number), "zone": "us-central1-a"},
        },
        "raw": points,
    }


def router(points: list[tuple[datetime, float]]) -> dict[str, Any]:
    return {
        "metric": {"type": SENT, "labels": {"nat_gateway_name": "nat"}},
        "resource": {
            "type": "nat_gateway",
            "labels": {"project_id": PROJECT, "region": "us-central1", "router_id": "77", "gateway_name": "nat"},
        },
        "raw": points,
    }


def every(
    minutes: int, since: datetime, until: datetime, value: Callable[[datetime], float]
) -> list[tuple[datetime, float]]:
    steps = int((until - since) / timedelta(minutes=minutes))
    times = (since + timedelta(minutes=minutes * step) for step in range(1, steps + 1))
    return [(when, value(when - timedelta(minutes=minutes))) for when in times]


@pytest.fixture
def watched(google: FakeGoogle) -> FakeGoogle:
    """A GPU whose figure is the hour of the day, and a gateway that carries 100 bytes each half hour; for ten days."""
    since, until = NOW.replace(minute=0) - timedelta(days=5), NOW.replace(minute=0) + timedelta(days=5)
    google.series[(PROJECT, GPU)] = [vm(0, 0, every(30, since, until, lambda when: float(when.hour)))]
    # raw samples bear the moment they were taken at, a little into the hour
    google.series[(PROJECT, GPU)][0]["raw"] = [
        (when - timedelta(minutes=29), value) for when, value in google.series[(PROJECT, GPU)][0]["raw"]
    ]
    google.series[(PROJECT, SENT)] = [router(every(30, since, until, lambda _: 100.0))]
    google.units = {GPU: "%", SENT: "By"}
    return google


def samples(collection: Collection) -> dict[tuple[str, str], dict[datetime, float]]:
    """(resource, metric) -> hour -> figure, as the normaliser reads the folder."""
    files, _ = gather_files([str(collection.folder.path)], collection.spool)
    found = sort_files(files)
    assert found.unread == []
    read: dict[tuple[str, str], dict[datetime, float]] = defaultdict(dict)
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        telemetry.load(con, [one for one in found.recognised if one.kind == "telemetry"])
        telemetry.finish(con)
        rows = con.execute("select resource_id, metric, date_trunc('hour', time), value from metrics").fetchall()
    for resource, metric, hour, value in rows:
        assert hour not in read[(resource, metric)], "an hour counts once"
        read[(resource, metric)][hour.replace(tzinfo=UTC)] = value
    return read


def test_hours_and_sums_are_those_of_the_raw_samples(watched: FakeGoogle, gather: Make) -> None:
    collection = gather(days=2)
    gcp.collect(source(watched), collection)
    assert collection.folder.problems == []
    read = samples(collection)
    wanted = [collection.start + HOUR * hour for hour in range(int((collection.end - collection.start) / HOUR))]
    assert sorted(read[(VM, "gpu.utilization")]) == wanted
    assert all(value == pytest.approx(hour.hour / 100) for hour, value in read[(VM, "gpu.utilization")].items())
    assert read[(ROUTER, "nat.bytes")] == dict.fromkeys(wanted, 200.0)


def test_later_collections_ask_for_what_is_missing_only_and_add_up_exactly(watched: FakeGoogle, gather: Make) -> None:
    gcp.collect(source(watched), gather(days=2))
    first = len(watched.asked("timeSeries"))
    gcp.collect(source(watched), gather(days=2))
    assert len(watched.asked("timeSeries")) == first  # the hour is not over: nothing anew
    start, total = NOW.replace(hour=0, minute=0) - timedelta(days=2), 0
    for later in (timedelta(hours=3), timedelta(hours=9), timedelta(hours=26), timedelta(hours=27)):
        before = len(watched.asked("timeSeries"))
        collection = gather(NOW + later, days=3 if later >= timedelta(days=1) else 2)
        gcp.collect(source(watched), collection)
        asked = watched.asked("timeSeries")[before:]
        assert len(asked) == first
        assert all(
            datetime.fromisoformat(one.one("interval.startTime")) >= NOW.replace(minute=0) - HOUR for one in asked
        )
        total = int((collection.end - start) / HOUR)
    carried = samples(collection)[(ROUTER, "nat.bytes")]
    assert (min(carried), len(carried), sum(carried.values())) == (start, total, 200.0 * total)


def test_the_newest_minutes_wait_until_agents_have_reported(watched: FakeGoogle, gather: Make) -> None:
    collection = gather(NOW.replace(minute=4))
    gcp.collect(source(watched), collection)
    assert max(samples(collection)[(ROUTER, "nat.bytes")]) == NOW.replace(hour=4, minute=0)
    collection = gather(NOW.replace(minute=15))
    gcp.collect(source(watched), collection)
    assert max(samples(collection)[(ROUTER, "nat.bytes")]) == NOW.replace(hour=5, minute=0)


def test_what_lies_wholly_before_the_window_goes(watched: FakeGoogle, gather: Make) -> None:
    collection = gather(days=1)
    gcp.collect(source(watched), collection)
    old = set(collection.folder.entries)
    collection = gather(NOW + timedelta(days=3), days=1)
    gcp.collect(source(watched), collection)
    assert old and not old & set(collection.folder.entries)
    assert not any((collection.folder.path / name).exists() for name in old)


def test_a_wider_window_asks_for_the_older_part_only(watched: FakeGoogle, gather: Make) -> None:
    gcp.collect(source(watched), gather(days=1))
    before = len(watched.asked("timeSeries"))
    collection = gather(days=3)
    gcp.collect(source(watched), collection)
    (window,) = {
        (one.one("interval.startTime"), one.one("interval.endTime"))
        for one in watched.asked("timeSeries")[before:]
        if SENT in one.one("filter")
    }
    assert window == ("2026-10-02T00:00:00Z", "2026-10-04T00:00:00Z")
    carried = samples(collection)[(ROUTER, "nat.bytes")]
    assert sum(carried.values()) == 200.0 * int((collection.end - collection.start) / HOUR)


def test_every_page_is_followed_and_429_on_the_second_loses_nothing(
    watched: FakeGoogle, gather: Make, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_POINTS_A_PAGE", 10)
    watched.in_the_way.append(
        (
            lambda request: SENT in request.one("filter") and request.one("pageToken") == "10",
            [Answer(429, error(429, "RESOURCE_EXHAUSTED"), {"Retry-After": "3"}), Answer(200, cut=20)],
        )
    )
    collection = gather(days=2)
    gcp.collect(source(watched), collection)
    assert collection.folder.problems == [] and 3 in waits
    hours = int((collection.end - collection.start) / HOUR)
    assert sum(samples(collection)[(ROUTER, "nat.bytes")].values()) == 200.0 * hours


def test_series_returned_are_booked_at_their_price_and_the_cap_ends_the_asking(
    watched: FakeGoogle, gather: Make
) -> None:
    collection = gather(days=2)
    gcp.collect(source(watched), collection)
    used = {one.api: one for one in collection.budget.take()}["monitoring:projects.timeSeries.list"]
    assert str(used.money) == "0.0000010"  # two series
    collection = gather(NOW + timedelta(days=1), days=2, calls=3)
    gcp.collect(source(watched), collection)
    assert {"the cap of [limits] calls = 3 is reached" in one.reason for one in collection.folder.problems} == {True}
    collection = gather(NOW + timedelta(days=1), days=2)
    gcp.collect(source(watched), collection)
    carried = samples(collection)[(ROUTER, "nat.bytes")]
    assert max(carried) == collection.end - HOUR


def test_a_denied_project_hides_its_families_and_no_other_project(watched: FakeGoogle, gather: Make) -> None:
    watched.say("projects/secret/timeSeries", Answer(403, error(403, "PERMISSION_DENIED")))
    collection = gather(days=1)
    gcp.collect(source(watched, "secret", PROJECT), collection)
    assert {one.account_id for one in collection.folder.problems} == {"secret"}
    assert {one.hides for one in collection.folder.problems} == {hides for hides, _ in metrics.FAMILIES.values()}
    assert (VM, "gpu.utilization") in samples(collection)


def test_a_file_that_was_taken_away_is_fetched_again(watched: FakeGoogle, gather: Make) -> None:
    collection = gather(days=1)
    gcp.collect(source(watched), collection)
    (name,) = [name for name in collection.folder.entries if "/network/" in name]
    (collection.folder.path / name).unlink()
    collection = gather(days=1)
    gcp.collect(source(watched), collection)
    answers = [json.loads(line) for line in gzip.decompress((collection.folder.path / name).read_bytes()).splitlines()]
    assert answers[0]["unit"] == "By" and answers[0]["timeSeries"][0]["resource"]["labels"]["router_id"] == "77"


def test_every_metric_that_the_reader_knows_is_fetched_or_left_out_on_purpose() -> None:
    fetched = {metric.type for _, family in metrics.FAMILIES.values() for metric in family}
    read = {signal.name.partition("{")[0] for signal in SIGNALS if signal.source == "gcp"}
    assert fetched | set(metrics.LEFT_OUT) == read and not fetched & set(metrics.LEFT_OUT)
    assert not [name for name in fetched if name.endswith("_count") != _is_sum(name)]


def _is_sum(name: str) -> bool:
    return next(one.is_sum for _, family in metrics.FAMILIES.values() for one in family if one.type == name)
