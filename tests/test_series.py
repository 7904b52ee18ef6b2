"""The series beside the document: what they count, in which window, and how the samples behind a finding are thinned."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from auditor import series
from auditor.views import VIEWS

TABLES = ("charges", "resources", "transfers", "accelerator_hours", "metric_hours")


def fill(con: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    """Adds rows to a view's table, columns left out being null."""
    shape = json.dumps([VIEWS[table]])
    con.execute(
        f"insert into {table} by name select unnest(from_json($rows::json, '{shape}'), recursive := false, max_depth := 2)",
        {"rows": json.dumps(rows)},
    )


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for table in TABLES:
            columns = ", ".join(f'"{name}" {kind}' for name, kind in VIEWS[table].items())
            connection.execute(f"create table {table} ({columns})")
        connection.execute(
            "create table audit_windows (provider varchar, window_start timestamp, window_end timestamp)"
        )
        connection.execute("insert into audit_windows values ('aws', '2026-03-01', '2026-03-31')")
        yield connection


def charge(day: str, cost: float, **more: Any) -> dict[str, Any]:
    return {"provider": "aws", "day": day, "BillingCurrency": "USD", "EffectiveCost": cost, **more}


def test_costs_are_of_the_window_and_history_reaches_back_before_it(con: duckdb.DuckDBPyConnection) -> None:
    fill(
        con,
        "charges",
        [charge(day, 5) for day in ("2026-01-31", "2026-02-20", "2026-03-01", "2026-03-30", "2026-03-31")],
    )
    assert [row.day.isoformat() for row in series.daily_costs(con)] == ["2026-03-01", "2026-03-30"]
    assert [row.day.isoformat() for row in series.history(con)] == ["2026-02-20", "2026-03-01", "2026-03-30"]


def test_an_account_has_the_newest_name_that_is_not_its_id(con: duckdb.DuckDBPyConnection) -> None:
    rows = [
        charge("2026-03-01", 1, SubAccountId="1", SubAccountName="old"),
        charge("2026-03-02", 1, SubAccountId="1", SubAccountName="new"),
        charge("2026-03-02", 1, SubAccountId="acme-ml", SubAccountName="acme-ml"),
        charge("2026-03-02", 1, SubAccountId="2"),
    ]
    fill(con, "charges", rows)
    assert series.account_names(con) == {"1": "new"}


def accelerator(hour: str, cost: float, **more: Any) -> dict[str, Any]:
    return {"provider": "aws", "ResourceId": "i-1", "hour": hour, "device": "0", "EffectiveCost": cost} | {
        "BillingCurrency": "USD",
        "class": "idle",
        **more,
    }


def test_the_ledger_is_cut_by_machine_and_by_hour_of_the_week(con: duckdb.DuckDBPyConnection) -> None:
    rows = [accelerator("2026-03-02T03:00:00", 2), accelerator("2026-03-08T23:00:00", 3, **{"class": "productive"})]
    many = [accelerator("2026-03-02T03:00:00", 1, ResourceId=f"i-{n:03}") for n in range(100, 140)]
    fill(con, "accelerator_hours", rows + many)
    week = {(row.weekday, row.hour, row.accelerator_class): row.effective_cost for row in series.week_hours(con)}
    assert week == {(0, 3, "idle"): Decimal(42), (6, 23, "productive"): Decimal(3)}
    machines = series.machine_days(con)
    assert len({row.resource_id for row in machines}) == series.DEAREST_MACHINES
    assert sum(row.effective_cost for row in machines if row.resource_id == "i-1") == 5


