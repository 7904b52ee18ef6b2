/* rule
id     = "storage.overprovisioned_throughput"
title  = "Provisioned throughput or IOPS that nobody uses"
status = "stable"
stage  = "resize"
clouds = ["aws", "gcp", "azure"]

why = """
Throughput and IOPS above a disk's free baseline are billed by what is provisioned. Disks set up for one heavy load keep
their figures when the load has gone; both can be lowered while the disk is in use."""

savings  = "EffectiveCost of provisioned throughput and IOPS x (1 - peak use / head room); of file systems whose tier holds the throughput a range, at low confidence"
blind_to = "peaks shorter than a sample; loads that come back after the window; the free baseline, which makes the unused share larger than stated"

references = [
    "https://aws.amazon.com/ebs/pricing/",
    "https://cloud.google.com/compute/disks-image-pricing",
    "https://azure.microsoft.com/pricing/details/managed-disks/",
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-throughput-capacity.html",
]

[needs]
charges      = ["provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option", "day", "standby"]
metric_hours = ["provider", "ResourceId", "device", "metric", "hour", "max_value"]

[needs.optional]
volumes      = ["provider", "ResourceId", "AvailabilityZone", "instance_id", "volume_type", "provisioned_iops", "provisioned_mibps"]
file_systems = ["provider", "ResourceId", "AvailabilityZone", "file_system_type", "size_gib", "provisioned_mibps", "attributes"]

[parameters]
max_used_ratio = { default = 0.3, unit = "ratio of what is provisioned", about = "the peak (99 % of the hourly maxima) stays under it" }
head_room      = { default = 0.7, unit = "ratio", about = "the peak fills this much of what is provisioned afterwards" }
idle_days      = { default = 7, unit = "days", about = "a younger disk gets no verdict" }
min_coverage   = { default = 0.8, unit = "hours with samples / billed hours", about = "below it there is no verdict" }

[remedy.aws]
summary  = "Lower throughput and IOPS of the volume to the peak with head room; both can be raised again after six hours"
commands = ["aws ec2 describe-volumes --region {region_id} --volume-ids {resource_short_id}", "aws ec2 modify-volume --region {region_id} --volume-id {resource_short_id} --iops $IOPS --throughput $MIBPS"]
terraform = '''
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_ebs_volume" "{resource_label}" {
  iops       = var.iops  # the peak with head room
  throughput = var.mibps
}
'''
risk     = "A load that returns is throttled until the volume is raised again; FSx and EFS have commands of their own."
effort   = "minutes"

[remedy.aws.variants.efs]
when     = 'elasticfilesystem'
summary  = "Take elastic throughput, which is billed by what is used, instead of provisioned"
commands = ["aws efs update-file-system --region {region_id} --file-system-id {resource_short_id} --throughput-mode elastic"]
terraform = '''
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_efs_file_system" "{resource_label}" {
  throughput_mode = "elastic"
}
'''
risk     = "The mode can be changed once a day."

[remedy.aws.variants.fsx]
when     = ':fsx:'
summary  = "Take the next lower throughput tier of the file system"
commands = ["aws fsx update-file-system --region {region_id} --file-system-id {resource_short_id} --lustre-configuration PerUnitStorageThroughput=$MBPS_PER_TIB"]
terraform = '''
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_fsx_lustre_file_system" "{resource_label}" {
  per_unit_storage_throughput = var.mbps_per_tib
}
'''

[remedy.gcp]
summary  = "Lower throughput and IOPS of the disk to the peak with head room"
commands = ["gcloud compute disks update {resource_short_id} --project {sub_account_id} --zone {zone} --provisioned-iops $IOPS --provisioned-throughput $MIBPS"]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/disks/{resource_short_id}` names; its other arguments stay as they are.
resource "google_compute_disk" "{resource_label}" {
  provisioned_iops       = var.iops # the peak with head room
  provisioned_throughput = var.mibps
}
'''
risk     = "A load that returns is throttled; changes are possible every four hours. Filestore has commands of its own."
effort   = "minutes"

[remedy.gcp.variants.filestore]
when     = '//file\.'
summary  = "Lower the provisioned IOPS of the instance to the peak with head room"
commands = ["gcloud filestore instances describe {resource_short_id} --project {sub_account_id} --location {zone}"]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/locations/{zone}/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_filestore_instance" "{resource_label}" {
  performance_config {
    fixed_iops {
      max_iops = var.iops
    }
  }
}
'''

[remedy.azure]
summary  = "Lower throughput and IOPS of the disk to the peak with head room"
commands = ["az disk update --ids {resource_id} --disk-iops-read-write $IOPS --disk-mbps-read-write $MBPS"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_managed_disk" "{resource_label}" {
  disk_iops_read_write = var.iops # the peak with head room
  disk_mbps_read_write = var.mbps
}
'''
risk     = "A load that returns is throttled; four changes a day are possible. NetApp Files has commands of its own."
effort   = "minutes"

[remedy.azure.variants.netapp]
when     = 'netappaccounts'
summary  = "Take the next lower service level of the capacity pool"
commands = ["az netappfiles pool update --ids {resource_id} --service-level $LEVEL"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_netapp_pool" "{resource_label}" {
  service_level = var.service_level
}
'''
*/
with billed as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(AvailabilityZone) as billed_zone,
        count(distinct day) as billed_days,
        max(day) as last_day,
        sum(EffectiveCost) as effective_cost,
        sum(case when purchase_option = 'committed' then EffectiveCost else 0 end) as committed_cost,
        sum(case when usage_kind in ('storage.throughput', 'file_system.throughput') then EffectiveCost else 0 end) as throughput_cost,
        sum(case when usage_kind in ('storage.iops', 'file_system.iops') then EffectiveCost else 0 end) as iops_cost,
        sum(case when usage_kind = 'file_system.capacity' then EffectiveCost else 0 end) as tier_cost,
        bool_or(coalesce(standby, false)) as standby
    from charges
    where
        ResourceId is not null
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
    having bool_or(usage_kind in ('storage.throughput', 'storage.iops', 'file_system.throughput', 'file_system.iops', 'file_system.capacity'))
),

