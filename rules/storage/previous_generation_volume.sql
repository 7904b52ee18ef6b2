/* rule
id     = "storage.previous_generation_volume"
title  = "Volume of a kind that has a cheaper successor"
status = "stable"
stage  = "resize"
clouds = ["aws", "gcp", "azure"]

why = """
gp3 costs a fifth less a gigabyte than gp2, and IOPS on it a fraction of what io1 takes, with the change made while the
volume is in use. Hyperdisk Balanced and Premium SSD v2 sell capacity and performance apart, which most disks pay less for."""

savings  = "gp2, io1: own bill - price of gp3 with the same IOPS and throughput, as ratios of the own rates; pd-ssd, Premium SSD: a share with a range, as the performance in use decides"
blind_to = "latency of single reads, which io1 keeps steadier; machine types that take no Hyperdisk; disks that Premium SSD v2 cannot replace (system disks, no zone)"

references = [
    "https://aws.amazon.com/ebs/pricing/",
    "https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html",
    "https://cloud.google.com/compute/disks-image-pricing",
    "https://learn.microsoft.com/azure/virtual-machines/disks-types",
]

[needs]
charges = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option", "day", "x_UsageType",
    "x_SkuDescription", "x_SkuMeterSubcategory", "x_SkuMeterName", "standby",
]

[needs.optional]
volumes = ["provider", "ResourceId", "AvailabilityZone", "volume_type", "size_gib", "provisioned_iops"]

[parameters]
gp3_capacity_of_gp2 = { default = 0.8, unit = "price of a GB / price of a GB of gp2", about = "0.08 / 0.10 USD, the same ratio in every region" }
gp3_iops_of_gp2     = { default = 0.05, unit = "price of an IOPS / price of a GB of gp2", about = "0.005 / 0.10 USD, above 3,000" }
gp3_mibps_of_gp2    = { default = 0.4, unit = "price of a MiB/s / price of a GB of gp2", about = "0.04 / 0.10 USD, above 125" }
gp3_capacity_of_io1 = { default = 0.64, unit = "price of a GB / price of a GB of io1", about = "0.08 / 0.125 USD" }
gp3_iops_of_io1     = { default = 0.077, unit = "price of an IOPS / price of an IOPS of io1", about = "0.005 / 0.065 USD, above 3,000" }
gp3_mibps_of_io1    = { default = 0.32, unit = "price of a MiB/s / price of a GB of io1", about = "0.04 / 0.125 USD, above 125" }
max_gp3_iops        = { default = 16000, unit = "IOPS", about = "volumes above it are left alone" }
other_share         = { default = 0.25, unit = "ratio of EffectiveCost", about = "taken for pd-ssd and Premium SSD" }
other_share_high    = { default = 0.5, unit = "ratio of EffectiveCost", about = "upper end for pd-ssd and Premium SSD: capacity with the free performance only" }
min_monthly_saving  = { default = 1, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a command" }

[remedy.aws]
summary  = "Change the volume's type to gp3 while it is in use, with the IOPS and throughput it has now"
commands = ["aws ec2 modify-volume --region {region_id} --volume-id {resource_short_id} --volume-type gp3 --iops {gp3_iops} --throughput {gp3_mibps}"]
terraform = '''
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_ebs_volume" "{resource_label}" {
  type       = "gp3"
  iops       = {gp3_iops}
  throughput = {gp3_mibps}
}
'''
risk     = "Performance may waver while the change runs, and six hours pass before the next one."
effort   = "minutes"

[remedy.gcp]
summary  = "Make a snapshot, create a Hyperdisk Balanced disk from it and swap the disks, if the machine type takes Hyperdisk"
commands = ["gcloud compute disks snapshot {resource_short_id} --project {sub_account_id} --zone {zone}"]
terraform = '''
resource "google_compute_snapshot" "{resource_label}" {
  project     = {sub_account_id}
  name        = "{resource_short_id}-before-hyperdisk"
  zone        = {zone}
  source_disk = {resource_short_id}
}

resource "google_compute_disk" "{resource_label}_hyperdisk" {
  project  = {sub_account_id}
  zone     = {zone}
  name     = "{resource_short_id}-hyperdisk"
  type     = "hyperdisk-balanced"
  snapshot = google_compute_snapshot.{resource_label}.id
}
'''
risk     = "The machine stops for the swap; without provisioned performance Hyperdisk has 3,000 IOPS and 140 MiB/s."
effort   = "hours"

[remedy.azure]
summary  = "Change data disks to Premium SSD v2 with the IOPS and throughput in use, if the machine stands in a zone"
commands = ["az disk show --ids {resource_id} --query '[sku.name, osType, zones]'"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_managed_disk" "{resource_label}" {
  storage_account_type = "PremiumV2_LRS"
  zone                 = var.zone_of_the_machine
}
'''
risk     = "The machine is deallocated for the change; system disks cannot be changed."
effort   = "hours"
*/
with billed as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        sum(EffectiveCost) as effective_cost,
        sum(case when purchase_option = 'committed' then EffectiveCost else 0 end) as committed_cost,
        sum(case when usage_kind = 'storage.capacity' and purchase_option is distinct from 'committed' then EffectiveCost else 0 end) as capacity_cost,
        sum(case when usage_kind = 'storage.iops' and purchase_option is distinct from 'committed' then EffectiveCost else 0 end) as iops_cost,
        max(day) as last_day,
        bool_or(coalesce(standby, false)) as standby,
        -- what the bill itself calls the disk, where no inventory does
        max(
            case
                when regexp_matches(x_UsageType, 'EBS:VolumeUsage\.gp2$') then 'gp2'
                when regexp_matches(x_UsageType, 'EBS:VolumeUsage\.piops$') then 'io1'
                when provider = 'gcp' and regexp_matches(x_SkuDescription, '^(Regional )?SSD backed PD Capacity') then 'pd-ssd'
                when
                    provider = 'azure'
                    and regexp_matches(coalesce(x_SkuMeterSubcategory, '') || ' ' || coalesce(x_SkuDescription, ''), 'Premium SSD')
                    and regexp_matches(x_SkuMeterName, '^P\d+ (LRS|ZRS) Disk')
                    then 'premium ssd'
            end
        ) as billed_type
    from charges
    where
        ResourceId is not null
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
    having bool_or(usage_kind = 'storage.capacity')
),

