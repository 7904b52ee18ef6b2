/* rule
id     = "storage.gpu_starved_by_disk"
title  = "Accelerators wait for a disk at its limit"
status = "stable"
stage  = "fix_starvation"
clouds = ["aws", "gcp", "azure"]

why = """
Devices that work at a fraction of their speed in the very hours in which a disk of their machine delivers all it may are
paid to wait. Throughput costs cents where a device-hour costs dollars, and the machine's local NVMe is paid for already."""

savings  = "EffectiveCost of the starved hours x the share of speed missing in them - price of the missing throughput; cash only where a job would end sooner, else 0 and the regained device-hours as evidence"
blind_to = "which phase reads: a first epoch or a checkpoint is slow by nature; input pipelines bound by the CPU, which leave the disk calm; minutes, where samples are coarser"

references = [
    "https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html",
    "https://cloud.google.com/compute/docs/disks/performance",
    "https://learn.microsoft.com/azure/virtual-machines/disks-performance",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "usage_kind", "hour", "machine_type",
    "accelerator_model", "accelerator_hours", "EffectiveCost", "committed_cost", "job", "workload_kind", "utilization_mean", "utilization_max", "input_wait",
    "standby",
]
charges      = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "purchase_option", "day"]
metric_hours = ["provider", "ResourceId", "device", "metric", "hour", "expected", "mean_value", "p95_value"]

[needs.optional]
volumes = ["provider", "ResourceId", "ResourceName", "instance_id", "volume_type", "provisioned_mibps"]

[parameters]
storage_limit        = { default = 0.95, unit = "ratio of provisioned throughput or IOPS, p95 of the hour", about = "a disk is at its limit from here on" }
min_mean_pressure    = { default = 0.5, unit = "ratio of provisioned throughput or IOPS, mean of the hour", about = "a short checkpoint reaches the limit and keeps nobody waiting" }
max_starved_utilization = { default = 0.60, unit = "ratio, mean of the devices", about = "busier devices do not wait" }
max_utilization      = { default = 0.05, unit = "ratio", about = "when no device ever exceeds it in the hour, there is no work that could wait" }
min_starved_hours    = { default = 24, unit = "hours", about = "fewer in the window are a first epoch or a copy" }
min_starved_share    = { default = 0.10, unit = "ratio of running hours", about = "less is not worth a change" }
usual_utilization    = { default = 0.90, unit = "ratio", about = "what the devices would reach where no hour without starvation shows it" }
price_per_mibps      = { default = 0.05, unit = "BillingCurrency per MiB/s-month", about = "price of more provisioned throughput; gp3 has 0.04" }
min_input_wait       = { default = 0.10, unit = "ratio of CPU time", about = "from here on the machine itself says that it waits for input" }

[remedy.aws]
summary  = "Copy the data to the instance's NVMe before the run, or raise the volume's throughput; check the instance's own EBS limit first"
commands = [
    "aws ec2 modify-volume --region {region_id} --volume-id {volume_short_id} --throughput 1000 --iops 16000",
    "aws ec2 describe-instance-types --region {region_id} --instance-types {machine_type} --query 'InstanceTypes[].EbsInfo.EbsOptimizedInfo'",
]
terraform = '''
# In the block that `terraform state list -id={volume_short_id}` names; its other arguments stay as they are.
resource "aws_ebs_volume" "starving" {
  throughput = 1000
  iops       = 16000
}
'''
risk     = "Six hours pass between two modifications of a volume; data on instance NVMe is lost on stop."
effort   = "hours"

[remedy.gcp]
summary  = "Copy the data to local SSD before the run, or move to Hyperdisk and raise its throughput"
commands = ["gcloud compute disks update {volume_handle} --project {sub_account_id} --zone {zone} --provisioned-throughput 1000"]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/disks/{volume_handle}` names; its other arguments stay as they are.
resource "google_compute_disk" "starving" {
  provisioned_throughput = 1000 # Hyperdisk only
}
'''
risk     = "Only Hyperdisk takes the command, a persistent disk grows faster with its size; data on local SSD is lost on stop."
effort   = "hours"

[remedy.azure]
summary  = "Copy the data to the local NVMe before the run, or raise the disk's throughput below the cap of the VM size (612 MB/s on ND H100 v5)"
commands = ["az disk update --ids {volume_id} --disk-mbps-read-write 600", "az vm list-skus --location {region_id} --size {machine_type} --output json"]
terraform = '''
# In the block that `terraform state list -id={volume_id}` names; its other arguments stay as they are.
resource "azurerm_managed_disk" "starving" {
  disk_mbps_read_write = 600 # Premium SSD v2 and Ultra only
}
'''
risk     = "Only Premium SSD v2 and Ultra take the command; data on local NVMe is lost on deallocation."
effort   = "hours"
*/
with machine_hours as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        hour,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(AvailabilityZone) as zone,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        max(job) as job,
        max(workload_kind) as workload_kind,
        bool_or(usage_kind in ('accelerator.training_job', 'accelerator.batch')) as is_managed_job,
        sum(accelerator_hours) as device_hours,
        sum(EffectiveCost) as accelerator_cost,
        sum(coalesce(committed_cost, 0)) as committed_cost,
        avg(utilization_mean) as utilization,
        max(utilization_max) as highest,
        max(input_wait) as input_wait,
        bool_or(coalesce(standby, false)) as standby
    from accelerator_hours
    where
        ResourceId is not null
        and usage_kind is distinct from 'accelerator.reserved_unused'
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, BillingCurrency, hour
),

