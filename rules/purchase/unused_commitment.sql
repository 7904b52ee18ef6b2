/* rule
id       = "purchase.unused_commitment"
title    = "Commitment hours that nobody used"
status   = "stable"
stage    = "buy"
severity = "medium"
clouds   = ["aws", "gcp", "azure"]

why = """
A reservation, savings plan or committed use discount is paid hour by hour whether usage matches it or not; an hour not
used is gone."""

savings  = "the unused amortised cost, as the upper end of a range: it goes on being billed until the commitment ends, unless other usage can be moved under it"
blind_to = "usage elsewhere that could be moved under the commitment; exchange and resale terms of the contract"

references = [
    "https://docs.aws.amazon.com/savingsplans/latest/userguide/ce-sp-usingPR.html",
    "https://cloud.google.com/docs/cuds-analyze",
    "https://learn.microsoft.com/azure/cost-management-billing/reservations/reservation-utilization",
]

[needs]
charges = [
    "provider", "CommitmentDiscountId", "CommitmentDiscountType", "CommitmentDiscountStatus", "BillingAccountId", "RegionId", "BillingCurrency",
    "EffectiveCost", "day",
]

[needs.optional]
commitments = ["provider", "ResourceId", "ends_at"]

[parameters]
min_unused_ratio = { default = 0.05, unit = "unused cost / cost of the commitment", about = "a plan that fits leaves a little unused" }

[remedy.aws]
summary  = "Move matching usage under it, share it across the organization, sell a reserved instance on, and buy less at renewal"
commands = ["aws ce get-savings-plans-utilization --time-period Start=$START,End=$END", "aws ce get-reservation-utilization --time-period Start=$START,End=$END"]
risk     = "None in looking; moving usage between families costs work."
effort   = "days"

[remedy.gcp]
summary  = "Move matching usage under it, turn on sharing across projects, and buy less at renewal"
commands = ["gcloud compute commitments list --format=\"table(name,region,status,endTimestamp)\""]
terraform = '''
# In the block of the commitment {resource_short_id}: let it end, and buy less then.
resource "google_compute_region_commitment" "{resource_label}" {
  auto_renew = false
}
'''
risk     = "None in looking; moving usage between families costs work."
effort   = "days"

[remedy.azure]
summary  = "Widen its scope to shared, exchange it for a size in use, and turn off renewal"
commands = ["az reservations reservation-order list --output table"]
terraform = '''
resource "azapi_resource_action" "{resource_label}_scope" {
  type        = "Microsoft.Capacity/reservationOrders/reservations@2022-11-01"
  resource_id = var.reservation_id # reservationOrders/{resource_short_id}/reservations/ and its own id
  method      = "PATCH"

  body = {
    properties = {
      appliedScopeType = "Shared"
      renew            = false
    }
  }
}
'''
risk     = "Exchanges start a new term."
effort   = "hours"
*/
with unused as (
    select
        provider,
        CommitmentDiscountId,
        BillingCurrency,
        max(CommitmentDiscountType) as commitment_type,
        max(BillingAccountId) as BillingAccountId,
        max(RegionId) as RegionId,
        sum(case when CommitmentDiscountStatus = 'Unused' then EffectiveCost else 0 end) as unused_cost,
        sum(EffectiveCost) as commitment_cost
    from charges
    where
        CommitmentDiscountId is not null
        and CommitmentDiscountStatus in ('Used', 'Unused')
        and day >= $window_start and day < $window_end
    group by provider, CommitmentDiscountId, BillingCurrency
)

select
    unused.provider,
    unused.CommitmentDiscountId as ResourceId,
    unused.BillingAccountId as SubAccountId,
    unused.RegionId,
    unused.BillingCurrency,
    unused.unused_cost as effective_cost,
    0 as committed_cost,
    0 as avoidable_cost,
    0 as avoidable_low,
    unused.unused_cost as avoidable_high,
    'high' as confidence,
    format(
        '{:.1f} % of the {} went unused; it is paid until {} whatever is done, so only usage moved under it or a smaller renewal saves',
        100 * unused.unused_cost::double / unused.commitment_cost::double,
        coalesce(unused.commitment_type, 'commitment'),
        coalesce(strftime(commitments.ends_at, '%Y-%m-%d'), 'its end')
    ) as reason,
    unused.commitment_type,
    unused.commitment_cost,
    commitments.ends_at
from unused
left join commitments
    on
        unused.provider = commitments.provider
        and unused.CommitmentDiscountId = commitments.ResourceId
where
    unused.unused_cost > 0
    and unused.unused_cost >= unused.commitment_cost * $min_unused_ratio
order by effective_cost desc, ResourceId asc
