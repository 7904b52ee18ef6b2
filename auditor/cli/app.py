"""The commands. Heavy imports live inside them, so that --help answers at once."""

import logging
import os
import signal
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from auditor.cli import collect, export, findings, permissions, rules, runs, serve, sql
from auditor.cli.logs import start_logging
from auditor.cli.options import (
    REPORT,
    ConfigOption,
    DataDirOption,
    FormatOption,
    LogFormatOption,
    NoProgressOption,
    OutputOption,
    PathsArgument,
    RulesDirOption,
    VerboseOption,
    chosen_formats,
)
from auditor.errors import AuditorError, RuleError, SettingsError

app = typer.Typer(
    name="auditor",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Audit of cloud bills and telemetry: what AI and data infrastructure wastes, with the proof.",
)
app.add_typer(rules.app, name="rules")
app.add_typer(findings.app, name="findings")
app.add_typer(runs.app, name="runs")
app.command()(runs.report)
app.command()(sql.sql)
app.command()(collect.collect)
app.command()(export.export)
app.command()(permissions.permissions)
app.command()(serve.send)
app.command()(serve.serve)
app.command()(serve.doctor)
app.command()(serve.init)

USAGE, NOTHING = 2, 4


def main() -> None:
    """Entry point of the console script: no traceback reaches a user."""
    try:
        app()
    except (RuleError, SettingsError) as error:
        _complain(str(error))
        sys.exit(USAGE)
    except AuditorError as error:
        _complain(str(error))
        sys.exit(NOTHING)
    except KeyboardInterrupt:
        _complain("interrupted; nothing of the lake was changed by half")
        sys.exit(130)
    except Exception as error:
        logging.getLogger(__name__).debug("unexpected failure", exc_info=True)
        _complain(
            f"unexpected failure ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}); run again with -v and report it with the log"
        )
        sys.exit(NOTHING)


def _complain(message: str) -> None:
    from rich.console import Console

    Console(stderr=True, highlight=False, markup=False).print(f"auditor: {message}", soft_wrap=True)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"auditor {metadata.version('auditor')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def scan(
    paths: PathsArgument = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            help="End of the audit window, excluded (YYYY-MM-DD); default the last complete day of each bill."
        ),
    ] = None,
    lookback: Annotated[
        int | None, typer.Option(min=1, max=400, help="Length of the audit window in days; default 30.")
    ] = None,
    output: OutputOption = REPORT,
    formats: FormatOption = None,
    rules: Annotated[list[str] | None, typer.Option(help="Run only rules whose id fits this glob; repeatable.")] = None,
    rules_dir: RulesDirOption = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="RULE.PARAM=VALUE for this run; repeatable.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(help="Exit 1 when an open finding is at or above low, medium, high or critical.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the files written.")] = False,
    verbose: VerboseOption = 0,
    no_progress: NoProgressOption = False,
    log_format: LogFormatOption = "text",
) -> None:
    """Audit bills, telemetry and inventory, and write the report."""
    from auditor.cli.request import make_request

    start_logging(verbose, log_format)
    chosen = chosen_formats(formats)
    request = make_request(
        paths=tuple(paths or ()),
        config=config,
        data_dir=data_dir,
        as_of=_date(as_of),
        lookback=lookback,
        rules=tuple(rules or ()),
        rules_dirs=tuple(rules_dir or ()),
        overrides=tuple(set_ or ()),
        fail_on=fail_on,
    )
    sys.exit(_audit(request, output, chosen, quiet=quiet, show_progress=not (no_progress or quiet)))


@app.command()
def demo(
    output: OutputOption = REPORT,
    no_progress: NoProgressOption = False,
) -> None:
    """Audit the bundled example estate of three clouds."""
    from auditor.assets import room
    from auditor.cli.request import make_request

    start_logging(0, "text")
    request = make_request(paths=(str(room("examples") / "estate"),), as_of=date(2026, 10, 1))
    status = _audit(request, output, ("html", "json", "csv"), quiet=False, show_progress=not no_progress)
    sys.exit(status)


def _audit(request: Any, output: Path, formats: tuple[str, ...], *, quiet: bool, show_progress: bool) -> int:
    from rich.console import Console

    from auditor.cli.progress import progress_for
    from auditor.cli.terminal import Patient
    from auditor.render import render, terminal_summary
    from auditor.scan import scan as run_scan

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: the run lock is given back
    with progress_for(Console(stderr=True), shown=show_progress) as progress:
        result = run_scan(request, progress, datetime.now(UTC))
        written = render(result.document, result.extras, formats, output)
    try:
        if quiet:
            for path in written:
                typer.echo(str(path))
        else:
            terminal_summary(result.document, Patient(), written)
        sys.stdout.flush()
    except OSError as error:
        # Whoever read the summary went away, or it has no room; the report files are written all the same.
        logging.getLogger(__name__).info("summary not shown reason=%s", error.strerror)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return result.exit_status


def _date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"--as-of {text}: not a date; write it as 2026-11-01") from None
    if not 2000 <= found.year <= 2100:
        raise SettingsError(f"--as-of {text}: no cloud bill reaches there; name a day between 2000 and 2100")
    return found
