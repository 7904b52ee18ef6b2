/* rule
id     = "storage.gpu_starved_by_filesystem"
title  = "Accelerators wait for a shared file system at its limit"
status = "stable"
stage  = "fix_starvation"
clouds = ["aws", "gcp", "azure"]

why = """
A shared file system delivers what is provisioned, to all its machines together. Devices that work at a fraction of their
speed in the very hours in which it is at that limit are paid to wait, on every machine that mounts it."""

savings  = "EffectiveCost of the machine's starved hours x the share of speed missing in them; cash only where a job would end sooner, else 0 and the regained device-hours as evidence; more throughput of the file system costs a part of it, once for all its machines"
blind_to = "which phase reads: a first epoch that loads from a bucket is slow by nature; machines whose tie to the file system neither inventory nor a job label shows; minutes, where samples are coarser"

references = [
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-throughput-capacity.html",
    "https://cloud.google.com/filestore/docs/performance",
    "https://learn.microsoft.com/azure/azure-netapp-files/azure-netapp-files-performance-considerations",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "usage_kind", "hour", "machine_type",
    "accelerator_model", "accelerator_hours", "EffectiveCost", "committed_cost", "job", "workload_kind", "utilization_mean", "utilization_max", "input_wait",
    "standby",
]
charges      = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "purchase_option", "day", "job"]
metric_hours = ["provider", "ResourceId", "metric", "hour", "expected", "mean_value", "p95_value", "sum_value"]

[needs.optional]
file_systems = ["provider", "ResourceId", "ResourceName", "file_system_type", "provisioned_mibps", "related"]
instances    = ["provider", "ResourceId", "related"]

[parameters]
storage_limit        = { default = 0.95, unit = "ratio of provisioned throughput, p95 of the hour", about = "a file system is at its limit from here on" }
min_mean_pressure    = { default = 0.5, unit = "ratio of provisioned throughput, mean of the hour", about = "a short checkpoint reaches the limit and keeps nobody waiting" }
max_starved_utilization = { default = 0.60, unit = "ratio, mean of the devices", about = "busier devices do not wait" }
max_utilization      = { default = 0.05, unit = "ratio", about = "when no device ever exceeds it in the hour, there is no work that could wait" }
min_starved_hours    = { default = 24, unit = "hours", about = "fewer in the window are a first epoch or a copy" }
min_starved_share    = { default = 0.10, unit = "ratio of running hours", about = "less is not worth a change" }
usual_utilization    = { default = 0.90, unit = "ratio", about = "what the devices would reach where no hour without starvation shows it" }
min_input_wait       = { default = 0.10, unit = "ratio of CPU time", about = "from here on the machine itself says that it waits for input" }

[remedy.aws]
summary  = "Cache the data on the instances' NVMe, or raise the file system's throughput"
commands = [
    "aws fsx describe-file-systems --region {region_id} --file-system-ids {file_system_short_id}",
    "aws fsx update-file-system --region {region_id} --file-system-id {file_system_short_id} --lustre-configuration PerUnitStorageThroughput=250",
]
terraform = '''
# In the block that `terraform state list -id={file_system_short_id}` names; its other arguments stay as they are.
resource "aws_fsx_lustre_file_system" "starving" {
  per_unit_storage_throughput = 250
}
'''
risk     = "A change of throughput of a Lustre file system interrupts it for minutes and is billed at once; EFS has a command of its own."
effort   = "hours"

[remedy.aws.variants.efs]
when     = 'elasticfilesystem'
on       = "file_system_id"
commands = ["aws efs update-file-system --region {region_id} --file-system-id {file_system_short_id} --throughput-mode elastic"]
terraform = '''
# In the block that `terraform state list -id={file_system_short_id}` names; its other arguments stay as they are.
resource "aws_efs_file_system" "starving" {
  throughput_mode = "elastic"
}
'''
risk     = "Elastic throughput is billed by the byte."

[remedy.gcp]
summary  = "Cache the data on local SSD, or raise capacity or performance of the file system"
commands = ["gcloud filestore instances describe {file_system_short_id} --project {sub_account_id} --location {zone}"]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/locations/{zone}/instances/{file_system_short_id}` names; its other arguments stay as they are.
resource "google_filestore_instance" "starving" {
  file_shares {
    name        = var.share_name
    capacity_gb = var.larger_capacity_gb
  }
}
'''
risk     = "Zonal Filestore grows faster with its capacity, which is billed at once; Managed Lustre and Parallelstore have commands of their own."
effort   = "hours"

[remedy.azure]
summary  = "Cache the data on the local NVMe, or raise throughput or service level of the file system"
commands = ["az resource show --ids {file_system_id}"]
terraform = '''
# In the block of the capacity pool; the volume is the one that `terraform state list -id={file_system_id}` names; its other arguments stay as they are.
resource "azurerm_netapp_pool" "starving" {
  service_level = "Ultra" # of the pool that holds the volume
}
'''
risk     = "More throughput is billed at once; a service level of NetApp Files may be lowered again after some days only."
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

-- relations are stated on either side, under whatever name (mounted_by, file_systems, ...)
mounts as (
    select
        file_systems.provider,
        file_systems.ResourceId as file_system_id,
        lower(json_extract_string(leaf.atom, '$')) as machine_id
    from file_systems, json_tree(file_systems.related::json) as leaf
    where leaf.type = 'VARCHAR'
    union
    select
        file_systems.provider,
        file_systems.ResourceId as file_system_id,
        lower(instances.ResourceId) as machine_id
    from instances, json_tree(instances.related::json) as leaf
    inner join file_systems
        on
            instances.provider = file_systems.provider
            and lower(json_extract_string(leaf.atom, '$')) in (lower(file_systems.ResourceId), lower(regexp_extract(file_systems.ResourceId, '[^/:]+$')))
    where leaf.type = 'VARCHAR'
),

jobs_of as (
    select distinct
        provider,
        ResourceId,
        job
    from charges
    where job is not null and ResourceId is not null
),

links as (
    select
        machines.provider,
        machines.ResourceId,
        mounts.file_system_id
    from machines
    inner join mounts
        on
            machines.provider = mounts.provider
            and mounts.machine_id in (lower(machines.ResourceId), lower(regexp_extract(machines.ResourceId, '[^/:]+$')))
    union
    select
        machines.provider,
        machines.ResourceId,
        stores.ResourceId as file_system_id
    from machines
    inner join jobs_of using (provider, ResourceId)
    inner join jobs_of as stores
        on
            jobs_of.provider = stores.provider
            and jobs_of.job = stores.job
            and jobs_of.ResourceId <> stores.ResourceId
),

pressures as (
    select
        provider,
        ResourceId,
        hour,
        expected,
        mean_value,
        p95_value,
        1 as place
    from metric_hours
    where metric = 'fs.throughput_ratio'
    union all
    -- bytes an hour against what is provisioned, where no metric tells the ratio
    select
        metric_hours.provider,
        metric_hours.ResourceId,
        metric_hours.hour,
        min(metric_hours.expected) as expected,
        sum(metric_hours.sum_value) / (max(file_systems.provisioned_mibps) * 1048576 * 3600) as mean_value,
        sum(metric_hours.sum_value) / (max(file_systems.provisioned_mibps) * 1048576 * 3600) as p95_value,
        2 as place
    from metric_hours
    inner join file_systems using (provider, ResourceId)
    where metric_hours.metric in ('fs.read_bytes', 'fs.write_bytes') and file_systems.provisioned_mibps > 0
    group by metric_hours.provider, metric_hours.ResourceId, metric_hours.hour
),

series as (
    select
        links.provider,
        links.ResourceId,
        links.file_system_id,
        pressures.hour,
        pressures.expected,
        pressures.mean_value,
        pressures.p95_value
    from links
    inner join pressures
        on
            links.provider = pressures.provider
            and links.file_system_id = pressures.ResourceId
    qualify row_number() over (partition by links.provider, links.ResourceId, links.file_system_id, pressures.hour order by pressures.place) = 1
),

saturated as (
    select
        provider,
        ResourceId,
        hour,
        max(p95_value) as pressure,
        min(expected) as samples_an_hour,
        arg_max(file_system_id, (p95_value, file_system_id)) as file_system_id
    from series
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
        saturated.file_system_id,
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
        mode(case when is_starved then file_system_id end) as file_system_id,
        bool_or(standby) as standby
    from judged_hours
    group by provider, ResourceId, BillingCurrency
    having
        count(case when is_starved then 1 end) >= $min_starved_hours
        and count(case when is_starved then 1 end) >= count(*) * $min_starved_share
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
        1 - starved.starved_utilization / greatest(coalesce(starved.free_utilization, $usual_utilization::double), starved.starved_utilization) as missing_share
    from starved
    where starved.starved_utilization > 0
),

valued as (
    select
        measured.provider,
        measured.ResourceId,
        measured.BillingCurrency,
        measured.full_utilization,
        measured.missing_share,
        costs.effective_cost,
        costs.committed_cost,
        greatest(least(starved.starved_cost * measured.missing_share::decimal(9, 8), costs.effective_cost - costs.committed_cost), 0) as regained_cost
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
    -- samples above five minutes do not show that devices and file system were slow and full in the same minutes
    case when starved.samples_an_hour >= 12 and starved.input_wait >= $min_input_wait then 'high' else 'medium' end as confidence,
    -- rounded before they are written: the order in which hours were added up must not decide a last digit
    format(
        'in {} of {} running hours its devices work at {:.1f} % while file system {} is at {:.1f} % of its limit; {:.1f} % in the other hours',
        starved.starved_hours, starved.running_hours, round(100 * starved.starved_utilization, 6),
        coalesce(file_systems.ResourceName, regexp_extract(starved.file_system_id, '[^/:]+$')), round(100 * starved.storage_pressure, 6),
        round(100 * valued.full_utilization, 6)
    )
    || case when starved.input_wait is not null then format('; {:.1f} % of CPU time waits for input', round(100 * starved.input_wait, 6)) else '' end
    || case when starved.ends_by_itself then '' else '; runs on whatever it does, so what is regained is capacity, not cash' end as reason,
    starved.zone,
    starved.machine_type,
    starved.accelerator_model,
    starved.file_system_id,
    regexp_extract(starved.file_system_id, '[^/:]+$') as file_system_short_id,
    file_systems.file_system_type,
    file_systems.provisioned_mibps,
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
left join file_systems
    on
        starved.provider = file_systems.provider
        and starved.file_system_id = file_systems.ResourceId
order by avoidable_high desc, starved.ResourceId asc
