"""Running rules: what they find, what they lack, and what happens when one breaks."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.detect import Rule, Window, detect, load_rules
from auditor.views import VIEWS

MARCH = Window(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 31, tzinfo=UTC))  # 720 hours

RULE = """\
/* rule
id     = "gpu.{stem}"
title  = "A machine that costs money"
status = "stable"
stage  = "{stage}"
clouds = ["aws", "gcp"]
why = "It costs."
savings  = "all"
blind_to = "its use"
references = ["https://example.com/"]
{extra}
[needs]
charges = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "purchase_option", "day", "standby"]
{needs}
[parameters]
share = {{ default = 1, unit = "ratio", about = "of the cost" }}

[remedy.aws]
summary  = "Stop it"
commands = ["stop {{resource_short_id}} --name {{note}} --zone {{nowhere}}"]
risk     = "None."
effort   = "minutes"

[remedy.gcp]
summary  = "Stop it"
commands = []
risk     = "None."
effort   = "minutes"
*/
select
    provider,
    ResourceId,
    max(SubAccountId) as SubAccountId,
    max(RegionId) as RegionId,
    BillingCurrency,
    sum(EffectiveCost) as effective_cost,
    sum(case when purchase_option = 'committed' then EffectiveCost else 0 end) as committed_cost,
    sum(EffectiveCost) * $share as avoidable_cost,
    0 as avoidable_low,
    sum(EffectiveCost) as avoidable_high,
    {confidence} as confidence,
    'it costs' as reason,
    'two words; rm' as note,
    max(day) as last_day,
    1.50 as rate,
    bool_or(standby) as standby
