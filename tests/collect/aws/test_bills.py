"""Bills in S3: what the newest manifest names, whole or not at all, and each byte once."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from auditor import journal
from auditor.collect.aws import objects
from auditor.collect.aws.calls import CALLS
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.settings import Limits
from tests.collect.aws.conftest import NOW
from tests.collect.aws.server import BASE, Aws, Fault, Request

BUCKET = "acme-billing"
LEGACY = "cur/acme/20260901-20261001"
EXPORT = "exports/acme-cur2"
Collect = Callable[..., LandingFolder]


def put(s3: Any, key: str, body: bytes | dict[str, Any]) -> None:
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    s3.put_object(Bucket=BUCKET, Key=key, Body=body)


def put_legacy(s3: Any, assembly: str, files: dict[str, bytes], period: str = LEGACY) -> None:
    keys = [f"{period}/{assembly}/{name}" for name in files]
    for key, body in zip(keys, files.values(), strict=True):
        put(s3, key, body)
    manifest = {"assemblyId": assembly, "reportName": "acme", "reportKeys": keys, "bucket": BUCKET}
    put(s3, f"{period}/{assembly}/acme-Manifest.json", manifest)
    put(s3, f"{period}/acme-Manifest.json", manifest)


def put_export(s3: Any, files: dict[str, bytes], run: str, period: str = "2026-09") -> None:
    keys = [f"{EXPORT}/data/BILLING_PERIOD={period}/{name}" for name in files]
    for key, body in zip(keys, files.values(), strict=True):
        put(s3, key, body)
    manifest = {
        "executionId": run,
        "exportArn": f"arn:aws:bcm-data-exports:us-east-1:{BASE}:export/acme-cur2",
        "dataFiles": [f"s3://{BUCKET}/{key}" for key in keys],
    }
    put(s3, f"{EXPORT}/metadata/BILLING_PERIOD={period}/acme-cur2-Manifest.json", manifest)


@pytest.fixture(autouse=True)
def bucket(s3: Any) -> None:
    s3.create_bucket(Bucket=BUCKET)


def landed(folder: LandingFolder) -> dict[str, bytes]:
    """What lies in the folder, by the object's key."""
    top = f"billing/{BUCKET}/"
    found = {
        path.relative_to(folder.path).as_posix(): path.read_bytes()
        for path in sorted(folder.path.rglob("*"))
        if path.is_file() and path.name != journal.JOURNAL
    }
    assert found.keys() == folder.entries.keys()
    return {name.removeprefix(top): body for name, body in found.items()}


def data(folder: LandingFolder) -> dict[str, bytes]:
    return {key: body for key, body in landed(folder).items() if not key.endswith("-Manifest.json")}


def test_of_several_assemblies_only_the_newest_is_fetched(s3: Any, aws: Aws, collect: Collect) -> None:
    put_legacy(s3, "aaaaaaaa-0000-4000-8000-000000000001", {"acme-1.csv.gz": b"old"})
    put_legacy(s3, "bbbbbbbb-0000-4000-8000-000000000002", {"acme-1.csv.gz": b"new one", "acme-2.csv.gz": b"new two"})
    folder = collect(exports=[f"s3://{BUCKET}/cur"])
    assert list(data(folder).values()) == [b"new one", b"new two"]
    assert folder.problems == []
    assert aws.count("GetObject") == 3  # manifest and two files


def test_a_second_collection_fetches_nothing_anew(s3: Any, aws: Aws, collect: Collect) -> None:
    put_legacy(s3, "aaaaaaaa-0000-4000-8000-000000000001", {"acme-1.csv.gz": b"one"})
    put_export(s3, {"part-1.parquet": b"two"}, "run-1")
    first = landed(collect(exports=[f"s3://{BUCKET}/"]))
    aws.calls.clear()
    assert landed(collect(exports=[f"s3://{BUCKET}/"])) == first
    assert aws.count("GetObject") == 0
    assert aws.count("ListObjectsV2") == 1


