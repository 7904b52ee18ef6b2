"""A lake in memory whose facts a test writes as rows; columns left out are null (hours, days and currency follow)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import duckdb
import pytest

from auditor.focus import LAKE_CHARGE_COLUMNS
from auditor.lake.marts import (
    LedgerThresholds,
    Window,
    accelerator_hours,
    build_marts,
    identities,
    metric_hours,
    resources,
)
from auditor.views import FLOWS, METRICS, RESOURCES

Row = Mapping[str, Any]

FACTS = {
    "charges": LAKE_CHARGE_COLUMNS,
    "accelerator_charges": {**LAKE_CHARGE_COLUMNS, "hour": "TIMESTAMP", "grain": "VARCHAR"},
    "metrics": METRICS,
    "resources_seen": RESOURCES,
    "flows_seen": FLOWS,
}
WINDOW = Window(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))


class Lake:
    """Facts in, marts out."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        for table, columns in FACTS.items():
            typed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            con.execute(f"create or replace table {table} ({typed})")

    def put(self, table: str, *rows: Row) -> Lake:
        columns = {name: kind for name, kind in FACTS[table].items() if any(name in row for row in rows)}
        shape = json.dumps(
            [{name: "VARCHAR[]" if kind == "VARCHAR[]" else "VARCHAR" for name, kind in columns.items()}]
        )
        values = ", ".join(f'"{name}"::{kind} as "{name}"' for name, kind in columns.items())
        self.con.execute(
            f"insert into {table} by name select {values} from (select unnest(from_json($rows, '{shape}'), recursive := true))",
            {"rows": json.dumps([{name: _text(value) for name, value in row.items()} for row in rows])},
        )
        return self

    def charge(self, table: str = "charges", **row: Any) -> Lake:
        """One charge; `accelerator_charges` are charges too, as in a real lake."""
        row = {"provider": "aws", "BillingCurrency": "USD", "ChargeCategory": "Usage", **row}
        if table == "accelerator_charges":
            row.setdefault("grain", "hour")
            self.put(
                "charges",
                {name: value for name, value in row.items() if name in LAKE_CHARGE_COLUMNS} | {"day": row["hour"][:10]},
            )
        return self.put(table, row)

    def samples(
        self, resource_id: str, metric: str, values: Mapping[str, float], device: str = "", provider: str | None = "aws"
    ) -> Lake:
        return self.put(
            "metrics",
            *(
                {
                    "time": time,
                    "provider": provider,
                    "resource_id": resource_id,
                    "device": device,
                    "metric": metric,
                    "value": value,
                }
                for time, value in values.items()
            ),
        )

    def resource(self, resource_id: str, resource_type: str, **row: Any) -> Lake:
        return self.put(
            "resources_seen", {"provider": "aws", "resource_id": resource_id, "resource_type": resource_type, **row}
        )

    def build(self, windows: Mapping[str, Window] | None = None, thresholds: LedgerThresholds | None = None) -> Lake:
        build_marts(
            self.con, windows or dict.fromkeys(("aws", "gcp", "azure"), WINDOW), thresholds or LedgerThresholds()
        )
        return self

    def build_ledger(self, thresholds: LedgerThresholds | None = None) -> Lake:
        """The ledger and what it needs, in half the time of all marts."""
        for mart in (identities, metric_hours, resources):
            mart.build(self.con)
        accelerator_hours.build(
            self.con, dict.fromkeys(("aws", "gcp", "azure"), WINDOW), thresholds or LedgerThresholds()
        )
        return self

    def build_metrics(self) -> Lake:
        """Identities and metric hours only."""
        identities.build(self.con)
        metric_hours.build(self.con)
        return self

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.con.execute(query).fetchall()


def _text(value: Any) -> Any:
    """JSON text for objects that the lake keeps as text; lists of aliases stay lists."""
    if isinstance(value, dict):
        return json.dumps(value)
    return value if value is None or isinstance(value, list) else str(value)


@pytest.fixture(scope="session")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        yield con


@pytest.fixture
def lake(connection: duckdb.DuckDBPyConnection) -> Lake:
    return Lake(connection)


@pytest.fixture(scope="session")
def new_lake(connection: duckdb.DuckDBPyConnection) -> Callable[[], Lake]:
    """For tests that need many lakes one after the other."""
    return lambda: Lake(connection)
