"""The `prices` mart: the user's prices before the shipped ones."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pytest

from auditor.lake.marts import prices
from auditor.views import PRICES


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def give(con: duckdb.DuckDBPyConnection, **row: Any) -> None:
    full = {
        "provider": "aws",
        "RegionId": "us-east-1",
        "machine_type": "p5.48xlarge",
        "accelerator_model": "H100",
        "accelerator_count": 8,
        "price_kind": "on_demand",
        "unit": "hour",
        "currency": "USD",
        "source": "our list",
        "as_of": "2026-10-01",
        "scope": "whole_instance",
        "variant": "",
        "AvailabilityZone": None,
        **row,
    }
    full.setdefault("high", full["low"])
    columns = ", ".join(f'"{name}" {kind}' for name, kind in PRICES.items())
    con.execute(f"create table if not exists prices_seen ({columns})")
    con.execute(
        f"insert into prices_seen by name select {', '.join(f'? as {name}' for name in full)}", list(full.values())
    )


def found(con: duckdb.DuckDBPyConnection, price_kind: str = "on_demand", region: str = "us-east-1") -> list[Any]:
    prices.build(con)
    return con.execute(
        "select low, high, source, as_of from prices where machine_type = 'p5.48xlarge' and price_kind = ? and RegionId = ?",
        [price_kind, region],
    ).fetchall()


def test_a_users_price_stands_in_for_the_shipped_one_of_its_region_only(con: duckdb.DuckDBPyConnection) -> None:
    before = found(con, region="us-west-2")
    assert before and "our list" not in str(before)
    give(con, low=Decimal(44))
    assert found(con) == [(Decimal(44), Decimal(44), "our list", "2026-10-01")]
    assert found(con, region="us-west-2") == before


def test_zones_are_a_range_and_of_each_the_newest_price_counts(con: duckdb.DuckDBPyConnection) -> None:
    give(con, price_kind="spot", AvailabilityZone="us-east-1a", low=Decimal(10), as_of="2026-09-01T00:00:00Z")
    give(con, price_kind="spot", AvailabilityZone="us-east-1a", low=Decimal(17), as_of="2026-10-01T00:00:00Z")
    give(con, price_kind="spot", AvailabilityZone="us-east-1b", low=Decimal(55), as_of="2026-09-20T00:00:00Z")
    assert found(con, "spot") == [(Decimal(17), Decimal(55), "our list", "2026-10-01")]


def test_the_price_of_a_device_alone_is_no_machines_price(con: duckdb.DuckDBPyConnection) -> None:
    before = found(con)
    give(con, low=Decimal(6), scope="accelerator_only")
    assert found(con) == before