def test_a_newer_assembly_takes_the_place_of_the_older(s3: Any, collect: Collect) -> None:
    put_legacy(s3, "aaaaaaaa-0000-4000-8000-000000000001", {"acme-1.csv.gz": b"old", "acme-2.csv.gz": b"old too"})
    collect(exports=[f"s3://{BUCKET}/cur"])
    put_legacy(s3, "bbbbbbbb-0000-4000-8000-000000000002", {"acme-1.csv.gz": b"new"})
    folder = collect(exports=[f"s3://{BUCKET}/cur"])
    assert data(folder) == {f"{LEGACY}/bbbbbbbb-0000-4000-8000-000000000002/acme-1.csv.gz": b"new"}


def test_an_assembly_that_is_not_complete_leaves_the_older_in_place(s3: Any, collect: Collect) -> None:
    put_legacy(s3, "aaaaaaaa-0000-4000-8000-000000000001", {"acme-1.csv.gz": b"old"})
    before = data(collect(exports=[f"s3://{BUCKET}/cur"]))
    put_legacy(s3, "bbbbbbbb-0000-4000-8000-000000000002", {"acme-1.csv.gz": b"new", "acme-2.csv.gz": b"late"})
    s3.delete_object(Bucket=BUCKET, Key=f"{LEGACY}/bbbbbbbb-0000-4000-8000-000000000002/acme-2.csv.gz")
    folder = collect(exports=[f"s3://{BUCKET}/cur"])
    assert data(folder) == before
    [problem] = folder.problems
    assert "1 of them are not there" in problem.reason
    assert "2026-09" in problem.hides


def test_files_replaced_in_place_change_all_at_once(s3: Any, aws: Aws, collect: Collect, tmp_path: Path) -> None:
    put_export(s3, {"part-1.parquet": b"old 1", "part-2.parquet": b"old 2"}, "run-1")
    old = landed(collect(exports=[f"s3://{BUCKET}/exports"]))
    put_export(s3, {"part-1.parquet": b"new 1", "part-2.parquet": b"new 2"}, "run-2")
    aws.faults.append(
        lambda request: (
            Fault(500, "InternalError") if request.parameters.get("Key", "").endswith("part-2.parquet") else None
        )
    )
    torn = collect(exports=[f"s3://{BUCKET}/exports"])
    assert landed(torn) == old
    assert torn.problems
    aws.faults.clear()
    aws.calls.clear()
    folder = collect(exports=[f"s3://{BUCKET}/exports"])
    assert list(data(folder).values()) == [b"new 1", b"new 2"]
    fetched = [call.parameters["Key"] for call in aws.calls if call.operation == "GetObject"]
    assert not [key for key in fetched if key.endswith("part-1.parquet")]  # it lay beside the folder from the last time
    assert not (tmp_path / "landing" / ".aws.staging").exists()


def test_data_newer_than_its_manifest_is_being_delivered(s3: Any, collect: Collect, aws: Aws) -> None:
    from moto.s3.models import s3_backends

    put_export(s3, {"part-1.parquet": b"old 1", "part-2.parquet": b"old 2"}, "run-1")
    old = landed(collect(exports=[f"s3://{BUCKET}/exports"]))
    put(s3, f"{EXPORT}/data/BILLING_PERIOD=2026-09/part-1.parquet", b"new 1")
    stored = s3_backends["123456789012"]["aws"].buckets[BUCKET].keys
    for key, one in stored.items():
        one.last_modified = datetime(2026, 9, 30, 23 if key.endswith("part-1.parquet") else 22)
    folder = collect(exports=[f"s3://{BUCKET}/exports"])
    assert landed(folder) == old
    assert "it is being delivered" in folder.problems[0].reason


