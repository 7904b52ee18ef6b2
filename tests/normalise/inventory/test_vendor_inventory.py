"""Inventory as the neutral table and the vendors' own tools give it, in small."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.landing import LandingFile, Recognised, Shape, SourceReport
from auditor.normalise import inventory
from auditor.normalise.inventory.vocabulary import RESOURCE_TYPES, neutral_type
from auditor.normalise.look import look

SHARED = Path(__file__).resolve().parents[4] / "shared"
SUBSCRIPTION = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg-ml/providers"
COMPUTE = "https://www.googleapis.com/compute/v1/projects/acme-ml"


def load_files(folder: Path, files: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], list[SourceReport]]:
    """Writes the files (JSON unless text or bytes), loads them, and gives the rows by resource id."""
    recognised = []
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = (
            content
            if isinstance(content, bytes)
            else (content if isinstance(content, str) else json.dumps(content, indent=2)).encode()
        )
        path.write_bytes(raw)
        file = LandingFile(path, name, len(raw))
        found = inventory.recognise(file, look(file))
        assert found is not None, name
        recognised.append(found)
    with duckdb.connect() as con:
        reports = inventory.load(con, recognised)
        cursor = con.execute("select * from resources_seen")
        names = [column[0] for column in cursor.description or []]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in rows:
        for name in ("tags", "attributes", "related"):
            row[name] = json.loads(row[name])
    assert len({row["resource_id"] for row in rows}) == len(rows)
    return {row["resource_id"]: row for row in rows}, reports


INSTANCE = {
    "InstanceId": "i-0123456789abcdef0",
    "InstanceType": "p4d.24xlarge",
    "LaunchTime": "2026-09-24T08:00:00+00:00",
    "State": {"Code": 80, "Name": "stopped"},
    "StateTransitionReason": "User initiated (2026-10-02 07:30:00 GMT)",
    "Placement": {"AvailabilityZone": "us-east-1a", "GroupName": "pg-train"},
    "PrivateIpAddress": "10.0.0.1",
    "PrivateDnsName": "ip-10-0-0-1.ec2.internal",
    "SubnetId": "subnet-0123456789abcdef0",
    "VpcId": "vpc-0123456789abcdef0",
    "InstanceLifecycle": "spot",
    "NetworkInterfaces": [
        {"NetworkInterfaceId": "eni-0123456789abcdef0", "InterfaceType": "efa", "PrivateIpAddress": "10.0.0.1"}
    ],
    "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeId": "vol-0123456789abcdef0"}}],
    "Tags": [{"Key": "Name", "Value": "train-0"}, {"Key": "owner", "Value": "vision"}],
}
RESERVATIONS = {"Reservations": [{"OwnerId": "111122223333", "Instances": [INSTANCE]}]}
VOLUMES = {
    "Volumes": [
        {
            "VolumeId": "vol-0123456789abcdef0",
            "VolumeType": "gp3",
            "Size": 200,
            "Iops": 3000,
            "Throughput": 125,
            "AvailabilityZone": "us-east-1a",
            "CreateTime": "2026-09-24T08:00:00.000Z",
            "State": "in-use",
            "Attachments": [{"InstanceId": "i-0123456789abcdef0", "Device": "/dev/xvda"}],
        }
    ]
}


def test_an_ec2_instance_bears_neutral_names_and_every_alias(tmp_path: Path) -> None:
    rows, reports = load_files(tmp_path, {"x.json": RESERVATIONS})
    row = rows["i-0123456789abcdef0"]
    assert (row["account_id"], row["region"], row["zone"], row["state"], row["name"]) == (
        "111122223333",
        "us-east-1",
        "us-east-1a",
        "stopped",
        "train-0",
    )
    attributes = row["attributes"]
    assert {
        key: attributes[key] for key in ("machine_type", "has_rdma", "lifecycle", "placement_group", "stopped_at")
    } == {
        "machine_type": "p4d.24xlarge",
        "has_rdma": True,
        "lifecycle": "spot",
        "placement_group": "pg-train",
        "stopped_at": "2026-10-02 07:30:00",
    }
    expected = {
        "arn:aws:ec2:us-east-1:111122223333:instance/i-0123456789abcdef0",
        "eni-0123456789abcdef0",
        "10.0.0.1",
        "ip-10-0-0-1.ec2.internal",
        "train-0",
    }
    assert expected | {"aws:///us-east-1a/i-0123456789abcdef0"} == set(row["aliases"])
    assert row["related"]["volumes"] == ["vol-0123456789abcdef0"] and row["tags"]["owner"] == "vision"
    assert (reports[0].format, reports[0].rows, reports[0].status, reports[0].provider) == (
        "aws-ec2-describe-instances",
        1,
        "ok",
        "aws",
    )


def test_an_account_that_the_tool_does_not_print_comes_from_the_machine_or_the_folder(tmp_path: Path) -> None:
    gateways = {
        "NatGateways": [
            {
                "NatGatewayId": "nat-0123456789abcdef0",
                "VpcId": "vpc-0ffff",
                "State": "available",
                "NatGatewayAddresses": [{"NetworkInterfaceId": "eni-0fff"}],
            }
        ]
    }
    rows, _ = load_files(
        tmp_path,
        {"a/instances.json": RESERVATIONS, "b/volumes.json": VOLUMES, "c/444455556666/eu-west-1/nat.json": gateways},
    )
    assert rows["vol-0123456789abcdef0"]["account_id"] == "111122223333"
    gateway = rows["nat-0123456789abcdef0"]
    assert (gateway["account_id"], gateway["region"]) == ("444455556666", "eu-west-1")
    assert "arn:aws:ec2:eu-west-1:444455556666:natgateway/nat-0123456789abcdef0" in gateway["aliases"]
    assert "eni-0fff" in gateway["aliases"] and gateway["attributes"]["connectivity"] == "public"


def test_a_spread_group_is_no_close_placement(tmp_path: Path) -> None:
    group = {
        "PlacementGroups": [
            {"GroupName": "pg-train", "GroupId": "pg-0123456789abcdef0", "Strategy": "spread", "State": "available"}
        ]
    }
    placed = {**group["PlacementGroups"][0], "GroupArn": "arn:aws:ec2:us-east-1:111122223333:placement-group/pg-train"}
    rows, _ = load_files(tmp_path, {"i.json": RESERVATIONS, "g.json": {"PlacementGroups": [placed]}})
    attributes = rows["i-0123456789abcdef0"]["attributes"]
    assert attributes["placement_group"] is None and attributes["placement_strategy"] == "spread"


def test_routes_endpoints_and_subnets_say_what_a_gateway_endpoint_serves(tmp_path: Path) -> None:
    tables = {
        "RouteTables": [
            {
                "RouteTableId": "rtb-0a",
                "VpcId": "vpc-0a",
                "OwnerId": "111122223333",
                "Associations": [{"Main": False, "SubnetId": "subnet-0a"}],
                "Routes": [{"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-0a", "State": "active"}],
            }
        ]
    }
    endpoints = {
        "VpcEndpoints": [
            {
                "VpcEndpointId": "vpce-0a",
                "VpcEndpointType": "Gateway",
                "VpcId": "vpc-0a",
                "ServiceName": "com.amazonaws.eu-west-1.s3",
                "RouteTableIds": ["rtb-0a"],
                "State": "available",
            }
        ]
    }
    rows, _ = load_files(tmp_path, {"rt.json": tables, "ep.json": endpoints})
    assert rows["rtb-0a"]["attributes"] == {
        "network_id": "vpc-0a",
        "is_main": False,
        "associations": ["subnet-0a"],
        "routes": [{"destination": "0.0.0.0/0", "target": "nat-0a", "state": "active"}],
    }
    endpoint = rows["vpce-0a"]
    assert endpoint["region"] == "eu-west-1"
    assert (
        endpoint["attributes"]["service"],
        endpoint["attributes"]["endpoint_type"],
        endpoint["attributes"]["route_table_ids"],
    ) == ("com.amazonaws.eu-west-1.s3", "gateway", ["rtb-0a"])


@pytest.mark.parametrize(
    "name",
    [
        "111122223333/lifecycle/acme-checkpoints.json",
        "acme-checkpoints/get-bucket-lifecycle-configuration.json",
        "acme-checkpoints/lifecycle.json",
    ],
)
def test_a_bucket_lifecycle_takes_the_buckets_name_from_file_or_folder(tmp_path: Path, name: str) -> None:
    rows, _ = load_files(
        tmp_path,
        {name: {"Rules": [{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}]}},
    )
    row = rows["acme-checkpoints"]
    assert row["resource_type"] == "bucket" and row["attributes"]["has_lifecycle"] is True


def test_a_lifecycle_whose_rules_are_off_is_none(tmp_path: Path) -> None:
    rows, _ = load_files(
        tmp_path, {"acme-data.json": {"Rules": [{"ID": "old", "Status": "Disabled", "Expiration": {"Days": 30}}]}}
    )
    assert rows["acme-data"]["attributes"]["has_lifecycle"] is False


def test_file_systems_reservations_and_sagemaker_are_read(tmp_path: Path) -> None:
    systems = {
        "FileSystems": [
            {
                "OwnerId": "111122223333",
                "FileSystemId": "fs-0123456789abcdef0",
                "FileSystemType": "LUSTRE",
                "Lifecycle": "AVAILABLE",
                "StorageCapacity": 4800,
                "ResourceARN": "arn:aws:fsx:us-east-1:111122223333:file-system/fs-0123456789abcdef0",
                "LustreConfiguration": {"PerUnitStorageThroughput": 125},
            }
        ]
    }
    capacity = {
        "CapacityReservations": [
            {
                "CapacityReservationId": "cr-0123456789abcdef0",
                "OwnerId": "111122223333",
                "InstanceType": "p5.48xlarge",
                "AvailabilityZone": "us-east-1a",
                "TotalInstanceCount": 3,
                "AvailableInstanceCount": 1,
                "State": "active",
                "EndDate": "2026-12-01T00:00:00Z",
            }
        ]
    }
    endpoint = {
        "EndpointName": "ep",
        "EndpointArn": "arn:aws:sagemaker:us-east-1:111122223333:endpoint/ep",
        "EndpointConfigName": "ep-config",
        "EndpointStatus": "InService",
        "ProductionVariants": [{"VariantName": "a", "CurrentInstanceCount": 2}],
    }
    configuration = {
        "EndpointConfigName": "ep-config",
        "EndpointConfigArn": "arn:aws:sagemaker:us-east-1:111122223333:endpoint-config/ep-config",
        "ProductionVariants": [{"InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}],
    }
    job = {
        "TrainingJobName": "job",
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:111122223333:training-job/job",
        "TrainingJobStatus": "Completed",
        "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 4},
        "EnableManagedSpotTraining": True,
        "TrainingStartTime": 1790000000.5,
        "CheckpointConfig": {"S3Uri": "s3://acme/ckpt"},
    }
    rows, _ = load_files(
        tmp_path, {"fs.json": systems, "cr.json": capacity, "e.json": endpoint, "c.json": configuration, "j.json": job}
    )
    system = rows["arn:aws:fsx:us-east-1:111122223333:file-system/fs-0123456789abcdef0"]
    assert (
        system["attributes"]["provisioned_mibps"] == 4800 / 1024 * 125 and "fs-0123456789abcdef0" in system["aliases"]
    )
    reservation = rows["cr-0123456789abcdef0"]["attributes"]
    assert (reservation["reserved_count"], reservation["used_count"], reservation["ends_at"]) == (
        3,
        2,
        "2026-12-01 00:00:00",
    )
    served = rows["arn:aws:sagemaker:us-east-1:111122223333:endpoint/ep"]["attributes"]
    assert (served["machine_type"], served["instance_count"]) == ("ml.g5.xlarge", 2)
    trained = rows["arn:aws:sagemaker:us-east-1:111122223333:training-job/job"]["attributes"]
    assert (trained["machine_type"], trained["uses_spot"], trained["checkpoint_uri"], trained["started_at"]) == (
        "ml.p4d.24xlarge",
        True,
        "s3://acme/ckpt",
        "2026-09-21 14:13:20",
    )


def google(kind: str, name: str, collection: str, place: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": f"compute#{kind}",
        "id": str(abs(hash(name)) % 10**6 + 10**18),
        "name": name,
        "selfLink": f"{COMPUTE}/{place}/{collection}/{name}",
        **more,
    }


MACHINE = {
    **google("instance", "train-0", "instances", "zones/us-central1-a"),
    "id": "1234567890123456789",
    "zone": f"{COMPUTE}/zones/us-central1-a",
    "status": "TERMINATED",
    "machineType": f"{COMPUTE}/zones/us-central1-a/machineTypes/a3-megagpu-8g",
    "lastStopTimestamp": "2026-10-02T00:30:00.000-07:00",
    "scheduling": {"provisioningModel": "SPOT"},
    "guestAccelerators": [
        {
            "acceleratorCount": 8,
            "acceleratorType": f"{COMPUTE}/zones/us-central1-a/acceleratorTypes/nvidia-h100-mega-80gb",
        }
    ],
    "networkInterfaces": [
        {
            "network": f"{COMPUTE}/global/networks/vpc",
            "subnetwork": f"{COMPUTE}/regions/us-central1/subnetworks/sn",
            "networkIP": "10.0.0.1",
        }
    ],
    "serviceAccounts": [{"email": "700000000001-compute@developer.gserviceaccount.com"}],
    "resourcePolicies": [
        f"{COMPUTE}/regions/us-central1/resourcePolicies/daily-snapshot",
        f"{COMPUTE}/regions/us-central1/resourcePolicies/compact",
    ],
    "labels": {"owner": "vision"},
}


def test_a_google_machine_takes_the_bills_spelling_with_the_projects_number(tmp_path: Path) -> None:
    rows, _ = load_files(tmp_path, {"i.json": [MACHINE]})
    row = rows["//compute.googleapis.com/projects/700000000001/zones/us-central1-a/instances/1234567890123456789"]
    assert row["account_id"] == "acme-ml" and row["zone"] == "us-central1-a"
    spellings = {
        "1234567890123456789",
        "//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/1234567890123456789",
        "//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/train-0",
        "//compute.googleapis.com/projects/700000000001/zones/us-central1-a/instances/train-0",
        f"{COMPUTE}/zones/us-central1-a/instances/train-0",
        "gce://acme-ml/us-central1-a/train-0",
        "train-0",
        "10.0.0.1",
    }
    assert spellings <= set(row["aliases"])
    attributes = row["attributes"]
    assert (attributes["machine_type"], attributes["accelerator_count"], attributes["lifecycle"]) == (
        "a3-megagpu-8g",
        8,
        "spot",
    )
    assert (attributes["placement_group"], attributes["has_rdma"], attributes["stopped_at"]) == (
        "compact",
        False,
        "2026-10-02 07:30:00",
    )


def test_google_network_parts_refer_to_each_other_by_full_id(tmp_path: Path) -> None:
    subnet = google(
        "subnetwork",
        "sn",
        "subnetworks",
        "regions/us-central1",
        region=f"{COMPUTE}/regions/us-central1",
        network=f"{COMPUTE}/global/networks/vpc",
        privateIpGoogleAccess=False,
    )
    router = google(
        "router",
        "rt",
        "routers",
        "regions/us-central1",
        region=f"{COMPUTE}/regions/us-central1",
        network=f"{COMPUTE}/global/networks/vpc",
        nats=[
            {
                "name": "nat",
                "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
                "subnetworks": [{"name": f"{COMPUTE}/regions/us-central1/subnetworks/sn"}],
            }
        ],
    )
    bare = google("router", "bare", "routers", "regions/us-central1", region=f"{COMPUTE}/regions/us-central1")
    rows, _ = load_files(tmp_path, {"s.json": [subnet], "r.json": [router, bare]})
    by_name = {row["name"]: row for row in rows.values()}
    assert by_name["rt"]["resource_type"] == "nat_gateway" and by_name["bare"]["resource_type"] == "other"
    assert by_name["rt"]["attributes"]["subnet_ids"] == [by_name["sn"]["resource_id"]]
    assert by_name["rt"]["attributes"]["network_id"] == by_name["sn"]["attributes"]["network_id"]
    assert by_name["sn"]["attributes"]["private_google_access"] is False


def test_google_disks_addresses_reservations_commitments_and_tpus_are_read(tmp_path: Path) -> None:
    zone, region = f"{COMPUTE}/zones/us-central1-a", f"{COMPUTE}/regions/us-central1"
    disk = google(
        "disk",
        "orphan",
        "disks",
        "zones/us-central1-a",
        zone=zone,
        sizeGb="500",
        type=f"{zone}/diskTypes/hyperdisk-balanced",
        provisionedIops="4000",
        status="READY",
    )
    address = google(
        "address", "old", "addresses", "regions/us-central1", region=region, address="203.0.113.9", status="RESERVED"
    )
    reservation = google(
        "reservation",
        "rsv",
        "reservations",
        "zones/us-central1-a",
        zone=zone,
        specificReservation={"count": "4", "inUseCount": "1", "instanceProperties": {"machineType": "a2-highgpu-8g"}},
    )
    commitment = google(
        "commitment",
        "cud",
        "commitments",
        "regions/us-central1",
        region=region,
        endTimestamp="2027-04-01T00:00:00.000-07:00",
        plan="TWELVE_MONTH",
    )
    private = google(
        "forwardingRule",
        "psc",
        "forwardingRules",
        "regions/us-central1",
        region=region,
        target="https://x/serviceAttachments/svc",
        pscConnectionStatus="ACCEPTED",
    )
    front = google(
        "forwardingRule", "lb", "forwardingRules", "regions/us-central1", region=region, loadBalancingScheme="EXTERNAL"
    )
    tpu = {
        "name": "projects/acme-ml/locations/us-east4-a/nodes/tpu-0",
        "acceleratorType": "v5litepod-8",
        "state": "READY",
    }
    share = {
        "name": "projects/acme-ml/locations/us-central1-a/instances/fs",
        "tier": "ZONAL",
        "fileShares": [{"name": "v", "capacityGb": "1024"}],
    }
    rows, _ = load_files(
        tmp_path,
        {"a.json": [disk, address, reservation, commitment, private, front], "t.json": [tpu], "f.json": [share]},
    )
    by_name = {row["name"]: row for row in rows.values()}
    kinds = {name: row["resource_type"] for name, row in by_name.items()}
    assert kinds == {
        "orphan": "volume",
        "old": "address",
        "rsv": "capacity_reservation",
        "cud": "commitment",
        "psc": "private_endpoint",
        "lb": "load_balancer",
        "tpu-0": "tpu_node",
        "fs": "file_system",
    }
    assert by_name["orphan"]["state"] == "available" and by_name["orphan"]["attributes"]["provisioned_iops"] == 4000
    assert (by_name["rsv"]["attributes"]["reserved_count"], by_name["rsv"]["attributes"]["used_count"]) == (4, 1)
    assert by_name["cud"]["attributes"]["ends_at"] == "2027-04-01 07:00:00"
    assert by_name["tpu-0"]["region"] == "us-east4" and by_name["fs"]["attributes"]["size_gib"] == 1024


def test_a_google_notebook_is_the_machine_it_is_billed_as(tmp_path: Path) -> None:
    notebook = {
        "name": "//notebooks.googleapis.com/projects/acme-ml/locations/us-central1-a/instances/train-0",
        "assetType": "notebooks.googleapis.com/Instance",
        "project": "projects/700000000001",
        "displayName": "train-0",
        "location": "us-central1-a",
        "state": "ACTIVE",
    }
    rows, _ = load_files(tmp_path, {"i.json": [MACHINE], "n.json": [notebook]})
    assert list(rows) == [
        "//compute.googleapis.com/projects/700000000001/zones/us-central1-a/instances/1234567890123456789"
    ]
    row = next(iter(rows.values()))
    assert row["resource_type"] == "notebook" and row["attributes"]["machine_type"] == "a3-megagpu-8g"


def test_a_google_bucket_has_all_spellings_and_its_lifecycle(tmp_path: Path) -> None:
    asset = {
        "name": "//storage.googleapis.com/acme-data",
        "assetType": "storage.googleapis.com/Bucket",
        "project": "projects/1",
        "location": "us-central1",
        "additionalAttributes": {"lifecycleRules": 0},
    }
    rows, _ = load_files(tmp_path, {"assets.json": [asset]})
    row = rows["//storage.googleapis.com/projects/_/buckets/acme-data"]
    assert row["attributes"]["has_lifecycle"] is False and {
        "acme-data",
        "gs://acme-data",
        "//storage.googleapis.com/acme-data",
    } <= set(row["aliases"])


VM = {
    "id": f"{SUBSCRIPTION}/Microsoft.Compute/virtualMachines/train-0",
    "name": "train-0",
    "type": "Microsoft.Compute/virtualMachines",
    "location": "East US",
    "zones": ["1"],
    "hardwareProfile": {"vmSize": "Standard_ND96isr_H100_v5"},
    "powerState": "VM deallocated",
    "priority": "Spot",
    "privateIps": "10.0.0.5",
    "networkProfile": {"networkInterfaces": [{"id": f"{SUBSCRIPTION}/Microsoft.Network/networkInterfaces/nic"}]},
    "storageProfile": {
        "osDisk": {"managedDisk": {"id": f"{SUBSCRIPTION}/Microsoft.Compute/disks/os"}},
        "dataDisks": [],
    },
    "proximityPlacementGroup": {"id": f"{SUBSCRIPTION}/Microsoft.Compute/proximityPlacementGroups/ppg"},
}


@pytest.mark.parametrize("size", ["Standard_ND96isr_H100_v5", "Standard_NC24rs_v3", "Standard_ND96amsr_A100_v4"])
def test_an_azure_machine_is_read_and_an_r_in_its_size_means_rdma(tmp_path: Path, size: str) -> None:
    rows, _ = load_files(tmp_path, {"vm.json": [{**VM, "hardwareProfile": {"vmSize": size}}]})
    row = rows[VM["id"]]  # type: ignore[index]
    assert (row["region"], row["zone"], row["state"], row["attributes"]["lifecycle"]) == (
        "eastus",
        "1",
        "deallocated",
        "spot",
    )
    assert row["attributes"]["has_rdma"] is True and str(row["attributes"]["placement_group"]).endswith("/ppg")
    assert {str(VM["id"]).lower(), "train-0", "10.0.0.5"} <= set(row["aliases"])


def test_an_azure_machine_without_power_state_is_not_said_to_run(tmp_path: Path) -> None:
    rows, _ = load_files(tmp_path, {"vm.json": [{**VM, "powerState": None, "provisioningState": "Succeeded"}]})
    assert next(iter(rows.values()))["state"] is None


def test_an_attached_address_leaves_its_ip_to_the_machine(tmp_path: Path) -> None:
    free = {"AllocationId": "eipalloc-0123456789abcdef0", "PublicIp": "203.0.113.1", "NetworkBorderGroup": "us-east-1"}
    used = {
        **free,
        "AllocationId": "eipalloc-0123456789abcdef1",
        "PublicIp": "203.0.113.2",
        "InstanceId": "i-0123456789abcdef0",
    }
    rows, _ = load_files(tmp_path, {"111122223333/a.json": {"Addresses": [free, used]}})
    idle, busy = rows["eipalloc-0123456789abcdef0"], rows["eipalloc-0123456789abcdef1"]
    assert "203.0.113.1" in idle["aliases"] and "203.0.113.2" not in busy["aliases"]
    assert (idle["state"], busy["state"], busy["attributes"]["attached_to"]) == (
        "available",
        "in_use",
        "i-0123456789abcdef0",
    )


@pytest.mark.parametrize("size", ["Standard_NC96ads_A100_v4", "Standard_NC4as_T4_v3", "Standard_D4s_v5"])
def test_an_azure_size_without_r_has_no_rdma(tmp_path: Path, size: str) -> None:
    rows, _ = load_files(tmp_path, {"vm.json": [{**VM, "hardwareProfile": {"vmSize": size}}]})
    assert next(iter(rows.values()))["attributes"]["has_rdma"] is False


def test_azure_graph_and_list_output_of_one_thing_are_one_row(tmp_path: Path) -> None:
    disk = {
        "id": f"{SUBSCRIPTION}/Microsoft.Compute/disks/os",
        "name": "os",
        "type": "Microsoft.Compute/disks",
        "location": "eastus",
        "diskSizeGb": 128,
        "diskState": "Unattached",
    }
    graph = {
        "count": 1,
        "total_records": 1,
        "data": [
            {
                "id": str(disk["id"]).lower(),
                "type": "microsoft.compute/disks",
                "name": "os",
                "location": "eastus",
                "properties": {"diskSizeGB": 128},
            }
        ],
    }
    rows, reports = load_files(tmp_path, {"d.json": [disk], "g.json": graph})
    assert len(rows) == 1 and [report.format for report in reports] == ["az-disk-list", "az-graph-query"]
    row = next(iter(rows.values()))
    assert row["state"] == "available" and row["attributes"]["size_gib"] == 128


def test_azure_subnets_tell_their_gateway_and_service_endpoints(tmp_path: Path) -> None:
    network = f"{SUBSCRIPTION}/Microsoft.Network/virtualNetworks/vnet"
    gateway = f"{SUBSCRIPTION}/Microsoft.Network/natGateways/nat"
    vnet = {
        "id": network,
        "name": "vnet",
        "type": "Microsoft.Network/virtualNetworks",
        "location": "eastus",
        "subnets": [
            {
                "id": f"{network}/subnets/workers",
                "name": "workers",
                "natGateway": {"id": gateway.lower()},
                "serviceEndpoints": [{"service": "Microsoft.Storage"}],
            }
        ],
    }
    nat = {
        "id": gateway,
        "name": "nat",
        "type": "Microsoft.Network/natGateways",
        "location": "eastus",
        "subnets": [{"id": f"{network}/subnets/workers"}],
    }
    rows, _ = load_files(tmp_path, {"v.json": [vnet], "n.json": [nat]})
    subnet = rows[f"{network}/subnets/workers"]
    assert (
        subnet["attributes"]["service_endpoints"] == ["Microsoft.Storage"]
        and subnet["attributes"]["nat_gateway_id"] == gateway
    )
    assert rows[gateway]["attributes"]["network_id"] == network and rows[gateway]["attributes"]["subnet_ids"] == [
        f"{network}/subnets/workers"
    ]


def test_azure_reservations_commitments_and_pools_are_told_apart(tmp_path: Path) -> None:
    order = "/providers/Microsoft.Capacity/reservationOrders/00000000-0000-0000-0000-00000000000a/reservations/00000000-0000-0000-0000-00000000000b"
    group = f"{SUBSCRIPTION}/Microsoft.Compute/capacityReservationGroups/g/capacityReservations/cr"
    pool = f"{SUBSCRIPTION}/Microsoft.NetApp/netAppAccounts/a/capacityPools/p"
    data = [
        {
            "id": order,
            "type": "microsoft.capacity/reservationorders/reservations",
            "properties": {"displayName": "ri", "expiryDate": "2027-03-01", "quantity": 2, "term": "P1Y"},
        },
        {
            "id": group,
            "type": "microsoft.compute/capacityreservationgroups/capacityreservations",
            "sku": {"name": "Standard_ND96asr_v4", "capacity": 2},
            "properties": {"virtualMachinesAssociated": []},
        },
        {
            "id": pool,
            "type": "microsoft.netapp/netappaccounts/capacitypools",
            "properties": {"size": 2 * 2**40, "totalThroughputMibps": 128},
        },
    ]
    rows, _ = load_files(tmp_path, {"g.json": {"count": 3, "data": data, "total_records": 3}})
    assert (rows[order]["resource_type"], rows[order]["attributes"]["ends_at"]) == ("commitment", "2027-03-01 00:00:00")
    capacity = rows[group]["attributes"]
    assert (rows[group]["resource_type"], capacity["reserved_count"], capacity["used_count"]) == (
        "capacity_reservation",
        2,
        0,
    )
    assert (rows[pool]["attributes"]["size_gib"], rows[pool]["attributes"]["provisioned_mibps"]) == (2048, 128)


NEUTRAL = {
    "provider": "AWS",
    "account_id": "111122223333",
    "region": "us-east-1",
    "zone": None,
    "resource_id": "i-0123456789abcdef0",
    "resource_type": "AWS::EC2::Instance",
    "name": "train-0",
    "state": "running",
    "created_at": "2026-09-01T00:00:00Z",
    "tags": {"job": "llm"},
    "attributes": {"data_source": "acme-data", "rdma": False},
    "related": [{"type": "reads_from", "resource_id": "acme-data"}],
}


def test_the_neutral_table_adds_to_what_the_vendors_tool_prints(tmp_path: Path) -> None:
    rows, _ = load_files(tmp_path, {"r.jsonl": json.dumps(NEUTRAL) + "\n", "i.json": RESERVATIONS})
    row = rows["i-0123456789abcdef0"]
    assert row["state"] == "stopped" and row["attributes"]["has_rdma"] is True
    assert row["tags"] == {"Name": "train-0", "owner": "vision", "job": "llm"}
    assert row["attributes"]["data_source"] == "acme-data" and row["related"]["reads_from"] == ["acme-data"]


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_the_neutral_table_reads_alike_in_every_form(tmp_path: Path, form: str) -> None:
    cells = {key: json.dumps(value) if isinstance(value, (dict, list)) else value for key, value in NEUTRAL.items()}
    path = tmp_path / f"table.{form}"
    with duckdb.connect() as con:
        con.execute(f"create table t as select {', '.join('? as ' + key for key in cells)}", list(cells.values()))
        con.execute(f"copy t to '{path}' (format {'json' if form == 'jsonl' else form})")
    rows, reports = load_files(tmp_path, {path.name: path.read_bytes()})
    row = rows["i-0123456789abcdef0"]
    assert (row["provider"], row["resource_type"], row["tags"]) == ("aws", "instance", {"job": "llm"})
    assert row["attributes"]["has_rdma"] is False and row["related"] == {"reads_from": ["acme-data"]}
    assert reports[0].format == f"resources-{form}"


def test_a_spend_based_commitment_keeps_its_term(tmp_path: Path) -> None:
    commitment = {
        "provider": "gcp",
        "resource_id": "subscriptions/00000000-0000-0000-0000-00000000000c",
        "resource_type": "commitment",
        "attributes": {"start": "2026-02-01T08:00:00Z", "end": "2027-02-01T08:00:00Z"},
    }
    rows, _ = load_files(tmp_path, {"r.jsonl": json.dumps(commitment) + "\n"})
    attributes = rows["subscriptions/00000000-0000-0000-0000-00000000000c"]["attributes"]
    assert (attributes["starts_at"], attributes["ends_at"]) == ("2026-02-01 08:00:00", "2027-02-01 08:00:00")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("AWS::EC2::Instance", "instance"),
        ("ec2 instance", "instance"),
        ("compute.googleapis.com/Instance", "instance"),
        ("Microsoft.Compute/virtualMachines", "instance"),
        ("Microsoft.Compute/virtualMachineScaleSets/virtualMachines", "instance"),
        ("AWS::EC2::Volume", "volume"),
        ("Microsoft.Compute/disks", "volume"),
        ("AWS::EC2::NatGateway", "nat_gateway"),
        ("AWS::EC2::VPC", "network"),
        ("AWS::EC2::EIP", "address"),
        ("AWS::EC2::VPCEndpoint", "private_endpoint"),
        ("AWS::SageMaker::Endpoint", "endpoint"),
        ("AWS::SageMaker::EndpointConfig", "other"),
        ("AWS::SageMaker::NotebookInstance", "notebook"),
        ("notebooks.googleapis.com/Instance", "notebook"),
        ("file.googleapis.com/Instance", "file_system"),
        ("AWS::EFS::FileSystem", "file_system"),
        ("Microsoft.StorageCache/amlFilesystems", "file_system"),
        ("aiplatform.googleapis.com/CustomJob", "training_job"),
        ("container.googleapis.com/NodePool", "node_pool"),
        ("tpu.googleapis.com/Node", "tpu_node"),
        ("Microsoft.Capacity/reservationOrders/reservations", "commitment"),
        ("AWS::EC2::CapacityReservation", "capacity_reservation"),
        ("compute.googleapis.com/Reservation", "capacity_reservation"),
        ("Microsoft.Network/networkInterfaces", "other"),
        ("AWS::RDS::DBInstance", "other"),
        ("something new", "other"),
    ],
)
def test_vendor_words_become_neutral_types(word: str, expected: str) -> None:
    assert neutral_type(word) == expected and expected in RESOURCE_TYPES


def test_a_damaged_file_is_failed_and_keeps_its_whole_resources(tmp_path: Path) -> None:
    machines = [{**INSTANCE, "InstanceId": f"i-{n:017x}"} for n in range(1, 200)]
    text = json.dumps(
        {"Volumes": [{**VOLUMES["Volumes"][0], "VolumeId": f"vol-{n:017x}"} for n in range(1, 200)]}, indent=1
    )
    rows, reports = load_files(
        tmp_path,
        {
            "cut.json": text[: len(text) * 2 // 3],
            "good.json": {"Reservations": [{"OwnerId": "111122223333", "Instances": machines}]},
        },
    )
    assert [report.status for report in reports] == ["failed", "ok"]
    assert 100 < reports[0].rows < 199 and f"{reports[0].rows} resources read before the damage" in (
        reports[0].message or ""
    )
    assert len(rows) == reports[0].rows + 199


def test_compressed_files_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    rows, _ = load_files(
        tmp_path,
        {
            "i.json.gz": gzip.compress(json.dumps(RESERVATIONS).encode()),
            "v.json": json.dumps(VOLUMES, indent=1).encode("utf-16"),
        },
    )
    assert set(rows) == {"i-0123456789abcdef0", "vol-0123456789abcdef0"}


@pytest.mark.parametrize(
    "document",
    [
        {"Volumes": [{"size": 1}]},
        {"Rules": [{"RuleArn": "arn", "Priority": "1"}]},
        {
            "value": [
                {
                    "id": f"{SUBSCRIPTION}/Microsoft.Compute/virtualMachines/a/providers/Microsoft.Insights/metrics/Percentage CPU",
                    "type": "Microsoft.Insights/metrics",
                    "timeseries": [],
                }
            ]
        },
        {"data": {"result": []}},
        {"resource_id": "a", "resource_type": "b", "metric": "gpu.utilization", "value": 1},
    ],
)
def test_other_documents_are_no_inventory(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document, indent=1))
    file = LandingFile(path, path.name, path.stat().st_size)
    assert inventory.recognise(file, look(file)) is None


@pytest.mark.shared
def test_every_inventory_file_of_the_sample_estate_loads(tmp_path: Path) -> None:
    folder = SHARED / "estates" / "dev" / "data" / "inventory"
    if not folder.is_dir():
        pytest.skip("the team's sample files are absent")
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    rows, reports = load_files(tmp_path, files)
    assert {(report.status, report.message) for report in reports} == {("ok", None)}
    assert all(row["account_id"] for row in rows.values()) and not [
        row for row in rows.values() if row["resource_type"] == "other"
    ]


def test_an_object_that_lost_its_id_costs_only_itself_and_makes_the_file_failed(tmp_path: Path) -> None:
    table = {"VpcId": "vpc-0123456789abcdef0", "Associations": [], "Routes": []}
    whole = [{**table, "RouteTableId": f"rtb-0123456789abcdef{n}"} for n in range(3)]
    rows, (report,) = load_files(tmp_path, {"routes.json": {"RouteTables": [whole[0], table, *whole[1:]]}})
    assert sorted(rows) == [one["RouteTableId"] for one in whole]
    assert (report.status, report.rows) == ("failed", 3)
    assert "1 objects are not laid out as their format is" in str(report.message)


@pytest.mark.parametrize("odd", ['"\\ud83d"', '"\\u0000a"', "1e999", "NaN", "[[]]"])
@pytest.mark.parametrize("where", ["State", "LaunchTime", "Tags", "InstanceType", "BlockDeviceMappings", "CpuOptions"])
def test_no_odd_value_of_an_instance_ends_the_reading(tmp_path: Path, where: str, odd: str) -> None:
    text = json.dumps({"Reservations": [{"OwnerId": "111122223333", "Instances": [{**INSTANCE, where: "ODD"}]}]})
    files = {"i.json": text.replace('"ODD"', odd), "v.json": {"Volumes": [{"VolumeId": "vol-0123456789abcdef0"}]}}
    rows, reports = load_files(tmp_path, files)
    assert "vol-0123456789abcdef0" in rows
    assert {report.status for report in reports} <= {"ok", "failed"}


def test_what_stands_before_an_abyss_of_brackets_counts(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text('{"Volumes": [{"VolumeId": "vol-0123456789abcdef0"}, ' + "[" * 30_000 + "]" * 30_000 + "]}")
    file = LandingFile(path, path.name, path.stat().st_size)
    whole = Recognised(
        file, Shape("json"), "inventory", "aws-describe-volumes", "aws"
    )  # too large to be looked through
    with duckdb.connect() as con:
        (report,) = inventory.load(con, [whole])
    assert (report.status, report.rows) == ("failed", 1)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig"])
def test_a_table_saved_by_a_spreadsheet_is_read_in_its_encoding(tmp_path: Path, encoding: str) -> None:
    table = "provider;account_id;resource_id;resource_type;name;tags\r\naws;111122223333;i-0123456789abcdef0;instance;Gemälde;\r\n"
    rows, (report,) = load_files(tmp_path, {"resources.csv": table.encode(encoding)})
    assert (report.status, report.message) == ("ok", None)
    assert rows["i-0123456789abcdef0"]["name"] == "Gemälde"
    assert rows["i-0123456789abcdef0"]["tags"] == {}
