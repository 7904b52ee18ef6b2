"""Google Cloud: what `gcloud compute … list`, `gcloud compute tpus`, `gcloud filestore`, `gcloud asset` print as JSON."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from auditor.normalise.inventory.rows import (
    Json,
    Row,
    as_list,
    first,
    inside,
    number,
    objects,
    region_of_zone,
    tag_map,
    tail,
    timestamp,
)
from auditor.normalise.inventory.vocabulary import neutral_type

_LOCATED = re.compile(
    r"projects/(?P<project>[^/]+)/(?:(?:zones|regions|locations)/(?P<place>[^/]+)|(?P<global>global))/(?P<collection>[A-Za-z]+)/(?P<name>[^/]+)"
)
_SERVICE_ACCOUNT = re.compile(r"(?:^|service-)(\d{6,})(?:-compute)?@")
_RDMA_NICS = {"MRDMA", "IRDMA"}
# GPUDirect-TCPX and -TCPXO machines have one network card for each group of GPUs beside the ordinary one.
_FABRIC_CARDS = 5
_NOT_PLACEMENT = re.compile(r"snapshot|schedule|backup|start-?stop|disk-consistency", re.IGNORECASE)


# Collections of a name, keys of which one must be there (none: the collection is enough), format.
_API_KEYS: tuple[tuple[tuple[str, ...], set[str], str], ...] = (
    (("nodes",), {"acceleratorType", "acceleratorConfig"}, "gcloud-tpu-vm"),
    (("instances",), {"fileShares", "tier"}, "gcloud-filestore-instances"),
    (("instances",), {"perUnitStorageThroughput", "capacityGib"}, "gcloud-lustre-instances"),
    (("instances",), {"gceSetup", "machineType", "proxyUri"}, "gcloud-workbench-instances"),
    (("endpoints",), {"deployedModels", "displayName"}, "gcloud-ai-endpoints"),
    (("customJobs", "trainingPipelines"), set(), "gcloud-ai-custom-jobs"),
    (("notebookRuntimes",), set(), "gcloud-colab-runtimes"),
)


def match(document: Json) -> str | None:
    """Format of a resource that gcloud printed, None where it is none."""
    word = str(document.get("kind") or "").partition("compute#")[2]
    if word in _COMPUTE:
        return f"gcloud-compute-{word}"
    if document.get("kind") == "storage#bucket":
        return "gcloud-storage-buckets"
    if isinstance(document.get("assetType"), str) and "name" in document:
        return "gcloud-asset-search" if "resource" not in document else "gcloud-asset-list"
    link = str(document.get("selfLink") or "")
    located = _LOCATED.search(link)
    if located and located["collection"] == "clusters" and "nodePools" in document:
        return "gcloud-container-clusters"
    if located and "compute" in link and _BY_COLLECTION.get(located["collection"]):
        return f"gcloud-compute-{_BY_COLLECTION[located['collection']]}"
    return _api_format(document)


def _api_format(document: Json) -> str | None:
    """Format of a resource of an API other than Compute: its name is its path, its keys tell which one it is."""
    name = str(document.get("name") or "")
    located = _LOCATED.search(name)
    if located is None or not name.startswith("projects/"):
        return None
    for collection, keys, format_name in _API_KEYS:
        if located["collection"] in collection and (not keys or keys & set(document)):
            return format_name
    return None


def read(document: Json, format_name: str, place: str) -> list[Row]:
    """The rows of one printed resource."""
    if format_name.startswith("gcloud-asset"):
        return [_asset(document, place)]
    if format_name.startswith("gcloud-compute-"):
        return [_COMPUTE[format_name.removeprefix("gcloud-compute-")](document, place)]
    if format_name == "gcloud-container-clusters":
        return list(_node_pools(document, place))
    return [_OTHERS[format_name](document, place)]


def _row(place: str, resource_type: str, document: Json) -> Row:
    """A row under the id that the bill writes (`//compute…/<collection>/<number>`), with every other spelling as alias.

    The bill writes the project's number; it is put in place of the project's name once some file has told it.
    """
    link = str(document.get("selfLink") or "")
    located = _LOCATED.search(link)
    zone = tail(document.get("zone"))
    region = first((tail(document.get("region")), region_of_zone(zone)))
    project = located["project"] if located else _project_in(document)
    name = str(document.get("name") or "")
    path = _path(link)
    identity = str(document.get("id") or "")
    parent = path.rpartition("/")[0]
    resource_id = (
        f"//compute.googleapis.com/{parent}/{identity}"
        if parent and identity
        else f"//compute.googleapis.com/{path}"
        if path
        else first((link, identity, name))
    )
    row = Row(
        provider="gcp",
        resource_id=str(resource_id),
        resource_type=resource_type,
        account_id=project,
        region=region,
        zone=zone,
        name=name or None,
        state=str(document["status"]).lower() if document.get("status") else None,
        created_at=timestamp(document.get("creationTimestamp")),
        tags=tag_map(document.get("labels")),
        place=place,
    )
    row.also_known_as(link, identity)
    if path:
        row.also_known_as(path, f"//compute.googleapis.com/{path}")
    row.also_known_as(name)
    return row


def _path(link: str) -> str:
    found = re.search(r"projects/.*", link)
    return found.group(0) if found else ""


def _project_in(document: Json) -> str | None:
    for key in ("zone", "region", "network", "selfLink"):
        found = re.search(r"projects/([^/]+)/", str(document.get(key) or ""))
        if found:
            return found.group(1)
    return None


def _id(link: Any) -> str | None:
    """A reference to another resource in the spelling that its own row bears as an alias."""
    path = _path(str(link)) if link else ""
    return f"//compute.googleapis.com/{path}" if path else None


def _instance(document: Json, place: str) -> Row:
    row = _row(place, "instance", document)
    cards = objects(document.get("networkInterfaces"))
    accelerators = objects(document.get("guestAccelerators"))
    scheduling = document.get("scheduling") or {}
    spot = scheduling.get("provisioningModel") == "SPOT" or scheduling.get("preemptible") is True
    policies = [tail(policy) for policy in as_list(document.get("resourcePolicies"))]
    counts = [number(one.get("acceleratorCount")) for one in accelerators]
    stopped = row.state in ("terminated", "stopped", "suspended", "stopping")
    network_id, subnet_id = (
        _id(first(card.get("network") for card in cards)),
        _id(first(card.get("subnetwork") for card in cards)),
    )
    row.describe(
        machine_type=tail(document.get("machineType")),
        accelerator_model=tail(first(one.get("acceleratorType") for one in accelerators)),
        accelerator_count=sum(count for count in counts if count) or None,
        network_id=network_id,
        subnet_id=subnet_id,
        placement_group=first(policy for policy in policies if policy and not _NOT_PLACEMENT.search(policy)),
        has_rdma=(len(cards) >= _FABRIC_CARDS or any(card.get("nicType") in _RDMA_NICS for card in cards))
        if cards
        else None,
        lifecycle="spot" if spot else None,
        launched_at=timestamp(document.get("lastStartTimestamp")),
        stopped_at=timestamp(first((document.get("lastStopTimestamp"), document.get("lastSuspendedTimestamp"))))
        if stopped
        else None,
        reservation=first(as_list(inside(document, "reservationAffinity", "values"))),
        private_address=first(card.get("networkIP") for card in cards),
    )
    disks = objects(document.get("disks"))
    row.relate("volumes", [_id(disk.get("source")) for disk in disks])
    row.describe(
        device_names={
            tail(disk["source"]): disk["deviceName"] for disk in disks if disk.get("deviceName") and disk.get("source")
        }
        or None
    )
    row.relate("network", network_id)
    row.relate("subnet", subnet_id)
    for card in cards:
        row.also_known_as(
            card.get("networkIP"), *(access.get("natIP") for access in objects(card.get("accessConfigs")))
        )
    if row.account_id and row.zone and row.name:
        row.also_known_as(
            f"gce://{row.account_id}/{row.zone}/{row.name}", f"{row.name}.{row.zone}.c.{row.account_id}.internal"
        )
    row.also_known_as(document.get("hostname"))
    emails = [str(one.get("email")) for one in objects(document.get("serviceAccounts"))]
    row.describe(project_number=first(found.group(1) for found in map(_SERVICE_ACCOUNT.search, emails) if found))
    return row


def _disk(document: Json, place: str) -> Row:
    row = _row(place, "volume", document)
    users = [_id(user) for user in as_list(document.get("users"))]
    row.describe(
        volume_type=tail(document.get("type")),
        size_gib=number(document.get("sizeGb")),
        provisioned_iops=number(document.get("provisionedIops")),
        provisioned_mibps=number(document.get("provisionedThroughput")),
        instance_id=first(users),
        last_attached_at=timestamp(document.get("lastAttachTimestamp")),
        last_detached_at=timestamp(document.get("lastDetachTimestamp")),
    )
    row.state = "in_use" if users else "available" if row.state == "ready" else row.state
    row.relate("instance", users)
    return row


def _snapshot(document: Json, place: str) -> Row:
    row = _row(place, "snapshot", document)
    row.describe(size_gib=number(document.get("diskSizeGb")), volume_id=_id(document.get("sourceDisk")))
    row.relate("volume", _id(document.get("sourceDisk")))
    return row


def _address(document: Json, place: str) -> Row:
    row = _row(place, "address", document)
    users = [_id(user) for user in as_list(document.get("users"))]
    row.state = {"reserved": "available", "in_use": "in_use"}.get(row.state or "", row.state)
    row.describe(
        address=document.get("address"),
        attached_to=first(users),
        address_type=str(document.get("addressType") or "").lower() or None,
        purpose=document.get("purpose"),
    )
    row.relate("attached_to", users)
    row.also_known_as(document.get("address") if not users else None)
    return row


def _router(document: Json, place: str) -> Row:
    """One row a router: the bill names the router, not its NAT configurations. Without one it is no gateway."""
    nats = objects(document.get("nats"))
    row = _row(place, "nat_gateway" if nats else "other", document)
    network = _id(document.get("network"))
    if not nats:
        row.describe(vendor_type="compute.googleapis.com/Router", network_id=network)
        return row
    listed = [_id(one.get("name")) for nat in nats for one in objects(nat.get("subnetworks"))]
    row.describe(
        network_id=network,
        connectivity="private" if all(nat.get("type") == "PRIVATE" for nat in nats) else "public",
        subnet_ids=[one for one in listed if one],
        all_subnets=any(
            str(nat.get("sourceSubnetworkIpRangesToNat") or "").startswith("ALL_SUBNETWORKS") for nat in nats
        ),
        nat_names=[nat["name"] for nat in nats if nat.get("name")],
    )
    row.state = row.state or "available"
    row.relate("network", network)
    row.relate("subnets", listed)
    row.relate("addresses", [_id(link) for nat in nats for link in as_list(nat.get("natIps"))])
    row.also_known_as(*(nat.get("name") for nat in nats))
    return row


def _forwarding_rule(document: Json, place: str) -> Row:
    """A load balancer's front, or a Private Service Connect endpoint, whose target is a service attachment."""
    target = str(document.get("target") or "")
    private = (
        "pscConnectionStatus" in document
        or "pscConnectionId" in document
        or "/serviceAttachments/" in target
        or target in ("all-apis", "vpc-sc")
    )
    row = _row(place, "private_endpoint" if private else "load_balancer", document)
    row.state = row.state or (
        str(document["pscConnectionStatus"]).lower() if document.get("pscConnectionStatus") else None
    )
    row.describe(
        address=document.get("IPAddress"),
        network_id=_id(document.get("network")),
        subnet_id=_id(document.get("subnetwork")),
        target=_id(target) or target or None,
    )
    if private:
        row.describe(service=target or None, endpoint_type="interface")
    else:
        row.describe(
            scheme=str(document.get("loadBalancingScheme") or "").lower() or None,
            backend_service=_id(document.get("backendService")),
        )
    row.relate("target", [_id(target) or target or None, _id(document.get("backendService"))])
    row.relate("network", _id(document.get("network")))
    row.also_known_as(document.get("IPAddress"))
    return row