from charges
{more}
where day >= $window_start and day < $window_end
group by provider, ResourceId, BillingCurrency
"""


def rules_of(
    folder: Path,
    *,
    stem: str = "costs",
    stage: str = "remove",
    extra: str = "",
    needs: str = "",
    confidence: str = "'high'",
    more: str = "",
) -> list[Rule]:
    (folder / "gpu").mkdir(exist_ok=True)
    (folder / "gpu" / f"{stem}.sql").write_text(
        RULE.format(stem=stem, stage=stage, extra=extra, needs=needs, confidence=confidence, more=more)
    )
    return load_rules([folder])


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect(config={"threads": 1})
    for view in ("charges", "resources", "nat_gateways", "accelerator_hours"):
        made.execute(f"create table {view} ({', '.join(f'{name} {kind}' for name, kind in VIEWS[view].items())})")
    return made


def charge(con: duckdb.DuckDBPyConnection, **columns: Any) -> None:
    row = {"provider": "aws", "ResourceId": "arn:aws:ec2:us-east-1:111122223333:instance/i-1", "SubAccountId": "111122223333",
           "RegionId": "us-east-1", "BillingCurrency": "USD", "EffectiveCost": Decimal(720), "day": date(2026, 3, 2), **columns}  # fmt: skip
    con.execute(f"insert into charges ({', '.join(row)}) values ({', '.join('?' for _ in row)})", list(row.values()))


def test_a_row_becomes_a_finding_of_a_month_with_context_remedy_and_evidence(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    charge(con, ResourceName="trainer", Tags='{"team": "vision"}', ServiceName="AmazonEC2")
    con.execute("insert into resources (provider, ResourceId, AvailabilityZone, ResourceName, owner, observed_at) "
                "values ('aws', 'arn:aws:ec2:us-east-1:111122223333:instance/i-1', 'us-east-1a', 'other', 'team-v', timestamp '2026-03-30')")  # fmt: skip
    (found,) = detect(con, rules_of(tmp_path), {"aws": MARCH}).findings
    assert (found.monthly_cost, found.monthly_savings, found.monthly_savings_net, found.severity) == (
        730,
        730,
        730,
        "medium",
    )
    assert (found.resource_name, found.service_name, found.availability_zone, found.owner, found.tags) == (
        "trainer", "AmazonEC2", "us-east-1a", "team-v", {"team": "vision"},
    )  # fmt: skip
    assert found.remedy.commands == ("stop i-1 --name 'two words; rm' --zone <nowhere>",)
    assert found.evidence == {"note": "two words; rm", "last_day": "2026-03-02", "rate": "1.5"}
    assert len(found.id) == 16


def test_an_inventory_that_does_not_say_when_it_was_taken_names_the_resource(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    charge(con)
    con.execute("insert into resources (provider, ResourceId, ResourceName, ResourceType) "
                "values ('aws', 'arn:aws:ec2:us-east-1:111122223333:instance/i-1', 'trainer', 'instance')")  # fmt: skip
    (found,) = detect(con, rules_of(tmp_path), {"aws": MARCH}).findings
    assert (found.resource_name, found.resource_type) == ("trainer", "instance")


def test_a_committed_part_is_freed_and_never_saved(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    charge(con, EffectiveCost=Decimal(144))
    charge(con, EffectiveCost=Decimal(576), purchase_option="committed")
    (found,) = detect(con, rules_of(tmp_path), {"aws": MARCH}).findings
    assert (found.monthly_cost, found.monthly_savings, found.monthly_savings_high, found.freed_commitment) == (
        730,
        146,
        146,
        584,
    )


def test_a_stated_standby_saves_nothing_and_says_so(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    charge(con, standby=True)
    (found,) = detect(con, rules_of(tmp_path), {"aws": MARCH}).findings
    assert (found.monthly_savings, found.monthly_savings_high, found.freed_commitment) == (0, 0, 0)
    assert found.reason == "stated standby: it costs"


def test_a_reason_that_misses_a_figure_does_not_hide_the_finding(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    charge(con)
    rules = rules_of(tmp_path)
    path = tmp_path / "gpu" / "costs.sql"
    path.write_text(path.read_text().replace("'it costs' as reason", "'costs ' || null::varchar as reason"))
    (found,) = detect(con, load_rules([tmp_path]), {"aws": MARCH}).findings
    assert found.reason == rules[0].title


def test_each_provider_is_judged_in_its_own_window(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    charge(con)
    charge(con, provider="gcp", ResourceId="vm-1", day=date(2026, 3, 2))
    early = Window(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
    assert [found.provider for found in detect(con, rules_of(tmp_path), {"aws": MARCH, "gcp": early}).findings] == [
        "aws"
    ]
    both = detect(con, rules_of(tmp_path), {"aws": MARCH, "gcp": MARCH})
    assert sorted(found.provider for found in both.findings) == ["aws", "gcp"]


def test_a_rule_may_state_a_shorter_window(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    charge(con, day=date(2026, 3, 30), EffectiveCost=Decimal(24))
    charge(con, day=date(2026, 3, 2))
    (found,) = detect(con, rules_of(tmp_path, extra="lookback_days = 1"), {"aws": MARCH}).findings
    assert (found.window_start, found.monthly_cost) == (datetime(2026, 3, 30, tzinfo=UTC), 730)


def test_parameters_are_overridden_by_rule_and_by_shared_setting(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    charge(con)
    rules = rules_of(tmp_path)
    (own,) = detect(con, rules, {"aws": MARCH}, {"gpu.costs": {"share": "0.5"}}, {"share": 0.1}).findings
    (shared,) = detect(con, rules, {"aws": MARCH}, None, {"share": Decimal("0.1")}).findings
    assert (own.monthly_savings, shared.monthly_savings) == (365, 73)


def test_a_rule_without_its_data_is_skipped_with_the_reason(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    charge(con)
    result = detect(
        con,
        rules_of(
            tmp_path,
            needs='nat_gateways = ["provider"]',
            more="join (select provider as p from nat_gateways) on p = provider",
        ),
        {"aws": MARCH},
    )
    (entry,) = result.coverage
    assert (entry.status, entry.reason, result.findings) == ("skipped", "no inventory of nat gateways for aws", ())


def test_a_rule_that_reads_utilisation_is_skipped_while_no_sample_arrived(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    charge(con)
    con.execute("insert into accelerator_hours (provider, ResourceId, coverage) values ('aws', 'i-1', 0)")
    rules = rules_of(
        tmp_path,
        needs='accelerator_hours = ["utilization_max"]',
        more="cross join (select max(utilization_max) as u from accelerator_hours)",
    )
    assert detect(con, rules, {"aws": MARCH}).coverage[0].reason == "no samples of accelerator use for aws"
    con.execute("update accelerator_hours set coverage = 1, utilization_max = 0")
    assert detect(con, rules, {"aws": MARCH}).coverage[0].status == "ran"


def test_a_missing_optional_view_is_given_empty_and_degrades_the_rule(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    charge(con)
    result = detect(
        con,
        rules_of(
            tmp_path,
            needs='[needs.optional]\nflows_daily = ["bytes"]',
            more="left join (select bytes from flows_daily) on true",
        ),
        {"aws": MARCH},
    )
    assert (result.coverage[0].status, result.coverage[0].reason) == ("degraded", "no flow logs for aws")
    assert len(result.findings) == 1


@pytest.mark.parametrize(
    ("confidence", "message"), [("'certain'", "confidence is 'certain'"), ("error('boom')", "boom")]
)
def test_a_rule_that_breaks_is_recorded_and_the_others_go_on(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, confidence: str, message: str
) -> None:
    charge(con)
    rules_of(tmp_path, stem="broken", confidence=confidence)
    result = detect(con, rules_of(tmp_path), {"aws": MARCH})
    assert [entry.status for entry in result.coverage] == ["failed", "ran"]
    assert message in (result.coverage[0].reason or "")
    assert [found.rule_id for found in result.findings] == ["gpu.costs"]


def test_one_resource_billed_in_two_currencies_gives_two_findings(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    charge(con)
    charge(con, BillingCurrency="EUR")
    found = detect(con, rules_of(tmp_path), {"aws": MARCH}).findings
    assert len({each.id for each in found}) == 2
    assert {each.billing_currency for each in found} == {"EUR", "USD"}


def test_a_rule_of_other_clouds_says_that_it_has_nothing_to_look_at(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    entry = detect(con, rules_of(tmp_path), {"azure": MARCH}).coverage[0]
    assert (entry.status, entry.reason) == ("skipped", "covers aws, gcp, of which there is no billing data")


def edited(folder: Path, before: str, after: str, stem: str = "costs") -> list[Rule]:
    rules_of(folder, stem=stem)
    path = folder / "gpu" / f"{stem}.sql"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    return load_rules([folder])


@pytest.mark.parametrize("tags", ["[1,2]", '"x"', '{"a":', "7", "null", "[" * 100_000])
def test_tags_that_are_no_json_object_are_no_tags(con: duckdb.DuckDBPyConnection, tmp_path: Path, tags: str) -> None:
    charge(con, Tags=tags)
    (from_bill,) = detect(con, rules_of(tmp_path), {"aws": MARCH}).findings
    own = edited(tmp_path, "as confidence", "as confidence, max(Tags) as Tags")
    (from_rule,) = detect(con, own, {"aws": MARCH}).findings
    assert (from_bill.tags, from_rule.tags) == ({}, {})


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("'it costs' as reason", "7 as reason", "reason is int, wanted text"),
        ("as confidence", "as confidence, '2026-03-01' as window_start", "window_start is str, wanted a timestamp"),
        ("as confidence", "as confidence, ['a'] as ResourceName", "ResourceName is list, wanted text"),
        ("as effective_cost", "* 1000000000000000000::hugeint as effective_cost", "more than money can be"),
        ("as effective_cost", "* 1e30::decimal(38, 0) as effective_cost", "verflow"),
        ("bool_or(standby) as standby", "'false' as standby", "standby is str, wanted a boolean"),
        ("as confidence", "as confidence, 'infinity'::timestamp as window_start", "the window of"),
    ],
)
def test_a_row_that_no_finding_can_hold_is_its_rules_failure(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, before: str, after: str, message: str
) -> None:
    charge(con)
    edited(tmp_path, before, after, stem="broken")
    result = detect(con, rules_of(tmp_path), {"aws": MARCH})
    assert [entry.status for entry in result.coverage] == ["failed", "ran"]
    assert message in (result.coverage[0].reason or "")
    assert [found.rule_id for found in result.findings] == ["gpu.costs"]


def test_ids_that_are_numbers_become_text(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    charge(con)
    rules = edited(
        tmp_path, "max(SubAccountId) as SubAccountId", "max(SubAccountId)::bigint as SubAccountId, 12 as subject"
    )
    (found,) = detect(con, rules, {"aws": MARCH}).findings
    assert (found.sub_account_id, found.subject) == ("111122223333", "12")


def test_the_largest_cost_of_the_lake_is_scaled_to_a_month(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    charge(con, EffectiveCost=Decimal("720000000000000000"))
    (found,) = detect(con, rules_of(tmp_path), {"aws": MARCH}).findings
    assert found.monthly_cost == Decimal("730000000000000000")


def test_a_figure_that_is_not_a_number_is_left_out_of_the_evidence(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    charge(con)
    rules = edited(tmp_path, "1.50 as rate", "'nan'::double as rate, 'inf'::double as unit_price")
    (found,) = detect(con, rules, {"aws": MARCH}).findings
    assert "rate" not in found.evidence and "unit_price" not in found.evidence


def test_gcloud_gets_the_name_of_a_machine_that_the_bill_knows_by_number(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    number = "//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/4711"
    rules = edited(
        tmp_path,
        "commands = []",
        'commands = ["stop {resource_short_id} --zone {availability_zone} --id {resource_last_part}"]',
    )
    charge(con, provider="gcp", ResourceId=number, ResourceName="trainer one", AvailabilityZone="us-central1-a")
    charge(con, ResourceId="arn:aws:ec2:us-east-1:111122223333:instance/4711", ResourceName="trainer")
    aws, gcp = sorted(detect(con, rules, {"aws": MARCH, "gcp": MARCH}).findings, key=lambda found: found.provider)
    assert gcp.remedy.commands == ("stop 'trainer one' --zone us-central1-a --id 4711",)
    assert aws.remedy.commands[0].startswith("stop 4711 ")
    con.execute("update charges set ResourceName = null")
    (unnamed,) = detect(con, rules, {"gcp": MARCH}).findings
    assert unnamed.remedy.commands[0].startswith("stop 4711 ")
