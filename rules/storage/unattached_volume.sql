/* rule
id     = "storage.unattached_volume"
title  = "Volume is attached to no machine"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
A block volume is billed for its size whether a machine holds it or not. Volumes that outlive their machine are rarely
read again; a snapshot keeps the data at a fraction of the price."""

savings  = "EffectiveCost of the volume over its current idle spell; a snapshot kept instead costs a part of it"
blind_to = "since when nothing holds the volume, where no metric shows its last byte"

references = [
    "https://aws.amazon.com/ebs/pricing/",
    "https://cloud.google.com/compute/disks-image-pricing",
    "https://learn.microsoft.com/azure/virtual-machines/windows/find-unattached-disks",
]

[needs]
charges = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option", "day", "standby"]
volumes = ["provider", "ResourceId", "AvailabilityZone", "state", "volume_type", "size_gib", "instance_id"]

[needs.optional]
metric_hours = ["provider", "ResourceId", "metric", "hour", "sum_value"]

[parameters]
idle_days = { default = 7, unit = "days", about = "whole days without use up to the window's end" }

[remedy.aws]
summary  = "Take a snapshot if the data may matter, then delete the volume"
commands = [
    "aws ec2 create-snapshot --region {region_id} --volume-id {resource_short_id}",
    "aws ec2 delete-volume --region {region_id} --volume-id {resource_short_id}",
]
terraform = '''
resource "aws_ebs_snapshot" "{resource_label}" {
  volume_id = {resource_short_id}
}

# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_ebs_volume.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Deleted data comes back only from a snapshot."
effort   = "minutes"

[remedy.gcp]
summary  = "Take a snapshot if the data may matter, then delete the disk"
commands = [
    "gcloud compute disks snapshot {resource_short_id} --project {sub_account_id} --zone {zone}",
    "gcloud compute disks delete {resource_short_id} --project {sub_account_id} --zone {zone}",
]
terraform = '''
resource "google_compute_snapshot" "{resource_label}" {
  project     = {sub_account_id}
  name        = "{resource_short_id}-kept"
  zone        = {zone}
  source_disk = {resource_short_id}
}

# Take the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/disks/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_compute_disk.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Deleted data comes back only from a snapshot."
effort   = "minutes"

[remedy.azure]
summary  = "Take a snapshot if the data may matter, then delete the disk"
commands = ["az disk show --ids {resource_id} --query diskState", "az disk delete --ids {resource_id}"]
terraform = '''
resource "azurerm_snapshot" "{resource_label}" {
  name                = "{resource_short_id}-kept"
  location            = {region_id}
  resource_group_name = var.resource_group_name
  create_option       = "Copy"
  source_uri          = {resource_id}
}

# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_managed_disk.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "Deleted data comes back only from a snapshot."
effort   = "minutes"
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
        bool_or(coalesce(usage_kind in ('storage.capacity', 'storage.throughput', 'storage.iops'), false)) as ran,
        bool_or(coalesce(standby, false)) as standby
    from charges
    where
        ResourceId is not null
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency, day
),

touched as (
    select
        provider,
        ResourceId,
        hour::date as day,
        sum(sum_value) as bytes
    from metric_hours
    where metric in ('disk.read_bytes', 'disk.write_bytes')
    group by provider, ResourceId, hour::date
),

loose as (
    select
        provider,
        ResourceId,
        max(volume_type) as volume_type,
        max(size_gib) as size_gib,
        max(AvailabilityZone) as zone
    from volumes
    where
        instance_id is null
        and coalesce(lower(state), '') not in ('in-use', 'in_use', 'attached', 'reserved', 'activesas', 'deleting', 'deleted', 'creating')
    group by provider, ResourceId
),

days as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        billed.day,
        billed.ran,
        coalesce(touched.bytes, 0) > 0 as busy
    from billed
    left join touched using (provider, ResourceId, day)
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
    format('attached to nothing; {} days without a byte that the bill or a metric shows', idle.idle_days) as reason,
    idle.first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    loose.zone,
    loose.volume_type,
    loose.size_gib,
    idle.idle_days,
    idle.standby
from idle
inner join loose using (provider, ResourceId)
where
    idle.idle_days >= $idle_days
    and idle.effective_cost > 0
order by avoidable_cost desc, idle.ResourceId asc