-- a series may be the disk's own, or its machine's with the disk as device
series as (
    select
        metric_hours.provider,
        metric_hours.ResourceId,
        metric_hours.metric,
        metric_hours.hour,
        metric_hours.max_value
    from metric_hours
    where
        metric_hours.metric in ('disk.throughput_ratio', 'disk.iops_ratio', 'fs.throughput_ratio')
        and metric_hours.hour >= $window_start and metric_hours.hour < $window_end
    union all
    select
        volumes.provider,
        volumes.ResourceId,
        metric_hours.metric,
        metric_hours.hour,
        metric_hours.max_value
    from metric_hours
    inner join volumes
        on
            metric_hours.provider = volumes.provider
            and metric_hours.ResourceId = volumes.instance_id
            and lower(metric_hours.device) in (lower(volumes.ResourceId), lower(regexp_extract(volumes.ResourceId, '[^/:]+$')))
    where
        metric_hours.metric in ('disk.throughput_ratio', 'disk.iops_ratio')
        and metric_hours.hour >= $window_start and metric_hours.hour < $window_end
),

peaks as (
    select
        provider,
        ResourceId,
        quantile_cont(case when metric <> 'disk.iops_ratio' then max_value end, 0.99) as throughput_peak,
        quantile_cont(case when metric = 'disk.iops_ratio' then max_value end, 0.99) as iops_peak,
        count(distinct hour) as sampled_hours
    from series
    group by provider, ResourceId
),

-- file systems whose capacity price holds the throughput, and how much of it the next lower tier has
tiers as (
    select
        provider,
        ResourceId,
        case
            when file_system_type = 'fsx_lustre' and provisioned_mibps * 1024 > size_gib * 130 then 125 * size_gib / 1024 / provisioned_mibps
            when lower(json_extract_string(attributes, '$.service_level')) = 'premium' then 0.25
            when lower(json_extract_string(attributes, '$.service_level')) = 'ultra' then 0.5
        end as lower_tier
    from file_systems
    where size_gib > 0
),

