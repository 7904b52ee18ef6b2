"""Azure cost rows: actual and amortized exports as one bill, and the spellings of the agreements."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from bill_files import Audit, as_csv, azure_line, gz

D = Decimal
BENEFIT = {"benefitId": "/providers/microsoft.capacity/reservationorders/r1"}
ACTUAL = [
    azure_line("5", day=1),
    azure_line("0", day=2, model="Reservation", **BENEFIT),
    azure_line("310", day=1, kind="Purchase", model="Reservation", ResourceId="", **BENEFIT),
    azure_line("-10", day=3, kind="Refund", model="Reservation", ResourceId="", **BENEFIT),
    azure_line("2", day=1, kind="Tax", model="", ResourceId=""),
    azure_line("1", day=4, model="Spot", MeterName="D2 v3 Spot"),
]
AMORTIZED = [
    azure_line("5", day=1),
    azure_line("8", day=2, model="Reservation", **BENEFIT),
    azure_line("2", day=2, kind="UnusedReservation", model="Reservation", ResourceId="", **BENEFIT),
    azure_line("2", day=1, kind="Tax", model="", ResourceId=""),
    azure_line("1", day=4, model="Spot", MeterName="D2 v3 Spot"),
]


@pytest.fixture(scope="module")
def taken(new_audit: Callable[[], Audit]) -> Audit:
    return new_audit().take({"exports/a.csv": as_csv(ACTUAL), "exports/b.csv": as_csv(AMORTIZED)})


@pytest.mark.parametrize(
    ("which", "billed", "effective"),
    [
        ("x_LineItemType = 'Usage' and PricingCategory = 'Standard'", "5", "5"),
        ("CommitmentDiscountStatus = 'Used'", "0", "8"),
        ("CommitmentDiscountStatus = 'Unused'", "0", "2"),
        ("x_LineItemType = 'Purchase'", "310", "0"),
        ("x_LineItemType = 'Refund' and ChargeClass = 'Correction'", "-10", "0"),
        ("ChargeCategory = 'Tax'", "2", "2"),
        ("PricingCategory = 'Dynamic'", "1", "1"),
    ],
)
def test_each_charge_takes_each_cost_from_its_export(taken: Audit, which: str, billed: str, effective: str) -> None:
    assert taken.costs(which) == (D(billed), D(effective))


def test_trap_3_actual_and_amortized_are_never_both_summed(taken: Audit) -> None:
    assert taken.costs() == (308, 18)
    assert taken.rows("sum(ConsumedQuantity)", "x_LineItemType = 'Usage'") == [(72,)]
    assert taken.differences() == {D(0)}


def test_trap_38_unused_commitments_have_no_resource_and_stay(taken: Audit) -> None:
    assert taken.rows("ResourceId, EffectiveCost", "CommitmentDiscountStatus = 'Unused'") == [(None, D(2))]


def test_one_of_the_two_alone_is_both_costs(audit: Audit) -> None:
    assert audit.take({"a.csv": as_csv(ACTUAL)}).costs() == (308, 308)


def test_a_day_that_only_the_actual_export_has_adds_nothing_to_the_effective_cost(audit: Audit) -> None:
    longer = [*ACTUAL, azure_line("7", day=9)]
    audit.take({"one/a.csv": as_csv(longer), "two/b.csv": as_csv(AMORTIZED)})
    assert audit.costs() == (315, 18)
    assert audit.differences() == {D(0)}


def test_an_export_that_does_not_tell_what_it_is_counts_as_both_and_says_so(audit: Audit) -> None:
    audit.take({"a.csv": as_csv([azure_line("5")])})
    assert audit.costs() == (5, 5)
    assert "neither a manifest nor the rows tell" in audit.messages


def test_the_manifest_tells_actual_from_amortized(audit: Audit) -> None:
    def manifest(kind: str, rows: int) -> str:
        return f"""{{"manifestVersion": "2024-04-01", "dataRowCount": {rows}, "exportConfig": {{"exportName": "{kind}", "type": "{kind}"}},
            "runInfo": {{"runId": "x", "submittedTime": "2026-11-02T01:00:00Z", "startDate": "2026-10-01T00:00:00", "endDate": "2026-10-31T00:00:00"}},
            "blobs": [{{"blobName": "exp/{kind}/20261001-20261031/run/part_0_0001.csv.gz", "dataRowCount": {rows}}}]}}"""

    files: dict[str, str | bytes] = {}
    for kind, cost in (("ActualCost", "5"), ("AmortizedCost", "4")):
        folder = f"exp/{kind}/20261001-20261031/run"
        files[f"{folder}/part_0_0001.csv.gz"] = gz(as_csv([azure_line(cost)]))
        files[f"{folder}/manifest.json"] = manifest(kind, 1)
    audit.take(files)
    assert audit.costs() == (5, 4)


def test_trap_34_ids_in_several_cases_are_one_resource(audit: Audit) -> None:
    lines = [
        azure_line("1", ResourceId="/subscriptions/X/resourceGroups/RG/vm"),
        azure_line("1", ResourceId="/SUBSCRIPTIONS/x/resourcegroups/rg/VM"),
    ]
    assert audit.take({"a.csv": as_csv(lines)}).rows("ResourceId, BilledCost") == [
        ("/subscriptions/x/resourcegroups/rg/vm", D(2))
    ]


def test_trap_32_tags_without_braces_are_read(audit: Audit) -> None:
    audit.take({"a.csv": as_csv([azure_line("1", Tags='"team": "ml","env": "prod"')])})
    assert audit.rows("owner") == [("ml",)]


RENAMED = {
    "pay-as-you-go": {"CostInBillingCurrency": "PreTaxCost", "Date": "UsageDateTime", "SubscriptionId": "SubscriptionGuid", "MeterSubCategory": "MeterSubcategory",
                      "ResourceId": "InstanceId", "Quantity": "UsageQuantity", "BillingCurrencyCode": "Currency"},
    "old enterprise": {"CostInBillingCurrency": "Cost", "BillingCurrencyCode": "BillingCurrency"},
    "lower case": {"CostInBillingCurrency": "costinbillingcurrency", "Date": "date", "SubscriptionId": "subscriptionid", "BillingCurrencyCode": "billingcurrencycode"},
    "localised": {"CostInBillingCurrency": "Kosten (CostInBillingCurrency)", "Date": "Datum (Date)"},
    "customer agreement": {"CostInBillingCurrency": "costInBillingCurrency", "Date": "date", "BillingCurrencyCode": "billingCurrency", "Quantity": "quantity"},
}  # fmt: skip


@pytest.mark.parametrize("agreement", RENAMED)
def test_trap_35_every_agreement_s_column_names_are_read(audit: Audit, agreement: str) -> None:
    names = RENAMED[agreement]
    line = {names.get(name, name): value for name, value in azure_line("1.5", day=2).items()}
    audit.take({"a.csv": as_csv([line])})
    assert audit.rows("BilledCost, BillingCurrency, day::varchar, SubAccountId, ConsumedQuantity") == [
        (D("1.5"), "USD", "2026-10-02", "00000000-1111-2222-3333-444444444444", D(24))
    ]


def test_trap_37_days_first_are_not_read_as_months(audit: Audit) -> None:
    lines = [azure_line("1", BillingPeriodStartDate="01/10/2026", Date=f"{day:02d}/10/2026") for day in range(1, 8)]
    audit.take({"a.csv": as_csv(lines)})
    assert audit.rows("min(day)::varchar, max(day)::varchar, min(BillingPeriodStart)::varchar") == [
        ("2026-10-01", "2026-10-07", "2026-10-01 00:00:00")
    ]


def test_months_first_stay_months_first_in_a_short_file(audit: Audit) -> None:
    audit.take({"a.csv": as_csv([azure_line("1", day=day) for day in range(1, 8)])})
    assert audit.rows("min(day)::varchar, max(day)::varchar") == [("2026-10-01", "2026-10-07")]


def test_trap_39_an_azure_day_is_a_whole_day(audit: Audit) -> None:
    audit.take({"a.csv": as_csv([azure_line("1", day=31)])})
    assert audit.rows("ChargePeriodStart::varchar, ChargePeriodEnd::varchar") == [
        ("2026-10-31 00:00:00", "2026-11-01 00:00:00")
    ]