def test_periods_older_than_wanted_are_not_fetched(s3: Any, collect: Collect) -> None:
    for month in ("2026-05", "2026-08", "2026-09"):
        put_export(s3, {"part-1.parquet": month.encode()}, "run-1", month)
    folder = collect(exports=[f"s3://{BUCKET}/exports"], limits=Limits(months=3))
    assert list(data(folder).values()) == [b"2026-08", b"2026-09"]


def test_of_several_runs_the_newest_folder_counts(s3: Any, collect: Collect) -> None:
    for run in (
        "2026-09-03T00:00:00.000Z-11111111-0000-4000-8000-000000000001",
        "2026-09-30T00:00:00.000Z-00000000-0000-4000-8000-000000000002",
    ):
        key = f"{EXPORT}/data/BILLING_PERIOD=2026-09/{run}/part-1.parquet"
        put(s3, key, run.encode())
        put(
            s3,
            f"{EXPORT}/metadata/BILLING_PERIOD=2026-09/{run}/acme-cur2-Manifest.json",
            {"exportArn": "arn:x", "dataFiles": [f"s3://{BUCKET}/{key}"]},
        )
    folder = collect(exports=[f"s3://{BUCKET}/exports"])
    [body] = data(folder).values()
    assert body.startswith(b"2026-09-30")


def test_the_layout_for_athena_is_followed_by_its_manifest(s3: Any, collect: Collect) -> None:
    key = "cur/acme/acme/year=2026/month=9/acme-00001.snappy.parquet"
    put(s3, key, b"athena")
    put(s3, "cur/acme/acme/cost_and_usage_data_status/cost_and_usage_data_status.parquet", b"status")
    put(s3, f"{LEGACY}/acme-create-table.sql", b"create table")
    put(s3, f"{LEGACY}/acme-Manifest.json", {"reportName": "acme", "reportKeys": [key]})
    folder = collect(exports=[f"s3://{BUCKET}/cur"])
    assert data(folder) == {key: b"athena"}


def test_a_folder_without_manifests_is_mirrored(s3: Any, collect: Collect) -> None:
    put(s3, "drop/focus-1.csv", b"one")
    put(s3, "drop/focus-2.csv", b"two")
    assert len(data(collect(exports=[f"s3://{BUCKET}/drop"]))) == 2
    s3.delete_object(Bucket=BUCKET, Key="drop/focus-2.csv")
    assert data(collect(exports=[f"s3://{BUCKET}/drop"])) == {"drop/focus-1.csv": b"one"}


def test_a_cut_connection_is_gone_on_with_where_it_broke_off(s3: Any, aws: Aws, collect: Collect) -> None:
    body = bytes(range(256)) * 20_000
    put(s3, "drop/large.csv", body)
    cuts = [1_000_000, 2_000_000]
    aws.faults.append(
        lambda request: Fault(0, "", cut=cuts.pop(0)) if request.operation == "GetObject" and cuts else None
    )
    folder = collect(exports=[f"s3://{BUCKET}/drop"])
    assert data(folder) == {"drop/large.csv": body}
    assert folder.problems == []
    ranges = [call.headers.get("HTTP_RANGE") for call in aws.calls if call.operation == "GetObject"]
    assert ranges[0] is None
    assert all(ranges[1:])


def test_a_connection_that_is_always_cut_leaves_no_half_file(s3: Any, aws: Aws, collect: Collect) -> None:
    put(s3, "drop/large.csv", bytes(3_000_000))
    aws.faults.append(lambda request: Fault(0, "", cut=100) if request.operation == "GetObject" else None)
    folder = collect(exports=[f"s3://{BUCKET}/drop"])
    assert landed(folder) == {}
    assert "was cut" in folder.problems[0].reason


def test_addresses_that_overlap_fetch_each_object_once(s3: Any, aws: Aws, collect: Collect) -> None:
    put_export(s3, {"part-1.parquet": b"one"}, "run-1")
    folder = collect(exports=[f"s3://{BUCKET}/", f"s3://{BUCKET}/exports"])
    assert len(data(folder)) == 1
    assert aws.count("GetObject") == 2


