"""Loads recognised telemetry files into `metrics`, group by group, so that one bad file costs only itself."""

import json
import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from auditor.landing import Recognised, Shape, SourceReport
from auditor.normalise.telemetry import azure_monitor, cloud_monitoring, cloudwatch, prometheus
from auditor.normalise.telemetry.elements import Cut, copy_lines, cut
from auditor.normalise.telemetry.intake import Taken, prepare, take
from auditor.normalise.telemetry.neutral import take_table
from auditor.normalise.telemetry.signals import SIGNALS

_log = logging.getLogger(__name__)

_Stage = Callable[[duckdb.DuckDBPyConnection, str], list[str]]
_DOCUMENTS: dict[str, tuple[str, tuple[tuple[str, ...], ...], _Stage]] = {
    "prometheus-json": ("prometheus", prometheus.ARRAYS, prometheus.stage),
    "cloud-monitoring-json": ("gcp", cloud_monitoring.ARRAYS, cloud_monitoring.stage),
    "azure-monitor-json": ("azure", azure_monitor.ARRAYS, azure_monitor.stage),
    "cloudwatch-metric-data-json": ("aws", cloudwatch.ARRAYS, cloudwatch.stage_metric_data),
}
_HINTS = tuple(
    sorted(
        {signal.name for signal in SIGNALS if signal.source == "prometheus" and "{" not in signal.name},
        key=len,
        reverse=True,
    )
)


def load(con: duckdb.DuckDBPyConnection, files: Sequence[Recognised]) -> list[SourceReport]:
    """Appends the samples of all files to `metrics` (created if missing; columns auditor.views.METRICS).

    One report a folder and format, and one for each file that failed. Later files win over earlier ones when
    `finish` removes repeated samples, so the order of `files` matters.
    """
    prepare(con)
    ordered = con.execute("select current_setting('preserve_insertion_order')").fetchone()
    con.execute("set preserve_insertion_order = true")  # of equal samples the last delivered counts
    try:
        return _load_all(con, files)
    finally:
        con.execute(f"set preserve_insertion_order = {ordered[0] if ordered else True}")


def _load_all(con: duckdb.DuckDBPyConnection, files: Sequence[Recognised]) -> list[SourceReport]:
    groups: dict[tuple[object, ...], list[Recognised]] = {}
    for file in files:
        groups.setdefault(_likeness(file), []).append(file)
    reports: list[SourceReport] = []
    with tempfile.TemporaryDirectory(prefix="auditor-telemetry-") as spool:
        for group in groups.values():
            reports += _load_group(con, group, Path(spool))
    for report in reports:
        _log.info(
            "telemetry format=%s files=%d samples=%d status=%s", report.format, report.files, report.rows, report.status
        )
    return reports


def _likeness(file: Recognised) -> tuple[object, ...]:
    """Files that one statement can read."""
    shape = file.shape
    if file.format.startswith("metrics-"):
        columns = () if file.format == "metrics-jsonl" else (shape.columns, shape.types)
        return (
            file.file.folder,
            file.format,
            shape.form,
            columns,
            shape.delimiter,
            shape.quote,
            shape.compression,
            shape.encoding,
        )
    return (file.file.folder, file.format, shape.compression, shape.encoding)


def _load_group(con: duckdb.DuckDBPyConnection, group: list[Recognised], spool: Path) -> list[SourceReport]:
    if group[0].format in _DOCUMENTS:
        return _load_documents(con, group, spool)
    whole = [file for file in group if file.shape.problem is None and file.shape.encoding == "utf-8"]
    reports = [_load_copied(con, file, spool) for file in group if file not in whole]
    if not whole:
        return reports
    try:
        taken = _attempt(con, whole[0], whole[0].shape, [str(file.file.path) for file in whole])
    except duckdb.Error as error:
        _log.debug("telemetry group broke, its files are read one by one: %s", error)
        return reports + [_load_one(con, file, spool) for file in whole]
    return [*reports, _report(whole, taken.rows, "ok", taken.message)]


def _attempt(con: duckdb.DuckDBPyConnection, file: Recognised, shape: Shape, paths: list[str]) -> Taken:
    """Reads like files at once, all or nothing."""
    con.execute("begin")
    try:
        if file.format == "cloudwatch-stream-json":
            taken = take(con, "aws", cloudwatch.stage_stream(con, paths, shape.compression))
        else:
            taken = take_table(con, file.format.removeprefix("metrics-"), shape, paths)
    except duckdb.Error:
        con.execute("rollback")
        raise
    con.execute("commit")
    return taken


