"""What clients send: odd CSV, damaged files, API answers, several providers in one file."""

import gzip
import io
import json
import tarfile
import zipfile
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
import zstandard
from bill_files import Audit, as_csv, as_json_lines, as_parquet, azure_line, cur_line, focus_line, gcp_line, gz

D = Decimal
LINES = [cur_line("Usage", f"{day}.5", day=day) for day in range(1, 5)]
TEXT = as_csv(LINES)


def zipped(text: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/cur.csv", text)
    return out.getvalue()


def tarred(text: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("folder/cur.csv")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cur.csv", TEXT),
        ("cur.csv.gz", gz(TEXT)),
        ("cur.csv.zst", zstandard.compress(TEXT.encode())),
        ("cur.zip", zipped(TEXT)),
        ("cur.tar.gz", tarred(TEXT)),
        ("without-suffix", gz(TEXT)),
        ("misnamed.json", TEXT),
        ("bom.csv", b"\xef\xbb\xbf" + TEXT.encode()),
        ("utf16.csv", TEXT.encode("utf-16")),
        ("crlf.csv", TEXT.replace("\n", "\r\n")),
        ("semicolon.csv", as_csv(LINES, ";")),
        ("tab.tsv", as_csv(LINES, "\t")),
        ("pipe.csv", as_csv(LINES, "|")),
        ("sep.csv", "sep=,\n" + TEXT),
        ("titled.csv", "Cost report\nOctober 2026\n" + as_csv([{**line, "bill/InvoiceId": "1"} for line in LINES])),
        (
            "comma.csv",
            as_csv(
                [
                    {**line, "lineItem/UnblendedCost": str(line["lineItem/UnblendedCost"]).replace(".", ",")}
                    for line in LINES
                ],
                ";",
            ),
        ),
        ("quote ' and $(rm -rf x); \u202e.csv", TEXT),
        ("trailing.csv", TEXT.replace("\r\n", "\n").replace("\n", ",\n").replace("Description,\n", "Description\n", 1)),
    ],
)
def test_trap_48_the_same_bill_in_many_wrappings_is_one_sum(audit: Audit, name: str, content: str | bytes) -> None:
    audit.take({name: content})
    assert audit.statuses == ["ok"], audit.unread
    assert audit.total() == 12
    assert audit.differences() == {D(0)}


