/* rule
id     = "purchase.spot_churn"
title  = "Spot machines of one job are lost and started again and again"
status = "stable"
stage  = "buy"
clouds = ["aws", "gcp", "azure"]

why = """
Spot is cheap while a machine lives long enough to reach its next checkpoint. A job that loses machine after machine
starts again from its last saved step each time, and without checkpoints from the very first; those hours are bought twice."""

savings  = "cost of all runs but the longest x repeated_share; the range reaches from nothing, where every step was saved, to all of it"
blind_to = "whether the job writes checkpoints; jobs without a job label; schedulers that start a new machine for every short task of one job on purpose"

references = [
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-interruptions.html",
    "https://cloud.google.com/compute/docs/instances/spot#preemption-process",
    "https://learn.microsoft.com/azure/virtual-machines/spot-vms#eviction-policy",
]

[needs]
accelerator_hours = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "hour", "machine_type", "accelerator_hours", "purchase_option", "workload_kind", "job", "owner", "standby"]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "day"]

[parameters]
min_restarts   = { default = 5, unit = "restarts within the window", about = "a spot job may lose a machine now and then" }
max_gap_hours  = { default = 6, unit = "hours", about = "a machine that comes back within it was taken away; after a longer pause somebody started it" }
repeated_share = { default = 0.5, unit = "ratio of the cost of the interrupted runs", about = "taken to be done again where checkpoints are unknown" }

[remedy.aws]
summary  = "Write checkpoints to shared storage on the interruption notice and at intervals, ask for pools with capacity, or run this job on demand"
commands = ["aws ec2 get-spot-placement-scores --region {region_id} --instance-types {machine_type} --target-capacity 1 --region-names {region_id}"]
terraform = '''
# In the block of the group that starts the machines of {resource_id}.
resource "aws_autoscaling_group" "{resource_label}" {
  capacity_rebalance = true

  mixed_instances_policy {
    instances_distribution {
      spot_allocation_strategy = "price-capacity-optimized"
    }
  }
}
'''
risk     = "Checkpoints cost time and storage; other pools may cost more an hour."
effort   = "days"

[remedy.gcp]
summary  = "Write checkpoints to shared storage on the preemption notice and at intervals, try other zones, or run this job on standard machines"
commands = ["gcloud compute operations list --project {sub_account_id} --filter='operationType=compute.instances.preempted'"]
terraform = '''
# In the block of the group that starts the machines of {resource_id}.
resource "google_compute_region_instance_group_manager" "{resource_label}" {
  distribution_policy_target_shape = "ANY"
}
'''
risk     = "Checkpoints cost time and storage; other zones may cost more an hour."
effort   = "days"

[remedy.azure]
summary  = "Write checkpoints to shared storage on the eviction notice and at intervals, try sizes with a lower eviction rate, or run this job on demand"
commands = ["az vm list --subscription {sub_account_id} --query \"[?priority=='Spot'].[name, hardwareProfile.vmSize, evictionPolicy]\" --output table"]
terraform = '''
# In the block of the scale set that starts the machines of {resource_id}.
resource "azurerm_linux_virtual_machine_scale_set" "{resource_label}" {
  eviction_policy = "Deallocate"

  spot_restore {
    enabled = true
    timeout = "PT1H"
  }
}
'''
risk     = "Checkpoints cost time and storage; other sizes may cost more an hour."
effort   = "days"
*/
with machine_hours as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        job,
        ResourceId,
        hour,
        max(RegionId) as RegionId,
        max(machine_type) as machine_type,
        max(owner) as owner,
        sum(accelerator_hours) as accelerator_hours,
        bool_or(standby) as standby
    from accelerator_hours
    where
        purchase_option = 'spot'
        and job is not null
        and ResourceId is not null
        and coalesce(workload_kind, 'training') = 'training'  -- a service that scales has machines come and go
        and hour >= $window_start and hour < $window_end
    group by provider, SubAccountId, BillingCurrency, job, ResourceId, hour
),

