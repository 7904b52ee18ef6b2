"""Opens the files of one delivery as one DuckDB relation with canonical column names.

Vendors, loaders and spreadsheets spell the same header in a dozen ways. A canonical name is the header in lower case
with everything but letters and digits taken away, so `lineItem/UsageType`, `line_item_usage_type` and `LineItemUsageType`
are one column. Text formats give VARCHAR columns, so that no digit of an amount is lost; Parquet keeps its types.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from uuid import uuid4

import duckdb

from auditor.errors import SourceError
from auditor.landing import Recognised, Shape
from auditor.normalise.billing import texts
from auditor.normalise.look import open_decoded

_BRACKETED = re.compile(r"\(([A-Za-z][A-Za-z0-9 ]*)\)\s*$")  # a localised Azure header: `Kosten (PreTaxCost)`
PLACE_BITS = 40  # of a line's number within its file, in its place
_MAX_OBJECT = 64 * 1024 * 1024
_TEXT_ROWS = 20_480  # of a row group: small ones stay in the processor's cache, and large ones of nested JSON break the memory limit
_MAX_LINE = 16 * 1024 * 1024  # of CSV, for whose buffers DuckDB would take sixteen times as much, and of JSON lines


def canonical(header: str) -> str:
    """The name by which columns are compared; the English name in closing brackets wins over a localised one."""
    text = header.strip().lstrip("\ufeff")
    bracketed = _BRACKETED.search(text)
    if bracketed:
        text = bracketed.group(1)
    return re.sub(r"[^a-z0-9]", "", text.lower())


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Source:
    """One relation over all files of a delivery.

    `columns` maps canonical name to DuckDB type, `headers` to the header as written in the first file that has it.
    `constants` are the columns that are empty on every line ("null"), or zero on every line ("0"): they need not be read.
    """

    relation: str
    columns: dict[str, str]
    headers: dict[str, str]
    form: str
    has_decimal_commas: bool = False
    is_day_first: bool = False
    constants: Mapping[str, str] = field(default_factory=dict)

    def is_empty(self, name: str) -> bool:
        """Whether the column is missing or known to be empty on every line."""
        return name not in self.columns or self.constants.get(name) == "null"

    def has(self, *names: str) -> bool:
        return any(name in self.columns for name in names)

    def text(self, *names: str) -> str:
        """SQL for the first of these columns that exists, as trimmed text, null where it is empty or says NULL."""
        found = [self._text(name) for name in names if not self.is_empty(name)]
        if not found:
            return "null::varchar"
        return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"

    def _text(self, name: str) -> str:
        column = quote(name)
        if self.columns[name] != "VARCHAR":
            column = f"{column}::varchar"
        if self.form == "parquet":
            return f"nullif({column}, '')"
        return f"blank_to_null({column})"

    def money(self, *names: str) -> str:
        """SQL for the first of these columns that exists, as DECIMAL(30,12); null where it is empty."""
        return self._number("money", names)

    def quantity(self, *names: str) -> str:
        """Likewise as DECIMAL(38,12)."""
        return self._number("quantity", names)

    def _number(self, kind: str, names: Sequence[str]) -> str:
        found = []
        for name in names:
            if self.is_empty(name):
                continue
            kind_of = self.columns[name]
            if self.constants.get(name) == "0":
                found.append(f"0::{_NUMBER_TYPES[kind]}")
            elif kind_of in ("DOUBLE", "FLOAT"):
                found.append(f"{kind}_of_double({quote(name)})")
            elif kind_of == "VARCHAR":
                found.append(f"{kind}_of_{'comma_' if self.has_decimal_commas else ''}text({quote(name)})")
            else:
                found.append(f"try_cast({quote(name)} as {_NUMBER_TYPES[kind]})")
        if not found:
            return f"null::{_NUMBER_TYPES[kind]}"
        return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"

    def time(self, *names: str) -> str:
        """SQL for the first of these columns that exists, as UTC TIMESTAMP; null where it cannot be read.

        A date before 2000 or after 2099 is none: it stands for "unknown" or "never".
        """
        found = []
        for name in names:
            if self.is_empty(name):
                continue
            column, kind = quote(name), self.columns[name]
            if kind == "VARCHAR":
                found.append(f"{'time_of_day_first' if self.is_day_first else 'time_of_text'}({column})")
            elif kind.startswith("TIMESTAMP WITH"):
                found.append(_within_century(f"({column} at time zone 'UTC')"))
            else:
                found.append(_within_century(f"{column}::timestamp"))
        if not found:
            return "null::timestamp"
        return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"

    def end_time(self, name: str) -> str:
        """SQL for the end of a charge: as `time`, but the year 2100 for every later one, so that it is not taken for a blank."""
        if self.is_empty(name):
            return "null::timestamp"
        column = quote(name)
        is_late = f"is_endless({column})" if self.columns[name] == "VARCHAR" else f"{column} >= '2100-01-01'"
        return f"case when {is_late} then timestamp '2100-01-01' else {self.time(name)} end"

    def is_no_amount(self, name: str) -> str:
        """SQL that tells whether this column, which is there, holds something that is no amount of money."""
        column, kind = quote(name), self.columns[name]
        if kind == "VARCHAR":
            return f"{'is_no_comma_number' if self.has_decimal_commas else 'is_no_number'}({column})"
        return f"({column} is not null and {self.money(name)} is null)"


_NUMBER_TYPES = {"money": "decimal(30,12)", "quantity": "decimal(38,12)"}

MACROS = texts.MACROS
# Where a line stands in files of Parquet: its file, its number in it, and both in one.
PLACE = f"file_index as line_file, file_row_number as line_number, (file_index::bigint << {PLACE_BITS}) + file_row_number as line_place"


def _within_century(column: str) -> str:
    return f"case when {column} >= '2000-01-01' and {column} < '2100-01-01' then {column} end"


def open_source(
    con: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[Recognised],
    spool: Path,
    columns: dict[str, str] | None = None,
    used: Callable[[Source], Sequence[str]] | None = None,
) -> Source:
    """A temp view `name` over the files; `columns` types the keys of JSON files (GCP, FOCUS as JSON).

    Where `used` says which columns are read, a text is read once, here, and its view has these columns only: a text is
    the slowest thing to read. Raises SourceError where the files cannot be opened together.
    """
    form = files[0].shape.form
    if form == "parquet":
        return _open_parquet(con, name, files)
    if form == "csv":
        opened = _open_csv(con, name, files, spool)
    elif form in ("jsonl", "json", "json_stream") and columns:
        opened = _open_json(con, name, files, columns, by_canonical_name=files[0].details["family"] != "gcp")
    else:
        raise SourceError(
            f"{files[0].file.name}: {form} files of this kind cannot be read yet; export as CSV or Parquet"
        )
    if used is not None:
        opened = _keep(con, opened, used(opened), spool)
    return _with_reading(con, opened, files[0].shape) if form == "csv" else opened


def _keep(con: duckdb.DuckDBPyConnection, opened: Source, columns: Sequence[str], spool: Path) -> Source:
    """Reads these columns of the text once into Parquet, which takes the text's place behind the view."""
    kept = literal(str(spool / f"{opened.relation}-{uuid4().hex}.parquet"))
    listed = ", ".join(quote(name) for name in columns)
    con.execute(
        f"copy (select {listed} from {opened.relation}) to {kept} (format parquet, compression lz4, row_group_size {_TEXT_ROWS})"
    )
    con.execute(f"create or replace temp view {opened.relation} as select *, {PLACE} from read_parquet({kept})")
    return replace(opened, constants=_constants(con, f"[{kept}]", {name: name for name in columns}))


