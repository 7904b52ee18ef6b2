/* rule
id     = "gpu.idle_notebook"
title  = "Accelerator notebook without activity"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
A notebook instance is billed while it is started, and closing the browser does not stop it."""

savings  = "EffectiveCost of the notebook over its current idle spell less the part that a commitment covers"
blind_to = "long jobs that a notebook runs outside its accelerators; activity on days that no metric covers"

references = [
    "https://docs.aws.amazon.com/sagemaker/latest/dg/nbi.html",
    "https://cloud.google.com/vertex-ai/docs/workbench/instances/idle-shutdown",
    "https://learn.microsoft.com/azure/machine-learning/how-to-manage-compute-instance",
]

[needs]
charges = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option",
    "machine_type", "accelerator_model", "day", "standby",
]

[needs.optional]
notebooks         = ["provider", "ResourceId", "state"]
metric_hours      = ["provider", "ResourceId", "metric", "hour", "max_value"]
accelerator_hours = ["provider", "ResourceId", "hour", "utilization_max"]

[parameters]
idle_days       = { default = 7, unit = "days", about = "whole days without use up to the window's end" }
max_utilization = { default = 0.05, unit = "ratio", about = "a day is idle when no device's sample reaches it" }
min_coverage    = { default = 0.8, unit = "days with samples / days of the spell", about = "below it the spell gets no verdict" }

[remedy.aws]
summary  = "Stop the notebook instance and give it an idle shutdown by a lifecycle configuration"
commands = ["aws sagemaker stop-notebook-instance --region {region_id} --notebook-instance-name {resource_short_id}"]
terraform = '''
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_sagemaker_notebook_instance" "{resource_label}" {
  lifecycle_config_name = aws_sagemaker_notebook_instance_lifecycle_configuration.stop_when_idle.name
}

resource "aws_sagemaker_notebook_instance_lifecycle_configuration" "stop_when_idle" {
  name     = "stop-when-idle"
  on_start = filebase64("stop-when-idle.sh")
}
'''
risk     = "Kernels lose what they hold in memory; the volume stays."
effort   = "minutes"

[remedy.gcp]
summary  = "Stop the Workbench instance and set its idle shutdown"
commands = ["gcloud compute instances stop {resource_short_id} --project {sub_account_id} --zone {zone}"]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/locations/{zone}/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_workbench_instance" "{resource_label}" {
  desired_state = "STOPPED"

  gce_setup {
    metadata = {
      idle-timeout-seconds = "3600"
    }
  }
}
'''
risk     = "Kernels lose what they hold in memory; the disks stay."
effort   = "minutes"

[remedy.azure]
summary  = "Stop the compute instance and set its idle shutdown"
commands = ["az ml compute stop --name {resource_short_id}"]
terraform = '''
resource "azapi_resource_action" "{resource_label}_stop" {
  type        = "Microsoft.MachineLearningServices/workspaces/computes@2024-04-01"
  resource_id = {resource_id}
  action      = "stop"
}
'''
risk     = "Kernels lose what they hold in memory; the disks stay."
effort   = "minutes"
*/
with kept as (
    select
        provider,
        ResourceId,
        max(state) as state
    from notebooks
    group by provider, ResourceId
),

billed as (
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
        bool_or(coalesce(charges.usage_kind = 'accelerator.notebook', false) or (kept.ResourceId is not null and coalesce(charges.usage_kind like 'accelerator.%', false))) as ran,
        bool_or(coalesce(charges.standby, false)) as standby
    from charges
    left join kept using (provider, ResourceId)
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

activity as (
    select
        provider,
        ResourceId,
        hour::date as day,
        max(max_value) as last_activity
    from metric_hours
    where
        metric = 'notebook.last_activity'
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

-- the service's own clock where it reports one, and the work of the devices
use_days as (
    select
        provider,
        ResourceId,
        day,
        true as by_metric,
        (timestamp '1970-01-01' + to_seconds(last_activity))::date as active_day
    from activity
    union all
    select
        provider,
        ResourceId,
        day,
        false as by_metric,
        case when highest >= $max_utilization then day end as active_day
    from device_days
    where sampled > 0
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
        max(active_day) as last_active
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
    left join kept using (provider, ResourceId)
    where
        subjects.last_day >= $window_end::date - 1  -- no longer billed is no longer there
        and coalesce(lower(kept.state), '') not in ('stopped', 'stopping', 'deleting', 'deleted', 'suspended')
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
    'no activity'
    || case when last_active is null then '' else ' since ' || strftime(last_active, '%Y-%m-%d') end
    || format(', {} whole days', idle_days) as reason,
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
