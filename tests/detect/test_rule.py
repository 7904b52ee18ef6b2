"""The loader's demands, each with file and line."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

from auditor.detect.rule import checked_overrides, load_rule, load_rules
from auditor.errors import RuleError, SettingsError

RULE = """\
/* rule
id     = "network.slow_drip"
title  = "A drip"
status = "stable"
stage  = "remove"
clouds = ["aws"]
why = "It drips."
savings  = "all of it"
blind_to = "rain"
references = ["https://example.com/drips"]

[needs]
charges = ["provider", "EffectiveCost"]

[parameters]
min_cost = { default = 0.1, unit = "USD", about = "less is no drip" }

[remedy.aws]
summary  = "Close the tap"
commands = ["close --region {region_id}"]
risk     = "Thirst."
effort   = "minutes"
*/
select provider from charges where EffectiveCost > $min_cost  -- $not_a_parameter; select *
"""


def write(folder: Path, text: str, stem: str = "slow_drip") -> Path:
    path = folder / "network" / f"{stem}.sql"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_rule_file_is_read_with_decimal_parameters_and_comments_left_alone(tmp_path: Path) -> None:
    rule = load_rule(write(tmp_path, RULE))
    assert (rule.id, rule.stage) == ("network.slow_drip", "remove")
    assert rule.parameters["min_cost"].default == Decimal("0.1")
    assert rule.bound == {"min_cost"}


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('"network.slow_drip"', '"network.drip"', 2, "folder and file name say 'network.slow_drip'"),
        ('"stable"', '"done"', 4, "wanted one of trial, stable"),
        ('"It drips."', '" "', 7, "why wants a text that is not empty"),
        ("blind_to =", "blind_too =", 9, "did you mean 'blind_to'"),
        ('"provider", "EffectiveCost"', '"provider", "EfectiveCost"', 13, "did you mean 'EffectiveCost'"),
        ("charges = [", "charge = [", 13, "did you mean 'charges'"),
        ("$min_cost", "0", 16, "the query does not use it"),
        ("min_cost = {", "max_cost = {", 16, "does not use it"),
        (', unit = "USD"', "", 16, "exactly default, unit and about"),
        ("stage  =", "stage  ", 5, "not TOML"),
        ('"remove"', '"inform"', 5, "state its severity"),
        ("[remedy.aws]", "[remedy.gcp]", 18, "a remedy is wanted for each of aws"),
        ("{region_id}", "{Region}", 20, "no placeholder"),
        ('risk     = "Thirst."', 'risk = "Thirst."\nterraform = \'a = "${b}"\'', 22, "terraform holds ${"),
        (
            'effort   = "minutes"',
            'effort = "minutes"\n[remedy.aws.variants.b]\nwhen = "("',
            24,
            "no regular expression",
        ),
        (
            'effort   = "minutes"',
            'effort = "minutes"\n[remedy.aws.variants.b]\nwen = "a"',
            23,
            "the variant 'b' may have",
        ),
        ("select provider", "select *", 24, "a star"),
        ("> $min_cost", "> $min_cost and now() > day", 24, "a clock"),
        ("> $min_cost", "> $min_cost and random() > 0", 24, "randomness"),
        ("> $min_cost", "> $min_cost; select 1", 24, "more than one statement"),
        ("select provider", "delete", 24, "one select statement"),
    ],
)
def test_a_broken_rule_is_refused_with_its_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    path = write(tmp_path, RULE.replace(old, new, 1))
    with pytest.raises(RuleError, match=re.escape(message)) as raised:
        load_rule(path)
    assert str(raised.value).startswith(f"{path}:{line}:")


def test_two_rules_cannot_claim_one_id(tmp_path: Path) -> None:
    write(tmp_path, RULE)
    write(
        tmp_path, RULE.replace("slow_drip", "drip").replace("clouds =", 'was = ["network.slow_drip"]\nclouds ='), "drip"
    )
    with pytest.raises(RuleError, match=r"'network\.slow_drip' is already taken"):
        load_rules([tmp_path])


def test_overrides_take_the_default_s_type_and_beat_the_shared_settings(tmp_path: Path) -> None:
    write(tmp_path, RULE.replace("clouds =", 'was = ["network.leak"]\nclouds ='))
    rules = load_rules([tmp_path])
    assert checked_overrides(rules, {}, {"min_cost": 5})["network.slow_drip"] == {"min_cost": Decimal(5)}
    assert checked_overrides(rules, {"network.leak": {"min_cost": "0.25"}}, {"min_cost": 5}) == {
        "network.slow_drip": {"min_cost": Decimal("0.25")}
    }


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"network.slow_dripp": {}}, "did you mean 'network.slow_drip'"),
        ({"network.slow_drip": {"mincost": 1}}, "did you mean 'min_cost'"),
        ({"network.slow_drip": {"min_cost": "much"}}, "wanted a value like"),
        ({"network.slow_drip": {"min_cost": "nan"}}, "wanted a value like"),
    ],
)
def test_an_override_that_fits_no_rule_is_a_settings_error(
    tmp_path: Path, overrides: dict[str, dict[str, object]], message: str
) -> None:
    write(tmp_path, RULE)
    with pytest.raises(SettingsError, match=message):
        checked_overrides(load_rules([tmp_path]), overrides, {})
