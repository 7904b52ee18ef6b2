"""Every call that this collector makes, with the permission that it takes: the policy is written from this table."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One call. `path` is what follows the host, a brace standing for a part; `version` is its api-version.

    `actions` and `data_actions` are Azure RBAC's own names. Tenant-wide calls have none that a custom role may hold:
    `granted_by` says what grants them instead.
    """

    method: str
    path: str
    version: str | None = None
    actions: tuple[str, ...] = ()
    data_actions: tuple[str, ...] = ()
    granted_by: str | None = None


# What Resource Graph shows of a type needs the type's own read.
GRAPH_TYPES: dict[str, str] = {
    "microsoft.compute/virtualmachines": "Microsoft.Compute/virtualMachines/read",
    "microsoft.compute/virtualmachinescalesets": "Microsoft.Compute/virtualMachineScaleSets/read",
    "microsoft.compute/disks": "Microsoft.Compute/disks/read",
    "microsoft.compute/snapshots": "Microsoft.Compute/snapshots/read",
    "microsoft.compute/proximityplacementgroups": "Microsoft.Compute/proximityPlacementGroups/read",
    "microsoft.compute/capacityreservationgroups": "Microsoft.Compute/capacityReservationGroups/read",
    "microsoft.compute/capacityreservationgroups/capacityreservations": (
        "Microsoft.Compute/capacityReservationGroups/capacityReservations/read"
    ),
    "microsoft.network/networkinterfaces": "Microsoft.Network/networkInterfaces/read",
    "microsoft.network/publicipaddresses": "Microsoft.Network/publicIPAddresses/read",
    "microsoft.network/natgateways": "Microsoft.Network/natGateways/read",
    "microsoft.network/virtualnetworks": "Microsoft.Network/virtualNetworks/read",
    "microsoft.network/routetables": "Microsoft.Network/routeTables/read",
    "microsoft.network/loadbalancers": "Microsoft.Network/loadBalancers/read",
    "microsoft.network/applicationgateways": "Microsoft.Network/applicationGateways/read",
    "microsoft.network/privateendpoints": "Microsoft.Network/privateEndpoints/read",
    "microsoft.machinelearningservices/workspaces": "Microsoft.MachineLearningServices/workspaces/read",
    "microsoft.machinelearningservices/workspaces/onlineendpoints": (
        "Microsoft.MachineLearningServices/workspaces/onlineEndpoints/read"
    ),
    "microsoft.machinelearningservices/workspaces/onlineendpoints/deployments": (
        "Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/read"
    ),
    "microsoft.storage/storageaccounts": "Microsoft.Storage/storageAccounts/read",
    "microsoft.netapp/netappaccounts/capacitypools": "Microsoft.NetApp/netAppAccounts/capacityPools/read",
    "microsoft.netapp/netappaccounts/capacitypools/volumes": "Microsoft.NetApp/netAppAccounts/capacityPools/volumes/read",
    "microsoft.storagecache/amlfilesystems": "Microsoft.StorageCache/amlFilesystems/read",
}
SCALE_SET_MACHINES = "microsoft.compute/virtualmachinescalesets/virtualmachines"

CALLS: dict[str, Call] = {
    "storage:blobs.list": Call(
        "GET",
        "/{container}?restype=container",
        data_actions=("Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read",),
    ),
    "storage:blobs.get": Call(
        "GET",
        "/{container}/{blob}",
        data_actions=("Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read",),
    ),
    "costmanagement:exports.list": Call(
        "GET",
        "/{scope}/providers/Microsoft.CostManagement/exports",
        actions=("Microsoft.CostManagement/exports/read",),
    ),
    "costmanagement:query.usage": Call(
        "POST",
        "/{scope}/providers/Microsoft.CostManagement/query",
        actions=("Microsoft.CostManagement/query/read",),
    ),
    "resourcegraph:resources": Call(
        "POST",
        "/providers/Microsoft.ResourceGraph/resources",
        actions=(
            "Microsoft.ResourceGraph/resources/read",
            "Microsoft.Resources/subscriptions/read",
            "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
            *GRAPH_TYPES.values(),
        ),
    ),
    "compute:virtualMachines.list": Call(
        "GET",
        "/subscriptions/{subscription}/providers/Microsoft.Compute/virtualMachines",
        "2024-07-01",
        actions=("Microsoft.Compute/virtualMachines/read",),
    ),
    "compute:capacityReservations.get": Call(
        "GET",
        "{reservation}",
        "2024-07-01",
        actions=("Microsoft.Compute/capacityReservationGroups/capacityReservations/read",),
    ),
    "machinelearning:computes.list": Call(
        "GET",
        "{workspace}/computes",
        "2024-10-01",
        actions=("Microsoft.MachineLearningServices/workspaces/computes/read",),
    ),
    "storage:fileShares.list": Call(
        "GET",
        "{account}/fileServices/default/shares",
        "2024-01-01",
        actions=("Microsoft.Storage/storageAccounts/fileServices/shares/read",),
    ),
    "storage:managementPolicies.get": Call(
        "GET",
        "{account}/managementPolicies/default",
        "2024-01-01",
        actions=("Microsoft.Storage/storageAccounts/managementPolicies/read",),
    ),
    "capacity:reservations.list": Call(
        "GET",
        "/providers/Microsoft.Capacity/reservations",
        "2022-11-01",
        granted_by="the role Reservations Reader at the scope /providers/Microsoft.Capacity",
    ),
    "billingbenefits:savingsPlans.list": Call(
        "GET",
        "/providers/Microsoft.BillingBenefits/savingsPlans",
        "2022-11-01",
        granted_by="the role Savings plan Reader at the scope /providers/Microsoft.BillingBenefits",
    ),
    "monitor:metrics.getBatch": Call(
        "POST",
        "/subscriptions/{subscription}/metrics:getBatch",
        actions=("Microsoft.Insights/Metrics/Read",),
    ),
    "retailprices:list": Call("GET", "/api/retail/prices", "2023-01-01-preview"),
}
ROLE = "Auditor reader"


def policy() -> str:
    """A custom role that holds what the collector calls and nothing that writes."""
    elsewhere = "; ".join(call.granted_by for call in CALLS.values() if call.granted_by)
    role = {
        "Name": ROLE,
        "IsCustom": True,
        "Description": f"Reads costs, metrics and inventory for auditor. A custom role cannot hold what is tenant-wide: {elsewhere}; "
        "billing accounts have roles of their own (Enrollment reader, Billing account reader).",
        "Actions": sorted({action for call in CALLS.values() for action in call.actions}, key=str.lower),
        "NotActions": [],
        "DataActions": sorted({action for call in CALLS.values() for action in call.data_actions}, key=str.lower),
        "NotDataActions": [],
        "AssignableScopes": ["/subscriptions/00000000-0000-0000-0000-000000000000"],
    }
    return json.dumps(role, indent=2) + "\n"