def _load_one(con: duckdb.DuckDBPyConnection, file: Recognised, spool: Path) -> SourceReport:
    try:
        taken = _attempt(con, file, file.shape, [str(file.file.path)])
    except duckdb.Error as error:
        if file.format == "metrics-parquet":
            return _report([file], 0, "failed", f"cannot be read ({_first_line(error)}); deliver the file again")
        return _load_copied(con, file, spool)
    return _report([file], taken.rows, "ok", taken.message)


def _load_copied(con: duckdb.DuckDBPyConnection, file: Recognised, spool: Path) -> SourceReport:
    """Reads a text file by way of a UTF-8 copy that ends where the damage begins."""
    if file.format == "metrics-parquet":
        return _report([file], 0, "failed", f"{file.shape.problem or 'cannot be read'}; deliver the file again")
    copy = spool / "lines"
    lines = file.shape.form == "jsonl"
    with copy.open("w", encoding="utf-8", newline="") as target:
        problem = copy_lines(file.file.path, file.shape, target, check_json=lines)
    try:
        taken = _attempt(con, file, replace(file.shape, compression="none", encoding="utf-8"), [str(copy)])
    except duckdb.Error as error:
        return _report(
            [file], 0, "failed", f"{problem or _first_line(error)}; nothing could be read; deliver the file again"
        )
    if problem is None:
        return _report([file], taken.rows, "ok", taken.message)
    return _report([file], taken.rows, "failed", _damaged(problem, taken))


def _load_documents(con: duckdb.DuckDBPyConnection, group: list[Recognised], spool: Path) -> list[SourceReport]:
    reports: list[SourceReport] = []
    whole: list[tuple[Recognised, Cut]] = []
    together = spool / "together"
    together.unlink(missing_ok=True)
    documents = 0
    for file in group:
        alone = spool / "alone"
        with alone.open("w", encoding="utf-8") as target:
            found = cut(file.file, file.shape, target, _DOCUMENTS[file.format][1], documents)
        documents += len(found.envelopes)
        if found.problem is None and not any(envelope.get("status") == "error" for envelope in found.envelopes):
            whole.append((file, found))
            with together.open("ab") as target_bytes, alone.open("rb") as source:
                while chunk := source.read(1 << 20):
                    target_bytes.write(chunk)
        else:
            reports.append(_load_damaged(con, file, found, alone))
    if not whole:
        return reports
    try:
        taken = _attempt_documents(con, whole, str(together))
    except duckdb.Error as error:
        if len(whole) == 1:
            return [
                *reports,
                _report(group, 0, "failed", f"is not laid out as {group[0].format} ({_first_line(error)})"),
            ]
        return reports + [report for file, _ in whole for report in _load_documents(con, [file], spool)]
    return [*reports, _report([file for file, _ in whole], taken.rows, "ok", taken.message)]


def _load_damaged(con: duckdb.DuckDBPyConnection, file: Recognised, found: Cut, spool: Path) -> SourceReport:
    try:
        taken = _attempt_documents(con, [(file, found)], str(spool))
    except duckdb.Error as error:
        return _report(
            [file], 0, "failed", f"{found.problem or _first_line(error)}; nothing could be read; deliver the file again"
        )
    if found.problem is None:
        return _report([file], taken.rows, "failed", taken.message)
    return _report([file], taken.rows, "failed", _damaged(found.problem, taken))


def _attempt_documents(con: duckdb.DuckDBPyConnection, cuts: list[tuple[Recognised, Cut]], spool: str) -> Taken:
    source, _, stage = _DOCUMENTS[cuts[0][0].format]
    envelopes = []
    for file, found in cuts:
        hint = next((name for name in _HINTS if name in file.file.name), None)
        envelopes += [
            {"doc": found.first + place, "envelope": {**envelope, "name_hint": hint}}
            for place, envelope in enumerate(found.envelopes)
        ]
    con.execute("begin")
    try:
        con.execute(
            """create or replace temp table telemetry_docs as
            select d.doc, d.envelope from (select unnest(from_json($envelopes, '[{"doc": "INTEGER", "envelope": "JSON"}]')) as d)""",
            {"envelopes": json.dumps(envelopes)},
        )
        taken = take(con, source, stage(con, spool))
    except duckdb.Error:
        con.execute("rollback")
        raise
    con.execute("commit")
    return taken


def _damaged(problem: str, taken: Taken) -> str:
    text = f"{problem}; {taken.rows} samples before the damage count; deliver the file again"
    return f"{text}; {taken.message}" if taken.message else text


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _report(files: list[Recognised], rows: int, status: str, message: str | None) -> SourceReport:
    return SourceReport(
        files[0].provider,
        "telemetry",
        files[0].format,
        [file.file.name for file in files],
        len(files),
        rows,
        [],
        status,
        message,
    )
