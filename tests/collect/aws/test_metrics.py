"""CloudWatch: exact series, full pages, only what is missing, and finer steps where a machine may wait for its disks."""

import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pytest

from auditor import journal
from auditor.collect.folder import LandingFolder
from auditor.landing import LandingFile
from auditor.normalise.look import look
from auditor.normalise.telemetry import finish, load
from auditor.normalise.telemetry import recognise as recognise_telemetry
from auditor.settings import Limits
from tests.collect.aws.conftest import NOW
from tests.collect.aws.estate import serve_lists
from tests.collect.aws.server import BASE, Aws, Fault, Request, epoch

Collect = Callable[..., LandingFolder]
HERE = (BASE, "us-east-1")
START, END = epoch("2026-09-01T00:00:00"), epoch("2026-10-01T00:00:00")
MACHINE, DISK = "i-00000000000000001", "vol-00000000000000001"
ONLY = {"inventory": True, "metrics": True, "regions": ["us-east-1"]}


def hours(value: float, start: float = START, end: float = END, step: int = 3600) -> list[tuple[float, float]]:
    return [(start + step * number, value) for number in range(int((end - start) // step))]


def machine(identity: str = MACHINE, kind: str = "g5.xlarge") -> dict[str, Any]:
    return {"Instances": [{"InstanceId": identity, "InstanceType": kind}]}


def disk(**more: Any) -> dict[str, Any]:
    return {
        "VolumeId": DISK,
        "VolumeType": "gp3",
        "Size": 100,
        "Iops": 3000,
        "Throughput": 125,
        "Attachments": [{"InstanceId": MACHINE, "VolumeId": DISK}],
        **more,
    }


def documents(folder: LandingFolder) -> Iterator[dict[str, Any]]:
    for name, entry in sorted(folder.entries.items()):
        if entry.kind == "telemetry":
            yield json.loads(gzip.decompress((folder.path / name).read_bytes()))


def samples(folder: LandingFolder) -> dict[tuple[str, str], tuple[int, float]]:
    """(resource, metric) -> number and sum of the samples, as the audit reads the folder."""
    recognised = []
    for name, entry in sorted(folder.entries.items()):
        if entry.kind == "telemetry":
            file = LandingFile(folder.path / name, name, entry.size)
            found = recognise_telemetry(file, look(file))
            assert found is not None
            recognised.append(found)
    con = duckdb.connect()
    reports = load(con, recognised)
    finish(con)
    assert {report.status for report in reports} <= {"ok"}
    rows = con.execute("select resource_id, metric, count(*), sum(value) from metrics group by all").fetchall()
    return {(row[0], row[1]): (row[2], row[3]) for row in rows}


def asked(aws: Aws) -> list[dict[str, Any]]:
    return [
        query
        for call in aws.calls
        if call.operation == "GetMetricData"
        for query in call.parameters["MetricDataQueries"]
    ]


def test_series_are_asked_by_the_dimensions_they_have(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "Reservations"): [machine()], (*HERE, "Volumes"): [disk()]})
    own = {"InstanceId": MACHINE, "name": "A10G", "arch": "Ampere"}
    aws.put(*HERE, "CWAgent", "nvidia_smi_utilization_gpu", hours(37.0), index="0", **own)
    aws.put(*HERE, "Acme/Agents", "nvidia_smi_memory_used", hours(6.0), index="0", **own)
    aws.put(*HERE, "CWAgent", "nvidia_smi_memory_used", hours(6.0), index="0", **own)
    aws.put(*HERE, "CWAgent", "nvidia_smi_memory_total", hours(24.0), index="0", **own)
    aws.put(*HERE, "CWAgent", "nvidia_smi_utilization_gpu", hours(99.0), InstanceId=MACHINE)  # the agent's own roll-up
    aws.put(*HERE, "CWAgent", "cpu_usage_iowait", hours(12.0), InstanceId=MACHINE, cpu="cpu-total")
    aws.put(*HERE, "CWAgent", "cpu_usage_iowait", hours(90.0), InstanceId=MACHINE, cpu="cpu3")
    aws.put(*HERE, "AWS/EC2", "NetworkIn", hours(1000.0), InstanceId=MACHINE)
    aws.put(*HERE, "AWS/EBS", "VolumeReadBytes", hours(500.0), VolumeId=DISK)
    aws.put(*HERE, "AWS/EBS", "VolumeThroughputExceededCheck", hours(0.0), VolumeId=DISK, InstanceId=MACHINE)
    folder = collect(**ONLY)
    assert folder.problems == []
    found = samples(folder)
    assert found[(MACHINE, "gpu.utilization")] == (720, pytest.approx(720 * 0.37))
    assert found[(MACHINE, "gpu.memory_used_ratio")] == (720, pytest.approx(720 * 0.25))
    assert found[(MACHINE, "cpu.iowait")] == (720, pytest.approx(720 * 0.12))
    assert found[(MACHINE, "net.received_bytes")] == (720, 720_000)
    assert found[(DISK, "disk.read_bytes")] == (720, 360_000)
    assert found[(DISK, "disk.limit_reached")] == (720, 0)
    [answer] = documents(folder)
    assert (answer["AccountId"], answer["Region"]) == HERE


def test_gateways_file_systems_endpoints_and_jobs_tell_of_themselves(aws: Aws, collect: Collect) -> None:
    arn = f"arn:aws:sagemaker:us-east-1:{BASE}"
    endpoint = {"EndpointName": "Serve", "EndpointArn": f"{arn}:endpoint/serve"}
    job = {"TrainingJobName": "fit", "TrainingJobArn": f"{arn}:training-job/fit", "TrainingJobStatus": "Completed"}
    serve_lists(
        aws,
        {
            (*HERE, "NatGateways"): [{"NatGatewayId": "nat-1"}],
            (*HERE, "fsx FileSystems"): [{"FileSystemId": "fs-1", "FileSystemType": "LUSTRE"}],
            (*HERE, "efs FileSystems"): [{"FileSystemId": "fs-2", "OwnerId": BASE}],
            (*HERE, "Endpoints"): [endpoint],
            (*HERE, "TrainingJobSummaries"): [job],
        },
    )
    aws.answers[("sagemaker", "DescribeEndpoint")] = lambda _: endpoint | {"ProductionVariants": [{"VariantName": "A"}]}
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2}
    aws.answers[("sagemaker", "DescribeTrainingJob")] = lambda _: job | {"ResourceConfig": resources}
    aws.put(*HERE, "AWS/NATGateway", "BytesInFromSource", hours(70.0), NatGatewayId="nat-1")
    aws.put(*HERE, "AWS/NATGateway", "BytesInFromDestination", hours(30.0), NatGatewayId="nat-1")
    aws.put(*HERE, "AWS/FSx", "DataReadBytes", hours(10.0), FileSystemId="fs-1")
    aws.put(*HERE, "AWS/FSx", "NetworkThroughputUtilization", hours(95.0), FileSystemId="fs-1", FileServer="a")
    aws.put(*HERE, "AWS/FSx", "NetworkThroughputUtilization", hours(15.0), FileSystemId="fs-1", FileServer="b")
    aws.put(*HERE, "AWS/EFS", "PercentIOLimit", hours(50.0), FileSystemId="fs-2")
    aws.put(*HERE, "AWS/SageMaker", "Invocations", hours(3.0), EndpointName="Serve", VariantName="A")
    for host in ("fit/algo-1", "fit/algo-2"):
        aws.put(*HERE, "/aws/sagemaker/TrainingJobs", "GPUUtilization", hours(400.0), Host=host)
    days = hours(1000.0, step=86_400)
    aws.put(*HERE, "AWS/S3", "BucketSizeBytes", days, BucketName="acme-data", StorageType="StandardStorage")
    aws.put(*HERE, "AWS/S3", "BucketSizeBytes", days, BucketName="acme-data", StorageType="GlacierStorage")
    folder = collect(**ONLY)
    assert folder.problems == []
    found = samples(folder)
    ec2 = f"arn:aws:ec2:us-east-1:{BASE}:natgateway/nat-1"
    assert found[(ec2, "nat.bytes")] == (720, 72_000)
    fsx = f"arn:aws:fsx:us-east-1:{BASE}:file-system/fs-1"
    assert found[(fsx, "fs.read_bytes")] == (720, 7200)
    # the peak decides what can be given back, so these come in steps of five minutes (here, one sample an hour)
    assert found[(fsx, "fs.throughput_ratio")] == (720, pytest.approx(720 * 0.95))
    periods = {query["MetricStat"]["Metric"]["MetricName"]: query["MetricStat"]["Period"] for query in asked(aws)}
    assert periods["NetworkThroughputUtilization"] == 300
    assert periods["DataReadBytes"] == 3600
    assert found[(f"arn:aws:elasticfilesystem:us-east-1:{BASE}:file-system/fs-2", "fs.iops_ratio")][0] == 720
    assert found[(f"{arn}:endpoint/serve", "endpoint.invocations")] == (720, 2160)
    assert found[(f"{arn}:training-job/fit", "gpu.busy_devices")] == (720, pytest.approx(720 * 4))
    # S3 tells a day in the course of the next, so the last day of the window is yet to come
    assert found[("acme-data", "bucket.size_bytes")] == (29, 29 * 2000)


