"""What a file is by its first bytes, and what is said of files that are nothing we read."""

import gzip
import json
import zlib
from pathlib import Path

import pytest

from auditor.collect.local import gather
from auditor.normalise import recognise
from auditor.normalise.recognise import sort_files

FOCUS = "BillingAccountId,BillingPeriodStart,ChargePeriodStart,ChargeCategory,ServiceName,BillingCurrency,BilledCost"
LINE = "111122223333,2026-10-01,2026-10-02,Usage,Amazon EC2,USD,1"


def verdicts(folder: Path, files: dict[str, bytes]) -> dict[str, tuple[str, str]]:
    """(status, reason) of each file that is not read."""
    (folder / "spool").mkdir()
    for name, content in files.items():
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_bytes(content)
    landed, unopened = gather([str(folder / "in")], folder / "spool")
    assert not unopened
    return {unread.file.name: (unread.status, unread.reason) for unread in sort_files(landed).unread}


def test_an_empty_file_fails_only_where_its_name_promises_data(tmp_path: Path) -> None:
    found = verdicts(tmp_path, {"_SUCCESS": b"", "cur.csv": b"", "part.parquet": b"", "a.JSON.GZ": b""})
    assert {name: status for name, (status, _) in found.items()} == {
        "_SUCCESS": "skipped",
        "cur.csv": "failed",
        "part.parquet": "failed",
        "a.JSON.GZ": "failed",
    }


@pytest.mark.parametrize("text", ['[tool.x]\nname = "y"\n', "[core]\n\tbare = false\n", "[[a]]\nb = 1\n", "{{ a }}\n"])
def test_brackets_that_open_no_json_are_skipped(tmp_path: Path, text: str) -> None:
    assert verdicts(tmp_path, {"config": text.encode()})["config"][0] == "skipped"


def test_json_that_breaks_off_is_failed(tmp_path: Path) -> None:
    assert verdicts(tmp_path, {"a.json": b'[{"a": 1}, {"b"'})["a.json"][0] == "failed"


@pytest.mark.parametrize("content", [b"[" * 200_000, b'{"a":' * 200_000])
def test_json_nested_without_end_fails_alone(tmp_path: Path, content: bytes) -> None:
    found = verdicts(tmp_path, {"deep.json": content, "focus.csv": f"{FOCUS}\n{LINE}\n".encode()})
    assert found == {"deep.json": ("failed", "the JSON is nested too deeply to be an export")}


def test_a_zstd_mark_before_junk_fails_alone(tmp_path: Path) -> None:
    found = verdicts(tmp_path, {"a.zst": b"\x28\xb5\x2f\xfd" + b"junk" * 50, "_SUCCESS": b""})
    assert found["a.zst"][0] == "failed"
    assert "damaged" in found["a.zst"][1]


def test_an_error_nobody_foresaw_fails_its_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = recognise.look

    def look(file: recognise.LandingFile) -> recognise.Shape:
        if file.name == "odd.csv":
            raise zlib.error("odd")
        return seen(file)

    monkeypatch.setattr(recognise, "look", look)
    found = verdicts(tmp_path, {"odd.csv": b"x", "focus.csv": f"{FOCUS}\n{LINE}\n".encode()})
    assert found == {"odd.csv": ("failed", "cannot be read: error: odd")}


@pytest.mark.parametrize(
    ("lacking", "message"), [("BilledCost", "BilledCost is missing"), ("Start", "ChargePeriodStart is missing")]
)
def test_focus_without_a_column_it_cannot_do_without_says_which(tmp_path: Path, lacking: str, message: str) -> None:
    header = ",".join(name for name in FOCUS.split(",") if not name.endswith(lacking))
    status, reason = verdicts(tmp_path, {"focus.csv": f"{header},ListCost,ChargeFrequency\n".encode()})["focus.csv"]
    assert status == "failed"
    assert message in reason


def test_an_inventory_with_columns_that_focus_has_too_is_skipped(tmp_path: Path) -> None:
    header = b"ResourceId,ResourceName,ResourceType,RegionId,ServiceName,SubAccountId,Tags\n"
    assert verdicts(tmp_path, {"list.csv": header})["list.csv"][0] == "skipped"


