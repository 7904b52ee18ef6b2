"""`auditor serve`, `send`, `doctor` and `init`: auditor as it is lived with."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditor.cli.findings import clean
from auditor.cli.options import ConfigOption, DataDirOption, LogFormatOption, VerboseOption
from auditor.cli.place import find_place, open_state
from auditor.errors import SettingsError

if TYPE_CHECKING:
    from auditor.first_config import Answers

PARTIAL = 3
KINDS = ("report", "digest")


def serve(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    listen: Annotated[str | None, typer.Option(help="HOST:PORT of health and metrics; default as configured.")] = None,
    log_format: LogFormatOption = "json",
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log details.")] = 0,
) -> None:
    """Run until told to stop: audit, report and tidy up when the schedule says so."""
    from auditor.cli.logs import start_logging
    from auditor.daemon import run_service

    start_logging(max(verbose, 1) + (verbose > 1), log_format)
    place = find_place(config, data_dir)
    run_service(place.settings, place.data_dir, config, listen)


def send(
    kind: Annotated[str, typer.Option(help="report or digest.")] = "report",
    run: Annotated[str | None, typer.Option(help="A run's id, or a beginning of it; default the newest.")] = None,
    slot: Annotated[
        str | None, typer.Option(help="Slot of the schedule (2026-11-02T07:00); default the newest that is due.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go to whom; send nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Send again what was sent, or what nobody knows the fate of.")
    ] = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    verbose: VerboseOption = 0,
) -> None:
    """Send the report of the newest run to everybody who has not got it in this slot."""
    from auditor import outbox
    from auditor.cli.logs import start_logging
    from auditor.deliver import subject, write

    start_logging(verbose, "text")
    if kind not in KINDS:
        raise SettingsError(f"--kind {kind}: choose report or digest")
    if dry_run and force:
        raise SettingsError("--dry-run and --force exclude each other")
    place = find_place(config, data_dir)
    chosen = slot or outbox.current_slot(place.settings, kind, datetime.now(UTC))
    readers = outbox.recipients(place.settings, kind)
    if not readers:
        raise SettingsError(f"nobody wants the {kind}: configure [delivery.smtp], .apprise, .webhook or .files")
    with open_state(config, data_dir) as state:
        if dry_run:
            for reader, digest in outbox.preview(state, place.settings, kind, chosen, datetime.now(UTC), run):
                typer.echo(clean(f"To: {reader.key} ({reader.channel})"))
                typer.echo(f"Slot: {kind} {chosen}\nSubject: {subject(digest)}\n\n{write(digest).text}")
            return
        outcomes = outbox.send_slot(
            state, place.settings, kind, chosen, lambda: datetime.now(UTC), run_id=run, force=force
        )
    for outcome in outcomes:
        known = "sent earlier, or being sent" if outcome.status == "untouched" else outcome.error or ""
        typer.echo(
            clean(f"{outcome.status:<10} {outcome.recipient.channel:<8} {outcome.recipient.key}  {known}".rstrip())
        )
    if any(outcome.status in ("failed", "unknown") for outcome in outcomes):
        sys.exit(PARTIAL)


def doctor(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """What is configured, reachable and missing, and what was left undone."""
    from rich.console import Console
    from rich.text import Text

    from auditor.examine import examine

    place = find_place(config, data_dir)
    console = Console() if Console().is_terminal else Console(width=400)
    styles = {"ok": "green", "warn": "yellow", "bad": "bold red"}
    checks = examine(place.settings, place.data_dir, datetime.now(UTC))
    for check in checks:
        line = Text(f"{check.state:<5}", style=styles[check.state])
        line.append(Text(clean(f"{check.subject}: {check.text}"), style="default"))
        console.print(line)
        if check.fix:
            console.print(Text(clean(f"      {check.fix}"), style="dim"))
    if any(check.state == "bad" for check in checks):
        sys.exit(PARTIAL)


def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("auditor.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    aws_export: Annotated[
        list[str] | None, typer.Option(help="s3://BUCKET/PREFIX of a CUR or Data Export; repeatable.")
    ] = None,
    gcp_dataset: Annotated[str | None, typer.Option(help="PROJECT.DATASET of the billing export.")] = None,
    azure_scope: Annotated[
        list[str] | None, typer.Option(help="/subscriptions/ID or a billing account's id; repeatable.")
    ] = None,
    prometheus: Annotated[str | None, typer.Option(help="Base address of a Prometheus.")] = None,
    files: Annotated[list[str] | None, typer.Option("--path", help="Folder with exports; repeatable.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Where lake and state live.")] = None,
    mail_to: Annotated[list[str] | None, typer.Option(help="Address that gets the reports; repeatable.")] = None,
    smtp_host: Annotated[str | None, typer.Option(help="Mail server.")] = None,
) -> None:
    """Write a configuration with every setting, commented, and your sources filled in; asks for them on a terminal."""
    from auditor.assets import room
    from auditor.first_config import Answers, configuration

    if path.exists() and not force:
        raise SettingsError(f"{path} is there already; --force replaces it")
    answers = Answers(
        aws_export=aws_export or (),
        gcp_dataset=gcp_dataset,
        azure_scope=azure_scope or (),
        prometheus=prometheus,
        path=files or (),
        data_dir=data_dir,
        mail_to=mail_to or (),
        smtp_host=smtp_host,
    )
    if answers.is_empty and sys.stdin.isatty() and sys.stdout.isatty():
        answers = _asked()
    text = configuration((room("config") / "auditor.example.toml").read_text("utf-8"), answers)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as handle:
            handle.write(text)
    except FileExistsError:
        raise SettingsError(f"{path} is there already; --force replaces it") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {path}; next: {'edit it, then ' if answers.is_empty else ''}`auditor doctor`")
    for cloud, wanted in (("aws", answers.aws_export), ("gcp", answers.gcp_dataset), ("azure", answers.azure_scope)):
        if wanted:
            typer.echo(f"`auditor permissions {cloud}` prints what the credentials for {cloud} must allow")


def _asked() -> "Answers":
    from auditor.first_config import Answers

    def ask(question: str) -> str | None:
        return typer.prompt(question, default="", show_default=False).strip() or None

    def several(question: str) -> list[str]:
        return (ask(question) or "").replace(",", " ").split()

    typer.echo("Leave empty what you do not have.")
    mail_to = several("Addresses that get the reports")
    return Answers(
        aws_export=several("AWS: s3://BUCKET/PREFIX of the Data Export or CUR"),
        gcp_dataset=ask("GCP: PROJECT.DATASET of the billing export"),
        azure_scope=several("Azure: /subscriptions/ID, or a billing account's id"),
        prometheus=ask("Prometheus: its address"),
        path=several("Folders with exports, inventory or metrics"),
        data_dir=ask("Folder for lake and state, for example /var/lib/auditor"),
        mail_to=mail_to,
        smtp_host=ask("Mail server") if mail_to else None,
    )
