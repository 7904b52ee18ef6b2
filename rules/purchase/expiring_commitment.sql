/* rule
id       = "purchase.expiring_commitment"
title    = "Commitment ends soon while its usage goes on"
status   = "stable"
stage    = "inform"
severity = "medium"
clouds   = ["aws", "gcp", "azure"]

why = """
On the day after a commitment ends the same machines are billed at the on-demand price, without a word. Two months are
enough to ask whether the usage stays, and to renew what does."""

savings  = "none: the step in price from commitment to on demand is evidence"
blind_to = "commitments whose end neither the bill nor the inventory states (FOCUS exports have no such column); renewals queued already, unless the inventory says that the commitment renews itself"

references = [
    "https://docs.aws.amazon.com/savingsplans/latest/userguide/sp-renew.html",
    "https://cloud.google.com/compute/docs/instances/committed-use-discounts-overview",
    "https://learn.microsoft.com/azure/cost-management-billing/reservations/reservation-renew",
]

[needs]
charges = [
    "provider", "BillingAccountId", "SubAccountId", "RegionId", "BillingCurrency", "day", "CommitmentDiscountId", "CommitmentDiscountType", "CommitmentDiscountStatus",
    "x_CommitmentDiscountEnd", "EffectiveCost", "ContractedCost",
]

[needs.optional]
commitments = ["provider", "ResourceId", "ResourceName", "SubAccountId", "RegionId", "ends_at", "attributes"]

[parameters]
notice_days = { default = 60, unit = "days after the end of the window", about = "time to decide on a renewal" }
recent_days = { default = 7, unit = "days before the end of the window", about = "usage within them shows that it goes on" }

[remedy.aws]
summary  = "Decide what of the usage stays, and queue a new savings plan or reservation of that size for the day the old one ends"
commands = ["aws savingsplans describe-savings-plans --query 'savingsPlans[].[savingsPlanArn,end,commitment]' --output table", "aws ec2 describe-reserved-instances --region {region_id} --query 'ReservedInstances[].[ReservedInstancesId,End,InstanceType]' --output table"]
terraform = '''
resource "aws_savingsplans_savings_plan" "successor" {
  savings_plan_offering_id = var.savings_plan_offering_id
  commitment               = var.hourly_commitment # of what stays of {resource_short_id}
}
'''
risk     = "A renewal binds for another term; without one the on-demand price applies from the next hour."
effort   = "hours"

[remedy.gcp]
summary  = "Decide what of the usage stays, and buy a new commitment of that size or turn on automatic renewal"
commands = ["gcloud compute commitments list --filter='status=ACTIVE' --format='table(name,region,endTimestamp,autoRenew)'"]
terraform = '''
# In the block of the commitment {resource_short_id}.
resource "google_compute_region_commitment" "{resource_label}" {
  auto_renew = true
}
'''
risk     = "A renewal binds for another term; without one the on-demand price applies from the next hour."
effort   = "hours"

[remedy.azure]
summary  = "Decide what of the usage stays, and renew the reservation or savings plan in that size"
commands = ["az reservations reservation-order list --query '[].[name,displayName,expiryDate]' --output table"]
terraform = '''
resource "azapi_resource_action" "{resource_label}_renewal" {
  type        = "Microsoft.Capacity/reservationOrders/reservations@2022-11-01"
  resource_id = var.reservation_id # reservationOrders/{resource_short_id}/reservations/ and its own id
  method      = "PATCH"

  body = {
    properties = {
      renew = true
    }
  }
}
'''
risk     = "A renewal binds for another term; without one the on-demand price applies from the next hour."
effort   = "hours"
*/
with billed as (
    select
        provider,
        CommitmentDiscountId,
        BillingCurrency,
        max(BillingAccountId) as BillingAccountId,
        max(CommitmentDiscountType) as commitment_type,
        max(RegionId) as RegionId,
        max(x_CommitmentDiscountEnd) as ends_at,
        coalesce(sum(case when CommitmentDiscountStatus = 'Used' then EffectiveCost end), 0) as used_cost,
        coalesce(sum(case when CommitmentDiscountStatus = 'Used' then ContractedCost end), 0) as on_demand_cost,
        coalesce(
            sum(case when CommitmentDiscountStatus = 'Used' and day >= $window_end::date - $recent_days::integer then EffectiveCost end), 0
        ) as recent_cost
    from charges
    where
        CommitmentDiscountId is not null
        and day >= $window_start and day < $window_end
    group by provider, CommitmentDiscountId, BillingCurrency
),