def test_a_later_collection_fetches_only_what_is_new_and_sums_stay_exact(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "NatGateways"): [{"NatGatewayId": "nat-1"}]})
    aws.put(*HERE, "AWS/NATGateway", "BytesInFromSource", hours(1.0, end=END + 86_400), NatGatewayId="nat-1")
    first = collect(**ONLY)
    aws.calls.clear()
    again = collect(**ONLY)
    assert aws.count("GetMetricData") == 0
    assert {name for name in again.entries if "telemetry" in name} == {n for n in first.entries if "telemetry" in n}
    later = collect(now=NOW + timedelta(hours=5), **ONLY)
    [call] = [call for call in aws.calls if call.operation == "GetMetricData"]
    assert (call.parameters["StartTime"], call.parameters["EndTime"]) == (END, END + 5 * 3600)
    assert samples(later)[(f"arn:aws:ec2:us-east-1:{BASE}:natgateway/nat-1", "nat.bytes")] == (725, 725)
    next_month = collect(now=NOW + timedelta(days=31), **ONLY)
    periods = {entry.period for entry in next_month.entries.values() if entry.kind == "telemetry"}
    assert not [period for period in periods if str(period).endswith("/2026-10-01T00:00:00Z")]


def test_a_resource_that_is_new_to_us_is_fetched_from_the_beginning(aws: Aws, collect: Collect) -> None:
    gateways = [{"NatGatewayId": "nat-1"}]
    serve_lists(aws, {(*HERE, "NatGateways"): gateways})
    collect(**ONLY)
    gateways.append({"NatGatewayId": "nat-2"})
    aws.calls.clear()
    collect(now=NOW + timedelta(hours=1), **ONLY)
    starts = {
        query["MetricStat"]["Metric"]["Dimensions"][0]["Value"]: call.parameters["StartTime"]
        for call in aws.calls
        if call.operation == "GetMetricData"
        for query in call.parameters["MetricDataQueries"]
    }
    assert starts == {"nat-1": END, "nat-2": START}