def _subnet(document: Json, place: str) -> Row:
    row = _row(place, "subnet", document)
    row.describe(
        network_id=_id(document.get("network")),
        cidr=document.get("ipCidrRange"),
        private_google_access=document.get("privateIpGoogleAccess"),
        purpose=document.get("purpose"),
    )
    row.relate("network", _id(document.get("network")))
    return row


def _network(document: Json, place: str) -> Row:
    row = _row(place, "network", document)
    row.relate("subnets", [_id(one) for one in as_list(document.get("subnetworks"))])
    return row


def _reservation(document: Json, place: str) -> Row:
    row = _row(place, "capacity_reservation", document)
    specific = document.get("specificReservation") or {}
    properties = specific.get("instanceProperties") or {}
    accelerators = objects(properties.get("guestAccelerators"))
    row.describe(
        machine_type=tail(properties.get("machineType")),
        accelerator_model=tail(first(one.get("acceleratorType") for one in accelerators)),
        accelerator_count=number(first(one.get("acceleratorCount") for one in accelerators)),
        reserved_count=number(
            first(
                (
                    specific.get("count"),
                    inside(document, "aggregateReservation", "reservedResources", "acceleratorCount"),
                )
            )
        ),
        used_count=number(specific.get("inUseCount")),
        starts_at=row.created_at,
        ends_at=timestamp(first((document.get("deleteAtTime"), inside(document, "shareSettings", "endTime")))),
    )
    row.relate("commitment", _id(document.get("commitment")))
    return row


