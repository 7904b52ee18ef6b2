"""Slurm's accounting as inventory: jobs, the nodes they held, and the machines that these nodes are."""

import pytest

from auditor.normalise.inventory.slurm import expand
from tests.normalise.inventory.test_vendor_inventory import load_files

SACCT = """JobID|JobName|User|Account|Partition|State|Start|End|AllocTRES|NodeList|
101|pretrain|alice|ml|gpu|COMPLETED|2026-09-02T01:00:00|2026-09-02T05:30:00|billing=96,cpu=192,gres/gpu:h100=16,gres/gpu=16,node=2|gpu-[001-002]|
101.batch|batch||ml||COMPLETED|2026-09-02T01:00:00|2026-09-02T05:30:00|cpu=96|gpu-001|
102|eval|bob|ml|gpu|RUNNING|1788318000|Unknown|gres/gpu=8|gpu-002|
103|never|bob|ml|gpu|CANCELLED by 1000|None|2026-09-02T05:30:00||None assigned|
"""
JSON = {
    "meta": {"slurm": {"version": {"major": "24"}}},
    "jobs": [
        {
            "job_id": 101,
            "name": "pretrain",
            "cluster": "c1",
            "account": "ml",
            "user": "alice",
            "partition": "gpu",
            "nodes": "gpu-[001-002]",
            "state": {"current": ["COMPLETED"], "reason": "None"},
            "time": {"start": 1788310800, "end": 1788327000, "elapsed": 16200},
            "tres": {
                "allocated": [
                    {"type": "cpu", "name": "", "id": 1, "count": 192},
                    {"type": "gres", "name": "gpu", "id": 1001, "count": 16},
                    {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 16},
                ]
            },
        }
    ],
}
COMPUTE = "https://www.googleapis.com/compute/v1/projects/acme-ml"
NODES = [
    {
        "kind": "compute#instance",
        "id": f"123456789012345670{number}",
        "name": f"gpu-00{number}",
        "zone": f"{COMPUTE}/zones/us-central1-a",
        "machineType": f"{COMPUTE}/zones/us-central1-a/machineTypes/a3-highgpu-8g",
        "selfLink": f"{COMPUTE}/zones/us-central1-a/instances/gpu-00{number}",
        "status": "RUNNING",
    }
    for number in (1, 2)
]


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("gpu-[001-003,7],login", ["gpu-001", "gpu-002", "gpu-003", "gpu-7", "login"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("one", ["one"]),
        ("None assigned", []),
        ("gpu-[1-999999999]", []),
    ],
)
def test_a_host_list_names_every_node(nodes, names):
    assert expand(nodes) == names


def test_a_job_of_the_parsable_table_has_its_time_devices_and_machines(tmp_path):
    rows, reports = load_files(tmp_path, {"sacct.txt": SACCT, "instances.json": NODES})
    job = rows["slurm/101"]
    machines = sorted(one for one, row in rows.items() if row["resource_type"] == "instance")
    assert (job["provider"], job["account_id"], job["resource_type"], job["state"]) == (
        "gcp",
        "acme-ml",
        "training_job",
        "completed",
    )
    assert job["related"]["nodes"] == machines
    assert (
        job["attributes"]
        | {
            "job": "pretrain (slurm 101)",
            "started_at": "2026-09-02 01:00:00",
            "ended_at": "2026-09-02 05:30:00",
            "accelerator_count": 16,
            "accelerator_model": "H100",
            "machine_type": "a3-highgpu-8g",
            "user": "alice",
        }
        == job["attributes"]
    )
    assert {one for one in rows if one.startswith("slurm/")} == {
        "slurm/101",
        "slurm/102",
    }  # no step, no job without a node
    assert rows["slurm/102"]["attributes"]["started_at"] == "2026-09-02 03:00:00"
    assert "ended_at" not in rows["slurm/102"]["attributes"]
    assert "UTC" in next(report.message for report in reports if report.format == "slurm-sacct")


def test_the_json_form_says_the_same(tmp_path):
    rows, reports = load_files(tmp_path, {"sacct.json": JSON, "instances.json": NODES})
    job = rows["slurm/c1/101"]
    assert reports[0].format == "slurm-sacct-json"
    assert (job["provider"], len(job["related"]["nodes"])) == ("gcp", 2)
    assert (job["attributes"]["started_at"], job["attributes"]["ended_at"]) == (
        "2026-09-02 01:00:00",
        "2026-09-02 05:30:00",
    )
    assert (job["attributes"]["accelerator_count"], job["attributes"]["accelerator_model"]) == (16, "H100")


def test_nodes_that_no_inventory_knows_leave_the_job_without_a_cloud(tmp_path):
    rows, _ = load_files(tmp_path, {"sacct.txt": SACCT})
    assert (rows["slurm/101"]["provider"], rows["slurm/101"]["related"]["nodes"]) == ("slurm", ["gpu-001", "gpu-002"])


def test_a_long_answer_that_begins_with_its_version_is_recognised(tmp_path):
    many = {
        "meta": JSON["meta"],
        "errors": [],
        "jobs": [{**JSON["jobs"][0], "job_id": number, "comment": "x" * 5000} for number in range(1, 101)],
    }
    rows, reports = load_files(tmp_path, {"sacct.json": many})
    assert (reports[0].format, len(rows)) == ("slurm-sacct-json", 100)
