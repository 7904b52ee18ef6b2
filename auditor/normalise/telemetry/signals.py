"""Which vendor metric feeds which of ours, and how its declared unit becomes ours.

Documented units apply only where the source declares none (CloudWatch `None`, Azure `Count`, a Prometheus name): a unit
is never guessed from values, because 0.9 may be 0.9 percent.
"""

from typing import NamedTuple

from auditor import exporters

RATIOS = frozenset(
    {
        "gpu.utilization",
        "gpu.memory_used_ratio",
        "gpu.sm_active",
        "gpu.tensor_active",
        "tpu.duty_cycle",
        "neuron.utilization",
        "cpu.utilization",
        "cpu.iowait",
        "disk.throughput_ratio",
        "disk.iops_ratio",
        "fs.throughput_ratio",
        # Beside CONTRACT's names, read by the ledger only: they tell that a limit was met, not how much was used.
        "disk.limit_reached",
        "fs.limit_reached",
        "fs.iops_ratio",
    }
)
# SageMaker adds up its devices (0 to 100 percent for each): the ledger divides by the machine's number of them.
DEVICES = frozenset({"gpu.busy_devices", "gpu.memory_used_devices"})
BYTES = frozenset(
    {
        "disk.read_bytes",
        "disk.write_bytes",
        "fs.read_bytes",
        "fs.write_bytes",
        "nat.bytes",
        "net.sent_bytes",
        "net.received_bytes",
        "bucket.size_bytes",
        "bucket.read_bytes",
    }
)
OTHERS = frozenset({"disk.queue_length", "nat.active_connections", "endpoint.invocations", "notebook.last_activity"})
METRIC_NAMES = RATIOS | DEVICES | BYTES | OTHERS

HIGHEST_RATIO = 1.5  # MIG and sampling jitter report a little above 1; beyond that it is no ratio


class Signal(NamedTuple):
    """One vendor metric. `combine` says how its series become one sample of ours.

    direct: each series is one of ours. sum, max, mean: over the series of a device; a series without dimensions speaks
    for all of them; of parts named `x.1`, `x.2` the lowest number present counts. share: used / total, the parts being
    used, free, reserved, total. fallback: only where no direct sample tells, `part` being the rank.
    """

    source: str
    name: str
    metric: str
    unit: str
    combine: str = "direct"
    part: str = ""
    statistic: str = "mean"


def _aws(name: str, metric: str, unit: str, combine: str = "direct", part: str = "") -> Signal:
    statistic = "sum" if metric in BYTES - {"bucket.size_bytes"} or metric == "endpoint.invocations" else "mean"
    return Signal("aws", name, metric, unit, combine, part, statistic)


def _azure(
    name: str, metric: str, unit: str, combine: str = "direct", part: str = "", *, statistic: str = "mean"
) -> Signal:
    return Signal("azure", name.lower(), metric, unit, combine, part, statistic)


_GPU_MEMORY = "gpu.memory_used_ratio"