def test_a_denied_export_stops_no_other_and_says_what_to_allow(s3: Any, aws: Aws, collect: Collect) -> None:
    s3.create_bucket(Bucket="acme-secret")
    put(s3, "drop/one.csv", b"one")
    aws.faults.append(
        lambda request: Fault(403, "AccessDenied") if request.parameters.get("Bucket") == "acme-secret" else None
    )
    folder = collect(exports=["s3://acme-secret/x", f"s3://{BUCKET}/drop"])
    assert data(folder) == {"drop/one.csv": b"one"}
    [problem] = folder.problems
    assert problem.hides == "the bills of s3://acme-secret/x"
    assert "allow s3:ListBucket" in str(problem.fix)


def test_an_export_of_another_payer_is_read_with_its_role(s3: Any, aws: Aws, collect: Collect) -> None:
    put(s3, "drop/one.csv", b"one")
    aws.faults.append(
        lambda request: Fault(403, "AccessDenied") if request.service == "s3" and request.account == BASE else None
    )
    folder = collect(exports=[f"s3://{BUCKET}/drop"], roles=["arn:aws:iam::222233334444:role/auditor"])
    assert data(folder) == {"drop/one.csv": b"one"}
    assert folder.problems == []


def test_expired_credentials_are_named_and_what_came_is_kept(s3: Any, aws: Aws, collect: Collect) -> None:
    put(s3, "drop/one.csv", b"one")
    put(s3, "drop/two.csv", b"two")
    aws.faults.append(
        lambda request: Fault(400, "ExpiredToken") if request.parameters.get("Key") == "drop/two.csv" else None
    )
    folder = collect(exports=[f"s3://{BUCKET}/drop"])
    assert "have expired" in folder.problems[0].reason
    assert "goes on where it stopped" in str(folder.problems[0].fix)
    aws.faults.clear()
    aws.calls.clear()
    assert len(data(collect(exports=[f"s3://{BUCKET}/drop"]))) == 2
    assert aws.count("GetObject") == 1


def test_a_cap_on_bytes_is_not_passed(s3: Any, collect: Collect) -> None:
    put(s3, "drop/a.csv", bytes(600))
    put(s3, "later/b.csv", bytes(600))
    folder = collect(exports=[f"s3://{BUCKET}/drop", f"s3://{BUCKET}/later"], limits=Limits(bytes=1000, parallel=1))
    assert len(landed(folder)) == 1
    assert "[limits] bytes = 1000" in folder.problems[0].reason


