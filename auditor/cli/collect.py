"""`auditor collect`: fetches what the configured sources have into a folder, to be audited elsewhere."""

import logging
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditor.cli.findings import clean
from auditor.cli.options import ConfigOption, LogFormatOption, NoProgressOption, VerboseOption
from auditor.errors import SettingsError

if TYPE_CHECKING:
    from auditor.journal import Problem
    from auditor.settings import Settings

PARTIAL = 3


def collect(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to fetch into; what it holds is not fetched again.")
    ],
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="With --redact: files and folders as they are; without any, the sources are collected."),
    ] = None,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Replace account ids, names, tag values and addresses, so that it can be sent."),
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(help="File of the key of --redact, made where missing: the same key gives the same names again."),
    ] = None,
    config: ConfigOption = None,
    verbose: VerboseOption = 0,
    no_progress: NoProgressOption = False,
    log_format: LogFormatOption = "text",
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
    if paths and not redact:
        raise SettingsError("collect fetches what is configured; with --redact it rewrites the files that are named")
    if key is not None and not redact:
        raise SettingsError("--key belongs to --redact")
    if paths:
        _redact(paths, output, key, loaded, shown=not no_progress)
        return
    if not is_live(loaded):
        looked = str(config) if config else ", ".join(settings.PLACES)
        raise SettingsError(
            f"nothing to collect: configure [[sources.aws]], .gcp, .azure, .prometheus or .slurm (looked in {looked})"
        )
    with (
        tempfile.TemporaryDirectory(prefix="auditor-") as spool,
        progress_for(Console(stderr=True), shown=not no_progress) as progress,
    ):
        # what names somebody lies only in the spool, which goes
        target = Path(spool) / "landing" if redact else output
        made = run_collect(loaded, target, Path(spool), progress, datetime.now(UTC))
        if redact:
            _redact([str(source.path) for source in made], output, key, loaded, shown=False)
    for source in made:
        typer.echo(clean(f"{source.name}: {source.files:,} files in {source.path}"))
        for problem in source.problems:
            logging.getLogger(__name__).debug("problem %s", problem)
            typer.echo(clean(_not_fetched(problem)), err=True)
    if any(source.problems for source in made):
        sys.exit(PARTIAL)


def _not_fetched(problem: "Problem") -> str:
    where = " ".join(part for part in (problem.account_id, problem.region) if part)
    text = f"  not fetched: {problem.what}{f' ({where})' if where else ''}: {problem.reason}; {problem.fix or ''}"
    return text.rstrip("; ")


def _redact(paths: list[str], output: Path, key: Path | None, loaded: "Settings", *, shown: bool) -> None:
    from rich.console import Console

    from auditor.cli.progress import progress_for
    from auditor.redact import key_of, redact

    with progress_for(Console(stderr=True), shown=shown) as progress:
        done = redact(paths, output, key_of(key, output), progress, loaded.tags.settings())
    typer.echo(clean(f"{done.files:,} files in {output}, without the names of accounts, people and resources"))
    for name, reason in done.left_out:
        typer.echo(clean(f"  left out: {name}: {reason}"), err=True)
    if key is not None:
        typer.echo(f"keep {key} here: with it the same names come out again")
