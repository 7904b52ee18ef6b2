"""The pictures of habit and the forecast: their geometry carries the money, and they say when they know nothing."""

import re
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from auditor.render import (
    DayTotal,
    MachineDay,
    Samples,
    TransferEdge,
    TransferPayer,
    WeekHour,
    lines,
    machines,
    transfers,
)
from auditor.render.forecast import Forecast, Unknown, forecast

MONDAY = date(2026, 3, 2)


def history(days: int, provider: str = "aws", cost: int = 100) -> list[DayTotal]:
    return [DayTotal(provider, MONDAY + timedelta(days=n), "USD", Decimal(cost)) for n in range(days)]


def test_the_forecast_follows_weekdays_and_leaves_out_what_happened_once() -> None:
    rows = [row._replace(effective_cost=Decimal(10) if row.day.weekday() >= 5 else Decimal(100)) for row in history(28)]
    rows[9] = rows[9]._replace(effective_cost=Decimal(9000))
    found = forecast(rows, "USD")
    assert isinstance(found, Forecast)
    assert (found.first, found.last) == (date(2026, 3, 30), date(2026, 4, 28))
    assert found.cost == 22 * 100 + 8 * 10  # thirty days from a Monday hold eight at weekends
    assert found.low < found.cost < found.high
    assert found.by_day[date(2026, 4, 4), "aws"] == 10


def test_the_forecast_is_unknown_with_fewer_than_four_weeks_of_any_provider() -> None:
    found = forecast([*history(28), *history(20, "gcp")], "USD")
    assert isinstance(found, Unknown)
    assert "gcp has charges on 20 of the 28 days" in found.reason
    assert isinstance(forecast([], "USD"), Unknown)


def test_the_forecast_never_mixes_currencies() -> None:
    euros = [row._replace(currency="EUR") for row in history(28, cost=7)]
    found = forecast([*history(28), *euros], "EUR")
    assert isinstance(found, Forecast)
    assert found.cost == 210


def finding(start: str, end: str) -> dict[str, object]:
    return {"window": {"start": start, "end": end}}


def test_a_line_has_a_point_a_step_and_breaks_where_nothing_was_sampled() -> None:
    values = (0.5, 0.5, 0.5, None, 0.0, 1.0)
    chart = lines.chart(
        finding("2026-03-02T12:00:00Z", "2026-03-03T12:00:00Z"),
        [Samples("Mean", "ratio", datetime(2026, 3, 2), 6, values, 0.05)],
    )
    assert chart
    assert chart.strokes[0].path == "M0 50h.5h2M4 100h.5l1-100"
    assert chart.threshold == (95.0, "5\xa0%")
    assert chart.shade == (2.0, 4.0)  # from the third of six steps to the end
    assert chart.about == "Mean: 0\xa0% to 100\xa0%"
    assert (chart.first, chart.last, chart.each) == ("2\xa0Mar\xa02026", "3\xa0Mar\xa02026", "every 6 hours")


def test_sums_are_columns_below_a_round_top() -> None:
    chart = lines.chart(
        finding("2026-03-02T00:00:00Z", "2026-03-05T00:00:00Z"),
        [Samples("Charged gigabytes", "GB", datetime(2026, 3, 2), 24, (1200.0, 0.0, 600.0))],
    )
    assert chart
    assert chart.filled
    assert chart.shade is None
    heights = [float(height) for height in re.findall(r"v-([\d.]+)", chart.strokes[0].path)]
    assert heights[0] == 2 * heights[1]
    assert max(heights) <= lines.TALL


def test_no_samples_make_no_chart() -> None:
    empty = Samples("Mean", "ratio", datetime(2026, 3, 2), 6, (None, None))
    assert lines.chart(finding("2026-03-02T00:00:00Z", "2026-03-05T00:00:00Z"), [empty]) is None
    assert lines.chart(finding("2026-03-02T00:00:00Z", "2026-03-05T00:00:00Z"), []) is None


def test_a_machines_day_is_split_by_cost_and_days_alike_are_one_part() -> None:
    def day(n: int, kind: str, cost: int) -> MachineDay:
        return MachineDay(
            "aws", "i-1", None, None, "p5.48xlarge", MONDAY + timedelta(days=n), kind, Decimal(cost), "USD"
        )

    found = machines.machines(
        [day(0, "productive", 60), day(0, "idle", 40), day(1, "idle", 90), day(2, "idle", 10), day(4, "idle", 5)], "USD"
    )
    assert found
    (machine,) = found.rows
    assert found.days == 5
    assert {part.style: part.path for part in machine.parts} == {
        "c-productive": "M0 40h1v60h-1z",
        "c-idle": "M0 0h1v40h-1zM1 0h2v100h-2zM4 0h1v100h-1z",
    }
    assert (machine.name, machine.at_work, machine.cost) == ("i-1", "29\xa0%", Decimal(205))
    assert machines.machines([day(0, "idle", 1)], "EUR") is None


def test_an_hour_of_the_week_is_as_strong_as_its_share_of_waste() -> None:
    rows = [WeekHour(5, 3, "idle", Decimal(30), "USD"), WeekHour(5, 3, "productive", Decimal(10), "USD")]
    silent = WeekHour(0, 0, "no_telemetry", Decimal(99), "USD")
    found = machines.week([*rows, silent], "USD")
    assert found
    (cell,) = found.cells
    assert (cell.x, cell.y, cell.strength) == (3, 5, 0.75)
    assert cell.about == "Saturday 03:00 UTC: 75\xa0% not at work, USD\xa030.00"
    assert found.rows[5] == ("Saturday", "75\xa0%", "—", Decimal(30))
    assert machines.week([silent], "USD") is None


def test_the_map_loses_no_money_when_places_are_many() -> None:
    edges = [TransferEdge(f"region-{n}", None, "transfer.inter_zone", Decimal(n + 1), "USD") for n in range(20)]
    edges += [TransferEdge("region-0", "region-1", "transfer.inter_region", Decimal(5), "USD")]
    (found,) = transfers.maps([*edges, TransferEdge("eu", None, "nat.bytes", Decimal(1), "EUR")], "USD")[:1]
    assert found.currency == "USD"
    for side in (found.sources, found.targets):
        assert sum(place.cost for place in side) == 215
    assert found.sources[-1].name == "other places"
    assert {place.name for place in found.targets} == {"other zones", "region-1"}
    bottoms = [place.y + place.height for place in found.sources]
    assert all(bottom <= found.height for bottom in bottoms)


def test_who_pays_adds_up_by_owner_and_by_kind() -> None:
    rows = [
        TransferPayer(f"team-{n % 15}", "aws", "1", f"i-{n}", None, kind, Decimal(1), Decimal(n + 1), "USD")
        for n, kind in enumerate([*transfers.KINDS] * 3)
    ]
    (found,) = transfers.payers(rows, "USD")
    whole = sum(row.effective_cost for row in rows)
    assert found.cost == sum(found.sums) == sum(cost for _, _, cost in found.rows) == whole
    assert len(found.kinds) == 5
    assert found.rows[-1][0] == "3 others"
    assert all(sum(value or Decimal(0) for value in costs) == cost for _, costs, cost in found.rows)


@pytest.mark.parametrize("kind", transfers.KINDS)
def test_every_kind_of_transfer_ends_somewhere(kind: str) -> None:
    assert transfers.target(TransferEdge("eu", None, kind, Decimal(1), "USD")) not in ("", kind)
