"""Azure: what `az vm list`, `az disk list`, `az network … list`, `az capacity reservation`, `az graph query` print.

`az … list` flattens a resource's properties into the resource, `az graph query` and the REST answers keep them under
`properties`; both become one before they are read.
"""

import re
from collections.abc import Callable
from typing import Any

from auditor.normalise.inventory.rows import (
    Json,
    Row,
    as_list,
    first,
    inside,
    number,
    objects,
    tag_map,
    tail,
    timestamp,
)
from auditor.normalise.inventory.vocabulary import neutral_type

_ARM = re.compile(r"^/(?:subscriptions/(?P<subscription>[^/]+)/|providers/)", re.IGNORECASE)
# An `r` among the small letters after the size's figures says that the machine has InfiniBand (Microsoft's naming
# convention); the families are those that are sold with it.
_RDMA_SIZE = re.compile(r"^(?:Standard_)?(?:N[CDV]|HB|HC|HX|H)[A-Z]*\d+(?:-\d+)?[a-z]*r[a-z]*(?:_|$)", re.IGNORECASE)
_SPOT = {"spot", "low"}
# Metrics, bills and price sheets bear ARM ids too and have readers of their own.
_OTHERS_READ = ("microsoft.insights", "microsoft.costmanagement", "microsoft.consumption", "microsoft.billing/")


def match(document: Json) -> str | None:
    """Format of a resource that az printed, None where it is none."""
    identity = str(document.get("id") or "")
    kind = str(document.get("type") or _type_of(identity))
    if (
        "/providers/microsoft.insights/" in identity.lower()
        or not _ARM.match(identity)
        or "/providers/" not in f"/{identity.lstrip('/')}".lower()
    ):
        return None
    if kind.lower().startswith(_OTHERS_READ):
        return None
    words = {
        "virtualmachines": "az-vm-list",
        "disks": "az-disk-list",
        "natgateways": "az-network-nat-gateway-list",
        "virtualnetworks": "az-network-vnet-list",
    }
    return words.get((tail(kind) or "").lower(), "az-resource-list")


def _type_of(identity: str) -> str:
    """`Microsoft.Network/virtualNetworks/subnets` from an ARM id."""
    parts = identity.rsplit("/providers/", maxsplit=1)[-1].split("/")
    return "/".join([parts[0], *parts[1::2]])


def _flatten(document: Json) -> dict[str, Any]:
    """The resource with its properties on one level, keys compared without case."""
    merged: dict[str, Any] = {}
    properties = document.get("properties")
    inner = properties if isinstance(properties, dict) else {}
    for key, value in (*document.items(), *inner.items()):
        # `properties` within the properties (of an ML compute) stays as it is.
        if merged.get(key.lower()) is None and not (key == "properties" and value is properties):
            merged[key.lower()] = value
    return merged


def read(document: Json, place: str) -> list[Row]:
    """The rows of one printed resource: itself, and the subnets of a network."""
    flat = _flatten(document)
    identity = str(flat["id"])
    vendor_type = str(flat.get("type") or _type_of(identity))
    resource_type = neutral_type(vendor_type)
    if (
        resource_type == "ml_compute"
        and str(flat.get("computetype") or inside(flat, "properties", "computeType") or "").lower() == "computeinstance"
    ):
        resource_type = "notebook"
    if "/managementpolicies/" in identity.lower():  # the policy is the account's
        identity = re.split(r"/managementPolicies/", identity, flags=re.IGNORECASE)[0]
        flat["name"] = tail(identity)
    row = _row(flat, identity, resource_type, place)
    row.describe(vendor_type=vendor_type)
    reader = _READERS.get(resource_type)
    if reader is not None:
        reader(row, flat)
    return [row, *_subnets(row, flat, place)] if resource_type == "network" else [row]


def _row(flat: Json, identity: str, resource_type: str, place: str) -> Row:
    arm = _ARM.match(identity)
    region = str(flat.get("location") or "").replace(" ", "").lower() or None
    zones = as_list(flat.get("zones"))
    row = Row(
        provider="azure",
        resource_id=identity,
        resource_type=resource_type,
        account_id=first((arm["subscription"] if arm else None, flat.get("subscriptionid"))),
        region=region,
        zone=str(zones[0]) if len(zones) == 1 else None,
        name=str(flat["name"]) if flat.get("name") else tail(identity),
        state=_state(flat),
        created_at=timestamp(
            first(
                (
                    flat.get("timecreated"),
                    flat.get("creationtime"),
                    flat.get("createdtime"),
                    flat.get("provisioningtime"),
                    inside(flat.get("systemdata"), "createdAt"),
                )
            )
        ),
        tags=tag_map(flat.get("tags")),
        place=place,
    )
    row.also_known_as(identity.lower(), row.name, flat.get("vmid"), flat.get("uniqueid"), flat.get("resourceguid"))
    return row


