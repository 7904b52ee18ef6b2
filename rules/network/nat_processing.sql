/* rule
id     = "network.nat_processing"
title  = "NAT gateway bills a large volume of processed bytes"
status = "stable"
stage  = "fix_path"
clouds = ["aws", "gcp", "azure"]
cost_line = ["nat.bytes"]

why = """
A NAT gateway bills every gigabyte it processes. Traffic to object stores, registries and the provider's own services
can take private endpoints instead; large downloads can be cached inside the network."""

savings  = "EffectiveCost of processed bytes x the share that flow logs show going to object stores, without flow logs x avoidable_share; range up to all of it"
blind_to = "what the bytes are, where there are no flow logs; private paths that exist but are not used"

references = [
    "https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-pricing.html",
    "https://cloud.google.com/nat/pricing",
    "https://azure.microsoft.com/pricing/details/azure-nat-gateway/",
]

[needs]
transfers = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "ServiceName", "day", "usage_kind", "gigabytes", "EffectiveCost", "standby"]

[needs.optional]
flows_daily = ["provider", "ResourceId", "day", "peer_service", "bytes"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
avoidable_share  = { default = 0.5, unit = "ratio of EffectiveCost", about = "share taken to have a private path while the peers are unknown" }
object_stores    = { default = ["s3", "dynamodb", "gcs", "storage.googleapis.com", "storage", "azurestorage"], unit = "peer services in lower case", about = "services that a free private path reaches" }

[remedy.aws]
summary  = "Find the talkers in the flow logs, give S3 and DynamoDB gateway endpoints, busy services interface endpoints, and cache images and packages"
commands = [
    "aws ec2 describe-nat-gateways --region {region_id} --nat-gateway-ids {resource_short_id}",
    "aws ec2 describe-flow-logs --region {region_id}",
]
terraform = '''
# The way to S3 that costs nothing, from every route table that leads to the gateway.
data "aws_nat_gateway" "{resource_label}" {
  id = {resource_short_id}
}

data "aws_route_tables" "{resource_label}" {
  filter {
    name   = "route.nat-gateway-id"
    values = [{resource_short_id}]
  }
}

resource "aws_vpc_endpoint" "{resource_label}_s3" {
  vpc_id            = data.aws_nat_gateway.{resource_label}.vpc_id
  service_name      = "com.amazonaws.{region_id}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = data.aws_route_tables.{resource_label}.ids
}
'''
risk     = "Endpoint policies and bucket policies that name public addresses need a look first."
effort   = "days"

[remedy.gcp]
summary  = "Turn on Private Google Access, mirror images and packages in Artifact Registry, and look at the talkers in the flow logs"
commands = ["gcloud compute networks subnets list --project {sub_account_id} --filter=\"region:{region_id}\" --format=\"table(name,privateIpGoogleAccess)\""]
terraform = '''
# In the blocks of the subnets behind the gateway {resource_short_id}.
resource "google_compute_subnetwork" "{resource_label}" {
  private_ip_google_access = true
}
'''
risk     = "Firewall rules that block Google's private ranges have to let them through."
effort   = "days"

[remedy.azure]
summary  = "Give the subnets service endpoints or private endpoints for storage and registries, and look at the talkers in the flow logs"
commands = ["az network nat gateway show --ids {resource_id} --query subnets"]
terraform = '''
# In the blocks of the subnets behind the gateway, beside the endpoints they have.
resource "azurerm_subnet" "{resource_label}" {
  service_endpoints = ["Microsoft.Storage", "Microsoft.ContainerRegistry"]
}
'''
risk     = "Storage firewalls that name the gateway's public address have to admit the subnet."
effort   = "days"
*/
with gateways as (
    select
        provider,
        ResourceId,
        SubAccountId,
        BillingCurrency,
        case when ResourceId is null then coalesce(RegionId, '') || '/' || coalesce(ServiceName, '') end as scope,
        max(RegionId) as RegionId,
        max(ServiceName) as ServiceName,
        sum(EffectiveCost) as effective_cost,
        sum(gigabytes) as gigabytes,
        bool_or(standby) as standby
    from transfers
    where
        usage_kind = 'nat.bytes'
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, SubAccountId, BillingCurrency, scope
),

peers as (
    select
        provider,
        ResourceId,
        (sum(case when list_contains($object_stores, lower(peer_service)) then bytes else 0 end) / nullif(sum(bytes), 0))::decimal(9, 8) as store_share
    from flows_daily
    where day >= $window_start and day < $window_end
    group by provider, ResourceId
)

select
    gateways.provider,
    gateways.ResourceId,
    gateways.SubAccountId,
    gateways.RegionId,
    gateways.BillingCurrency,
    gateways.ServiceName,
    gateways.effective_cost,
    0 as committed_cost,
    gateways.effective_cost * coalesce(peers.store_share, $avoidable_share) as avoidable_cost,
    gateways.effective_cost * coalesce(peers.store_share, 0) as avoidable_low,
    gateways.effective_cost as avoidable_high,
    case when peers.store_share is null then 'low' else 'medium' end as confidence,
    case
        when peers.store_share is null
            then format('{:.1f} GB processed; no flow logs, so where they go is unknown', gateways.gigabytes::double)
        else format('{:.1f} GB processed, {:.1f} % of them to object stores', gateways.gigabytes::double, 100 * peers.store_share::double)
    end as reason,
    gateways.gigabytes,
    case when peers.store_share is null then 'bill' else 'bill and flow logs' end as known_from,
    peers.store_share,
    gateways.standby
from gateways
left join peers on gateways.provider = peers.provider and gateways.ResourceId = peers.ResourceId
where gateways.effective_cost * 730 >= $min_monthly_cost * $window_hours
order by gateways.effective_cost desc, gateways.ResourceId asc
