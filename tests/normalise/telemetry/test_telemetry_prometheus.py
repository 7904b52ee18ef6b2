"""Prometheus answers."""

import json
from datetime import datetime

import pytest

from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.telemetry import load

NODE = "i-0aaaabbbbccccdddd"
PROVIDER_ID = f"aws:///us-east-1a/{NODE}"
START = 1790812800  # 2026-10-01T00:00:00Z


def series(name, values, **labels):
    return {"metric": {"__name__": name, **labels}, "values": [[START + 60 * i, str(v)] for i, v in enumerate(values)]}


def matrix(*result):
    return {"status": "success", "data": {"resultType": "matrix", "result": list(result)}}


def test_percent_becomes_a_ratio_on_the_machine_the_provider_id_names(lake):
    path = lake.put(
        "p.json.gz",
        matrix(
            series("DCGM_FI_DEV_GPU_UTIL", [50], Hostname="ip-10-0-0-1.ec2.internal", gpu="0", provider_id=PROVIDER_ID),
            series(
                "DCGM_FI_DEV_GPU_UTIL", [25], hostname="vm", gpu="1", provider_id="gce://acme-ml/us-central1-a/vm-1"
            ),
            series(
                "DCGM_FI_DEV_GPU_UTIL",
                [75],
                hostname="vm",
                gpu="1",
                provider_id="azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/v",
            ),
            series("DCGM_FI_DEV_GPU_UTIL", [10], hostname="rack-7", gpu="0"),
        ),
    )
    (report,) = lake.load(path)
    assert (report.status, report.rows) == ("ok", 4)
    assert lake.rows("provider, resource_id, value") == [
        ("aws", NODE, 0.5),
        ("azure", "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/v", 0.75),
        ("gcp", "//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/vm-1", 0.25),
        (None, "rack-7", 0.1),
    ]
    assert lake.rows("distinct time") == [(datetime(2026, 10, 1),)]


def test_blank_readings_are_dropped_and_counted(lake):
    (report,) = lake.load(
        lake.put(
            "p.json", matrix(series("DCGM_FI_DEV_GPU_UTIL", [9223372036854775794, "NaN", 30], hostname="h", gpu="0"))
        )
    )
    assert lake.rows("value") == [(0.3,)]
    assert "2 samples dropped" in report.message


def test_a_partitioned_gpu_is_as_busy_as_its_busiest_slice_and_its_device_utilisation_is_ignored(lake):
    slices = {"hostname": NODE, "gpu": "0", "UUID": "GPU-1", "GPU_I_PROFILE": "1g.10gb"}
    lake.load(
        lake.put(
            "p.json",
            matrix(
                series("DCGM_FI_DEV_GPU_UTIL", [0], **slices, GPU_I_ID="7"),
                series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [0.1], **slices, GPU_I_ID="7"),
                series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [0.6], **slices, GPU_I_ID="8"),
                series("DCGM_FI_DEV_GPU_UTIL", [40], hostname=NODE, gpu="1"),
                series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [0.9], hostname=NODE, gpu="1"),
            ),
        )
    )
    assert lake.rows("device, value") == [("0", 0.6), ("1", 0.4)]


def test_the_zero_of_a_partitioned_gpu_does_not_hide_the_work_of_its_slices(lake):
    """The collector asks for the whole devices only, and a partitioned one reads 0."""
    lake.load(
        lake.put(
            "p.json",
            matrix(
                series("DCGM_FI_DEV_GPU_UTIL", [0, 0], hostname=NODE, gpu="0"),
                series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [0.6, 0], hostname=NODE, gpu="0", GPU_I_ID="7"),
                series("DCGM_FI_DEV_GPU_UTIL", [0, 40], hostname=NODE, gpu="1"),
                series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [0.1, 0.9], hostname=NODE, gpu="1"),
                series("DCGM_FI_DEV_GPU_UTIL", [0, 0], hostname=NODE, gpu="2"),
                series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [0, 0], hostname=NODE, gpu="2"),
            ),
        )
    )
    assert lake.rows("device, value") == [("0", 0), ("0", 0.6), ("1", 0), ("1", 0.4), ("2", 0), ("2", 0)]


def test_memory_is_used_over_the_whole_across_files_and_pods(lake):
    labels = {"hostname": NODE, "gpu": "0"}
    lake.load(
        lake.put(
            "used.json",
            matrix(
                series("DCGM_FI_DEV_FB_USED", [20000], **labels, exported_pod="a"),
                series("DCGM_FI_DEV_FB_USED", [20000], **labels, exported_pod="b"),
            ),
        ),
        lake.put("free.json", matrix(series("DCGM_FI_DEV_FB_FREE", [59000], **labels))),
        lake.put("reserved.json", matrix(series("DCGM_FI_DEV_FB_RESERVED", [1000], **labels))),
    )
    assert lake.rows("metric, device, value") == [("gpu.memory_used_ratio", "0", 0.25)]


def test_used_memory_without_its_whole_is_said_not_guessed(lake):
    lake.load(lake.put("used.json", matrix(series("DCGM_FI_DEV_FB_USED", [20000], hostname=NODE, gpu="0"))))
    assert lake.rows() == []
    assert lake.remarks == ["1 memory samples without the total they are a part of were not used"]


