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
