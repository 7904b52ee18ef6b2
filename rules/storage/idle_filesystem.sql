/* rule
id     = "storage.idle_filesystem"
title  = "File system that nobody reads or writes"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
Managed file systems are billed by what is provisioned. A scratch file system that outlived its job costs as much as on
its busiest day."""

savings  = "EffectiveCost of the file system over its current idle spell"
blind_to = "data that nobody touches and somebody still needs: take a backup first"

references = [
    "https://aws.amazon.com/fsx/lustre/pricing/",
    "https://cloud.google.com/filestore/pricing",
    "https://azure.microsoft.com/pricing/details/netapp/",
]

[needs]
charges = ["provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option", "day", "standby"]
metric_hours = ["provider", "ResourceId", "metric", "hour", "samples", "sum_value"]

[parameters]
idle_days = { default = 7, unit = "days", about = "whole days without use up to the window's end" }
max_hourly_bytes = { default = 1_000_000, unit = "bytes per hour, mean of a day", about = "housekeeping of the service stays under it" }
min_coverage     = { default = 0.8, unit = "days with samples / days of the spell", about = "below it the spell gets no verdict" }

[remedy.aws]
summary  = "Take a backup, then delete the file system"
commands = [
    "aws fsx create-backup --region {region_id} --file-system-id {resource_short_id}",
    "aws fsx delete-file-system --region {region_id} --file-system-id {resource_short_id}",
]
terraform = '''
resource "aws_fsx_backup" "{resource_label}" {
  file_system_id = {resource_short_id}
}

# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_fsx_lustre_file_system.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "What was not exported or backed up is gone; EFS has commands of its own."
effort   = "hours"

[remedy.aws.variants.efs]
when     = 'elasticfilesystem'
summary  = "Take a backup with AWS Backup, delete the mount targets, then the file system"
commands = [
    "aws efs describe-file-systems --region {region_id} --file-system-id {resource_short_id}",
    "aws efs delete-file-system --region {region_id} --file-system-id {resource_short_id}",
]
terraform = '''
# Its aws_efs_mount_target blocks go first.
# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_efs_file_system.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "What was not backed up is gone."

[remedy.gcp]
summary  = "Take a backup, then delete the instance"
commands = ["gcloud filestore instances list --project {sub_account_id}", "gcloud filestore instances delete {resource_short_id} --project {sub_account_id} --location {zone}"]
terraform = '''
resource "google_filestore_backup" "{resource_label}" {
  project           = {sub_account_id}
  location          = {region_id}
  name              = "{resource_short_id}-kept"
  source_instance   = "projects/{sub_account_id}/locations/{zone}/instances/{resource_short_id}"
  source_file_share = var.share_name
}

# Take the block that `terraform state list -id=projects/{sub_account_id}/locations/{zone}/instances/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_filestore_instance.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "What was not backed up is gone."
effort   = "hours"

[remedy.gcp.variants.lustre]
when     = 'lustre\.googleapis'
commands = ["gcloud lustre instances delete {resource_short_id} --project {sub_account_id} --location {zone}"]
terraform = '''
# Take the block that `terraform state list -id=projects/{sub_account_id}/locations/{zone}/instances/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_lustre_instance.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''

[remedy.gcp.variants.parallelstore]
when     = 'parallelstore\.googleapis'
commands = ["gcloud parallelstore instances delete {resource_short_id} --project {sub_account_id} --location {zone}"]
terraform = '''
# Take the block that `terraform state list -id=projects/{sub_account_id}/locations/{zone}/instances/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_parallelstore_instance.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''

[remedy.azure]
summary  = "Take a backup, then delete the volumes and their capacity pool or share"
commands = ["az resource show --ids {resource_id}", "az resource delete --ids {resource_id}"]
terraform = '''
# Its azurerm_netapp_volume blocks go first.
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_netapp_pool.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "What was not backed up is gone."
effort   = "hours"

[remedy.azure.variants.netapp_volume]
when     = '/capacitypools/[^/]+/volumes/'
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_netapp_volume.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''

[remedy.azure.variants.lustre]
when     = 'amlfilesystems'
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_managed_lustre_file_system.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''

[remedy.azure.variants.share]
when     = 'storageaccounts'
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_storage_share.{resource_label}

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
        max(AvailabilityZone) as zone,
        bool_or(coalesce(usage_kind in ('file_system.capacity', 'file_system.throughput'), false)) as ran,
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
        sum(sum_value) as bytes,
        sum(samples) as samples
    from metric_hours
    where metric in ('fs.read_bytes', 'fs.write_bytes')
    group by provider, ResourceId, hour::date
),

days as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        billed.day,
        billed.ran,
        coalesce(seen.bytes, 0) >= $max_hourly_bytes * 24 as busy
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
        $window_end::date - spells.first_day as idle_days,
        max(billed.zone) as zone,
        count(case when seen.samples > 0 then 1 end) as sampled_days
    from billed
    inner join spells using (provider, ResourceId, BillingCurrency)
    left join seen using (provider, ResourceId, day)
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
    format('next to no byte read or written for {} days', idle.idle_days) as reason,
    idle.first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    idle.zone,
    idle.sampled_days,
    idle.idle_days,
    idle.standby
from idle
where
    idle.idle_days >= $idle_days
    and idle.effective_cost > 0
    and idle.sampled_days >= idle.idle_days * $min_coverage
order by avoidable_cost desc, idle.ResourceId asc
