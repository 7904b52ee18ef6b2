"""The bills that the benchmark makes: as wide and as varied as live ones, and read to the last decimal."""

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from auditor.cli.request import make_request
from auditor.progress import Silent
from auditor.scan import scan

BENCH = Path(__file__).parents[1] / "tools" / "bench"
ROWS = 4_000
BILLS = {
    "cur": ("make_cur2.py",),
    "cur-csv": ("make_cur2.py", "--csv"),
    "gcp": ("make_gcp.py",),
    "azure": ("make_azure.py",),
}


def made(name: str, target: Path) -> Path:
    generator, *options = BILLS[name]
    words = [sys.executable, str(BENCH / generator), str(target), str(ROWS), *options]
    subprocess.run(words, check=True)
    return target


def step(name: str, folder: Path, work: Path) -> str:
    work.mkdir(exist_ok=True)
    words = [sys.executable, str(BENCH / "steps.py"), name, str(folder), str(work)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", BILLS)
def test_every_step_runs_and_an_audit_has_the_total_that_it_is_compared_with(name: str, tmp_path: Path) -> None:
    folder = made(name, tmp_path / "bill")
    asked = make_request(paths=(str(folder),), as_of=date(2026, 11, 1), rules=("purchase.expiring*",))
    document = scan(asked, Silent(), datetime(2026, 11, 2, tzinfo=UTC)).document
    billed = sum(Decimal(row["lake_billed_cost"]) for row in document["reconciliation"])
    assert billed == Decimal(step("billed", folder, tmp_path / "work"))
    assert {row["difference"] for row in document["reconciliation"]} == {"0"}
    for each in ("nothing", "floor", "ingest", *(["rows"] if name.startswith("cur") else [])):
        step(each, folder, tmp_path / "work")
    assert sum(source["rows"] for source in document["sources"]) == ROWS


def test_a_made_cost_and_usage_report_varies_as_a_live_one_does(tmp_path: Path) -> None:
    folder = made("cur", tmp_path / "bill")
    con = duckdb.connect()
    con.execute(f"create view bill as select * from read_parquet('{folder}/*.parquet')")
    assert 115 <= len(con.execute("describe bill").fetchall()) <= 130
    ids, maps, kinds, costs, keys = con.execute("""
        select count(distinct identity_line_item_id), count(distinct resource_tags), count(distinct line_item_line_item_type),
            count(distinct line_item_unblended_cost), count(distinct (line_item_resource_id, line_item_usage_type, line_item_usage_start_date::date))
        from bill
    """).fetchall()[0]
    assert ids == ROWS
    assert maps == con.execute("select count(distinct line_item_resource_id) from bill").fetchall()[0][0]
    assert kinds == 4
    assert costs > ROWS / 4
    assert ROWS / 40 < keys < ROWS / 8
    pairs = con.execute("""
        select sum(line_item_unblended_cost) filter (where line_item_line_item_type like 'SavingsPlan%'),
            count(*) filter (where line_item_line_item_type = 'SavingsPlanNegation')
        from bill
    """).fetchall()[0]
    assert pairs[0] == pytest.approx(0)
    assert pairs[1] > 0
    hours = con.execute("select line_item_usage_start_date from bill").fetchall()
    assert hours != sorted(hours)
    assert [hour[0].date() for hour in hours] == sorted(hour[0].date() for hour in hours)
