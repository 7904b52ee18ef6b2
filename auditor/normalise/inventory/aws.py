"""AWS: what `aws ec2 describe-*`, `s3api`, `fsx`, `efs`, `sagemaker`, `elbv2`, `savingsplans` and `eks` print."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from auditor.normalise.inventory.rows import (
    Json,
    Row,
    as_list,
    aws_account_in,
    aws_region_in,
    first,
    inside,
    number,
    objects,
    region_of_zone,
    tag_map,
    tail,
    timestamp,
)


def _part(arn: Any, index: int) -> str | None:
    parts = str(arn).split(":") if arn else []
    return parts[index] or None if len(parts) > 5 else None


def _row(
    place: str,
    resource_type: str,
    resource_id: str,
    *,
    arn: Any = None,
    owner: Any = None,
    zone: Any = None,
    region: Any = None,
    tags: Any = None,
    name: Any = None,
    state: Any = None,
    created_at: Any = None,
) -> Row:
    """A row whose account and region come from the resource itself, else from the names of the file and its folders."""
    labels = tag_map(tags)
    row = Row(
        provider="aws",
        resource_id=resource_id,
        resource_type=resource_type,
        account_id=first((owner, _part(arn, 4), aws_account_in(place))),
        region=first((region, _part(arn, 3), region_of_zone(zone), aws_region_in(place))),
        zone=zone or None,
        name=name or labels.get("Name") or None,
        state=str(state).lower() if state else None,
        created_at=timestamp(created_at),
        tags=labels,
        place=place,
    )
    row.also_known_as(arn)
    return row


def _stopped_at(instance: Json) -> str | None:
    """The time in `User initiated (2026-10-27 08:00:00 GMT)`, where the instance stands still."""
    if inside(instance, "State", "Name") not in ("stopped", "stopping", "terminated", "shutting-down"):
        return None
    found = re.search(r"\((\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)", str(instance.get("StateTransitionReason") or ""))
    return timestamp(found.group(1)) if found else None


def _instances(document: Json, place: str) -> Iterator[Row]:
    for reservation in objects(document["Reservations"]):
        for instance in objects(reservation.get("Instances")):
            yield _instance(instance, reservation, place)


def _instance(instance: Json, reservation: Json, place: str) -> Row:
    placement = instance.get("Placement") or {}
    interfaces = objects(instance.get("NetworkInterfaces"))
    row = _row(
        place,
        "instance",
        str(instance["InstanceId"]),
        owner=first((reservation.get("OwnerId"), *(one.get("OwnerId") for one in interfaces))),
        zone=placement.get("AvailabilityZone"),
        tags=instance.get("Tags"),
        state=inside(instance, "State", "Name"),
        # The service tells no creation time; the first interface is attached when the machine is made.
        created_at=first(
            (*(inside(one, "Attachment", "AttachTime") for one in interfaces), instance.get("LaunchTime"))
        ),
    )
    row.describe(
        machine_type=instance.get("InstanceType"),
        network_id=instance.get("VpcId"),
        subnet_id=instance.get("SubnetId"),
        placement_group=placement.get("GroupName") or None,
        placement_group_id=placement.get("GroupId") or None,
        has_rdma=any(str(one.get("InterfaceType", "")).startswith("efa") for one in interfaces) if interfaces else None,
        lifecycle=instance.get("InstanceLifecycle"),
        launched_at=timestamp(instance.get("LaunchTime")),
        stopped_at=_stopped_at(instance),
        capacity_reservation_id=instance.get("CapacityReservationId"),
        tenancy=placement.get("Tenancy"),
        public_address=instance.get("PublicIpAddress") or None,
        private_address=instance.get("PrivateIpAddress") or None,
        spot_request_id=instance.get("SpotInstanceRequestId"),
    )
    mappings = objects(instance.get("BlockDeviceMappings"))
    row.relate("volumes", [inside(one, "Ebs", "VolumeId") for one in mappings])
    row.relate("network", instance.get("VpcId"))
    row.relate("subnet", instance.get("SubnetId"))
    row.relate("network_interfaces", [one.get("NetworkInterfaceId") for one in interfaces])
    row.relate("capacity_reservation", instance.get("CapacityReservationId"))
    devices = {inside(one, "Ebs", "VolumeId"): one.get("DeviceName") for one in mappings}
    row.describe(device_names={key: name for key, name in devices.items() if key and name} or None)
    row.also_known_as(
        instance.get("PrivateDnsName"),
        instance.get("PublicDnsName"),
        instance.get("PrivateIpAddress"),
        instance.get("PublicIpAddress"),
    )
    for one in interfaces:
        row.also_known_as(one.get("NetworkInterfaceId"), one.get("MacAddress"), one.get("PrivateIpAddress"))
        row.also_known_as(*(address.get("PrivateIpAddress") for address in objects(one.get("PrivateIpAddresses"))))
    if row.zone:
        row.also_known_as(f"aws:///{row.zone}/{row.resource_id}")  # the provider id of a Kubernetes node
    row.also_known_as(row.name)
    return row


def _volumes(document: Json, place: str) -> Iterator[Row]:
    for volume in objects(document["Volumes"]):
        if "VolumeId" not in volume:
            continue
        attachments = objects(volume.get("Attachments"))
        row = _row(
            place,
            "volume",
            str(volume["VolumeId"]),
            zone=volume.get("AvailabilityZone"),
            tags=volume.get("Tags"),
            state=volume.get("State"),
            created_at=volume.get("CreateTime"),
        )
        row.describe(
            volume_type=volume.get("VolumeType"),
            size_gib=number(volume.get("Size")),
            provisioned_iops=number(volume.get("Iops")),
            provisioned_mibps=number(volume.get("Throughput")),
            instance_id=first(one.get("InstanceId") for one in attachments),
            device_names=[one["Device"] for one in attachments if one.get("Device")] or None,
            snapshot_id=volume.get("SnapshotId") or None,
        )
        row.relate("instance", [one.get("InstanceId") for one in attachments])
        yield row


def _snapshots(document: Json, place: str) -> Iterator[Row]:
    for one in objects(document["Snapshots"]):
        if "SnapshotId" not in one:
            continue
        row = _row(
            place,
            "snapshot",
            str(one["SnapshotId"]),
            owner=one.get("OwnerId"),
            tags=one.get("Tags"),
            state=one.get("State"),
            created_at=one.get("StartTime"),
        )
        row.describe(size_gib=number(one.get("VolumeSize")), volume_id=one.get("VolumeId"))
        row.relate("volume", one.get("VolumeId"))
        yield row


def _nat_gateways(document: Json, place: str) -> Iterator[Row]:
    for gateway in objects(document["NatGateways"]):
        addresses = objects(gateway.get("NatGatewayAddresses"))
        # A regional gateway has no subnet and no zone of its own.
        row = _row(
            place,
            "nat_gateway",
            str(gateway["NatGatewayId"]),
            tags=gateway.get("Tags"),
            state=gateway.get("State"),
            created_at=gateway.get("CreateTime"),
            zone=gateway.get("AvailabilityZone"),
        )
        row.describe(
            network_id=gateway.get("VpcId"),
            subnet_id=gateway.get("SubnetId"),
            connectivity=gateway.get("ConnectivityType") or "public",
            availability_mode=gateway.get("AvailabilityMode"),
            public_addresses=[one["PublicIp"] for one in addresses if one.get("PublicIp")] or None,
        )
        row.relate("network", gateway.get("VpcId"))
        row.relate("subnet", gateway.get("SubnetId"))
        row.relate("network_interfaces", [one.get("NetworkInterfaceId") for one in addresses])
        row.relate("addresses", [one.get("AllocationId") for one in addresses])
        # The allocation id stays out of the aliases: it is the elastic address's own id, which is billed apart.
        for one in addresses:
            row.also_known_as(one.get("NetworkInterfaceId"), one.get("PrivateIp"))
        yield row


def _private_endpoints(document: Json, place: str) -> Iterator[Row]:
    for one in objects(document["VpcEndpoints"]):
        kind = str(one.get("VpcEndpointType") or "Gateway").lower()
        service = str(one.get("ServiceName") or "")
        found = aws_region_in(service.replace("com.amazonaws.", ""))
        row = _row(
            place,
            "private_endpoint",
            str(one["VpcEndpointId"]),
            owner=one.get("OwnerId"),
            region=found,
            tags=one.get("Tags"),
            state=one.get("State"),
            created_at=one.get("CreationTimestamp"),
        )
        row.describe(
            network_id=one.get("VpcId"),
            service=service or None,
            endpoint_type=kind,
            route_table_ids=as_list(one.get("RouteTableIds")),
            subnet_ids=as_list(one.get("SubnetIds")),
        )
        row.relate("network", one.get("VpcId"))
        row.relate("route_tables", one.get("RouteTableIds"))
        row.relate("subnets", one.get("SubnetIds"))
        row.relate("network_interfaces", one.get("NetworkInterfaceIds"))
        row.also_known_as(*as_list(one.get("NetworkInterfaceIds")))
        yield row


def _route_tables(document: Json, place: str) -> Iterator[Row]:
    for table in objects(document["RouteTables"]):
        associations = objects(table.get("Associations"))
        row = _row(place, "route_table", str(table["RouteTableId"]), owner=table.get("OwnerId"), tags=table.get("Tags"))
        row.describe(
            network_id=table.get("VpcId"),
            is_main=any(one.get("Main") is True for one in associations),
            associations=[one["SubnetId"] for one in associations if one.get("SubnetId")],
            routes=[route for route in map(_route, objects(table.get("Routes"))) if route["target"]],
        )
        row.relate("network", table.get("VpcId"))
        row.relate("subnets", [one.get("SubnetId") for one in associations])
        row.relate("nat_gateways", [one.get("NatGatewayId") for one in objects(table.get("Routes"))])
        yield row


def _route(route: Json) -> dict[str, Any]:
    destinations = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")
    targets = (
        "NatGatewayId",
        "GatewayId",
        "VpcPeeringConnectionId",
        "TransitGatewayId",
        "NetworkInterfaceId",
        "InstanceId",
        "EgressOnlyInternetGatewayId",
        "LocalGatewayId",
        "CarrierGatewayId",
        "CoreNetworkArn",
    )
    return {
        "destination": first(route.get(key) for key in destinations),
        "target": first(route.get(key) for key in targets),
        "state": route.get("State"),
    }


def _subnets(document: Json, place: str) -> Iterator[Row]:
    for subnet in objects(document["Subnets"]):
        row = _row(
            place,
            "subnet",
            str(subnet["SubnetId"]),
            arn=subnet.get("SubnetArn"),
            owner=subnet.get("OwnerId"),
            zone=subnet.get("AvailabilityZone"),
            tags=subnet.get("Tags"),
            state=subnet.get("State"),
        )
        row.describe(
            network_id=subnet.get("VpcId"),
            zone_id=subnet.get("AvailabilityZoneId"),
            cidr=subnet.get("CidrBlock"),
            is_public=subnet.get("MapPublicIpOnLaunch"),
        )
        row.relate("network", subnet.get("VpcId"))
        yield row


def _networks(document: Json, place: str) -> Iterator[Row]:
    for network in objects(document["Vpcs"]):
        row = _row(
            place,
            "network",
            str(network["VpcId"]),
            owner=network.get("OwnerId"),
            tags=network.get("Tags"),
            state=network.get("State"),
        )
        row.describe(cidr=network.get("CidrBlock"), is_default=network.get("IsDefault"))
        yield row


def _addresses(document: Json, place: str) -> Iterator[Row]:
    for address in objects(document["Addresses"]):
        identity = first((address.get("AllocationId"), address.get("PublicIp")))
        attached = first((address.get("InstanceId"), address.get("NetworkInterfaceId"), address.get("AssociationId")))
        row = _row(
            place,
            "address",
            str(identity),
            owner=address.get("NetworkInterfaceOwnerId")
            if address.get("NetworkInterfaceOwnerId", "").isdigit()
            else None,
            region=aws_region_in(str(address.get("NetworkBorderGroup") or "")),
            tags=address.get("Tags"),
            state="in_use" if attached else "available",
        )
        row.describe(
            address=address.get("PublicIp"), attached_to=attached, instance_id=address.get("InstanceId") or None
        )
        row.relate("instance", address.get("InstanceId"))
        row.relate("network_interfaces", address.get("NetworkInterfaceId"))
        # In flow logs an attached address stands for the machine behind it, which bears it as its own alias.
        row.also_known_as(address.get("PublicIp") if not attached else None)
        if row.region and row.account_id:
            row.also_known_as(f"arn:aws:ec2:{row.region}:{row.account_id}:elastic-ip/{identity}")
        yield row


def _placement_groups(document: Json, place: str) -> Iterator[Row]:
    for group in objects(document["PlacementGroups"]):
        identity = first((group.get("GroupId"), group.get("GroupName")))
        row = _row(
            place,
            "placement_group",
            str(identity),
            arn=group.get("GroupArn"),
            tags=group.get("Tags"),
            name=group.get("GroupName"),
            state=group.get("State"),
        )
        row.describe(strategy=group.get("Strategy"))
        row.also_known_as(group.get("GroupName"))
        yield row


def _capacity_reservations(document: Json, place: str) -> Iterator[Row]:
    for one in objects(document["CapacityReservations"]):
        row = _row(
            place,
            "capacity_reservation",
            str(one["CapacityReservationId"]),
            arn=one.get("CapacityReservationArn"),
            owner=one.get("OwnerId"),
            zone=one.get("AvailabilityZone"),
            tags=one.get("Tags"),
            state=one.get("State"),
            created_at=first((one.get("CreateDate"), one.get("StartDate"))),
        )
        total, free = number(one.get("TotalInstanceCount")), number(one.get("AvailableInstanceCount"))
        row.describe(
            machine_type=one.get("InstanceType"),
            reserved_count=total,
            used_count=total - free if total is not None and free is not None else None,
            starts_at=timestamp(first((one.get("StartDate"), one.get("CreateDate")))),
            ends_at=timestamp(one.get("EndDate")),
            reservation_type=one.get("ReservationType"),
            capacity_block_id=one.get("CapacityBlockId"),
        )
        row.also_known_as(one.get("CapacityBlockId"))
        yield row


def _file_systems(document: Json, place: str) -> Iterator[Row]:
    for one in objects(document["FileSystems"]):
        if "FileSystemId" in one:
            yield _fsx(one, place) if "FileSystemType" in one else _efs(one, place)


def _fsx(one: Json, place: str) -> Row:
    kind = str(one.get("FileSystemType") or "").lower()
    configuration = (
        first(
            one.get(key)
            for key in ("LustreConfiguration", "WindowsConfiguration", "OntapConfiguration", "OpenZFSConfiguration")
        )
        or {}
    )
    size = number(one.get("StorageCapacity"))
    throughput = number(configuration.get("ThroughputCapacity"))
    each = number(configuration.get("PerUnitStorageThroughput"))
    if throughput is None and each is not None and size is not None:
        throughput = each * size / 1024  # Lustre: MB/s for each TiB of storage
    pairs = number(configuration.get("HAPairs")) or 1
    if throughput is None and number(configuration.get("ThroughputCapacityPerHAPair")) is not None:
        throughput = (number(configuration.get("ThroughputCapacityPerHAPair")) or 0) * pairs
    row = _row(
        place,
        "file_system",
        str(first((one.get("ResourceARN"), one["FileSystemId"]))),  # bills write the ARN
        arn=one.get("ResourceARN"),
        owner=one.get("OwnerId"),
        tags=one.get("Tags"),
        state=one.get("Lifecycle"),
        created_at=one.get("CreationTime"),
    )
    row.describe(
        file_system_type=f"fsx_{kind}" if kind else "fsx",
        size_gib=size,
        provisioned_mibps=throughput,
        storage_type=one.get("StorageType"),
        deployment_type=configuration.get("DeploymentType"),
        network_id=one.get("VpcId"),
        subnet_ids=as_list(one.get("SubnetIds")),
    )
    row.relate("network", one.get("VpcId"))
    row.relate("subnets", one.get("SubnetIds"))
    row.relate("network_interfaces", one.get("NetworkInterfaceIds"))
    row.also_known_as(one["FileSystemId"], one.get("DNSName"), *as_list(one.get("NetworkInterfaceIds")))
    return row


def _efs(one: Json, place: str) -> Row:
    row = _row(
        place,
        "file_system",
        str(first((one.get("FileSystemArn"), one["FileSystemId"]))),
        arn=one.get("FileSystemArn"),
        owner=one.get("OwnerId"),
        tags=one.get("Tags"),
        name=one.get("Name"),
        state=one.get("LifeCycleState"),
        created_at=one.get("CreationTime"),
    )
    size = number(inside(one, "SizeInBytes", "Value"))
    row.describe(
        file_system_type="efs",
        size_gib=size / 2**30 if size is not None else None,
        provisioned_mibps=number(one.get("ProvisionedThroughputInMibps")),
        throughput_mode=one.get("ThroughputMode"),
    )
    row.also_known_as(one["FileSystemId"])
    return row


def _notebooks(document: Json, place: str) -> Iterator[Row]:
    listed = objects(document.get("NotebookInstances"))
    for one in listed or [dict(document)]:
        arn = one.get("NotebookInstanceArn")
        row = _row(
            place,
            "notebook",
            str(first((arn, one.get("NotebookInstanceName")))),
            arn=arn,
            name=one.get("NotebookInstanceName"),
            state=one.get("NotebookInstanceStatus"),
            created_at=one.get("CreationTime"),
        )
        row.describe(
            machine_type=one.get("InstanceType"),
            size_gib=number(one.get("VolumeSizeInGB")),
            last_modified_at=timestamp(one.get("LastModifiedTime")),
        )
        row.also_known_as(one.get("NotebookInstanceName"))
        yield row


def _studio_apps(document: Json, place: str) -> Iterator[Row]:
    listed = objects(document.get("Apps"))
    for one in listed or [dict(document)]:
        arn = one.get("AppArn")
        owner = first((one.get("UserProfileName"), one.get("SpaceName")))
        row = _row(
            place,
            "notebook",
            str(first((arn, f"{one.get('DomainId')}/{owner}/{one.get('AppName')}"))),
            arn=arn,
            name=one.get("AppName"),
            state=one.get("Status"),
            created_at=one.get("CreationTime"),
        )
        row.describe(machine_type=inside(one, "ResourceSpec", "InstanceType"), app_type=one.get("AppType"))
        yield row


def _endpoints(document: Json, place: str) -> Iterator[Row]:
    listed = objects(document.get("Endpoints"))
    for one in listed or [dict(document)]:
        arn, variants = one.get("EndpointArn"), objects(one.get("ProductionVariants"))
        row = _row(
            place,
            "endpoint",
            str(first((arn, one.get("EndpointName")))),
            arn=arn,
            name=one.get("EndpointName"),
            state=one.get("EndpointStatus"),
            created_at=one.get("CreationTime"),
        )
        counts = [number(variant.get("CurrentInstanceCount")) for variant in variants]
        known = [count for count in counts if count is not None]
        row.describe(
            machine_type=first(variant.get("InstanceType") for variant in variants),
            instance_count=sum(known) if known else None,
            endpoint_config=one.get("EndpointConfigName"),
            last_modified_at=timestamp(one.get("LastModifiedTime")),
        )
        row.relate("endpoint_config", one.get("EndpointConfigName"))
        row.also_known_as(one.get("EndpointName"))
        yield row


def _endpoint_configs(document: Json, place: str) -> Iterator[Row]:
    listed = objects(document.get("EndpointConfigs"))
    for one in listed or [dict(document)]:
        variants = objects(one.get("ProductionVariants"))
        row = _row(
            place,
            "other",
            str(first((one.get("EndpointConfigArn"), one.get("EndpointConfigName")))),
            arn=one.get("EndpointConfigArn"),
            name=one.get("EndpointConfigName"),
            created_at=one.get("CreationTime"),
        )
        row.describe(
            vendor_type="AWS::SageMaker::EndpointConfig",
            machine_type=first(variant.get("InstanceType") for variant in variants),
            instance_count=number(first(variant.get("InitialInstanceCount") for variant in variants)),
        )
        yield row


def _training_jobs(document: Json, place: str) -> Iterator[Row]:
    listed = objects(document.get("TrainingJobSummaries"))
    for one in listed or [dict(document)]:
        arn = one.get("TrainingJobArn")
        resources = one.get("ResourceConfig") or {}
        row = _row(
            place,
            "training_job",
            str(first((arn, one.get("TrainingJobName")))),
            arn=arn,
            name=one.get("TrainingJobName"),
            state=one.get("TrainingJobStatus"),
            created_at=one.get("CreationTime"),
            tags=one.get("Tags"),
        )
        row.describe(
            machine_type=first(
                (
                    resources.get("InstanceType"),
                    *(group.get("InstanceType") for group in objects(resources.get("InstanceGroups"))),
                )
            ),
            instance_count=number(resources.get("InstanceCount")),
            started_at=timestamp(first((one.get("TrainingStartTime"), one.get("CreationTime")))),
            ended_at=timestamp(one.get("TrainingEndTime")),
            uses_spot=one.get("EnableManagedSpotTraining"),
            checkpoint_uri=inside(one, "CheckpointConfig", "S3Uri"),
            capacity_reservation_id=first((one.get("TrainingPlanArn"), resources.get("TrainingPlanArn"))),
        )
        row.relate(
            "reads_from",
            [inside(channel, "DataSource", "S3DataSource", "S3Uri") for channel in objects(one.get("InputDataConfig"))],
        )
        row.also_known_as(one.get("TrainingJobName"))
        yield row


def _bucket_lifecycle(document: Json, place: str) -> Iterator[Row]:
    """The answer names no bucket: the file does, or its folder where the file bears the command's name."""
    parts = re.sub(r"\.json(\.gz|\.zst)?$", "", place.replace("!", "/"), flags=re.IGNORECASE).split("/")
    name = parts[-1]
    if re.search(r"lifecycle", name, re.IGNORECASE):
        rest = re.sub(
            r"(?i)(^|[._-]*)(s3api[._-])?(get-)?(bucket-)?lifecycle([._-]?(configuration|rules))?([._-]*)", "", name
        )
        name = rest or (parts[-2] if len(parts) > 1 else name)
    rules = objects(document.get("Rules"))
    row = _row(place, "bucket", name, name=name)
    row.describe(
        has_lifecycle=any(str(rule.get("Status")).lower() == "enabled" for rule in rules),
        expiration_days=min(
            (days for days in (number(inside(rule, "Expiration", "Days")) for rule in rules) if days is not None),
            default=None,
        ),
    )
    row.also_known_as(f"arn:aws:s3:::{name}")
    yield row


