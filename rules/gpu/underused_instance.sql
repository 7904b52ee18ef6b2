/* rule
id     = "gpu.underused_instance"
title  = "Accelerator machine works far below its size"
status = "stable"
stage  = "resize"
clouds = ["aws", "gcp", "azure"]
exclusive_group = "machine size"

why = """
A machine that works at times but never hard fits into a smaller one, or leaves room for a second tenant."""

savings  = "EffectiveCost x (1 - price of the next smaller size of the family / price of this one); without prices half the machine, at low confidence"
blind_to = "latency targets that need the head room; memory that the smaller size would not hold; work starved by its input, which looks the same"

references = [
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Agent-NVIDIA-GPU.html",
    "https://cloud.google.com/compute/docs/gpus/monitor-gpus",
    "https://learn.microsoft.com/azure/virtual-machines/sizes/overview",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "usage_kind", "hour", "device", "machine_type",
    "accelerator_model", "accelerator_hours", "job", "utilization_max", "coverage", "standby",
]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "purchase_option", "day"]

[needs.optional]
prices    = ["provider", "RegionId", "machine_type", "accelerator_model", "accelerator_count", "price_kind", "low", "unit"]
instances = ["provider", "ResourceId", "state"]

[parameters]
idle_days       = { default = 7, unit = "days", about = "days with samples; a younger machine gets no verdict" }
max_utilization = { default = 0.05, unit = "ratio", about = "a device is idle in an hour when its highest sample stays under it" }
min_idle_share  = { default = 0.95, unit = "ratio of running hours with samples", about = "idle means at least this share of the window" }
min_coverage    = { default = 0.8, unit = "samples seen / samples expected", about = "below it, for any device, no verdict" }
max_p95         = { default = 0.30, unit = "ratio", about = "the busiest device's hourly maxima stay under it in 95 % of the hours" }
share_without_price = { default = 0.5, unit = "ratio of EffectiveCost", about = "half the devices are taken to do where no smaller size is priced" }

[remedy.aws]
summary  = "Move the work to a smaller size of the family, or pack more of it onto the machine"
commands = [
    "aws ec2 stop-instances --region {region_id} --instance-ids {resource_short_id}",
    "aws ec2 modify-instance-attribute --region {region_id} --instance-id {resource_short_id} --instance-type Value={target_type}",
]
terraform = '''
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_instance" "{resource_label}" {
  instance_type = {target_type}
}
'''
risk     = "A stop loses instance store data; check memory, CPU and network of the smaller size first."
effort   = "hours"

[remedy.gcp]
summary  = "Move the work to a smaller size of the family, or pack more of it onto the machine"
commands = [
    "gcloud compute instances stop {resource_short_id} --project {sub_account_id} --zone {zone}",
    "gcloud compute instances set-machine-type {resource_short_id} --project {sub_account_id} --zone {zone} --machine-type {target_type}",
]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_compute_instance" "{resource_label}" {
  machine_type              = {target_type}
  allow_stopping_for_update = true
}
'''
risk     = "A stop loses local SSD data; check memory, CPU and network of the smaller size first."
effort   = "hours"

[remedy.azure]
summary  = "Move the work to a smaller size of the family, or pack more of it onto the machine"
commands = ["az vm list-vm-resize-options --ids {resource_id} --output table", "az vm resize --ids {resource_id} --size {target_type}"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  size = {target_type}
}
'''
risk     = "A resize restarts the machine; check memory, CPU and network of the smaller size first."
effort   = "hours"
*/
with devices as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        device,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(AvailabilityZone) as zone,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        max(job) as job,
        max(hour) as last_hour,
        count(distinct case when utilization_max is not null then hour::date end) as sampled_days,
        count(utilization_max) as sampled_hours,
        count(case when utilization_max >= $max_utilization then 1 end) as busy_hours,
        quantile_cont(utilization_max, 0.95) as p95,
        sum(least(coalesce(coverage, 0), 1) * accelerator_hours::double) / nullif(sum(accelerator_hours)::double, 0) as coverage,
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
    group by provider, ResourceId, BillingCurrency, device
),

