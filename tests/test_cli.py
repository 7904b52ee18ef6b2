"""The command line as a user meets it: in processes of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ESTATE = Path(__file__).resolve().parents[1] / "examples" / "estate"
HEAVY = ("duckdb", "sqlmodel", "sqlalchemy", "alembic", "pydantic", "jinja2", "boto3", "google", "azure")


def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "auditor", *words], capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )


def one_bill(folder: Path) -> Path:
    """A CUR of three lines, two of them of one machine."""
    folder.mkdir(parents=True, exist_ok=True)
    header = "bill/PayerAccountId,bill/BillingPeriodStartDate,lineItem/UsageAccountId,lineItem/LineItemType,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/ProductCode,lineItem/UsageType,lineItem/Operation,lineItem/ResourceId,lineItem/UsageAmount,lineItem/UnblendedCost,lineItem/CurrencyCode"
    lines = [
        f"111122223333,2026-03-01T00:00:00Z,111122223333,Usage,2026-03-0{day}T00:00:00Z,2026-03-0{day + 1}T00:00:00Z,AmazonEC2,BoxUsage:m5.large,RunInstances,i-0abc,24,{cost},USD"
        for day, cost in ((1, "2.304"), (2, "2.304"), (3, "0.000000000001"))
    ]
    path = folder / "cur.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_help_answers_without_loading_an_engine_an_orm_or_an_sdk() -> None:
    program = (
        "import sys, time\n"
        "from auditor.cli import main\n"
        "sys.argv = ['auditor', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"loaded = sorted(name for name in {HEAVY!r} if name in sys.modules)\n"
        "print('LOADED', loaded)\n"
        "print('CPU', time.process_time())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "scan" in done.stdout
    assert "LOADED []" in done.stdout
    cpu = float(done.stdout.rpartition("CPU ")[2])
    assert cpu < 0.6  # 0.3 s on a quiet machine; a shared one counts more


def test_a_bill_is_audited_and_balances_to_the_last_decimal(tmp_path: Path) -> None:
    done = run("scan", str(one_bill(tmp_path / "in")), "-o", str(tmp_path / "out"), "-f", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert document["reconciliation"] == [
        {
            "provider": "aws",
            "billing_account_id": "111122223333",
            "billing_period": "2026-03",
            "source_billed_cost": "4.608000000001",
            "lake_billed_cost": "4.608000000001",
            "difference": "0",
            "currency": "USD",
        }
    ]
    assert done.stderr == ""  # quiet in a pipe


def test_an_audit_without_a_data_directory_leaves_nothing_behind(tmp_path: Path) -> None:
    bill = one_bill(tmp_path / "in")
    run("scan", str(bill), "-o", str(tmp_path / "out"), "-f", "json", cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["cur.csv"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("scan", "no-such-folder"), "no such file or folder"),
        (("scan",), "nothing to audit"),
        (("scan", ".", "--as-of", "yesterday"), "not a date"),
        (("scan", ".", "--as-of", "0001-01-01"), "between 2000 and 2100"),
        (("scan", ""), "an empty path"),
        (("scan", ".", "--rules", "gpu.nothing*"), "no rule has such an id"),
        (("scan", ".", "--set", "idle_days=3"), "RULE.PARAM=VALUE"),
        (("scan", ".", "--fail-on", "urgent"), "choose one of"),
        (("scan", ".", "-f", "pdf"), "formats are"),
        (("scan", ".", "-c", "missing.toml"), "cannot be read"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_would_work(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_option_exits_2() -> None:
    assert run("scan", ".", "--nonsense").returncode == 2


def test_a_folder_without_any_bill_exits_4(tmp_path: Path) -> None:
    (tmp_path / "rota.csv").write_text("week,who\n1,nobody\n")
    done = run("scan", str(tmp_path), "-o", str(tmp_path / "out"), "-f", "json")
    assert done.returncode == 4
    assert json.loads((tmp_path / "out" / "findings.json").read_text())["sources"][0]["status"] == "skipped"


def test_a_damaged_file_makes_the_audit_partial_and_exits_3(tmp_path: Path) -> None:
    one_bill(tmp_path / "in")
    (tmp_path / "in" / "other.parquet").write_bytes(b"PAR1 and then nothing of the kind")
    done = run("scan", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "-f", "json")
    assert done.returncode == 3
    document = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert document["run"]["status"] == "partial"
    failed = [source for source in document["sources"] if source["status"] == "failed"]
    assert [source["paths"] for source in failed] == [["other.parquet"]]
    assert "Parquet" in failed[0]["message"]


def test_fail_on_exits_1_only_when_a_finding_is_as_bad(tmp_path: Path) -> None:
    words = ("scan", str(ESTATE), "--as-of", "2026-10-01", "-f", "json", "--rules", "network.nat_idle")
    assert run(*words, "-o", str(tmp_path / "a"), "--fail-on", "low").returncode == 1
    assert run(*words, "-o", str(tmp_path / "b"), "--fail-on", "critical").returncode == 0


def test_the_same_bill_twice_changes_nothing(tmp_path: Path) -> None:
    bill = one_bill(tmp_path / "in")
    words = ("scan", str(bill), "--data-dir", str(tmp_path / "data"), "-f", "json")
    run(*words, "-o", str(tmp_path / "first"))
    files = sorted(path.name for path in (tmp_path / "data" / "lake").rglob("*.parquet"))
    run(*words, "-o", str(tmp_path / "second"))
    assert sorted(path.name for path in (tmp_path / "data" / "lake").rglob("*.parquet")) == files
    first, second = (json.loads((tmp_path / name / "findings.json").read_text()) for name in ("first", "second"))
    for part in ("reconciliation", "totals", "sources", "gpu_ledger"):
        assert first[part] == second[part]


def test_a_month_delivered_again_replaces_the_earlier_delivery(tmp_path: Path) -> None:
    bill = one_bill(tmp_path / "in")
    words = ("scan", str(tmp_path / "in"), "--data-dir", str(tmp_path / "data"), "-f", "json")
    run(*words, "-o", str(tmp_path / "first"))
    line = bill.read_text().splitlines()[1].replace("2026-03-01T", "2026-03-04T").replace("2026-03-02T", "2026-03-05T")
    bill.write_text(bill.read_text() + line + "\n")
    run(*words, "-o", str(tmp_path / "second"))
    document = json.loads((tmp_path / "second" / "findings.json").read_text())
    assert [row["lake_billed_cost"] for row in document["reconciliation"]] == ["6.912000000001"]
    assert [row["difference"] for row in document["reconciliation"]] == ["0"]


def two_months(folder: Path, cost: str) -> Path:
    """A FOCUS export of two billing periods, a charge in each."""
    folder.mkdir(parents=True, exist_ok=True)
    header = "ProviderName,BillingAccountId,BillingCurrency,BillingPeriodStart,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,EffectiveCost"
    rows = [f"Acme,11,USD,2026-0{month}-01,2026-0{month}-01,2026-0{month}-02,Usage,{cost},{cost}" for month in (3, 4)]
    path = folder / "focus.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_a_delivery_that_cannot_be_written_whole_leaves_nothing_and_comes_whole_the_next_time(tmp_path: Path) -> None:
    two_months(tmp_path / "in", "10")
    words = (
        "scan",
        str(tmp_path / "in"),
        "--data-dir",
        str(tmp_path / "data"),
        "-f",
        "json",
        "-o",
        str(tmp_path / "out"),
    )
    blocked = tmp_path / "data" / "lake" / "charge_days" / "provider=acme" / "billing_period=2026-04"
    blocked.parent.mkdir(parents=True)
    blocked.touch()  # a file where the second month's folder must be
    assert run(*words).returncode == 4
    blocked.unlink()
    assert run(*words).returncode == 0
    document = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert {row["billing_period"]: row["lake_billed_cost"] for row in document["reconciliation"]} == {
        "2026-03": "10",
        "2026-04": "10",
    }


def test_a_charge_of_the_far_future_does_not_move_the_window(tmp_path: Path) -> None:
    path = two_months(tmp_path / "in", "10")
    path.write_text(path.read_text() + "Acme,11,USD,2026-04-01,2090-04-01,2090-04-02,Usage,1,1\n")
    run("scan", str(tmp_path / "in"), "-f", "json", "-o", str(tmp_path / "out"))
    document = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert document["run"]["as_of"] < "2027"


def test_a_rule_can_be_switched_off_in_the_configuration(tmp_path: Path) -> None:
    one_bill(tmp_path / "in")
    (tmp_path / "a.toml").write_text('[rules."gpu.idle_instance"]\nenabled = false\n')
    words = ("scan", str(tmp_path / "in"), "-c", str(tmp_path / "a.toml"), "-f", "json", "-o", str(tmp_path / "out"))
    assert run(*words).returncode == 0
    rules = json.loads((tmp_path / "out" / "findings.json").read_text())["coverage"]["rules"]
    assert "gpu.idle_instance" not in {rule["rule_id"] for rule in rules}


def test_a_closed_pipe_does_not_look_like_a_finding(tmp_path: Path) -> None:
    bill = one_bill(tmp_path / "in")
    command = f"{sys.executable} -m auditor scan {bill} -o {tmp_path / 'out'} -f json; echo $? >&2"
    done = subprocess.run(["sh", "-c", f"({command}) | true"], capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr.strip().splitlines()[-1] == "0"
