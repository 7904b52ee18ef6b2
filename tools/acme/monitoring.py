"""Which machine is measured by what, and the files with the samples of September."""

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acme.aws import BY_NAME, LABEL_INFER, MACHINES, NAT_GB_AN_HOUR, nat_arn, nat_gigabytes
from acme.azure import AZURE_NATS, AZURE_VM, azure_nat
from acme.files import csv_text, write_gzip, write_parquet
from acme.gcp import ROUTER, ROUTER_GIB_A_DAY, VM
from acme.telemetry import (
    Gpu,
    at_night,
    busy,
    by_day,
    cloud_monitoring_document,
    gpu_samples,
    idle,
    prometheus_document,
    until,
)
from acme.truth import AS_OF, BILLED_FROM, DAY, HOUR, SEED, WATCHED_FROM, Row, rfc3339, steps

IDLE_SINCE = datetime(2026, 9, 9, tzinfo=UTC)
AZURE_IDLE_SINCE = datetime(2026, 9, 12, tzinfo=UTC)


def aws_gpu(
    name: str, devices: int, load: Callable[[datetime, random.Random], float], memory: float, channel: str = "metrics"
) -> Gpu:
    machine = BY_NAME[name]
    return Gpu("aws", machine.id, devices, load, memory, max(machine.start, WATCHED_FROM), machine.end, channel)


GPUS = (
    aws_gpu("sim-batch-01", 8, until(IDLE_SINCE), 0.62),
    aws_gpu("train-llm-01", 8, busy, 0.91),
    aws_gpu("train-grasp-01", 1, busy, 0.88),
    aws_gpu("nightly-eval", 1, at_night, 0.55),
    aws_gpu("encode-video", 1, busy, 0.34),
    aws_gpu("scratch-new", 4, idle, 0),
    aws_gpu("sweep-77", 1, busy, 0.71),
    aws_gpu("lena-notebook", 1, idle, 0, "prometheus"),
    aws_gpu("serve-pick", 1, by_day, 0.4, "prometheus"),
    Gpu("aws", LABEL_INFER.id, 1, busy, 0.5, channel="prometheus"),
    Gpu("gcp", VM["train-nav-01"].global_name, 8, busy, 0.86),
    Gpu("gcp", VM["label-batch"].global_name, 1, busy, 0.47),
    Gpu("gcp", VM["dev-marco"].global_name, 1, idle, 0, channel="cloud_monitoring"),
    Gpu("gcp", VM["serve-map-01"].global_name, 1, by_day, 0.4, channel="cloud_monitoring"),
    Gpu("azure", AZURE_VM["vm-sim-01"].id, 1, until(AZURE_IDLE_SINCE), 0.58),
    Gpu("azure", AZURE_VM["vm-policy-train"].id, 1, busy, 0.83),
    Gpu("azure", AZURE_VM["vm-serve-01"].id, 1, by_day, 0.44),
)
METRIC_COLUMNS = ("time", "provider", "resource_id", "device", "metric", "value")


def other_samples() -> Iterator[Row]:
    """Bytes through the gateways, and the CPU of the machine whose GPU does all the work."""

    def sample(when: datetime, provider: str, resource_id: str, metric: str, value: Any) -> Row:
        return dict(zip(METRIC_COLUMNS, (rfc3339(when), provider, resource_id, "", metric, value), strict=True))

    for vpc in ("train", "sandbox", "serve"):
        for when, amount in nat_gigabytes(vpc, NAT_GB_AN_HOUR[vpc], BILLED_FROM, HOUR):
            if when >= WATCHED_FROM:
                yield sample(when, "aws", nat_arn(vpc), "nat.bytes", int(amount * 10**9))
    by_the_day = [("aws", nat_arn("vision"), "vision", NAT_GB_AN_HOUR["vision"] * 24, 10**9)]
    by_the_day.append(("gcp", ROUTER, "router", ROUTER_GIB_A_DAY, 2**30))
    by_the_day += [("azure", azure_nat(name), name, mean, 10**9) for name, (_, mean) in AZURE_NATS.items()]
    for provider, resource_id, name, mean, size in by_the_day:
        for day, amount in nat_gigabytes(name, mean, BILLED_FROM, DAY):
            for when in steps(day, day + DAY, HOUR):
                if when >= WATCHED_FROM:
                    yield sample(when, provider, resource_id, "nat.bytes", int(amount * size / 24))
    rng = random.Random(f"{SEED}/cpu")
    for when in steps(WATCHED_FROM, AS_OF, HOUR):
        yield sample(when, "aws", BY_NAME["encode-video"].id, "cpu.utilization", round(rng.uniform(0.01, 0.03), 3))


def make_monitoring(root: Path) -> None:
    folder = root / "monitoring"
    columns = dict.fromkeys(METRIC_COLUMNS, "VARCHAR") | {"time": "TIMESTAMPTZ", "value": "DOUBLE"}
    rows = (row for gpu in GPUS if gpu.channel == "metrics" for row in gpu_samples(gpu))
    write_parquet(folder / "metrics-gpu.parquet", columns, rows)
    write_gzip(folder / "metrics-network.csv.gz", csv_text(METRIC_COLUMNS, other_samples()))
    zones = {machine.id: machine.zone for machine in (*MACHINES, LABEL_INFER)}
    dcgm = prometheus_document((gpu for gpu in GPUS if gpu.channel == "prometheus"), zones)
    write_gzip(folder / "prometheus-dcgm-gpu-util.json.gz", json.dumps(dcgm))
    monitoring = cloud_monitoring_document(gpu for gpu in GPUS if gpu.channel == "cloud_monitoring")
    write_gzip(folder / "cloud-monitoring-gpu.json.gz", json.dumps(monitoring))
