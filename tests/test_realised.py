"""What later bills show that a resolved finding saved."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pytest

from auditor.realised import realised_savings
from tests.state.conftest import a_finding

# 28 days of February at 10 a day; the finding's window is February
IDLE = a_finding(window_start=datetime(2026, 2, 1, tzinfo=UTC), window_end=datetime(2026, 3, 1, tzinfo=UTC))


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("""
        create table charges as
        select 'aws' as provider, 'i-0a' as ResourceId, 'USD' as BillingCurrency, day::date as day, 10::decimal(30, 12) as EffectiveCost
        from range(date '2026-02-01', date '2026-03-06', interval 1 day) as t (day)
    """)
    return made


def savings(con: duckdb.DuckDBPyConnection, *findings: object, end: date = date(2026, 4, 6)) -> list[tuple[str, str]]:
    rows = realised_savings(con, findings, {"aws": end})  # type: ignore[arg-type]
    return [(row.billing_period, str(row.realised_savings.normalize())) for row in rows]


def test_a_month_saves_its_days_at_the_former_cost_less_what_was_still_billed(con: duckdb.DuckDBPyConnection) -> None:
    # March: 31 days at 10, less the five that were billed; April: five days
    assert savings(con, IDLE) == [("2026-03", "2.6E+2"), ("2026-04", "5E+1")]


def test_days_that_are_not_complete_are_not_claimed(con: duckdb.DuckDBPyConnection) -> None:
    assert savings(con, IDLE, end=date(2026, 3, 11)) == [("2026-03", "5E+1")]
    assert savings(con, IDLE, end=date(2026, 3, 1)) == []


def test_a_resource_with_two_findings_counts_once(con: duckdb.DuckDBPyConnection) -> None:
    other = replace(IDLE, rule_id="gpu.previous_generation", monthly_savings_net=Decimal(300))
    assert savings(con, IDLE, other, end=date(2026, 3, 21)) == [("2026-03", "37.5"), ("2026-03", "112.5")]


def test_findings_without_savings_resource_or_bill_are_left_out(con: duckdb.DuckDBPyConnection) -> None:
    nothing = replace(IDLE, monthly_savings=Decimal(0))
    scope = replace(IDLE, resource_id=None)
    unbilled = replace(IDLE, resource_id="i-0b")
    assert savings(con, nothing, scope, unbilled, replace(IDLE, provider="gcp")) == []


def test_a_resource_that_grew_dearer_saves_less_than_nothing(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("insert into charges values ('aws', 'i-0a', 'USD', date '2026-03-06', 100)")
    assert savings(con, IDLE, end=date(2026, 3, 7)) == [("2026-03", "-9E+1")]


def test_the_estimate_beside_a_saving_is_for_the_same_days(con: duckdb.DuckDBPyConnection) -> None:
    # 10 of the 730 / 24 days of its 100 a month
    [row] = realised_savings(con, [IDLE], {"aws": date(2026, 3, 11)})
    assert row.estimated_savings == Decimal("32.876712328767")