def test_counters_become_ratios_over_their_interval_and_survive_a_reset(lake):
    # 6 of 60 seconds, then a restart that has counted 3 seconds since; the other core never waits
    lake.load(
        lake.put(
            "p.json",
            matrix(
                series(
                    "node_cpu_seconds_total", [100, 106, 3], mode="iowait", cpu="0", instance="10.0.0.1:9100", node=NODE
                ),
                series(
                    "node_cpu_seconds_total", [50, 50, 0], mode="iowait", cpu="1", instance="10.0.0.1:9100", node=NODE
                ),
                series("node_cpu_seconds_total", [1, 1, 1], mode="user", cpu="1", instance="10.0.0.1:9100", node=NODE),
            ),
        )
    )
    assert lake.rows("time, metric, value") == [
        (datetime(2026, 10, 1, 0, 0), "cpu.iowait", pytest.approx(0.05)),
        (datetime(2026, 10, 1, 0, 1), "cpu.iowait", pytest.approx(0.025)),
    ]


def test_growth_over_a_long_gap_is_no_sample(lake):
    values = series("node_disk_read_bytes_total", [0, 10, 20, 30], device="nvme1n1", node=NODE)
    values["values"].append([START + 86400, "999999"])
    lake.load(lake.put("p.json", matrix(values)))
    assert lake.rows("device, value") == [("nvme1n1", 10.0)] * 3


def test_network_counters_add_up_over_real_interfaces(lake):
    lake.load(
        lake.put(
            "p.json",
            matrix(
                series("node_network_receive_bytes_total", [0, 100], device="eth0", node=NODE),
                series("node_network_receive_bytes_total", [0, 50], device="eth1", node=NODE),
                series("node_network_receive_bytes_total", [0, 9999], device="lo", node=NODE),
            ),
        )
    )
    assert lake.rows("metric, value") == [("net.received_bytes", 150.0)]


def test_node_names_are_resolved_by_kube_node_info_from_another_file(lake):
    lake.load(
        lake.put("gpu.json", matrix(series("DCGM_FI_DEV_GPU_UTIL", [50], hostname="worker-1", gpu="0"))),
        lake.put(
            "info.json",
            {
                "status": "success",
                "data": {
                    "resultType": "vector",
                    "result": [
                        {
                            "metric": {"__name__": "kube_node_info", "node": "worker-1", "provider_id": PROVIDER_ID},
                            "value": [START, "1"],
                        }
                    ],
                },
            },
        ),
    )
    assert lake.rows("provider, resource_id, value") == [("aws", NODE, 0.5)]


def test_an_instant_vector_is_read_and_a_lost_name_is_taken_from_the_file_only_beside_gpu_labels(lake):
    result = [
        {"metric": {"UUID": "GPU-1", "gpu": "0", "hostname": NODE}, "value": [START, "12"]},
        {"metric": {"hostname": NODE}, "value": [START, "99"]},
    ]
    path = lake.put(
        "avg-DCGM_FI_DEV_GPU_UTIL.json", {"status": "success", "data": {"resultType": "vector", "result": result}}
    )
    (report,) = lake.load(path)
    assert lake.rows("value") == [(0.12,)]
    assert "(without a name) (1)" in report.message


def test_an_error_answer_is_a_failed_source_with_the_servers_reason(lake):
    (report,) = lake.load(lake.put("p.json", {"status": "error", "errorType": "timeout", "error": "query timed out"}))
    assert report.status == "failed"
    assert "query timed out" in report.message


def test_series_before_the_cut_of_a_truncated_answer_count(lake):
    text = matrix(*(series("DCGM_FI_DEV_GPU_UTIL", [1, 2, 3], hostname=NODE, gpu=str(i)) for i in range(4)))
    path = lake.put("p.json", text)
    path.write_bytes(path.read_bytes()[:-40])
    (report,) = lake.load(path)
    assert (report.status, report.rows) == ("failed", 9)
    assert "9 samples before the damage count" in report.message


def test_concatenated_and_indented_answers_are_read_whole(lake):
    import json

    answers = [matrix(series("DCGM_FI_DEV_GPU_UTIL", [i], hostname=NODE, gpu=str(i))) for i in range(3)]
    (report,) = lake.load(lake.put("p.json", "\n".join(json.dumps(answer, indent=2) for answer in answers)))
    assert (report.status, report.rows) == ("ok", 3)


def test_an_answer_nested_beyond_reason_is_a_failed_source_and_no_crash(lake):
    answer = json.dumps(matrix(series("DCGM_FI_DEV_GPU_UTIL", [40], hostname=NODE, gpu="0"), "ABYSS"))
    path = lake.put("p.json", answer.replace('"ABYSS"', "[" * 30_000 + "]" * 30_000))
    file = LandingFile(path, path.name, path.stat().st_size)
    # as a file that is too large to be looked through
    (report,) = load(lake.con, [Recognised(file, Shape("json"), "telemetry", "prometheus-json", None)])
    assert (report.status, report.rows) == ("failed", 1)
    assert "nested too deeply" in report.message
