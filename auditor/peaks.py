"""Peak compute of accelerators: shipped facts by which rules compare the work of two devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor import assets
from auditor.views import VIEWS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def create_table(con: DuckDBPyConnection) -> None:
    """Create `accelerator_peaks`, one row an accelerator and provider.

    `quality` is `ok` where the figure was read in the named source, else `unconfirmed`.
    """
    columns = ", ".join(f'"{name}"::{kind} as "{name}"' for name, kind in VIEWS["accelerator_peaks"].items())
    con.execute(
        f"create or replace table accelerator_peaks as select {columns} "
        "from read_csv($path, header = true, all_varchar = true) cross join (values ('aws'), ('gcp'), ('azure')) as clouds (provider)",
        {"path": str(assets.room("config") / "accelerator_peaks.csv")},
    )
