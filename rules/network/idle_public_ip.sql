/* rule
id     = "network.idle_public_ip"
title  = "Public address is billed and attached to nothing"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
A reserved public address costs money whether anything answers on it or not. AWS and GCP bill an unused one under a name
of its own; Azure bills both alike, so there the inventory has to say that nothing holds it."""

savings  = "EffectiveCost of the address over its current idle spell"
blind_to = "addresses that partners have put on an allow list; on Azure, for how long nothing has held the address"

references = [
    "https://aws.amazon.com/vpc/pricing/",
    "https://cloud.google.com/vpc/network-pricing#ipaddress",
    "https://azure.microsoft.com/pricing/details/ip-addresses/",
]

[needs]
charges = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option", "day", "standby"]

[needs.optional]
addresses = ["provider", "ResourceId", "address", "attached_to"]

[parameters]
idle_days = { default = 7, unit = "days", about = "whole days without use up to the window's end" }

[remedy.aws]
summary  = "Release the Elastic IP"
commands = ["aws ec2 release-address --region {region_id} --allocation-id {resource_short_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = aws_eip.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "The address cannot be had back; partners that list it have to be told."
effort   = "minutes"

[remedy.gcp]
summary  = "Release the static address"
commands = ["gcloud compute addresses delete {resource_short_id} --project {sub_account_id} --region {region_id}"]
terraform = '''
# Take the block that `terraform state list -id=projects/{sub_account_id}/regions/{region_id}/addresses/{resource_short_id}` names out of the configuration, and state under its address:
removed {
  from = google_compute_address.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "The address cannot be had back; partners that list it have to be told."
effort   = "minutes"

[remedy.azure]
summary  = "Delete the public IP address"
commands = ["az network public-ip delete --ids {resource_id}"]
terraform = '''
# Take the block that `terraform state list -id={resource_id}` names out of the configuration, and state under its address:
removed {
  from = azurerm_public_ip.{resource_label}

  lifecycle {
    destroy = true
  }
}
'''
risk     = "The address cannot be had back; partners that list it have to be told."
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
        bool_or(coalesce(usage_kind = 'address.in_use', false)) as in_use,
        bool_or(coalesce(usage_kind in ('address.idle', 'address.in_use'), false)) as ran,
        bool_or(coalesce(standby, false)) as standby
    from charges
    where
        ResourceId is not null
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency, day
),

held as (
    select
        provider,
        ResourceId,
        max(address) as address,
        max(attached_to) as attached_to
    from addresses
    group by provider, ResourceId
),

days as (
    select
        billed.provider,
        billed.ResourceId,
        billed.BillingCurrency,
        billed.day,
        billed.ran,
        case
            -- Azure's bill does not tell a used address from an idle one
            when billed.provider = 'azure' then held.ResourceId is null or held.attached_to is not null
            else billed.in_use
        end as busy
    from billed
    left join held using (provider, ResourceId)
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
    format('attached to nothing for {} days', idle.idle_days) as reason,
    idle.first_day::timestamp as window_start,
    $window_end::timestamp as window_end,
    held.address,
    idle.idle_days,
    idle.standby
from idle
left join held using (provider, ResourceId)
where
    idle.idle_days >= $idle_days
    and idle.effective_cost > 0
order by avoidable_cost desc, idle.ResourceId asc
