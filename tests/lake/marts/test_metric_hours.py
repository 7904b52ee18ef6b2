"""Samples added up to hours."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from auditor.lake.marts import metric_hours
from tests.lake.marts.conftest import Lake

MACHINE = "i-0aaaabbbbccccdddd"


def test_an_hour_holds_the_figures_of_its_samples(lake: Lake) -> None:
    lake.samples(
        MACHINE,
        "gpu.utilization",
        {f"2026-09-02 01:{minute:02}:00": minute / 100 for minute in (0, 15, 30, 45)},
        device="0",
    ).build_metrics()
    assert lake.rows(
        "select device, metric, hour, samples, expected, mean_value, min_value, max_value, sum_value from metric_hours"
    ) == [
        ("0", "gpu.utilization", datetime(2026, 9, 2, 1), 4, 4.0, pytest.approx(0.225), 0.0, 0.45, pytest.approx(0.9))
    ]


def test_lost_samples_do_not_slow_the_beat_that_is_expected(lake: Lake) -> None:
    lost = {10, 11, 12, 25, 26, 40}
    lake.samples(
        MACHINE, "cpu.iowait", {f"2026-09-02 01:{minute:02}:00": 0.1 for minute in range(60) if minute not in lost}
    ).build_metrics()
    assert lake.rows("select samples, expected from metric_hours") == [(54, 60.0)]


def test_a_single_sample_keeps_the_beat_of_its_kind(lake: Lake) -> None:
    lake.samples(MACHINE, "cpu.iowait", {f"2026-09-02 01:{minute:02}:00": 0.1 for minute in range(0, 60, 5)})
    lake.samples("i-0aaaabbbbcccceeee", "cpu.iowait", {"2026-09-02 01:00:00": 0.1}).build_metrics()
    assert lake.rows("select samples, expected from metric_hours order by samples") == [(1, 12.0), (12, 12.0)]


def test_two_ids_of_one_resource_are_one_series(lake: Lake) -> None:
    lake.charge(ResourceId=MACHINE, day="2026-09-02", EffectiveCost=1)
    lake.samples(MACHINE, "cpu.iowait", {"2026-09-02 01:00:00": 0.1})
    lake.samples(
        f"arn:aws:ec2:us-east-1:111122223333:instance/{MACHINE}", "cpu.iowait", {"2026-09-02 01:30:00": 0.3}
    ).build_metrics()
    assert lake.rows("select ResourceId, samples, mean_value, expected from metric_hours") == [
        (MACHINE, 2, pytest.approx(0.2), 2.0)
    ]


def test_two_sources_of_one_machine_count_once_whatever_their_clocks(lake: Lake) -> None:
    lake.charge(ResourceId=MACHINE, day="2026-09-02", EffectiveCost=1)
    lake.samples(MACHINE, "net.sent_bytes", {f"2026-09-02 01:{minute:02}:07": 10 for minute in range(0, 60)})
    lake.samples(
        f"arn:aws:ec2:us-east-1:111122223333:instance/{MACHINE}",
        "net.sent_bytes",
        {f"2026-09-02 {hour:02}:{minute:02}:00": 50 for hour in (1, 2) for minute in range(0, 60, 5)},
    ).build_metrics()
    assert lake.rows("select hour, samples, sum_value from metric_hours order by hour") == [
        (datetime(2026, 9, 2, 1), 60, 600.0),
        (datetime(2026, 9, 2, 2), 12, 600.0),  # the second source alone
    ]


def test_a_roll_up_under_another_id_does_not_stand_beside_the_devices(lake: Lake) -> None:
    lake.charge(ResourceId=MACHINE, day="2026-09-02", EffectiveCost=1)
    beat = {f"2026-09-02 01:{minute:02}:00": 0.5 for minute in range(0, 60, 5)}
    lake.samples(MACHINE, "gpu.utilization", beat, device="0")
    lake.samples(f"arn:aws:ec2:us-east-1:111122223333:instance/{MACHINE}", "gpu.utilization", beat)
    lake.samples(MACHINE, "cpu.utilization", beat).build_metrics()
    assert lake.rows("select metric, device from metric_hours order by metric") == [
        ("cpu.utilization", ""),
        ("gpu.utilization", "0"),
    ]


def test_a_day_of_another_even_interval_is_measured_by_its_own_beat(lake: Lake) -> None:
    for day, step in ((2, 1), (3, 5), (4, 15)):
        lake.samples(
            MACHINE,
            "gpu.utilization",
            {
                f"2026-09-0{day} {hour:02}:{minute:02}:00": 0.5
                for hour in range(3)
                for minute in range(0, 60, step)
                if (day, hour) != (3, 2) or minute < 30  # half an hour lost
            },
        )
    lake.build_metrics()
    assert lake.rows("select hour::date::varchar, samples, expected from metric_hours order by hour") == [
        *[("2026-09-02", 60, 60.0)] * 3,
        *[("2026-09-03", 12, 12.0)] * 2,
        ("2026-09-03", 6, 12.0),
        *[("2026-09-04", 4, 4.0)] * 3,
    ]


def test_a_day_of_uneven_losses_keeps_the_beat_of_its_series(lake: Lake) -> None:
    even = {f"2026-09-02 {hour:02}:{minute:02}:00": 0.5 for hour in range(6) for minute in range(0, 60, 5)}
    uneven = {f"2026-09-03 01:{minute:02}:00": 0.5 for minute in (0, 5, 20, 25, 45, 55)}
    lake.samples(MACHINE, "gpu.utilization", even | uneven).build_metrics()
    assert lake.rows("select samples, expected from metric_hours where hour >= '2026-09-03'") == [(6, 12.0)]


def test_portions_change_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in range(5):
        lake.samples(
            f"i-0aaaabbbbcccc000{machine}",
            "cpu.iowait",
            {f"2026-09-02 01:{minute:02}:00": minute / 60 for minute in range(0, 60, 7)},
        )
    whole = lake.build_metrics().rows("from metric_hours order by all")
    monkeypatch.setattr(metric_hours, "_PORTION", 10)
    assert lake.build_metrics().rows("from metric_hours order by all") == whole
    assert len(whole) == 5


@pytest.mark.slow
def test_twenty_million_samples_in_any_order_become_hours_and_a_ledger_in_limited_memory(lake: Lake) -> None:
    machines = 145  # x 8 devices x 2 metrics x 30 days of five minutes = 20 million samples
    lake.con.execute("set memory_limit = '1500MB'")
    lake.con.execute(
        f"""
        insert into metrics
        select
            timestamp '2026-09-01' + to_minutes(tick * 5), 'aws', 'i-0' || lpad(to_hex(machine), 16, '0'), device::varchar, metric,
            case when machine % 5 = 0 then 0.01 else hash(machine, device, tick) % 100 / 100 end, 'ratio'
        from range({machines}) as m(machine), range(8) as d(device), range(30 * 288) as t(tick),
            (values ('gpu.utilization'), ('gpu.memory_used_ratio')) as k(metric)
        """
    )
    lake.con.execute(
        f"""
        insert into accelerator_charges by name
        select
            'aws' as provider, 'USD' as BillingCurrency, 'i-0' || lpad(to_hex(machine), 16, '0') as ResourceId, 'accelerator.hours' as usage_kind,
            timestamp '2026-09-01' + to_hours(tick) as hour, 'hour' as grain, 98.32 as EffectiveCost, 1 as ConsumedQuantity, 8 as accelerator_count
        from range({machines}) as m(machine), range(720) as t(tick)
        """
    )
    lake.con.execute("insert into charges by name select * exclude (hour, grain) from accelerator_charges")
    started = time.process_time()
    lake.build()
    assert time.process_time() - started < 60  # about 15 s of work, 10 s on two idle cores
    assert lake.rows("select count(*), sum(EffectiveCost) = 98.32 * 720 * 145 from accelerator_hours") == [
        (machines * 8 * 720, True)
    ]
    lake.con.execute("reset memory_limit")


def test_a_sample_told_with_and_without_its_cloud_counts_once(lake: Lake) -> None:
    google = "//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/1234567890123456789"
    lake.charge(provider="gcp", ResourceId=google, day="2026-09-02", EffectiveCost=1)
    samples = {f"2026-09-02 00:{minute:02d}:00": 100.0 for minute in range(0, 60, 15)}
    for provider in ("gcp", None):
        lake.samples("1234567890123456789", "net.sent_bytes", samples, provider=provider)
    lake.build_metrics()
    assert lake.rows("select ResourceId, samples, expected, sum_value from metric_hours") == [(google, 4, 4, 400)]