def test_a_killed_collection_goes_on_with_the_batches_that_are_missing(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "NatGateways"): [{"NatGatewayId": f"nat-{number:03d}"} for number in range(100)]})
    for number in range(100):
        aws.put(*HERE, "AWS/NATGateway", "BytesInFromSource", hours(1.0), NatGatewayId=f"nat-{number:03d}")

    class Killed(BaseException):
        pass

    kill_at = [2]
    holds = LandingFolder.write

    def write(self: LandingFolder, name: str, *args: Any, **more: Any) -> Path:
        if name.startswith("telemetry/"):
            kill_at[0] -= 1
            if kill_at[0] < 0:
                raise Killed
        return holds(self, name, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LandingFolder, "write", write)
        with pytest.raises(Killed):
            collect(limits=Limits(parallel=1), **ONLY)
    aws.calls.clear()
    # an hour has passed meanwhile: what lies there is used, and the new hour is asked for by itself
    folder = collect(now=NOW + timedelta(hours=1), **ONLY)
    long = [call for call in aws.calls if call.operation == "GetMetricData" and call.parameters["StartTime"] == START]
    assert len(long) == 1  # of three
    found = samples(folder)
    assert len(found) == 100
    assert {count for count, _ in found.values()} == {720}


def test_a_batch_that_fails_is_asked_for_again_and_the_others_are_kept(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "NatGateways"): [{"NatGatewayId": f"nat-{number:03d}"} for number in range(100)]})
    for number in range(100):
        aws.put(*HERE, "AWS/NATGateway", "BytesInFromSource", hours(1.0), NatGatewayId=f"nat-{number:03d}")

    def denied(request: Request) -> Fault | None:
        names = str(request.parameters.get("MetricDataQueries"))
        return Fault(403, "AccessDenied") if request.operation == "GetMetricData" and "nat-000" in names else None

    aws.faults.append(denied)
    folder = collect(**ONLY)
    [problem] = folder.problems
    assert (problem.what, problem.region) == ("cloudwatch:GetMetricData", "us-east-1")
    assert "allow cloudwatch:GetMetricData" in str(problem.fix)
    assert 0 < len(samples(folder)) < 100
    aws.faults.clear()
    whole = collect(now=NOW + timedelta(hours=1), **ONLY)
    assert {count for count, _ in samples(whole).values()} == {720}
    assert len(samples(whole)) == 100


