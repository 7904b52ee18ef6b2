"""`auditor sql`: the lake, read-only."""

import csv
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditor.cli.options import ConfigOption, DataDirOption
from auditor.cli.place import find_place, open_state
from auditor.errors import SettingsError

if TYPE_CHECKING:
    import duckdb

_SHOWN = 1000


def sql(
    query: Annotated[
        str, typer.Argument(help="One select statement over charges, accelerator_charges, commitment_charges.")
    ],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    format_: Annotated[str, typer.Option("--format", "-f", help="table, csv or json (one object a line).")] = "table",
) -> None:
    """Query what the lake holds: every charge that counts, once, as reports count it. Nothing can be written."""
    import duckdb

    from auditor.lake import store

    if format_ not in ("table", "csv", "json"):
        raise SettingsError(f"--format {format_}: choose table, csv or json")
    place = find_place(config, data_dir)
    with tempfile.TemporaryDirectory(prefix="auditor-", ignore_cleanup_errors=True) as scratch:
        engine = place.settings.engine
        with closing(store.connect(engine.memory_limit, engine.threads, Path(scratch))) as con:
            _load(con, config, data_dir, place.data_dir)
            try:
                _check(con, query)
                cursor = con.execute(query)
                columns = [column[0] for column in cursor.description or ()]
                _print(cursor, columns, format_)
            except duckdb.Error as error:
                raise SettingsError(f"the query does not run: {str(error).strip()}") from error


def _load(con: "duckdb.DuckDBPyConnection", config: Path | None, data_dir: Path | None, lake: Path) -> None:
    """The tables as a report counts them, then the door to files and the settings shut for good."""
    from auditor import bills
    from auditor.lake import store

    with open_state(config, data_dir) as state:
        choice = bills.choose([bills.from_record(record) for record in state.deliveries() if record.identities])
        store.load(con, lake, state.live_files())
    store.keep_counted(con, choice.counted, choice.partly)
    store.pair_azure_costs(con)
    con.execute(
        "drop table if exists counted; drop table if exists counted_days; drop table if exists paired; drop table if exists merged"
    )
    for table in store.OBSERVED:
        con.execute(f"drop table if exists {table}")  # samples and inventory are read anew by every audit
    con.execute("set enable_external_access = false")
    con.execute("set lock_configuration = true")


def _check(con: "duckdb.DuckDBPyConnection", query: str) -> None:
    """Raises SettingsError for anything but one statement that reads."""
    import duckdb

    statements = con.extract_statements(query)
    if len(statements) != 1 or statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise SettingsError("the lake is read-only here: write one select statement")


def _print(cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str], format_: str) -> None:
    if format_ == "table":
        _print_table(cursor.fetchmany(_SHOWN + 1), columns)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if format_ == "csv":
        writer.writerow(columns)
    while rows := cursor.fetchmany(_SHOWN):
        for row in rows:
            if format_ == "csv":
                writer.writerow(["" if value is None else value for value in row])
            else:
                typer.echo(json.dumps(dict(zip(columns, row, strict=True)), default=str))


def _print_table(rows: Sequence[Sequence[Any]], columns: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from auditor.cli.findings import clean

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(Text(clean(column)), overflow="fold")
    for row in rows[:_SHOWN]:
        table.add_row(*(Text("" if value is None else clean(str(value))) for value in row))
    console = Console() if Console().is_terminal else Console(width=400)
    console.print(table)
    if len(rows) > _SHOWN:
        typer.echo(f"… only the first {_SHOWN:,} rows are shown; take --format csv for all", err=True)