_GCP = (
    ("agent.googleapis.com/gpu/utilization", "gpu.utilization", "percent", "direct", ""),
    ("agent.googleapis.com/gpu/memory/bytes_used{used}", _GPU_MEMORY, "bytes", "share", "used"),
    ("agent.googleapis.com/gpu/memory/bytes_used{free}", _GPU_MEMORY, "bytes", "share", "free"),
    ("agent.googleapis.com/cpu/utilization{wait}", "cpu.iowait", "percent", "mean", ""),
    ("workload.googleapis.com/gpu.dcgm.utilization", "gpu.utilization", "ratio", "fallback", "1"),
    ("workload.googleapis.com/gpu.dcgm.sm.utilization", "gpu.sm_active", "ratio", "max", ""),
    ("workload.googleapis.com/gpu.dcgm.pipe.utilization{tensor}", "gpu.tensor_active", "ratio", "max", ""),
    ("workload.googleapis.com/gpu.dcgm.memory.bytes_used{used}", _GPU_MEMORY, "bytes", "share", "used"),
    ("workload.googleapis.com/gpu.dcgm.memory.bytes_used{free}", _GPU_MEMORY, "bytes", "share", "free"),
    ("workload.googleapis.com/dcgm.gpu.profiling.sm_utilization", "gpu.sm_active", "ratio", "max", ""),
    ("workload.googleapis.com/dcgm.gpu.profiling.pipe_utilization{tensor}", "gpu.tensor_active", "ratio", "max", ""),
    ("kubernetes.io/node/accelerator/duty_cycle", "gpu.utilization", "percent", "fallback", "2"),
    ("kubernetes.io/container/accelerator/duty_cycle", "gpu.utilization", "percent", "fallback", "3"),
    ("kubernetes.io/node/accelerator/memory_used", _GPU_MEMORY, "bytes", "share", "used"),
    ("kubernetes.io/node/accelerator/memory_total", _GPU_MEMORY, "bytes", "share", "total"),
    ("kubernetes.io/container/accelerator/memory_used", _GPU_MEMORY, "bytes", "share", "used"),
    ("kubernetes.io/container/accelerator/memory_total", _GPU_MEMORY, "bytes", "share", "total"),
    ("kubernetes.io/node/accelerator/duty_cycle{tpu}", "tpu.duty_cycle", "percent", "fallback", "2"),
    ("kubernetes.io/container/accelerator/duty_cycle{tpu}", "tpu.duty_cycle", "percent", "fallback", "3"),
    ("tpu.googleapis.com/accelerator/duty_cycle", "tpu.duty_cycle", "percent", "direct", ""),
    ("aiplatform.googleapis.com/prediction/online/prediction_count", "endpoint.invocations", "count", "sum", ""),
    ("aiplatform.googleapis.com/prediction/online/accelerator/duty_cycle", "gpu.utilization", "ratio", "direct", ""),
    ("ml.googleapis.com/training/accelerator/utilization", "gpu.utilization", "ratio", "direct", ""),
    ("ml.googleapis.com/training/accelerator/memory/utilization", _GPU_MEMORY, "ratio", "direct", ""),
    ("compute.googleapis.com/instance/cpu/utilization", "cpu.utilization", "ratio", "direct", ""),
    ("compute.googleapis.com/instance/disk/read_bytes_count", "disk.read_bytes", "bytes", "sum", ""),
    ("compute.googleapis.com/instance/disk/write_bytes_count", "disk.write_bytes", "bytes", "sum", ""),
    ("compute.googleapis.com/instance/disk/average_io_queue_depth", "disk.queue_length", "count", "max", ""),
    ("compute.googleapis.com/instance/network/received_bytes_count", "net.received_bytes", "bytes", "sum", ""),
    ("compute.googleapis.com/instance/network/sent_bytes_count", "net.sent_bytes", "bytes", "sum", ""),
    ("compute.googleapis.com/nat/sent_bytes_count", "nat.bytes", "bytes", "sum", "sent"),
    ("compute.googleapis.com/nat/received_bytes_count", "nat.bytes", "bytes", "sum", "received"),
    ("compute.googleapis.com/nat/open_connections", "nat.active_connections", "count", "sum", ""),
    ("router.googleapis.com/nat/sent_bytes_count", "nat.bytes", "bytes", "sum", "sent"),
    ("router.googleapis.com/nat/received_bytes_count", "nat.bytes", "bytes", "sum", "received"),
    ("router.googleapis.com/nat/open_connections", "nat.active_connections", "count", "sum", ""),
    ("file.googleapis.com/nfs/server/read_bytes_count", "fs.read_bytes", "bytes", "sum", ""),
    ("file.googleapis.com/nfs/server/write_bytes_count", "fs.write_bytes", "bytes", "sum", ""),
    ("storage.googleapis.com/storage/total_bytes", "bucket.size_bytes", "bytes", "sum", "size.2"),
    ("storage.googleapis.com/storage/v2/total_bytes", "bucket.size_bytes", "bytes", "sum", "size.1"),
    ("storage.googleapis.com/network/sent_bytes_count", "bucket.read_bytes", "bytes", "sum", ""),
)