def _buckets(document: Json, place: str) -> Iterator[Row]:
    for one in objects(document["Buckets"]):
        if "Name" not in one:
            continue
        row = _row(
            place,
            "bucket",
            str(one["Name"]),
            name=one["Name"],
            created_at=one.get("CreationDate"),
            region=one.get("BucketRegion"),
        )
        row.also_known_as(f"arn:aws:s3:::{one['Name']}")
        yield row


def _load_balancers(document: Json, place: str) -> Iterator[Row]:
    for one in objects(first((document.get("LoadBalancers"), document.get("LoadBalancerDescriptions")))):
        arn = one.get("LoadBalancerArn")
        name = one.get("LoadBalancerName")
        zones = [zone for zone in as_list(one.get("AvailabilityZones")) if zone]
        zone_names = [zone.get("ZoneName") if isinstance(zone, dict) else zone for zone in zones]
        row = _row(
            place,
            "load_balancer",
            str(first((arn, name))),
            arn=arn,
            name=name,
            region=region_of_zone(first(zone_names)),
            state=inside(one, "State", "Code"),
            created_at=one.get("CreatedTime"),
            tags=one.get("Tags"),
        )
        row.describe(
            network_id=first((one.get("VpcId"), one.get("VPCId"))),
            scheme=one.get("Scheme"),
            load_balancer_type=one.get("Type") or "classic",
        )
        targets = [instance.get("InstanceId") for instance in objects(one.get("Instances"))]
        if "Instances" in one:
            row.describe(target_count=len(targets))
        row.relate("targets", targets)
        row.relate("network", first((one.get("VpcId"), one.get("VPCId"))))
        row.also_known_as(one.get("DNSName"), name)
        if not arn and row.region and row.account_id:
            row.also_known_as(f"arn:aws:elasticloadbalancing:{row.region}:{row.account_id}:loadbalancer/{name}")
        yield row


