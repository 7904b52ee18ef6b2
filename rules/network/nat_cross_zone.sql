/* rule
id     = "network.nat_cross_zone"
title  = "Clients in other zones than their NAT gateway"
status = "stable"
stage  = "fix_path"
clouds = ["aws"]
cost_line = ["transfer.inter_zone"]

why = """
A gateway stands in one zone. What a machine of another zone sends through it crosses the zone border first and is billed
at both ends, on top of the processing charge. A gateway in each busy zone ends that, at the price of its hours."""

savings  = "inter-zone charges of the gateway, and of its clients up to the same amount, less the hours of a gateway for each further zone with clients"
blind_to = "gateways that the bill names by no id; clients that come in from another network, through a transit gateway or peering; regional gateways, which have no zone"

references = [
    "https://docs.aws.amazon.com/vpc/latest/userguide/vpc-nat-gateway.html",
    "https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html",
    "https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer",
]

[needs]
transfers = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "day", "usage_kind", "gigabytes", "EffectiveCost", "standby"]

[needs.optional]
nat_gateways = ["provider", "ResourceId", "AvailabilityZone", "network_id", "subnet_id", "availability_mode", "client_zones", "subnet_ids"]
instances    = ["provider", "ResourceId", "AvailabilityZone", "subnet_id"]
resources    = ["provider", "ResourceId", "AvailabilityZone"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }

[remedy.aws]
summary  = "Put a gateway into each zone with busy clients and route every private subnet to the gateway of its own zone, or take a regional gateway, which has no zone"
commands = [
    "aws ec2 describe-route-tables --region {region_id} --filters Name=route.nat-gateway-id,Values={resource_short_id}",
    "aws ec2 create-nat-gateway --region {region_id} --subnet-id $PUBLIC_SUBNET_OF_THE_ZONE --allocation-id $ALLOCATION_ID",
    "aws ec2 replace-route --region {region_id} --route-table-id $ROUTE_TABLE_OF_THE_ZONE --destination-cidr-block 0.0.0.0/0 --nat-gateway-id $NEW_GATEWAY",
]
terraform = '''
# One for each zone that reaches {resource_short_id} over a border: a gateway there, and the default route of that zone's private subnets to it.
resource "aws_eip" "{resource_label}_other_zone" {
  domain = "vpc"
}

resource "aws_nat_gateway" "{resource_label}_other_zone" {
  allocation_id = aws_eip.{resource_label}_other_zone.id
  subnet_id     = var.public_subnet_id_of_the_other_zone
}

resource "aws_route" "{resource_label}_other_zone" {
  route_table_id         = var.route_table_id_of_the_other_zone
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.{resource_label}_other_zone.id
}
'''
risk     = "Open connections break when the route changes, and the public address that partners see becomes another one."
effort   = "hours"
*/
with nat_ids as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        sum(case when usage_kind = 'nat.hours' then EffectiveCost else 0 end) as hours_cost
    from transfers
    where
        usage_kind in ('nat.hours', 'nat.bytes')
        and ResourceId is not null
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

crossing as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        sum(EffectiveCost) as effective_cost,
        sum(gigabytes) as gigabytes,
        bool_or(standby) as standby
    from transfers
    where
        usage_kind = 'transfer.inter_zone'
        and ResourceId is not null
        and EffectiveCost > 0
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

-- the zone of a gateway is the zone of the subnet it stands in
places as (
    select
        nat_gateways.provider,
        nat_gateways.ResourceId,
        max(nat_gateways.network_id) as network_id,
        max(coalesce(nat_gateways.AvailabilityZone, resources.AvailabilityZone)) as gateway_zone,
        any_value(nat_gateways.client_zones) as client_zones,
        bool_or(coalesce(nat_gateways.availability_mode = 'regional', false)) as is_regional
    from nat_gateways
    left join resources on nat_gateways.provider = resources.provider and nat_gateways.subnet_id = resources.ResourceId
    group by nat_gateways.provider, nat_gateways.ResourceId
),

routed as (
    select
        provider,
        ResourceId,
        unnest(subnet_ids) as subnet_id
    from nat_gateways
),

clients as (
    select
        routed.provider,
        routed.ResourceId,
        crossing.BillingCurrency,
        list(distinct crossing.ResourceId order by crossing.ResourceId) as client_ids,
        list(distinct instances.AvailabilityZone order by instances.AvailabilityZone) as busy_zones,
        sum(crossing.effective_cost) as client_cost
    from routed
    join places on routed.provider = places.provider and routed.ResourceId = places.ResourceId
    join instances on routed.provider = instances.provider and routed.subnet_id = instances.subnet_id
    join crossing on instances.provider = crossing.provider and instances.ResourceId = crossing.ResourceId
    where instances.AvailabilityZone <> places.gateway_zone
    group by routed.provider, routed.ResourceId, crossing.BillingCurrency
),

gateways as (
    select
        crossing.provider,
        crossing.ResourceId,
        crossing.BillingCurrency,
        crossing.SubAccountId,
        crossing.RegionId,
        crossing.gigabytes,
        crossing.standby,
        crossing.effective_cost as gateway_cost,
        coalesce(clients.client_cost, 0) as client_cost,
        coalesce(clients.client_ids, []) as client_ids,
        nat_ids.hours_cost,
        places.network_id,
        places.gateway_zone,
        coalesce(clients.busy_zones, list_filter(coalesce(places.client_zones, []), lambda zone: zone <> places.gateway_zone)) as other_zones,
        places.gateway_zone is not null and len(places.client_zones) > 0 as is_placed
    from crossing
    join nat_ids using (provider, ResourceId, BillingCurrency)
    left join places on crossing.provider = places.provider and crossing.ResourceId = places.ResourceId
    left join clients using (provider, ResourceId, BillingCurrency)
    where not coalesce(places.is_regional, false)  -- it stands in every zone, so nothing reaches it from another one
),

weighed as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        SubAccountId,
        RegionId,
        gigabytes,
        standby,
        gateway_cost,
        client_cost,
        client_ids,
        network_id,
        gateway_zone,
        other_zones,
        is_placed,
        gateway_cost + client_cost as effective_cost,
        -- what clients send to other machines of other zones stays
        gateway_cost + least(client_cost, gateway_cost) as crossing_cost,
        hours_cost * greatest(len(other_zones), 1) as new_hours_cost
    from gateways
    where not is_placed or len(other_zones) > 0
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    0 as committed_cost,
    crossing_cost - new_hours_cost as avoidable_cost,
    gateway_cost - new_hours_cost as avoidable_low,
    crossing_cost - new_hours_cost as avoidable_high,
    case when is_placed then 'medium' else 'low' end as confidence,
    format('{:.1f} GB a month reach this gateway from other zones', (gigabytes * 730)::double / $window_hours)
    || case when gateway_zone is null then '' else ' than ' || gateway_zone end
    || case when len(other_zones) > 0 then ': ' || array_to_string(other_zones, ', ') else '' end
    || format('; a gateway more costs {:.2f} for its hours', (new_hours_cost * 730)::double / $window_hours) as reason,
    network_id,
    gateway_zone,
    other_zones,
    gateway_cost,
    client_cost,
    new_hours_cost,
    case when is_placed then 'bill and inventory' else 'bill' end as known_from,
    case when len(client_ids) > 0 then list_prepend(ResourceId, client_ids) end as members,
    standby
from weighed
where
    crossing_cost > new_hours_cost  -- below that, sharing one gateway is the cheaper way
    and effective_cost * 730 >= $min_monthly_cost * $window_hours
order by avoidable_cost desc, ResourceId asc
