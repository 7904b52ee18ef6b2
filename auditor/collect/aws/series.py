"""Which CloudWatch series tell of a resource: metric, exact dimensions and statistic of each."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MINUTES, HOUR, DAY = 300, 3600, 86_400
_MACHINE = re.compile(r"^(ml\.)?(p\d|g\d|gr\d|trn\d|inf\d|dl\d)[a-z0-9-]*\.")  # EC2's accelerated families
# What an hour's mean may leave open; asked for again in steps of five minutes where it does.
UTILISATION = frozenset({"nvidia_smi_utilization_gpu", "node_gpu_utilization", "node_neuroncore_utilization"})
PRESSURE = frozenset(
    {
        "InstanceEBSIOPSExceededCheck",
        "InstanceEBSThroughputExceededCheck",
        "VolumeIOPSExceededCheck",
        "VolumeThroughputExceededCheck",
        "VolumeThroughputPercentage",
    }
)
WAITING = frozenset({"cpu_usage_iowait"})


@dataclass(frozen=True)
class Series:
    """One series. CloudWatch knows no part of a dimension set: another set is another metric.

    `resource` is what the series is remembered by, `machine` the instance it tells of where there is one.
    """

    resource: str
    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str = "Average"
    period: int = HOUR
    machine: str | None = None

    def query(self, number: int, period: int) -> dict[str, Any]:
        dimensions = [{"Name": name, "Value": value} for name, value in self.dimensions]
        return {
            "Id": f"q{number}",
            "MetricStat": {
                "Metric": {"Namespace": self.namespace, "MetricName": self.metric, "Dimensions": dimensions},
                "Period": period,
                "Stat": self.statistic,
            },
        }


def is_accelerated(machine_type: Any) -> bool:
    return bool(_MACHINE.match(str(machine_type or "")))


def of_machine(instance: Mapping[str, Any]) -> Iterator[Series]:
    """Series of an accelerated instance; the others' metrics are read by no rule."""
    if not is_accelerated(instance.get("InstanceType")):
        return
    identity = str(instance["InstanceId"])
    own = (("InstanceId", identity),)
    for metric, statistic in (
        ("CPUUtilization", "Average"),
        ("NetworkIn", "Sum"),
        ("NetworkOut", "Sum"),
        ("InstanceEBSIOPSExceededCheck", "Average"),
        ("InstanceEBSThroughputExceededCheck", "Average"),
    ):
        yield Series(identity, "AWS/EC2", metric, own, statistic, machine=identity)


def of_volume(volume: Mapping[str, Any], accelerated: set[str]) -> Iterator[Series]:
    """Series of a disk of an accelerated machine, of one that nobody uses, and of one whose performance is paid for."""
    attached = [one["InstanceId"] for one in volume.get("Attachments") or () if one.get("InstanceId")]
    machines = [one for one in attached if one in accelerated]
    kind = volume.get("VolumeType")
    # What gp3 has for nothing is 3,000 IOPS and 125 MiB/s.
    paid = kind == "gp3" and ((volume.get("Iops") or 0) > 3000 or (volume.get("Throughput") or 0) > 125)
    provisioned = kind in ("io1", "io2") or paid
    if not (machines or provisioned or not attached):
        return
    identity = str(volume["VolumeId"])
    own = (("VolumeId", identity),)
    machine = machines[0] if machines else None
    for metric in ("VolumeReadBytes", "VolumeWriteBytes"):
        yield Series(identity, "AWS/EBS", metric, own, "Sum", machine=machine)
    if kind in ("io1", "io2"):
        # How much is used at most decides what can be given back: the mean of an hour would hide it.
        yield Series(identity, "AWS/EBS", "VolumeThroughputPercentage", own, period=MINUTES, machine=machine)
    for one in machines:
        pair = (("InstanceId", one), ("VolumeId", identity))
        for metric in ("VolumeIOPSExceededCheck", "VolumeThroughputExceededCheck"):
            yield Series(identity, "AWS/EBS", metric, pair, machine=one)


def of_gateway(gateway: Mapping[str, Any]) -> Iterator[Series]:
    identity = str(gateway["NatGatewayId"])
    own = (("NatGatewayId", identity),)
    for metric, statistic in (
        ("BytesInFromSource", "Sum"),
        ("BytesInFromDestination", "Sum"),
        ("ActiveConnectionCount", "Average"),
    ):
        yield Series(identity, "AWS/NATGateway", metric, own, statistic)


def of_fsx(one: Mapping[str, Any]) -> Iterator[Series]:
    identity = str(one["FileSystemId"])
    for metric in ("DataReadBytes", "DataWriteBytes"):
        yield Series(identity, "AWS/FSx", metric, (("FileSystemId", identity),), "Sum")


