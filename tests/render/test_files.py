"""The data files: same findings everywhere, safe in a spreadsheet, valid for those who read them by machine."""

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import duckdb
import jsonschema
import pytest

from auditor.assets import room
from auditor.errors import SettingsError
from auditor.render import FORMATS, LEDGER_FILE, Extras, render
from tests.render import invented


def rows(folder: Path) -> list[dict[str, str]]:
    text = (folder / "findings.csv").read_bytes().decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_every_format_writes_its_file_and_leaves_no_other(reports: Path) -> None:
    assert {path.name for path in reports.iterdir()} == {*FORMATS.values(), LEDGER_FILE}


def test_the_json_is_the_document_and_fits_its_schema(reports: Path) -> None:
    written = json.loads((reports / "findings.json").read_text("utf-8"))
    assert written == invented.document()
    schema = json.loads((room("reports") / "findings.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(written, schema)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("monthly_cost", 12.5),
        ("monthly_cost", "1e3"),
        ("severity", "severe"),
        ("surprise", "field"),
        ("window", {"start": "now"}),
    ],
)
def test_the_schema_refuses_what_the_contract_does_not_know(field: str, value: object) -> None:
    document = invented.document()
    document["findings"][0][field] = value
    schema = json.loads((room("reports") / "findings.schema.json").read_text("utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_decimals_become_text_and_missing_figures_null(tmp_path: Path) -> None:
    document = invented.document()
    document["totals"]["billed_cost"] = Decimal("1E+3")
    document["findings"][0]["evidence"] = {"ratio": float("nan"), "pair": (1, Decimal("0.10"))}
    document["findings"][1]["resource_name"] = "half a pair \ud800 and a nul \x00"
    render(document, Extras(), list(FORMATS), tmp_path)
    written = json.loads((tmp_path / "findings.json").read_text("utf-8"))
    assert written["totals"]["billed_cost"] == "1000"
    assert written["findings"][0]["evidence"] == {"ratio": None, "pair": [1, "0.10"]}
    assert written["findings"][1]["resource_name"] == "half a pair \ud800 and a nul \x00"


def test_the_csv_has_the_scalar_fields_under_their_names(reports: Path) -> None:
    document = invented.document()
    table = rows(reports)
    assert len(table) == len(document["findings"])
    scalar = {name for name, value in document["findings"][0].items() if not isinstance(value, dict | list)}
    assert set(table[0]) == scalar | {"tags", "evidence"}
    assert table[0]["monthly_cost"] == "32444.444444444444"
    assert json.loads(table[0]["evidence"]) == document["findings"][0]["evidence"]
    assert table[2]["resource_id"] == ""


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@sum(a1)", "\tx", "\rx"])
def test_no_spreadsheet_takes_a_name_for_a_formula(tmp_path: Path, start: str) -> None:
    document = invented.document()
    document["findings"][0] |= {"resource_name": start, "monthly_savings_net": "-1.5"}
    render(document, Extras(), ["csv"], tmp_path)
    first = rows(tmp_path)[0]
    assert first["resource_name"] == "'" + start
    assert first["monthly_savings_net"] == "-1.5"  # a figure is no text


def test_parquet_holds_money_as_decimals_and_sums_like_the_json(reports: Path) -> None:
    with duckdb.connect() as con:
        kind, total, count, start = con.execute(
            "select any_value(typeof(monthly_savings_net)), sum(monthly_savings_net), count(*), min(window_start)::varchar from read_parquet($path)",
            {"path": str(reports / "findings.parquet")},
        ).fetchone() or (None, None, None, None)
    expected = sum(Decimal(finding["monthly_savings_net"]) for finding in invented.findings())
    assert (kind, total, count) == ("DECIMAL(30,12)", expected, len(invented.findings()))
    assert str(start).startswith("2026-0")


def test_sarif_results_point_at_their_rule_and_carry_the_findings_id(reports: Path) -> None:
    log = json.loads((reports / "findings.sarif").read_text("utf-8"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({rule["id"] for rule in rules})
    assert len(run["results"]) == len(invented.findings())
    for result, finding in zip(run["results"], invented.findings(), strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding["rule_id"]
        assert result["partialFingerprints"]["auditorFindingId/v1"] == finding["id"]
        assert result["level"] in ("error", "warning", "note")
        assert result["baselineState"] in ("new", "unchanged", "absent")
        assert ("suppressions" in result) == (finding["status"] in ("muted", "acknowledged"))
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert len(invocation["toolExecutionNotifications"]) == 2


def test_markdown_shows_foreign_text_literally(reports: Path) -> None:
    text = (reports / "report.md").read_text("utf-8")
    assert "<script" not in text.replace("\\<", "")
    assert "javascript:" not in text
    assert "pay⟨U\\+202E⟩roll" in text
    assert "\u202e" not in text
    assert "USD\xa061,302\\.90" in text
    assert "aws ec2 stop-instances --region us-east-1 --instance-ids i-0aaa1111bbbb2222c" in text


def test_a_command_cannot_close_its_own_fence(tmp_path: Path) -> None:
    document = invented.document()
    document["findings"][0]["remediation"]["commands"] = ["echo\n```\n# not a heading"]
    render(document, Extras(), ["md"], tmp_path)
    assert "````\necho\n```\n# not a heading\n````" in (tmp_path / "report.md").read_text("utf-8")


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"'docx'.*html, json"):
        render(invented.document(), Extras(), ["json", "docx"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failed_rendering_leaves_the_earlier_report(tmp_path: Path) -> None:
    render(invented.document(), Extras(), ["json", "csv"], tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    broken = invented.document()
    broken["findings"][0]["evidence"] = {"what": object()}
    with pytest.raises(TypeError):
        render(broken, Extras(), ["json"], tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_written_is_a_usable_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingsError, match="--output"):
        render(invented.document(), Extras(), ["json"], tmp_path / "file" / "out")


def test_the_ledger_is_a_table_of_its_own(reports: Path) -> None:
    rows = duckdb.execute(
        "select class, sum(accelerator_hours), sum(effective_cost) from read_parquet(?) group by all order by 3 desc",
        [str(reports / LEDGER_FILE)],
    ).fetchall()
    assert rows[0] == ("productive", Decimal("17516.5"), Decimal("99076.25"))
    assert sum(row[2] for row in rows) == Decimal("182000")
