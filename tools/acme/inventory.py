"""The inventory as the vendors' own tools print it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from acme.aws import (
    BUCKET,
    BY_NAME,
    IDLE_ADDRESS,
    LABEL_INFER,
    MACHINES,
    ROOT_VOLUME,
    UNATTACHED,
    VPC_ACCOUNT,
    VPC_REGION,
    VPC_ZONES,
    Machine,
    nat_arn,
)
from acme.azure import AZURE_NATS, AZURE_VMS, GROUPS, arm, azure_nat
from acme.files import write_json, write_text
from acme.gcp import FLEX_CUD, ROUTER, VMS
from acme.truth import AS_OF, BILLED_FROM, GCP_PROJECTS, PAYER, SERVING, VISION, Row, digest, number


def aws_tags(values: Mapping[str, str]) -> list[Row]:
    return [{"Key": key, "Value": value} for key, value in values.items()]


def vpc_id(vpc: str) -> str:
    return f"vpc-0{digest(vpc, 'vpc', length=16)}"


def subnet_id(vpc: str, zone: str) -> str:
    return f"subnet-0{digest(vpc, zone, length=16)}"


def route_table_id(vpc: str) -> str:
    return f"rtb-0{digest(vpc, 'routes', length=16)}"


def describe_instance(machine: Machine, host: int) -> Row:
    launched = machine.start if machine.start > BILLED_FROM else datetime(2026, 5, 4, 9, tzinfo=UTC)
    gone = machine.end < AS_OF
    instance: Row = {
        "InstanceId": machine.id,
        "InstanceType": machine.type,
        "ImageId": f"ami-0{digest('image', length=16)}",
        "LaunchTime": f"{launched:%Y-%m-%dT%H:%M:%S+00:00}",
        "State": {"Code": 48, "Name": "terminated"} if gone else {"Code": 16, "Name": "running"},
        "Placement": {"AvailabilityZone": machine.zone, "GroupName": "", "Tenancy": "default"},
        "PrivateIpAddress": f"10.1.0.{host}",
        "SubnetId": subnet_id(machine.vpc, machine.zone[-1]),
        "VpcId": vpc_id(machine.vpc),
        "StateTransitionReason": "",
        "Architecture": "x86_64",
        "BlockDeviceMappings": [],
        "Tags": aws_tags({"Name": machine.name, **machine.tags}),
    }
    if machine.option == "spot":
        instance["InstanceLifecycle"] = "spot"
        instance["StateTransitionReason"] = f"User initiated ({machine.end:%Y-%m-%d %H:%M:%S} GMT)"
    if machine.name == "train-llm-01":
        instance["BlockDeviceMappings"] = [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"VolumeId": ROOT_VOLUME, "Status": "attached", "DeleteOnTermination": True},
            }
        ]
    return instance


def describe_volume(volume: str, size: int, team: str, attached_to: str | None) -> Row:
    return {
        "VolumeId": volume,
        "VolumeType": "gp3",
        "Size": size,
        "Iops": 3000,
        "Throughput": 125,
        "AvailabilityZone": "us-east-1a",
        "CreateTime": "2026-05-04T09:00:00+00:00",
        "State": "in-use" if attached_to else "available",
        "Encrypted": True,
        "Attachments": [
            {"InstanceId": attached_to, "VolumeId": volume, "State": "attached", "Device": "/dev/xvda"}
        ]
        if attached_to
        else [],
        "Tags": aws_tags({"team": team}),
    }  # fmt: skip


def describe_route_table(vpc: str, account: str) -> Row:
    gateway = nat_arn(vpc).rpartition("/")[2]
    return {
        "RouteTableId": route_table_id(vpc),
        "VpcId": vpc_id(vpc),
        "OwnerId": account,
        "Associations": [
            {
                "Main": False,
                "RouteTableAssociationId": f"rtbassoc-0{digest(vpc, zone, 'association', length=16)}",
                "RouteTableId": route_table_id(vpc),
                "SubnetId": subnet_id(vpc, zone),
                "AssociationState": {"State": "associated"},
            }
            for zone in VPC_ZONES[vpc]
        ],
        "Routes": [
            {"DestinationCidrBlock": "10.0.0.0/8", "GatewayId": "local", "State": "active"},
            {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": gateway, "State": "active"},
        ],
        "Tags": [],
    }


def describe_endpoint(vpc: str, service: str, account: str, kind: str) -> Row:
    gateway = kind == "Gateway"
    return {
        "VpcEndpointId": f"vpce-0{digest(vpc, service, length=16)}",
        "VpcEndpointType": kind,
        "VpcId": vpc_id(vpc),
        "ServiceName": f"com.amazonaws.{VPC_REGION[vpc]}.{service}",
        "State": "available",
        "RouteTableIds": [route_table_id(vpc)] if gateway else [],
        "SubnetIds": [] if gateway else [subnet_id(vpc, VPC_ZONES[vpc][0])],
        "OwnerId": account,
        "CreationTimestamp": "2026-03-02T10:11:12.000Z",
        "Tags": [],
    }


def make_aws_inventory(root: Path, account: str, machines: Sequence[Machine]) -> None:
    folder = root / "inventory" / "aws" / account
    vpcs = [vpc for vpc, owner in VPC_ACCOUNT.items() if owner == account]
    write_json(
        folder / "describe-instances.json",
        {
            "Reservations": [
                {
                    "ReservationId": f"r-0{digest(machine.id, 'launch', length=16)}",
                    "OwnerId": account,
                    "Groups": [],
                    "Instances": [describe_instance(machine, host)],
                }
                for host, machine in enumerate(machines, start=10)
            ]
        },
    )
    write_json(
        folder / "describe-nat-gateways.json",
        {
            "NatGateways": [
                {
                    "NatGatewayId": nat_arn(vpc).rpartition("/")[2],
                    "VpcId": vpc_id(vpc),
                    "SubnetId": subnet_id(vpc, VPC_ZONES[vpc][0]),
                    "State": "available",
                    "ConnectivityType": "public",
                    "CreateTime": "2026-03-02T10:00:00+00:00",
                    "NatGatewayAddresses": [],
                    "Tags": aws_tags({"Name": f"nat-{vpc}", "team": "platform"}),
                }
                for vpc in vpcs
            ]
        },
    )
    write_json(
        folder / "describe-subnets.json",
        {
            "Subnets": [
                {
                    "AvailabilityZone": f"{VPC_REGION[vpc]}{zone}",
                    "CidrBlock": f"10.1.{16 * place}.0/20",
                    "SubnetId": subnet_id(vpc, zone),
                    "VpcId": vpc_id(vpc),
                    "OwnerId": account,
                    "State": "available",
                    "MapPublicIpOnLaunch": False,
                    "SubnetArn": f"arn:aws:ec2:{VPC_REGION[vpc]}:{account}:subnet/{subnet_id(vpc, zone)}",
                    "Tags": aws_tags({"Name": f"private-{vpc}-{zone}"}),
                }
                for vpc in vpcs
                for place, zone in enumerate(VPC_ZONES[vpc])
            ]
        },
    )
    write_json(
        folder / "describe-route-tables.json", {"RouteTables": [describe_route_table(vpc, account) for vpc in vpcs]}
    )
    endpoints = [
        describe_endpoint(vpc, service, account, "Gateway")
        for vpc in vpcs
        if vpc != "train"  # the network through which the training data comes has none
        for service in ("s3", "dynamodb")
    ]
    write_json(folder / "describe-vpc-endpoints.json", {"VpcEndpoints": endpoints})


def make_gcp_inventory(root: Path) -> None:
    def url(project: str, path: str) -> str:
        return f"https://www.googleapis.com/compute/v1/projects/{project}/{path}"

    instances = [
        {
            "kind": "compute#instance",
            "id": vm.id,
            "name": vm.name,
            "status": "RUNNING",
            "zone": url(vm.project, f"zones/{vm.zone}"),
            "machineType": url(vm.project, f"zones/{vm.zone}/machineTypes/{vm.type}"),
            "selfLink": url(vm.project, f"zones/{vm.zone}/instances/{vm.name}"),
            "creationTimestamp": "2026-05-04T09:00:00.000-00:00",
            "networkInterfaces": [
                {
                    "name": "nic0",
                    "network": url(vm.project, "global/networks/acme"),
                    "subnetwork": url(vm.project, "regions/us-central1/subnetworks/workers"),
                }
            ],
            "labels": dict(vm.labels),
            "scheduling": {"provisioningModel": "STANDARD", "preemptible": False, "onHostMaintenance": "TERMINATE"},
            "disks": [],
            "resourcePolicies": [],
            "guestAccelerators": [
                {
                    "acceleratorCount": vm.gpus,
                    "acceleratorType": url(vm.project, f"zones/{vm.zone}/acceleratorTypes/{vm.gpu_type}"),
                }
            ]
            if vm.gpus
            else [],
        }
        for vm in VMS
    ]
    project = "acme-ml-train"
    routers = [
        {
            "kind": "compute#router",
            "id": ROUTER.rpartition("/")[2],
            "name": "nat-edge",
            "network": url(project, "global/networks/acme"),
            "region": url(project, "regions/us-central1"),
            "selfLink": url(project, "regions/us-central1/routers/nat-edge"),
            "creationTimestamp": "2026-03-02T10:00:00.000-00:00",
            "nats": [
                {
                    "name": "nat-edge",
                    "natIpAllocateOption": "AUTO_ONLY",
                    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
                    "type": "PUBLIC",
                }
            ],
        }
    ]
    subnets = [
        {
            "kind": "compute#subnetwork",
            "id": number(f"{name}/subnet"),
            "name": "workers",
            "network": url(name, "global/networks/acme"),
            "region": url(name, "regions/us-central1"),
            "selfLink": url(name, "regions/us-central1/subnetworks/workers"),
            "ipCidrRange": "10.2.0.0/20",
            "privateIpGoogleAccess": True,
            "purpose": "PRIVATE",
        }
        for name in GCP_PROJECTS
    ]
    folder = root / "inventory" / "gcp"
    write_json(folder / "compute-instances-list.json", instances)
    write_json(folder / "compute-routers-list.json", routers)
    write_json(folder / "compute-networks-subnets-list.json", subnets)


def make_azure_inventory(root: Path) -> None:
    def subnet(name: str) -> str:
        network = arm(AZURE_NATS[name][0], "Microsoft.Network/virtualNetworks", f"vnet-{name}")
        return f"{network}/subnets/workers"

    folder = root / "inventory" / "azure"
    machines = [
        {
            "id": vm.id,
            "name": vm.name,
            "type": "Microsoft.Compute/virtualMachines",
            "location": "eastus",
            "resourceGroup": GROUPS[vm.subscription][1].upper(),  # the tool writes it in capitals, the bill does not
            "tags": dict(vm.tags),
            "zones": ["1"],
            "hardwareProfile": {"vmSize": vm.size},
            "provisioningState": "Succeeded",
            "powerState": "VM running",
            "priority": None,
            "timeCreated": "2026-05-04T09:00:00Z",
        }
        for vm in AZURE_VMS
    ]
    gateways = [
        {
            "id": azure_nat(name),
            "name": name,
            "type": "Microsoft.Network/natGateways",
            "location": "eastus",
            "resourceGroup": GROUPS[subscription][1],
            "sku": {"name": "Standard"},
            "subnets": [{"id": subnet(name)}],
            "publicIpAddresses": [],
            "idleTimeoutInMinutes": 4,
            "provisioningState": "Succeeded",
            "tags": {"team": "platform"},
        }
        for name, (subscription, _) in AZURE_NATS.items()
    ]
    networks = [
        {
            "id": subnet(name).removesuffix("/subnets/workers"),
            "name": f"vnet-{name}",
            "type": "Microsoft.Network/virtualNetworks",
            "location": "eastus",
            "resourceGroup": GROUPS[subscription][1],
            "addressSpace": {"addressPrefixes": ["10.3.0.0/16"]},
            "subnets": [
                {
                    "name": "workers",
                    "id": subnet(name),
                    "addressPrefix": "10.3.0.0/20",
                    "provisioningState": "Succeeded",
                    "natGateway": {"id": azure_nat(name)},
                    "serviceEndpoints": [
                        {"service": "Microsoft.Storage", "locations": ["*"], "provisioningState": "Succeeded"}
                    ],
                }
            ],
            "virtualNetworkPeerings": [],
            "tags": {},
        }
        for name, (subscription, _) in AZURE_NATS.items()
    ]
    write_json(folder / "az-vm-list.json", machines)
    write_json(folder / "az-network-nat-gateway-list.json", gateways)
    write_json(folder / "az-network-vnet-list.json", networks)


def make_inventory(root: Path) -> None:
    for account in (PAYER, SERVING):
        make_aws_inventory(root, account, [machine for machine in MACHINES if machine.account == account])
    make_aws_inventory(root, VISION, [LABEL_INFER])
    volumes = [
        describe_volume(UNATTACHED, 2000, "simulation", None),
        describe_volume(ROOT_VOLUME, 500, "planning", BY_NAME["train-llm-01"].id),
    ]
    write_json(root / "inventory" / "aws" / PAYER / "describe-volumes.json", {"Volumes": volumes})
    address = {
        "AllocationId": IDLE_ADDRESS,
        "PublicIp": "192.0.2.10",
        "Domain": "vpc",
        "NetworkBorderGroup": "us-east-1",
        "PublicIpv4Pool": "amazon",
        "Tags": aws_tags({"team": "platform"}),
    }
    write_json(root / "inventory" / "aws" / PAYER / "describe-addresses.json", {"Addresses": [address]})
    make_gcp_inventory(root)
    make_azure_inventory(root)
    resources: list[Row] = [
        {
            "provider": "aws", "account_id": PAYER, "region": "us-east-1", "zone": None, "resource_id": BUCKET,
            "resource_type": "bucket", "name": BUCKET, "state": "available", "created_at": "2025-11-03T08:00:00Z",
            "tags": {"team": "planning"}, "attributes": {}, "related": [],
        },
        {
            "provider": "gcp", "account_id": "acme-serving", "region": "us-central1", "zone": None,
            "resource_id": FLEX_CUD, "resource_type": "commitment", "name": "flex-2026", "state": "active",
            "created_at": "2026-06-30T00:00:00Z", "tags": {},
            "attributes": {"start": "2026-06-30T00:00:00Z", "end": "2027-06-30T00:00:00Z"}, "related": [],
        },
    ]  # fmt: skip
    write_text(root / "inventory" / "resources.jsonl", "".join(json.dumps(row) + "\n" for row in resources))
