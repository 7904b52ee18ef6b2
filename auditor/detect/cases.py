"""Cases of a rule: given rows and expected rows, in a TOML file named after the rule.

A column left out takes the schema's plain default: times the window's start, currency USD, numbers 0, else null, and
`provider` the rule's first cloud; a number or time written as "" is null. A row with `each_day = N` or `each_hour = N` stands for N rows whose `day` or `hour`
moves on by one each.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from auditor import peaks
from auditor.detect.rule import Rule
from auditor.detect.run import Window, run_query
from auditor.errors import RuleError
from auditor.views import VIEWS

_NUMBERS = ("DECIMAL", "DOUBLE", "BIGINT")


@dataclass(frozen=True)
class Case:
    """Rows given to a rule and what it has to return; only the columns that `expect` names are compared."""

    rule_id: str
    name: str
    window: Window
    given: Mapping[str, list[dict[str, Any]]]
    expect: list[dict[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)


def read_cases(path: Path, rule_id: str) -> list[Case]:
    """The cases of one file. Raises RuleError, which names the file, where it is not such a file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
        return [
            Case(
                rule_id,
                case["name"],
                _window(case.get("window") or document["window"]),
                case.get("given", {}),
                case["expect"],
                case.get("parameters", {}),
            )
            for case in document["case"]
        ]
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{path}: not TOML: {error}") from error
    except KeyError as error:
        raise RuleError(f"{path}: a case lacks {error.args[0]!r}; it wants name, window, given and expect") from error


def rows_of(con: duckdb.DuckDBPyConnection, rule: Rule, case: Case) -> list[dict[str, Any]]:
    """What the rule returns for a case. Raises RuleError for a case that does not fit, duckdb.Error where it does not run."""
    fill(con, rule, case)
    unknown = sorted(set(case.parameters) - set(rule.parameters))
    if unknown:
        raise RuleError(f"{case.name} sets the parameter {unknown[0]!r}, which the rule does not have")
    values = {name: case.parameters.get(name, parameter.default) for name, parameter in rule.parameters.items()}
    return run_query(con, rule, case.window, values)


def differences(rows: list[dict[str, Any]], case: Case) -> list[str]:
    """What of the returned rows is not as the case expects, a sentence each; none where all is."""
    said = []
    if len(rows) != len(case.expect):
        reasons = "; ".join(str(row["reason"]) for row in rows)
        said.append(f"{len(case.expect)} rows expected, {len(rows)} returned" + (f" ({reasons})" if rows else ""))
    for number, (row, wanted) in enumerate(zip(rows, case.expect, strict=False), start=1):
        for name, value in wanted.items():
            if name not in row:
                said.append(f"row {number} has no column {name}")
            elif plain(row[name]) != plain(value):
                said.append(f"row {number}: {name} is {row[name]!r}, expected {value!r}")
    return said


def fill(con: duckdb.DuckDBPyConnection, rule: Rule, case: Case) -> None:
    """Builds every view the rule names, with the case's rows in them. Raises RuleError for what is in no view."""
    views = (*rule.needs, *rule.optional)
    unknown = sorted(set(case.given) - set(views))
    if unknown:
        raise RuleError(f"{case.name} gives {', '.join(unknown)}, which the rule does not read")
    for view in views:
        if view == "accelerator_peaks" and view not in case.given:  # facts that ship with the program
            peaks.create_table(con)
            continue
        columns = ", ".join(f'"{name}" {kind}' for name, kind in VIEWS[view].items())
        con.execute(f"create or replace table {view} ({columns})")
        rows = [row for given in case.given.get(view, ()) for row in _rows(view, given, rule, case.window)]
        if rows:
            shape = json.dumps(
                [dict.fromkeys(VIEWS[view], "VARCHAR") | {n: k for n, k in VIEWS[view].items() if k.endswith("[]")}]
            )
            values = ", ".join(f'"{name}"::{kind}' for name, kind in VIEWS[view].items())
            con.execute(
                f"insert into {view} select {values} from (select unnest(from_json($rows, '{shape}'), recursive := true))",
                {"rows": json.dumps(rows, default=str)},
            )


def plain(value: Any) -> Any:
    """A value from TOML or DuckDB in one form that compares."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return round(Decimal(str(value)), 9)
    if isinstance(value, int | Decimal):
        return Decimal(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime.combine(value, time())
    return value


def _window(table: Mapping[str, Any]) -> Window:
    return Window(*(_moment(table[name]) for name in ("start", "end")))


def _moment(value: date) -> datetime:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else datetime.combine(value, time(), UTC)


def _rows(view: str, given: Mapping[str, Any], rule: Rule, window: Window) -> Iterator[dict[str, Any]]:
    row = dict(given)
    days, hours = row.pop("each_day", 1), row.pop("each_hour", 1)
    unknown = sorted(set(row) - set(VIEWS[view]))
    if unknown:
        raise RuleError(f"{view} has no column {', '.join(unknown)}")
    start = window.start.replace(tzinfo=None)
    defaults = {name: _default(kind, start) for name, kind in VIEWS[view].items()}
    defaults["provider"] = rule.clouds[0]
    for column in ("BillingCurrency", "currency"):
        if column in defaults:
            defaults[column] = "USD"
    full: dict[str, Any] = {
        name: None if value == "" and not VIEWS[view][name].startswith("VARCHAR") else value
        for name, value in {**defaults, **row}.items()
    }
    for step in range(days):
        for substep in range(hours):
            moved = dict(full)
            shift = timedelta(days=step, hours=substep)
            if "day" in moved:
                moved["day"] = (_moment(moved["day"]).replace(tzinfo=None) + shift).date()
            if "hour" in moved:
                moved["hour"] = _moment(moved["hour"]).replace(tzinfo=None) + shift
            yield moved


def _default(kind: str, start: datetime) -> Any:
    if kind in ("TIMESTAMP", "DATE"):
        return start
    return 0 if kind.startswith(_NUMBERS) else None
