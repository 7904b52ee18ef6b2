"""Cloud Monitoring, Azure Monitor and CloudWatch answers."""

import json
from datetime import datetime

import pytest

ACCOUNT = "111122223333"
INSTANCE = "i-0aaaabbbbccccdddd"
DAY_MS = 1790812800000  # 2026-10-01T00:00:00Z
VM = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/VM-1"
ML = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg/providers/Microsoft.MachineLearningServices/workspaces/ws"
GCE = {"project_id": "acme-ml", "zone": "us-central1-a", "instance_id": "42"}
GCE_ID = "//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/42"


def gcp(
    kind, resource, value, *, labels=None, unit=None, hours=(0, 0), metric_kind="GAUGE", resource_type="gce_instance"
):
    key = "int64Value" if isinstance(value, str) else "doubleValue"
    series = {
        "metric": {"type": kind, "labels": labels or {}},
        "resource": {"type": resource_type, "labels": resource},
        "metricKind": metric_kind,
        "points": [
            {
                "interval": {
                    "startTime": f"2026-10-01T{hours[0]:02}:00:00Z",
                    "endTime": f"2026-10-01T{hours[1]:02}:00:00Z",
                },
                "value": {key: value},
            }
        ],
    }
    return series if unit is None else {**series, "unit": unit}


def test_cloud_monitoring_units_come_from_the_answer(lake):
    lake.load(
        lake.put(
            "cm.json",
            {
                "timeSeries": [
                    gcp("agent.googleapis.com/gpu/utilization", GCE, 50.0, labels={"gpu_number": "0"}, unit="%"),
                    gcp("agent.googleapis.com/gpu/utilization", GCE, 0.5, labels={"gpu_number": "1"}, unit="1"),
                    gcp("compute.googleapis.com/instance/cpu/utilization", GCE, 0.25, unit="10^2.%"),
                ]
            },
        )
    )
    assert lake.rows("provider, resource_id, metric, device, value") == [
        ("gcp", GCE_ID, "cpu.utilization", "", 0.25),
        ("gcp", GCE_ID, "gpu.utilization", "0", 0.5),
        ("gcp", GCE_ID, "gpu.utilization", "1", 0.5),
    ]


def test_the_unit_of_the_whole_answer_holds_where_a_series_has_none(lake):
    lake.load(
        lake.put(
            "cm.json",
            {
                "timeSeries": [gcp("agent.googleapis.com/gpu/utilization", GCE, 0.5, labels={"gpu_number": "0"})],
                "unit": "1",
            },
        )
    )
    assert lake.rows("value") == [(0.5,)]


def test_cloud_nat_bytes_are_integers_in_text_added_over_protocols_and_directions_at_the_interval_start(lake):
    router = {"project_id": "acme-ml", "region": "us-central1", "router_id": "77", "gateway_name": "nat"}
    kind = "router.googleapis.com/nat/"
    delta = {"unit": "By", "hours": (1, 2), "metric_kind": "DELTA", "resource_type": "nat_gateway"}
    answer = {
        "timeSeries": [
            gcp(kind + "sent_bytes_count", router, "100", labels={"ip_protocol": "6"}, **delta),
            gcp(kind + "sent_bytes_count", router, "10", labels={"ip_protocol": "17"}, **delta),
            gcp(kind + "received_bytes_count", router, "1", labels={"ip_protocol": "6"}, **delta),
        ]
    }
    lake.load(lake.put("a/cm.json", answer), lake.put("b/cm.json", answer))  # delivered twice, counted once
    assert lake.rows("time, resource_id, metric, value") == [
        (
            datetime(2026, 10, 1, 1),
            "//compute.googleapis.com/projects/acme-ml/regions/us-central1/routers/77",
            "nat.bytes",
            111.0,
        )
    ]


