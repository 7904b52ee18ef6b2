"""Every line item type of a Cost and Usage Report, with its BilledCost and EffectiveCost."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from bill_files import Audit, as_csv, cur_line

D = Decimal
RI = "arn:aws:ec2:us-east-1:111122223333:reserved-instances/ri-1"
SP = "arn:aws:savingsplans::111122223333:savingsplan/sp-1"
MONTH = {"lineItem/UsageEndDate": "2026-11-01T00:00:00Z"}


def line(name: str, kind: str, cost: str, **more: object) -> dict[str, object]:
    return cur_line(kind, cost, **{"lineItem/ResourceId": name, "pricing/publicOnDemandCost": "", **more})


LINES = [
    line("usage", "Usage", "2.5", **{"pricing/publicOnDemandCost": "3"}),
    line("free", "Usage", "0", **{"pricing/publicOnDemandCost": "9"}),
    line("spot", "Usage", "0.7", **{"lineItem/UsageType": "SpotUsage:g5.xlarge", "product/instanceType": ""}),
    line(
        "reserved",
        "DiscountedUsage",
        "0",
        **{"reservation/ReservationARN": RI, "reservation/EffectiveCost": "4", "pricing/publicOnDemandCost": "6"},
    ),
    line(
        "rifee",
        "RIFee",
        "31",
        **MONTH,
        **{
            "reservation/ReservationARN": RI,
            "reservation/UnusedRecurringFee": "2",
            "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "1",
        },
    ),
    line("upfront", "Fee", "500", **{"reservation/ReservationARN": RI}),
    line("support", "Fee", "100", **MONTH),
    line(
        "covered",
        "SavingsPlanCoveredUsage",
        "10",
        **{"savingsPlan/SavingsPlanARN": SP, "savingsPlan/SavingsPlanEffectiveCost": "7.2"},
    ),
    line("covered", "SavingsPlanNegation", "-10", **{"savingsPlan/SavingsPlanARN": SP}),
    line(
        "half",
        "SavingsPlanCoveredUsage",
        "5",
        **{"savingsPlan/SavingsPlanARN": SP + "x", "savingsPlan/SavingsPlanEffectiveCost": "3"},
    ),
    line("half", "SavingsPlanNegation", "-4.5", **{"savingsPlan/SavingsPlanARN": SP + "x"}),
    line(
        "spfee",
        "SavingsPlanRecurringFee",
        "8",
        **{
            "savingsPlan/SavingsPlanARN": SP,
            "savingsPlan/TotalCommitmentToDate": "8",
            "savingsPlan/UsedCommitment": "7.2",
        },
    ),
    line("spupfront", "SavingsPlanUpfrontFee", "60", **{"savingsPlan/SavingsPlanARN": SP}),
    line("credit", "Credit", "-3"),
    line("refund", "Refund", "-1.5"),
    line("rirefund", "Refund", "-40", **{"reservation/ReservationARN": RI}),
    line("tax", "Tax", "2", **MONTH, **{"lineItem/UsageType": ""}),
    line("edp", "EdpDiscount", "-0.9"),
    line("private", "PrivateRateDiscount", "-0.8"),
    line("bundle", "BundledDiscount", "-0.7"),
    line("flat", "FlatRateSubscription", "15", **MONTH),
    line("new", "SomethingNew", "0.25"),
]


@pytest.fixture(scope="module")
def taken(new_audit: Callable[[], Audit]) -> Audit:
    return new_audit().take({"cur/report-00001.csv": as_csv(LINES)})


@pytest.mark.parametrize(
    ("which", "billed", "effective"),
    [
        ("ResourceId = 'usage'", "2.5", "2.5"),
        ("ResourceId = 'free'", "0", "0"),
        ("ResourceId = 'spot'", "0.7", "0.7"),
        ("ResourceId = 'reserved'", "0", "4"),
        ("x_LineItemType = 'RIFee' and ChargeCategory = 'Purchase'", "31", "0"),
        ("x_LineItemType = 'RIFee' and CommitmentDiscountStatus = 'Unused'", "0", "3"),
        ("x_LineItemType = 'Fee' and CommitmentDiscountId is not null", "500", "0"),
        ("ResourceId = 'support'", "100", "100"),
        ("ResourceId = 'covered'", "0", "7.2"),
        ("x_LineItemType = 'SavingsPlanRecurringFee' and ChargeCategory = 'Purchase'", "8", "0"),
        ("x_LineItemType = 'SavingsPlanRecurringFee' and CommitmentDiscountStatus = 'Unused'", "0", "0.8"),
        ("x_LineItemType = 'SavingsPlanUpfrontFee'", "60", "0"),
        ("ChargeCategory = 'Credit'", "-3", "-3"),
        ("x_LineItemType = 'Refund' and CommitmentDiscountId is null", "-1.5", "-1.5"),
        ("x_LineItemType = 'Refund' and CommitmentDiscountId is not null", "-40", "0"),
        ("ChargeCategory = 'Tax'", "2", "2"),
        ("x_LineItemType = 'EdpDiscount'", "-0.9", "-0.9"),
        ("x_LineItemType = 'PrivateRateDiscount'", "-0.8", "-0.8"),
        ("x_LineItemType = 'BundledDiscount'", "-0.7", "-0.7"),
        ("x_LineItemType = 'FlatRateSubscription'", "15", "15"),
        ("x_LineItemType = 'SomethingNew' and ChargeCategory = 'Adjustment'", "0.25", "0.25"),
    ],
)
def test_each_line_type_has_its_two_costs(taken: Audit, which: str, billed: str, effective: str) -> None:
    assert taken.rows("count(*) > 0", which) == [(True,)]
    assert taken.costs(which) == (D(billed), D(effective))


def test_trap_1_covered_usage_its_negation_and_the_fee_cost_the_commitment_once(taken: Audit) -> None:
    of_plan = f"CommitmentDiscountId = '{SP}' and x_LineItemType <> 'SavingsPlanUpfrontFee'"
    assert taken.costs(of_plan) == (D(8), D(8))  # not 10 + 8, and effectively 7.2 used and 0.8 unused


def test_a_negation_leaves_no_row_but_what_it_fails_to_cancel(taken: Audit) -> None:
    assert taken.rows("BilledCost, EffectiveCost", "x_LineItemType = 'SavingsPlanNegation'") == [(D("0.5"), D(0))]
    assert "savings plan" in taken.messages


def test_trap_7_a_reserved_machine_costs_its_share_of_the_reservation(taken: Audit) -> None:
    assert taken.rows(
        "EffectiveCost, ListCost, CommitmentDiscountType, PricingCategory", "ResourceId = 'reserved'"
    ) == [(D(4), D(6), "Reserved Instance", "Committed")]


def test_trap_8_a_reservation_is_not_in_effective_cost_twice(taken: Audit) -> None:
    of_reservation = f"CommitmentDiscountId = '{RI}' and x_LineItemType in ('RIFee', 'DiscountedUsage')"
    assert taken.total("EffectiveCost", of_reservation) == 7  # 4 used, 3 unused; the fee itself 0


def test_trap_16_spot_is_told_by_its_usage_type_where_the_instance_type_is_empty(taken: Audit) -> None:
    assert taken.rows("PricingCategory, x_InstanceType", "ResourceId = 'spot'") == [("Dynamic", "g5.xlarge")]


def test_trap_19_list_cost_is_kept_apart_from_what_is_billed(taken: Audit) -> None:
    assert taken.rows("BilledCost, ListCost", "ResourceId = 'free'") == [(D(0), D(9))]


def test_a_charge_of_a_month_is_spread_over_its_days_and_adds_up_exactly(taken: Audit) -> None:
    assert taken.rows("count(distinct day), sum(BilledCost)", "ResourceId = 'support'") == [(31, D(100))]
    assert taken.rows("max(BilledCost) - min(BilledCost) < 0.000000001", "ResourceId = 'support'") == [(True,)]


def test_the_bill_and_the_lake_agree_to_the_last_digit(taken: Audit) -> None:
    assert taken.differences() == {D(0)}
    assert taken.total() == sum(D(str(each["lineItem/UnblendedCost"])) for each in LINES)


def test_rows_that_came_in_are_accounted_for(taken: Audit) -> None:
    assert taken.rows("sum(source_rows)") == [(len(LINES),)]
    assert taken.reports[0].rows == len(LINES)
    assert "lines were read" not in taken.messages


def test_a_negation_that_cancels_is_the_only_line_without_a_charge(audit: Audit) -> None:
    lines = [each for each in LINES if each["lineItem/ResourceId"] == "covered"]
    audit.take({"cur.csv": as_csv(lines)})
    assert audit.rows("x_LineItemType, source_rows") == [("SavingsPlanCoveredUsage", 1)]
    assert audit.reports[0].message is None


NET = [
    cur_line(cost="10", **{"lineItem/NetUnblendedCost": "9"}),
    cur_line(
        "SavingsPlanRecurringFee", "8", day=2, **{"lineItem/NetUnblendedCost": "7.5", "savingsPlan/SavingsPlanARN": SP}
    ),
]


def test_trap_5_discounts_are_taken_once_from_the_net_columns(audit: Audit) -> None:
    audit.take({"cur.csv": as_csv(NET)})
    assert audit.total() == D("16.5")
    assert audit.differences() == {D(0)}


def test_trap_5_discount_lines_stay_where_the_net_columns_are_empty(audit: Audit) -> None:
    lines = [cur_line(cost="100", **{"lineItem/NetUnblendedCost": ""}), cur_line("EdpDiscount", "-10", day=2)]
    assert audit.take({"cur.csv": as_csv(lines)}).total() == 90


def test_amounts_are_all_gross_where_some_rows_lack_the_net_one(audit: Audit) -> None:
    lines = [*NET, cur_line(cost="5", day=3, **{"lineItem/NetUnblendedCost": ""})]
    audit.take({"cur.csv": as_csv(lines)})
    assert audit.total() == 23
    assert "before private discounts" in audit.messages


def test_trap_6_blended_cost_is_never_used(audit: Audit) -> None:
    assert audit.take({"cur.csv": as_csv([cur_line(cost="1", **{"lineItem/BlendedCost": "7"})])}).total() == 1


def test_trap_9_split_cost_allocation_columns_add_nothing(audit: Audit) -> None:
    lines = [cur_line(cost="1", **{"splitLineItem/SplitCost": "5", "splitLineItem/UnusedCost": "2"})]
    assert audit.take({"cur.csv": as_csv(lines)}).costs() == (1, 1)


def test_trap_10_rows_that_share_a_line_item_id_all_count(audit: Audit) -> None:
    assert audit.take({"cur.csv": as_csv([cur_line(cost="1", hour=hour) for hour in range(5)])}).total() == 5


def test_trap_41_a_tenth_a_thousand_times_is_a_hundred(audit: Audit) -> None:
    assert (
        audit.take({"cur.csv": as_csv([cur_line(cost="0.1", day=day % 28 + 1) for day in range(1000)])}).total() == 100
    )


def test_trap_50_currencies_of_two_partitions_stay_apart(audit: Audit) -> None:
    china = cur_line(cost="7", **{"bill/PayerAccountId": "999988887777", "lineItem/CurrencyCode": "CNY"})
    audit.take({"a/cur.csv": as_csv([cur_line(cost="3")]), "b/cur.csv": as_csv([china])})
    assert audit.rows("BillingCurrency, sum(BilledCost)", "true group by all") == [("CNY", D(7)), ("USD", D(3))]


def test_cur_2_and_legacy_spellings_give_the_same_charges(audit: Audit) -> None:
    legacy = [cur_line(cost="1.25", **{"resourceTags/user:team": "ml"})]
    snake = {
        "_loader_batch": "7",
        "bill_payer_account_id": "111122223333",
        "bill_billing_period_start_date": "2026-10-01 00:00:00.000",
        "line_item_usage_account_id": "777766665555",
        "line_item_line_item_type": "Usage",
        "line_item_usage_start_date": "2026-10-01 00:00:00.000",
        "line_item_usage_end_date": "2026-10-02 00:00:00.000",
        "line_item_product_code": "AmazonEC2",
        "line_item_usage_type": "BoxUsage:m5.large",
        "line_item_operation": "RunInstances",
        "line_item_resource_id": "i-1",
        "line_item_usage_amount": "24",
        "line_item_currency_code": "USD",
        "line_item_unblended_cost": "1.25",
        "resource_tags": '{"user_team":"ml"}',
    }
    audit.take({"a/cur.csv": as_csv(legacy), "b/cur2.csv": as_csv([snake])})
    assert audit.rows(
        "count(*)", "x_UsageType = 'BoxUsage:m5.large' and BilledCost = 1.25 and owner = 'ml' and ResourceId = 'i-1'"
    ) == [(2,)]


def test_a_column_selection_without_line_item_types_is_all_usage(audit: Audit) -> None:
    lines = [{name: value for name, value in cur_line(cost="2").items() if name != "lineItem/LineItemType"}]
    assert audit.take({"cur.csv": as_csv(lines)}).rows("ChargeCategory, BilledCost") == [("Usage", D(2))]
