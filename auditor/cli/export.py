"""`auditor export`: bills in the form of FOCUS."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from auditor.cli.logs import start_logging
from auditor.cli.options import (
    ConfigOption,
    DataDirOption,
    LogFormatOption,
    NoProgressOption,
    PathsArgument,
    VerboseOption,
)


def export(
    paths: PathsArgument = None,
    focus: Annotated[str, typer.Option(help="Version of FOCUS: 1.0, 1.1 or 1.2.")] = "1.2",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the Parquet files.")] = Path(
        "focus-export"
    ),
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    verbose: VerboseOption = 0,
    no_progress: NoProgressOption = False,
    log_format: LogFormatOption = "text",
) -> None:
    """Write every charge of the bills as FOCUS, one Parquet file for each provider, billing account and period."""
    from rich.console import Console

    from auditor import money
    from auditor.cli.progress import progress_for
    from auditor.cli.request import make_request
    from auditor.export import check_version
    from auditor.export import export as run_export

    start_logging(verbose, log_format)
    check_version(focus)
    request = make_request(paths=tuple(paths or ()), config=config, data_dir=data_dir)
    with progress_for(Console(stderr=True), shown=not no_progress) as progress:
        done = run_export(request, focus, output, progress, datetime.now(UTC))
    for file in done.files:
        sums = ", ".join(
            f"{money.text(billed)} {currency} billed, {money.text(effective)} effective"
            for currency, (billed, effective) in sorted(file.costs.items())
        )
        typer.echo(f"{file.path}  {file.rows:,} rows, {sums}")
    for note in done.left_out:
        typer.echo(f"left out: {note}", err=True)
    for problem in done.problems:
        typer.echo(f"problem: {problem}", err=True)
    sys.exit(done.exit_status)
