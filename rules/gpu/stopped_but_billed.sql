/* rule
id     = "gpu.stopped_but_billed"
title  = "Stopped accelerator machine goes on being billed"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
Stopping a machine ends the charge for its devices and nothing else: disks and addresses are billed until they are
deleted, and an Azure machine stopped inside the guest, not deallocated, is billed in full. Accelerator machines carry large
and fast disks, so a forgotten one still costs hundreds a month."""

savings  = "EffectiveCost of the disks, addresses and own charges since the stop; a snapshot kept instead costs a part of it"
blind_to = "data on the disks that somebody still needs; a reservation that the machine holds, which gpu.unused_capacity_reservation reports"

references = [
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Stop_Start.html",
    "https://cloud.google.com/compute/docs/instances/stop-start-instance",
    "https://learn.microsoft.com/azure/virtual-machines/states-billing",
]

[needs]
charges   = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "usage_kind", "accelerator_model", "purchase_option", "day", "standby"]
instances = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "ResourceName", "state", "stopped_at", "machine_type", "accelerator_model",
    "accelerator_count", "related",
]

[needs.optional]
volumes   = ["provider", "ResourceId", "instance_id"]
addresses = ["provider", "ResourceId", "attached_to", "related"]
prices    = ["provider", "machine_type"]

[parameters]
idle_days = { default = 7, unit = "days", about = "whole days the machine has stood still up to the window's end: a nightly stop is none" }

[remedy.aws]
summary  = "Ask the owner; keep snapshots of the volumes, then terminate the instance and release its addresses"
commands = [
    "aws ec2 describe-volumes --region {region_id} --filters Name=attachment.instance-id,Values={resource_short_id}",
    "aws ec2 create-snapshots --region {region_id} --instance-specification InstanceId={resource_short_id}",
    "aws ec2 terminate-instances --region {region_id} --instance-ids {resource_short_id}",
]
terraform = '''
# Snapshots first, by the command above; the addresses are aws_eip blocks of their own.
# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_instance.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "What no snapshot holds is gone; a released address cannot be had again."
effort   = "hours"

[remedy.gcp]
summary  = "Ask the owner; keep a machine image, then delete the instance with its disks and release its addresses"
commands = [
    "gcloud compute machine-images create {resource_name}-kept --project {sub_account_id} --source-instance {resource_short_id} --source-instance-zone {zone}",
    "gcloud compute instances delete {resource_short_id} --project {sub_account_id} --zone {zone} --delete-disks all",
]
terraform = '''
resource "google_compute_machine_image" "{resource_label}_kept" {
  provider        = google-beta
  project         = {sub_account_id}
  name            = "{resource_short_id}-kept"
  source_instance = "projects/{sub_account_id}/zones/{zone}/instances/{resource_short_id}"
}

# Take the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/instances/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_compute_instance.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "What no image holds is gone; a released address cannot be had again."
effort   = "hours"

[remedy.azure]
summary  = "Deallocate the machine if it is only stopped; ask the owner, keep snapshots, then delete it with its disks and addresses"
commands = ["az vm deallocate --ids {resource_id}", "az vm show --ids {resource_id} --query storageProfile", "az vm delete --ids {resource_id}"]
terraform = '''
# Snapshots first; disks, interfaces and addresses are blocks of their own.
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_linux_virtual_machine.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "What no snapshot holds is gone; the disks stay unless they are deleted with the machine."
effort   = "hours"
*/
with accelerator_types as (
    select distinct
        provider,
        machine_type
    from prices
    where machine_type is not null
),

-- what ran with accelerators before it stopped: a general machine to which devices are attached tells by nothing else
had_accelerators as (
    select distinct
        provider,
        ResourceId
    from charges
    where accelerator_model is not null
),