-- bill and inventory agree on the last part of an id, not always on the path before it
stated as (
    select
        provider,
        lower(regexp_extract(ResourceId, '[^/]+$')) as commitment_key,
        max(ResourceName) as ResourceName,
        max(ends_at) as ends_at,
        bool_or(coalesce(try_cast(json_extract_string(attributes, '$.auto_renew') as boolean), false)) as renews_itself
    from commitments
    group by provider, lower(regexp_extract(ResourceId, '[^/]+$'))
),

with_id as (
    select
        billed.provider,
        billed.CommitmentDiscountId as ResourceId,
        stated.ResourceName,
        billed.BillingAccountId,
        billed.RegionId,
        billed.BillingCurrency,
        billed.commitment_type,
        coalesce(stated.ends_at, billed.ends_at) as ends_at,
        coalesce(stated.renews_itself, false) as renews_itself,
        billed.used_cost,
        billed.on_demand_cost,
        billed.recent_cost
    from billed
    left join stated
        on
            billed.provider = stated.provider
            and lower(regexp_extract(billed.CommitmentDiscountId, '[^/]+$')) = stated.commitment_key
),

-- Google bills the usage of a resource-based commitment by project and region and names no commitment
unnamed as (
    select
        provider,
        SubAccountId,
        RegionId,
        BillingCurrency,
        max(BillingAccountId) as BillingAccountId,
        max(CommitmentDiscountType) as commitment_type,
        sum(EffectiveCost) as used_cost,
        sum(ContractedCost) as on_demand_cost,
        coalesce(sum(case when day >= $window_end::date - $recent_days::integer then EffectiveCost end), 0) as recent_cost
    from charges
    where
        CommitmentDiscountId is null
        and CommitmentDiscountStatus = 'Used'
        and day >= $window_start and day < $window_end
    group by provider, SubAccountId, RegionId, BillingCurrency
),

placed as (
    select
        commitments.provider,
        commitments.ResourceId,
        commitments.ResourceName,
        commitments.SubAccountId,
        commitments.RegionId,
        commitments.ends_at,
        coalesce(try_cast(json_extract_string(commitments.attributes, '$.auto_renew') as boolean), false) as renews_itself,
        count(*) over (partition by commitments.provider, commitments.SubAccountId, commitments.RegionId) as neighbours
    from commitments
    left join billed
        on
            commitments.provider = billed.provider
            and lower(regexp_extract(commitments.ResourceId, '[^/]+$')) = lower(regexp_extract(billed.CommitmentDiscountId, '[^/]+$'))
    where
        billed.CommitmentDiscountId is null
        and commitments.ends_at >= $window_end
),

-- what several commitments of one place cover together cannot be told apart
without_id as (
    select
        placed.provider,
        placed.ResourceId,
        placed.ResourceName,
        unnamed.BillingAccountId,
        placed.RegionId,
        unnamed.BillingCurrency,
        unnamed.commitment_type,
        placed.ends_at,
        placed.renews_itself,
        case when placed.neighbours = 1 then unnamed.used_cost else 0 end as used_cost,
        case when placed.neighbours = 1 then unnamed.on_demand_cost else 0 end as on_demand_cost,
        unnamed.recent_cost
    from placed
    join unnamed on placed.provider = unnamed.provider and placed.SubAccountId = unnamed.SubAccountId and placed.RegionId = unnamed.RegionId
),

together as (
    select
        provider,
        ResourceId,
        ResourceName,
        BillingAccountId,
        RegionId,
        BillingCurrency,
        commitment_type,
        ends_at,
        renews_itself,
        used_cost,
        on_demand_cost,
        recent_cost
    from with_id
    union all
    select
        provider,
        ResourceId,
        ResourceName,
        BillingAccountId,
        RegionId,
        BillingCurrency,
        commitment_type,
        ends_at,
        renews_itself,
        used_cost,
        on_demand_cost,
        recent_cost
    from without_id
)

select
    provider,
    ResourceId,
    ResourceName,
    BillingAccountId as SubAccountId,
    RegionId,
    BillingCurrency,
    used_cost as effective_cost,
    0 as committed_cost,
    0 as avoidable_cost,
    0 as avoidable_low,
    0 as avoidable_high,
    'high' as confidence,
    format('the {} ends on {} and is still in use', coalesce(commitment_type, 'commitment'), strftime(ends_at, '%Y-%m-%d'))
    || case
        when on_demand_cost > used_cost
            then format('; on demand the same usage costs {:.2f} more a month', ((on_demand_cost - used_cost) * 730)::double / $window_hours::double)
        else ''
    end as reason,
    commitment_type,
    ends_at,
    case when on_demand_cost > used_cost then on_demand_cost end as on_demand_cost
from together
where
    ends_at >= $window_end
    and ends_at < $window_end + to_days($notice_days::integer)
    and recent_cost > 0
    and not renews_itself
order by ends_at asc, ResourceId asc
