"""The neutral `metrics` table: CSV, Parquet or JSON lines, one sample a row."""

import duckdb

from auditor.landing import Shape
from auditor.normalise.telemetry.intake import Taken, describe
from auditor.normalise.telemetry.signals import HIGHEST_RATIO, METRIC_NAMES, RATIOS, UNITS, kind

_WANTED = ("time", "provider", "resource_id", "device", "metric", "value", "unit")
_PROVIDERS = {
    "amazon": "aws",
    "amazon web services": "aws",
    "google": "gcp",
    "google cloud": "gcp",
    "google cloud platform": "gcp",
    "microsoft": "azure",
    "microsoft azure": "azure",
}

_CAPPED = "!capped|"

# Of a series in percent that declares no unit only the busy samples are impossible ratios; the others would make a busy
# device look idle. A series with more such values than a device at rest has busy hours is none of ratios; so is one with
# a few hours of them and little else beside zeros. Rarer ones are glitches.
_MISTAKEN_HOURS = 0.05
_MISTAKEN_SAMPLES = 0.02
_FEW_HOURS = 0.01


def take_table(con: duckdb.DuckDBPyConnection, form: str, shape: Shape, paths: list[str]) -> Taken:
    """Appends the samples of like files to `metrics`. Raises duckdb.Error where a file cannot be read.

    A `unit` column is optional; without it the metric's own unit (CONTRACT) holds, whatever the values look like.
    """
    relation, parameters = _relation(form, shape, paths)
    before = con.execute("select count(*), coalesce(max(rowid), -1) from metrics").fetchone() or (0, -1)
    # The text is parsed and the rows are written once: those that do not stay bear their verdict as a mark until they are
    # counted. No declared unit that is kept begins with the mark.
    con.execute(
        f"""insert into metrics select time, provider, resource_id, device, metric, value,
            case verdict when 'kept' then unit_source when 'capped' then '{_CAPPED}' || unit_source else '!' || verdict end
        from ({_judged(relation, shape, form)})""",
        parameters,
    )
    notes = _distrust_percent(con, before[1] + 1)
    marked = con.execute(
        """select regexp_extract(unit_source, '^!([a-z]+)', 1), metric, count(*) from metrics
        where starts_with(unit_source, '!') group by all"""
    ).fetchall()
    counts: dict[str, int] = {}
    unused: dict[str, int] = {}
    for verdict, metric, rows in marked:
        if verdict == "unused":
            name = metric or "(without a name)"
            unused[name] = unused.get(name, 0) + rows
        else:
            counts[verdict] = counts.get(verdict, 0) + rows
    if counts.get("capped"):
        con.execute(
            f"""update metrics set unit_source = substr(unit_source, {len(_CAPPED) + 1})
            where starts_with(unit_source, '{_CAPPED}')"""
        )
    if marked:
        con.execute("delete from metrics where starts_with(unit_source, '!')")
    counts["unreadable"] = counts.get("unreadable", 0) + _rejected_lines(con)
    after = con.execute("select count(*) from metrics").fetchone()
    return Taken(after[0] - before[0] if after else 0, describe(counts, unused, notes))


def _distrust_percent(con: duckdb.DuckDBPyConnection, first_row: int) -> list[str]:
    """Marks every sample of the series among the new rows that look like percent without saying so; tells how many."""
    ratios = ", ".join(f"'{name}'" for name in sorted(RATIOS))
    beyond = f"unit_source = '!dropped' and value > {HIGHEST_RATIO} and value <= 100 and metric in ({ratios})"
    if not con.execute(
        f"select 1 from metrics where rowid >= $first and {beyond} limit 1", {"first": first_row}
    ).fetchone():
        return []
    con.execute(
        f"""create or replace temp table telemetry_mistaken as
        with told as (
            select provider, resource_id, device, metric, value, date_trunc('hour', time) as hour, {beyond} as is_beyond
            from metrics where rowid >= $first and metric in ({ratios})
        )
        select provider, resource_id, device, metric from told group by all
        having count(distinct hour) filter (is_beyond) >= greatest(2, {_FEW_HOURS} * count(distinct hour))
            and (count(*) filter (is_beyond) > count(*) filter (not is_beyond and value > 0)
                or (count(distinct hour) filter (is_beyond) >= {_MISTAKEN_HOURS} * count(distinct hour)
                    and count(*) filter (is_beyond) >= {_MISTAKEN_SAMPLES} * count(*)))""",
        {"first": first_row},
    )
    series = con.execute("select count(*) from telemetry_mistaken").fetchone()
    con.execute(
        f"""update metrics set unit_source = '!percent' from telemetry_mistaken as m
        where metrics.rowid >= $first and metrics.provider is not distinct from m.provider
            and metrics.resource_id = m.resource_id and metrics.device = m.device and metrics.metric = m.metric
            and (not starts_with(unit_source, '!') or unit_source = '!dropped' or starts_with(unit_source, '{_CAPPED}'))""",
        {"first": first_row},
    )
    con.execute("drop table telemetry_mistaken")
    if not series or not series[0]:
        return []
    return [f"{series[0]} series look like percent: give their unit in a column `unit`, percent or ratio"]