def test_focus_in_utf16_without_a_mark_is_recognised(tmp_path: Path) -> None:
    assert verdicts(tmp_path, {"focus.csv": f"{FOCUS}\n{LINE}\n".encode("utf-16-le")}) == {}


def test_binary_data_is_skipped(tmp_path: Path) -> None:
    found = verdicts(tmp_path, {"a.bin": bytes(range(256)) * 8, "b.json": json.dumps({"a": 1}).encode()})
    assert {status for status, _ in found.values()} == {"skipped"}


OUTDATED = {
    "InvoiceID,PayerAccountId,LinkedAccountId,RecordType,ItemDescription,UnBlendedCost": "Cost and Usage Report",
    "Service,EC2-Instances($),Total costs($)": "Cost and Usage Report",
    "Project ID,SKU description,Usage start date,Unrounded cost ($),Cost ($)": "BigQuery",
    "Account ID,Line Item,Start Time,End Time,Measurement1,Cost,Currency": "BigQuery",
    "SubscriptionGuid,Date,Meter Category,Consumed Quantity,ExtendedCost": "Cost Management",
    "UsageDate,ServiceName,Cost,CostUSD,Currency": "Cost Management",
}


@pytest.mark.parametrize(("header", "remedy"), OUTDATED.items())
def test_an_outdated_layout_is_refused_with_its_header_and_what_would_work(
    tmp_path: Path, header: str, remedy: str
) -> None:
    status, reason = verdicts(tmp_path, {"bill.csv": f"{header}\n{'1,' * header.count(',')}1\n".encode()})["bill.csv"]
    assert status == "failed"
    assert remedy in reason
    assert header.replace(",", ", ")[:40] in reason


@pytest.mark.parametrize(
    ("header", "lacking"),
    [
        ("lineItem/UsageStartDate,lineItem/UsageType,lineItem/ProductCode", "lineItem/UnblendedCost is missing"),
        ("line_item_unblended_cost,line_item_usage_type,x", "lineItem/UsageStartDate is missing"),
        ("Date,MeterCategory,MeterName,Quantity", "CostInBillingCurrency is missing"),
        ("Cost,MeterCategory,MeterName,Quantity", "Date is missing"),
        ("usage_start_time,sku.description,sku.id,service.id,service.description", "cost is missing"),
    ],
)
def test_a_bill_without_a_column_it_cannot_do_without_says_which(tmp_path: Path, header: str, lacking: str) -> None:
    status, reason = verdicts(tmp_path, {"bill.csv": f"{header}\n{'1,' * header.count(',')}1\n".encode()})["bill.csv"]
    assert status == "failed"
    assert lacking in reason


def test_a_price_list_of_azure_is_no_bill_without_its_date(tmp_path: Path) -> None:
    header = b"MeterID,MeterName,MeterCategory,UnitOfMeasure,UnitPrice,CurrencyCode\n1,a,b,c,2,USD\n"
    assert verdicts(tmp_path, {"prices.csv": header})["prices.csv"][0] == "skipped"


@pytest.mark.parametrize(
    "page",
    [
        b"<!DOCTYPE html><title>Sign in</title>",
        b"<?xml version='1.0'?><Error/>",
        b"version https://git-lfs.github.com/spec/v1\n",
    ],
)
def test_a_page_saved_in_place_of_the_data_fails_where_the_name_promises_data(tmp_path: Path, page: bytes) -> None:
    found = verdicts(tmp_path, {"cur.csv.gz": page, "readme.html": page})
    assert {name: status for name, (status, _) in found.items()} == {"cur.csv.gz": "failed", "readme.html": "skipped"}
    assert "fetch the file again" in found["cur.csv.gz"][1]


def test_parquet_packed_in_gzip_is_to_be_unpacked(tmp_path: Path) -> None:
    found = verdicts(tmp_path, {"cur.parquet.gz": gzip.compress(b"PAR1" + b"\0" * 40)})
    assert found == {"cur.parquet.gz": ("failed", "a Parquet file packed in gzip: unpack it first")}