def test_parquet_keeps_its_types_and_every_digit(audit: Audit, tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = [{**line, "lineItem/UnblendedCost": 0.1} for line in LINES]
    audit.take({"cur.parquet": as_parquet(rows, tmp_path_factory.mktemp("parquet"))})
    assert audit.total() == D("0.4")


def test_tags_with_line_breaks_and_quotes_shift_no_column(audit: Audit) -> None:
    lines = [
        cur_line(cost="2", **{"resourceTags/user:note": 'a "quoted", text\nof two lines'}),
        cur_line(cost="3", day=2, **{"resourceTags/user:note": ""}),
    ]
    assert audit.take({"cur.csv": as_csv(lines)}).total() == 5


def test_an_empty_file_is_failed_and_a_header_alone_is_no_data(audit: Audit) -> None:
    audit.take({"empty.csv": "", "header/cur.csv": as_csv([], columns=LINES[0])})
    assert "the file is empty" in audit.unread["empty.csv"]
    assert "no data, not zero spend" in audit.messages  # trap 42
    assert audit.rows("count(*)") == [(0,)]


def test_text_in_an_amount_is_counted_and_makes_the_source_failed(audit: Audit) -> None:
    audit.take({"cur.csv": as_csv([*LINES, cur_line(cost="see invoice", day=9)])})
    assert audit.statuses == ["failed"]
    assert "1 rows could not be read: their amount is no number, first 'see invoice'" in audit.messages
    assert audit.total() == 12


def test_a_row_with_too_many_fields_is_counted_and_the_others_are_read(audit: Audit) -> None:
    broken = TEXT.splitlines()
    broken.insert(3, broken[2] + ",surplus")
    audit.take({"cur.csv": "\n".join(broken) + "\n"})
    assert "1 rows could not be read, first at line 4" in audit.messages
    assert audit.total() == 12


def test_a_spreadsheet_s_amounts_and_short_dates_are_read(audit: Audit) -> None:
    line = focus_line(
        "$10,000.50 ",
        ChargePeriodStart="4/1/26",
        ChargePeriodEnd="5/1/26",
        BillingPeriodStart="4/1/26",
        EffectiveCost="(12.00)",
    )
    audit.take({"focus.csv": as_csv([line])})
    assert audit.costs() == (D("10000.5"), D("-12"))
    assert audit.rows("distinct BillingPeriodStart::varchar") == [("2026-04-01 00:00:00",)]


def test_twelve_first_days_of_months_are_months(audit: Audit) -> None:
    days = {"ChargePeriodStart": "{}/1/25", "ChargePeriodEnd": "{}/2/25", "BillingPeriodStart": "{}/1/25"}
    lines = [focus_line("1", **{name: text.format(month) for name, text in days.items()}) for month in range(1, 13)]
    audit.take({"focus.csv": as_csv(lines)})
    assert audit.rows("count(distinct BillingPeriodStart), max(day)::varchar") == [(12, "2025-12-01")]


def cut(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


MANY = as_csv(
    [cur_line(cost="1", day=day % 28 + 1, **{"lineItem/ResourceId": f"i-{day * 7919}"}) for day in range(4000)]
)


def test_a_gzip_that_breaks_off_is_read_up_to_the_break(audit: Audit) -> None:
    audit.take({"cur.csv.gz": cut(gz(MANY))})
    assert audit.statuses == ["failed"]
    assert "rows before the break were read" in audit.messages
    assert 0 < audit.total() < 4000
    assert f"{int(audit.total()):,} rows before" in audit.messages


def test_a_flipped_bit_in_a_gzip_is_seen(audit: Audit) -> None:
    content = bytearray(gz(MANY))
    content[-6] ^= 0xFF  # in the checksum
    audit.take({"cur.csv.gz": bytes(content)})
    assert audit.statuses == ["failed"]
    assert "damaged" in audit.messages


def test_a_zstd_file_that_breaks_off_is_named(audit: Audit) -> None:
    audit.take({"cur.csv.zst": cut(zstandard.compress(MANY.encode())), "good.csv": TEXT})
    assert "failed" in audit.statuses or "cur.csv.zst" in audit.unread
    assert "damaged or cut off" in audit.messages + " ".join(audit.unread.values())


def test_a_cut_parquet_file_is_named_and_the_rest_is_read(
    audit: Audit, tmp_path_factory: pytest.TempPathFactory
) -> None:
    audit.take({"bad.parquet": cut(as_parquet(LINES, tmp_path_factory.mktemp("parquet"))), "good.csv": TEXT})
    assert "damaged" in audit.unread["bad.parquet"]
    assert audit.total() == 12


def test_fragments_with_display_names_and_null_texts_are_read(audit: Audit) -> None:
    line = focus_line("1")
    spaced = {"".join(f" {c}" if c.isupper() else c for c in name).strip(): value for name, value in line.items()}
    audit.take({"focus.csv": as_csv([spaced | {"Commitment Discount Id": "NULL", "Effective Cost": "null"}])})
    assert audit.rows("BilledCost, EffectiveCost, CommitmentDiscountId") == [(D(1), D(1), None)]


def test_trap_47_one_file_of_several_providers_is_one_bill_for_each(audit: Audit) -> None:
    lines = [
        focus_line("1", ProviderName="Amazon Web Services, Inc."),
        focus_line("2", ProviderName="Microsoft", BillingAccountId="8000001"),
        focus_line("4", ProviderName="Google Cloud", BillingAccountId="0A1B2C-3D4E5F-0A1B2C"),
        focus_line("8", ProviderName="Acme Clouds", BillingAccountId="acme"),
    ]
    audit.take({"focus.csv": as_csv(lines)})
    assert audit.rows("provider, BilledCost") == [("acme clouds", 8), ("aws", 1), ("azure", 2), ("gcp", 4)]
    assert {bill.provider for bill in audit.known} == {"acme clouds", "aws", "azure", "gcp"}
    assert audit.differences() == {D(0)}


def test_trap_46_billed_and_effective_cost_of_a_commitment_stay_apart(audit: Audit) -> None:
    lines = [
        focus_line("8760", ChargeCategory="Purchase", EffectiveCost="0", ResourceId="", CommitmentDiscountId="c"),
        focus_line("0", EffectiveCost="1.5", CommitmentDiscountId="c", CommitmentDiscountStatus="Used"),
    ]
    assert audit.take({"focus.csv": as_csv(lines)}).costs() == (8760, D("1.5"))


def test_focus_as_json_lines_is_read(audit: Audit) -> None:
    audit.take({"focus.jsonl": as_json_lines([focus_line("1.25", Tags={"team": "ml"})])})
    assert audit.rows("BilledCost, owner") == [(D("1.25"), "ml")]


def test_fragments_without_an_account_all_count(audit: Audit) -> None:
    lines = [{name: value for name, value in focus_line("1").items() if "Account" not in name}]
    other = [{**lines[0], "RegionId": "eu-west-1", "BilledCost": "2"}]
    assert audit.take({"a.csv": as_csv(lines), "b/b.csv": as_csv(other)}).total() == 3


def cost_explorer(day: int, amount: str, token: str | None = None) -> str:
    return json.dumps(
        {
            "GroupDefinitions": [{"Type": "DIMENSION", "Key": "SERVICE"}, {"Type": "TAG", "Key": "team"}],
            "ResultsByTime": [
                {
                    "TimePeriod": {"Start": f"2026-10-{day:02d}", "End": f"2026-10-{day + 1:02d}"},
                    "Total": {},
                    "Groups": [
                        {
                            "Keys": ["Amazon Elastic Compute Cloud - Compute", "team$ml"],
                            "Metrics": {
                                "UnblendedCost": {"Amount": amount, "Unit": "USD"},
                                "AmortizedCost": {"Amount": "0.5", "Unit": "USD"},
                            },
                        }
                    ],
                    "Estimated": False,
                }
            ],
            **({"NextPageToken": token} if token else {}),
        }
    )


def test_pages_of_cost_explorer_belong_together(audit: Audit) -> None:
    audit.take({"ce/page1.json": cost_explorer(1, "1.123456789012", "more"), "ce/page2.json": cost_explorer(2, "2")})
    assert audit.statuses == ["ok"]
    assert audit.rows("provider, day::varchar, BilledCost, EffectiveCost, owner") == [
        ("aws", "2026-10-01", D("1.123456789012"), D("0.5"), "ml"),
        ("aws", "2026-10-02", D(2), D("0.5"), "ml"),
    ]
    assert audit.differences() == {D(0)}


def test_a_next_page_mark_without_its_page_makes_the_source_failed(audit: Audit) -> None:
    audit.take({"ce/page1.json": cost_explorer(1, "1", "more")})
    assert audit.statuses == ["failed"]
    assert "another page follows, which was not delivered" in audit.messages
    assert audit.total() == 1


def azure_query(rows: list[list[object]], link: str | None = None) -> str:
    return json.dumps(
        {
            "id": "subscriptions/00000000-1111-2222-3333-444444444444/providers/Microsoft.CostManagement/query/1",
            "type": "Microsoft.CostManagement/query",
            "properties": {
                "nextLink": link,
                "columns": [
                    {"name": "Cost", "type": "Number"},
                    {"name": "UsageDate", "type": "Number"},
                    {"name": "ServiceName", "type": "String"},
                    {"name": "Currency", "type": "String"},
                ],
                "rows": rows,
            },
        }
    )


def test_pages_of_an_azure_query_belong_together(audit: Audit) -> None:
    first = azure_query([[1.1, 20261001, "Virtual Machines", "EUR"]], "https://management.azure.com/next")
    audit.take({"q/1.json": first, "q/2.json": azure_query([[2.2, 20261002, "Storage", "EUR"]])})
    assert audit.statuses == ["ok"]
    assert audit.rows("provider, day::varchar, BilledCost, BillingCurrency, SubAccountId") == [
        ("azure", "2026-10-01", D("1.1"), "EUR", "00000000-1111-2222-3333-444444444444"),
        ("azure", "2026-10-02", D("2.2"), "EUR", "00000000-1111-2222-3333-444444444444"),
    ]


def test_an_azure_page_that_another_follows_alone_is_failed(audit: Audit) -> None:
    audit.take({"q/1.json": azure_query([[1.1, 20261001, "Storage", "EUR"]], "https://management.azure.com/next")})
    assert audit.statuses == ["failed"]


def test_a_bill_of_another_provider_does_not_hide_an_answer(audit: Audit) -> None:
    audit.take({"q/1.json": azure_query([[1.5, 20261001, "Storage", "USD"]]), "cur.csv": TEXT})
    assert audit.total() == D("13.5")


def test_rows_without_any_date_are_counted_and_left_out(audit: Audit) -> None:
    lines = [azure_line("1"), {**azure_line("2"), "Date": "soon", "BillingPeriodStartDate": ""}]
    audit.take({"a.csv": as_csv(lines)})
    assert audit.total() == 1
    assert audit.statuses == ["failed"]
    assert "1 rows could not be read: they have no date and no billing period" in audit.messages


def test_gzip_members_written_one_after_another_are_one_file(audit: Audit) -> None:
    half = len(TEXT) // 2
    audit.take({"cur.csv.gz": gzip.compress(TEXT[:half].encode()) + gzip.compress(TEXT[half:].encode())})
    assert audit.total() == 12


GCP = as_json_lines([gcp_line("1", day=day) for day in range(1, 5)])


@pytest.mark.parametrize("family", ["gcp", "focus"])
def test_json_lines_that_break_off_count_up_to_the_break(audit: Audit, family: str) -> None:
    text = GCP if family == "gcp" else as_json_lines([focus_line("1", day=day) for day in range(1, 5)])
    audit.take({"bill.jsonl": text[:-40]})
    assert (audit.statuses, audit.total()) == (["failed"], 3)
    assert "1 of 4 lines are no whole JSON object, first line 4" in audit.messages


def test_a_line_of_garbage_among_json_lines_costs_only_itself(audit: Audit) -> None:
    first, second, *rest = GCP.splitlines()
    audit.take(
        {"a/bill.jsonl.gz": gz("\n".join([first, second, "<html>503</html>", *rest])), "a/more.jsonl": GCP[:-40]}
    )
    assert audit.total() == 4
    assert "first line 3; the other rows were read" in audit.messages
    assert "first line 4" in audit.messages


@pytest.mark.parametrize("crlf", [2, 4])
@pytest.mark.parametrize("mixed_from", [0, 3000])
def test_line_ends_of_two_kinds_are_read(audit: Audit, crlf: int, mixed_from: int) -> None:
    lines = MANY.splitlines()
    ends = ["\n"] * len(lines)
    for at in range(mixed_from, mixed_from + crlf):
        ends[at] = "\r\n"
    audit.take({"cur.csv": "".join(line + end for line, end in zip(lines, ends, strict=True))})
    assert (audit.statuses, audit.total()) == (["ok"], 4000)


def test_nul_bytes_are_left_out_and_said(audit: Audit) -> None:
    audit.take(
        {
            "cur.csv.zst": zstandard.compress(TEXT.replace("i-1", "i-\x001", 1).encode()),
            "gcp.jsonl": GCP.replace("vm-1", "vm\x00-1"),
        }
    )
    assert audit.statuses == ["failed", "failed"]
    assert "cur.csv.zst: 1 NUL bytes were left out" in audit.messages
    assert audit.total() == 16
    assert ("i-1",) in audit.rows("distinct ResourceId")


@pytest.mark.parametrize("amount", ["1e18", "-1000000000000000000", "inf", "Infinity", "NaN", "nan", "1e400"])
def test_an_amount_that_no_bill_can_hold_is_counted_as_unreadable(audit: Audit, amount: str) -> None:
    audit.take({"cur.csv": as_csv([*LINES, cur_line(cost=amount, day=9)])})
    assert audit.statuses == ["failed"]
    assert f"1 rows could not be read: their amount is no number, first {amount!r}" in audit.messages
    assert audit.total() == 12


def changed(content: bytes, replacement: str, folder: Path) -> bytes:
    """The Parquet file with one column given by SQL."""
    (folder / "before.parquet").write_bytes(content)
    with duckdb.connect() as con:
        con.execute(
            f"copy (select * replace ({replacement}) from '{folder / 'before.parquet'}') to '{folder / 'after.parquet'}'"
        )
    return (folder / "after.parquet").read_bytes()


@pytest.mark.parametrize("amount", ["1e18::double", "'inf'::double", "'nan'::double", "1e25::decimal(38,2)"])
def test_a_parquet_amount_that_no_bill_can_hold_is_counted_as_unreadable(
    audit: Audit, amount: str, tmp_path: Path
) -> None:
    odd = f"""case when "lineItem/UsageStartDate"::date = '2026-10-04' then {amount} else 1.5 end as "lineItem/UnblendedCost\""""
    audit.take({"cur.parquet": changed(as_parquet(LINES, tmp_path), odd, tmp_path)})
    assert audit.statuses == ["failed"]
    assert "1 rows could not be read: their amount is no number" in audit.messages
    assert audit.total() == D("4.5")


@pytest.mark.parametrize("amount", ["999999999999999999", "1E15", "1e-12", "(10.00)", "$1,234.50", ""])
def test_large_small_and_dressed_amounts_are_numbers(audit: Audit, amount: str) -> None:
    audit.take({"cur.csv": as_csv([*LINES, cur_line(cost=amount, day=9)])})
    assert audit.statuses == ["ok"]


def test_an_effective_cost_that_is_no_number_makes_the_source_failed(audit: Audit) -> None:
    audit.take({"focus.csv": as_csv([focus_line("1"), focus_line("2", day=2, EffectiveCost="abc")])})
    assert audit.statuses == ["failed"]
    assert "1 rows could not be read in full: their EffectiveCost is no number, first 'abc'" in audit.messages
    assert audit.total() == 3


def test_a_credit_that_is_no_number_makes_the_source_failed(audit: Audit) -> None:
    credits = [{"name": "Sustained usage", "type": "SUSTAINED_USAGE_DISCOUNT", "amount": "abc"}]
    audit.take({"gcp.jsonl": as_json_lines([gcp_line("1"), gcp_line("2", day=2, credits=credits)])})
    assert audit.statuses == ["failed"]
    assert "1 rows could not be read in full: their credit is no number" in audit.messages
    assert audit.total() == 3


NO_DATES = ["not a date", "2026-02-30T00:00:00Z", "9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z", "1/1/0001", ""]


@pytest.mark.parametrize("start", NO_DATES)
def test_a_charge_without_a_readable_date_counts_on_the_first_day_of_its_period(audit: Audit, start: str) -> None:
    audit.take({"focus.csv": as_csv([focus_line("1", day=5), focus_line("2", day=6, ChargePeriodStart=start)])})
    assert "1 rows have no readable date; they count on the first day of their billing period" in audit.messages
    assert audit.rows("day::varchar, BilledCost") == [("2026-10-01", D(2)), ("2026-10-05", D(1))]
    assert audit.differences() == {D(0)}


@pytest.mark.parametrize("start", NO_DATES)
def test_a_charge_without_any_readable_date_is_left_out_and_fails_its_source(audit: Audit, start: str) -> None:
    odd = focus_line("2", ChargePeriodStart=start, BillingPeriodStart=start)
    audit.take({"focus.csv": as_csv([focus_line("1"), odd])})
    assert audit.statuses == ["failed"]
    assert "1 rows could not be read: they have no date and no billing period" in audit.messages
    assert audit.total() == 1


@pytest.mark.parametrize("end", ["9999-12-31T00:00:00Z", "2100-01-01T00:00:00Z", "2037-01-01T00:00:00Z"])
def test_a_charge_of_more_than_ten_years_has_no_dates(audit: Audit, end: str) -> None:
    audit.take({"focus.csv": as_csv([focus_line("2", day=6, ChargePeriodEnd=end)])})
    assert "1 rows have no readable date" in audit.messages
    assert audit.rows("day::varchar, BilledCost") == [("2026-10-01", D(2))]


def test_an_endless_charge_in_parquet_has_no_dates(audit: Audit, tmp_path: Path) -> None:
    endless = "timestamp '9999-12-31' as ChargePeriodEnd"
    audit.take({"focus.parquet": changed(as_parquet([focus_line("2", day=6)], tmp_path), endless, tmp_path)})
    assert "1 rows have no readable date" in audit.messages
    assert audit.rows("day::varchar, BilledCost") == [("2026-10-01", D(2))]


def test_a_commitment_of_five_years_is_spread_over_them(audit: Audit) -> None:
    line = focus_line("1826", ChargePeriodStart="2026-01-01", ChargePeriodEnd="2031-01-01")
    assert audit.take({"focus.csv": as_csv([line])}).rows("count(*), sum(BilledCost)") == [(1826, D(1826))]


@pytest.mark.parametrize("name", ["bill[1].csv", "b*.csv", "q[1]/cur.csv"])
def test_a_name_that_reads_as_a_pattern_is_the_file_itself(audit: Audit, name: str) -> None:
    other = as_csv([cur_line(cost="100", day=20, **{"lineItem/ResourceId": "i-2"})])
    audit.take({name: TEXT, "bill1.csv": other, "q1/cur.csv": other + "\r\n"})
    assert audit.total(where="ResourceId = 'i-1'") == 12


def test_a_currency_in_small_letters_is_the_same_currency(audit: Audit) -> None:
    lines = [cur_line(cost="2", **{"lineItem/CurrencyCode": "usd"}), cur_line(cost="3", day=2)]
    audit.take({"cur.csv": as_csv(lines)})
    assert audit.rows("distinct BillingCurrency") == [("USD",)]
    assert audit.differences() == {D(0)}


def test_an_amount_with_an_underscore_is_no_number(audit: Audit) -> None:
    audit.take({"cur.csv": as_csv([cur_line(cost="1_0"), cur_line(cost="3", day=2)])})
    assert audit.total() == 3
    assert "1 rows could not be read: their amount is no number, first '1_0'" in audit.messages


def test_a_file_that_had_nul_bytes_reconciles_by_the_rows_that_were_read(audit: Audit) -> None:
    audit.take(
        {
            "cur.csv": as_csv([cur_line(cost="2"), cur_line(cost="3", day=2)]).replace(
                "RunInstances", "Run\0Instances", 1
            )
        }
    )
    assert "NUL bytes were left out" in audit.messages
    assert audit.differences() == {D(0)}


def test_the_parts_of_a_compressed_export_are_each_read_once_and_whole(audit: Audit) -> None:
    parts = {f"cur-{number:05}.csv.gz": gz(as_csv([cur_line(cost="1", day=number)])) for number in range(1, 13)}
    assert audit.take(parts).total() == 12
    assert not [report for report in audit.reports if report.status != "ok"]