def test_a_page_of_a_listing_that_is_throttled_is_asked_for_again(
    s3: Any, aws: Aws, collect: Collect, impatient: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = replace(CALLS["s3:ListObjectsV2"], size={"MaxKeys": 3})
    monkeypatch.setitem(CALLS, "s3:ListObjectsV2", listing)
    for number in range(7):
        put(s3, f"drop/{number:04d}.csv", b"x")
    refused: list[Request] = []

    def throttle(request: Request) -> Fault | None:
        if "continuation-token" in request.parameters and len(refused) < 2:
            refused.append(request)
            return Fault(503, "SlowDown")
        return None

    aws.faults.append(throttle)
    folder = collect(exports=[f"s3://{BUCKET}/drop"])
    assert len(data(folder)) == 7
    assert len(refused) == 2
    assert impatient


def test_keys_never_leave_the_folder(s3: Any, collect: Collect) -> None:
    put(s3, "drop/../../../escape.csv", b"x")
    folder = collect(exports=[f"s3://{BUCKET}/drop"])
    assert all((folder.path / name).resolve().is_relative_to(folder.path.resolve()) for name in folder.entries)


def test_nothing_below_the_prefix_is_a_problem(collect: Collect) -> None:
    folder = collect(exports=[f"s3://{BUCKET}/nothing"])
    assert "holds nothing" in folder.problems[0].reason


def test_a_kill_between_two_files_costs_only_the_second(
    s3: Any, aws: Aws, collect: Collect, url: str, tmp_path: Path
) -> None:
    put_legacy(s3, "aaaaaaaa-0000-4000-8000-000000000001", {"acme-1.csv.gz": b"one", "acme-2.csv.gz": b"two"})

    class Killed(BaseException):
        pass

    def kill(_: Request) -> None:
        raise Killed

    place = tmp_path / "landing" / "aws"
    with LandingFolder(place, "aws", "aws", NOW) as folder:
        account = _account(url)
        bucket = objects.Bucket(BUCKET, [account])
        [delivery] = objects.deliveries(bucket, "cur", folder, NOW)
        blocks = bucket.blocks
        bucket.blocks = lambda one: kill(None) if one.key.endswith("2.csv.gz") else blocks(one)  # type: ignore[assignment, arg-type, method-assign, func-returns-value, return-value]
        with pytest.raises(Killed):
            objects.take(bucket, delivery, folder, NOW, parallel=1)
    aws.calls.clear()
    resumed = collect(exports=[f"s3://{BUCKET}/cur"])
    assert list(data(resumed).values()) == [b"one", b"two"]
    assert not [call for call in aws.calls if call.parameters.get("Key", "").endswith("1.csv.gz")]


def _account(url: str) -> Any:
    from auditor.collect.aws import access
    from auditor.settings import AwsSource

    return access.base(AwsSource(name="aws", endpoint_url=url), Budget(Limits()))


def test_an_object_store_can_be_mirrored_by_its_address_alone(s3: Any, url: str, tmp_path: Path) -> None:
    put_export(s3, {"part-1.parquet": b"two"}, "run-1")
    with LandingFolder(tmp_path / "mirror", "s3", "aws", NOW) as folder:
        names = objects.fetch(
            f"s3://{BUCKET}/exports", folder, Budget(Limits()), NOW, endpoint_url=url, kind="billing", months=None
        )
    assert sorted(names) == sorted(folder.entries)
    assert len(names) == 2


def test_cost_explorer_is_asked_once_a_month_and_paid_for(aws: Aws, collect: Collect) -> None:
    pages = {None: ("2026-09-01", "next"), "next": ("2026-09-02", None)}

    def answer(request: Request) -> dict[str, Any]:
        day, following = pages[request.parameters.get("NextPageToken")]
        group = {
            "Keys": [BASE, "Amazon EC2"],
            "Metrics": {name: {"Amount": "1.25", "Unit": "USD"} for name in request.parameters["Metrics"]},
        }
        return {
            "GroupDefinitions": request.parameters["GroupBy"],
            "ResultsByTime": [{"TimePeriod": {"Start": day, "End": day}, "Groups": [group], "Estimated": False}],
            **({"NextPageToken": following} if following else {}),
        }

    aws.answers[("ce", "GetCostAndUsage")] = answer
    folder = collect(cost_explorer=True, limits=Limits(months=1), now=datetime(2026, 9, 30, 1, tzinfo=UTC))
    [name] = folder.entries
    document = json.loads((folder.path / name).read_text())
    assert [one["TimePeriod"]["Start"] for one in document["ResultsByTime"]] == ["2026-09-01", "2026-09-02"]
    assert "NextPageToken" not in document
    spent = journal.read(folder.path / journal.JOURNAL)
    assert spent is not None
    [used] = [each for each in spent.usage if each.api == "ce:GetCostAndUsage"]
    assert (used.calls, str(used.money)) == (2, "0.02")
    aws.calls.clear()
    collect(cost_explorer=True, limits=Limits(months=1), now=datetime(2026, 9, 30, 5, tzinfo=UTC))
    assert aws.count("GetCostAndUsage") == 0
    capped = collect(
        cost_explorer=True, limits=Limits(months=2, money="0.005"), now=datetime(2026, 10, 20, 5, tzinfo=UTC)
    )
    assert aws.count("GetCostAndUsage") == 0
    assert "[limits] money" in capped.problems[0].reason