def _savings_plans(document: Json, place: str) -> Iterator[Row]:
    for one in objects(first((document.get("savingsPlans"), document.get("SavingsPlans")))):
        get = {key.lower(): value for key, value in one.items()}.get
        arn = get("savingsplanarn")
        row = _row(
            place,
            "commitment",
            str(first((arn, get("savingsplanid")))),
            arn=arn,
            region=get("region"),
            state=get("state"),
            created_at=get("start"),
            tags=get("tags"),
        )
        row.describe(
            commitment_type="savings_plan",
            plan=get("savingsplantype"),
            starts_at=timestamp(get("start")),
            ends_at=timestamp(get("end")),
            term_seconds=number(get("termdurationinseconds")),
            hourly_commitment=get("commitment"),
            currency=get("currency"),
        )
        row.also_known_as(get("savingsplanid"))
        yield row


def _reserved_instances(document: Json, place: str) -> Iterator[Row]:
    for one in objects(document["ReservedInstances"]):
        identity = one.get("ReservedInstancesId")
        row = _row(
            place,
            "commitment",
            str(identity),
            zone=one.get("AvailabilityZone"),
            state=one.get("State"),
            created_at=one.get("Start"),
            tags=one.get("Tags"),
        )
        row.describe(
            commitment_type="reserved_instance",
            machine_type=one.get("InstanceType"),
            reserved_count=number(one.get("InstanceCount")),
            starts_at=timestamp(one.get("Start")),
            ends_at=timestamp(one.get("End")),
            term_seconds=number(one.get("Duration")),
            plan=one.get("OfferingType"),
        )
        if row.region and row.account_id:
            row.also_known_as(f"arn:aws:ec2:{row.region}:{row.account_id}:reserved-instances/{identity}")
        yield row


