"""Inventory of accounts and Regions: every page, every account, and what is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pytest

from auditor.collect.folder import LandingFolder
from auditor.collect.local import gather
from auditor.normalise.inventory import load
from auditor.normalise.inventory import recognise as recognise_inventory
from auditor.normalise.look import look
from auditor.settings import Limits
from tests.collect.aws.estate import serve_lists
from tests.collect.aws.server import BASE, Aws, Fault, Request

Collect = Callable[..., LandingFolder]
OTHER = "222233334444"
HERE = (BASE, "us-east-1")


def instance(number: int, **more: Any) -> dict[str, Any]:
    return {
        "ReservationId": f"r-{number:017x}",
        "OwnerId": BASE,
        "Instances": [
            {
                "InstanceId": f"i-{number:017x}",
                "InstanceType": "g5.xlarge",
                "LaunchTime": "2026-05-04T09:00:00+00:00",
                "State": {"Code": 16, "Name": "running"},
                "Placement": {"AvailabilityZone": "us-east-1a"},
                **more,
            }
        ],
    }


def document(folder: LandingFolder, name: str, account: str = BASE, region: str = "us-east-1") -> Any:
    return json.loads((folder.path / f"inventory/{account}/{region}/{name}.json").read_text())


def resources(folder: LandingFolder, spool: Path) -> dict[str, tuple[str, str | None, str | None]]:
    """Resource id -> type, account, Region, as the audit reads the folder; the journal is no inventory."""
    spool.mkdir(exist_ok=True)
    recognised = []
    for file in gather([str(folder.path)], spool)[0]:
        found = recognise_inventory(file, look(file))
        if found is None:
            assert file.name.endswith(".jsonl"), file.name
        else:
            recognised.append(found)
    con = duckdb.connect()
    reports = load(con, recognised)
    assert {report.status for report in reports} == {"ok"}
    rows = con.execute("select resource_id, resource_type, account_id, region from resources_seen").fetchall()
    return {row[0]: row[1:] for row in rows}


def test_every_page_of_every_region_and_account_is_fetched(aws: Aws, collect: Collect, tmp_path: Path) -> None:
    serve_lists(
        aws,
        {
            (BASE, "us-east-1", "Reservations"): [instance(number) for number in range(1, 1502)],
            (BASE, "eu-west-1", "NatGateways"): [{"NatGatewayId": "nat-0123456789abcdef0", "VpcId": "vpc-1"}],
            (OTHER, "eu-west-1", "efs FileSystems"): [
                {"FileSystemId": f"fs-{number:08x}", "OwnerId": OTHER} for number in range(150)
            ],
        },
    )
    accounts = [{"Id": one, "State": "ACTIVE"} for one in (BASE, OTHER)] + [{"Id": "999900001111", "State": "CLOSED"}]
    aws.items("organizations", "ListAccounts", "Accounts", lambda _: accounts, page=2)
    folder = collect(inventory=True, organization="auditor")
    assert folder.problems == []
    found = resources(folder, tmp_path / "spool")
    assert len([one for one in found.values() if one == ("instance", *HERE)]) == 1501
    assert found["nat-0123456789abcdef0"] == ("nat_gateway", BASE, "eu-west-1")
    assert len([one for one in found.values() if one == ("file_system", OTHER, "eu-west-1")]) == 150
    assert aws.count("DescribeInstances") == 2 + 1 + 2  # two pages, one empty Region, and the other account's
    assert aws.count("ListAccounts") == 2
    assert aws.count("AssumeRole") == 1


def test_an_answer_is_what_the_vendors_tool_prints(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "Reservations"): [instance(1)]})
    folder = collect(inventory=True, regions=["us-east-1"])
    answer = document(folder, "ec2-describe-instances")
    assert list(answer) == ["Reservations"]
    [machine] = answer["Reservations"][0]["Instances"]
    assert machine["LaunchTime"].startswith("2026-05-04T09:00:00")
    assert machine["Placement"] == {"AvailabilityZone": "us-east-1a"}
    assert document(folder, "ec2-describe-volumes") == {"Volumes": []}


def test_a_denied_call_hides_one_thing_and_is_said_once_with_the_permission(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "Reservations"): [instance(1)]})
    message = "You are not authorized to perform this operation. Encoded authorization failure message: AbCd"
    aws.faults.append(
        lambda request: Fault(403, "UnauthorizedOperation", message) if request.operation == "DescribeVolumes" else None
    )
    folder = collect(inventory=True, regions=["us-east-1"])
    [problem] = folder.problems
    assert (problem.what, problem.hides) == ("ec2:DescribeVolumes", "unattached and slow disks")
    assert (problem.account_id, problem.region) == HERE
    assert "AbCd" not in problem.reason
    assert "allow ec2:DescribeVolumes" in str(problem.fix)
    assert document(folder, "ec2-describe-instances")["Reservations"]


def test_a_denied_account_stops_no_other(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {})
    aws.faults.append(
        lambda request: (
            Fault(403, "AccessDenied")
            if request.operation == "AssumeRole" and "999900001111" in request.parameters["RoleArn"]
            else None
        )
    )
    folder = collect(
        inventory=True,
        regions=["us-east-1"],
        roles=["arn:aws:iam::999900001111:role/auditor", f"arn:aws:iam::{OTHER}:role/auditor"],
    )
    [problem] = folder.problems
    assert (problem.what, problem.account_id) == ("sts:AssumeRole", "999900001111")
    assert "trust" in str(problem.fix)
    assert document(folder, "ec2-describe-instances", OTHER) == {"Reservations": []}


def test_a_region_that_is_off_stops_no_other(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "Reservations"): [instance(1)]})
    aws.faults.append(lambda request: Fault(401, "AuthFailure") if request.region == "eu-west-1" else None)
    folder = collect(inventory=True)
    assert {problem.region for problem in folder.problems} == {"eu-west-1"}
    assert "name `regions`" in str(folder.problems[0].fix)
    assert document(folder, "ec2-describe-instances")["Reservations"]


def test_an_external_id_goes_to_the_role_and_nowhere_else(
    aws: Aws, collect: Collect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serve_lists(aws, {})
    monkeypatch.setenv("EXTERNAL_ID", "s3cr3t-external")
    caplog.set_level("DEBUG", logger="auditor")
    folder = collect(
        inventory=True,
        regions=["us-east-1"],
        roles=[f"arn:aws:iam::{OTHER}:role/auditor"],
        external_id="env:EXTERNAL_ID",
    )
    [assumed] = [call for call in aws.calls if call.operation == "AssumeRole"]
    assert assumed.parameters["ExternalId"] == "s3cr3t-external"
    landed = b"".join(path.read_bytes() for path in folder.path.rglob("*") if path.is_file())
    assert b"s3cr3t-external" not in landed
    assert "s3cr3t-external" not in caplog.text


def test_an_external_id_that_is_missing_hides_the_roles_accounts_only(aws: Aws, collect: Collect, s3: Any) -> None:
    s3.create_bucket(Bucket="acme")
    s3.put_object(Bucket="acme", Key="drop/one.csv", Body=b"one")
    folder = collect(
        exports=["s3://acme/drop"], roles=[f"arn:aws:iam::{OTHER}:role/auditor"], external_id="env:NOT_SET_AT_ALL"
    )
    assert list(folder.entries) == ["billing/acme/drop/one.csv"]
    assert "NOT_SET_AT_ALL is not set" in folder.problems[0].reason


def test_a_role_is_assumed_again_before_its_session_ends(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {})
    aws.lifetime = "2020-01-01T00:00:00Z"
    aws.answers[("sts", "AssumeRole")] = assume = aws.answers[("sts", "AssumeRole")]

    def again(request: Request) -> dict[str, Any]:
        answer = assume(request)
        aws.lifetime = "2099-01-01T00:00:00Z"
        return answer

    aws.answers[("sts", "AssumeRole")] = again
    folder = collect(inventory=True, regions=["us-east-1"], roles=[f"arn:aws:iam::{OTHER}:role/auditor"])
    assert folder.problems == []
    assert aws.count("AssumeRole") == 2


def test_a_throttled_second_page_is_asked_for_again(aws: Aws, collect: Collect, impatient: list[float]) -> None:
    serve_lists(aws, {(*HERE, "Reservations"): [instance(number) for number in range(1, 1201)]})
    refused: list[Request] = []

    def throttle(request: Request) -> Fault | None:
        if request.operation == "DescribeInstances" and "NextToken" in request.parameters and len(refused) < 2:
            refused.append(request)
            return Fault(503, "RequestLimitExceeded")
        return None

    aws.faults.append(throttle)
    folder = collect(inventory=True, regions=["us-east-1"])
    assert len(document(folder, "ec2-describe-instances")["Reservations"]) == 1200
    assert folder.problems == []
    assert len(impatient) >= 2


def test_a_refused_second_page_keeps_the_earlier_list_whole(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "Reservations"): [instance(number) for number in range(1, 1201)]})
    before = document(collect(inventory=True, regions=["us-east-1"]), "ec2-describe-instances")
    aws.faults.append(lambda request: Fault(400, "ExpiredToken") if "NextToken" in request.parameters else None)
    folder = collect(inventory=True, regions=["us-east-1"])
    assert document(folder, "ec2-describe-instances") == before
    assert "have expired" in folder.problems[0].reason


def test_endpoints_and_jobs_are_described_and_ended_jobs_only_once(aws: Aws, collect: Collect, tmp_path: Path) -> None:
    arn = f"arn:aws:sagemaker:us-east-1:{BASE}"
    jobs = [
        {
            "TrainingJobName": name,
            "TrainingJobArn": f"{arn}:training-job/{name}",
            "CreationTime": "2026-09-10T00:00:00+00:00",
            "TrainingJobStatus": status,
        }
        for name, status in (("old", "Completed"), ("new", "InProgress"))
    ]
    endpoint = {
        "EndpointName": "serve",
        "EndpointArn": f"{arn}:endpoint/serve",
        "CreationTime": "2026-08-01T00:00:00+00:00",
        "LastModifiedTime": "2026-08-01T00:00:00+00:00",
        "EndpointStatus": "InService",
    }
    serve_lists(aws, {(*HERE, "Endpoints"): [endpoint], (*HERE, "TrainingJobSummaries"): jobs})
    variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 2}
    configuration = {
        "EndpointConfigName": "config",
        "EndpointConfigArn": f"{arn}:endpoint-config/config",
        "CreationTime": "2026-08-01T00:00:00+00:00",
        "ProductionVariants": [variant],
    }
    aws.answers[("sagemaker", "DescribeEndpoint")] = lambda _: (
        endpoint
        | {
            "EndpointConfigName": "config",
            "ProductionVariants": [{"VariantName": "AllTraffic", "CurrentInstanceCount": 2}],
        }
    )
    aws.answers[("sagemaker", "DescribeEndpointConfig")] = lambda _: configuration
    aws.answers[("sagemaker", "DescribeTrainingJob")] = lambda request: (
        next(job for job in jobs if job["TrainingJobName"] == request.parameters["TrainingJobName"])
        | {"ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}}
    )
    folder = collect(inventory=True, regions=["us-east-1"])
    assert folder.problems == []
    found = resources(folder, tmp_path / "spool")
    assert found[f"{arn}:endpoint/serve"] == ("endpoint", *HERE)
    assert found[f"{arn}:training-job/old"] == ("training_job", *HERE)
    aws.calls.clear()
    collect(inventory=True, regions=["us-east-1"])
    described = [call.parameters for call in aws.calls if call.operation == "DescribeTrainingJob"]
    assert described == [{"TrainingJobName": "new"}]


def test_a_bucket_without_rules_is_known_to_have_none_and_a_denied_one_is_not(
    aws: Aws, collect: Collect, s3: Any
) -> None:
    serve_lists(aws, {(*HERE, "Buckets"): [{"Name": name} for name in ("acme-kept", "acme-bare", "acme-secret")]})
    for name in ("acme-kept", "acme-bare", "acme-secret"):
        s3.create_bucket(Bucket=name)
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 90}}
    s3.put_bucket_lifecycle_configuration(Bucket="acme-kept", LifecycleConfiguration={"Rules": [rule]})
    aws.faults.append(
        lambda request: (
            Fault(403, "AccessDenied")
            if (request.operation, request.parameters.get("Bucket"))
            == ("GetBucketLifecycleConfiguration", "acme-secret")
            else None
        )
    )
    folder = collect(inventory=True, regions=["us-east-1"])
    rules = "s3api-get-bucket-lifecycle-configuration"
    assert document(folder, f"{rules}/acme-kept", region="global")["Rules"][0]["Expiration"] == {"Days": 90}
    assert document(folder, f"{rules}/acme-bare", region="global") == {"Rules": []}
    assert not (folder.path / f"inventory/{BASE}/global/{rules}/acme-secret.json").exists()
    assert "allow s3:GetLifecycleConfiguration" in str(folder.problems[0].fix)


def test_a_cap_on_calls_ends_the_asking_and_says_so(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {})
    folder = collect(inventory=True, regions=["us-east-1"], limits=Limits(calls=5, parallel=1))
    assert len(aws.calls) == 5
    assert "[limits] calls = 5" in folder.problems[0].reason
    assert "raise the cap" in str(folder.problems[0].fix)


def test_without_credentials_everything_is_hidden_and_the_chain_is_named(
    collect: Collect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    [problem] = collect(inventory=True).problems
    assert problem.hides == "everything of this source"
    assert "AWS_PROFILE" in str(problem.fix)


def test_a_real_emulator_is_understood(aws: Aws, collect: Collect, url: str, tmp_path: Path) -> None:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.ec2.models import ec2_backends

    serve_lists(aws, {})
    aws.emulated = {"ec2", "sts"}
    ec2 = boto3.client("ec2", endpoint_url=url, region_name="us-east-1")
    [group] = ec2.describe_images(Owners=["amazon"])["Images"][:1]
    ec2.run_instances(ImageId=group["ImageId"], InstanceType="g5.xlarge", MinCount=1, MaxCount=1)
    folder = collect(inventory=True, regions=["us-east-1"])
    try:
        lacking = {"DescribePlacementGroups", "DescribeReservedInstances", "DescribeCapacityReservations"}
        assert {problem.what for problem in folder.problems} == {
            f"ec2:{name}" for name in lacking
        }  # the emulator's gaps
        kinds = {kind for kind, _, _ in resources(folder, tmp_path / "spool").values()}
        assert {"instance", "volume", "subnet", "route_table"} <= kinds
        [machine] = document(folder, "ec2-describe-instances", DEFAULT_ACCOUNT_ID)["Reservations"][0]["Instances"]
        assert machine["InstanceType"] == "g5.xlarge"
    finally:
        ec2_backends.reset()
