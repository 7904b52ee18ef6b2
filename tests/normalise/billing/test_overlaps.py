"""Deliveries that tell of the same charges: each charge counts once, and the report says which and why."""

import json
from decimal import Decimal

import pytest
from bill_files import Audit, as_csv, as_json_lines, azure_line, cur_line, focus_line, gcp_line, gz

D = Decimal


def month_to_date(last: int, price: str = "1") -> str:
    return as_csv([cur_line(cost=price, day=day) for day in range(1, last + 1)])


def test_a_cur_beside_a_focus_export_of_the_account_counts_once_and_says_why(audit: Audit) -> None:
    focus = as_csv([focus_line(day=day, ResourceId="") for day in range(1, 11)])
    audit.take({"cur/cur.csv": month_to_date(10), "focus/focus.csv": focus})
    assert audit.total() == 10
    assert audit.differences() == {D(0)}
    assert "not counted for account 111122223333, 2026-10" in audit.messages
    assert "has resource ids" in audit.messages


def test_three_formats_of_one_account_count_once(audit: Audit) -> None:
    net = [cur_line(day=day, **{"lineItem/NetUnblendedCost": "0.9"}) for day in range(1, 5)]
    focus = [focus_line(day=day) for day in range(1, 5)]
    audit.take({"a/cur.csv": month_to_date(4), "b/net.csv": as_csv(net), "c/focus.csv": as_csv(focus)})
    assert audit.total() == D("3.6")  # net costs come before gross ones


def test_two_exports_of_one_account_that_cover_other_sub_accounts_both_count(audit: Audit) -> None:
    other = [cur_line(cost="2", day=day, **{"lineItem/UsageAccountId": "777766665555"}) for day in range(1, 11)]
    audit.take({"one/cur.csv": month_to_date(10), "two/cur.csv": as_csv(other)})
    assert audit.total() == 30
    assert "not counted" not in audit.messages


def test_trap_2_month_to_date_files_side_by_side_count_the_month_once(audit: Audit) -> None:
    files = {f"cur/oct-{last:02d}.csv": month_to_date(last) for last in (3, 5, 9)}
    audit.take(files)
    assert audit.total() == 9
    assert audit.statuses == ["ok", "skipped", "skipped"]
    assert "is a newer export of the same" in audit.messages


def test_restated_amounts_of_a_longer_export_replace_those_before(audit: Audit) -> None:
    later = as_csv([cur_line(cost="2" if day == 1 else "1", day=day) for day in range(1, 10)])
    audit.take({"cur/a.csv": month_to_date(8), "cur/b.csv": later})
    assert audit.total() == 10


def test_parts_of_one_export_in_one_folder_all_count(audit: Audit) -> None:
    parts = {
        f"cur/{name}.csv": as_csv([cur_line(day=day, **{"lineItem/ResourceId": name}) for day in range(1, 6)])
        for name in ("first", "second", "third")
    }
    audit.take(parts)
    assert audit.total() == 15
    assert audit.statuses == ["ok"]


def test_a_later_shorter_export_keeps_the_days_it_does_not_have(audit: Audit) -> None:
    shorter = as_csv([cur_line(cost="3", day=day) for day in range(20, 31)])
    audit.take({"cur/a.csv": month_to_date(25)}).take({"cur/b.csv": shorter})
    assert audit.total() == 19 + 11 * 3
    assert audit.differences() == {D(0)}


def test_an_earlier_shorter_export_that_arrives_later_changes_nothing(audit: Audit) -> None:
    audit.take({"cur/a.csv": month_to_date(25)}).take({"cur/b.csv": month_to_date(9, price="7")})
    assert audit.total() == 25
    assert "newer export of the same" in audit.messages


def test_the_same_delivery_again_changes_nothing(audit: Audit) -> None:
    before = audit.take({"cur/a.csv": month_to_date(5)}).rows("*")
    assert audit.take({"cur/a.csv": month_to_date(5)}).rows("*") == before


def test_a_delivery_of_one_month_leaves_the_other_month_alone(audit: Audit) -> None:
    september = {
        "bill/BillingPeriodStartDate": "2026-09-01T00:00:00Z",
        "lineItem/UsageStartDate": "2026-09-30T00:00:00Z",
    }
    audit.take({"cur/sep.csv": as_csv([cur_line(cost="4", **september)]), "cur/oct.csv": month_to_date(2)})
    audit.take({"cur/oct.csv": month_to_date(3, price="2")})
    assert audit.rows("strftime(BillingPeriodStart, '%m'), sum(BilledCost)", "true group by all") == [
        ("09", D(4)),
        ("10", D(6)),
    ]