def of_efs(one: Mapping[str, Any]) -> Iterator[Series]:
    identity = str(one["FileSystemId"])
    own = (("FileSystemId", identity),)
    yield Series(identity, "AWS/EFS", "PercentIOLimit", own)
    for metric in ("DataReadIOBytes", "DataWriteIOBytes"):
        yield Series(identity, "AWS/EFS", metric, own, "Sum")


def of_endpoint(endpoint: Mapping[str, Any]) -> Iterator[Series]:
    name = str(endpoint["EndpointName"])
    for variant in endpoint.get("ProductionVariants") or ():
        own = (("EndpointName", name), ("VariantName", str(variant["VariantName"])))
        yield Series(f"endpoint/{name}", "AWS/SageMaker", "Invocations", own, "Sum")
        for metric in ("GPUUtilization", "GPUMemoryUtilization"):
            yield Series(f"endpoint/{name}", "/aws/sagemaker/Endpoints", metric, own)


def of_job(job: Mapping[str, Any]) -> Iterator[Series]:
    """Series of a training job's hosts, which are numbered from 1."""
    resources = job.get("ResourceConfig") or {}
    groups = resources.get("InstanceGroups") or [resources]
    if not any(is_accelerated(group.get("InstanceType")) for group in groups):
        return
    name = str(job["TrainingJobName"])
    for number in range(1, sum(int(group.get("InstanceCount") or 0) for group in groups) + 1):
        for metric in ("GPUUtilization", "GPUMemoryUtilization"):
            yield Series(f"job/{name}", "/aws/sagemaker/TrainingJobs", metric, (("Host", f"{name}/algo-{number}"),))


Lister = Callable[..., Iterable[Mapping[str, Any]]]


def of_agents(listed: Lister) -> Iterator[Series]:
    """What the CloudWatch agent and Container Insights tell of GPUs; only CloudWatch knows by which dimensions."""
    # The agent's namespace is the user's choice, so it is not part of the question.
    gpus = _finest(list(listed(MetricName="nvidia_smi_utilization_gpu")), "index")
    for namespace, dimensions, machine in gpus:
        # One reading of nvidia-smi: the three bear the same dimensions.
        for metric in ("nvidia_smi_utilization_gpu", "nvidia_smi_memory_used", "nvidia_smi_memory_total"):
            yield Series(f"gpu/{machine}", namespace, metric, dimensions, machine=machine)
    machines = {machine for _, _, machine in gpus if machine}
    if gpus:
        for one in listed(MetricName="cpu_usage_iowait"):
            namespace, dimensions, machine = _told(one)
            if machine in machines and dict(dimensions).get("cpu", "cpu-total") == "cpu-total":
                yield Series(f"gpu/{machine}", namespace, "cpu_usage_iowait", dimensions, machine=machine)
    for probe, finest, more in (
        ("node_gpu_utilization", "GpuDevice", ("node_gpu_memory_used", "node_gpu_memory_total")),
        ("node_neuroncore_utilization", "NeuronCore", ()),
    ):
        for namespace, dimensions, machine in _finest(
            list(listed(Namespace="ContainerInsights", MetricName=probe)), finest
        ):
            for metric in (probe, *more):
                yield Series(f"gpu/{machine}", namespace, metric, dimensions, machine=machine)


def of_file_servers(listed: Lister) -> Iterator[Series]:
    """How near FSx file systems are to their limits, by file server."""
    for metric in ("FileServerDiskThroughputUtilization", "NetworkThroughputUtilization"):
        for one in listed(Namespace="AWS/FSx", MetricName=metric):
            _, dimensions, _ = _told(one)
            identity = dict(dimensions).get("FileSystemId")
            if identity:
                yield Series(f"server/{identity}", "AWS/FSx", metric, dimensions, period=MINUTES)


def of_buckets(listed: Lister) -> Iterator[Series]:
    """Size of each bucket by storage class, once a day, and the bytes read where request metrics are switched on."""
    for metric, statistic, period in (("BucketSizeBytes", "Average", DAY), ("BytesDownloaded", "Sum", HOUR)):
        for one in listed(Namespace="AWS/S3", MetricName=metric):
            _, dimensions, _ = _told(one)
            yield Series(
                f"bucket/{dict(dimensions).get('BucketName')}", "AWS/S3", metric, dimensions, statistic, period
            )


Told = tuple[str, tuple[tuple[str, str], ...], str | None]


def _told(one: Mapping[str, Any]) -> Told:
    dimensions = tuple(sorted((str(each["Name"]), str(each["Value"])) for each in one.get("Dimensions") or ()))
    named = dict(dimensions)
    return str(one["Namespace"]), dimensions, named.get("InstanceId") or named.get("host")


def _finest(listed: list[Mapping[str, Any]], device: str) -> list[Told]:
    """The series by device; the sums and means that an agent makes of them only where there are no others."""
    told = [one for one in map(_told, listed) if one[2]]
    by_device = {machine for _, dimensions, machine in told if device in dict(dimensions)}
    return sorted(one for one in told if device in dict(one[1]) or one[2] not in by_device)
