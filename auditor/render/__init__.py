"""Writes the report files of one run, and its summary on the terminal."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from auditor.errors import SettingsError
from auditor.render.extras import (
    Classification,
    DailyCost,
    DayTotal,
    Extras,
    GpuSlice,
    MachineDay,
    Mute,
    NoTelemetry,
    PreviousRun,
    Realised,
    RuleText,
    Samples,
    Setting,
    SourceNote,
    TransferEdge,
    TransferPayer,
    Unjoined,
    WeekHour,
)
from auditor.render.files import plain, write_atomically
from auditor.render.terminal import terminal_summary

__all__ = [
    "FORMATS",
    "LEDGER_FILE",
    "Classification",
    "DailyCost",
    "DayTotal",
    "Extras",
    "GpuSlice",
    "MachineDay",
    "Mute",
    "NoTelemetry",
    "PreviousRun",
    "Realised",
    "RuleText",
    "Samples",
    "Setting",
    "SourceNote",
    "TransferEdge",
    "TransferPayer",
    "Unjoined",
    "WeekHour",
    "render",
    "terminal_summary",
]

FORMATS: Mapping[str, str] = {
    "html": "report.html",
    "json": "findings.json",
    "csv": "findings.csv",
    "md": "report.md",
    "sarif": "findings.sarif",
    "parquet": "findings.parquet",
}
LEDGER_FILE = "gpu_ledger.parquet"


def render(document: Mapping[str, Any], extras: Extras, formats: Sequence[str], output: Path) -> list[Path]:
    """Files written into `output`, one for each format (two for Parquet), in the order asked for.

    `document` has the shape of findings.json. A file appears whole or not at all; an earlier one of the same name is
    replaced. Raises SettingsError for a format nobody knows, before anything is written, and for a folder that cannot
    be written to.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise SettingsError(f"no report format is called {unknown[0]!r}; formats are {', '.join(FORMATS)}")
    facts = plain(document)
    written = []
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys(formats):
            for file, write in _writers(name, facts, extras).items():
                path = output / file
                write_atomically(path, write)
                written.append(path)
    except OSError as error:
        raise SettingsError(
            f"the report cannot be written to {output}: {error.strerror or error}; choose another folder with --output"
        ) from error
    return written


def _writers(name: str, document: Mapping[str, Any], extras: Extras) -> dict[str, Callable[[Path], None]]:
    """File name -> what fills it; a format is one file, but Parquet has the ledger in a second one."""
    if name == "parquet":
        from auditor.render.tables import write_ledger, write_parquet

        return {
            FORMATS[name]: lambda path: write_parquet(document, path),
            LEDGER_FILE: lambda path: write_ledger(document, path),
        }
    content = _content(name, document, extras)

    def write(path: Path) -> None:
        path.write_bytes(content)

    return {FORMATS[name]: write}


def _content(name: str, document: Mapping[str, Any], extras: Extras) -> bytes:
    if name == "html":
        from auditor.render.page import html

        return html(document, extras).encode("utf-8", "replace")
    if name == "json":
        from auditor.render.files import json_bytes

        return json_bytes(document)
    if name == "csv":
        from auditor.render.tables import csv_text

        return csv_text(document).encode("utf-8", "replace")
    if name == "md":
        from auditor.render.markdown import markdown

        return markdown(document, extras).encode("utf-8", "replace")
    from auditor.render.files import json_bytes
    from auditor.render.sarif import sarif

    return json_bytes(sarif(document, extras))
