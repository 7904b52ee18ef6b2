"""The marts: what rules read, built by SQL from the lake's facts (`auditor.views.VIEWS` names every column).

One module a mart. `build_marts` runs them in the order in which they need each other; every one replaces its tables, so
building twice gives the same lake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class Window:
    """The audit window of one provider: start included, end excluded, both UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class LedgerThresholds:
    """Where the classes of the GPU-hour ledger begin and end; every figure is a ratio."""

    max_utilization: float = 0.05
    max_memory_idle: float = 0.05
    min_coverage: float = 0.8
    starved_max_utilization: float = 0.60
    storage_limit: float = 0.95


def build_marts(con: DuckDBPyConnection, windows: Mapping[str, Window], thresholds: LedgerThresholds) -> None:
    """Build every view of `auditor.views` but `charges` from the facts in `con`.

    Reads `charges`, `accelerator_charges`, `metrics`, `resources_seen` and `flows_seen` (and `commitment_charges` where
    there is one); any may be empty, none may be missing. Besides the views it leaves `identities` (alias to ResourceId),
    `ambiguous_aliases` (aliases that would have meant two resources and therefore mean none), `audit_windows` (the window
    of each provider) and `unjoined` (what bill, telemetry and inventory say of resources that the others do not know).
    """
    from auditor import peaks
    from auditor.lake.marts import (
        accelerator_hours,
        commitment_hours,
        flows_daily,
        identities,
        metric_hours,
        nat_gateways,
        paid_rates,
        prices,
        resources,
        transfers,
        unjoined,
    )

    identities.build(con)
    metric_hours.build(con)
    resources.build(con)
    nat_gateways.build(con)
    flows_daily.build(con)
    transfers.build(con)
    commitment_hours.build(con)
    prices.build(con)
    peaks.create_table(con)
    accelerator_hours.build(con, windows, thresholds)
    paid_rates.build(con)
    unjoined.build(con)