# `*|name`: any namespace, because the agent's is the user's choice.
_AWS = (
    _aws("*|nvidia_smi_utilization_gpu", "gpu.utilization", "percent"),
    _aws("*|nvidia_smi_memory_used", _GPU_MEMORY, "mebibytes", "share", "used"),
    _aws("*|nvidia_smi_memory_free", _GPU_MEMORY, "mebibytes", "share", "free"),
    _aws("*|nvidia_smi_memory_total", _GPU_MEMORY, "mebibytes", "share", "total"),
    _aws("*|cpu_usage_iowait", "cpu.iowait", "percent", "mean"),
    _aws("ContainerInsights|node_gpu_utilization", "gpu.utilization", "percent"),
    _aws("ContainerInsights|node_gpu_memory_used", _GPU_MEMORY, "bytes", "share", "used"),
    _aws("ContainerInsights|node_gpu_memory_total", _GPU_MEMORY, "bytes", "share", "total"),
    _aws("ContainerInsights|node_gpu_tensor_core_utilization", "gpu.tensor_active", "percent", "max"),
    _aws("ContainerInsights|node_neuroncore_utilization", "neuron.utilization", "percent"),
    _aws("AWS/EC2|CPUUtilization", "cpu.utilization", "percent"),
    _aws("AWS/EC2|NetworkIn", "net.received_bytes", "bytes"),
    _aws("AWS/EC2|NetworkOut", "net.sent_bytes", "bytes"),
    _aws("AWS/EC2|EBSReadBytes", "disk.read_bytes", "bytes"),
    _aws("AWS/EC2|EBSWriteBytes", "disk.write_bytes", "bytes"),
    _aws("AWS/EBS|VolumeReadBytes", "disk.read_bytes", "bytes"),
    _aws("AWS/EBS|VolumeWriteBytes", "disk.write_bytes", "bytes"),
    _aws("AWS/EBS|VolumeQueueLength", "disk.queue_length", "count"),
    _aws("AWS/EBS|VolumeThroughputPercentage", "disk.throughput_ratio", "percent"),
    _aws("AWS/EC2|InstanceEBSIOPSExceededCheck", "disk.limit_reached", "ratio", "max", "iops"),
    _aws("AWS/EC2|InstanceEBSThroughputExceededCheck", "disk.limit_reached", "ratio", "max", "throughput"),
    _aws("AWS/EBS|VolumeIOPSExceededCheck", "disk.limit_reached", "ratio", "max", "iops"),
    _aws("AWS/EBS|VolumeThroughputExceededCheck", "disk.limit_reached", "ratio", "max", "throughput"),
    _aws("AWS/EFS|PercentIOLimit", "fs.iops_ratio", "percent"),
    _aws("AWS/FSx|DataReadBytes", "fs.read_bytes", "bytes"),
    _aws("AWS/FSx|DataWriteBytes", "fs.write_bytes", "bytes"),
    _aws("AWS/FSx|FileServerDiskThroughputUtilization", "fs.throughput_ratio", "percent", "max", "disk"),
    _aws("AWS/FSx|NetworkThroughputUtilization", "fs.throughput_ratio", "percent", "max", "network"),
    _aws("AWS/EFS|DataReadIOBytes", "fs.read_bytes", "bytes"),
    _aws("AWS/EFS|DataWriteIOBytes", "fs.write_bytes", "bytes"),
    # Bytes in are what is processed; the Out pair is the same bytes on the other side and stands in where In is absent.
    _aws("AWS/NATGateway|BytesInFromSource", "nat.bytes", "bytes", "sum", "up.1"),
    _aws("AWS/NATGateway|BytesOutToDestination", "nat.bytes", "bytes", "sum", "up.2"),
    _aws("AWS/NATGateway|BytesInFromDestination", "nat.bytes", "bytes", "sum", "down.1"),
    _aws("AWS/NATGateway|BytesOutToSource", "nat.bytes", "bytes", "sum", "down.2"),
    _aws("AWS/NATGateway|ActiveConnectionCount", "nat.active_connections", "count"),
    _aws("AWS/S3|BucketSizeBytes", "bucket.size_bytes", "bytes", "sum"),
    _aws("AWS/S3|BytesDownloaded", "bucket.read_bytes", "bytes", "max"),
    *(
        _aws(f"/aws/sagemaker/{where}|{name}", metric, "percent", "mean")
        for where in ("TrainingJobs", "Endpoints")
        for name, metric in (
            ("GPUUtilization", "gpu.busy_devices"),
            ("GPUMemoryUtilization", "gpu.memory_used_devices"),
        )
    ),
    _aws("AWS/SageMaker|Invocations", "endpoint.invocations", "count", "sum"),
)

