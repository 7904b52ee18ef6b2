"""Writes files without a clock in any header, so that two runs write the same content."""

import csv
import gzip
import io
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from acme.truth import Row


def write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_gzip(path: Path, text: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    path.write_bytes(packed)
    return len(packed)


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def write_parquet(path: Path, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
    """One Parquet file in the order of the rows; a key that a row lacks is null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    con = duckdb.connect()
    con.execute("set threads = 1")
    con.execute("set TimeZone = 'UTC'")
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "rows.jsonl"
        with lines.open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(row, default=float) + "\n" for row in rows)
        con.execute(
            f"copy (select * from read_json(?, format = 'newline_delimited', columns = {dict(columns)!r})) "
            f"to '{path}' (format parquet, compression zstd, compression_level 15)",
            [str(lines)],
        )
    con.close()
