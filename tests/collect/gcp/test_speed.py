"""A large estate: a thousand machines with thirty days of hourly figures, and bills of many pages."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from auditor.collect.gcp import metrics
from tests.collect.gcp.conftest import NOW
from tests.collect.gcp.server import FakeGoogle
from tests.collect.gcp.test_metrics import GPU, PROJECT, vm

MACHINES, DAYS = 1000, 30

# the collection as a process of its own, so that its memory is its own
_COLLECT = """
import json, sys
from datetime import datetime, timedelta
from pathlib import Path
from auditor import collect
from auditor.progress import Silent
from auditor.settings import Settings
url, root, now = sys.argv[1], Path(sys.argv[2]), datetime.fromisoformat(sys.argv[3])
source = {"name": "prod", "projects": ["acme-ml"], "inventory": False, "endpoint_url": url}
settings = Settings.model_validate({"sources": {"gcp": [source]}, "audit": {"lookback_days": 27}})
(made,) = collect.collect(settings, root / "landing", root, Silent(), now)
# of this program alone: what getrusage tells is also that of the process it was forked from
peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
print(json.dumps({"problems": len(made.problems), "peak": peak * 1024, "files": made.files}))
"""


def run(google: FakeGoogle, root: Path, now: Any) -> dict[str, Any]:
    asked = [sys.executable, "-c", _COLLECT, google.url, str(root), now.isoformat()]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=os.environ, timeout=600)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.slow
def test_a_thousand_machines_take_the_least_requests_and_little_memory(google: FakeGoogle, tmp_path: Path) -> None:
    hours = [NOW.replace(minute=0) - timedelta(hours=hour, minutes=30) for hour in range(DAYS * 24 + 6)]
    for number in range(MACHINES):
        google.series[(PROJECT, GPU)].append(vm(number, 0, [(when, 7.0) for when in hours]))
    told = run(google, tmp_path, NOW)
    assert told["problems"] == 0 and told["files"] == 1
    kinds = sum(len(family) for _, family in metrics.FAMILIES.values())
    least = kinds - 1 + ceil(MACHINES * len(hours) / 100_000)  # one for each kind that is empty, 100,000 points a page
    assert len(google.asked("timeSeries")) <= 1.1 * least
    assert told["peak"] < 500 * 2**20
    before = len(google.requests)
    told = run(google, tmp_path, NOW + timedelta(minutes=20))
    assert len(google.requests) == before and told["files"] == 1


def test_a_page_s_token_is_found_in_its_last_key_and_in_no_label() -> None:
    labels = {"text": 'a "nextPageToken": "wrong" and "metricKind": \\'}
    page = {"timeSeries": [{"metric": {"labels": labels}, "metricKind": "GAUGE"}], "nextPageToken": "ri/ght=="}
    raw = json.dumps(page).encode()
    assert [one[1] for one in metrics._TOKEN.finditer(raw)] == [b"ri/ght=="]
    assert len(metrics._SERIES.findall(raw)) == 1