_AZURE = (
    _azure("GpuUtilizationPercentage", "gpu.utilization", "percent", "max"),
    _azure("GpuUtilization", "gpu.utilization", "percent", "max"),
    _azure("GpuMemoryUtilizationPercentage", _GPU_MEMORY, "percent", "max"),
    _azure("GpuMemoryUtilization", _GPU_MEMORY, "percent", "max"),
    _azure("GpuUtilizationMilliGPUs", "gpu.utilization", "milligpu", "max"),
    _azure("ThroughputLimitReached", "fs.limit_reached", "ratio", "max"),
    _azure("Percentage CPU", "cpu.utilization", "percent"),
    _azure("CpuUtilizationPercentage", "cpu.utilization", "percent", "mean"),
    _azure("Network In Total", "net.received_bytes", "bytes", statistic="sum"),
    _azure("Network Out Total", "net.sent_bytes", "bytes", statistic="sum"),
    _azure("Data Disk Bandwidth Consumed Percentage", "disk.throughput_ratio", "percent", "max"),
    _azure("OS Disk Bandwidth Consumed Percentage", "disk.throughput_ratio", "percent", "max"),
    _azure("VM Uncached Bandwidth Consumed Percentage", "disk.throughput_ratio", "percent", "max"),
    _azure("VM Cached Bandwidth Consumed Percentage", "disk.throughput_ratio", "percent", "max"),
    _azure("Data Disk IOPS Consumed Percentage", "disk.iops_ratio", "percent", "max"),
    _azure("OS Disk IOPS Consumed Percentage", "disk.iops_ratio", "percent", "max"),
    _azure("VM Uncached IOPS Consumed Percentage", "disk.iops_ratio", "percent", "max"),
    _azure("VM Cached IOPS Consumed Percentage", "disk.iops_ratio", "percent", "max"),
    _azure("Data Disk Queue Depth", "disk.queue_length", "count", "max"),
    _azure("OS Disk Queue Depth", "disk.queue_length", "count", "max"),
    _azure("Disk Read Bytes", "disk.read_bytes", "bytes", statistic="sum"),
    _azure("Disk Write Bytes", "disk.write_bytes", "bytes", statistic="sum"),
    _azure("Data Disk Read Bytes/sec", "disk.read_bytes", "bytespersecond", "sum"),
    _azure("Data Disk Write Bytes/sec", "disk.write_bytes", "bytespersecond", "sum"),
    _azure("OS Disk Read Bytes/sec", "disk.read_bytes", "bytespersecond", "sum"),
    _azure("OS Disk Write Bytes/sec", "disk.write_bytes", "bytespersecond", "sum"),
    _azure("Composite Disk Read Bytes/sec", "disk.read_bytes", "bytespersecond", "sum"),
    _azure("Composite Disk Write Bytes/sec", "disk.write_bytes", "bytespersecond", "sum"),
    _azure("ByteCount", "nat.bytes", "bytes", "sum", statistic="sum"),
    _azure("TotalConnectionCount", "nat.active_connections", "count", "sum", "connections.1"),
    _azure("SNATConnectionCount", "nat.active_connections", "count", "sum", "connections.2"),
    _azure("ReadThroughput", "fs.read_bytes", "bytespersecond", "sum"),
    _azure("WriteThroughput", "fs.write_bytes", "bytespersecond", "sum"),
    _azure("ClientReadThroughput", "fs.read_bytes", "bytespersecond", "sum"),
    _azure("ClientWriteThroughput", "fs.write_bytes", "bytespersecond", "sum"),
    _azure("UsedCapacity", "bucket.size_bytes", "bytes", "sum", "size.1"),
    _azure("BlobCapacity", "bucket.size_bytes", "bytes", "sum", "size.2"),
    _azure("Egress", "bucket.read_bytes", "bytes", "sum", statistic="sum"),
    _azure("RequestsPerMinute", "endpoint.invocations", "perminute", "sum"),
)