def test_trap_49_the_same_data_plain_and_compressed_counts_once(audit: Audit) -> None:
    audit.take({"a/cur.csv": month_to_date(3), "b/cur.csv.gz": gz(month_to_date(3))})
    assert audit.total() == 3
    assert "the same content as" in " ".join(audit.unread.values())


def test_a_bill_by_the_month_speaks_for_all_its_days(audit: Audit) -> None:
    monthly = [cur_line(cost="30", day=1, **{"lineItem/UsageEndDate": "2026-11-01T00:00:00Z"})]
    daily = [focus_line(day=day, ResourceId="") for day in range(1, 31)]
    assert audit.take({"a/cur.csv": as_csv(monthly), "b/focus.csv": as_csv(daily)}).total() == 30


def extract(days: range, price: str = "1", **more: object) -> str:
    return as_json_lines(gcp_line(price, day=day, **more) for day in days)


def test_gcp_extracts_of_different_export_days_in_two_folders_both_count(audit: Audit) -> None:
    audit.take({"first/bill.json": extract(range(1, 6)), "second/bill.json": extract(range(6, 9))})
    assert audit.total() == 8
    assert audit.differences() == {D(0)}


def test_gcp_export_days_that_two_folders_hold_count_once(audit: Audit) -> None:
    audit.take({"first/bill.json": extract(range(1, 6)), "second/bill.json": extract(range(4, 9))})
    assert audit.total() == 8
    assert audit.differences() == {D(0)}
    assert "2026-10-04 to 2026-10-05" in audit.messages


def test_the_fuller_extract_of_a_gcp_export_day_counts(audit: Audit) -> None:
    cut = extract(range(1, 4))
    full = extract(range(3, 5)) + as_json_lines([gcp_line("5", day=2, export_day=3)])
    audit.take({"first/bill.json": cut, "second/bill.json": full})
    assert audit.total() == 2 + 1 + 1 + 5


def test_overlapping_gcp_extracts_in_one_folder_count_each_export_day_once(audit: Audit) -> None:
    audit.take({"dump/monday.json": extract(range(1, 6)), "dump/friday.json": extract(range(3, 9))})
    assert audit.total() == 8
    assert audit.differences() == {D(0)}


def test_trap_26_late_gcp_rows_of_an_earlier_day_are_added(audit: Audit) -> None:
    late = as_json_lines([gcp_line("10", day=2, export_day=7)])
    audit.take({"a/bill.json": extract(range(1, 6))}).take({"a/late.json": late})
    assert audit.total() == 15


def test_trap_22_a_gcp_row_belongs_to_the_month_of_its_invoice(audit: Audit) -> None:
    late = [gcp_line("2", day=30, export_day=31, invoice={"month": "202611"}), gcp_line("3", day=30)]
    audit.take({"a/bill.json": as_json_lines(late)})
    assert audit.rows("strftime(BillingPeriodStart, '%Y-%m'), day::varchar, BilledCost") == [
        ("2026-10", "2026-10-30", D(3)),
        ("2026-11", "2026-10-30", D(2)),
    ]


def test_shards_of_one_gcp_extract_all_count(audit: Audit) -> None:
    shards = {
        f"x/bill_{shard:012d}.json": as_json_lines([gcp_line("1", day=3, resource={"name": str(shard)})])
        for shard in range(3)
    }
    assert audit.take(shards).total() == 3


def azure_month(last: int, first: int = 1, cost: str = "1") -> str:
    return as_csv([azure_line(cost, day=day) for day in range(first, last + 1)])


def test_an_azure_one_time_export_beside_the_month_to_date_one_counts_once(audit: Audit) -> None:
    audit.take({"adhoc/e.csv": azure_month(9), "daily/e.csv": azure_month(20)})
    assert audit.total() == 20
    assert audit.differences() == {D(0)}


def test_a_cost_api_answer_stands_back_where_there_is_a_bill(audit: Audit) -> None:
    answer = """{"GroupDefinitions": [{"Type": "DIMENSION", "Key": "LINKED_ACCOUNT"}], "ResultsByTime": [
        {"TimePeriod": {"Start": "2026-10-01", "End": "2026-10-02"}, "Groups": [
            {"Keys": ["444455556666"], "Metrics": {"UnblendedCost": {"Amount": "1.0", "Unit": "USD"}}},
            {"Keys": ["222211110000"], "Metrics": {"UnblendedCost": {"Amount": "0.5", "Unit": "USD"}}}]}]}"""
    audit.take({"cur/cur.csv": month_to_date(1), "ce/answer.json": answer})
    assert audit.total() == D("1.5")  # the account without a bill comes from the answer
    assert audit.differences() == {D(0)}


