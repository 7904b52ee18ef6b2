"""What is read of a Prometheus: the metrics of the exporters beside machines, and which of their series count.

The collector asks for these and the normaliser reads these, so that nothing is fetched in vain.
"""

# A metric (with the mode of a CPU counter in braces), and how `auditor.normalise.telemetry.signals` takes it.
READ = (
    ("DCGM_FI_DEV_GPU_UTIL", "gpu.utilization", "percent", "direct", ""),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gpu.utilization", "ratio", "fallback", "1"),
    ("DCGM_FI_PROF_SM_ACTIVE", "gpu.sm_active", "ratio", "max", ""),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gpu.tensor_active", "ratio", "max", ""),
    ("DCGM_FI_DEV_FB_USED", "gpu.memory_used_ratio", "mebibytes", "share", "used"),
    ("DCGM_FI_DEV_FB_FREE", "gpu.memory_used_ratio", "mebibytes", "share", "free"),
    ("DCGM_FI_DEV_FB_RESERVED", "gpu.memory_used_ratio", "mebibytes", "share", "reserved"),
    ("DCGM_FI_DEV_FB_TOTAL", "gpu.memory_used_ratio", "mebibytes", "share", "total"),
    ("nvidia_smi_utilization_gpu_ratio", "gpu.utilization", "ratio", "direct", ""),
    ("nvidia_smi_memory_used_bytes", "gpu.memory_used_ratio", "bytes", "share", "used"),
    ("nvidia_smi_memory_total_bytes", "gpu.memory_used_ratio", "bytes", "share", "total"),
    ("neuroncore_utilization_ratio", "neuron.utilization", "ratio", "direct", ""),
    ("node_cpu_seconds_total{iowait}", "cpu.iowait", "ratio", "mean", ""),
    ("node_cpu_seconds_total{idle}", "cpu.utilization", "ratio", "mean", ""),
    ("node_disk_read_bytes_total", "disk.read_bytes", "bytes", "direct", ""),
    ("node_disk_written_bytes_total", "disk.write_bytes", "bytes", "direct", ""),
    ("node_disk_io_time_weighted_seconds_total", "disk.queue_length", "count", "direct", ""),
    ("node_network_receive_bytes_total", "net.received_bytes", "bytes", "sum", ""),
    ("node_network_transmit_bytes_total", "net.sent_bytes", "bytes", "sum", ""),
)

COUNTERS = frozenset(
    {
        "node_cpu_seconds_total",
        "node_disk_read_bytes_total",
        "node_disk_written_bytes_total",
        "node_disk_io_time_weighted_seconds_total",
        "node_network_receive_bytes_total",
        "node_network_transmit_bytes_total",
    }
)

NODES = "kube_node_info"  # its labels tell which machine a node of Kubernetes is

CPU_MODES = ("iowait", "idle")
# Partitions of other devices, and the inner side of containers: their bytes pass a real device as well.
NO_DISKS = "^(loop|ram|dm-|sr)"
NO_NETWORKS = "^(lo|veth|docker|cni|cali|flannel|br-)"


def metrics() -> list[str]:
    """The names to ask for, each once, in the order in which they matter."""
    return list(dict.fromkeys([NODES, *(name.partition("{")[0] for name, *_ in READ)]))


def matchers(metric: str) -> list[str]:
    """Label matchers that leave out the series of a metric that are never read."""
    if metric == "DCGM_FI_DEV_GPU_UTIL":
        return ['GPU_I_ID=""']  # of a partition it reads 0 or nothing
    if metric.startswith("node_cpu"):
        return [f'mode=~"{"|".join(CPU_MODES)}"']
    if metric.startswith("node_disk"):
        return [f'device!~"{NO_DISKS}.*"']
    if metric.startswith("node_network"):
        return [f'device!~"{NO_NETWORKS}.*"']
    return []
