"""`auditor runs` and `auditor report`: earlier audits, what changed between two, and their reports again."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditor.cli.findings import clean
from auditor.cli.options import REPORT, ConfigOption, DataDirOption, FormatOption, OutputOption, chosen_formats
from auditor.cli.place import open_state
from auditor.errors import SettingsError

if TYPE_CHECKING:
    from auditor.records import RunRecord
    from auditor.state import State

app = typer.Typer(no_args_is_help=True, help="List, show and compare earlier audits.")
RunArgument = Annotated[str | None, typer.Argument(help="A run's id, or a beginning of it; default the newest.")]


@app.command("list")
def list_(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 30,
) -> None:
    """The runs, newest first."""
    with open_state(config, data_dir) as state:
        for run in state.runs_list(limit):
            ended = f"{(run.ended_at - run.started_at).total_seconds():.0f} s" if run.ended_at else "—"
            typer.echo(f"{run.id}  {run.started_at:%Y-%m-%d %H:%M}  {run.status:<11}  {ended:>7}  {_windows(run)}")


def _windows(run: "RunRecord") -> str:
    return ", ".join(f"{name} {w['start'][:10]} to {w['end'][:10]}" for name, w in run.windows.items())


@app.command()
def show(run: RunArgument = None, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """One run: its windows, totals, sources and findings by status."""
    with open_state(config, data_dir) as state:
        record, document = _document(state, run)
    totals = document["totals"]
    typer.echo(f"run         {record.id}")
    typer.echo(f"started     {record.started_at:%Y-%m-%d %H:%M:%S} UTC")
    typer.echo(f"status      {record.status}")
    typer.echo(f"windows     {_windows(record)}")
    for label, name in (
        ("billed", "billed_cost"),
        ("effective", "effective_cost"),
        ("net savings", "monthly_savings_net"),
    ):
        typer.echo(f"{label:<12}{totals['currency']} {_money(totals[name])}")
    counts: dict[str, int] = {}
    for finding in document["findings"]:
        counts[finding["status"]] = counts.get(finding["status"], 0) + 1
    typer.echo(f"findings    {', '.join(f'{number} {name}' for name, number in sorted(counts.items())) or 'none'}")
    for source in document["sources"]:
        name = source["paths"][0] if source["paths"] else "—"
        typer.echo(
            clean(
                f"source      {source['status']:<8} {source['format'] or '—'}  {name}  {source['message'] or ''}".rstrip()
            )
        )


@app.command()
def diff(
    before: Annotated[str, typer.Argument(help="The earlier run.")],
    after: RunArgument = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What changed from one run to another: totals, and findings that came, went or changed."""
    from auditor.compare import compare

    with open_state(config, data_dir) as state:
        first, old = _document(state, before)
        second, new = _document(state, after)
    found = compare(old, new)
    if as_json:
        typer.echo(json.dumps({"before": first.id, "after": second.id, **found.as_json()}, indent=2))
        return
    typer.echo(f"from {first.id} to {second.id}")
    for line in found.lines():
        typer.echo(clean(line))


def report(
    run: RunArgument = None,
    output: OutputOption = REPORT,
    formats: FormatOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Write the report of a stored run again, the same to the last byte."""
    from auditor.render import render
    from auditor.stored import load_extras

    chosen = chosen_formats(formats)
    with open_state(config, data_dir) as state:
        record, document = _document(state, run)
        extras = load_extras(state.run_extras(record.id))
    for path in render(document, extras, chosen, output):
        typer.echo(str(path))


def _document(state: "State", run: str | None) -> tuple["RunRecord", dict[str, Any]]:
    """Raises SettingsError for a run that left no report."""
    record = state.get_run(run)
    if record is None:
        raise SettingsError("no run has left a report yet; `auditor runs list` shows the runs")
    document = state.run_document(record.id)
    if document is None:
        raise SettingsError(f"run {record.id} left no report: it is {record.status}, or its report was dropped by age")
    return record, document


def _money(text: str) -> str:
    from decimal import Decimal

    return f"{Decimal(text):,.2f}"