stopped as (
    select
        instances.provider,
        instances.ResourceId,
        instances.SubAccountId,
        instances.RegionId,
        instances.AvailabilityZone as zone,
        instances.ResourceName,
        instances.state,
        instances.machine_type,
        instances.accelerator_model,
        instances.related,
        instances.stopped_at,
        -- Azure's word for stopped inside the guest: the machine keeps its host and its price
        instances.provider = 'azure' and not contains(instances.state, 'deallocated') as keeps_its_price
    from instances
    left join accelerator_types using (provider, machine_type)
    left join had_accelerators using (provider, ResourceId)
    where
        (
            instances.state in ('stopped', 'suspended', 'deallocated', 'vm stopped', 'vm deallocated', 'powerstate/stopped', 'powerstate/deallocated')
            -- Google calls a stopped machine terminated; elsewhere the word means gone
            or (instances.provider = 'gcp' and instances.state = 'terminated')
        )
        and (
            accelerator_types.machine_type is not null
            or had_accelerators.ResourceId is not null
            or instances.accelerator_model is not null
            or instances.accelerator_count > 0
            or regexp_matches(lower(instances.machine_type), '^(p\d\w*|g\d\w*|gr\d\w*|inf\d|trn\d\w*|dl\d\w*)\.|^(a\d\w*|g2|g4)-|^ct\d|^(standard_)?n[cdgv]\d')
        )
),

-- what a machine is attached to, in the words of its own listing: disks, network interfaces
machine_parts as (
    select distinct
        stopped.provider,
        stopped.ResourceId,
        lower(json_extract_string(leaf.atom, '$')) as part
    from stopped, json_tree(stopped.related::json) as leaf
    where leaf.type = 'VARCHAR'
    union
    select
        provider,
        ResourceId,
        lower(ResourceId) as part
    from stopped
    union
    select
        provider,
        ResourceId,
        lower(regexp_extract(ResourceId, '[^/:]+$')) as part
    from stopped
    where provider = 'aws'
),

address_words as (
    select
        provider,
        ResourceId,
        lower(attached_to) as word
    from addresses
    where attached_to is not null
    union
    select
        addresses.provider,
        addresses.ResourceId,
        lower(json_extract_string(leaf.atom, '$')) as word
    from addresses, json_tree(addresses.related::json) as leaf
    where leaf.type = 'VARCHAR'
),

billed_parts as (
    select
        stopped.provider,
        stopped.ResourceId,
        volumes.ResourceId as part_id,
        'disk' as part_kind
    from stopped
    inner join volumes
        on
            stopped.provider = volumes.provider
            and stopped.ResourceId = volumes.instance_id
    union
    select
        machine_parts.provider,
        machine_parts.ResourceId,
        volumes.ResourceId as part_id,
        'disk' as part_kind
    from machine_parts
    inner join volumes
        on
            machine_parts.provider = volumes.provider
            and machine_parts.part = lower(volumes.ResourceId)
    where volumes.instance_id is null
    union
    -- Azure attaches an address to a configuration below the network interface
    select
        machine_parts.provider,
        machine_parts.ResourceId,
        address_words.ResourceId as part_id,
        'address' as part_kind
    from machine_parts
    inner join address_words
        on
            machine_parts.provider = address_words.provider
            and (machine_parts.part = address_words.word or starts_with(address_words.word, machine_parts.part || '/ipconfigurations/'))
    union
    select
        provider,
        ResourceId,
        ResourceId as part_id,
        'machine' as part_kind
    from stopped
),

ran as (
    select
        charges.provider,
        charges.ResourceId,
        max(charges.day) as last_day
    from charges
    inner join stopped using (provider, ResourceId)
    where
        (starts_with(charges.usage_kind, 'accelerator.') or starts_with(charges.usage_kind, 'compute.'))
        and charges.usage_kind not in ('accelerator.reserved_unused', 'compute.reserved_unused', 'compute.reservation')
        and charges.EffectiveCost > 0
        and charges.day < $window_end
        and not stopped.keeps_its_price
    group by charges.provider, charges.ResourceId
),