def test_metrics_that_may_not_be_listed_leave_those_that_the_inventory_names(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "NatGateways"): [{"NatGatewayId": "nat-1"}]})
    aws.put(*HERE, "AWS/NATGateway", "BytesInFromSource", hours(1.0), NatGatewayId="nat-1")
    aws.faults.append(lambda request: Fault(403, "AccessDenied") if request.operation == "ListMetrics" else None)
    folder = collect(**ONLY)
    assert [problem.what for problem in folder.problems] == ["cloudwatch:ListMetrics"]
    assert samples(folder)


def starving(aws: Aws, day: int) -> None:
    """A machine that works at 40 percent on one day while its disk is at its limit; told in steps of five minutes."""
    serve_lists(aws, {(*HERE, "Reservations"): [machine()], (*HERE, "Volumes"): [disk()]})
    begin = START + 86_400 * day
    low = [(t, 40.0 if begin <= t < begin + 86_400 else 95.0) for t, _ in hours(0, step=300)]
    full = [(t, 1.0 if begin <= t < begin + 86_400 else 0.0) for t, _ in hours(0, step=300)]
    aws.put(*HERE, "CWAgent", "nvidia_smi_utilization_gpu", low, InstanceId=MACHINE, index="0")
    aws.put(*HERE, "AWS/EBS", "VolumeThroughputExceededCheck", full, InstanceId=MACHINE, VolumeId=DISK)
    aws.put(*HERE, "AWS/EBS", "VolumeReadBytes", [(t, 10.0) for t, _ in low], VolumeId=DISK)


def test_steps_are_finer_only_on_days_when_a_machine_may_wait_for_its_disk(aws: Aws, collect: Collect) -> None:
    starving(aws, day=10)
    folder = collect(**ONLY)
    assert folder.problems == []
    fine = [query for query in asked(aws) if query["MetricStat"]["Period"] == 300]
    assert {query["MetricStat"]["Metric"]["MetricName"] for query in fine} >= {
        "nvidia_smi_utilization_gpu",
        "VolumeThroughputExceededCheck",
    }
    found = samples(folder)
    assert found[(MACHINE, "gpu.utilization")][0] == 720 - 24 + 288
    assert found[(DISK, "disk.limit_reached")] == (720 - 24 + 288, 288)
    # a sum is never asked for twice: its hours and their parts would both count
    assert found[(DISK, "disk.read_bytes")] == (720, 720 * 12 * 10)
    aws.calls.clear()
    collect(**ONLY)
    assert aws.count("GetMetricData") == 0


