"""`auditor rules`: what is looked for, and whether rules of one's own are in order."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditor.cli.options import RulesDirOption
from auditor.errors import RuleError, SettingsError

if TYPE_CHECKING:
    import duckdb

    from auditor.detect.rule import Rule

app = typer.Typer(no_args_is_help=True, help="List, explain and check rules.")

BROKEN = 1


@app.command("list")
def list_(rules_dir: RulesDirOption = None) -> None:
    """Every rule: its id, title and clouds."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("rule", "finds", "clouds", "status"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "rule")
    for rule in _load(rules_dir):
        table.add_row(*(Text(cell) for cell in (rule.id, rule.title, " ".join(rule.clouds), rule.status)))
    # a line a rule where a program reads along
    console = Console() if Console().is_terminal else Console(width=400)
    console.print(table)


@app.command()
def show(
    rule: Annotated[str, typer.Argument(help="The rule's id, also one it had before.")],
    rules_dir: RulesDirOption = None,
) -> None:
    """One rule's page: what it sees and why, its parameters, what it is blind to, and what to do."""
    from rich.console import Console
    from rich.markdown import Markdown

    from auditor.detect.pages import rule_page

    known = {name: each for each in _load(rules_dir) for name in (each.id, *each.was)}
    if rule not in known:
        import difflib

        close = difflib.get_close_matches(rule, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise SettingsError(f"no rule is called {rule!r}{hint}; `auditor rules list` names them")
    page = rule_page(known[rule])
    console = Console()
    if console.is_terminal:
        console.print(Markdown(page))
    else:
        typer.echo(page, nl=False)


@app.command()
def check(
    folders: Annotated[list[Path], typer.Argument(help="Folders of rules: <area>/<stem>.sql.")],
    cases: Annotated[
        Path | None,
        typer.Option(
            help="Folder of their cases, <area>/<stem>.toml; default beside the rules or in tests/ near them."
        ),
    ] = None,
) -> None:
    """Load the rules of these folders, try their queries and run their cases; exit 1 where something is wrong."""
    import duckdb

    problems: list[str] = []
    checked = ran = 0
    con = duckdb.connect(config={"threads": 1})
    for folder in folders:
        if not folder.is_dir():
            raise SettingsError(f"{folder}: no such folder")
        for path in sorted(folder.glob("*/*.sql")):
            checked += 1
            found, count = _check_one(con, path, _case_file(path, folder, cases))
            problems += found
            ran += count
        if not problems:
            problems += _clashes(folder)
    if not checked:
        raise SettingsError(f"{folders[0]}: holds no rules; a rule is a file <area>/<stem>.sql")
    for problem in problems:
        typer.echo(problem, err=True)
    typer.echo(
        f"{_many(checked, 'rule')}, {_many(ran, 'case')}: {_many(len(problems), 'problem') if problems else 'all in order'}"
    )
    if problems:
        sys.exit(BROKEN)


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _load(rules_dir: list[Path] | None) -> "list[Rule]":
    from auditor.assets import room
    from auditor.detect.rule import load_rules

    return load_rules([room("rules"), *(rules_dir or [])])


def _check_one(con: "duckdb.DuckDBPyConnection", path: Path, case_file: Path | None) -> tuple[list[str], int]:
    """What is wrong with one rule and its cases, and how many cases ran."""
    import duckdb

    from auditor.detect.cases import differences, read_cases, rows_of
    from auditor.detect.rule import load_rule

    try:
        rule = load_rule(path)
        _bind(con, rule)
        cases = read_cases(case_file, rule.id) if case_file else []
    except RuleError as error:
        return [str(error)], 0
    except duckdb.Error as error:
        return [f"{path}: the query does not run: {_first_line(error)}"], 0
    problems = []
    for case in cases:
        try:
            said = differences(rows_of(con, rule, case), case)
        except (RuleError, duckdb.Error) as error:
            said = [_first_line(error)]
        problems += [f"{case_file}: {case.name}: {sentence}" for sentence in said]
    return problems, len(cases)


def _bind(con: "duckdb.DuckDBPyConnection", rule: "Rule") -> None:
    """Runs the query over empty views that have the columns it says it needs, and no others."""
    from datetime import UTC, datetime

    from auditor.detect.run import Window, run_query
    from auditor.views import VIEWS

    for view, columns in {**rule.needs, **rule.optional}.items():
        listed = ", ".join(f'"{name}" {VIEWS[view][name]}' for name in columns)
        con.execute(f"create or replace table {view} ({listed})")
    window = Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC))  # any will do
    run_query(con, rule, window, {name: parameter.default for name, parameter in rule.parameters.items()})


def _clashes(folder: Path) -> list[str]:
    """Ids that a shipped rule has already: the two could not be loaded together."""
    from auditor.assets import room
    from auditor.detect.rule import load_rules

    if folder.resolve() == room("rules").resolve():
        return []
    try:
        load_rules([room("rules"), folder])
    except RuleError as error:
        return [str(error)]
    return []


def _case_file(path: Path, folder: Path, cases: Path | None) -> Path | None:
    tail = Path(path.parent.name) / f"{path.stem}.toml"
    return next((place for place in _case_places(path, folder, cases, tail) if place.is_file()), None)


def _case_places(path: Path, folder: Path, cases: Path | None, tail: Path) -> Iterator[Path]:
    if cases is not None:
        yield cases / tail
        return
    yield path.with_suffix(".toml")
    for root in (folder, folder.resolve().parent):
        yield root / "tests" / tail
        yield root / "tests" / "rules" / tail


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
