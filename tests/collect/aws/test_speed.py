"""A thousand machines and thirty days: how many requests, how much memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collect.aws.estate import serve_lists
from tests.collect.aws.server import BASE, Aws, epoch

MACHINES, HOURS = 1000, 720
_COLLECT = """
import json, resource, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from auditor.collect import aws
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.work import Collection
from auditor.progress import Silent
from auditor.settings import AwsSource, Limits

now = datetime(2026, 10, 1, 0, 30, tzinfo=UTC)
end = now.replace(minute=0)
limits = Limits()
source = AwsSource(name="aws", endpoint_url=sys.argv[1], regions=["us-east-1"])
with LandingFolder(Path(sys.argv[2]), "aws", "aws", now) as folder:
    aws.collect(source, Collection(folder, Budget(limits), limits, end - timedelta(days=30), end, now, Silent(), Path(sys.argv[2])))
    print(json.dumps({
        "problems": [one.reason for one in folder.problems],
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "bytes": sum(one.size for one in folder.entries.values()),
    }))
"""


@pytest.mark.slow
def test_a_thousand_machines_take_the_fewest_requests_that_the_limits_allow_and_little_memory(
    aws: Aws, url: str, tmp_path: Path
) -> None:
    start = epoch("2026-09-01T00:00:00")
    busy = [(start + 3600 * hour, 90.0 + hour % 7 / 10) for hour in range(HOURS)]
    names = [f"i-{number:017x}" for number in range(MACHINES)]
    serve_lists(
        aws,
        {
            (BASE, "us-east-1", "Reservations"): [
                {"Instances": [{"InstanceId": one, "InstanceType": "g5.xlarge"}]} for one in names
            ]
        },
    )
    for name in names:
        for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
            aws.put(BASE, "us-east-1", "AWS/EC2", metric, busy, InstanceId=name)
        for metric in ("utilization_gpu", "memory_used", "memory_total"):
            aws.put(BASE, "us-east-1", "CWAgent", f"nvidia_smi_{metric}", busy, InstanceId=name, index="0")
    command = [sys.executable, "-c", _COLLECT, url, str(tmp_path / "landing")]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert told["problems"] == []
    queries = [len(call.parameters["MetricDataQueries"]) for call in aws.calls if call.operation == "GetMetricData"]
    assert sum(queries) == 8 * MACHINES  # five of the machine, three of its device
    fewest = -(-8 * MACHINES * HOURS // 100_800)
    assert len(queries) <= 1.1 * fewest, (len(queries), fewest)
    # 1,000 machines a page; 500 metrics a page of a listing, three names of which nothing is known and the buckets' two
    assert aws.count("DescribeInstances") == 1
    assert aws.count("ListMetrics") == 2 + 1 + 2 + 2
    assert told["peak_mib"] < 500
    print(f"{len(queries)} requests of at least {fewest}, {told['peak_mib']:.0f} MiB, {told['bytes']:,} bytes landed")