def _commitment(document: Json, place: str) -> Row:
    row = _row(place, "commitment", document)
    row.describe(
        commitment_type="resource_based",
        plan=document.get("plan"),
        machine_family=document.get("type"),
        resources={
            str(one.get("type", "")).lower(): number(one.get("amount")) for one in objects(document.get("resources"))
        },
        starts_at=timestamp(document.get("startTimestamp")),
        ends_at=timestamp(document.get("endTimestamp")),
        auto_renew=document.get("autoRenew"),
    )
    return row


def _resource_policy(document: Json, place: str) -> Row:
    placed = document.get("groupPlacementPolicy")
    row = _row(place, "placement_group" if placed is not None else "other", document)
    row.describe(
        strategy="cluster"
        if isinstance(placed, dict) and (placed.get("collocation") == "COLLOCATED" or placed.get("maxDistance"))
        else None
    )
    return row


def _project_and_place(name: str) -> tuple[str | None, str | None, str | None]:
    """Project, region and zone in a resource's name."""
    located = _LOCATED.search(name)
    project = re.search(r"projects/([^/]+)", name)
    where = located["place"] if located else None
    region = region_of_zone(where)
    return (
        (project.group(1) if project and project.group(1) != "_" else None),
        region or where,
        where if region else None,
    )


