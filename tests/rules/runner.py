"""Runs the cases of tests/rules/<area>/<stem>.toml: given rows, expected rows.

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

from auditor.assets import room
from auditor.detect.rule import Rule, load_rule
from auditor.detect.run import Window
from auditor.views import VIEWS

CASES = Path(__file__).parent
_NUMBERS = ("DECIMAL", "DOUBLE", "BIGINT")


@dataclass(frozen=True)
class Case:
    rule_id: str
    name: str
    window: Window
    given: Mapping[str, list[dict[str, Any]]]
    expect: list[dict[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)


def all_rules() -> list[Path]:
    return sorted(room("rules").glob("*/*.sql"))


def case_file(rule: Path) -> Path:
    return CASES / rule.parent.name / f"{rule.stem}.toml"


def load_cases(rule: Path) -> list[Case]:
    path = case_file(rule)
    if not path.exists():
        return []
    document = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    rule_id = f"{rule.parent.name}.{rule.stem}"
    return [
        Case(
            rule_id,
            case["name"],
            _window(case.get("window", document["window"])),
            case.get("given", {}),
            case["expect"],
            case.get("parameters", {}),
        )
        for case in document["case"]
    ]


def fill(con: duckdb.DuckDBPyConnection, rule: Rule, case: Case) -> None:
    """Builds every view the rule names, with the case's rows in them."""
    views = (*rule.needs, *rule.optional)
    unknown = sorted(set(case.given) - set(views))
    assert not unknown, f"{case.name} gives {unknown}, which the rule does not read"
    for view in views:
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


def rule_of(case: Case) -> Rule:
    area, stem = case.rule_id.split(".")
    return load_rule(room("rules") / area / f"{stem}.sql")


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
    assert not unknown, f"{view} has no column {unknown}"
    start = window.start.replace(tzinfo=None)
    defaults = {name: _default(kind, start) for name, kind in VIEWS[view].items()}
    defaults["provider"] = rule.clouds[0]
    for column in ("BillingCurrency", "currency"):
        if column in defaults:
            defaults[column] = "USD"
    full = {**defaults, **row}
    full = {
        name: None if value == "" and not VIEWS[view][name].startswith("VARCHAR") else value
        for name, value in full.items()
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
