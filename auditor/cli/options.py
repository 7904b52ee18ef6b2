"""Arguments and options that several commands share, so that they mean and say the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from auditor.errors import SettingsError

PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files, folders, .zip or .tar.gz bundles, s3://, gs:// or az:// URLs; without any, the configured sources."
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="TOML configuration; default ./auditor.toml, then the user's and the system's."
    ),
]
DataDirOption = Annotated[Path | None, typer.Option(help="Where lake and state live; default as configured.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", help="Folder for the report files.")]
FormatOption = Annotated[
    list[str] | None,
    typer.Option("--format", "-f", help="html, json, csv, md, sarif or parquet; repeatable. Default html json."),
]
RulesDirOption = Annotated[list[Path] | None, typer.Option(help="Also load the rules of this folder; repeatable.")]
VerboseOption = Annotated[
    int, typer.Option("--verbose", "-v", count=True, help="Log to stderr what is done; twice for details.")
]
NoProgressOption = Annotated[bool, typer.Option("--no-progress", help="No progress bars.")]
LogFormatOption = Annotated[str, typer.Option(help="text or json.")]

REPORT = Path("auditor-report")


def chosen_formats(names: list[str] | None) -> tuple[str, ...]:
    """The report formats asked for, by default html and json. Raises SettingsError for one that does not exist."""
    from auditor.render import FORMATS

    chosen = tuple(names or ("html", "json"))
    for name in chosen:
        if name not in FORMATS:
            raise SettingsError(f"--format {name}: no report format has this name; formats are {', '.join(FORMATS)}")
    return chosen
