"""`auditor findings`: what is known, and what somebody said about it."""

import json
import sys
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from auditor.cli.options import ConfigOption, DataDirOption
from auditor.cli.place import author_or_user, find_place, open_state
from auditor.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditor.records import FindingDetail, FindingRecord
    from auditor.state import State

app = typer.Typer(no_args_is_help=True, help="List, explain, acknowledge and mute findings.")

OPEN = ("new", "open", "reopened", "acknowledged")
AuthorOption = Annotated[str | None, typer.Option(help="Who says so; default your user name.")]


@app.command("list")
def list_(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    status: Annotated[
        list[str] | None,
        typer.Option(
            help="new, open, reopened, acknowledged, muted, resolved or all; repeatable. Default: not muted, not resolved."
        ),
    ] = None,
    rule: Annotated[str | None, typer.Option(help="Rule id; takes * and ?.")] = None,
    provider: Annotated[str | None, typer.Option(help="aws, gcp, azure, …")] = None,
    account: Annotated[str | None, typer.Option(help="Account, project or subscription.")] = None,
    resource: Annotated[str | None, typer.Option(help="Resource id.")] = None,
    owner: Annotated[str | None, typer.Option(help="Owner as the tags say.")] = None,
    severity: Annotated[str | None, typer.Option(help="low, medium, high or critical: at least this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """The findings, dearest first."""
    wanted = None if status and "all" in status else tuple(status or OPEN)
    unknown = [name for name in wanted or () if name not in (*OPEN, "muted", "resolved")]
    if unknown:
        raise SettingsError(f"--status {unknown[0]}: choose from {', '.join(OPEN)}, muted, resolved, all")
    with open_state(config, data_dir) as state:
        found = state.list_findings(
            status=wanted,
            rule=rule,
            provider=provider,
            sub_account_id=account,
            resource_id=resource,
            owner=owner,
            severity_at_least=severity,
            limit=limit + 1,
        )
    shown = found[:limit]
    if as_json:
        for record in shown:
            typer.echo(json.dumps(record._asdict(), default=str))
        return
    _print_table(shown)
    if len(found) > limit:
        typer.echo(f"… more than {limit}; see them with --limit")


_HEADINGS = ("id", "status", "severity", "net a month", "rule", "resource", "owner")
_MONEY = _HEADINGS.index("net a month")


def _print_table(records: "Sequence[FindingRecord]") -> None:
    if not records:
        typer.echo("No such finding.")
        return
    rows = [tuple(clean(cell) for cell in _cells(record)) for record in records]
    if sys.stdout.isatty():
        _print_folded(rows)
        return
    # a line a finding where a program reads along
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for row in (_HEADINGS, *rows):
        cells = (
            cell.rjust(width) if number == _MONEY else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        typer.echo("  ".join(cells).rstrip())


def _cells(record: "FindingRecord") -> tuple[str, ...]:
    money = f"{record.billing_currency} {record.monthly_savings_net:,.2f}"
    where = record.resource_name or record.resource_id or record.sub_account_id or "—"
    return (record.id, record.status, record.severity, money, record.rule_id, where, record.owner or "—")


def _print_folded(rows: "Sequence[tuple[str, ...]]") -> None:
    """For people: what is too wide for the terminal goes on below."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(_HEADINGS):
        justify: Literal["left", "right"] = "right" if number == _MONEY else "left"
        table.add_column(heading, no_wrap=number <= _MONEY, overflow="fold", justify=justify)
    for row in rows:
        table.add_row(*map(Text, row))  # Text: a resource may be called `[red]`
    Console().print(table)


def clean(text: str) -> str:
    """The text without characters that would move a terminal's cursor or hide what follows."""
    return "".join(char if char.isprintable() else f"⟨U+{ord(char):04X}⟩" for char in text)


@app.command()
def show(
    finding: Annotated[str, typer.Argument(help="The finding's id, or a beginning of it.")],
    paths: Annotated[
        list[str] | None, typer.Argument(help="With --rows: where the bills lie; default as configured.")
    ] = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    rows: Annotated[bool, typer.Option("--rows", help="The bill's own lines behind it.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="With --rows: at most so many lines.")] = 20,
) -> None:
    """One finding: its proof, its price, what to do, and its history; with --rows the lines of the bill."""
    with open_state(config, data_dir) as state:
        detail = state.get_finding(_whole_id(state, finding))
        saved = [each for each in state.realised_savings() if each.finding_id == detail.record.id]
    if rows:
        from auditor.cli.evidence import show_rows

        show_rows(detail.finding, paths or _configured_paths(config, data_dir), limit=limit, as_json=as_json)
        return
    if paths:
        raise SettingsError(f"{paths[0]}: files are read with --rows only")
    if as_json:
        typer.echo(json.dumps(_as_json(detail, saved), indent=2, default=str))
        return
    for line in _lines(detail, saved):
        typer.echo(clean(line))


def _configured_paths(config: Path | None, data_dir: Path | None) -> list[str]:
    """The files of the configuration and what was collected. Raises SettingsError where there are neither."""
    from auditor.live import folders

    place = find_place(config, data_dir)
    paths = [path for source in place.settings.sources.files for path in source.paths]
    paths += map(str, folders(place.settings, place.data_dir))
    if not paths:
        raise SettingsError("--rows: name the files or folders of the bills, or configure [[sources.files]]")
    return paths


def _whole_id(state: "State", text: str) -> str:
    """Raises SettingsError for a beginning that no finding has, or several."""
    found = state.find_ids(text)
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(f"several findings begin with {text!r}: {', '.join(found[:5])}")
    raise SettingsError(f"no finding has the id {text!r}; `auditor findings list` shows those there are")


def _lines(detail: "FindingDetail", saved: "Sequence[Any]") -> list[str]:
    record, finding = detail.record, detail.finding
    currency = record.billing_currency
    lines = [
        f"{record.title}",
        f"  id          {record.id}",
        f"  rule        {record.rule_id}",
        f"  status      {record.status}" + (f" by {record.acknowledged_by}" if record.acknowledged_by else ""),
        f"  severity    {record.severity}, {record.confidence} confidence",
        f"  where       {record.provider} {record.sub_account_id or '—'} {record.region_id or ''}".rstrip(),
        f"  resource    {record.resource_id or '—'}" + (f" ({record.resource_name})" if record.resource_name else ""),
        f"  owner       {record.owner or '—'}",
        f"  seen        {record.first_seen:%Y-%m-%d} to {record.last_seen:%Y-%m-%d}, in a window to {finding.window_end:%Y-%m-%d}",
        f"  cost        {currency} {record.monthly_cost:,.2f} a month",
        f"  savings     {currency} {record.monthly_savings:,.2f} a month, {record.monthly_savings_net:,.2f} net of overlaps",
        f"  reason      {finding.reason}",
    ]
    lines += [f"  evidence    {name} = {value}" for name, value in finding.evidence.items()]
    lines += [
        f"  do          {finding.remedy.summary}",
        f"  risk        {finding.remedy.risk}",
        f"  effort      {finding.remedy.effort}",
    ]
    lines += [f"              $ {command}" for command in finding.remedy.commands]
    lines += [f"  terraform   {line}".rstrip() for line in finding.remedy.terraform.splitlines()]
    lines += [f"  read        {reference}" for reference in finding.references]
    for each in saved:
        lines.append(
            f"  saved       {each.billing_period}: {each.billing_currency} {each.realised_savings:,.2f}"
            f" ({each.baseline_effective_cost:,.2f} before, {each.actual_effective_cost:,.2f} billed)"
            + ("" if each.estimated_savings is None else f"; {each.estimated_savings:,.2f} estimated for the same days")
        )
    for event in detail.events:
        who = f" by {event.author}" if event.author else ""
        note = f": {event.note}" if event.note else ""
        lines.append(f"  {event.at:%Y-%m-%d %H:%M}  {event.status_from or '—'} → {event.status_to}{who}{note}")
    return lines


def _as_json(detail: "FindingDetail", saved: "Sequence[Any]") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        **detail.record._asdict(),
        "reason": detail.finding.reason,
        "evidence": dict(detail.finding.evidence),
        "remediation": asdict(detail.finding.remedy),
        "references": list(detail.finding.references),
        "history": [asdict(event) for event in detail.events],
        "realised_savings": [asdict(each) for each in saved],
    }


@app.command()
def ack(
    findings: Annotated[list[str], typer.Argument(help="Ids of findings.")],
    author: AuthorOption = None,
    note: Annotated[str | None, typer.Option(help="What is being done about it.")] = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Say that somebody knows of these findings; they stay in the totals."""
    with open_state(config, data_dir) as state:
        for finding in [_whole_id(state, text) for text in findings]:
            state.ack(finding, author_or_user(author), note)
            typer.echo(f"acknowledged {finding}")


@app.command()
def mute(
    finding: Annotated[str | None, typer.Argument(help="A finding's id; or give a scope below.")] = None,
    rule: Annotated[str | None, typer.Option(help="Rule id; takes * and ?.")] = None,
    resource: Annotated[str | None, typer.Option(help="Resource id or name; takes * and ?.")] = None,
    tag: Annotated[str | None, typer.Option(help="KEY=VALUE, or KEY for any value.")] = None,
    account: Annotated[str | None, typer.Option(help="Account, project or subscription.")] = None,
    reason: Annotated[str, typer.Option(help="Why; required.")] = "",
    until: Annotated[str | None, typer.Option(help="Day from which the findings count again (YYYY-MM-DD).")] = None,
    author: AuthorOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Stay silent about findings; every scope that is given must match."""
    with open_state(config, data_dir) as state:
        made = state.mute(
            author=author_or_user(author),
            reason=reason,
            rule=rule,
            resource=resource,
            tag=tag,
            account=account,
            finding_id=None if finding is None else _whole_id(state, finding),
            until=_until(until),
        )
        silent = sum(record.mute_id == made.id for record in state.list_findings(status=["muted"]))
    typer.echo(f"mute {made.id} covers {silent} known findings; take it back with `auditor findings unmute {made.id}`")


@app.command()
def unmute(
    mute: Annotated[str | None, typer.Argument(help="Id of a mute; without one, the mutes are listed.")] = None,
    author: AuthorOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Take a mute back, or list those in force. Mutes of the configuration are taken back there."""
    with open_state(config, data_dir) as state:
        if mute is not None:
            state.unmute(mute, author_or_user(author))
            typer.echo(f"removed {mute}")
            return
        for each in state.mutes_list():
            scopes = (
                ("rule", each.rule),
                ("resource", each.resource),
                ("tag", each.tag),
                ("account", each.account),
                ("finding", each.finding_id),
            )
            scope = " ".join(f"{name}={value}" for name, value in scopes if value)
            until = f" until {each.until:%Y-%m-%d}" if each.until else ""
            typer.echo(clean(f"{each.id}  {scope}{until}  {each.author}: {each.reason}"))


def _until(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        raise SettingsError(f"--until {text}: not a date; write it as 2026-11-01") from None
