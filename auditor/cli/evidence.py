"""Shows the lines of the bill behind a finding."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from auditor.evidence import BillRow
    from auditor.finding import Finding


def show_rows(finding: "Finding", paths: Sequence[str], *, limit: int = 20, as_json: bool = False) -> None:
    """Prints the bill's own lines of a finding, oldest first, with the headers of the file they stand in.

    Raises SettingsError for a path that does not exist.
    """
    from auditor.cli.findings import clean
    from auditor.evidence import bill_rows

    found = bill_rows(paths, finding, limit)
    for reason in found.unread:
        typer.echo(clean(f"not read: {reason}"), err=True)
    if as_json:
        for row in found.rows:
            typer.echo(json.dumps(row.__dict__, default=str))
        return
    if not found.total:
        typer.echo("No line of these files is about this finding: name the bills that the audit read.")
        return
    for row in found.rows:
        typer.echo(clean(_summary(row)))
        typer.echo(clean("    " + "; ".join(f"{header}={_text(value)}" for header, value in row.line.items())))
    if found.total > len(found.rows):
        typer.echo(f"… {len(found.rows)} of {found.total:,} lines; see more with --limit")


def _summary(row: "BillRow") -> str:
    when = f"{row.start:%Y-%m-%d %H:%M}" if row.start else "undated"
    cost = f"{row.currency or ''} {row.billed_cost:,.4f} billed, {row.effective_cost:,.4f} effective"
    return f"{when}  {row.usage_kind}  {cost}  {row.format}  {row.file}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
