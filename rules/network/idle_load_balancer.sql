/* rule
id     = "network.idle_load_balancer"
title  = "Load balancer is billed by the hour and balances nothing"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
A load balancer or forwarding rule costs money for every hour it exists. One whose usage charge stays next to nothing for
a week has no clients, or no healthy targets."""

savings  = "EffectiveCost of the load balancer over its current idle spell"
blind_to = "balancers kept for a fail-over without a standby tag"

references = [
    "https://aws.amazon.com/elasticloadbalancing/pricing/",
    "https://cloud.google.com/load-balancing/pricing",
    "https://azure.microsoft.com/pricing/details/load-balancer/",
]

[needs]
charges = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option", "day", "standby"]

[needs.optional]
metric_hours = ["provider", "ResourceId", "metric", "hour", "sum_value"]

[parameters]
idle_days = { default = 7, unit = "days", about = "whole days without use up to the window's end" }
max_usage_ratio  = { default = 0.01, unit = "usage charge / hourly charge of a day", about = "scans and health checks stay under it" }
max_hourly_bytes = { default = 1_000_000, unit = "bytes per hour, mean of a day", about = "scans and health checks stay under it" }

[remedy.aws]
summary  = "Delete the load balancer, after checking that no DNS name points at it"
commands = ["aws elbv2 delete-load-balancer --region {region_id} --load-balancer-arn {resource_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = aws_lb.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Names that still point at it stop resolving to anything."
effort   = "minutes"

[remedy.aws.variants.classic]
when     = ':loadbalancer/(?!app/|net/|gwy/)'
commands = ["aws elb delete-load-balancer --region {region_id} --load-balancer-name {resource_short_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_elb.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''

[remedy.gcp]
summary  = "Delete the forwarding rule, after checking that no DNS name points at its address"
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
summary  = "Delete the load balancer, after checking that no DNS name points at it"
commands = ["az network lb delete --ids {resource_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_lb.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Names that still point at it stop resolving to anything."
effort   = "minutes"

[remedy.azure.variants.application_gateway]
when     = 'applicationgateways'
summary  = "Delete the application gateway, after checking that no DNS name points at it"
commands = ["az network application-gateway delete --ids {resource_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_application_gateway.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
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
        sum(case when usage_kind = 'load_balancer.hours' then EffectiveCost else 0 end) as hourly_cost,
        sum(case when usage_kind = 'load_balancer.usage' then EffectiveCost else 0 end) as usage_cost,
        bool_or(coalesce(usage_kind = 'load_balancer.hours', false)) as ran,
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
        billed.usage_cost > billed.hourly_cost * $max_usage_ratio or coalesce(seen.bytes, 0) >= $max_hourly_bytes * 24 as busy
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
    format('next to no traffic for {} days', idle.idle_days) as reason,
    idle.first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    idle.idle_days,
    idle.standby
from idle
where
    idle.idle_days >= $idle_days
    and idle.effective_cost > 0
order by avoidable_cost desc, idle.ResourceId asc