def _judged(relation: str, shape: Shape, form: str) -> str:
    """Every row with our types and a verdict."""
    cells = _cells(shape, form)
    types = dict(zip(shape.columns, shape.types, strict=False)) if form == "parquet" else {}

    def cell(name: str, cast: str = "varchar") -> str:
        if name not in cells:
            return f"cast(null as {cast})"
        quoted = _quoted(cells[name])
        return quoted if cast == "raw" else f"cast({quoted} as {cast})"

    declared = types.get(cells["time"], "VARCHAR")
    if declared.startswith("TIMESTAMP WITH"):
        time = f"make_timestamp(epoch_us({cell('time', 'raw')}))"
    elif declared.startswith(("TIMESTAMP", "DATE")):
        time = cell("time", "timestamp")
    else:
        # an instant in UTC written in full needs none of the dearer readings
        written = cell("time")
        time = f"""case when ends_with({written}, 'Z') or (strlen({written}) = 19 and substr({written}, 17, 1) = ':')
            then try_cast({written} as timestamp) else telemetry_time(trim({written})) end"""
    return f"""
        with cells as (
            select {time} as time, nullif(trim({cell("provider")}), '') as stated_provider,
                nullif(trim({cell("resource_id")}), '') as resource_id, coalesce(trim({cell("device")}), '') as device,
                trim({cell("metric")}) as metric, try_cast({cell("value", "raw")} as double) as figure,
                nullif(lower(trim({cell("unit")})), '') as declared_unit
            from {relation}
        ), typed as (
            select c.time, c.resource_id, c.device, c.metric,
                coalesce({_provider("lower(c.stated_provider)")}, telemetry_provider(c.resource_id)) as provider,
                c.figure * {_factor("c.kind", "c.declared_unit")} as value, c.figure, c.kind, c.declared_unit
            from (select *, {_kind("metric")} as kind from cells) c
        )
        select time, provider, resource_id, device, metric,
            case when kind = 'ratio' and value > 1 and value <= {HIGHEST_RATIO} then 1 else value end as value,
            coalesce(declared_unit, kind) as unit_source,
            case
                when time is null or resource_id is null or figure is null then 'unreadable'
                when kind is null then 'unused'
                when value is null then 'unit'
                when not isfinite(value) or value < 0 or (kind = 'ratio' and value > {HIGHEST_RATIO}) then 'dropped'
                when kind = 'ratio' and value > 1 then 'capped'
                else 'kept' end as verdict
        from typed"""


def _kind(column: str) -> str:
    """An expression, not a join: a join may shuffle the rows, and of equal samples the last counts."""
    names: dict[str, list[str]] = {}
    for name in sorted(METRIC_NAMES):
        names.setdefault(kind(name), []).append(f"'{name}'")
    arms = " ".join(f"when {column} in ({', '.join(listed)}) then '{one}'" for one, listed in names.items())
    return f"case {arms} end"


def _provider(column: str) -> str:
    arms = " ".join(f"when '{name}' then '{short}'" for name, short in _PROVIDERS.items())
    return f"case {column} {arms} else {column} end"


def _factor(kind_column: str, unit_column: str) -> str:
    arms = " ".join(
        f"when {kind_column} = '{u.kind}' and {unit_column} = '{u.unit}' then {u.factor!r}"
        for u in UNITS
        if not u.rate_seconds
    )
    return f"case when {unit_column} is null then 1.0 {arms} end"


def _cells(shape: Shape, form: str) -> dict[str, str]:
    """Our column name -> the file's. A JSON row may lack what a later row has, so there every name is looked for."""
    cells = {column.strip().lower(): column for column in shape.columns}
    return {**{name: name for name in _WANTED}, **cells} if form == "jsonl" else cells


def _relation(form: str, shape: Shape, paths: list[str]) -> tuple[str, dict[str, object]]:
    """A table function over the files, and its bound parameters."""
    if form == "parquet":
        return "read_parquet($paths, hive_partitioning = false, union_by_name = true)", {"paths": paths}
    if form == "jsonl":
        layout = {"jsonl": "newline_delimited", "json_stream": "unstructured"}.get(shape.form, "auto")
        columns = ", ".join(f"{_quoted(column)}: 'VARCHAR'" for column in _cells(shape, form).values())
        return (
            f"read_json($paths, format = $layout, compression = $compression, columns = {{{columns}}}, hive_partitioning = false)",
            {"paths": paths, "layout": layout, "compression": shape.compression},
        )
    columns = ", ".join(f"{_quoted(column)}: 'VARCHAR'" for column in shape.columns)
    return (
        f"""read_csv($paths, auto_detect = false, header = true, columns = {{{columns}}}, delim = $delim, quote = $quote,
            escape = $quote, skip = $skip, compression = $compression, null_padding = true,
            hive_partitioning = false, store_rejects = true, rejects_table = 'telemetry_rejects',
            rejects_scan = 'telemetry_reject_scans')""",
        {
            "paths": paths,
            "delim": shape.delimiter,
            "quote": shape.quote,
            "skip": shape.skip_lines,
            "compression": shape.compression,
        },
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rejected_lines(con: duckdb.DuckDBPyConnection) -> int:
    """Lines that the CSV reader set aside, forgotten once counted."""
    found = con.execute("select count(*) from duckdb_tables() where table_name = 'telemetry_rejects'").fetchone()
    if not found or not found[0]:
        return 0
    counted = con.execute("select count(distinct (scan_id, file_id, line)) from telemetry_rejects").fetchone()
    con.execute("drop table telemetry_rejects")
    con.execute("drop table telemetry_reject_scans")
    return counted[0] if counted else 0
