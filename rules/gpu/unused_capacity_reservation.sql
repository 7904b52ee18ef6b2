/* rule
id     = "gpu.unused_capacity_reservation"
title  = "Reserved accelerator capacity in which nobody runs"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
A capacity reservation is billed like the machines it holds, from the moment it exists, whether they run or not."""

savings  = "EffectiveCost of the unused part, less what a commitment covers; a prepaid block goes on being billed to its end"
blind_to = "capacity held for a launch that is near, without a standby tag"

references = [
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    "https://cloud.google.com/compute/docs/instances/reservations-overview",
    "https://learn.microsoft.com/azure/virtual-machines/capacity-reservation-overview",
]

[needs]
charges = [
    "provider", "ResourceId", "CapacityReservationId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "ChargeCategory",
    "CommitmentDiscountStatus", "EffectiveCost", "usage_kind", "machine_type", "accelerator_model", "purchase_option", "day", "standby",
]

[needs.optional]
reservations = ["provider", "ResourceId", "reserved_count", "used_count", "ends_at"]

[parameters]
idle_days = { default = 7, unit = "days", about = "days of the window on which capacity went unused" }

[remedy.aws]
summary  = "Reduce the reservation to what runs in it, or cancel it"
commands = ["aws ec2 cancel-capacity-reservation --region {region_id} --capacity-reservation-id {resource_short_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_ec2_capacity_reservation.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "The capacity may not be there when it is wanted again."
effort   = "minutes"

[remedy.gcp]
summary  = "Reduce the reservation to what runs in it, or delete it"
commands = ["gcloud compute reservations delete {resource_short_id} --project {sub_account_id} --zone {zone}"]
terraform = '''
# Take the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/reservations/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_compute_reservation.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "The capacity may not be there when it is wanted again; a reservation that a commitment asks for has to stay."
effort   = "minutes"

[remedy.azure]
summary  = "Reduce the reservation's capacity to what runs in it, or delete it"
commands = ["az resource delete --ids {resource_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_capacity_reservation.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "The capacity may not be there when it is wanted again."
effort   = "minutes"
*/
with unused as (
    select
        provider,
        coalesce(ResourceId, CapacityReservationId) as ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(AvailabilityZone) as zone,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        sum(EffectiveCost) as effective_cost,
        -- a prepaid block is a purchase: it is paid whatever is done
        sum(case when purchase_option = 'committed' or ChargeCategory = 'Purchase' then EffectiveCost else 0 end) as committed_cost,
        count(distinct case when EffectiveCost > 0 then day end) as unused_days,
        max(day) as last_day,
        bool_or(coalesce(standby, false)) as standby
    from charges
    where
        usage_kind = 'accelerator.reserved_unused'
        and CommitmentDiscountStatus is distinct from 'Unused'  -- a price commitment reserves no capacity; it has a rule of its own
        and coalesce(ResourceId, CapacityReservationId) is not null
        and day >= $window_start and day < $window_end
    group by provider, coalesce(ResourceId, CapacityReservationId), BillingCurrency
)

select
    unused.provider,
    unused.ResourceId,
    unused.SubAccountId,
    unused.RegionId,
    unused.BillingCurrency,
    unused.effective_cost,
    unused.committed_cost,
    unused.effective_cost - unused.committed_cost as avoidable_cost,
    unused.effective_cost - unused.committed_cost as avoidable_low,
    unused.effective_cost - unused.committed_cost as avoidable_high,
    'high' as confidence,
    format('reserved {} went unused on {} days of the window', coalesce(unused.machine_type, unused.accelerator_model, 'capacity'), unused.unused_days)
    || case
        when reservations.reserved_count > 0
            then format('; {:.0f} of {:.0f} reserved machines were in use when last seen', coalesce(reservations.used_count, 0), reservations.reserved_count)
        else ''
    end as reason,
    unused.zone,
    unused.machine_type,
    unused.accelerator_model,
    unused.unused_days,
    reservations.reserved_count,
    reservations.used_count,
    reservations.ends_at,
    unused.standby
from unused
left join reservations using (provider, ResourceId)
where
    unused.effective_cost > 0
    and unused.unused_days >= $idle_days
    and unused.last_day >= $window_end::date - 1
order by avoidable_cost desc, unused.ResourceId asc
