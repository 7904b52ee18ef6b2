/* rule
id     = "network.nat_missing_service_endpoint"
title  = "Subnet behind a NAT gateway without a service endpoint for storage"
status = "stable"
stage  = "fix_path"
clouds = ["azure"]
cost_line = ["nat.bytes"]

why = """
An Azure NAT gateway bills every gigabyte it processes, in either direction. A service endpoint carries the bytes to storage
accounts on Azure's own network and costs nothing."""

savings  = "EffectiveCost of processed bytes x share of bytes to Azure Storage; without flow logs a range from nothing to all of it"
blind_to = "traffic of days without flow logs; private endpoints that some of the storage accounts have, with a charge of their own; storage accounts in other regions, which Microsoft.Storage.Global reaches"

references = [
    "https://learn.microsoft.com/azure/virtual-network/virtual-network-service-endpoints-overview",
    "https://azure.microsoft.com/pricing/details/azure-nat-gateway/",
]

[needs]
charges      = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "day", "standby"]
nat_gateways = ["provider", "ResourceId", "network_id", "connectivity", "subnet_ids", "has_storage_service_endpoint"]
resources    = ["provider", "ResourceId", "ResourceType", "attributes"]

[needs.optional]
flows_daily = ["provider", "ResourceId", "day", "peer_service", "bytes"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
min_share        = { default = 0.05, unit = "ratio of bytes", about = "below this, flow-log gaps drown the estimate" }
peer_services    = { default = ["storage", "azurestorage", "azure storage", "microsoft.storage"], unit = "peer services in lower case", about = "services that the free path reaches, as flow logs name them" }

[remedy.azure]
summary  = "Add the service endpoint Microsoft.Storage to the subnets behind the gateway, beside those they have"
commands = [
    "az network vnet subnet update --ids {subnet} --service-endpoints Microsoft.Storage $(az network vnet subnet show --ids {subnet} --query 'serviceEndpoints[].service' --output tsv)",
]
terraform = '''
# In the block that `terraform state list -id={subnet}` names, beside the endpoints it has; likewise for the other subnets.
resource "azurerm_subnet" "{resource_label}" {
  service_endpoints = ["Microsoft.Storage"]
}
'''
risk     = "Open connections to storage break for a moment; storage firewalls that name the gateway's public address have to admit the subnet."
effort   = "minutes"
*/
with nat_cost as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        sum(EffectiveCost) as effective_cost,
        bool_or(standby) as standby
    from charges
    where
        usage_kind = 'nat.bytes'  -- the hourly charge stays: so does the gateway
        and provider = 'azure'
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

clients as (
    select
        provider,
        ResourceId,
        unnest(subnet_ids) as subnet_id
    from nat_gateways
    where has_storage_service_endpoint = false and connectivity is distinct from 'private'
),

-- the subnets that lack the path, by the names that the command takes
bare_subnets as (
    select
        clients.provider,
        clients.ResourceId,
        list(clients.subnet_id order by clients.subnet_id) as subnet_ids,
        min(resources.ResourceId) as subnet
    from clients
    join resources on clients.provider = resources.provider and clients.subnet_id = resources.ResourceId
    where
        resources.ResourceType = 'subnet'
        and lower(coalesce(json_extract_string(resources.attributes, '$.service_endpoints'), '')) not like '%microsoft.storage%'
    group by clients.provider, clients.ResourceId
),

shares as (
    select
        flows_daily.provider,
        flows_daily.ResourceId,
        (
            sum(case when list_contains($peer_services, lower(flows_daily.peer_service)) then flows_daily.bytes else 0 end)
            / nullif(sum(flows_daily.bytes), 0)
        )::decimal(9, 8) as free_share
    from flows_daily
    join nat_cost on flows_daily.provider = nat_cost.provider and flows_daily.ResourceId = nat_cost.ResourceId
    where flows_daily.day >= $window_start and flows_daily.day < $window_end
    group by flows_daily.provider, flows_daily.ResourceId
)

select
    nat_cost.provider,
    case when len(bare_subnets.subnet_ids) = 1 then bare_subnets.subnet_ids[1] else nat_cost.ResourceId end as ResourceId,
    nat_cost.SubAccountId,
    nat_cost.RegionId,
    nat_cost.BillingCurrency,
    nat_cost.effective_cost,
    0 as committed_cost,
    nat_cost.effective_cost * coalesce(shares.free_share, 0) as avoidable_cost,
    nat_cost.effective_cost * coalesce(shares.free_share, 0) as avoidable_low,
    nat_cost.effective_cost * coalesce(shares.free_share, 1) as avoidable_high,
    case when shares.free_share is null then 'low' else 'high' end as confidence,
    format(
        '{} of the subnets behind this gateway {} without a storage service endpoint; ',
        len(bare_subnets.subnet_ids),
        case when len(bare_subnets.subnet_ids) = 1 then 'is' else 'are' end
    )
    || case
        when shares.free_share is null then 'no flow logs, so the share of Azure Storage is unknown'
        else format('{:.1f} % of the bytes go to Azure Storage', 100 * shares.free_share::double)
    end as reason,
    nat_cost.ResourceId as nat_gateway,
    [nat_cost.ResourceId] as members,  -- whose dollars these are
    nat_gateways.network_id,
    bare_subnets.subnet,
    bare_subnets.subnet_ids,
    case when shares.free_share is null then 'bill and inventory' else 'bill, inventory and flow logs' end as known_from,
    shares.free_share,
    nat_cost.standby
from nat_cost
join nat_gateways on nat_cost.provider = nat_gateways.provider and nat_cost.ResourceId = nat_gateways.ResourceId
join bare_subnets on nat_cost.provider = bare_subnets.provider and nat_cost.ResourceId = bare_subnets.ResourceId
left join shares on nat_cost.provider = shares.provider and nat_cost.ResourceId = shares.ResourceId
where
    coalesce(shares.free_share, 1) >= $min_share
    and nat_cost.effective_cost * 730 >= $min_monthly_cost * $window_hours
order by avoidable_high desc, nat_cost.ResourceId asc