def _named(document: Json, place: str, resource_type: str, service: str) -> Row:
    """A resource of an API other than Compute, whose name is its whole path."""
    path = str(document["name"])
    project, region, zone = _project_and_place(path)
    row = Row(
        provider="gcp",
        resource_id=f"//{service}/{path}",
        resource_type=resource_type,
        account_id=project,
        region=region,
        zone=zone,
        name=first((document.get("displayName"), tail(path))),
        state=str(document["state"]).lower() if document.get("state") else None,
        created_at=timestamp(document.get("createTime")),
        tags=tag_map(document.get("labels")),
        place=place,
    )
    row.also_known_as(path, tail(path), row.name)
    return row


def _tpu(document: Json, place: str) -> Row:
    row = _named(document, place, "tpu_node", "tpu.googleapis.com")
    scheduling = document.get("schedulingConfig") or {}
    kind = str(document.get("acceleratorType") or "")
    network = _id(inside(document, "networkConfig", "network"))
    row.describe(
        machine_type=tail(kind),
        accelerator_type=tail(kind),
        lifecycle="spot" if scheduling.get("spot") or scheduling.get("preemptible") else None,
        network_id=network,
        subnet_id=_id(inside(document, "networkConfig", "subnetwork")),
        runtime_version=document.get("runtimeVersion"),
        has_rdma=True,  # the chips of a slice are joined by the inter-chip interconnect
    )
    row.also_known_as(document.get("id"), *(end.get("ipAddress") for end in objects(document.get("networkEndpoints"))))
    return row


