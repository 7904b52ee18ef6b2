/* rule
id     = "network.nat_missing_gateway_endpoint"
title  = "NAT gateway carries traffic that a free gateway endpoint would carry"
status = "stable"
stage  = "fix_path"
clouds = ["aws"]
cost_line = ["nat.bytes"]

why = """
A NAT gateway bills every gigabyte it processes, whichever way it travels. A gateway endpoint for S3 or DynamoDB carries
same-Region bytes with no hourly and no per-gigabyte charge, so that share of the processing charge buys nothing."""

savings  = "EffectiveCost of processed bytes x share of bytes to same-Region S3 and DynamoDB; without flow logs a range from nothing to all of it"
blind_to = "buckets in other Regions, which the endpoint does not reach; traffic of days without flow logs"

references = [
    "https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html",
    "https://aws.amazon.com/vpc/pricing/",
]

[needs]
charges      = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "day", "standby"]
nat_gateways = ["provider", "ResourceId", "network_id", "connectivity", "has_s3_endpoint", "has_dynamodb_endpoint"]

[needs.optional]
flows_daily = ["provider", "ResourceId", "day", "peer_service", "peer_region_id", "bytes"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
min_share        = { default = 0.05, unit = "ratio of bytes", about = "below this, flow-log gaps drown the estimate" }

[remedy.aws]
summary  = "Create the missing gateway endpoints in the VPC and associate them with the route tables of the private subnets"
commands = [
    "aws ec2 create-vpc-endpoint --region {region_id} --vpc-id {network_id} --service-name com.amazonaws.{region_id}.{missing_service} --route-table-ids $(aws ec2 describe-route-tables --region {region_id} --filters Name=route.nat-gateway-id,Values={resource_short_id} --query 'RouteTables[].RouteTableId' --output text)",
]
terraform = '''
data "aws_route_tables" "{resource_label}" {
  filter {
    name   = "route.nat-gateway-id"
    values = [{resource_short_id}]
  }
}

resource "aws_vpc_endpoint" "{resource_label}_{missing_service}" {
  vpc_id            = {network_id}
  service_name      = "com.amazonaws.{region_id}.{missing_service}"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = data.aws_route_tables.{resource_label}.ids
}
'''
risk     = "Bucket policies that name the gateway's public address stop matching; open connections to S3 are cut when the route appears."
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
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

gateways as (
    select
        nat_cost.provider,
        nat_cost.ResourceId,
        nat_cost.BillingCurrency,
        nat_cost.SubAccountId,
        nat_cost.RegionId,
        nat_cost.effective_cost,
        nat_cost.standby,
        nat_gateways.network_id,
        nat_gateways.connectivity,
        not nat_gateways.has_s3_endpoint as lacks_s3,
        coalesce(not nat_gateways.has_dynamodb_endpoint, false) as lacks_dynamodb
    from nat_cost
    join nat_gateways on nat_cost.provider = nat_gateways.provider and nat_cost.ResourceId = nat_gateways.ResourceId
    where nat_gateways.has_s3_endpoint is not null
),

shares as (
    select
        flows_daily.provider,
        flows_daily.ResourceId,
        (
            sum(
                case
                    when flows_daily.peer_region_id <> gateways.RegionId then 0  -- flow logs name the service, not always its Region
                    when gateways.lacks_s3 and upper(flows_daily.peer_service) = 'S3' then flows_daily.bytes
                    when gateways.lacks_dynamodb and upper(flows_daily.peer_service) = 'DYNAMODB' then flows_daily.bytes
                    else 0
                end
            ) / nullif(sum(flows_daily.bytes), 0)
        )::decimal(9, 8) as endpoint_share,
        bool_and(flows_daily.peer_service is null or flows_daily.peer_region_id is not null) as regions_known,
        count(distinct flows_daily.day) as flow_days,
        sum(flows_daily.bytes) as flow_bytes
    from flows_daily
    join gateways on flows_daily.provider = gateways.provider and flows_daily.ResourceId = gateways.ResourceId
    where flows_daily.day >= $window_start and flows_daily.day < $window_end
    group by flows_daily.provider, flows_daily.ResourceId
)

select
    gateways.provider,
    gateways.ResourceId,
    gateways.SubAccountId,
    gateways.RegionId,
    gateways.BillingCurrency,
    gateways.effective_cost,
    0 as committed_cost,
    gateways.effective_cost * coalesce(shares.endpoint_share, 0) as avoidable_cost,
    gateways.effective_cost * coalesce(shares.endpoint_share, 0) as avoidable_low,
    gateways.effective_cost * coalesce(shares.endpoint_share, 1) as avoidable_high,
    case when shares.endpoint_share is null then 'low' when shares.regions_known then 'high' else 'medium' end as confidence,
    case
        when shares.endpoint_share is null
            then 'no S3 endpoint in ' || coalesce(gateways.network_id, 'its network') || '; no flow logs, so the share of S3 is unknown'
        else format(
            '{:.1f} % of the bytes through this gateway go to S3 or DynamoDB in {}, measured over {} in flow logs of {} of {} days',
            100 * shares.endpoint_share::double, gateways.RegionId,
            formatreadabledecimalsize(shares.flow_bytes::bigint), shares.flow_days, ceil($window_hours / 24)::integer
        )
    end as reason,
    gateways.network_id,
    case when gateways.lacks_s3 then 's3' else 'dynamodb' end as missing_service,
    case when shares.endpoint_share is null then 'bill and inventory' else 'bill, inventory and flow logs' end as known_from,
    shares.endpoint_share,
    shares.flow_days,
    shares.flow_bytes,
    gateways.standby
from gateways
left join shares on gateways.provider = shares.provider and gateways.ResourceId = shares.ResourceId
where
    (gateways.lacks_s3 or (gateways.lacks_dynamodb and shares.endpoint_share is not null))  -- DynamoDB alone is no evidence without bytes
    -- a private gateway leads to other networks; only bytes show that S3 is among what it reaches
    and (gateways.connectivity is distinct from 'private' or shares.endpoint_share is not null)
    and coalesce(shares.endpoint_share, 1) >= $min_share
    and gateways.effective_cost * 730 >= $min_monthly_cost * $window_hours
order by avoidable_high desc, gateways.ResourceId asc
