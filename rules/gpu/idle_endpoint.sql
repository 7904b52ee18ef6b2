/* rule
id     = "gpu.idle_endpoint"
title  = "Accelerator endpoint that nobody calls"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
A hosted model is billed for its machines around the clock, called or not."""

savings  = "EffectiveCost of the endpoint over its current idle spell less the part that a commitment covers"
blind_to = "endpoints kept warm for a fail-over without a standby tag; calls on days that no metric covers"

references = [
    "https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
    "https://cloud.google.com/vertex-ai/docs/general/monitoring-metrics",
    "https://learn.microsoft.com/azure/machine-learning/how-to-monitor-online-endpoints",
]

[needs]
charges = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option",
    "machine_type", "accelerator_model", "day", "standby",
]

[needs.optional]
metric_hours      = ["provider", "ResourceId", "metric", "hour", "sum_value"]
accelerator_hours = ["provider", "ResourceId", "hour", "utilization_max"]

[parameters]
idle_days       = { default = 7, unit = "days", about = "whole days without use up to the window's end" }
max_utilization = { default = 0.05, unit = "ratio", about = "a day is idle when no device's sample reaches it" }
min_coverage    = { default = 0.8, unit = "days with samples / days of the spell", about = "below it the spell gets no verdict" }

[remedy.aws]
summary  = "Delete the endpoint, or move it to serverless or asynchronous inference that scales to zero"
commands = ["aws sagemaker delete-endpoint --region {region_id} --endpoint-name {resource_short_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_sagemaker_endpoint.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Callers get errors; the model and its endpoint configuration stay and can be deployed again."
effort   = "minutes"

[remedy.gcp]
summary  = "Undeploy the model from the endpoint"
commands = ["gcloud ai endpoints describe {resource_last_part} --project {sub_account_id} --region {region_id}"]
terraform = '''
# Take the block that `terraform state list -id=projects/{sub_account_id}/locations/{region_id}/endpoints/{resource_last_part}` names out of the configuration, and state under its address:
removed {
  from = google_vertex_ai_endpoint.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Callers get errors; the model stays and can be deployed again."
effort   = "minutes"

[remedy.azure]
summary  = "Delete the deployments of the online endpoint, or the endpoint"
commands = ["az resource delete --ids {resource_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azapi_resource.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Callers get errors; the model stays registered and can be deployed again."
effort   = "minutes"
*/
with billed as (
    select
        charges.provider,
        charges.ResourceId,
        charges.BillingCurrency,
        charges.day,
        max(charges.SubAccountId) as SubAccountId,
        max(charges.RegionId) as RegionId,
        max(charges.AvailabilityZone) as zone,
        max(charges.machine_type) as machine_type,
        max(charges.accelerator_model) as accelerator_model,
        sum(charges.EffectiveCost) as day_cost,
        sum(case when charges.purchase_option in ('committed', 'reserved_capacity') then charges.EffectiveCost else 0 end) as committed_cost,
        bool_or(coalesce(charges.usage_kind = 'accelerator.endpoint', false)) as ran,
        bool_or(coalesce(charges.standby, false)) as standby
    from charges
    where
        charges.ResourceId is not null
        and charges.day >= $window_start and charges.day < $window_end
    group by charges.provider, charges.ResourceId, charges.BillingCurrency, charges.day
),

subjects as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        min(case when ran then day end) as first_day,
        max(case when ran then day end) as last_day
    from billed
    group by provider, ResourceId, BillingCurrency
    having bool_or(ran)
),

invocation_days as (
    select
        provider,
        ResourceId,
        hour::date as day,
        sum(sum_value) as invocations
    from metric_hours
    where
        metric = 'endpoint.invocations'
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, hour::date
),

device_days as (
    select
        provider,
        ResourceId,
        hour::date as day,
        count(utilization_max) as sampled,
        max(utilization_max) as highest
    from accelerator_hours
    where hour >= $window_start and hour < $window_end
    group by provider, ResourceId, hour::date
),

-- calls where they are counted, else the work of the devices
use_days as (
    select
        provider,
        ResourceId,
        day,
        true as by_metric,
        invocations > 0 as active
    from invocation_days
    union all
    select
        device_days.provider,
        device_days.ResourceId,
        device_days.day,
        false as by_metric,
        device_days.highest >= $max_utilization as active
    from device_days
    left join invocation_days using (provider, ResourceId)
    where
        device_days.sampled > 0
        and invocation_days.ResourceId is null
),

sampled_days as (
    select distinct
        provider,
        ResourceId,
        day
    from use_days
),

signals as (
    select
        provider,
        ResourceId,
        bool_or(by_metric) as by_metric,
        max(case when active then day end) as last_active
    from use_days
    group by provider, ResourceId
),

spells as (
    select
        subjects.provider,
        subjects.ResourceId,
        subjects.BillingCurrency,
        signals.by_metric,
        signals.last_active,
        greatest(
            signals.last_active + 1,
            subjects.first_day + (subjects.first_day > $window_start)::integer,  -- its first day may be a part of one
            $window_start::date
        ) as first_day
    from subjects
    inner join signals using (provider, ResourceId)
    where subjects.last_day >= $window_end::date - 1  -- no longer billed is no longer there
),

idle as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        spells.first_day,
        spells.by_metric,
        spells.last_active,
        max(billed.SubAccountId) as SubAccountId,
        max(billed.RegionId) as RegionId,
        max(billed.zone) as zone,
        max(billed.machine_type) as machine_type,
        max(billed.accelerator_model) as accelerator_model,
        sum(billed.day_cost) as effective_cost,
        sum(billed.committed_cost) as committed_cost,
        bool_or(billed.standby) as standby,
        $window_end::date - spells.first_day as idle_days,
        count(case when sampled_days.day is not null then 1 end) as sampled_days
    from billed
    inner join spells using (provider, ResourceId, BillingCurrency)
    left join sampled_days using (provider, ResourceId, day)
    where billed.day >= spells.first_day
    group by billed.provider, billed.ResourceId, billed.BillingCurrency, spells.first_day, spells.by_metric, spells.last_active
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    committed_cost,
    effective_cost - committed_cost as avoidable_cost,
    effective_cost - committed_cost as avoidable_low,
    effective_cost - committed_cost as avoidable_high,
    case when by_metric then 'high' else 'medium' end as confidence,
    case
        when by_metric then format('no call for {} days', idle_days)
        else format('no device at work for {} days; calls are not counted', idle_days)
    end as reason,
    first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    zone,
    machine_type,
    accelerator_model,
    idle_days,
    sampled_days,
    last_active,
    standby
from idle
where
    idle_days >= $idle_days
    and effective_cost > 0
    and sampled_days >= idle_days * $min_coverage  -- silence of the metric is not idleness
order by avoidable_cost desc, ResourceId asc