def test_a_rate_of_bytes_is_a_sum_over_its_interval_or_dropped_where_that_is_unknown(lake):
    name = "file.googleapis.com/nfs/server/read_bytes_count"
    share = {"project_id": "acme-ml", "location": "us-central1-a", "instance_name": "fs"}
    (report,) = lake.load(
        lake.put(
            "cm.json",
            {
                "timeSeries": [
                    gcp(name, share, 2.0, unit="By/s", hours=(0, 1), resource_type="filestore_instance"),
                    gcp(name, share, 2.0, unit="By/s", hours=(5, 5), resource_type="filestore_instance"),
                ]
            },
        )
    )
    assert lake.rows() == [("//file.googleapis.com/projects/acme-ml/locations/us-central1-a/instances/fs", "", 7200.0)]
    assert "1 samples dropped (a rate without" in report.message


def test_tpus_endpoints_and_cluster_nodes_get_the_id_of_what_is_billed(lake):
    node = {"project_id": "acme-ml", "location": "us-central1-a", "cluster_name": "c", "node_name": "gke-1"}
    lake.load(
        lake.put(
            "cm.json",
            {
                "timeSeries": [
                    gcp(
                        "kubernetes.io/node/accelerator/duty_cycle",
                        node,
                        30.0,
                        labels={"accelerator_id": "a", "model": "nvidia-l4"},
                        unit="percent",
                        resource_type="k8s_node",
                    ),
                    gcp(
                        "kubernetes.io/node/accelerator/duty_cycle",
                        node,
                        20.0,
                        labels={"accelerator_id": "b", "model": "tpu-v5e"},
                        unit="percent",
                        resource_type="k8s_node",
                    ),
                    gcp(
                        "tpu.googleapis.com/accelerator/duty_cycle",
                        {"project_id": "acme-ml", "zone": "us-east4-a", "node_id": "t", "worker_id": "0"},
                        10.0,
                        labels={"accelerator_id": "3"},
                        unit="%",
                        resource_type="tpu_worker",
                    ),
                    gcp(
                        "aiplatform.googleapis.com/prediction/online/prediction_count",
                        {"resource_container": "acme-ml", "location": "us-central1", "endpoint_id": "9"},
                        "4",
                        unit="1",
                        hours=(0, 1),
                        metric_kind="DELTA",
                        resource_type="aiplatform.googleapis.com/Endpoint",
                    ),
                ]
            },
        )
    )
    gke = "//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/gke-1"
    assert lake.rows("metric, resource_id, device, value") == [
        (
            "endpoint.invocations",
            "//aiplatform.googleapis.com/projects/acme-ml/locations/us-central1/endpoints/9",
            "",
            4.0,
        ),
        ("gpu.utilization", gke, "a", 0.3),
        ("tpu.duty_cycle", gke, "b", 0.2),
        ("tpu.duty_cycle", "//tpu.googleapis.com/projects/acme-ml/locations/us-east4-a/nodes/t", "3", 0.1),
    ]


def azure(resource, name, unit, data, *dimensions):
    values = [{"name": {"value": key}, "value": value} for key, value in dimensions]
    return {
        "id": f"{resource}/providers/Microsoft.Insights/metrics/{name}",
        "type": "Microsoft.Insights/metrics",
        "name": {"value": name, "localizedValue": name},
        "unit": unit,
        "timeseries": [
            {
                "metadatavalues": values,
                "data": [{"timeStamp": f"2026-10-01T{i:02}:00:00Z", **point} for i, point in enumerate(data)],
            }
        ],
    }


def test_azure_gpu_percent_declared_as_count_is_percent_by_device_and_empty_intervals_are_gaps(lake):
    metric = azure(
        ML,
        "GpuUtilizationPercentage",
        "Count",
        [{"average": 50.0}, {}, {"average": 0.5}],
        ("DeviceId", "0"),
        ("ComputeName", "ci-1"),
    )
    (report,) = lake.load(lake.put("az.json", {"interval": "PT1H", "timespan": "x", "value": [metric]}))
    assert (report.status, report.rows, report.message) == ("ok", 2, None)
    assert lake.rows("provider, resource_id, device, value") == [
        ("azure", f"{ML}/computes/ci-1", "0", 0.005),
        ("azure", f"{ML}/computes/ci-1", "0", 0.5),
    ]


