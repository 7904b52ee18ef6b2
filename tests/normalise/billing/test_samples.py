"""Bills that nobody here wrote: every file alone and all together, against sums made without this program."""

import csv
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest
from bill_files import Audit

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "samples"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SAMPLES.is_dir(), reason="the team's sample files are not here"),
]

# File -> the amount column whose plain sum is the bill.
FILES = {
    "aws/focus-converters/sample-anonymous-aws-export-dataset.csv": "lineItem/UnblendedCost",
    "aws/logzio-cur/test-billing-report-1.csv.gz": "lineItem/UnblendedCost",
    "aws/keboola-cur1/sample_billing_data.csv": "lineItem/UnblendedCost",
    "aws/keboola-cur2/sample_billing_data_v2.csv": "line_item_unblended_cost",
    "aws/aws-cur-anonymize/sample-cur20.csv": "line_item_unblended_cost",
    "azure/finops-toolkit-ea/EA_ActualCost_Small.csv": "Cost",
    "azure/finops-toolkit-ea/EA_AmortizedCost_Small.csv": "Cost",
    "azure/opencost/PayAsYouGo.csv": "PreTaxCost",
    "azure/opencost/Template.csv": "costinbillingcurrency",
    "focus/focus-sample-data-1.0/focus_sample.csv": "BilledCost",
    "focus/focus-data-toolkit/azure_1_3_cost_and_usage_rows100_seed42.csv": "BilledCost",
    "focus/focus-data-toolkit/gcp_1_2_cost_and_usage_rows100_seed42.csv": "BilledCost",
    "focus/focus-spec-examples/commitment_discount_purchase_scenario_1.csv": "BilledCost",
}


def amount(text: str | None) -> Decimal:
    text = (text or "").strip()
    return round(Decimal(text), 12) if text not in ("", "NULL", "null") else Decimal(0)


def plain_sum(content: bytes, column: str) -> Decimal:
    rows = csv.DictReader(content.decode("utf-8-sig").splitlines(keepends=True))
    return sum((amount(row[next(name for name in row if name.replace(" ", "") == column)]) for row in rows), Decimal(0))


@pytest.mark.parametrize("name", FILES)
def test_a_file_alone_adds_up_to_its_own_column(audit: Audit, name: str) -> None:
    content = (SAMPLES / name).read_bytes()
    audit.take({Path(name).name: content})
    assert audit.statuses == ["ok"]
    assert audit.total() == plain_sum(gzip.decompress(content) if name.endswith(".gz") else content, FILES[name])
    assert audit.differences() == {0}


def test_a_flattened_gcp_file_adds_up_in_each_of_its_currencies(audit: Audit) -> None:
    content = (SAMPLES / "gcp/google-finops-agent/sample_billing_data.csv").read_text()
    expected: dict[str, Decimal] = {}
    for row in csv.DictReader(content.splitlines(keepends=True)):
        credits = json.loads(row["credits"]) if row["credits"].startswith("[{") else []
        total = amount(row["cost"]) + sum((amount(str(each["amount"])) for each in credits), Decimal(0))
        expected[row["currency"]] = expected.get(row["currency"], Decimal(0)) + total
    audit.take({"sample.csv": content})
    assert dict(audit.rows("BillingCurrency, sum(BilledCost)", "true group by all")) == expected


@pytest.mark.slow
def test_all_files_together_reconcile(audit: Audit) -> None:
    files = {
        path.relative_to(SAMPLES).as_posix(): path.read_bytes()
        for path in SAMPLES.rglob("*")
        if path.suffix in (".csv", ".gz", ".json", ".zip")
    }
    audit.take(files)
    assert "failed" not in audit.statuses
    assert audit.differences() == {0}
