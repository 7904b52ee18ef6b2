/* rule
id     = "network.idle_interface_endpoint"
title  = "Private endpoint is billed by the hour and carries no bytes"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
An interface or private endpoint costs money for every hour and zone it exists. One that carries nothing for a week
serves a service that nobody calls, or whose callers take another way."""

savings  = "EffectiveCost of the endpoint over its current idle spell"
blind_to = "endpoints kept for a fail-over without a standby tag"

references = [
    "https://aws.amazon.com/privatelink/pricing/",
    "https://cloud.google.com/vpc/network-pricing#psc-endpoints",
    "https://azure.microsoft.com/pricing/details/private-link/",
]

[needs]
charges = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "ConsumedQuantity", "usage_kind", "purchase_option", "day", "standby"]

[needs.optional]
metric_hours = ["provider", "ResourceId", "metric", "hour", "sum_value"]

[parameters]
idle_days = { default = 7, unit = "days", about = "whole days without use up to the window's end" }

[remedy.aws]
summary  = "Delete the interface endpoint"
commands = ["aws ec2 delete-vpc-endpoints --region {region_id} --vpc-endpoint-ids {resource_short_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_vpc_endpoint.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "With private DNS on, callers fall back to the service's public addresses."
effort   = "minutes"

[remedy.gcp]
summary  = "Delete the Private Service Connect endpoint"
commands = ["gcloud compute forwarding-rules list --project {sub_account_id} --filter=\"name={resource_short_id} OR id={resource_last_part}\""]
terraform = '''
# Take the block that `terraform state list -id=projects/{sub_account_id}/regions/{region_id}/forwardingRules/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_compute_forwarding_rule.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Names that still point at it stop resolving to anything."
effort   = "minutes"

[remedy.azure]
summary  = "Delete the private endpoint"
commands = ["az network private-endpoint delete --ids {resource_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_private_endpoint.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Where public access is off, the service cannot be reached any more."
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
        sum(case when purchase_option = 'committed' then EffectiveCost else 0 end) as committed_cost,
        sum(case when usage_kind = 'private_endpoint.bytes' then ConsumedQuantity else 0 end) as billed_bytes,
        bool_or(coalesce(usage_kind = 'private_endpoint.hours', false)) as ran,
        bool_or(coalesce(standby, false)) as standby
    from charges
    where
        ResourceId is not null
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency, day
),

seen as (
    select
        provider,
        ResourceId,
        hour::date as day,
        sum(sum_value) as bytes
    from metric_hours
    where metric in ('net.received_bytes', 'net.sent_bytes')
    group by provider, ResourceId, hour::date
),

days as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        billed.day,
        billed.ran,
        billed.billed_bytes > 0 or coalesce(seen.bytes, 0) > 0 as busy
    from billed
    left join seen using (provider, ResourceId, day)
),

spells as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        greatest(
            max(case when busy then day end) + 1,
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
        sum(billed.committed_cost) as committed_cost,
        bool_or(billed.standby) as standby,
        $window_end::date - spells.first_day as idle_days
    from billed
    inner join spells using (provider, ResourceId, BillingCurrency)
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
    idle.effective_cost - idle.committed_cost as avoidable_cost,
    idle.effective_cost - idle.committed_cost as avoidable_low,
    idle.effective_cost - idle.committed_cost as avoidable_high,
    'high' as confidence,
    format('no byte for {} days', idle.idle_days) as reason,
    idle.first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    idle.idle_days,
    idle.standby
from idle
where
    idle.idle_days >= $idle_days
    and idle.effective_cost > 0
order by avoidable_cost desc, idle.ResourceId asc