SIGNALS = (
    *(Signal("prometheus", *row) for row in exporters.READ),
    *(Signal("gcp", *row) for row in _GCP),
    *_AWS,
    *_AZURE,
)

# Metrics that look like what we want and are not, with the reason a reader is told.
REFUSED = {
    "GPUPowerUtilization": "power is not work",
    "compute.googleapis.com/instance/disk/performance_status": "a state in words, which says nothing of the limit met",
}


class Unit(NamedTuple):
    """A declared unit: what kind of metric may bear it, the factor to ours, and the seconds it is a rate over."""

    kind: str
    unit: str
    factor: float
    rate_seconds: float | None = None


_SIZES = {
    **dict.fromkeys(("bytes", "byte", "by", "b"), 1.0),
    **dict.fromkeys(("kilobytes", "kby"), 1e3),
    **dict.fromkeys(("megabytes", "mby"), 1e6),
    **dict.fromkeys(("gigabytes", "gby"), 1e9),
    **dict.fromkeys(("terabytes", "tby"), 1e12),
    **dict.fromkeys(("kibibytes", "kiby", "kib"), 2.0**10),
    **dict.fromkeys(("mebibytes", "miby", "mib"), 2.0**20),
    **dict.fromkeys(("gibibytes", "giby", "gib"), 2.0**30),
    **dict.fromkeys(("tebibytes", "tiby", "tib"), 2.0**40),
}

UNITS = (
    *(Unit("ratio", unit, 0.01) for unit in ("percent", "%")),
    *(Unit("ratio", unit, 1.0) for unit in ("ratio", "1", "10^2.%")),
    Unit("ratio", "milligpu", 0.001),
    *(Unit("devices", unit, 0.01) for unit in ("percent", "%")),
    *(Unit("bytes", unit, factor) for unit, factor in _SIZES.items()),
    *(
        Unit("bytes", f"{unit}{per}", factor, 1.0)
        for unit, factor in _SIZES.items()
        for per in ("/second", "persecond", "/s")
    ),
    *(Unit("count", unit, 1.0) for unit in ("count", "1", "none", "{connection}", "{request}", "{prediction}")),
    *(Unit("count", unit, 1.0, 1.0) for unit in ("1/s", "count/second", "countpersecond")),
    Unit("count", "perminute", 1.0, 60.0),
    *(Unit("seconds", unit, 1.0) for unit in ("seconds", "s")),
)

# Declared units that declare nothing: the documented unit of the metric holds.
UNDECLARED = ("", "none", "count", "unspecified", "{1}")


def kind(metric: str) -> str:
    """What sort of figure one of our metrics is: ratio, devices, bytes, seconds or count."""
    if metric in RATIOS:
        return "ratio"
    if metric in DEVICES:
        return "devices"
    if metric in BYTES:
        return "bytes"
    return "seconds" if metric == "notebook.last_activity" else "count"
