"""Avro extracts, written out as JSON lines for the one JSON reader: DuckDB reads Avro only with an extension."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from auditor.errors import SourceError
from auditor.landing import LandingFile, Recognised

BREAK = "rows before the break were read"  # in the message of every file whose end is not there


def columns(path: Path) -> tuple[str, ...]:
    """Top-level field names. Raises ValueError where the file's head is damaged."""
    import fastavro

    try:
        with path.open("rb") as stream:
            schema: Any = fastavro.reader(stream).writer_schema
    except (EOFError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"the Avro header cannot be read ({error})") from error
    return tuple(field["name"] for field in schema.get("fields", ())) if isinstance(schema, dict) else ()


def to_json_lines(file: Recognised, spool: Path) -> tuple[Recognised, str | None]:
    """The file as JSON lines in the spool, and where it breaks off the reason with the rows read before.

    Raises SourceError where not one row can be read.
    """
    target = spool / f"avro-{file.file.path.name}.jsonl"
    rows = 0
    problem = None
    with target.open("w", encoding="utf-8") as out:
        try:
            for row in _records(file.file.path):
                out.write(json.dumps(row, default=_plain) + "\n")
                rows += 1
        except (EOFError, ValueError, IndexError, KeyError, OSError) as error:
            problem = f"{file.file.name}: the Avro data is damaged or cut off ({error}); {rows:,} {BREAK}, ask for the file again"
    if problem and not rows:
        raise SourceError(problem)
    return (
        replace(
            file,
            file=LandingFile(target, file.file.name, target.stat().st_size),
            shape=replace(file.shape, form="jsonl", compression="none"),
        ),
        problem,
    )


def _records(path: Path) -> Iterator[Any]:
    import fastavro

    with path.open("rb") as stream:
        yield from fastavro.reader(stream)


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    raise ValueError(f"a field of type {type(value).__name__} is not known")