def _node_group(document: Json, place: str) -> Iterator[Row]:
    for one in objects(document["nodegroup"]):
        row = _row(
            place,
            "node_pool",
            str(first((one.get("nodegroupArn"), one.get("nodegroupName")))),
            arn=one.get("nodegroupArn"),
            name=one.get("nodegroupName"),
            state=one.get("status"),
            created_at=one.get("createdAt"),
            tags=one.get("tags"),
        )
        row.describe(
            machine_type=first(as_list(one.get("instanceTypes"))),
            lifecycle="spot" if one.get("capacityType") == "SPOT" else None,
            instance_count=number(inside(one, "scalingConfig", "desiredSize")),
            cluster=one.get("clusterName"),
        )
        row.relate("cluster", one.get("clusterName"))
        row.relate(
            "auto_scaling_groups",
            [group.get("name") for group in objects(inside(one, "resources", "autoScalingGroups"))],
        )
        yield row


Reader = Callable[[Json, str], Iterator[Row]]

# Top-level key of the tool's answer, the key that its items bear, the format's name, its reader.
_LISTS: tuple[tuple[str, str | None, str, Reader], ...] = (
    ("Reservations", "Instances", "aws-ec2-describe-instances", _instances),
    ("Volumes", "VolumeId", "aws-ec2-describe-volumes", _volumes),
    ("Snapshots", "SnapshotId", "aws-ec2-describe-snapshots", _snapshots),
    ("NatGateways", "NatGatewayId", "aws-ec2-describe-nat-gateways", _nat_gateways),
    ("VpcEndpoints", "VpcEndpointId", "aws-ec2-describe-vpc-endpoints", _private_endpoints),
    ("RouteTables", "RouteTableId", "aws-ec2-describe-route-tables", _route_tables),
    ("Subnets", "SubnetId", "aws-ec2-describe-subnets", _subnets),
    ("Vpcs", "VpcId", "aws-ec2-describe-vpcs", _networks),
    ("Addresses", "PublicIp", "aws-ec2-describe-addresses", _addresses),
    ("PlacementGroups", "GroupName", "aws-ec2-describe-placement-groups", _placement_groups),
    ("CapacityReservations", "CapacityReservationId", "aws-ec2-describe-capacity-reservations", _capacity_reservations),
    ("ReservedInstances", "ReservedInstancesId", "aws-ec2-describe-reserved-instances", _reserved_instances),
    ("FileSystems", "FileSystemId", "aws-describe-file-systems", _file_systems),
    ("NotebookInstances", "NotebookInstanceName", "aws-sagemaker-list-notebook-instances", _notebooks),
    ("Apps", "AppType", "aws-sagemaker-list-apps", _studio_apps),
    ("Endpoints", "EndpointName", "aws-sagemaker-list-endpoints", _endpoints),
    ("EndpointConfigs", "EndpointConfigName", "aws-sagemaker-list-endpoint-configs", _endpoint_configs),
    ("TrainingJobSummaries", "TrainingJobName", "aws-sagemaker-list-training-jobs", _training_jobs),
    ("Buckets", "Name", "aws-s3api-list-buckets", _buckets),
    ("LoadBalancers", "LoadBalancerArn", "aws-elbv2-describe-load-balancers", _load_balancers),
    ("LoadBalancerDescriptions", "LoadBalancerName", "aws-elb-describe-load-balancers", _load_balancers),
    ("savingsPlans", "savingsPlanId", "aws-savingsplans-describe-savings-plans", _savings_plans),
    ("SavingsPlans", None, "aws-savingsplans-describe-savings-plans", _savings_plans),
    ("nodegroup", "nodegroupName", "aws-eks-describe-nodegroup", _node_group),
)