-- its last day of running is a part of a day, so the first whole day of standing still is the next one
spells as (
    select
        stopped.provider,
        stopped.ResourceId,
        greatest(
            $window_start::date,
            coalesce(
                greatest(stopped.stopped_at::date + (stopped.stopped_at > stopped.stopped_at::date)::integer, ran.last_day + 1),
                case when stopped.keeps_its_price then $window_end::date - $idle_days end,
                $window_start::date
            )
        ) as first_day,
        stopped.stopped_at is not null or ran.last_day is not null as knows_its_stop,
        ran.last_day as last_run_day
    from stopped
    left join ran using (provider, ResourceId)
),

cost as (
    select
        billed_parts.provider,
        billed_parts.ResourceId,
        charges.BillingCurrency,
        spells.first_day,
        spells.knows_its_stop,
        spells.last_run_day,
        sum(charges.EffectiveCost) as effective_cost,
        sum(case when charges.purchase_option in ('committed', 'reserved_capacity') then charges.EffectiveCost else 0 end) as committed_cost,
        sum(case when billed_parts.part_kind = 'disk' then charges.EffectiveCost else 0 end) as disk_cost,
        sum(case when billed_parts.part_kind = 'address' then charges.EffectiveCost else 0 end) as address_cost,
        sum(case when billed_parts.part_kind = 'machine' then charges.EffectiveCost else 0 end) as machine_cost,
        list(distinct billed_parts.part_id order by billed_parts.part_id) as members,
        count(distinct case when billed_parts.part_kind = 'disk' then billed_parts.part_id end) as disks,
        count(distinct case when billed_parts.part_kind = 'address' then billed_parts.part_id end) as addresses,
        max(charges.day) as last_day,
        bool_or(coalesce(charges.standby, false)) as standby
    from billed_parts
    inner join spells using (provider, ResourceId)
    inner join charges
        on
            billed_parts.provider = charges.provider
            and billed_parts.part_id = charges.ResourceId
    where charges.day >= spells.first_day and charges.day < $window_end
    group by billed_parts.provider, billed_parts.ResourceId, charges.BillingCurrency, spells.first_day, spells.knows_its_stop, spells.last_run_day
)

select
    stopped.provider,
    stopped.ResourceId,
    stopped.SubAccountId,
    stopped.RegionId,
    cost.BillingCurrency,
    cost.effective_cost,
    cost.committed_cost,
    cost.effective_cost - cost.committed_cost as avoidable_cost,
    cost.effective_cost - cost.committed_cost as avoidable_low,
    cost.effective_cost - cost.committed_cost as avoidable_high,
    case when cost.knows_its_stop then 'high' else 'medium' end as confidence,
    format(
        '{} ({}), {}; still billed: {} disk(s), {} address(es){}',
        stopped.machine_type, stopped.state,
        case
            when cost.last_run_day > stopped.stopped_at::date or (stopped.stopped_at is null and cost.last_run_day is not null)
                then 'last billed as running on ' || strftime(cost.last_run_day, '%Y-%m-%d')
            when stopped.stopped_at is not null then 'not running since ' || strftime(stopped.stopped_at, '%Y-%m-%d')
            else 'since when is not known'
        end,
        cost.disks, cost.addresses, case when cost.machine_cost > 0 then ', the machine itself' else '' end
    ) as reason,
    cost.first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    stopped.ResourceName,
    stopped.zone,
    stopped.machine_type,
    stopped.accelerator_model,
    stopped.state,
    stopped.stopped_at,
    cost.last_run_day,
    cost.members,
    cost.disk_cost,
    cost.address_cost,
    cost.machine_cost,
    cost.standby
from cost
inner join stopped using (provider, ResourceId)
where
    cost.first_day <= $window_end::date - $idle_days
    and cost.effective_cost > 0
    and cost.last_day >= $window_end::date - 1  -- no longer billed is no longer there
order by avoidable_cost desc, stopped.ResourceId asc
