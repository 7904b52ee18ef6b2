"""The neutral metrics table."""

from datetime import datetime

import pytest

HEADER = "time,provider,resource_id,device,metric,value\n"
ONE = "i-0aaaabbbbccccdddd"


def test_a_csv_sample_keeps_its_time_in_utc_whatever_its_offset(lake):
    path = lake.put(
        "m.csv",
        HEADER
        + f"2026-10-01T00:00:00Z,aws,{ONE},0,gpu.utilization,0.5\n"
        + f"2026-10-01T03:00:00+02:00,aws,{ONE},0,gpu.utilization,0.25\n"
        + f"2026-10-01 02:00:00,aws,{ONE},0,gpu.utilization,0.75\n",
    )
    (report,) = lake.load(path)
    assert (report.status, report.rows, report.format) == ("ok", 3, "metrics-csv")
    assert lake.rows("time, value") == [
        (datetime(2026, 10, 1, 0), 0.5),
        (datetime(2026, 10, 1, 1), 0.25),
        (datetime(2026, 10, 1, 2), 0.75),
    ]


def test_ratios_a_little_over_one_are_capped_and_impossible_ones_dropped_and_both_are_counted(lake):
    values = ["1.0", "1.3", "1.5", "1.51", "-0.003", "9223372036854775794", "NaN"]
    path = lake.put(
        "m.csv",
        HEADER + "".join(f"2026-10-01T0{i}:00:00Z,aws,{ONE},0,gpu.utilization,{v}\n" for i, v in enumerate(values)),
    )
    (report,) = lake.load(path)
    assert [row[2] for row in lake.rows()] == [1.0, 1.0, 1.0]
    assert "2 ratios up to 1.5 capped" in report.message
    assert "4 samples dropped" in report.message


def test_rows_that_cannot_be_read_and_names_that_are_unknown_are_counted_not_guessed(lake):
    path = lake.put(
        "m.csv",
        HEADER
        + f"yesterday,aws,{ONE},0,gpu.utilization,0.1\n"
        + f"2026-10-01T00:00:00Z,aws,{ONE},0,gpu.utilization,\n"
        + f"2026-10-01T00:00:00Z,aws,{ONE},0,gpu.temperature,55\n"
        + f"2026-10-01T00:00:00Z,aws,{ONE},0,gpu.utilization,0.5,too,many\n"
        + f"2026-10-01T01:00:00Z,aws,{ONE},0,gpu.utilization,0.2\n",
    )
    (report,) = lake.load(path)
    assert lake.rows("value") == [(0.2,)]
    assert "3 rows dropped" in report.message
    assert "gpu.temperature (1)" in report.message


def test_a_stated_unit_is_converted_and_a_missing_one_is_never_guessed_from_the_value(lake):
    path = lake.put(
        "m.csv",
        HEADER.replace("value", "value,unit")
        + f"2026-10-01T00:00:00Z,aws,{ONE},0,gpu.utilization,0.9,percent\n"
        + f"2026-10-01T01:00:00Z,aws,{ONE},0,gpu.utilization,0.9,\n"
        + f"2026-10-01T02:00:00Z,aws,{ONE},0,gpu.utilization,0.9,bytes\n",
    )
    (report,) = lake.load(path)
    assert [row[0] for row in lake.rows("value, unit_source")] == pytest.approx([0.009, 0.9])
    assert "1 samples dropped (declared in a unit" in report.message


def test_parquet_with_zoned_times_and_jsonl_give_what_csv_gives(lake):
    target = lake.folder / "m.parquet"
    lake.con.execute(
        f"""copy (select timestamptz '2026-10-01 00:00:00+00' as "time", 'gcp' as provider, '//compute.googleapis.com/x' as resource_id,
        null as device, 'cpu.iowait' as metric, 0.25 as "value") to '{target}' (format parquet)"""
    )
    jsonl = lake.put(
        "m.jsonl.gz",
        '{"time": "2026-10-01T01:00:00Z", "provider": null, "resource_id": "/subscriptions/s/vm", "metric": "cpu.iowait", "value": 0.5}\n'
        '{"time": "2026-10-01T01:00:00Z", "provider": "Azure", "resource_id": "/subscriptions/s/vm", "device": 3,'
        ' "metric": "gpu.utilization", "value": 0.5}\n',
    )
    reports = lake.load(target, jsonl)
    assert [report.rows for report in reports] == [1, 2]
    assert lake.rows("time, provider, device, value") == [
        (datetime(2026, 10, 1, 0), "gcp", "", 0.25),
        (datetime(2026, 10, 1, 1), "azure", "", 0.5),
        (datetime(2026, 10, 1, 1), "azure", "3", 0.5),
    ]


def test_of_samples_delivered_twice_the_last_stays(lake):
    line = f"2026-10-01T00:00:00Z,aws,{ONE},0,gpu.utilization,"
    lake.load(
        lake.put("a/m.csv", HEADER + line + "0.1\n" + line + "0.2\n"), lake.put("b/m.csv", HEADER + line + "0.3\n")
    )
    assert lake.rows("value") == [(0.3,)]
    assert "2 repeated samples removed, the last of each kept" in lake.remarks


def test_a_roll_up_goes_where_devices_have_samples_and_stays_where_they_have_none(lake):
    rows = [
        ("2026-10-01T00:00:00Z", "0", "gpu.utilization", 0.2),
        ("2026-10-01T00:00:00Z", "", "gpu.utilization", 0.4),
        ("2026-10-02T00:00:00Z", "", "gpu.utilization", 0.6),
        ("2026-10-01T00:00:00Z", "", "cpu.iowait", 0.1),
    ]
    lake.load(lake.put("m.csv", HEADER + "".join(f"{t},aws,{ONE},{d},{m},{v}\n" for t, d, m, v in rows)))
    assert lake.rows("metric, device, value") == [
        ("cpu.iowait", "", 0.1),
        ("gpu.utilization", "", 0.6),
        ("gpu.utilization", "0", 0.2),
    ]