def test_azure_batches_keep_the_ids_case_and_split_disks(lake):
    batch = {
        "values": [
            {
                "interval": "PT5M",
                "resourceid": VM,
                "value": [
                    azure(VM, "Data Disk Bandwidth Consumed Percentage", "Percent", [{"average": 98.0}], ("LUN", "1")),
                    azure(VM, "Data Disk Read Bytes/sec", "BytesPerSecond", [{"average": 10.0}], ("LUN", "1")),
                    azure(VM, "Available Memory Bytes", "Bytes", [{"average": 10.0}]),
                ],
            }
        ]
    }
    (report,) = lake.load(lake.put("az.json", batch))
    assert lake.rows("metric, resource_id, device, value") == [
        ("disk.read_bytes", VM, "lun1", 3000.0),
        ("disk.throughput_ratio", VM, "lun1", 0.98),
    ]
    assert "metrics not used: available memory bytes (1)" in report.message


def test_azure_nat_bytes_split_by_direction_are_not_added_to_their_own_total(lake):
    nat = VM.replace("Microsoft.Compute/virtualMachines/VM-1", "Microsoft.Network/natGateways/nat")
    lake.load(
        lake.put(
            "az.json",
            {
                "interval": "PT1H",
                "value": [
                    azure(nat, "ByteCount", "Bytes", [{"total": 60.0}, {"total": 5.0}], ("Direction", "In")),
                    azure(nat, "ByteCount", "Bytes", [{"total": 40.0}, {"total": 6.0}], ("Direction", "Out")),
                    azure(nat, "ByteCount", "Bytes", [{"total": 100.0}]),
                ],
            },
        )
    )
    assert lake.rows("value") == [(11.0,), (100.0,)]


def test_netapp_volumes_add_up_to_the_pool_that_is_billed(lake):
    pool = VM.replace("Microsoft.Compute/virtualMachines/VM-1", "Microsoft.NetApp/netAppAccounts/a/capacityPools/p")
    metrics = [
        azure(f"{pool}/volumes/{v}", "ReadThroughput", "BytesPerSecond", [{"average": 2.0}]) for v in ("v1", "v2")
    ]
    lake.load(lake.put("az.json", {"interval": "PT1H", "value": metrics}))
    assert lake.rows() == [(pool, "", 14400.0)]


def stream(namespace, name, dimensions, value, unit="None", hour=0):
    return {
        "metric_stream_name": "s",
        "account_id": ACCOUNT,
        "region": "us-east-1",
        "namespace": namespace,
        "metric_name": name,
        "dimensions": dimensions,
        "timestamp": DAY_MS + hour * 3600000,
        "value": value,
        "unit": unit,
    }


def lines(*objects):
    import json

    return "".join(json.dumps(item) + "\n" for item in objects)


def test_agent_gpu_use_is_the_mean_in_percent_by_index_in_any_namespace_and_the_roll_up_goes(lake):
    value = {"min": 0, "max": 99, "sum": 3000.0, "count": 60.0}
    (report,) = lake.load(
        lake.put(
            "cw.json.gz",
            lines(
                stream("Acme/Agents", "nvidia_smi_utilization_gpu", {"InstanceId": INSTANCE, "index": "0"}, value),
                stream("Acme/Agents", "nvidia_smi_utilization_gpu", {"InstanceId": INSTANCE}, value),
                stream("AWS/EC2", "GPUPowerUtilization", {"InstanceId": INSTANCE}, value, "Percent"),
            ),
        )
    )
    assert lake.rows() == [(INSTANCE, "0", 0.5)]
    assert "AWS/EC2|GPUPowerUtilization (1: power is not work)" in report.message


