"""`auditor collect`: fetches what the configured sources have into a folder, to be audited elsewhere."""

import logging
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from auditor.cli.findings import clean
from auditor.cli.place import ConfigOption
from auditor.errors import SettingsError

PARTIAL = 3


def collect(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to fetch into; what it holds is not fetched again.")
    ],
    config: ConfigOption = None,
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log to stderr; twice for details.")] = 0,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bars.")] = False,
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Fetch bills, metrics and inventory of the configured sources; `auditor scan FOLDER` audits them."""
    from rich.console import Console

    from auditor import settings
    from auditor.cli.logs import start_logging
    from auditor.cli.progress import progress_for
    from auditor.collect import collect as run_collect
    from auditor.live import is_live

    start_logging(verbose, log_format)
    loaded = settings.load(config)
    if not is_live(loaded):
        looked = str(config) if config else ", ".join(settings.PLACES)
        raise SettingsError(
            f"nothing to collect: configure [[sources.aws]], .gcp, .azure, .prometheus or .slurm (looked in {looked})"
        )
    with (
        tempfile.TemporaryDirectory(prefix="auditor-") as spool,
        progress_for(Console(stderr=True), shown=not no_progress) as progress,
    ):
        made = run_collect(loaded, output, Path(spool), progress, datetime.now(UTC))
    for source in made:
        typer.echo(clean(f"{source.name}: {source.files:,} files in {source.path}"))
        for problem in source.problems:
            where = " ".join(part for part in (problem.account_id, problem.region) if part)
            logging.getLogger(__name__).debug("problem %s", problem)
            text = (
                f"  not fetched: {problem.what}{f' ({where})' if where else ''}: {problem.reason}; {problem.fix or ''}"
            )
            typer.echo(clean(text.rstrip("; ")), err=True)
    if any(source.problems for source in made):
        sys.exit(PARTIAL)
