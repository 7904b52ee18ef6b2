"""Load curves of accelerators, and the three forms in which monitoring systems hand them out."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from acme.truth import AS_OF, GCP_PROJECTS, HOUR, SEED, WATCHED_FROM, Row, guid, rfc3339, steps


@dataclass(frozen=True)
class Gpu:
    """One accelerator machine as monitoring sees it; `load` gives utilisation (0-1) from the hour and a random source."""

    provider: str
    resource_id: str
    devices: int
    load: Callable[[datetime, random.Random], float]
    memory: float = 0.0
    start: datetime = WATCHED_FROM
    end: datetime = AS_OF
    channel: str = "metrics"


def busy(_: datetime, rng: random.Random) -> float:
    return rng.uniform(0.78, 0.97)


def idle(_: datetime, rng: random.Random) -> float:
    return rng.uniform(0, 0.012)


def at_night(when: datetime, rng: random.Random) -> float:
    return rng.uniform(0.7, 0.95) if 1 <= when.hour < 6 else rng.uniform(0, 0.01)


def by_day(when: datetime, rng: random.Random) -> float:
    """An endpoint that is never asked much, and asked most in the afternoon."""
    return 0.08 + (0.42 if 8 <= when.hour < 18 else 0.04) * rng.uniform(0.6, 1)


def until(end: datetime) -> Callable[[datetime, random.Random], float]:
    return lambda when, rng: busy(when, rng) if when < end else idle(when, rng)


def gpu_series(gpu: Gpu) -> Iterator[tuple[int, list[tuple[datetime, float]]]]:
    for device in range(gpu.devices):
        rng = random.Random(f"{SEED}/{gpu.resource_id}/{device}")
        yield device, [(when, round(gpu.load(when, rng), 3)) for when in steps(gpu.start, gpu.end, HOUR)]


def gpu_samples(gpu: Gpu) -> Iterator[Row]:
    for device, points in gpu_series(gpu):
        for metric in ("gpu.utilization", "gpu.memory_used_ratio"):
            for when, value in points:
                held = gpu.memory if value > 0.05 else 0.0
                yield {
                    "time": rfc3339(when),
                    "provider": gpu.provider,
                    "resource_id": gpu.resource_id,
                    "device": str(device),
                    "metric": metric,
                    "value": value if metric == "gpu.utilization" else held,
                }


def prometheus_document(gpus: Iterable[Gpu], zones: Mapping[str, str]) -> Row:
    """The answer of `query_range` for the DCGM exporter: percent, values as text."""
    result = []
    for host, gpu in enumerate(gpus, start=10):
        for device, points in gpu_series(gpu):
            labels = {
                "__name__": "DCGM_FI_DEV_GPU_UTIL",
                "Hostname": f"ip-10-1-0-{host}.ec2.internal",
                "UUID": f"GPU-{guid(gpu.resource_id + str(device))}",
                "device": f"nvidia{device}",
                "gpu": str(device),
                "instance": f"10.1.0.{host}:9400",
                "job": "dcgm-exporter",
                "modelName": "NVIDIA A10G",
                "provider_id": f"aws:///{zones[gpu.resource_id]}/{gpu.resource_id}",
            }
            values = [[int(when.timestamp()), f"{value * 100:g}"] for when, value in points]
            result.append({"metric": labels, "values": values})
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def cloud_monitoring_document(gpus: Iterable[Gpu]) -> Row:
    """The answer of `timeSeries.list` for the Ops Agent: percent, the newest point first."""
    series = []
    for gpu in gpus:
        _, _, _, _, project_number, _, zone, _, instance = gpu.resource_id.split("/")
        project = next(name for name, value in GCP_PROJECTS.items() if value == project_number)
        for device, points in gpu_series(gpu):
            series.append(
                {
                    "metric": {
                        "type": "agent.googleapis.com/gpu/utilization",
                        "labels": {"gpu_number": str(device), "model": "A100", "uuid": f"GPU-{guid(instance)}"},
                    },
                    "resource": {
                        "type": "gce_instance",
                        "labels": {"project_id": project, "instance_id": instance, "zone": zone},
                    },
                    "metricKind": "GAUGE",
                    "valueType": "DOUBLE",
                    "points": [
                        {
                            "interval": {
                                "startTime": rfc3339(when),
                                "endTime": rfc3339(when),
                            },
                            "value": {"doubleValue": round(value * 100, 1)},
                        }
                        for when, value in reversed(points)
                    ],
                }
            )
    return {"timeSeries": series, "unit": "%"}