disks as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        billed.SubAccountId,
        billed.RegionId,
        billed.effective_cost,
        billed.committed_cost,
        billed.capacity_cost,
        billed.iops_cost,
        billed.standby,
        volumes.AvailabilityZone as zone,
        volumes.size_gib,
        volumes.provisioned_iops,
        case
            when lower(volumes.volume_type) in ('premium_lrs', 'premium_zrs') then 'premium ssd'
            else coalesce(lower(regexp_extract(volumes.volume_type, '[^/]+$')), billed.billed_type)
        end as kind,
        regexp_matches(lower(billed.ResourceId), 'os_?disk') as is_system_disk
    from billed
    left join volumes using (provider, ResourceId)
    where billed.last_day >= $window_end::date - 1  -- no longer billed is no longer there
),

-- gp2 has 3 IOPS a GiB and, above 334 GiB, 250 MiB/s; io1 moves a quarter of a MiB with each IOPS, up to 500 MiB/s
needs as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        case
            when kind = 'gp2' and (provisioned_iops > 0 or size_gib > 0) then greatest(coalesce(provisioned_iops, least(3 * size_gib, 16000)), 3000)
            when kind = 'io1' and provisioned_iops > 0 then greatest(provisioned_iops, 3000)
        end as iops,
        case
            when kind = 'gp2' and size_gib > 170 then 250
            when kind = 'gp2' then 125
            when kind = 'io1' and provisioned_iops > 0 then least(provisioned_iops / 4, 500)
        end as mibps
    from disks
),