def _with_reading(con: duckdb.DuckDBPyConnection, opened: Source, shape: Shape) -> Source:
    return replace(
        opened,
        has_decimal_commas=texts.has_decimal_commas(shape.head, shape.delimiter),
        is_day_first=texts.is_day_first(con, opened.relation, opened.columns, shape.head),
    )


def _paths(files: Sequence[Recognised]) -> str:
    return "[" + ", ".join(literal(str(file.file.path)) for file in files) + "]"


def _open_parquet(con: duckdb.DuckDBPyConnection, name: str, files: Sequence[Recognised]) -> Source:
    read = f"read_parquet({_paths(files)}, union_by_name=true, hive_partitioning=false)"
    described = [(row[0], row[1]) for row in con.execute(f"describe select * from {read}").fetchall()]
    columns, headers, select = {}, {}, []
    for header, kind in described:
        key = canonical(header)
        if key and key not in columns:
            columns[key], headers[key] = kind, header
            select.append(f"{quote(header)} as {quote(key)}")
    con.execute(f"create or replace temp view {name} as select {', '.join(select)}, {PLACE} from {read}")
    return Source(name, columns, headers, "parquet", constants=_constants(con, _paths(files), headers))


def _constants(con: duckdb.DuckDBPyConnection, paths: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Of the columns by header those that the files' own statistics tell to be empty or zero on every line."""
    found = con.execute(f"""
        with chunks as (
            select file_name, row_group_id, path_in_schema, stats_null_count, num_values, stats_min, stats_max
            from parquet_metadata({paths})
            where path_in_schema not like '%, %'
        ),
        spans as (
            select path_in_schema, count(*) as chunk_count, min(stats_min) as least, max(stats_max) as most,
                bool_and(coalesce(stats_null_count = num_values, false)) as is_null, bool_and(coalesce(stats_null_count = 0, false)) as has_no_null,
                bool_and(coalesce(stats_min = stats_max, false)) as is_one_value
            from chunks
            group by path_in_schema
        )
        select path_in_schema, is_null
        from spans
        where is_null
            or (is_one_value and has_no_null and try_cast(least as double) = 0 and try_cast(most as double) = 0
                and chunk_count = (select count(distinct (file_name, row_group_id)) from chunks))
    """).fetchall()
    constants = {header: "null" if is_null else "0" for header, is_null in found}
    return {name: constants[header] for name, header in headers.items() if header in constants}


def _open_csv(con: duckdb.DuckDBPyConnection, name: str, files: Sequence[Recognised], spool: Path) -> Source:
    """Chunks of one delivery may differ in columns and their order, so files are read by header and joined by name."""
    by_header: dict[tuple[object, ...], list[Recognised]] = {}
    for file in files:
        shape = file.shape
        key = (shape.columns, shape.delimiter, shape.compression, shape.encoding, shape.skip_lines)
        by_header.setdefault(key, []).append(file)
    parts: list[str] = []
    columns: dict[str, str] = {}
    headers: dict[str, str] = {}
    for group in by_header.values():
        shape = group[0].shape
        names = _csv_names(shape)
        for column_name, (_, header) in names.items():
            columns.setdefault(column_name, "VARCHAR")
            headers.setdefault(column_name, header)
        select = ", ".join(f"{quote(column)} as {quote(key)}" for key, (column, _) in names.items())
        parts.append(f"select {select} from {_read_csv(group, shape, spool)}")
    con.execute(f"create or replace temp view {name} as {' union all by name '.join(parts)}")
    return Source(name, columns, headers, "csv")


def _csv_names(shape: Shape) -> dict[str, tuple[str, str]]:
    """Canonical name -> (positional name, header); the first of two equal headers wins."""
    names: dict[str, tuple[str, str]] = {}
    for position, header in enumerate(shape.columns):
        key = canonical(header)
        if header.lower().startswith(("resourcetags/", "costcategory/")):
            key = (
                header.lower() if header.lower() not in names else f"{header.lower()}#{position}"
            )  # Owner beside owner
        if key and key not in names:
            names[key] = (f"c{position}", header)
    return names


def _read_csv(files: Sequence[Recognised], shape: Shape, spool: Path) -> str:
    paths = [str(file.file.path) for file in files]
    compression = shape.compression
    skip = shape.skip_lines + 1
    if shape.encoding != "utf-8" or shape.skip_lines:
        paths, compression, skip = [str(_transcode(file, spool)) for file in files], "none", 1
    listed = ", ".join(literal(path) for path in paths)
    types = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(shape.columns)))
    return (
        f"read_csv([{listed}], columns={{{types}}}, auto_detect=false, header=false, skip={skip}, delim={literal(shape.delimiter)}, "
        f"quote='\"', escape='\"', compression={literal(compression)}, max_line_size={_MAX_LINE}, buffer_size={2 * _MAX_LINE}, "
        f"store_rejects=true, rejects_table='csv_rejects', rejects_scan='csv_rejects_scan', strict_mode=true)"
    )


