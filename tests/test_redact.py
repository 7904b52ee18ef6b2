"""What is sent names nobody, and is audited as if it did."""

import csv
import gzip
import io
import json
import re
import zipfile
import zlib
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from auditor import journal
from auditor.cli.app import app
from auditor.cli.request import make_request
from auditor.collect.folder import LandingFolder
from auditor.errors import SettingsError
from auditor.journal import Problem
from auditor.progress import Silent
from auditor.pseudonyms import Pseudonyms
from auditor.redact import Redacted, _value, key_of, redact
from auditor.scan import scan

KEY = b"0123456789abcdef0123456789abcdef"
REPOSITORY = Path(__file__).resolve().parents[1]
NAMES = Pseudonyms(KEY)


def hide(text: str) -> str:
    return NAMES.hide(text)


def redacted(source: Path, target: Path) -> Redacted:
    return redact([str(source)], target, KEY, Silent())


def every_byte(folder: Path) -> str:
    """All that stands in the folder, unpacked, names of files included."""
    texts = []
    for file in sorted(folder.rglob("*")):
        texts.append(file.relative_to(folder).as_posix())
        if file.is_dir():
            continue
        if file.suffix == ".parquet":
            rows = duckdb.sql(f"from read_parquet('{file}', hive_partitioning = false)").fetchall()
            texts.append("\n".join(map(str, rows)))
            continue
        data = file.read_bytes()
        # what breaks off in the original breaks off here too: read up to there
        texts.append((zlib.decompressobj(31).decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8"))
    return "\n".join(texts)


def audit(source: Path, as_of: date) -> dict[str, Any]:
    request = make_request(paths=(str(source),), as_of=as_of)
    return scan(request, Silent(), datetime(2026, 11, 3, 6, tzinfo=UTC)).document


def findings(document: dict[str, Any]) -> Counter[tuple[str, ...]]:
    parts = ("rule_id", "severity", "confidence", "monthly_savings", "monthly_savings_range", "monthly_cost", "region")
    return Counter(tuple(str(each[part]) for part in parts) for each in document["findings"])


def totals(document: dict[str, Any]) -> Counter[tuple[str, ...]]:
    parts = ("provider", "billing_period", "currency", "lake_billed_cost", "difference")
    return Counter(tuple(str(each[part]) for part in parts) for each in document["reconciliation"])


def test_ids_keep_their_form_and_their_place() -> None:
    account = hide("111122223333")
    assert re.fullmatch(r"\d{12}", account)
    assert account != "111122223333"
    gateway = hide("arn:aws:ec2:us-east-1:111122223333:natgateway/nat-0123456789abcdef0")
    assert re.fullmatch(rf"arn:aws:ec2:us-east-1:{account}:natgateway/nat-[0-9a-f]{{17}}", gateway)
    assert gateway.endswith(hide("nat-0123456789abcdef0"))
    guid = "8a4f11aa-0000-1111-2222-333344445555"
    machine = hide(f"/subscriptions/{guid}/resourceGroups/rg-ml/providers/Microsoft.Compute/virtualMachines/lena-01")
    assert machine == (
        f"/subscriptions/{hide(guid)}/resourceGroups/{hide('rg-ml')}/providers/Microsoft.Compute/virtualMachines/{hide('lena-01')}"
    )
    node = hide("//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/1234567890123456789")
    assert node == (
        f"//compute.googleapis.com/projects/{hide('acme-ml')}/zones/us-central1-a/instances/{hide('1234567890123456789')}"
    )
    assert hide("arn:aws:s3:::acme-corpus/raw").startswith(f"arn:aws:s3:::{hide('acme-corpus')}/")


def test_joins_across_spellings_survive() -> None:
    assert hide("/SUBSCRIPTIONS/ACME-1/RESOURCEGROUPS/LENA").lower() == hide(
        "/subscriptions/acme-1/resourcegroups/lena"
    )
    assert hide("lena-7.us-central1-a.c.acme-ml.internal") == (
        f"{hide('lena-7')}.us-central1-a.c.{hide('acme-ml')}.internal"
    )
    assert hide("s3://acme-corpus/x").startswith(f"s3://{hide('acme-corpus')}/")


def test_no_two_ids_share_a_pseudonym() -> None:
    numbers = [f"{each:07d}" for each in range(3000)]
    assert len({hide(each) for each in numbers}) == len(numbers)
    ids = [f"vol-{each:08x}" for each in range(3000)]
    assert len({hide(each) for each in ids}) == len(ids)
    words = [f"{a}{b}" for a in "abcdefg" for b in range(100)]
    assert len({hide(each) for each in words}) == len(words)


@pytest.mark.parametrize(
    "text",
    [
        "training",
        "false",
        "2026-10-01T00:00:00Z",
        "0.25",
        "us-east-1",
        "10.1.0.10",
        "0.0.0.0/0",
        "n/a",
        "europe-west4-a",
    ],
)
def test_what_rules_know_stays(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize(
    "text", ["train-llm-01", "jupyter-lena", "gpu-001", "checkpoints-7", "lena@acme.com", "54.12.33.1"]
)
def test_names_go_though_rules_know_a_word_of_them(text: str) -> None:
    assert hide(text) != text
    assert "lena" not in hide(text)
    assert "acme" not in hide(text)


def test_another_key_gives_other_names() -> None:
    assert Pseudonyms(b"another key of some length......").hide("lena") != hide("lena")
    assert Pseudonyms(KEY).hide("lena") == hide("lena")


def test_amounts_stay_to_the_last_digit(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    con = duckdb.connect()
    con.execute(
        f"""copy (select '111122223333' as line_item_usage_account_id, 'lena-01' as line_item_resource_id,
            'Usage' as line_item_line_item_type, timestamp '2026-09-01' as line_item_usage_start_date,
            timestamp '2026-09-01 01:00' as line_item_usage_end_date, 'USE1-BoxUsage:p4d.24xlarge' as line_item_usage_type,
            'AmazonEC2' as line_item_product_code, 12.123456789012345678::decimal(38, 18) as line_item_unblended_cost,
            map {{'user_team': 'robots', 'user_work': 'training'}} as resource_tags,
            map {{'instance_type': 'p4d.24xlarge'}} as product,
            timestamp '2026-09-01' as bill_billing_period_start_date)
        to '{given}/cur.parquet' (format parquet)"""
    )
    done = redacted(given, tmp_path / "sent")
    assert (done.files, list(done.left_out)) == (1, [])
    [file] = (tmp_path / "sent").rglob("*.parquet")
    row = con.execute(f"select * from '{file}'").fetchone()
    names = [each[0] for each in con.description or ()]
    assert row is not None
    got = dict(zip(names, row, strict=True))
    assert got["line_item_unblended_cost"] == Decimal("12.123456789012345678")
    assert got["line_item_usage_account_id"] == hide("111122223333")
    assert got["resource_tags"] == {"user_team": hide("robots"), "user_work": "training"}
    assert got["product"] == {"instance_type": "p4d.24xlarge"}
    assert got["line_item_usage_type"] == "USE1-BoxUsage:p4d.24xlarge"


def test_json_keeps_its_figures_and_loses_its_names(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    text = (
        '{"Reservations": [{"OwnerId": "111122223333", "Instances": [{"InstanceId": "i-0123456789abcdef0", '
        '"InstanceType": "p5.48xlarge", "State": {"Code": 16, "Name": "running"}, "LaunchTime": "2026-09-01T00:00:00Z", '
        '"Weird": 1.10000000000000000001, "Placement": {"AvailabilityZone": "us-east-1a"}, '
        '"Tags": [{"Key": "Name", "Value": "l\\u00e9na \\"the\\" box"}, {"Key": "team", "Value": "robots"}]}]}]}'
    )
    (given / "describe-instances.json").write_text(text, "utf-8")
    redacted(given, tmp_path / "sent")
    [file] = (each for each in (tmp_path / "sent").rglob("*") if each.is_file())
    sent = file.read_text("utf-8")
    assert "1.10000000000000000001" in sent
    instance = json.loads(sent)["Reservations"][0]["Instances"][0]
    assert (instance["InstanceType"], instance["State"]["Name"]) == ("p5.48xlarge", "running")
    assert instance["InstanceId"] == hide("i-0123456789abcdef0")
    assert [each["Key"] for each in instance["Tags"]] == ["Name", "team"]
    assert not re.search("robots|léna|l.u00e9na|111122223333", sent)


def test_texts_across_chunks_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given"
    given.mkdir()
    series = [
        {
            "metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": str(each), "Hostname": f"lena-{each}"},
            "values": [[1788220800, "0.5"]],
        }
        for each in range(50)
    ]
    document = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    (given / "answer.json").write_text(json.dumps(document), "utf-8")
    redacted(given, tmp_path / "whole")
    monkeypatch.setattr("auditor.redact._CHUNK", 7)
    redacted(given, tmp_path / "chunks")
    assert every_byte(tmp_path / "chunks") == every_byte(tmp_path / "whole")
    assert "lena" not in every_byte(tmp_path / "whole")
    assert every_byte(tmp_path / "whole").count('[1788220800, "0.5"]') == 50


def test_archives_are_opened_and_what_is_not_understood_stays_here(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    rows = io.StringIO()
    table = csv.writer(rows)
    table.writerow(["time", "provider", "resource_id", "device", "metric", "value"])
    table.writerow(["2026-09-01T00:00:00Z", "aws", "i-0123456789abcdef0", "0", "gpu.utilization", "0.5"])
    with zipfile.ZipFile(given / "acme.zip", "w") as archive:
        archive.writestr("lena/metrics.csv", rows.getvalue())
    (given / "staff.csv").write_text("name,salary\nlena,1\n", "utf-8")
    done = redacted(given, tmp_path / "sent")
    assert done.files == 1
    assert [name for name, _ in done.left_out] == ["staff.csv"]
    assert not re.search("lena|acme|0123456789abcdef0", every_byte(tmp_path / "sent"))


def test_a_journal_tells_what_is_missing_without_names(tmp_path: Path) -> None:
    now = datetime(2026, 10, 1, tzinfo=UTC)
    with LandingFolder(tmp_path / "acme", "acme", "aws", now) as folder:
        folder.write_json(
            "inventory/111122223333/x.json",
            {"Volumes": [{"VolumeId": "vol-0123456789abcdef0"}]},
            kind="inventory",
            now=now,
            account_id="111122223333",
        )
        folder.problem(
            Problem(
                "inventory",
                "ec2:DescribeVolumes",
                "denied to arn:aws:iam::111122223333:role/lena",
                "volumes",
                "grant it",
                "111122223333",
            )
        )
        folder.finish([], now)
    redacted(tmp_path / "acme", tmp_path / "sent")
    [place] = (tmp_path / "sent").rglob(journal.JOURNAL)
    found = journal.read(place)
    assert found is not None
    assert [(each.what, each.account_id) for each in found.problems] == [("ec2:DescribeVolumes", hide("111122223333"))]
    assert [(place.parent / name).is_file() for name in found.entries] == [True]
    assert not re.search("lena|acme|111122223333", every_byte(tmp_path / "sent"))


def test_what_merely_ends_like_a_figure_is_hidden() -> None:
    manifest = {"account": "111122223333", "BusinessUnit": "grasping", "contentType": "Parquet", "discount": "12.5"}
    for key, value in manifest.items():
        is_hidden = _value(NAMES, "", key, "manifest", value) != value
        assert is_hidden == (key in ("account", "BusinessUnit")), key
    for cell in ('{"team":"grasping"}', "grasping"):
        assert "grasping" not in _value(NAMES, "", "cost_category", "billing", cell)


@pytest.mark.parametrize(
    ("parent", "kind", "keys"),
    [
        (
            "metric",
            "telemetry",
            ["namespace", "service", "job_type", "product", "team_code", "pod", "backend", "purpose"],
        ),
        ("dimensions", "telemetry", ["Namespace", "Service", "JobType"]),
        ("labels", "telemetry", ["namespace", "queue_class", "project_id", "operation"]),
        (
            "",
            "billing",
            ["backend", "support", "cost_allocation", "x_Candidate", "postalCode", "Namespace", "costEstate"],
        ),
        ("", "inventory", ["namespace", "report", "frontEnd", "corporate", "zipcode"]),
    ],
)
def test_words_of_the_client_are_hidden_whatever_their_key_resembles(parent: str, kind: str, keys: list[str]) -> None:
    shown = [key for key in keys if "grasping" in _value(NAMES, parent, key, kind, "grasping")]
    assert shown == []


@pytest.mark.parametrize(
    ("parent", "key", "kind"),
    [
        ("metric", "__name__", "telemetry"),
        ("metric", "modelName", "telemetry"),
        ("labels", "zone", "telemetry"),
        ("dimensions", "StorageType", "telemetry"),
        ("Dimensions", "Name", "telemetry"),
        ("", "PricingCurrencyListUnitPrice", "billing"),
        ("", "resourcelocation", "billing"),
        ("", "line_item_availability_zone", "billing"),
        ("instances", "InstanceType", "inventory"),
    ],
)
def test_words_of_the_vendor_stay_whatever_their_spelling(parent: str, key: str, kind: str) -> None:
    assert _value(NAMES, parent, key, kind, "grasping") == "grasping"


def test_the_key_stays_outside(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="keep the key elsewhere"):
        key_of(tmp_path / "sent" / "key", tmp_path / "sent")
    assert key_of(tmp_path / "key", tmp_path / "sent") == key_of(tmp_path / "key", tmp_path / "sent")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    assert key_of(None, tmp_path) != key_of(None, tmp_path)


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lena.txt").write_text("x")
    with pytest.raises(SettingsError, match="not empty"):
        redacted(tmp_path, tmp_path)


def test_the_command_redacts_files_of_a_client(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "m.csv").write_text("time,resource_id,metric,value\n2026-09-01T00:00:00Z,lena-1,gpu.utilization,0.5\n")
    asked = ["collect", str(given), "-o", str(tmp_path / "sent"), "--redact", "--key", str(tmp_path / "key")]
    told = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert told.exit_code == 0
    assert "1 files" in told.output
    assert "lena" not in every_byte(tmp_path / "sent")
    with pytest.raises(SettingsError, match="--redact"):
        CliRunner().invoke(app, [*asked[:4]], catch_exceptions=False)


def private_texts(document: dict[str, Any]) -> set[str]:
    """Accounts, ids, names, owners and values of tags, as the report of the original tells them."""
    told: set[str] = set()
    for finding in document["findings"]:
        told |= {str(finding[part]) for part in ("account_id", "resource_id", "resource_name", "owner")}
        told |= {str(value) for value in (finding["tags"] or {}).values()}
    told |= {str(row["billing_account_id"]) for row in document["reconciliation"]}
    return {text for text in told if len(text) > 3 and text != "None" and hide(text) != text}


@pytest.mark.slow
def test_the_example_is_audited_alike(tmp_path: Path) -> None:
    check_estate(REPOSITORY / "examples" / "estate", date(2026, 10, 1), tmp_path / "sent", skipped=1)


@pytest.mark.slow
@pytest.mark.shared
def test_a_whole_estate_is_audited_alike(tmp_path: Path) -> None:
    estate = REPOSITORY.parent / "shared" / "estates" / "dev" / "data"
    if not estate.is_dir():
        pytest.skip("the shared files are not here")
    check_estate(estate, date(2026, 11, 1), tmp_path / "sent", skipped=4)


def check_estate(source: Path, as_of: date, sent: Path, skipped: int) -> None:
    done = redacted(source, sent)
    assert len(done.left_out) == skipped, done.left_out
    before, after = audit(source, as_of), audit(sent, as_of)
    assert totals(after) == totals(before)
    assert findings(after) == findings(before)
    everything = every_byte(sent)
    told = private_texts(before)
    assert len(told) > 50
    assert [text for text in told if text in everything and stands_alone(text, everything)] == []


def stands_alone(text: str, everything: str) -> bool:
    return re.search(rf"(?<![0-9A-Za-z]){re.escape(text)}(?![0-9A-Za-z])", everything) is not None


def test_what_stands_before_the_damage_is_sent_and_the_damage_told(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    lines = [f"2026-09-01T{each % 24:02d}:00:00Z,lena-{each},gpu.utilization,0.{each}" for each in range(20_000)]
    whole = gzip.compress("\n".join(["time,resource_id,metric,value", *lines]).encode())
    (given / "m.csv.gz").write_bytes(whole[: len(whole) // 2])
    done = redacted(given, tmp_path / "sent")
    assert [name for name, _ in done.left_out] == ["m.csv.gz"]
    assert "what stands before" in done.left_out[0][1]
    [file] = (each for each in (tmp_path / "sent").rglob("*") if each.is_file())
    with gzip.open(file, "rt") as stream, pytest.raises(EOFError):
        for line in stream:
            assert "lena" not in line