def test_agent_memory_is_used_over_total(lake):
    dimensions = {"InstanceId": INSTANCE, "index": "0"}
    lake.load(
        lake.put(
            "cw.json",
            lines(
                stream("CWAgent", "nvidia_smi_memory_used", dimensions, {"sum": 100.0, "count": 10.0}),
                stream("CWAgent", "nvidia_smi_memory_total", dimensions, {"sum": 400.0, "count": 10.0}),
            ),
        )
    )
    assert lake.rows("metric, value") == [("gpu.memory_used_ratio", 0.25)]


def test_nat_bytes_are_counted_on_one_side_only(lake):
    nat = {"NatGatewayId": "nat-0123456789abcdef0"}
    both = [
        stream("AWS/NATGateway", name, nat, {"sum": total, "count": 60.0}, "Bytes")
        for name, total in {
            "BytesInFromSource": 10,
            "BytesOutToDestination": 10,
            "BytesInFromDestination": 5,
            "BytesOutToSource": 5,
        }.items()
    ]
    one = stream("AWS/NATGateway", "BytesOutToDestination", nat, {"sum": 7.0, "count": 60.0}, "Bytes", hour=1)
    lake.load(lake.put("cw.json", lines(*both, one)))
    assert lake.rows("time, resource_id, value") == [
        (datetime(2026, 10, 1, 0), f"arn:aws:ec2:us-east-1:{ACCOUNT}:natgateway/nat-0123456789abcdef0", 15.0),
        (datetime(2026, 10, 1, 1), f"arn:aws:ec2:us-east-1:{ACCOUNT}:natgateway/nat-0123456789abcdef0", 7.0),
    ]