def _transcode(file: Recognised, spool: Path) -> Path:
    """The file as UTF-8 from its header on: the lines before it end in their own way, which the CSV reader minds."""
    target = spool / f"utf8-{file.file.path.name}.csv"
    with (
        open_decoded(file.file.path, file.shape.compression) as stream,
        target.open("w", encoding="utf-8", newline="") as out,
    ):
        lines = io.TextIOWrapper(stream, encoding=file.shape.encoding, errors="replace", newline=None)
        out.writelines(islice(lines, file.shape.skip_lines, None))
    return target


def _open_json(
    con: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[Recognised],
    columns: dict[str, str],
    *,
    by_canonical_name: bool,
) -> Source:
    formats = {"jsonl": "newline_delimited", "json": "auto", "json_stream": "unstructured"}
    by_form: dict[tuple[str, str], list[Recognised]] = {}
    for file in files:
        form = "array" if isinstance(file.shape.sample, list) else formats[file.shape.form]
        by_form.setdefault((form, file.shape.compression), []).append(file)
    spec = "{" + ", ".join(f"{literal(column)}: {literal(kind)}" for column, kind in columns.items()) + "}"
    parts = [
        f"select * from read_json({_paths(group)}, format={literal(form)}, compression={literal('auto_detect' if compression == 'none' else compression)}, "
        f"columns={spec}, maximum_object_size={_MAX_LINE if form == 'newline_delimited' else _MAX_OBJECT})"
        for (form, compression), group in by_form.items()
    ]
    union = " union all by name ".join(parts)
    if not by_canonical_name:
        con.execute(f"create or replace temp view {name} as {union}")
        return Source(name, dict(columns), {column: column for column in columns}, "json")
    listed = ", ".join(f"{quote(column)} as {quote(canonical(column))}" for column in columns)
    con.execute(f"create or replace temp view {name} as select {listed} from ({union})")
    return Source(
        name,
        {canonical(column): kind for column, kind in columns.items()},
        {canonical(column): column for column in columns},
        "json",
    )
