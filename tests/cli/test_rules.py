"""`auditor rules` and its checks of a user's own rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from auditor.cli.app import main
from auditor.cli.rules import app

RULE = """/* rule
id       = "spend.big_day"
title    = "A day that cost much"
status   = "trial"
stage    = "inform"
severity = "low"
clouds   = ["aws"]
why      = "Somebody should know."
savings  = "none"
blind_to = "small days"
references = ["https://example.com"]

[needs]
charges = ["provider", "BillingCurrency", "EffectiveCost", "day"]

[parameters]
min_cost = { default = 100, unit = "BillingCurrency", about = "less is nothing" }

[remedy.aws]
summary  = "Ask"
commands = []
risk     = "none"
effort   = "minutes"
*/
select
    provider, null::varchar as ResourceId, null::varchar as SubAccountId, null::varchar as RegionId, BillingCurrency,
    sum(EffectiveCost) as effective_cost, 0 as committed_cost, 0 as avoidable_cost, 0 as avoidable_low, 0 as avoidable_high,
    'high' as confidence, 'dear' as reason, day::varchar as subject
from charges
group by provider, BillingCurrency, day
having sum(EffectiveCost) >= $min_cost
"""
CASES = """window = { start = 2026-03-01, end = 2026-03-31 }

[[case]]
name = "fires"
given.charges = [{ EffectiveCost = 60, each_day = 2 }, { EffectiveCost = 60 }]
expect = [{ subject = "2026-03-01", effective_cost = 120.0 }]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine" / "spend").mkdir(parents=True)
    (tmp_path / "mine" / "spend" / "big_day.sql").write_text(RULE)
    (tmp_path / "mine" / "spend" / "big_day.toml").write_text(CASES)
    return tmp_path / "mine"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def change(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / "spend" / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_a_sound_rule_passes_with_its_case(folder: Path) -> None:
    result = run("check", str(folder))
    assert result.exit_code == 0, result.output
    assert "1 rule, 1 case: all in order" in result.output


def test_cases_are_found_in_a_tests_folder_beside_the_rules(folder: Path) -> None:
    (folder.parent / "tests" / "spend").mkdir(parents=True)
    (folder / "spend" / "big_day.toml").rename(folder.parent / "tests" / "spend" / "big_day.toml")
    assert "1 case" in run("check", str(folder)).output
    assert "0 cases" in run("check", str(folder), "--cases", str(folder)).output


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("big_day.toml", "120.0", "121.0", "row 1: effective_cost is Decimal"),
        ("big_day.toml", "EffectiveCost = 60, each", "Cost = 60, each", "charges has no column Cost"),
        ("big_day.toml", 'name = "fires"', "", "a case lacks 'name'"),
        ("big_day.toml", "[[case]]", "[[case]", "not TOML"),
        ("big_day.sql", '"EffectiveCost", "day"', '"day"', "the query does not run: Binder Error"),
        ("big_day.sql", "'high' as confidence,", "", "the query does not return confidence"),
        ("big_day.sql", 'stage    = "inform"', 'stage    = "informed"', "big_day.sql:5: stage is 'informed'"),
        ("big_day.sql", "min_cost =", "min_costs =", "is declared, but the query does not use it"),
    ],
)
def test_what_is_wrong_is_said_and_fails(folder: Path, name: str, old: str, new: str, said: str) -> None:
    change(folder, name, old, new)
    result = run("check", str(folder))
    assert result.exit_code == 1
    assert said in result.output


def test_a_rule_that_takes_a_shipped_id_is_refused(folder: Path) -> None:
    change(folder, "big_day.sql", '"spend.big_day"', '"spend.untagged_accelerators"')
    (folder / "spend" / "big_day.sql").rename(folder / "spend" / "untagged_accelerators.sql")
    result = run("check", str(folder))
    assert result.exit_code == 1 and "already taken" in result.output


def test_a_page_is_shown_and_a_slip_of_the_pen_understood(folder: Path) -> None:
    page = run("show", "spend.big_day", "--rules-dir", str(folder))
    assert "A day that cost much" in page.output and "min_cost" in page.output
    assert "did you mean 'gpu.idle_instance'" in str(run("show", "gpu.idle_instanse").exception)
    assert "spend.big_day" in run("list", "--rules-dir", str(folder)).output


def test_a_rule_that_cannot_be_loaded_is_wrong_usage(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "spend" / "big_day.sql"
    path.write_text(RULE.replace('"spend.big_day"', '"spend.other"'))
    monkeypatch.setattr("sys.argv", ["auditor", "rules", "list", "--rules-dir", str(folder)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "big_day.sql" in capsys.readouterr().err
