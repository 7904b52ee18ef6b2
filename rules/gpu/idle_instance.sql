/* rule
id     = "gpu.idle_instance"
title  = "Accelerator machine runs without work"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
An accelerator machine is billed while it runs, whether its devices work or not. A week in which no device works means
that a job ended, failed or was forgotten, and nobody stopped the machine."""

savings  = "EffectiveCost of the machine over its current idle spell less the part that a commitment covers, which is freed for other use"
blind_to = "work that leaves the device counters low: CPU-only phases, machines kept warm on purpose without a standby tag"

references = [
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Agent-NVIDIA-GPU.html",
    "https://cloud.google.com/compute/docs/gpus/monitor-gpus",
    "https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "usage_kind", "hour", "device", "machine_type",
    "accelerator_model", "accelerator_hours", "job", "workload_kind", "utilization_max", "coverage", "memory_used_ratio", "standby",
]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "purchase_option", "day"]

[needs.optional]
instances = ["provider", "ResourceId", "state"]

[parameters]
idle_days       = { default = 7, unit = "days", about = "whole days the current idle spell has lasted, and days the machine ran in it" }
max_utilization = { default = 0.05, unit = "ratio", about = "an hour is idle when the highest sample of every device stays under it" }
min_idle_share  = { default = 0.95, unit = "ratio of running hours with samples", about = "idle means at least this share of the spell" }
max_busy_day    = { default = 0.25, unit = "ratio of a day's running hours with samples", about = "a day with more busy hours is a day of work and ends the spell" }
max_memory_idle = { default = 0.05, unit = "ratio of device memory", about = "above it a process holds the device, and confidence is medium" }
min_coverage    = { default = 0.8, unit = "samples seen / samples expected", about = "below it a machine gets no verdict" }

[remedy.aws]
summary  = "Ask the owner, then stop the instance or terminate it; schedule it if it works at set times"
commands = ["aws ec2 stop-instances --region {region_id} --instance-ids {resource_short_id}"]
terraform = '''
resource "aws_ec2_instance_state" "{resource_label}" {
  instance_id = {resource_short_id}
  state       = "stopped"
}
'''
risk     = "Instance store data is lost on stop, and the capacity may not be there when it is started again."
effort   = "minutes"

[remedy.gcp]
summary  = "Ask the owner, then stop or delete the machine; schedule it if it works at set times"
commands = ["gcloud compute instances stop {resource_short_id} --project {sub_account_id} --zone {zone}"]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_compute_instance" "{resource_label}" {
  desired_status = "TERMINATED" # stopped, in the words of the API
}
'''
risk     = "Local SSD data is lost on stop, and the capacity may not be there when it is started again."
effort   = "minutes"

[remedy.gcp.variants.tpu]
when     = '//tpu\.|/nodes/'
summary  = "Ask the owner, then stop or delete the TPU; a slice of several hosts can only be deleted"
commands = ["gcloud compute tpus tpu-vm stop {resource_short_id} --project {sub_account_id} --zone {zone}"]
terraform = '''
# Take the block that `terraform state list -id=projects/{sub_account_id}/locations/{zone}/nodes/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_tpu_v2_vm.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''

[remedy.azure]
summary  = "Ask the owner, then deallocate or delete the machine; stopping it inside the guest goes on being billed"
commands = ["az vm deallocate --ids {resource_id}"]
terraform = '''
resource "azapi_resource_action" "{resource_label}_deallocate" {
  type        = "Microsoft.Compute/virtualMachines@2024-07-01"
  resource_id = {resource_id}
  action      = "deallocate"
}
'''
risk     = "Data on the temporary disk is lost, and the capacity may not be there when it is started again."
effort   = "minutes"
*/
with hours as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        hour,
        hour::date as day,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(AvailabilityZone) as zone,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        max(job) as job,
        max(workload_kind) as workload_kind,
        count(distinct device) as devices,
        sum(accelerator_hours)::double as device_hours,
        sum(least(coalesce(coverage, 0), 1) * accelerator_hours::double) as covered_hours,
        max(utilization_max) as highest,
        max(memory_used_ratio) as memory_used_ratio,
        bool_or(coalesce(standby, false)) as standby
    from accelerator_hours
    where
        ResourceId is not null
        -- notebooks and endpoints have rules of their own; a job ends by itself
        and usage_kind is distinct from 'accelerator.reserved_unused'
        and usage_kind is distinct from 'accelerator.notebook'
        and usage_kind is distinct from 'accelerator.endpoint'
        and usage_kind is distinct from 'accelerator.training_job'
        and usage_kind is distinct from 'accelerator.batch'
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, BillingCurrency, hour
),

days as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        day,
        min(hour) as first_hour,
        sum(device_hours) as device_hours,
        sum(covered_hours) as covered_hours,
        count(highest) as sampled_hours,
        count(case when highest >= $max_utilization then 1 end) as busy_hours
    from hours
    group by provider, ResourceId, BillingCurrency, day
),

machines as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        min(hour) as first_hour,
        max(hour) as last_hour
    from hours
    group by provider, ResourceId, BillingCurrency
),