machines as (
    select distinct
        provider,
        ResourceId
    from machine_hours
),

-- a machine's own series name the disk as their device; a disk's own series are joined by its attachment
disk_series as (
    select
        metric_hours.provider,
        machines.ResourceId,
        metric_hours.device as disk,
        metric_hours.hour,
        metric_hours.expected,
        metric_hours.mean_value,
        metric_hours.p95_value
    from metric_hours
    inner join machines using (provider, ResourceId)
    where metric_hours.metric in ('disk.throughput_ratio', 'disk.iops_ratio')
    union all
    select
        metric_hours.provider,
        machines.ResourceId,
        metric_hours.ResourceId as disk,
        metric_hours.hour,
        metric_hours.expected,
        metric_hours.mean_value,
        metric_hours.p95_value
    from metric_hours
    inner join volumes using (provider, ResourceId)
    inner join machines
        on
            volumes.provider = machines.provider
            and volumes.instance_id = machines.ResourceId
    where metric_hours.metric in ('disk.throughput_ratio', 'disk.iops_ratio')
),

saturated as (
    select
        provider,
        ResourceId,
        hour,
        max(p95_value) as pressure,
        min(expected) as samples_an_hour,
        arg_max(disk, (p95_value, disk)) as disk
    from disk_series
    where p95_value >= $storage_limit and mean_value >= $min_mean_pressure
    group by provider, ResourceId, hour
),

judged_hours as (
    select
        machine_hours.provider,
        machine_hours.ResourceId,
        machine_hours.BillingCurrency,
        machine_hours.hour,
        machine_hours.SubAccountId,
        machine_hours.RegionId,
        machine_hours.zone,
        machine_hours.machine_type,
        machine_hours.accelerator_model,
        machine_hours.job,
        machine_hours.workload_kind,
        machine_hours.is_managed_job,
        machine_hours.device_hours,
        machine_hours.accelerator_cost,
        machine_hours.committed_cost,
        machine_hours.utilization,
        machine_hours.input_wait,
        machine_hours.standby,
        saturated.pressure,
        saturated.samples_an_hour,
        saturated.disk,
        coalesce(
            saturated.pressure is not null and machine_hours.utilization < $max_starved_utilization and machine_hours.highest >= $max_utilization, false
        ) as is_starved
    from machine_hours
    left join saturated using (provider, ResourceId, hour)
),

starved as (
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
        max(workload_kind) as workload_kind,
        bool_or(coalesce(is_managed_job, false)) or max(job) is not null or max(hour) < $window_end - interval 24 hour as ends_by_itself,
        count(*) as running_hours,
        count(case when is_starved then 1 end) as starved_hours,
        avg(case when is_starved then utilization end) as starved_utilization,
        -- hours without any work say nothing about the speed of work
        avg(case when not is_starved and pressure is null and utilization >= $max_utilization then utilization end) as free_utilization,
        sum(case when is_starved then accelerator_cost - committed_cost else 0 end) as starved_cost,
        sum(case when is_starved then device_hours else 0 end) as starved_device_hours,
        avg(case when is_starved then pressure end) as storage_pressure,
        avg(case when is_starved then input_wait end) as input_wait,
        min(case when is_starved then samples_an_hour end) as samples_an_hour,
        mode(case when is_starved then disk end) as disk,
        bool_or(standby) as standby
    from judged_hours
    group by provider, ResourceId, BillingCurrency
    having
        count(case when is_starved then 1 end) >= $min_starved_hours
        and count(case when is_starved then 1 end) >= count(*) * $min_starved_share
),

-- the disk by its own id where the inventory has it: a device may be named by its last part only
disks as (
    select
        starved.provider,
        starved.ResourceId,
        starved.BillingCurrency,
        arg_max(volumes.ResourceId, (coalesce(volumes.provisioned_mibps, 0), volumes.ResourceId)) as volume_id,
        arg_max(coalesce(volumes.ResourceName, ''), (coalesce(volumes.provisioned_mibps, 0), volumes.ResourceId)) as volume_name,
        arg_max(volumes.volume_type, (coalesce(volumes.provisioned_mibps, 0), volumes.ResourceId)) as volume_type,
        max(volumes.provisioned_mibps) as provisioned_mibps
    from starved
    inner join volumes
        on
            starved.provider = volumes.provider
            and starved.ResourceId = volumes.instance_id
    where lower(starved.disk) in (lower(volumes.ResourceId), lower(regexp_extract(volumes.ResourceId, '[^/:]+$')))
    group by starved.provider, starved.ResourceId, starved.BillingCurrency
),