def test_a_damaged_file_is_named_its_good_rows_count_and_the_others_are_read(lake):
    lines = "".join(
        f"2026-10-{d:02}T{h:02}:00:00Z,aws,{ONE},0,gpu.utilization,0.{h}\n" for d in range(1, 29) for h in range(24)
    )
    cut = lake.put("cut.csv.gz", HEADER + lines)
    cut.write_bytes(cut.read_bytes()[:-60])
    fine = lake.put("fine.csv", HEADER + f"2026-11-01T00:00:00Z,aws,{ONE},0,gpu.utilization,0.5\n")
    by_name = {report.paths[0]: report for report in lake.load(cut, fine)}
    assert by_name["fine.csv"].status == "ok"
    assert by_name["cut.csv.gz"].status == "failed"
    assert "samples before the damage count" in by_name["cut.csv.gz"].message
    assert 0 < by_name["cut.csv.gz"].rows < 28 * 24
    assert len(lake.rows()) == by_name["cut.csv.gz"].rows + 1


def test_utf_16_with_semicolons_is_read(lake):
    text = HEADER.replace(",", ";") + f"2026-10-01T00:00:00Z;aws;{ONE};0;gpu.utilization;0.5\n"
    (report,) = lake.load(lake.put("m.csv", text.encode("utf-16")))
    assert (report.status, report.rows) == ("ok", 1)


def test_other_tables_are_not_taken_for_telemetry(lake):
    assert lake.recognise(lake.put("metrics.csv", "day,name,value\n2026-10-01,x,1\n")) is None
    assert lake.recognise(lake.put("metrics.json", {"Reservations": []})) is None
    assert lake.recognise(lake.put("page.json", {"value": [{"id": "/subscriptions/s", "name": "vm"}]})) is None


def test_parquet_with_broken_pages_costs_only_itself(lake):
    for name in ("a.parquet", "b.parquet"):
        lake.con.execute(
            f"""copy (select timestamp '2026-10-01' + to_seconds(i * 60) as "time", 'aws' as provider, '{ONE}' as resource_id,
            '0' as device, 'gpu.utilization' as metric, (hash(i) % 1000) / 1000.0 as "value" from range(50000) t(i))
            to '{lake.folder / name}' (format parquet)"""
        )
    broken = lake.folder / "a.parquet"
    data = bytearray(broken.read_bytes())
    data[100 : len(data) // 2] = bytes(len(data) // 2 - 100)
    broken.write_bytes(data)
    by_name = {report.paths[0]: report for report in lake.load(broken, lake.folder / "b.parquet")}
    assert (by_name["a.parquet"].status, by_name["a.parquet"].rows) == ("failed", 0)
    assert "deliver the file again" in by_name["a.parquet"].message
    assert (by_name["b.parquet"].status, by_name["b.parquet"].rows) == ("ok", 50000)
    assert len(lake.rows()) == 50000


@pytest.mark.shared
def test_every_monitoring_file_of_the_development_data_is_read_without_loss(lake):
    from pathlib import Path

    from auditor.landing import LandingFile
    from auditor.normalise.look import look
    from auditor.normalise.telemetry import load, recognise

    folders = sorted((Path(__file__).parents[4] / "shared").glob("estates/*/data/monitoring"))
    if not folders:
        pytest.skip("no shared development data beside the repository")
    files = [LandingFile(path, path.name, path.stat().st_size) for path in sorted(folders[0].iterdir())]
    found = [recognise(file, look(file)) for file in files]
    assert None not in found
    reports = load(lake.con, [file for file in found if file])
    assert {report.status for report in reports} == {"ok"}
    assert all(report.rows > 0 and "not used" not in (report.message or "") for report in reports)


def test_a_series_in_percent_without_a_unit_never_leaves_its_idle_half_behind(lake):
    def rows(device, values):
        return "".join(
            f"2026-10-01T{i // 6:02d}:{i % 6}0:00Z,aws,{ONE},{device},gpu.utilization,{v}\n"
            for i, v in enumerate(values)
        )

    percent = [85 if i < 18 else 0 for i in range(144)]  # three busy hours of a day, else at rest
    noisy = [85 if i < 18 else 0.04 for i in range(144)]
    one_glitch = [7 if i == 70 else 0 for i in range(144)]
    glitches_of_a_busy_one = [35 if i in (10, 90) else 0.7 for i in range(144)]
    path = lake.put(
        "m.csv",
        HEADER + rows("0", percent) + rows("1", noisy) + rows("2", one_glitch) + rows("3", glitches_of_a_busy_one),
    )
    (report,) = lake.load(path)
    assert lake.rows("device, count(*)", "true group by device") == [("2", 143), ("3", 142)]
    assert report.rows == 143 + 142
    assert "288 samples dropped (ratios of series that often exceed" in report.message
    assert "2 series look like percent: give their unit" in report.message


def test_a_series_in_percent_that_says_so_is_read_as_such(lake):
    path = lake.put(
        "m.csv",
        HEADER.replace("value", "value,unit")
        + "".join(
            f"2026-10-01T{i:02d}:00:00Z,aws,{ONE},0,gpu.utilization,{85 if i < 3 else 0},percent\n" for i in range(24)
        ),
    )
    (report,) = lake.load(path)
    assert report.message is None
    assert lake.rows("count(*), max(value)") == [(24, 0.85)]
