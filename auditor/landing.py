"""A landing file: one file as it was delivered, and what its first bytes say about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class LandingFile:
    """One file that a person or a collector put down.

    `path` is where the bytes lie now (a spool copy for a member of an archive), `name` what reports call it
    (`bundle.zip!aws/cur.csv.gz` for a member), `folder` the name's folder, used to group the parts of a delivery.
    """

    path: Path
    name: str
    size: int

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]


@dataclass(frozen=True)
class Shape:
    """What a look at a file's first bytes tells.

    `form` is csv, parquet, avro, jsonl (one object a line), json (one document), json_stream (concatenated documents),
    text, or binary; `compression` is gzip, zstd or none. For csv, `columns` are the header cells as written; for
    parquet they are the top-level columns and `types` their DuckDB types; for JSON they are the keys of the first
    object, and `sample` is that object (whole only if it fitted the look). `problem` says why a file cannot be read.
    """

    form: str
    compression: str = "none"
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    skip_lines: int = 0
    sample: Any = None
    head: str = ""
    problem: str | None = None


@dataclass(frozen=True)
class Recognised:
    """A landing file whose kind and format are known."""

    file: LandingFile
    shape: Shape
    kind: str  # billing, telemetry, inventory, flows, prices, manifest
    format: str  # cur2-parquet, legacy-cur-csv, gcp-detailed-jsonl, metrics-csv, ...
    provider: str | None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class SourceReport:
    """One entry of the report's `sources`: what was read, or why not."""

    provider: str | None
    kind: str | None
    format: str | None
    paths: list[str]
    files: int
    rows: int
    billing_periods: list[str]
    status: str  # ok, failed, skipped
    message: str | None = None