@pytest.mark.parametrize("order", ["new-first", "old-first"])
def test_trap_4_of_two_assemblies_the_one_the_manifest_names_counts(audit: Audit, order: str) -> None:
    old, new = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
    if order == "new-first":
        old, new = new, old
    manifest = f"""{{"assemblyId": "{new}", "account": "111122223333", "reportName": "r",
        "billingPeriod": {{"start": "20261001T000000.000Z", "end": "20261101T000000.000Z"}},
        "reportKeys": ["p/r/20261001-20261101/{new}/r-00001.csv.gz"]}}"""
    folder = "p/r/20261001-20261101"
    audit.take(
        {
            f"{folder}/{old}/r-00001.csv.gz": gz(month_to_date(4, price="9")),
            f"{folder}/{new}/r-00001.csv.gz": gz(month_to_date(5)),
            f"{folder}/r-Manifest.json": manifest,
        }
    )
    assert audit.total() == 5
    assert "skipped" in audit.statuses


def test_a_part_that_the_manifest_names_and_nobody_delivered_makes_the_source_failed(audit: Audit) -> None:
    manifest = """{"account": "111122223333", "reportName": "r", "billingPeriod": {"start": "20261001T000000.000Z"},
        "reportKeys": ["p/r/20261001-20261101/r-00001.csv.gz", "p/r/20261001-20261101/r-00002.csv.gz"]}"""
    folder = "p/r/20261001-20261101"
    audit.take({f"{folder}/r-00001.csv.gz": gz(month_to_date(5)), f"{folder}/r-Manifest.json": manifest})
    assert audit.statuses == ["failed"]
    assert "1 of 2 files of the manifest are missing" in audit.messages
    assert audit.total() == 5


ASSEMBLIES = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")


def test_manifests_of_assemblies_alone_leave_the_choice_to_the_charges(audit: Audit) -> None:
    files: dict[str, str | bytes] = {}
    for assembly, last in zip(ASSEMBLIES, (4, 9), strict=True):
        folder = f"rep/20261001-20261101/{assembly}"
        files[f"{folder}/rep-00001.csv"] = month_to_date(last)
        files[f"{folder}/rep-Manifest.json"] = json.dumps(
            {
                "reportName": "rep",
                "reportKeys": [f"{folder}/rep-00001.csv"],
                "billingPeriod": {"start": "20261001T000000.000Z"},
            }
        )
    audit.take(files)
    assert audit.total() == 9
    assert audit.statuses == ["ok", "skipped"]


@pytest.mark.parametrize("stamps", [("202610030600", "202610050600"), ("10003", "10005")])
def test_numbers_that_are_dates_do_not_make_files_parts_of_one_run(audit: Audit, stamps: tuple[str, str]) -> None:
    files = {f"e/bill-{stamp}.csv": month_to_date(last) for stamp, last in zip(stamps, (3, 5), strict=True)}
    assert audit.take(files).total() == 5


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("apart", [True, False])
def test_the_final_bill_replaces_the_provisional_one_whose_amounts_all_changed(
    audit: Audit, first: str, second: str, apart: bool
) -> None:
    provisional = as_csv([cur_line(cost="1", day=day) for day in range(1, 29)])
    final = as_csv([cur_line(cost="1.01", day=day, **{"bill/InvoiceId": "42"}) for day in range(1, 29)])
    folders = (first, second) if apart else ("oct", "oct")
    audit.take({f"{folders[0]}/{first}.csv": provisional, f"{folders[1]}/{second}.csv": final})
    assert audit.total() == D("28.28")
    assert audit.differences() == {D(0)}


def test_files_of_two_departments_with_the_same_lines_are_no_restatement_of_each_other(audit: Audit) -> None:
    def department(factor: int) -> str:
        return as_csv(
            [cur_line(cost=str(factor * (1 + day % 3)), day=day, **{"lineItem/ResourceId": ""}) for day in range(1, 9)]
        )

    audit.take({"oct/one.csv": department(1), "oct/two.csv": department(3)})
    assert audit.total() == 17 + 51


def test_a_few_lines_that_are_alike_are_no_restatement(audit: Audit) -> None:
    audit.take({"oct/one.csv": as_csv([cur_line(cost="1")]), "oct/two.csv": as_csv([cur_line(cost="1.01")])})
    assert audit.total() == D("2.01")


def test_numbered_files_of_both_cost_views_of_azure_count_once(audit: Audit) -> None:
    bought = azure_line(cost="10", kind="Purchase", model="Reservation")
    actual = [bought, *(azure_line(cost="0", model="Reservation", day=day) for day in range(1, 11))]
    amortized = [azure_line(cost="1", model="Reservation", day=day) for day in range(1, 11)]
    audit.take({"az/part_0_0001.csv": as_csv(actual), "az/part_1_0001.csv": as_csv(amortized)})
    assert audit.total() == 10