def _state(flat: Json) -> str | None:
    power = first(
        (
            flat.get("powerstate"),
            inside(flat, "extended", "instanceView", "powerState", "displayStatus"),
            next(
                (
                    one.get("displayStatus")
                    for one in objects(inside(flat, "instanceview", "statuses"))
                    if "PowerState" in str(one.get("code"))
                ),
                None,
            ),
            flat.get("diskstate"),
            flat.get("resourcestate"),
            flat.get("state"),
            flat.get("status"),
            flat.get("provisioningstate"),
        )
    )
    if isinstance(power, dict):
        power = first((power.get("displayStatus"), power.get("code")))
    return str(power).lower().removeprefix("vm ").removeprefix("powerstate/").strip() if power else None


def _reference(value: Any) -> str | None:
    """The id in `{"id": …}` or in a plain text."""
    found = value.get("id") if isinstance(value, dict) else value
    return str(found) if found else None


def _network_of(subnet: str | None) -> str | None:
    return re.split(r"/subnets/", subnet, flags=re.IGNORECASE)[0] if subnet and "/subnets/" in subnet.lower() else None


def _machine(row: Row, flat: Json) -> None:
    size = first((inside(flat, "hardwareprofile", "vmSize"), inside(flat, "sku", "name")))
    storage = flat.get("storageprofile") or {}
    disks = [
        _reference(inside(storage, "osDisk", "managedDisk")),
        *(_reference(disk.get("managedDisk")) for disk in objects(storage.get("dataDisks"))),
    ]
    cards = [_reference(card) for card in objects(inside(flat, "networkprofile", "networkInterfaces"))]
    scale_set = _reference(flat.get("virtualmachinescaleset"))
    group = _reference(flat.get("proximityplacementgroup"))
    if row.state == str(flat.get("provisioningstate") or "").lower():
        row.state = None  # without `--show-details` az tells how the making went, not whether the machine runs
    standing = row.state in ("deallocated", "stopped", "deallocating")
    statuses = objects(inside(flat, "instanceview", "statuses"))
    row.describe(
        machine_type=size,
        has_rdma=bool(_RDMA_SIZE.match(size)) if size else None,
        placement_group=group,
        scale_set=scale_set,
        lifecycle="spot" if str(flat.get("priority") or "").lower() in _SPOT else None,
        capacity_reservation_group=_reference(inside(flat, "capacityreservation", "capacityReservationGroup")),
        stopped_at=next((timestamp(one.get("time")) for one in statuses if standing and one.get("time")), None),
        private_address=first(_texts(flat.get("privateips"))),
        device_names={
            tail(_reference(disk.get("managedDisk"))): f"lun{disk['lun']}"
            for disk in objects(storage.get("dataDisks"))
            if disk.get("lun") is not None and disk.get("managedDisk")
        }
        or None,
    )
    row.relate("volumes", disks)
    row.relate("network_interfaces", cards)
    row.relate("scale_set", scale_set)
    row.relate("placement_group", group)
    row.also_known_as(
        *cards,
        *(card.lower() for card in cards if card),
        *_texts(flat.get("privateips")),
        *_texts(flat.get("publicips")),
        *_texts(flat.get("macaddresses")),
    )
    row.also_known_as(f"azure://{row.resource_id}", inside(flat, "osprofile", "computerName"))


def _texts(value: Any) -> list[str]:
    """`10.0.0.4,10.0.0.5` as az prints it, or a list."""
    return [part.strip() for one in as_list(value) for part in str(one).split(",") if part.strip()]


