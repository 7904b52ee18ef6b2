"""Reads an inventory file into JSON objects, whatever its form, and keeps what came before a damage."""

import csv
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import zstandard

from auditor.landing import Recognised, Shape
from auditor.normalise.look import open_decoded


@dataclass
class Contents:
    """Top-level JSON values of one file, and what stopped the reading where it is damaged."""

    values: list[Any] = field(default_factory=list)
    damage: str | None = None


def read(con: duckdb.DuckDBPyConnection, recognised: Recognised) -> Contents:
    """All top-level values of a file; tables become one object a row."""
    if recognised.shape.form == "csv" and recognised.shape.encoding != "utf-8":
        return read_foreign_table(recognised)
    if recognised.shape.form in ("csv", "parquet"):
        return _read_table(con, recognised)
    text, damage = _read_text(recognised)
    values, rest = _values(text)
    if rest.strip():
        values.extend(_salvage(rest))
        damage = damage or f"the JSON breaks off or is malformed after {len(text) - len(rest)} characters"
    return Contents(values, damage)


def _read_table(con: duckdb.DuckDBPyConnection, recognised: Recognised) -> Contents:
    shape, path = recognised.shape, str(recognised.file.path)
    try:
        if shape.form == "parquet":
            rows = con.execute(
                "select to_json(t)::varchar from read_parquet(?, hive_partitioning = false) as t", [path]
            ).fetchall()
        else:
            rows = con.execute(
                "select to_json(t)::varchar from read_csv(?, header = true, all_varchar = true, delim = ?, quote = ?, escape = ?, encoding = ?, skip = ?, compression = ?, strict_mode = false, null_padding = true) as t",
                [path, shape.delimiter, shape.quote, shape.quote, shape.encoding, shape.skip_lines, shape.compression],
            ).fetchall()
    except duckdb.Error as error:
        return Contents(damage=str(error).splitlines()[0])
    return Contents([json.loads(row[0]) for row in rows])


def read_foreign_table(recognised: Recognised) -> Contents:
    """A table as a spreadsheet saves it, in an encoding that DuckDB does not read."""
    shape = recognised.shape
    text, damage = _read_text(recognised)
    lines = io.StringIO(text, newline="")
    for _ in range(shape.skip_lines):
        lines.readline()
    rows: list[Any] = []
    try:
        for row in csv.DictReader(lines, delimiter=shape.delimiter, quotechar=shape.quote):
            rows.append({key: value or None for key, value in row.items() if key is not None})
    except csv.Error as error:
        damage = damage or f"the table breaks off or is malformed after {len(rows)} rows ({error})"
    return Contents(rows, damage)


def _read_text(recognised: Recognised) -> tuple[str, str | None]:
    parts: list[bytes] = []
    damage = None
    try:
        with open_decoded(recognised.file.path, recognised.shape.compression) as stream:
            # small parts: of a part that ends in damage nothing is returned
            while part := stream.read(1 << 13):
                parts.append(part)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        damage = f"the compressed data is damaged or cut off ({error})"
    encoding = "utf-8-sig" if recognised.shape.encoding == "utf-8" else recognised.shape.encoding
    return b"".join(parts).decode(encoding, errors="replace").lstrip("\ufeff"), damage


def _values(text: str) -> tuple[list[Any], str]:
    decoder, at = json.JSONDecoder(), 0
    values: list[Any] = []
    while True:
        while at < len(text) and text[at] in " \t\r\n,\x1e":
            at += 1
        if at == len(text):
            return values, ""
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):  # nested a thousand deep is no inventory
            return values, text[at:]
        values.append(value)


def _salvage(text: str) -> list[Any]:
    """The whole objects of a list that breaks off, under their key where they have one."""
    start = text.find("[")
    if start < 0:
        return []
    key = text[:start].rpartition(":")[0].rstrip().rpartition('"')[0].rpartition('"')[2] if text.startswith("{") else ""
    items, _ = _values(text[start + 1 :])
    return [{key: items}] if key else [items]


def flat(values: list[Any]) -> Iterator[Any]:
    """The values with lists opened, so that one item is one document or one resource."""
    for value in values:
        if isinstance(value, list):
            yield from flat(value)
        else:
            yield value


def is_json(shape: Shape) -> bool:
    """Whether a look saw JSON; a document that breaks off within the look has the form `text`."""
    return shape.form in ("json", "jsonl", "json_stream") or (
        shape.form == "text" and shape.head.lstrip()[:1] in ("{", "[")
    )


def look_for_first(shape: Shape) -> dict[str, Any]:
    """The first JSON object of a look: whole where it fitted, else what of it stands in the head."""
    sample = shape.sample
    if not sample and is_json(shape):
        sample = next(iter(_salvage(shape.head.lstrip())), None)
    while isinstance(sample, list):
        sample = next((one for one in sample if isinstance(one, (dict, list))), None)
    return sample if isinstance(sample, dict) else dict.fromkeys(shape.columns)