def test_invocations_of_all_variants_add_up_on_the_endpoint(lake):
    value = {"sum": 5.0, "count": 60.0}
    lake.load(
        lake.put(
            "cw.json",
            lines(
                *(
                    stream("AWS/SageMaker", "Invocations", {"EndpointName": "Ep-A", "VariantName": v}, value)
                    for v in ("x", "y")
                )
            ),
        )
    )
    assert lake.rows() == [(f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:endpoint/ep-a", "", 10.0)]


def test_a_declared_unit_that_a_metric_cannot_have_is_dropped_and_said(lake):
    (report,) = lake.load(
        lake.put(
            "cw.json",
            lines(stream("AWS/EC2", "CPUUtilization", {"InstanceId": INSTANCE}, {"sum": 5.0, "count": 1.0}, "Bytes")),
        )
    )
    assert lake.rows() == []
    assert "declared in a unit that the metric cannot have" in report.message


def test_lines_before_a_broken_one_count(lake):
    good = lines(
        *(
            stream("AWS/EC2", "CPUUtilization", {"InstanceId": INSTANCE}, {"sum": 5.0, "count": 1.0}, "Percent", hour=h)
            for h in range(3)
        )
    )
    (report,) = lake.load(lake.put("cw.json", good + good[:80]))
    assert (report.status, report.rows) == ("failed", 3)


def test_metric_data_answers_are_explained_by_their_queries(lake):
    query = {
        "Metric": {
            "Namespace": "AWS/EBS",
            "MetricName": "VolumeReadBytes",
            "Dimensions": [{"Name": "VolumeId", "Value": "vol-0123456789abcdef0"}],
        },
        "Period": 300,
    }
    document = {
        "AccountId": ACCOUNT,
        "Region": "us-east-1",
        "MetricDataQueries": [
            {"Id": "a", "MetricStat": {**query, "Stat": "Sum"}},
            {"Id": "b", "MetricStat": {**query, "Stat": "Maximum"}},
        ],
        "MetricDataResults": [
            {
                "Id": "a",
                "Label": "x",
                "Timestamps": ["2026-10-01T00:00:00Z", "2026-10-01T02:05:00+02:00"],
                "Values": [1.0, 2.0],
                "StatusCode": "Complete",
            },
            {
                "Id": "b",
                "Label": "x",
                "Timestamps": ["2026-10-01T00:00:00Z"],
                "Values": [9.0],
                "StatusCode": "Complete",
            },
            {
                "Id": "c",
                "Label": "x",
                "Timestamps": ["2026-10-01T00:00:00Z"],
                "Values": [9.0],
                "StatusCode": "Complete",
            },
        ],
    }
    (report,) = lake.load(lake.put("md.json", document))
    assert lake.rows("time, resource_id, value") == [
        (datetime(2026, 10, 1, 0, 0), "vol-0123456789abcdef0", 1.0),
        (datetime(2026, 10, 1, 0, 5), "vol-0123456789abcdef0", 2.0),
    ]
    assert "1 series without their query" in report.message
    assert "1 series of other statistics" in report.message


def test_many_files_of_a_folder_are_one_source(lake):
    paths = [
        lake.put(
            f"az/{i}.json",
            {"interval": "PT1H", "value": [azure(VM, "Percentage CPU", "Percent", [{"average": float(i)}])]},
        )
        for i in range(3)
    ]
    (report,) = lake.load(*paths)
    assert (report.files, report.rows, report.provider) == (3, 3, "azure")
    assert lake.remarks == ["2 repeated samples removed, the last of each kept"]
    assert lake.rows("value") == [(pytest.approx(0.02),)]


def streamed(namespace, name, dimensions, value, unit, minute=0):
    return {
        "account_id": ACCOUNT,
        "region": "us-east-1",
        "namespace": namespace,
        "metric_name": name,
        "dimensions": dimensions,
        "timestamp": DAY_MS + minute * 60_000,
        "value": {"sum": value, "count": 1, "min": value, "max": value},
        "unit": unit,
    }


def test_sagemaker_sums_over_devices_stay_sums_of_the_job_until_the_machine_is_known(lake):
    lines = [
        streamed("/aws/sagemaker/TrainingJobs", "GPUUtilization", {"Host": f"train-1/algo-{number}"}, value, "Percent")
        for number, value in ((1, 760.0), (2, 40.0))
    ]
    lake.load(lake.put("stream.json", "".join(json.dumps(line) + "\n" for line in lines)))
    assert lake.rows("resource_id, device, metric, value") == [
        (f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/train-1", "", "gpu.busy_devices", pytest.approx(4.0))
    ]


def test_a_limit_that_was_met_is_told_apart_from_what_was_used(lake):
    lines = [
        streamed("AWS/EBS", "VolumeThroughputExceededCheck", {"VolumeId": "vol-0aaaabbbbccccdddd"}, 1.0, "None"),
        streamed("AWS/EBS", "VolumeIOPSExceededCheck", {"VolumeId": "vol-0aaaabbbbccccdddd"}, 0.0, "None"),
        streamed("AWS/EFS", "PercentIOLimit", {"FileSystemId": "fs-0aaaabbbbccccdddd"}, 97.0, "Percent"),
    ]
    lake.load(lake.put("stream.json", "".join(json.dumps(line) + "\n" for line in lines)))
    assert lake.rows("metric, value") == [("disk.limit_reached", 1.0), ("fs.iops_ratio", pytest.approx(0.97))]


def test_vertex_training_reports_by_job_and_task(lake):
    job = {"project_id": "acme-ml", "location": "us-central1", "job_id": "77", "task_name": "workerpool0-0"}
    use = gcp("ml.googleapis.com/training/accelerator/utilization", job, 0.5, unit="1", resource_type="cloudml_job")
    lake.load(lake.put("cm.json", {"timeSeries": [use]}))
    assert lake.rows("resource_id, device, metric, value") == [
        (
            "//aiplatform.googleapis.com/projects/acme-ml/locations/us-central1/customJobs/77",
            "workerpool0-0",
            "gpu.utilization",
            0.5,
        )
    ]
