"""A thousand machines: as few requests as the documented limits allow, in little memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from auditor import exporters

from .fake import Question, Reply, packed, serve

MACHINES, DEVICES, DAYS = 1000, 8, 30

_CHILD = """
import resource, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from auditor.collect import prometheus
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.work import Collection
from auditor.progress import Silent
from auditor.settings import Limits, PrometheusSource

path, end = Path(sys.argv[2]), datetime(2026, 10, 31, tzinfo=UTC)
source = PrometheusSource(name="cluster", url=sys.argv[1], step_seconds=3600)
with LandingFolder(path, "cluster", None, end) as folder:
    budget = Budget(Limits())
    start, now = end - timedelta(days=30), end + timedelta(hours=1)
    prometheus.collect(source, Collection(folder, budget, Limits(), start, end, now, Silent(), path))
    assert not folder.problems, folder.problems
print(sum(use.calls for use in budget.take()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def answer(metric: str, devices: int, question: Question) -> bytes:
    times = range(int(question["start"]), int(question["end"]) + 1, int(question["step"]))
    values = json.dumps([[each, "42.5"] for each in times], separators=(",", ":"))
    series = (
        f'{{"metric":{{"__name__":"{metric}","gpu":"{gpu}","Hostname":"node-{machine}"}},"values":{values}}}'
        for machine in range(MACHINES)
        for gpu in range(devices)
    )
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[{",".join(series)}]}}}}'.encode()


@pytest.mark.slow
def test_a_thousand_machines_take_one_request_a_metric_and_little_memory(tmp_path: Path) -> None:
    counts = {metric: MACHINES * (DEVICES if metric.startswith("DCGM") else 1) for metric in exporters.metrics()}
    vector = [{"metric": {"__name__": name}, "value": [0, str(count)]} for name, count in counts.items()]
    told = json.dumps({"status": "success", "data": {"resultType": "vector", "result": vector}}).encode()
    made: dict[tuple[str, str, int], Reply] = {}

    def reply(question: Question) -> Reply:
        if question["path"].endswith("/query"):
            return 200, {}, told
        metric = question["query"].partition("{")[0]
        devices = DEVICES if metric.startswith("DCGM") else 1
        key = (question["start"], question["end"], devices)  # names differ, sizes do not
        if key not in made:
            made[key] = (200, *packed(answer(metric, devices, question)))
        return made[key]

    with serve() as fake:
        fake.reply = reply
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, fake.url, str(tmp_path)], check=True, capture_output=True, text=True
        )
    calls, mebibytes = map(int, done.stdout.split())
    # 30 days of hours are 720 of the 11,000 points, and 8,000 series of them 5.8 million of the 10 million samples
    assert calls == len(exporters.metrics()) + 1
    assert mebibytes < 250