def test_payers_beyond_the_dearest_keep_their_money_but_not_their_name(con: duckdb.DuckDBPyConnection) -> None:
    rows = [
        {"provider": "aws", "ResourceId": f"i-{n}", "owner": "data", "day": "2026-03-02", "usage_kind": "nat.bytes"}
        | {"gigabytes": 1, "EffectiveCost": n + 1, "BillingCurrency": "USD"}
        for n in range(60)
    ]
    fill(con, "transfers", rows)
    fill(con, "resources", [{"provider": "aws", "ResourceId": f"i-{n}", "ResourceName": "loader"} for n in (3, 59, 59)])
    paid = series.transfer_payers(con)
    assert {row.resource_id: row.resource_name for row in paid if row.resource_name} == {"i-59": "loader"}
    assert sum(row.effective_cost for row in paid) == sum(range(1, 61))
    assert len([row for row in paid if row.resource_id]) == series.DEAREST_PAYERS
    (rest,) = [row for row in paid if row.resource_id is None]
    assert (rest.owner, rest.gigabytes, rest.effective_cost) == ("data", 20, sum(range(1, 21)))


def finding(rule_id: str, resource_id: str = "i-1") -> dict[str, Any]:
    return {
        "id": rule_id,
        "rule_id": rule_id,
        "provider": "aws",
        "resource_id": resource_id,
        "currency": "USD",
        "status": "new",
    }


def test_an_idle_machines_samples_are_thinned_to_the_highest_and_the_mean(con: duckdb.DuckDBPyConnection) -> None:
    rows = [
        accelerator("2026-03-01T00:00:00", 1, utilization_max=0.02, utilization_mean=0.01),
        accelerator("2026-03-01T05:00:00", 1, utilization_max=0.04, utilization_mean=0.03),
        accelerator("2026-03-30T23:00:00", 1, utilization_max=0.9, utilization_mean=0.5),
        accelerator("2026-03-31T00:00:00", 1, utilization_max=1, utilization_mean=1),
    ]
    fill(con, "accelerator_hours", rows)
    made = series.samples(
        con, [finding("gpu.idle_instance")], {"gpu.idle_instance": {"max_utilization": Decimal("0.05")}}
    )
    mean, highest = made["gpu.idle_instance"]
    assert len(highest.values) == series.POINTS
    assert (highest.step_hours, highest.threshold, highest.unit) == (6, 0.05, "ratio")
    assert (highest.values[0], highest.values[1], highest.values[-1]) == (0.04, None, 0.9)
    assert (mean.values[0], mean.threshold) == (0.02, None)


def test_a_starved_machine_shows_what_it_waits_for(con: duckdb.DuckDBPyConnection) -> None:
    row = accelerator("2026-03-01T00:00:00", 1, utilization_max=0.3, utilization_mean=0.2, storage_pressure=0.99)
    fill(con, "accelerator_hours", [row])
    made = series.samples(con, [finding("storage.gpu_starved_by_disk")], {})
    labels = [line.label for line in made["storage.gpu_starved_by_disk"]]
    assert labels == ["Mean of all devices", "Disk or file system, of its limit"]


def test_a_gateways_bytes_and_a_machines_charges_are_sums(con: duckdb.DuckDBPyConnection) -> None:
    metric = {"provider": "aws", "device": "", "metric": "nat.bytes"}
    fill(
        con,
        "metric_hours",
        [metric | {"ResourceId": "nat-1", "hour": f"2026-03-01T0{n}:00:00", "sum_value": 10} for n in range(6)],
    )
    moved = {"provider": "aws", "usage_kind": "transfer.inter_zone", "BillingCurrency": "USD", "EffectiveCost": 1}
    fill(con, "transfers", [moved | {"ResourceId": "i-1", "day": "2026-03-02", "gigabytes": 7}])
    made = series.samples(con, [finding("network.nat_idle", "nat-1"), finding("network.cross_zone_transfer")], {})
    (gateway,) = made["network.nat_idle"]
    assert (gateway.unit, gateway.values[0], gateway.values[1]) == ("bytes", 60, None)
    (machine,) = made["network.cross_zone_transfer"]
    assert (machine.unit, machine.step_hours, machine.values[:3], len(machine.values)) == ("GB", 24, (0, 7, 0), 30)


def test_findings_without_samples_or_resource_have_no_chart(con: duckdb.DuckDBPyConnection) -> None:
    gone = finding("gpu.idle_instance") | {"status": "resolved"}
    scope = finding("network.internet_egress") | {"resource_id": None}
    assert series.samples(con, [gone, scope, finding("gpu.no_telemetry", "i-silent")], {}) == {}
