"""The invariants of settling, on generated findings."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.assets import room
from auditor.detect.rule import STAGES, Rule, load_rule
from auditor.detect.settle import settle
from auditor.finding import CONFIDENCES, Finding, Remedy

LINES: tuple[tuple[str, ...], ...] = ((), ("nat.bytes",), ("transfer.inter_zone",))


def rule(stage: str, line: tuple[str, ...], severity: str | None = None) -> Rule:
    name = f"area.{stage}_{'_'.join(line).replace('.', '_') or 'whole'}"
    return Rule(
        name,
        name,
        "stable",
        stage,
        ("aws",),
        "w",
        "s",
        "b",
        (),
        {},
        {},
        {},
        {},
        "select 1",
        Path("r.sql"),
        severity,
        cost_line=line,
    )


RULES = [rule(stage, line) for stage in STAGES for line in LINES]
COST_LINE = {each.id: each.cost_line for each in RULES}
BY_KEY = {(each.stage, each.cost_line): each for each in RULES}


def finding(
    stage: str = "remove",
    line: tuple[str, ...] = (),
    resource: str | None = "i-1",
    cost: Decimal | int = 100,
    savings: Decimal | int = 50,
    committed: Decimal | int = 0,
    confidence: str = "high",
    group: str | None = None,
    currency: str = "USD",
    subject: str = "s",
    members: list[str] | None = None,
) -> Finding:
    start, end = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 31, tzinfo=UTC)
    savings = min(Decimal(savings), Decimal(cost) - Decimal(committed))
    return Finding(
        BY_KEY[stage, line].id, "t", "aws", "111122223333", "us-east-1", resource, subject, currency, start, end,
        Decimal(cost), Decimal(committed), Decimal(cost), savings, savings, savings, Decimal(committed), confidence, "low", "r",
        Remedy("s", (), "r", "e"), (), stage, group, evidence={"members": members} if members else {},
    )  # fmt: skip


money = st.decimals(min_value=0, max_value=50_000, places=2)


@st.composite
def findings(draw: st.DrawFn) -> list[Finding]:
    """Findings on three resources whose cost every rule sees alike, a line being a part of the whole."""
    made = []
    costs = {name: (draw(money), draw(money), draw(money)) for name in ("i-1", "i-2", "i-3")}
    for number in range(draw(st.integers(0, 2))):
        members = draw(st.lists(st.sampled_from(sorted(costs)), min_size=2, max_size=3, unique=True))
        cost = sum((sum(costs[name], Decimal(0)) for name in members), Decimal(0))
        part = draw(st.integers(0, 100))
        made.append(
            finding(
                draw(st.sampled_from(STAGES)),
                (),
                None,
                cost,
                (cost * part / 100).quantize(Decimal("0.01")),
                confidence=draw(st.sampled_from(CONFIDENCES)),
                subject=f"cluster {number}",
                members=members,
            )
        )
    for number in range(draw(st.integers(0, 9))):
        resource = draw(st.sampled_from(sorted(costs)))
        line = draw(st.sampled_from(LINES))
        cost = sum(costs[resource], Decimal(0)) if not line else costs[resource][LINES.index(line)]
        part = draw(st.integers(0, 100))
        made.append(
            finding(
                draw(st.sampled_from(STAGES)),
                line,
                resource,
                cost,
                (cost * part / 100).quantize(Decimal("0.01")),
                confidence=draw(st.sampled_from(CONFIDENCES)),
                group=draw(st.sampled_from((None, None, "either"))),
                subject=str(number),
            )
        )
    return made


def total(settled: list[Finding], *, low: bool = False) -> Decimal:
    return sum((each.monthly_savings_net for each in settled if low or each.confidence != "low"), Decimal(0))


@settings(max_examples=60, deadline=None)
@given(findings())
def test_the_net_savings_of_a_resource_never_exceed_its_cost(made: list[Finding]) -> None:
    settled = settle(made, RULES)
    for resource in {each.resource_id for each in made if each.resource_id}:
        own = [each for each in settled if each.resource_id == resource]
        costs = {COST_LINE[each.rule_id]: each.monthly_cost for each in own}
        assert total(own, low=True) <= costs.get((), sum(costs.values(), Decimal(0)))
    assert all(Decimal(0) <= each.monthly_savings_net <= each.monthly_savings for each in settled)


@st.composite
def estates(draw: st.DrawFn) -> tuple[list[Finding], Decimal]:
    """Findings on whole machines and on clusters of them, and what the machines cost together."""
    costs = {f"i-{number}": draw(money) for number in range(4)}
    made = []
    for number in range(draw(st.integers(1, 7))):
        members = draw(st.lists(st.sampled_from(sorted(costs)), min_size=1, max_size=4, unique=True))
        cost = sum((costs[name] for name in members), Decimal(0))
        savings = (cost * draw(st.integers(0, 100)) / 100).quantize(Decimal("0.01"))
        alone = len(members) == 1
        made.append(
            finding(
                draw(st.sampled_from(STAGES)),
                (),
                members[0] if alone else None,
                cost,
                savings,
                confidence=draw(st.sampled_from(CONFIDENCES)),
                subject=str(number),
                members=None if alone else members,
            )
        )
    # each machine has a finding of its own, as the clusters' shares rest on them
    made += [finding("buy", (), name, cost, 0, subject=name) for name, cost in costs.items()]
    return made, sum(costs.values(), Decimal(0))


@settings(max_examples=100, deadline=None)
@given(estates())
def test_machines_and_their_clusters_never_save_more_than_the_machines_cost(
    estate: tuple[list[Finding], Decimal],
) -> None:
    made, cost = estate
    assert total(settle(made, RULES), low=True) <= cost


@settings(max_examples=60, deadline=None)
@given(findings(), st.randoms(use_true_random=False))
def test_the_order_of_the_findings_changes_nothing(made: list[Finding], random: object) -> None:
    shuffled = list(made)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert settle(shuffled, RULES) == settle(made, RULES)


@settings(max_examples=80, deadline=None)
@given(findings().filter(bool))
def test_a_further_finding_never_lowers_the_total(made: list[Finding]) -> None:
    rounding = Decimal("1e-11")  # every net figure is cut at twelve decimals
    assert total(settle(made, RULES)) >= total(settle(made[1:], RULES)) - rounding
    assert (
        total(settle(made, RULES), low=True) >= total(settle(made[1:], RULES), low=True) - rounding
        or made[0].exclusive_group
    )


def test_a_removed_resource_leaves_nothing_to_buy_cheaper() -> None:
    settled = {each.stage: each for each in settle([finding("buy", savings=60), finding("remove", savings=100)], RULES)}
    assert (settled["remove"].monthly_savings_net, settled["buy"].monthly_savings_net) == (100, 0)


def test_two_halves_of_one_cost_leave_a_quarter() -> None:
    settled = {each.stage: each for each in settle([finding("resize"), finding("buy")], RULES)}
    assert (settled["resize"].monthly_savings_net, settled["buy"].monthly_savings_net) == (50, 25)


def test_a_finding_of_low_confidence_takes_only_what_the_others_leave() -> None:
    settled = {
        each.stage: each
        for each in settle([finding("remove", savings=100, confidence="low"), finding("buy", savings=40)], RULES)
    }
    assert (settled["buy"].monthly_savings_net, settled["remove"].monthly_savings_net) == (40, 60)


def test_traffic_and_machine_are_lines_of_one_resource() -> None:
    made = [
        finding("remove", cost=100, savings=100),
        finding("fix_path", ("transfer.inter_zone",), cost=30, savings=15),
    ]
    assert total(settle(made, RULES)) == 100
    assert total(settle(made[1:], RULES)) == 15


def test_of_exclusive_alternatives_the_best_counts_and_the_other_names_it() -> None:
    spot, plan = (
        finding("buy", savings=60, group="option", subject="spot"),
        finding("buy", savings=40, group="option", subject="plan"),
    )
    best, other = settle([plan, spot], RULES)
    assert (best.id, best.monthly_savings_net, best.instead_of) == (spot.id, 60, ())
    assert (other.monthly_savings_net, other.instead_of) == (0, (spot.id,))


def test_two_smaller_sizes_of_one_machine_are_not_both_saved() -> None:
    rules = [load_rule(room("rules") / "gpu" / f"{stem}.sql") for stem in ("partly_idle_devices", "underused_instance")]
    made = [
        replace(finding(each.stage, savings=savings, group=each.exclusive_group, subject=each.id), rule_id=each.id)
        for each, savings in zip(rules, (80, 30), strict=True)
    ]
    assert [each.monthly_savings_net for each in settle(made, rules)] == [80, 0]


def test_what_a_commitment_pays_is_no_base_for_savings() -> None:
    made = [finding("remove", cost=100, committed=60, savings=40), finding("buy", cost=100, committed=60, savings=30)]
    assert total(settle(made, RULES)) == 40


def test_currencies_have_ledgers_of_their_own() -> None:
    made = [
        finding("remove", cost=100, savings=100),
        finding("remove", cost=100, savings=100, currency="EUR", subject="e"),
    ]
    assert [each.monthly_savings_net for each in settle(made, RULES)] == [100, 100]


def test_a_cluster_draws_on_its_members() -> None:
    cluster = finding("fix_path", resource=None, cost=200, savings=100, members=["i-1", "i-2"], subject="cluster")
    settled = {
        each.subject: each.monthly_savings_net for each in settle([finding("remove", savings=100), cluster], RULES)
    }
    assert settled == {"s": 100, "cluster": 50}


def test_a_cluster_takes_little_from_a_member_that_costs_little() -> None:
    small = finding("remove", resource="i-1", cost=10, savings=10, subject="small")
    large = finding("remove", resource="i-2", cost=190, savings=190, subject="large")
    cluster = finding("fix_path", resource=None, cost=200, savings=100, members=["i-1", "i-2"], subject="cluster")
    assert total(settle([small, large, cluster], RULES)) == 200


def test_nothing_used_saves_nothing() -> None:
    made = [finding("remove", cost=0, savings=0), finding("buy", cost=0, savings=0)]
    assert total(settle(made, RULES), low=True) == 0


def test_severity_follows_the_net_money_unless_the_rule_states_it() -> None:
    made = [
        finding(cost=20_000, savings=amount, resource=str(amount), subject=str(amount))
        for amount in (10_000, 1_000, 100, 99)
    ]
    assert [each.severity for each in settle(made, RULES)] == ["critical", "high", "medium", "low"]
    assert settle(made[:1], [rule("remove", (), "low")])[0].severity == "low"
