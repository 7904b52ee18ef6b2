/* rule
id     = "network.nat_private_google_access"
title  = "Subnet behind Cloud NAT without Private Google Access"
status = "stable"
stage  = "fix_path"
clouds = ["gcp"]
cost_line = ["nat.bytes"]

why = """
Cloud NAT bills every gibibyte it processes. With Private Google Access a machine without an external address reaches
Cloud Storage and the other Google APIs on Google's own network, at no processing charge; the setting costs nothing."""

savings  = "EffectiveCost of processed bytes x share of bytes to Google APIs; without flow logs a range from nothing to all of it"
blind_to = "bytes that bypass the gateway already: Cloud NAT turns the access on for the ranges it serves, so compare the setting with the flow logs first; clients that resolve Google APIs to a proxy"

references = [
    "https://cloud.google.com/vpc/docs/private-google-access",
    "https://cloud.google.com/nat/pricing",
]

[needs]
charges      = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "day", "standby"]
nat_gateways = ["provider", "ResourceId", "network_id", "connectivity", "subnet_ids", "has_private_google_access"]
resources    = ["provider", "SubAccountId", "RegionId", "ResourceId", "ResourceName", "ResourceType", "attributes"]

[needs.optional]
flows_daily = ["provider", "ResourceId", "day", "peer_service", "bytes"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
min_share        = { default = 0.05, unit = "ratio of bytes", about = "below this, flow-log gaps drown the estimate" }
peer_services    = { default = ["cloud storage", "gcs", "googleapis.com", "google", "google_api"], unit = "peer services in lower case", about = "services that the free path reaches, as flow logs name them" }

[remedy.gcp]
summary  = "Turn on Private Google Access for the subnets behind the gateway"
commands = [
    "gcloud compute networks subnets update {subnet} --project {sub_account_id} --region {region_id} --enable-private-ip-google-access",
]
terraform = '''
# In the block of the subnet; likewise for the other subnets behind the gateway.
resource "google_compute_subnetwork" "{resource_label}" {
  project                  = {sub_account_id}
  region                   = {region_id}
  name                     = {subnet}
  private_ip_google_access = true
}
'''
risk     = "Firewall rules and routes have to let Google's API ranges through; nothing is interrupted."
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
        and provider = 'gcp'
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

clients as (
    select
        provider,
        ResourceId,
        unnest(subnet_ids) as subnet_id
    from nat_gateways
    where has_private_google_access = false and connectivity is distinct from 'private'
),

-- the subnets that lack the path, by the names that the command takes
bare_subnets as (
    select
        clients.provider,
        clients.ResourceId,
        list(clients.subnet_id order by clients.subnet_id) as subnet_ids,
        min(coalesce(resources.ResourceName, resources.ResourceId)) as subnet,
        -- the subnet's full resource name, as Google writes it; the bill has no line for a subnet
        min(coalesce(
            '//compute.googleapis.com/projects/' || resources.SubAccountId || '/regions/' || resources.RegionId || '/subnetworks/' || resources.ResourceName,
            resources.ResourceId
        )) as subnet_name
    from clients
    join resources on clients.provider = resources.provider and clients.subnet_id = resources.ResourceId
    where
        resources.ResourceType = 'subnet'
        and coalesce(try_cast(json_extract_string(resources.attributes, '$.private_google_access') as boolean), false) = false
    group by clients.provider, clients.ResourceId
),

shares as (
    select
        flows_daily.provider,
        flows_daily.ResourceId,
        (
            sum(case when list_contains($peer_services, lower(flows_daily.peer_service)) or lower(flows_daily.peer_service) like '%.googleapis.com' then flows_daily.bytes else 0 end)
            / nullif(sum(flows_daily.bytes), 0)
        )::decimal(9, 8) as free_share
    from flows_daily
    join nat_cost on flows_daily.provider = nat_cost.provider and flows_daily.ResourceId = nat_cost.ResourceId
    where flows_daily.day >= $window_start and flows_daily.day < $window_end
    group by flows_daily.provider, flows_daily.ResourceId
)

select
    nat_cost.provider,
    case when len(bare_subnets.subnet_ids) = 1 then bare_subnets.subnet_name else nat_cost.ResourceId end as ResourceId,
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
        '{} of the subnets behind this gateway {} without Private Google Access; ',
        len(bare_subnets.subnet_ids),
        case when len(bare_subnets.subnet_ids) = 1 then 'is' else 'are' end
    )
    || case
        when shares.free_share is null then 'no flow logs, so the share of Google APIs is unknown'
        else format('{:.1f} % of the bytes go to Google APIs', 100 * shares.free_share::double)
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