# Answers about one thing: the keys that tell them, most telling first.
_SINGLES: tuple[tuple[str, str, Reader], ...] = (
    ("NotebookInstanceArn", "aws-sagemaker-describe-notebook-instance", _notebooks),
    ("AppArn", "aws-sagemaker-describe-app", _studio_apps),
    ("EndpointArn", "aws-sagemaker-describe-endpoint", _endpoints),
    ("EndpointConfigArn", "aws-sagemaker-describe-endpoint-config", _endpoint_configs),
    ("TrainingJobArn", "aws-sagemaker-describe-training-job", _training_jobs),
)

_RULE_KEYS = {
    "ID",
    "Status",
    "Filter",
    "Prefix",
    "Expiration",
    "Transitions",
    "NoncurrentVersionExpiration",
    "AbortIncompleteMultipartUpload",
}


def match(document: Json) -> tuple[str, Reader] | None:
    """Format and reader of a tool's answer, None where it is none that we know.

    An empty list is a good answer (there are none); items that lack their key make it somebody else's document.
    """
    for key, item_key, name, reader in _LISTS:
        if key not in document:
            continue
        items = as_list(document[key])
        if all(isinstance(item, dict) for item in items) and (not items or item_key is None or item_key in items[0]):
            return name, reader
    for key, name, reader in _SINGLES:
        if key in document:
            return name, reader
    rules = document.get("Rules")
    if isinstance(rules, list) and (not rules or (isinstance(rules[0], dict) and len(_RULE_KEYS & set(rules[0])) >= 2)):
        return "aws-s3api-get-bucket-lifecycle-configuration", _bucket_lifecycle
    return None


def volume_or_instance_arn(row: Row) -> str | None:
    """The ARN that some bills write in place of the short id, once account and region are known."""
    words = {
        "instance": "instance",
        "volume": "volume",
        "snapshot": "snapshot",
        "nat_gateway": "natgateway",
        "private_endpoint": "vpc-endpoint",
        "subnet": "subnet",
        "route_table": "route-table",
        "network": "vpc",
        "capacity_reservation": "capacity-reservation",
        "address": "elastic-ip",
    }
    word = words.get(row.resource_type)
    if (
        row.provider != "aws"
        or word is None
        or not row.account_id
        or not row.region
        or row.resource_id.startswith("arn:")
    ):
        return None
    partition = (
        "aws-cn" if row.region.startswith("cn-") else "aws-us-gov" if row.region.startswith("us-gov-") else "aws"
    )
    return f"arn:{partition}:ec2:{row.region}:{row.account_id}:{word}/{row.resource_id}"


def arn_tail(arn: str) -> str | None:
    """The short id at the end of an ARN such as `…:natgateway/nat-0a1b`."""
    return tail(arn) if arn.startswith("arn:") and "/" in arn else None