def test_a_burst_that_hides_in_the_mean_of_an_idle_hour_is_looked_for(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "Reservations"): [machine()]})
    burst = START + 86_400 * 3 + 7200
    points = [(t, 40.0 if t == burst else 0.0) for t, _ in hours(0, step=300)]
    aws.put(*HERE, "CWAgent", "nvidia_smi_utilization_gpu", points, InstanceId=MACHINE, index="0")
    folder = collect(**ONLY)
    fine = [call.parameters for call in aws.calls if call.operation == "GetMetricData"][1:]
    assert [(one["StartTime"], one["EndTime"]) for one in fine] == [(START + 86_400 * 3, START + 86_400 * 4)]
    assert samples(folder)[(MACHINE, "gpu.utilization")] == (720 - 24 + 288, pytest.approx(0.4))


def test_busy_and_idle_machines_are_not_asked_for_in_finer_steps(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "Reservations"): [machine()], (*HERE, "Volumes"): [disk()]})
    aws.put(*HERE, "CWAgent", "nvidia_smi_utilization_gpu", hours(0.3), InstanceId=MACHINE, index="0")
    aws.put(*HERE, "AWS/EBS", "VolumeThroughputExceededCheck", hours(1.0), InstanceId=MACHINE, VolumeId=DISK)
    collect(**ONLY)
    assert {query["MetricStat"]["Period"] for query in asked(aws)} == {3600}


def test_the_money_for_metrics_is_booked_and_capped(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "NatGateways"): [{"NatGatewayId": f"nat-{number}"} for number in range(10)]})
    folder = collect(**ONLY)
    told = journal.read(folder.path / journal.JOURNAL)
    assert told is not None
    [used] = [each for each in told.usage if each.api == "cloudwatch:GetMetricData"]
    assert used.money is not None
    assert float(used.money) == pytest.approx(len(asked(aws)) * 0.01 / 1000)
    aws.calls.clear()
    capped = collect(now=NOW + timedelta(hours=2), limits=Limits(money="0.0001"), **ONLY)
    assert aws.count("GetMetricData") == 0
    assert "[limits] money" in capped.problems[0].reason


def test_an_hour_that_has_just_ended_is_left_for_later(aws: Aws, collect: Collect) -> None:
    serve_lists(aws, {(*HERE, "NatGateways"): [{"NatGatewayId": "nat-1"}]})
    collect(now=datetime(2026, 10, 1, 0, 5, tzinfo=UTC), **ONLY)
    [call] = [call for call in aws.calls if call.operation == "GetMetricData"]
    assert call.parameters["EndTime"] == END - 3600


def test_a_real_emulator_is_understood(aws: Aws, collect: Collect, url: str) -> None:
    from moto.cloudwatch.models import cloudwatch_backends

    serve_lists(aws, {})
    aws.emulated = {"cloudwatch"}
    client = boto3.client("cloudwatch", endpoint_url=url, region_name="us-east-1")
    own = [{"Name": "InstanceId", "Value": MACHINE}, {"Name": "index", "Value": "0"}]
    data = [
        {"MetricName": name, "Dimensions": own, "Timestamp": datetime(2026, 9, 30, 12, tzinfo=UTC), "Value": value}
        for name, value in (("nvidia_smi_utilization_gpu", 37.0), ("nvidia_smi_memory_used", 5.0))
    ]
    client.put_metric_data(Namespace="CWAgent", MetricData=data)
    try:
        folder = collect(**ONLY)
        assert folder.problems == []
        assert samples(folder)[(MACHINE, "gpu.utilization")] == (1, pytest.approx(0.37))
    finally:
        cloudwatch_backends.reset()