costs as (
    select
        charges.provider,
        charges.ResourceId,
        charges.BillingCurrency,
        sum(charges.EffectiveCost) as effective_cost,
        sum(case when charges.purchase_option in ('committed', 'reserved_capacity') then charges.EffectiveCost else 0 end) as committed_cost
    from charges
    inner join starved using (provider, ResourceId, BillingCurrency)
    where charges.day >= $window_start and charges.day < $window_end
    group by charges.provider, charges.ResourceId, charges.BillingCurrency
),

measured as (
    select
        starved.provider,
        starved.ResourceId,
        starved.BillingCurrency,
        greatest(coalesce(starved.free_utilization, $usual_utilization::double), starved.starved_utilization) as full_utilization,
        1 - starved.starved_utilization / greatest(coalesce(starved.free_utilization, $usual_utilization::double), starved.starved_utilization) as missing_share,
        (
            coalesce(disks.provisioned_mibps, 0)
            * (greatest(coalesce(starved.free_utilization, $usual_utilization::double), starved.starved_utilization) / starved.starved_utilization - 1)
            * $window_hours::double / 730
        )::decimal(18, 3) as missing_mibps_months,
        disks.volume_id,
        disks.volume_name,
        disks.volume_type,
        disks.provisioned_mibps
    from starved
    left join disks using (provider, ResourceId, BillingCurrency)
    where starved.starved_utilization > 0
),

valued as (
    select
        measured.provider,
        measured.ResourceId,
        measured.BillingCurrency,
        measured.full_utilization,
        measured.missing_share,
        measured.volume_id,
        measured.volume_name,
        measured.volume_type,
        measured.provisioned_mibps,
        costs.effective_cost,
        costs.committed_cost,
        greatest(
            least(starved.starved_cost * measured.missing_share::decimal(9, 8), costs.effective_cost - costs.committed_cost)
            - measured.missing_mibps_months * $price_per_mibps,
            0
        ) as regained_cost
    from measured
    inner join starved using (provider, ResourceId, BillingCurrency)
    inner join costs using (provider, ResourceId, BillingCurrency)
)

select
    starved.provider,
    starved.ResourceId,
    starved.SubAccountId,
    starved.RegionId,
    starved.BillingCurrency,
    valued.effective_cost,
    valued.committed_cost,
    case when starved.ends_by_itself then valued.regained_cost else 0 end as avoidable_cost,
    0 as avoidable_low,
    valued.regained_cost as avoidable_high,
    -- samples above five minutes do not show that devices and disk waited in the same minutes
    case when starved.samples_an_hour >= 12 and starved.input_wait >= $min_input_wait then 'high' else 'medium' end as confidence,
    -- rounded before they are written: the order in which hours were added up must not decide a last digit
    format(
        'in {} of {} running hours its devices work at {:.1f} % while disk {} is at {:.1f} % of its limit; {:.1f} % in the other hours',
        starved.starved_hours, starved.running_hours, round(100 * starved.starved_utilization, 6),
        coalesce(regexp_extract(coalesce(valued.volume_id, nullif(starved.disk, '')), '[^/:]+$'), '(unnamed)'), round(100 * starved.storage_pressure, 6),
        round(100 * valued.full_utilization, 6)
    )
    || case when starved.input_wait is not null then format('; {:.1f} % of CPU time waits for input', round(100 * starved.input_wait, 6)) else '' end
    || case when starved.ends_by_itself then '' else '; runs on whatever it does, so what is regained is capacity, not cash' end as reason,
    starved.zone,
    starved.machine_type,
    starved.accelerator_model,
    coalesce(valued.volume_id, nullif(starved.disk, '')) as volume_id,
    regexp_extract(coalesce(valued.volume_id, nullif(starved.disk, '')), '[^/:]+$') as volume_short_id,
    -- gcloud wants a name where Google's inventory has a number
    coalesce(nullif(valued.volume_name, ''), regexp_extract(coalesce(valued.volume_id, nullif(starved.disk, '')), '[^/:]+$')) as volume_handle,
    nullif(valued.volume_name, '') as volume_name,
    valued.volume_type,
    valued.provisioned_mibps,
    starved.running_hours,
    starved.starved_hours,
    round(starved.starved_utilization, 4) as starved_utilization,
    round(valued.full_utilization, 4) as unstarved_utilization,
    round(starved.storage_pressure, 4) as storage_pressure,
    round(starved.input_wait, 4) as input_wait,
    starved.starved_cost,
    valued.regained_cost,
    round(starved.starved_device_hours::double * valued.missing_share, 1) as regained_device_hours,
    starved.job,
    starved.workload_kind,
    starved.standby
from starved
inner join valued using (provider, ResourceId, BillingCurrency)
order by avoidable_high desc, starved.ResourceId asc