def _filestore(document: Json, place: str) -> Row:
    row = _named(document, place, "file_system", "file.googleapis.com")
    sizes = [
        size
        for size in (number(share.get("capacityGb")) for share in objects(document.get("fileShares")))
        if size is not None
    ]
    row.describe(
        file_system_type=f"filestore_{str(document.get('tier') or '').lower()}".rstrip("_"),
        size_gib=sum(sizes) if sizes else None,
        provisioned_iops=number(inside(document, "performanceLimits", "maxIops")),
        provisioned_mibps=_mib(inside(document, "performanceLimits", "maxReadThroughputBps")),
    )
    row.relate("network", [_id(one.get("network")) or one.get("network") for one in objects(document.get("networks"))])
    row.also_known_as(
        *(address for one in objects(document.get("networks")) for address in as_list(one.get("ipAddresses")))
    )
    return row


def _mib(value: Any) -> float | None:
    figure = number(value)
    return figure / 2**20 if figure is not None else None


def _lustre(document: Json, place: str) -> Row:
    row = _named(document, place, "file_system", "lustre.googleapis.com")
    size, each = number(document.get("capacityGib")), number(document.get("perUnitStorageThroughput"))
    row.describe(
        file_system_type="managed_lustre",
        size_gib=size,
        provisioned_mibps=each * size / 1024 if each is not None and size is not None else None,
    )
    return row


def _workbench(document: Json, place: str) -> Row:
    row = _named(document, place, "notebook", "notebooks.googleapis.com")
    setup = document.get("gceSetup") or document
    accelerators = objects(first((setup.get("acceleratorConfigs"), setup.get("acceleratorConfig"))))
    row.describe(
        machine_type=tail(setup.get("machineType")),
        accelerator_model=first(one.get("type") for one in accelerators),
        accelerator_count=number(first(one.get("coreCount") for one in accelerators)),
    )
    _alias_machine(row, row.name)
    return row


def _colab(document: Json, place: str) -> Row:
    """A runtime of Colab Enterprise; what it runs on is told by its template, and by itself once it has started."""
    row = _named(document, place, "notebook", "aiplatform.googleapis.com")
    row.state = str(document.get("runtimeState") or row.state or "").lower() or None
    row.describe(
        machine_type=inside(document, "machineSpec", "machineType"),
        accelerator_model=inside(document, "machineSpec", "acceleratorType"),
        accelerator_count=number(inside(document, "machineSpec", "acceleratorCount")),
    )
    return row


def _node_pools(document: Json, place: str) -> Iterator[Row]:
    """One row a node pool of a GKE cluster; its machines are instances of their own."""
    cluster = str(document["selfLink"]).rpartition("/v1/")[2]
    project, region, zone = _project_and_place(cluster)
    for pool in objects(document.get("nodePools")):
        path = f"{cluster}/nodePools/{pool.get('name')}"
        config = pool.get("config") or {}
        accelerators = objects(config.get("accelerators"))
        row = Row(
            provider="gcp",
            resource_id=f"//container.googleapis.com/{path}",
            resource_type="node_pool",
            account_id=project,
            region=region,
            zone=zone,
            name=f"{document.get('name')}/{pool.get('name')}",
            state=str(pool["status"]).lower() if pool.get("status") else None,
            created_at=timestamp(document.get("createTime")),
            tags=tag_map(document.get("resourceLabels")) | tag_map(config.get("resourceLabels")),
            place=place,
        )
        row.describe(
            machine_type=config.get("machineType"),
            accelerator_model=first(one.get("acceleratorType") for one in accelerators),
            accelerator_count=number(first(one.get("acceleratorCount") for one in accelerators)),
            lifecycle="spot" if config.get("spot") or config.get("preemptible") else None,
        )
        row.also_known_as(path)
        yield row


