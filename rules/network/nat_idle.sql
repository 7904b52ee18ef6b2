/* rule
id     = "network.nat_idle"
title  = "NAT gateway is billed by the hour and carries next to nothing"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
A NAT gateway costs money for every hour it exists, used or not. One without bytes for a week usually outlived the
subnets it was made for."""

savings  = "EffectiveCost of its hourly charge over the current idle spell"
blind_to = "gateways kept for an emergency without a standby tag; bytes of days that neither the bill nor a metric shows"

references = [
    "https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-pricing.html",
    "https://cloud.google.com/nat/pricing",
    "https://azure.microsoft.com/pricing/details/azure-nat-gateway/",
]

[needs]
charges   = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option", "day", "standby"]
transfers = ["provider", "ResourceId", "day", "usage_kind", "gigabytes"]

[needs.optional]
metric_hours = ["provider", "ResourceId", "metric", "hour", "sum_value"]
nat_gateways = ["provider", "ResourceId", "connectivity", "availability_mode"]

[parameters]
idle_days        = { default = 7, unit = "days", about = "whole days without traffic up to the window's end" }
max_hourly_bytes = { default = 1_000_000, unit = "bytes per hour, mean of a day", about = "keep-alives and scans stay under it" }
min_monthly_cost = { default = 0, unit = "BillingCurrency per month of 730 hours", about = "an idle gateway is worth removing at any price" }

[remedy.aws]
summary  = "Delete the gateway and release its Elastic IPs (a private one has none), after checking that no route points at it"
commands = [
    "aws ec2 describe-route-tables --region {region_id} --filters Name=route.nat-gateway-id,Values={resource_short_id}",
    "aws ec2 delete-nat-gateway --region {region_id} --nat-gateway-id {resource_short_id}",
]
terraform = '''
# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_nat_gateway.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Subnets that route through it lose their way to the internet, behind a private one to the networks it translates for."
effort   = "minutes"

[remedy.gcp]
summary  = "Delete the NAT configuration of the Cloud Router"
commands = ["gcloud compute routers list --project {sub_account_id} --regions {region_id}", "gcloud compute routers delete {resource_short_id} --project {sub_account_id} --region {region_id}"]
terraform = '''
# Take the google_compute_router_nat block of the router {resource_short_id} out of the configuration, and state under its address:
removed {
  from = google_compute_router_nat.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Machines without external addresses lose their way to the internet; a router that also speaks BGP has to stay."
effort   = "minutes"

[remedy.azure]
summary  = "Detach the NAT gateway from its subnets and delete it with its public addresses"
commands = ["az network nat gateway show --ids {resource_id} --query subnets", "az network nat gateway delete --ids {resource_id}"]
terraform = '''
# The azurerm_subnet_nat_gateway_association of each of its subnets goes first.
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_nat_gateway.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Subnets that use it lose their way to the internet."
effort   = "minutes"
*/
with billed as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        day,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        sum(EffectiveCost) as day_cost,
        sum(case when usage_kind = 'nat.hours' then EffectiveCost else 0 end) as hourly_cost,
        sum(case when purchase_option = 'committed' then EffectiveCost else 0 end) as committed_cost,
        bool_or(coalesce(usage_kind = 'nat.hours', false)) as ran,
        bool_or(coalesce(standby, false)) as standby
    from charges
    where
        ResourceId is not null
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency, day
),

billed_bytes as (
    select
        provider,
        ResourceId,
        day,
        sum(gigabytes)::double * 1e9 as carried_bytes
    from transfers
    where usage_kind = 'nat.bytes'
    group by provider, ResourceId, day
),

seen_bytes as (
    select
        provider,
        ResourceId,
        hour::date as day,
        sum(sum_value) as carried_bytes
    from metric_hours
    where metric = 'nat.bytes'
    group by provider, ResourceId, hour::date
),

days as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        billed.day,
        billed.ran,
        greatest(coalesce(billed_bytes.carried_bytes, 0), coalesce(seen_bytes.carried_bytes, 0)) as carried_bytes
    from billed
    left join billed_bytes using (provider, ResourceId, day)
    left join seen_bytes using (provider, ResourceId, day)
),

spells as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        greatest(
            max(case when carried_bytes >= $max_hourly_bytes * 24 then day end) + 1,
            min(case when ran then day end) + (min(case when ran then day end) > $window_start)::integer,  -- its first day may be a part of one
            $window_start::date
        ) as first_day,
        max(case when ran then day end) as last_day
    from days
    group by provider, ResourceId, BillingCurrency
    having bool_or(ran)
),

idle as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        spells.first_day,
        max(billed.SubAccountId) as SubAccountId,
        max(billed.RegionId) as RegionId,
        sum(billed.day_cost) as effective_cost,
        sum(billed.hourly_cost) as hourly_cost,
        sum(billed.committed_cost) as committed_cost,
        bool_or(billed.standby) as standby,
        bool_or(seen_bytes.carried_bytes is not null) as is_measured,
        $window_end::date - spells.first_day as idle_days
    from billed
    join spells using (provider, ResourceId, BillingCurrency)
    left join seen_bytes using (provider, ResourceId, day)
    where
        billed.day >= spells.first_day
        and spells.last_day >= $window_end::date - 1  -- no longer billed is no longer there
    group by billed.provider, billed.ResourceId, billed.BillingCurrency, spells.first_day
)

select
    idle.provider,
    idle.ResourceId,
    idle.SubAccountId,
    idle.RegionId,
    idle.BillingCurrency,
    idle.effective_cost,
    idle.committed_cost,
    idle.hourly_cost as avoidable_cost,
    idle.hourly_cost as avoidable_low,
    idle.effective_cost as avoidable_high,
    -- networks with the same addresses may meet through a private one at long intervals
    case when nat_gateways.connectivity = 'private' then 'medium' else 'high' end as confidence,
    format('under {:.1f} MB an hour through it on each of the last {} days', $max_hourly_bytes::double / 1e6, idle.idle_days)
    || case when nat_gateways.connectivity = 'private' then '; it is private, so its traffic goes to other networks, not to the internet' else '' end as reason,
    idle.first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    idle.idle_days,
    nat_gateways.connectivity,
    nat_gateways.availability_mode,
    case when idle.is_measured then 'bill and metrics' else 'bill' end as known_from,
    idle.standby
from idle
left join nat_gateways on idle.provider = nat_gateways.provider and idle.ResourceId = nat_gateways.ResourceId
where
    idle.idle_days >= $idle_days
    and idle.effective_cost * 730 >= $min_monthly_cost * (idle.idle_days * 24)
order by avoidable_cost desc, idle.ResourceId asc
