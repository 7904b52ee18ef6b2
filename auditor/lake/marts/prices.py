"""Prices: the shipped, dated facts about accelerator machines, a source and a date on each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor import assets
from auditor.views import VIEWS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Rules compare whole machines (and TPU chips, which are billed one by one): a price of the accelerator or the host alone
# would look like a bargain. Rows marked suspect contradict another source.
_PRICES = """
create or replace table prices as
select {columns}
from read_csv($path, header = true, all_varchar = true)
where scope in ('whole_instance', 'whole_instance_derived', 'per_chip') and quality <> 'suspect'
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `prices`, one row per machine type, region and price kind; `low` and `high` in `currency` per `unit`."""
    path = assets.room("config") / "prices" / "accelerators.csv"
    columns = ", ".join(f'"{name}"::{kind} as "{name}"' for name, kind in VIEWS["prices"].items())
    con.execute(_PRICES.format(columns=columns), {"path": str(path)})