def _alias_machine(row: Row, machine: str | None) -> None:
    """The bill and the metrics of a notebook name the machine it runs on."""
    if row.account_id and row.zone and machine:
        row.also_known_as(f"//compute.googleapis.com/projects/{row.account_id}/zones/{row.zone}/instances/{machine}")


def _ai_endpoint(document: Json, place: str) -> Row:
    row = _named(document, place, "endpoint", "aiplatform.googleapis.com")
    resources = [
        first((model.get("dedicatedResources"), model.get("automaticResources"))) or {}
        for model in objects(document.get("deployedModels"))
    ]
    counts = [number(one.get("minReplicaCount")) for one in resources]
    row.describe(
        machine_type=first(inside(one, "machineSpec", "machineType") for one in resources),
        accelerator_model=first(inside(one, "machineSpec", "acceleratorType") for one in resources),
        accelerator_count=number(first(inside(one, "machineSpec", "acceleratorCount") for one in resources)),
        instance_count=sum(count for count in counts if count) or None,
        deployed_models=len(objects(document.get("deployedModels"))) if "deployedModels" in document else None,
    )
    return row


def _ai_job(document: Json, place: str) -> Row:
    row = _named(document, place, "training_job", "aiplatform.googleapis.com")
    pools = objects(inside(document, "jobSpec", "workerPoolSpecs"))
    counts = [number(pool.get("replicaCount")) for pool in pools]
    row.describe(
        machine_type=first(inside(pool, "machineSpec", "machineType") for pool in pools),
        accelerator_model=first(inside(pool, "machineSpec", "acceleratorType") for pool in pools),
        accelerator_count=number(first(inside(pool, "machineSpec", "acceleratorCount") for pool in pools)),
        instance_count=sum(count for count in counts if count) or None,
        started_at=timestamp(document.get("startTime")),
        ended_at=timestamp(document.get("endTime")),
        uses_spot=inside(document, "jobSpec", "scheduling", "strategy") == "SPOT",
        checkpoint_uri=inside(document, "jobSpec", "baseOutputDirectory", "outputUriPrefix"),
    )
    return row


def _asset(document: Json, place: str) -> Row:
    """A search result, or a listed asset, whose `resource.data` is what the service itself would print."""
    asset_type, full_name = str(document["assetType"]), str(document["name"])
    data = inside(document, "resource", "data")
    inner = _from_data(asset_type, data, place) if isinstance(data, dict) else None
    if inner is not None:
        inner.also_known_as(full_name)
        return inner
    project, region, zone = _project_and_place(full_name)
    number_text = tail(document.get("project"))
    extra = document.get("additionalAttributes") or {}
    location = str(document.get("location") or "") or None
    row = Row(
        provider="gcp",
        resource_id=full_name,
        resource_type=neutral_type(asset_type),
        account_id=first((_project_of(document), project, number_text)),
        region=first((region, region_of_zone(location), location.lower() if location else None)),
        zone=first((zone, location if region_of_zone(location) else None)),
        name=first((document.get("displayName"), tail(full_name))),
        state=str(document["state"]).lower() if document.get("state") else None,
        created_at=timestamp(document.get("createTime")),
        tags=tag_map(document.get("labels")),
        place=place,
    )
    row.describe(
        vendor_type=asset_type, machine_type=tail(first((extra.get("machineType"), extra.get("machine_type"))))
    )
    row.describe(project_number=number_text if number_text and number_text.isdigit() else None)
    row.also_known_as(full_name.removeprefix("//").partition("/")[2], tail(full_name), row.name)
    machine = extra.get("vm")
    row.relate("instance", machine)
    row.also_known_as(machine, tail(machine) if machine else None)
    if row.resource_type == "bucket":
        _name_bucket(row, tail(full_name))
        rules = first(
            (extra.get("lifecycleRules"), extra.get("lifecycle_rules"), 0 if "lifecycleRules" in extra else None)
        )
        row.describe(
            has_lifecycle=bool(number(rules) if not isinstance(rules, (list, dict)) else rules)
            if rules is not None
            else None
        )
    elif row.resource_type == "notebook":
        _alias_machine(row, row.name)
    ids = extra.get("id")
    if ids:
        row.also_known_as(ids, f"{full_name.rpartition('/')[0]}/{ids}")
    return row