judged as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        billed.SubAccountId,
        billed.RegionId,
        billed.effective_cost,
        billed.committed_cost,
        billed.throughput_cost,
        billed.iops_cost,
        billed.standby,
        peaks.throughput_peak,
        peaks.iops_peak,
        peaks.sampled_hours,
        tiers.lower_tier,
        coalesce(billed.billed_zone, volumes.AvailabilityZone, file_systems.AvailabilityZone) as zone,
        coalesce(volumes.volume_type, file_systems.file_system_type) as kind,
        volumes.provisioned_iops,
        coalesce(volumes.provisioned_mibps, file_systems.provisioned_mibps) as provisioned_mibps,
        case when peaks.throughput_peak <= $max_used_ratio then billed.throughput_cost else 0 end
        * greatest(1 - coalesce(peaks.throughput_peak, 0) / $head_room::double, 0)::decimal(9, 8)
        + case when peaks.iops_peak <= $max_used_ratio then billed.iops_cost else 0 end
        * greatest(1 - coalesce(peaks.iops_peak, 0) / $head_room::double, 0)::decimal(9, 8) as unused_cost,
        case when peaks.throughput_peak <= $max_used_ratio then billed.throughput_cost else 0 end
        + case when peaks.iops_peak <= $max_used_ratio then billed.iops_cost else 0 end as calm_cost,
        -- an upper end: half of the throughput costs more than half, as the capacity stays
        case
            when
                peaks.throughput_peak > 0  -- storage.idle_filesystem speaks of those that nobody uses
                and peaks.throughput_peak <= least(tiers.lower_tier * $head_room::double, $max_used_ratio::double)
                and tiers.lower_tier is not null
                and billed.throughput_cost = 0
                then billed.tier_cost * (1 - tiers.lower_tier)::decimal(9, 8)
            else 0
        end as tier_share_cost
    from billed
    inner join peaks using (provider, ResourceId)
    left join volumes using (provider, ResourceId)
    left join file_systems using (provider, ResourceId)
    left join tiers using (provider, ResourceId)
    where
        billed.billed_days >= $idle_days
        and billed.last_day >= $window_end::date - 1  -- no longer billed is no longer there
        and peaks.sampled_hours >= billed.billed_days * 24 * $min_coverage
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    committed_cost,
    unused_cost + tier_share_cost * 0.5 as avoidable_cost,
    unused_cost as avoidable_low,
    calm_cost + tier_share_cost as avoidable_high,
    case when calm_cost > 0 then 'high' else 'low' end as confidence,
    case
        when calm_cost > 0
            then format(
                '99 % of the hours use at most {} that is provisioned',
                concat_ws(
                    ' and ',
                    case
                        when throughput_cost > 0 and throughput_peak <= $max_used_ratio
                            then format('{:.1f} % of the throughput', ceil(round(1000 * throughput_peak, 6)) / 10)
                    end,
                    case when iops_cost > 0 and iops_peak <= $max_used_ratio then format('{:.1f} % of the IOPS', ceil(round(1000 * iops_peak, 6)) / 10) end
                )
            )
        else format(
            '99 % of the hours use at most {:.1f} % of the throughput; the next lower tier has {:.1f} % of it, at a price that is not known here',
            ceil(round(1000 * throughput_peak, 6)) / 10, 100 * lower_tier
        )
    end as reason,
    zone,
    kind,
    provisioned_iops,
    provisioned_mibps,
    throughput_cost,
    iops_cost,
    round(throughput_peak, 4) as throughput_peak,
    round(iops_peak, 4) as iops_peak,
    sampled_hours,
    standby
from judged
where calm_cost > 0 or tier_share_cost > 0
order by avoidable_cost desc, ResourceId asc