machines as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(zone) as zone,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        max(job) as job,
        max(last_hour) as last_hour,
        count(*) as devices,
        count(case when busy_hours > sampled_hours * (1 - $min_idle_share) then 1 end) as used_devices,
        max(p95) as p95_busiest,
        min(coverage) as coverage,
        min(sampled_days) as sampled_days,
        bool_or(standby) as standby
    from devices
    group by provider, ResourceId, BillingCurrency
),

-- sizes of one family differ only in the digits of their name; a price by machine and a smaller one by machine give a ratio
sizes as (
    select
        provider,
        RegionId,
        machine_type,
        accelerator_model,
        regexp_replace(machine_type, '[0-9]+', '', 'g') as family,
        max(accelerator_count) as accelerator_count,
        unit,
        min(low)::double as price
    from prices
    where price_kind = 'on_demand' and machine_type is not null and low > 0 and accelerator_count > 0
    group by provider, RegionId, machine_type, accelerator_model, unit
),

smaller as (
    select
        machines.provider,
        machines.ResourceId,
        machines.BillingCurrency,
        arg_max(small.machine_type, (small.price, small.machine_type)) as smaller_type,
        max(small.price / current_size.price) as price_ratio
    from machines
    inner join sizes as current_size using (provider, RegionId, machine_type)
    inner join sizes as small
        on
            current_size.provider = small.provider
            and current_size.RegionId = small.RegionId
            and current_size.family = small.family
            and current_size.unit = small.unit
            and current_size.accelerator_model = small.accelerator_model
            and current_size.price > small.price
    where small.accelerator_count <= current_size.accelerator_count
    group by machines.provider, machines.ResourceId, machines.BillingCurrency
),

resource_cost as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        sum(EffectiveCost) as effective_cost,
        sum(case when purchase_option in ('committed', 'reserved_capacity') then EffectiveCost else 0 end) as committed_cost
    from charges
    where day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
)

select
    machines.provider,
    machines.ResourceId,
    machines.SubAccountId,
    machines.RegionId,
    machines.BillingCurrency,
    resource_cost.effective_cost,
    resource_cost.committed_cost,
    (resource_cost.effective_cost - resource_cost.committed_cost) * coalesce(1 - smaller.price_ratio, $share_without_price)::decimal(9, 8)
        as avoidable_cost,
    case
        when smaller.price_ratio is null then 0
        else (resource_cost.effective_cost - resource_cost.committed_cost) * (1 - smaller.price_ratio)::decimal(9, 8)
    end as avoidable_low,
    (resource_cost.effective_cost - resource_cost.committed_cost) * coalesce(1 - smaller.price_ratio, $share_without_price)::decimal(9, 8)
        as avoidable_high,
    case when smaller.price_ratio is null then 'low' else 'medium' end as confidence,
    format('95 % of the hours the busiest of {} devices stays under {:.1f} %', machines.devices, ceil(round(1000 * machines.p95_busiest, 6)) / 10)
    || case
        when smaller.smaller_type is null then '; no price of a smaller size is known, half the devices are taken to do'
        else '; the next smaller size is ' || smaller.smaller_type
    end as reason,
    machines.zone,
    machines.machine_type,
    machines.accelerator_model,
    machines.devices,
    round(machines.p95_busiest, 4) as p95_busiest,
    smaller.smaller_type,
    coalesce(smaller.smaller_type, 'SMALLER_TYPE') as target_type,  -- for a person to fill in where no price names one
    round(machines.coverage, 4) as coverage,
    machines.job,
    machines.standby
from machines
inner join resource_cost using (provider, ResourceId, BillingCurrency)
left join smaller using (provider, ResourceId, BillingCurrency)
left join instances using (provider, ResourceId)
where
    machines.used_devices > 0  -- a machine without any work is idle, which is another finding
    and machines.p95_busiest < $max_p95
    and (smaller.smaller_type is not null or machines.devices > 1)
    and machines.coverage >= $min_coverage
    and machines.sampled_days >= $idle_days
    and machines.last_hour >= $window_end - interval 24 hour
    and coalesce(instances.state, 'running') not in (
        'stopped', 'stopping', 'terminated', 'shutting-down', 'suspended', 'suspending', 'deallocated', 'deallocating', 'vm deallocated', 'deleted',
        'preempted'
    )
order by avoidable_cost desc, machines.ResourceId asc