def _disk(row: Row, flat: Json) -> None:
    owner = _reference(flat.get("managedby"))
    row.describe(
        volume_type=first((inside(flat, "sku", "name"), flat.get("accounttype"))),
        size_gib=number(flat.get("disksizegb")),
        provisioned_iops=number(flat.get("diskiopsreadwrite")),
        provisioned_mibps=number(flat.get("diskmbpsreadwrite")),
        performance_tier=flat.get("tier"),
        instance_id=owner,
        last_detached_at=timestamp(flat.get("lastownershipupdatetime")) if not owner else None,
    )
    row.state = {"attached": "in_use", "reserved": "in_use", "unattached": "available"}.get(
        row.state or "", "in_use" if owner else row.state
    )
    row.relate("instance", [owner, *as_list(flat.get("managedbyextended"))])


def _snapshot(row: Row, flat: Json) -> None:
    source = inside(flat, "creationdata", "sourceResourceId")
    row.describe(size_gib=number(flat.get("disksizegb")), volume_id=source)
    row.relate("volume", source)


def _nat_gateway(row: Row, flat: Json) -> None:
    subnets = [_reference(one) for one in objects(flat.get("subnets"))]
    network = first((_network_of(first(subnets)), _reference(flat.get("sourcevirtualnetwork"))))
    row.describe(
        network_id=network, subnet_id=first(subnets), subnet_ids=[one for one in subnets if one], connectivity="public"
    )
    row.state = "available" if row.state == "succeeded" else row.state
    row.relate("subnets", subnets)
    row.relate("network", network)
    row.relate("addresses", [_reference(one) for one in objects(flat.get("publicipaddresses"))])


def _network(row: Row, flat: Json) -> None:
    row.describe(cidrs=as_list(inside(flat, "addressspace", "addressPrefixes")))
    row.relate("subnets", [_reference(one) for one in objects(flat.get("subnets"))])
    row.relate(
        "peers",
        [
            _reference(first((one.get("remoteVirtualNetwork"), inside(one, "properties", "remoteVirtualNetwork"))))
            for one in objects(flat.get("virtualnetworkpeerings"))
        ],
    )


def _subnets(network: Row, flat: Json, place: str) -> list[Row]:
    rows = []
    for one in objects(flat.get("subnets")):
        if one.get("id"):
            part = _flatten(one)
            row = _row({**part, "location": flat.get("location")}, str(one["id"]), "subnet", place)
            _subnet(row, part)
            # The same name stands in every network ("default", "workers"), so it tells nobody apart.
            row.aliases = [alias for alias in row.aliases if alias != row.name]
            rows.append(row)
    return rows


def _subnet(row: Row, flat: Json) -> None:
    gateway = _reference(flat.get("natgateway"))
    services = [str(one["service"]) for one in objects(flat.get("serviceendpoints")) if one.get("service")]
    row.describe(
        network_id=_network_of(row.resource_id),
        cidr=first((flat.get("addressprefix"), first(as_list(flat.get("addressprefixes"))))),
        service_endpoints=services,
        nat_gateway_id=gateway,
        route_table_id=_reference(flat.get("routetable")),
    )
    row.relate("network", _network_of(row.resource_id))
    row.relate("nat_gateway", gateway)
    row.relate("route_table", _reference(flat.get("routetable")))


def _route_table(row: Row, flat: Json) -> None:
    routes = [_flatten(one) for one in objects(flat.get("routes"))]
    subnets = [_reference(one) for one in objects(flat.get("subnets"))]
    row.describe(
        network_id=_network_of(first(subnets)),
        is_main=False,
        associations=[one for one in subnets if one],
        routes=[
            {
                "destination": one.get("addressprefix"),
                "target": first((one.get("nexthopipaddress"), one.get("nexthoptype"))),
            }
            for one in routes
        ],
    )
    row.relate("subnets", subnets)


def _address(row: Row, flat: Json) -> None:
    attached = first((_reference(flat.get("ipconfiguration")), _reference(flat.get("natgateway"))))
    row.describe(
        address=flat.get("ipaddress"),
        attached_to=attached,
        allocation=str(flat.get("publicipallocationmethod") or "").lower() or None,
        sku=inside(flat, "sku", "name"),
    )
    row.state = "in_use" if attached else "available"
    row.relate("attached_to", attached)
    row.also_known_as(flat.get("ipaddress") if not attached else None, inside(flat, "dnssettings", "fqdn"))