followed as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        job,
        ResourceId,
        hour,
        date_diff('hour', lag(hour) over (partition by provider, SubAccountId, BillingCurrency, job, ResourceId order by hour), hour) as gap_hours
    from machine_hours
),

machines as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        job,
        ResourceId,
        count(*) as run_hours,
        sum(case when gap_hours > 1 and gap_hours <= $max_gap_hours then 1 else 0 end) as comebacks
    from followed
    group by provider, SubAccountId, BillingCurrency, job, ResourceId
),

hourly_widths as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        job,
        hour,
        count(distinct ResourceId) as width
    from machine_hours
    group by provider, SubAccountId, BillingCurrency, job, hour
),

-- machines that run side by side are the job's size, not its restarts
widths as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        job,
        max(width) as width
    from hourly_widths
    group by provider, SubAccountId, BillingCurrency, job
),

facts as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        job,
        max(RegionId) as RegionId,
        max(machine_type) as machine_type,
        case when count(distinct owner) = 1 then max(owner) end as owner,
        sum(accelerator_hours) as accelerator_hours,
        min(hour) as first_hour,
        max(hour) as last_hour,
        bool_or(standby) as standby
    from machine_hours
    group by provider, SubAccountId, BillingCurrency, job
),

resource_cost as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        sum(EffectiveCost) as effective_cost
    from charges
    where day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

jobs_run as (
    select
        machines.provider,
        machines.SubAccountId,
        machines.BillingCurrency,
        machines.job,
        list(machines.ResourceId order by machines.ResourceId) as members,
        count(*) as machine_count,
        sum(machines.comebacks) as comebacks,
        sum(machines.run_hours) as run_hours,
        max(machines.run_hours) as longest_run_hours,
        sum(resource_cost.effective_cost) as effective_cost
    from machines
    join resource_cost using (provider, ResourceId, BillingCurrency)
    group by machines.provider, machines.SubAccountId, machines.BillingCurrency, machines.job
),

churned as (
    select
        jobs_run.provider,
        jobs_run.SubAccountId,
        jobs_run.BillingCurrency,
        jobs_run.job,
        jobs_run.members,
        jobs_run.machine_count,
        jobs_run.effective_cost,
        facts.RegionId,
        facts.machine_type,
        facts.owner,
        facts.accelerator_hours,
        facts.first_hour,
        facts.last_hour,
        facts.standby,
        jobs_run.machine_count - widths.width + jobs_run.comebacks as restarts,
        greatest(1 - jobs_run.longest_run_hours * widths.width / jobs_run.run_hours, 0)::decimal(9, 8) as interrupted_share
    from jobs_run
    join widths
        on
            jobs_run.provider = widths.provider
            and jobs_run.SubAccountId is not distinct from widths.SubAccountId
            and jobs_run.BillingCurrency = widths.BillingCurrency
            and jobs_run.job = widths.job
    join facts
        on
            jobs_run.provider = facts.provider
            and jobs_run.SubAccountId is not distinct from facts.SubAccountId
            and jobs_run.BillingCurrency = facts.BillingCurrency
            and jobs_run.job = facts.job
)

select
    provider,
    job as ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    owner,
    effective_cost,
    0 as committed_cost,
    effective_cost * interrupted_share * $repeated_share as avoidable_cost,
    0 as avoidable_low,
    effective_cost * interrupted_share as avoidable_high,
    'low' as confidence,
    format(
        '{} spot machines ran this job from {} to {}, {} of them to replace one that was lost',
        machine_count,
        strftime(first_hour, '%Y-%m-%d'),
        strftime(last_hour, '%Y-%m-%d'),
        restarts::bigint
    ) as reason,
    restarts,
    machine_type,
    accelerator_hours,
    members,
    standby
from churned
where restarts >= $min_restarts
order by effective_cost desc, job asc