last_work as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(case when busy_hours > sampled_hours * $max_busy_day then day end) as day
    from days
    group by provider, ResourceId, BillingCurrency
),

-- everything from this day to the window's end
tails as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        day,
        first_hour,
        sampled_hours,
        busy_hours,
        count(*) over tail as tail_days,
        sum(sampled_hours) over tail as tail_sampled,
        sum(busy_hours) over tail as tail_busy,
        sum(covered_hours) over tail as tail_covered,
        sum(device_hours) over tail as tail_device_hours
    from days
    window tail as (partition by provider, ResourceId, BillingCurrency order by day desc)
),

spells as (
    select
        tails.provider,
        tails.ResourceId,
        tails.BillingCurrency,
        min(tails.day) as first_day
    from tails
    inner join machines using (provider, ResourceId, BillingCurrency)
    inner join last_work using (provider, ResourceId, BillingCurrency)
    where
        tails.day > coalesce(last_work.day, $window_start::date - 1)
        -- the machine's own first day is a part of a day
        and (tails.first_hour > machines.first_hour or tails.first_hour = tails.day)
        and tails.sampled_hours > 0
        and tails.busy_hours <= tails.sampled_hours * (1 - $min_idle_share)
        and tails.tail_busy <= tails.tail_sampled * (1 - $min_idle_share)
        and tails.tail_covered >= tails.tail_device_hours * $min_coverage
        and tails.tail_days >= $idle_days
        and machines.last_hour >= $window_end - interval 24 hour
    group by tails.provider, tails.ResourceId, tails.BillingCurrency
),

idle as (
    select
        hours.provider,
        hours.ResourceId,
        hours.BillingCurrency,
        spells.first_day,
        max(hours.SubAccountId) as SubAccountId,
        max(hours.RegionId) as RegionId,
        max(hours.zone) as zone,
        max(hours.machine_type) as machine_type,
        max(hours.accelerator_model) as accelerator_model,
        max(hours.job) as job,
        max(hours.workload_kind) as workload_kind,
        max(hours.devices) as devices,
        count(*) as running_hours,
        count(hours.highest) as sampled_hours,
        count(case when hours.highest < $max_utilization then 1 end) as idle_hours,
        max(hours.highest) as highest_utilization,
        avg(hours.memory_used_ratio) as memory_used_ratio,
        sum(hours.covered_hours) / sum(hours.device_hours) as coverage,
        bool_or(hours.standby) as standby
    from hours
    inner join spells using (provider, ResourceId, BillingCurrency)
    where hours.day >= spells.first_day
    group by hours.provider, hours.ResourceId, hours.BillingCurrency, spells.first_day
),

costs as (
    select
        charges.provider,
        charges.ResourceId,
        charges.BillingCurrency,
        sum(charges.EffectiveCost) as effective_cost,
        -- a block or reservation that the machine runs in goes on being billed without it, as a commitment does
        sum(case when charges.purchase_option in ('committed', 'reserved_capacity') then charges.EffectiveCost else 0 end) as committed_cost
    from charges
    inner join spells using (provider, ResourceId, BillingCurrency)
    where charges.day >= spells.first_day and charges.day < $window_end
    group by charges.provider, charges.ResourceId, charges.BillingCurrency
)

select
    idle.provider,
    idle.ResourceId,
    idle.SubAccountId,
    idle.RegionId,
    idle.BillingCurrency,
    costs.effective_cost,
    costs.committed_cost,
    costs.effective_cost - costs.committed_cost as avoidable_cost,
    costs.effective_cost - costs.committed_cost as avoidable_low,
    costs.effective_cost - costs.committed_cost as avoidable_high,
    case when idle.memory_used_ratio < $max_memory_idle then 'high' else 'medium' end as confidence,
    format(
        'idle since {}: no device above {:.1f} % in {} of {} sampled hours; memory ',
        strftime(idle.first_day, '%Y-%m-%d'), 100 * $max_utilization::double, idle.idle_hours, idle.sampled_hours
    )
    || case
        when idle.memory_used_ratio is null then 'unknown'
        when idle.memory_used_ratio < $max_memory_idle then 'empty'
        else 'held by a process'
    end as reason,
    idle.first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    idle.zone,
    idle.machine_type,
    idle.accelerator_model,
    idle.devices,
    idle.running_hours,
    idle.sampled_hours,
    idle.idle_hours,
    round(idle.highest_utilization, 4) as highest_utilization,
    round(idle.memory_used_ratio, 4) as memory_used_ratio,
    round(idle.coverage, 4) as coverage,
    idle.job,
    idle.workload_kind,
    idle.standby
from idle
inner join costs using (provider, ResourceId, BillingCurrency)
left join instances using (provider, ResourceId)
where
    coalesce(instances.state, 'running') not in (
        'stopped', 'stopping', 'terminated', 'shutting-down', 'suspended', 'suspending', 'deallocated', 'deallocating', 'vm deallocated', 'deleted',
        'preempted'
    )
order by avoidable_cost desc, idle.ResourceId asc