def _load_balancer(row: Row, flat: Json) -> None:
    pools = [_flatten(pool) for pool in objects(flat.get("backendaddresspools"))]
    members = [
        member
        for pool in pools
        for key in ("backendipconfigurations", "loadbalancerbackendaddresses", "backendaddresses")
        for member in objects(pool.get(key))
    ]
    subnet = first(_reference(_flatten(one).get("subnet")) for one in objects(flat.get("frontendipconfigurations")))
    row.describe(
        sku=inside(flat, "sku", "name"),
        target_count=len(members) if "backendaddresspools" in flat else None,
        rule_count=len(objects(flat.get("loadbalancingrules"))) if "loadbalancingrules" in flat else None,
        network_id=_network_of(subnet),
        subnet_id=subnet,
    )
    row.relate("targets", [_reference(member) for member in members])
    row.relate(
        "addresses",
        [_reference(_flatten(one).get("publicipaddress")) for one in objects(flat.get("frontendipconfigurations"))],
    )


def _private_endpoint(row: Row, flat: Json) -> None:
    connections = [
        _flatten(one)
        for key in ("privatelinkserviceconnections", "manualprivatelinkserviceconnections")
        for one in objects(flat.get(key))
    ]
    subnet = _reference(flat.get("subnet"))
    targets = [one.get("privatelinkserviceid") for one in connections]
    row.describe(
        network_id=_network_of(subnet),
        subnet_id=subnet,
        service=first(first(as_list(one.get("groupids"))) for one in connections),
        endpoint_type="interface",
    )
    row.relate("target", targets)
    row.relate("network_interfaces", [_reference(one) for one in objects(flat.get("networkinterfaces"))])


def _capacity_reservation(row: Row, flat: Json) -> None:
    machines = [_reference(one) for one in objects(flat.get("virtualmachinesassociated"))]
    allocated = inside(flat, "instanceview", "utilizationInfo", "virtualMachinesAllocated")
    running = (
        len(objects(allocated))
        if allocated is not None
        else len(machines)
        if "virtualmachinesassociated" in flat
        else None
    )
    row.describe(
        machine_type=inside(flat, "sku", "name"),
        reserved_count=number(inside(flat, "sku", "capacity")),
        used_count=running,
        starts_at=row.created_at,
    )
    row.relate("instances", machines)
    # The bill names the group or the reservation, machines name the group.
    row.relate("group", re.split(r"/capacityReservations/", row.resource_id, flags=re.IGNORECASE)[0])


def _commitment(row: Row, flat: Json) -> None:
    term = flat.get("term")
    row.describe(
        commitment_type="savings_plan" if "savingsplan" in row.resource_id.lower() else "reservation",
        machine_type=inside(flat, "sku", "name"),
        reserved_count=number(flat.get("quantity")),
        starts_at=timestamp(
            first(
                (
                    flat.get("effectivedatetime"),
                    flat.get("benefitstarttime"),
                    flat.get("purchasedatetime"),
                    flat.get("purchasedate"),
                )
            )
        ),
        ends_at=timestamp(first((flat.get("expirydatetime"), flat.get("expirydate")))),
        term=term,
        plan=flat.get("billingplan"),
        auto_renew=flat.get("renew"),
        reserved_resource_type=flat.get("reservedresourcetype"),
    )
    row.name = first((flat.get("displayname"), row.name))
    row.created_at = row.created_at or row.attributes.get("starts_at")
    # Bills name a reservation by its own GUID, by the order's, or by the whole id.
    row.also_known_as(tail(row.resource_id))
    order = re.search(r"/(?:reservationOrders|savingsPlanOrders)/([^/]+)", row.resource_id, re.IGNORECASE)
    row.relate("order", order.group(1) if order else None)
    scopes = as_list(first((flat.get("appliedscopes"), inside(flat, "appliedscopeproperties", "subscriptionId"))))
    row.relate("scopes", [scope for scope in scopes if isinstance(scope, str)])


def _ml_compute(row: Row, flat: Json) -> None:
    inner = flat.get("properties") if isinstance(flat.get("properties"), dict) else {}
    size = first(
        (
            flat.get("vmsize"),
            inside(inner, "vmSize"),
            flat.get("size"),
            flat.get("instancetype"),
            inside(flat, "sku", "name"),
        )
    )
    row.describe(
        machine_type=size,
        compute_type=flat.get("computetype"),
        lifecycle="spot"
        if str(first((flat.get("vmpriority"), inside(inner, "vmPriority"))) or "").lower()
        in ("lowpriority", "low_priority")
        else None,
        instance_count=number(first((inside(inner, "scaleSettings", "maxNodeCount"), flat.get("maxinstances")))),
    )
    state = first((inside(inner, "state"), flat.get("state")))
    row.state = str(state).lower() if state else row.state
    row.relate("workspace", re.split(r"/(?:computes|onlineEndpoints|jobs)/", row.resource_id, flags=re.IGNORECASE)[0])