def _project_of(document: Json) -> str | None:
    """The project's id where the search result tells its parent by name."""
    found = re.search(
        r"cloudresourcemanager\.googleapis\.com/projects/([^/]+)$", str(document.get("parentFullResourceName") or "")
    )
    return found.group(1) if found and not found.group(1).isdigit() else None


def _from_data(asset_type: str, data: Json, place: str) -> Row | None:
    inner = match(data)
    if inner is None and asset_type.startswith("compute.googleapis.com/"):
        word = asset_type.partition("/")[2]
        inner = f"gcloud-compute-{word[0].lower()}{word[1:]}"
        inner = inner if inner.removeprefix("gcloud-compute-") in _COMPUTE else None
    if inner is not None and not inner.startswith("gcloud-asset"):
        return read(data, inner, place)[0]
    if asset_type == "storage.googleapis.com/Bucket":
        return _bucket(data, place)
    return None


def _name_bucket(row: Row, name: str | None) -> None:
    """The bill's spelling of a bucket, with every other one as alias."""
    if not name:
        return
    row.also_known_as(row.resource_id)
    row.resource_id = f"//storage.googleapis.com/projects/_/buckets/{name}"
    row.aliases = [one for one in row.aliases if one != row.resource_id]
    row.also_known_as(f"//storage.googleapis.com/{name}", f"gs://{name}", name)


def _bucket(document: Json, place: str) -> Row:
    location = str(document.get("location") or "").lower() or None
    name = str(document.get("name") or tail(document.get("storage_url")) or "")
    row = Row(
        provider="gcp",
        resource_id=f"//storage.googleapis.com/projects/_/buckets/{name}",
        resource_type="bucket",
        region=location,
        name=name,
        created_at=timestamp(first((document.get("timeCreated"), document.get("creation_time")))),
        tags=tag_map(document.get("labels")),
        place=place,
    )
    rules = first((inside(document, "lifecycle", "rule"), inside(document, "lifecycle_config", "rule")))
    row.describe(
        has_lifecycle=bool(rules),
        project_number=str(document["projectNumber"]) if document.get("projectNumber") else None,
    )
    row.account_id = row.attributes.get("project_number")
    _name_bucket(row, name)
    return row


_COMPUTE: dict[str, Callable[[Json, str], Row]] = {
    "instance": _instance,
    "disk": _disk,
    "snapshot": _snapshot,
    "address": _address,
    "router": _router,
    "forwardingRule": _forwarding_rule,
    "subnetwork": _subnet,
    "network": _network,
    "reservation": _reservation,
    "commitment": _commitment,
    "resourcePolicy": _resource_policy,
}
_BY_COLLECTION = {
    "instances": "instance",
    "disks": "disk",
    "snapshots": "snapshot",
    "addresses": "address",
    "routers": "router",
    "forwardingRules": "forwardingRule",
    "subnetworks": "subnetwork",
    "networks": "network",
    "reservations": "reservation",
    "commitments": "commitment",
    "resourcePolicies": "resourcePolicy",
}
_OTHERS: dict[str, Callable[[Json, str], Row]] = {
    "gcloud-tpu-vm": _tpu,
    "gcloud-filestore-instances": _filestore,
    "gcloud-lustre-instances": _lustre,
    "gcloud-workbench-instances": _workbench,
    "gcloud-ai-endpoints": _ai_endpoint,
    "gcloud-ai-custom-jobs": _ai_job,
    "gcloud-colab-runtimes": _colab,
    "gcloud-storage-buckets": _bucket,
}
