"""Against a real Prometheus: an audit of what is collected is the audit of the files."""

import gzip
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.cli.request import make_request
from auditor.collect import prometheus as collector
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.local import gather
from auditor.collect.work import Collection
from auditor.normalise.recognise import sort_files
from auditor.normalise.telemetry import finish, load
from auditor.progress import Silent
from auditor.scan import scan
from auditor.settings import Limits, PrometheusSource

from .real import FOUND, open_metrics, prometheus

pytestmark = pytest.mark.skipif(None in FOUND, reason="prometheus and promtool are not installed")

ESTATE = Path(__file__).resolve().parents[3] / "examples" / "estate"
START = datetime(2026, 9, 28, tzinfo=UTC)
DAY = timedelta(days=1)


def pull(path: Path, url: str, start: datetime, end: datetime, **about: Any) -> int:
    """Collects; the number of calls."""
    source = PrometheusSource(name=path.name, url=url, **about)
    now = end + timedelta(hours=1)
    with LandingFolder(path, path.name, None, now) as folder:
        budget = Budget(Limits())
        collector.collect(source, Collection(folder, budget, Limits(), start, end, now, Silent(), path))
        assert folder.problems == []
        used = budget.take()
        folder.finish(used, now)
        return sum(each.calls for each in used)


def metrics(*paths: Path) -> list[tuple[Any, ...]]:
    """What the audit reads of the files: resource, device, metric, time, value."""
    found = sort_files(gather([str(path) for path in paths], paths[0])[0])
    con = duckdb.connect()
    load(con, [each for each in found.recognised if each.kind == "telemetry"])
    finish(con)
    rows = con.execute("select resource_id, device, metric, time, value from metrics order by all").fetchall()
    con.close()
    return rows


def machine_samples(hours: int) -> Iterator[tuple[str, dict[str, str], float, float]]:
    """A GPU node of Kubernetes: its devices, and counters that start again in between."""
    at = [START.timestamp() + 300 * each for each in range(12 * hours)]
    node = {"node": "gpu-a", "provider_id": "aws:///us-east-1a/i-0123456789abcdef0"}
    yield from (("kube_node_info", node, when, 1.0) for when in at)
    gpu = {"gpu": "0", "UUID": "GPU-1", "Hostname": "gpu-a", "instance": "10.0.0.1:9400"}
    for place, when in enumerate(at):
        yield "DCGM_FI_DEV_GPU_UTIL", gpu, when, float(place % 100)
    for name, value in (("USED", 30000.0), ("FREE", 10000.0)):
        yield from ((f"DCGM_FI_DEV_FB_{name}", gpu, when, value) for when in at)
    disk = {"device": "nvme0n1", "node": "gpu-a", "instance": "10.0.0.1:9100"}
    for place, when in enumerate(at):
        yield "node_disk_read_bytes_total", disk, when, 1e6 * (place % 100)  # restarts every hundred readings
    for place, when in enumerate(at):
        yield "node_network_receive_bytes_total", {**disk, "device": "eth0"}, when, 5e5 * place
    yield from (("node_network_receive_bytes_total", {**disk, "device": "lo"}, when, 9e9) for when in at)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), open_metrics(machine_samples(72))) as address:
        yield address


def test_sums_over_several_collections_are_those_of_one(url: str, tmp_path: Path) -> None:
    end = START + 3 * DAY
    pull(tmp_path / "once", url, START, end)
    for day in (1, 2, 3):
        pull(tmp_path / "daily", url, START, START + day * DAY)
    once, daily = metrics(tmp_path / "once"), metrics(tmp_path / "daily")
    assert once == daily
    machine = "i-0123456789abcdef0"
    assert {row[0] for row in once} == {machine}
    total = {name: sum(row[4] for row in once if row[2] == name) for name in ("disk.read_bytes", "net.received_bytes")}
    readings = 12 * 72
    restarts = (readings - 1) // 100
    assert total["disk.read_bytes"] == 1e6 * (readings - 1 - restarts)  # a restart from 0 shows no growth
    assert total["net.received_bytes"] == 5e5 * (readings - 1)
    assert {row[4] for row in once if row[2] == "gpu.memory_used_ratio"} == {0.75}
    assert len([row for row in once if row[2] == "gpu.utilization"]) == readings


def test_nothing_is_asked_for_twice(url: str, tmp_path: Path) -> None:
    assert pull(tmp_path / "a", url, START, START + DAY) > 0
    assert pull(tmp_path / "a", url, START, START + DAY) == 0


def test_doctor_says_whether_accelerators_are_measured(url: str) -> None:
    said = list(collector.check(PrometheusSource(name="cluster", url=url)))
    assert next((each.state, each.text.partition(" ")[0]) for each in said) == ("ok", url)
    missing = said[1]  # the samples are of the past
    assert (missing.state, missing.fix is not None and "dcgm-exporter" in missing.fix) == ("bad", True)
    gone = list(collector.check(PrometheusSource(name="cluster", url="http://127.0.0.1:1")))
    assert [(each.state, each.fix) for each in gone] == [("bad", "check `url`, and the way there from here")]


@pytest.mark.slow
def test_a_collected_audit_finds_what_the_audit_of_the_files_finds(tmp_path: Path) -> None:
    given = tmp_path / "given"
    for name in ("aws/cur2", "inventory/aws", "monitoring"):
        shutil.copytree(ESTATE / name, given / name)
    exported = given / "monitoring" / "prometheus-dcgm-gpu-util.json.gz"
    document = json.loads(gzip.decompress(exported.read_bytes()))
    samples = (
        (
            series["metric"]["__name__"],
            {key: text for key, text in series["metric"].items() if key != "__name__"},
            at,
            float(value),
        )
        for series in document["data"]["result"]
        for at, value in series["values"]
    )
    offline = audit(given)
    exported.unlink()
    assert audit(given) != offline, "without these metrics the audit is another one"
    with prometheus(tmp_path / "server", open_metrics(samples)) as address:
        first, last = datetime(2026, 8, 28, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
        pull(tmp_path / "cluster", address, first, last, step_seconds=3600)
    assert audit(given, tmp_path / "cluster") == offline
    assert metrics(tmp_path / "cluster") == metrics_of(document, tmp_path / "again")


def metrics_of(document: Any, folder: Path) -> list[tuple[Any, ...]]:
    folder.mkdir()
    (folder / "answer.json").write_text(json.dumps(document), "utf-8")
    return metrics(folder)


def audit(*paths: Path) -> list[tuple[Any, ...]]:
    request = make_request(paths=tuple(str(path) for path in paths), as_of=date(2026, 10, 1))
    found = scan(request, Silent(), datetime(2026, 10, 3, 6, tzinfo=UTC)).document["findings"]
    assert found
    return sorted(
        (each["rule_id"], str(each["resource_id"]), str(each["monthly_savings"]), each["severity"]) for each in found
    )