def _job(row: Row, flat: Json) -> None:
    _ml_compute(row, flat)
    row.describe(
        started_at=timestamp(first((flat.get("starttime"), flat.get("startdatetime")))),
        ended_at=timestamp(first((flat.get("endtime"), flat.get("enddatetime")))),
        instance_count=number(inside(flat, "resources", "instanceCount")),
    )


def _node_pool(row: Row, flat: Json) -> None:
    row.describe(
        machine_type=first(
            (
                flat.get("vmsize"),
                inside(flat, "sku", "name"),
                inside(flat, "virtualmachineprofile", "hardwareProfile", "vmSize"),
            )
        ),
        instance_count=number(first((flat.get("count"), inside(flat, "sku", "capacity")))),
        lifecycle="spot"
        if str(first((flat.get("scalesetpriority"), inside(flat, "virtualmachineprofile", "priority"))) or "").lower()
        in _SPOT
        else None,
        placement_group=_reference(flat.get("proximityplacementgroup")),
    )


def _file_system(row: Row, flat: Json) -> None:
    kind = str(flat.get("type") or "").lower()
    size = number(first((flat.get("size"), flat.get("usagethreshold"))))
    tebibytes = number(flat.get("storagecapacitytib"))
    in_bytes = "netapp" in kind or "netapp" in row.resource_id.lower()
    gib = (
        size / 2**30
        if size is not None and in_bytes
        else tebibytes * 1024
        if tebibytes is not None
        else number(first((flat.get("sharequota"), size)))
    )
    row.describe(
        file_system_type="netapp"
        if in_bytes
        else "managed_lustre"
        if "amlfilesystem" in row.resource_id.lower()
        else "azure_files",
        size_gib=gib,
        provisioned_mibps=number(
            first(
                (flat.get("totalthroughputmibps"), flat.get("throughputmibps"), flat.get("provisionedbandwidthmibps"))
            )
        ),
        used_mibps=number(flat.get("utilizedthroughputmibps")),
        service_level=first((flat.get("servicelevel"), inside(flat, "sku", "name"))),
        subnet_id=first((_reference(flat.get("subnetid")), _reference(flat.get("filesystemsubnet")))),
    )
    row.relate("account", re.split(r"/capacityPools/", row.resource_id, flags=re.IGNORECASE)[0] if in_bytes else None)


def _bucket(row: Row, flat: Json) -> None:
    policy = flat.get("lifecyclepolicy") or flat.get("managementpolicy")
    rules = objects(
        first((inside(policy, "rules"), inside(policy, "policy", "rules"), inside(flat, "policy", "rules")))
    )
    row.describe(
        # The account itself does not tell its policy; only where one is given is the answer known.
        has_lifecycle=any(rule.get("enabled", True) for rule in rules) if policy or "policy" in flat else None,
        access_tier=flat.get("accesstier"),
        storage_kind=flat.get("kind"),
        sku=inside(flat, "sku", "name"),
    )
    row.also_known_as(
        *(
            str(url).removeprefix("https://").rstrip("/")
            for url in (flat.get("primaryendpoints") or {}).values()
            if isinstance(url, str)
        )
    )


_READERS: dict[str, Callable[[Row, Json], None]] = {
    "instance": _machine,
    "volume": _disk,
    "snapshot": _snapshot,
    "nat_gateway": _nat_gateway,
    "network": _network,
    "subnet": _subnet,
    "route_table": _route_table,
    "address": _address,
    "load_balancer": _load_balancer,
    "private_endpoint": _private_endpoint,
    "capacity_reservation": _capacity_reservation,
    "commitment": _commitment,
    "notebook": _ml_compute,
    "ml_compute": _ml_compute,
    "endpoint": _ml_compute,
    "training_job": _job,
    "node_pool": _node_pool,
    "file_system": _file_system,
    "bucket": _bucket,
}
