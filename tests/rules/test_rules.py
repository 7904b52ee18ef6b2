"""Every rule against its cases, and what the rule format promises of every rule."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import hcl2
import pytest

from auditor.assets import room
from auditor.detect.pages import rule_pages
from auditor.detect.remedies import filled
from auditor.detect.rule import load_rule, load_rules
from auditor.detect.run import Window, finding_of, run_query
from auditor.views import VIEWS
from tests.rules.runner import CASES, Case, all_rules, fill, load_cases, plain, rule_of

ALL_CASES = [case for rule in all_rules() for case in load_cases(rule)]
EACH_RULE = pytest.mark.parametrize("path", all_rules(), ids=lambda path: f"{path.parent.name}.{path.stem}")


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: f"{case.rule_id}:{case.name}")
def test_a_rule_finds_what_its_case_expects(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    rule = rule_of(case)
    fill(con, rule, case)
    values = {name: case.parameters.get(name, parameter.default) for name, parameter in rule.parameters.items()}
    rows = run_query(con, rule, case.window, values)
    assert [{name: plain(row[name]) for name in wanted} for row, wanted in zip(rows, case.expect, strict=False)] == [
        {name: plain(value) for name, value in wanted.items()} for wanted in case.expect
    ]
    assert len(rows) == len(case.expect), [row["reason"] for row in rows]
    for row in rows:
        finding = finding_of(rule, row, case.window)
        assert finding.monthly_savings <= max(finding.monthly_cost, Decimal(0))
        assert not [command for command in finding.remedy.commands if "<" in command and finding.resource_id], (
            finding.remedy.commands
        )
        if finding.remedy.terraform:
            assert hcl2.loads(finding.remedy.terraform + "\n"), finding.remedy.terraform
            assert not (finding.resource_id and re.search(r"<[a-z_]+>", finding.remedy.terraform)), (
                finding.remedy.terraform
            )


# What no provider of Terraform declares: a look at the bill, a purchase of a reservation, a plan that is paid anyway.
UNDECLARED = {
    ("spend.anomaly", "aws"),
    ("spend.anomaly", "gcp"),
    ("spend.anomaly", "azure"),
    ("purchase.on_demand_steady", "azure"),
    ("purchase.unused_commitment", "aws"),
}


def test_every_remedy_says_it_in_terraform_too_but_where_there_is_nothing_to_declare() -> None:
    without = {
        (rule.id, cloud)
        for rule in load_rules([room("rules")])
        for cloud, text in rule.remedy.items()
        if not text.terraform
    }
    assert without == UNDECLARED


@EACH_RULE
def test_terraform_stays_one_text_whatever_the_ids_are(path: Path) -> None:
    hostile = '"}\n${x} %{y} \\ \u2028'
    remedies = load_rule(path).remedy.items()
    texts = [(cloud, text) for cloud, text in remedies]
    texts += [(cloud, variant.text) for cloud, text in remedies for variant in text.variants]
    for cloud, whole in texts:
        text = replace(whole, variants=())
        names = re.findall(r"\{([a-z][a-z0-9_]*)\}", text.terraform)
        row = {name: hostile for name in names if not name.startswith("resource_")}
        plain = dict.fromkeys(row, "plain")
        shapes = [
            hcl2.loads(filled(text, {"provider": cloud, "ResourceId": value, **values}).terraform + "\n")
            for value, values in ((hostile, row), ("plain", plain))
            if text.terraform
        ]
        if shapes:
            assert _keys(shapes[0]) == _keys(shapes[1])


def _keys(value: object) -> object:
    """The shape of a parsed text: its arguments and blocks without labels, comments and values."""
    if isinstance(value, dict):
        inner = [(key, _keys(item)) for key, item in value.items() if key != "__comments__"]
        return sorted(((key if key.isidentifier() else "", item) for key, item in inner), key=repr)
    return [_keys(item) for item in value] if isinstance(value, list) else None


@EACH_RULE
def test_a_rule_has_a_case_that_fires_and_one_that_stays_silent(path: Path) -> None:
    cases = load_cases(path)
    assert any(case.expect for case in cases)
    assert any(not case.expect for case in cases)


@EACH_RULE
def test_what_is_held_as_stated_standby_or_costs_nothing_saves_nothing(
    con: duckdb.DuckDBPyConnection, path: Path
) -> None:
    case = next(case for case in load_cases(path) if case.expect)
    rule = rule_of(case)
    for changed in ({"standby": True}, dict.fromkeys(("EffectiveCost", "committed_cost", "unused_cost"), 0)):
        given = {
            view: [{**row, **{name: value for name, value in changed.items() if name in VIEWS[view]}} for row in rows]
            for view, rows in case.given.items()
        }
        fill(con, rule, replace(case, given=given))
        values = {name: case.parameters.get(name, parameter.default) for name, parameter in rule.parameters.items()}
        found = [finding_of(rule, row, case.window) for row in run_query(con, rule, case.window, values)]
        assert [finding.monthly_savings for finding in found if finding.monthly_savings] == []


def test_no_case_file_is_without_its_rule() -> None:
    assert {f"{file.parent.name}.{file.stem}" for file in CASES.glob("*/*.toml")} <= {
        f"{rule.parent.name}.{rule.stem}" for rule in all_rules()
    }


@EACH_RULE
def test_needs_lists_exactly_the_columns_that_the_query_reads(path: Path) -> None:
    rule = load_rule(path)
    views = {**rule.needs, **rule.optional}
    binds = duckdb.connect(config={"threads": 1})

    def build(view: str, columns: list[str]) -> None:
        # a view without columns cannot exist, so the last one taken away leaves a stranger
        listed = ", ".join(f'"{name}" {VIEWS[view][name]}' for name in columns) or "stranger INTEGER"
        binds.execute(f"create or replace table {view} ({listed})")

    # prepared without values, a parameter of unknown type would put the binding off
    values = {name: parameter.default for name, parameter in rule.parameters.items()}
    window = Window(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 31, tzinfo=UTC))
    for view, columns in views.items():
        build(view, list(columns))
    run_query(binds, rule, window, values)
    for view, columns in views.items():
        for column in columns:
            build(view, [name for name in columns if name != column])
            with pytest.raises(duckdb.BinderException):
                run_query(binds, rule, window, values)
        build(view, list(columns))


def test_the_rules_load_together() -> None:
    assert len(load_rules([room("rules")])) == len(all_rules())


def test_the_readme_of_the_rules_says_what_their_headers_say() -> None:
    folder = room("rules")
    assert (folder / "README.md").read_text(encoding="utf-8") == rule_pages(load_rules([folder])), (
        "write it anew: python -m tests.rules.write_pages"
    )


@pytest.mark.slow
def test_the_linter_is_content_with_every_rule() -> None:
    from sqlfluff.core import FluffConfig, Linter

    config = FluffConfig.from_path(str(room("rules")))
    # the headers hold remedies' commands, which do not break; `day` is a column of the views and a keyword
    config = FluffConfig.from_path(
        str(room("rules")), overrides={"exclude_rules": f"{config.get('exclude_rules')},LT05,RF04"}
    )
    result = Linter(config=config).lint_paths((str(room("rules")),))
    assert result.get_violations() == []