-- prices of gp3 as parts of what the bill has: of the capacity, and for io1 of the IOPS
ratios as (
    select
        disks.provider,
        disks.ResourceId,
        disks.BillingCurrency,
        needs.iops,
        needs.mibps,
        case disks.kind when 'gp2' then $gp3_capacity_of_gp2 else $gp3_capacity_of_io1 end as capacity_ratio,
        coalesce(
            case disks.kind
                when 'gp2' then $gp3_iops_of_gp2::double * (needs.iops - 3000) / nullif(disks.size_gib, 0)
                else $gp3_iops_of_io1::double * (needs.iops - 3000) / needs.iops
            end,
            0
        )::decimal(18, 8) as iops_ratio,
        coalesce(
            case disks.kind when 'gp2' then $gp3_mibps_of_gp2 else $gp3_mibps_of_io1 end::double * greatest(needs.mibps - 125, 0) / nullif(disks.size_gib, 0),
            0
        )::decimal(18, 8) as throughput_ratio
    from disks
    inner join needs using (provider, ResourceId, BillingCurrency)
    where disks.kind in ('gp2', 'io1')
),

successors as (
    select
        disks.provider,
        disks.ResourceId,
        disks.BillingCurrency,
        'gp3' as successor,
        ratios.iops,
        ratios.mibps,
        disks.capacity_cost * (1 - ratios.capacity_ratio - ratios.throughput_ratio)
        + case disks.kind when 'gp2' then -disks.capacity_cost * ratios.iops_ratio else disks.iops_cost * (1 - ratios.iops_ratio) end as saved_cost,
        disks.capacity_cost * (1 - ratios.capacity_ratio)
        + case disks.kind when 'gp2' then -disks.capacity_cost * ratios.iops_ratio else disks.iops_cost * (1 - ratios.iops_ratio) end as saved_high
    from disks
    inner join ratios using (provider, ResourceId, BillingCurrency)
    where disks.kind = 'gp2' or ratios.iops <= $max_gp3_iops
    union all
    select
        provider,
        ResourceId,
        BillingCurrency,
        case kind when 'pd-ssd' then 'hyperdisk-balanced' else 'Premium SSD v2' end as successor,
        null as iops,
        null as mibps,
        capacity_cost * $other_share as saved_cost,
        capacity_cost * $other_share_high as saved_high
    from disks
    where kind = 'pd-ssd' or (kind = 'premium ssd' and not is_system_disk)
),

valued as (
    select
        disks.provider,
        disks.ResourceId,
        disks.BillingCurrency,
        disks.SubAccountId,
        disks.RegionId,
        disks.effective_cost,
        disks.committed_cost,
        disks.standby,
        disks.zone,
        disks.size_gib,
        disks.kind,
        successors.successor,
        successors.iops,
        successors.mibps,
        successors.saved_cost,
        successors.saved_high
    from disks
    inner join successors using (provider, ResourceId, BillingCurrency)
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    committed_cost,
    saved_cost as avoidable_cost,
    case when kind in ('gp2', 'io1') then saved_cost else 0 end as avoidable_low,
    saved_high as avoidable_high,
    case kind when 'gp2' then 'high' when 'io1' then 'medium' else 'low' end as confidence,
    case
        when kind in ('gp2', 'io1')
            then format(
                '{}; gp3 with {} costs {:.1f} % less',
                kind, coalesce(format('{:.0f} IOPS and {:.0f} MiB/s', iops, mibps), 'its free performance'), 100 * saved_cost::double / effective_cost::double
            )
        else format('{}; {} bills capacity and performance apart and costs less unless most of the performance is used', kind, successor)
    end as reason,
    zone,
    kind as volume_type,
    successor,
    size_gib,
    iops as matched_iops,
    mibps as matched_mibps,
    ceil(greatest(coalesce(iops, 3000), 3000))::integer as gp3_iops,  -- less than the free 3,000 and 125 cannot be had
    ceil(greatest(coalesce(mibps, 125), 125))::integer as gp3_mibps,
    standby
from valued
where effective_cost > 0 and saved_cost * 730 >= $min_monthly_saving * $window_hours
order by avoidable_cost desc, ResourceId asc
