"""Writes the findings as tables: findings.csv and findings.parquet."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from auditor.render.text import spreadsheet_cell

MONEY = ("monthly_cost", "monthly_savings", "monthly_savings_net", "freed_commitment")
COLUMNS = (
    *("id", "rule_id", "title", "severity", "confidence", "status", "provider", "account_id", "region", "zone"),
    *("resource_id", "resource_name", "resource_type", "service", "tags", "owner"),
    *MONEY,
    *("currency", "reason", "evidence"),
)


def csv_text(document: Mapping[str, Any]) -> str:
    """One finding a row, its scalar fields under the names of the JSON; tags and evidence as JSON text."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows([_cell(name, finding.get(name)) for name in COLUMNS] for finding in document["findings"])
    return out.getvalue()


def _cell(name: str, value: Any) -> str:
    text = _text(value)
    return text or "" if name in MONEY else spreadsheet_cell(text or "")


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair has no place in UTF-8


LEDGER: Mapping[str, str] = {
    "provider": "varchar",
    "class": "varchar",
    "accelerator_hours": "decimal(30, 12)",
    "effective_cost": "decimal(30, 12)",
    "currency": "varchar",
}


def write_parquet(document: Mapping[str, Any], path: Path) -> None:
    """The columns of the CSV with money as decimals, and window and savings range beside them."""
    rows = [{name: _text(finding.get(name)) for name in COLUMNS} | _ends(finding) for finding in document["findings"]]
    names = (*COLUMNS, *_ends({}))
    kinds = dict.fromkeys((*MONEY, "monthly_savings_low", "monthly_savings_high"), "decimal(30, 12)")
    kinds |= dict.fromkeys(("window_start", "window_end"), "timestamptz")
    _write(rows, {name: kinds.get(name, "varchar") for name in names}, path)


def write_ledger(document: Mapping[str, Any], path: Path) -> None:
    """The GPU ledger of the document, with hours and money as decimals."""
    _write([{name: _text(row.get(name)) for name in LEDGER} for row in document["gpu_ledger"]], LEDGER, path)


def _write(rows: Sequence[Mapping[str, str | None]], kinds: Mapping[str, str], path: Path) -> None:
    """A Parquet file of rows of text, each column cast to its kind."""
    import duckdb

    columns = ", ".join(f'row."{name}"::{kind} as "{name}"' for name, kind in kinds.items())
    shape = json.dumps([dict.fromkeys(kinds, "VARCHAR")])
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as con:
        con.execute("set timezone = 'UTC'")
        con.execute(
            f"create table report as select {columns} from (select unnest(from_json($rows::json, $shape)) as row)",
            {"rows": json.dumps(rows), "shape": shape},
        )
        con.execute(f"copy report to '{str(path).replace(chr(39), chr(39) * 2)}' (format parquet, compression zstd)")


def _ends(finding: Mapping[str, Any]) -> dict[str, str | None]:
    window = finding.get("window") or {}
    low, high = finding.get("monthly_savings_range") or (None, None)
    return {
        "window_start": window.get("start"),
        "window_end": window.get("end"),
        "monthly_savings_low": low,
        "monthly_savings_high": high,
    }
