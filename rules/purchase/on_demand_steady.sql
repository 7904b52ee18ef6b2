/* rule
id     = "purchase.on_demand_steady"
title  = "Accelerator runs around the clock at the on-demand price"
status = "stable"
stage  = "buy"
clouds = ["aws", "gcp", "azure"]
exclusive_group = "purchase option"

why = """
On-demand buys the freedom to stop. A machine that never stops pays for it every hour; a commitment of one year costs less as
soon as the machine runs more than 1 - discount of the hours, used or not."""

savings  = "EffectiveCost of the on-demand hours less all hours of the window at the commitment price, by the price list of that machine or else by what own commitments on the family save; where neither tells, nothing, with a range up to max_discount; else the range reaches to three years where the list has them"
blind_to = "the price of a commitment on families that neither a price list nor an own commitment covers; whether the machine will still be wanted in a year; prices that fall within the term; a negotiated discount"

references = [
    "https://aws.amazon.com/savingsplans/compute-pricing/",
    "https://cloud.google.com/compute/docs/instances/committed-use-discounts-overview",
    "https://learn.microsoft.com/azure/cost-management-billing/reservations/save-compute-costs-reservations",
]

[needs]
accelerator_hours = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "usage_kind", "hour", "machine_type", "accelerator_model", "accelerator_count", "accelerator_hours", "EffectiveCost", "committed_cost", "purchase_option", "class", "standby"]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "day"]

[needs.optional]
prices     = ["provider", "RegionId", "machine_type", "price_kind", "low", "currency", "source", "as_of"]
paid_rates = ["provider", "RegionId", "machine_type", "machine_family", "BillingCurrency", "purchase_option", "EffectiveCost", "machine_hours", "hourly_rate", "list_ratio"]

[parameters]
max_discount   = { default = 0.72, unit = "ratio of the on-demand price", about = "the most that any vendor states for a commitment: the far end of the range where no price is known" }
min_share      = { default = 0.95, unit = "ratio of the hours of the window", about = "so steady is told without a saving where no commitment price is known" }
min_run_hours  = { default = 336, unit = "hours within the window", about = "two weeks; a shorter history does not show that a machine is steady" }

[remedy.aws]
summary  = "Cover what remains after idle and oversized machines are gone with a savings plan of one year, without upfront payment"
commands = ["aws ce get-savings-plans-purchase-recommendation --savings-plans-type COMPUTE_SP --term-in-years ONE_YEAR --payment-option NO_UPFRONT --lookback-period-in-days THIRTY_DAYS"]
terraform = '''
resource "aws_savingsplans_savings_plan" "steady" {
  savings_plan_offering_id = var.savings_plan_offering_id
  commitment               = var.hourly_commitment # of what remains after the removals
}
'''
risk     = "It is paid to its end whether the machine runs or not; newer generations may become cheaper meanwhile."
effort   = "hours"

[remedy.gcp]
summary  = "Cover what remains after idle and oversized machines are gone with a committed use discount of one year for the machine's series"
commands = ["gcloud recommender recommendations list --project {sub_account_id} --location {region_id} --recommender google.compute.commitment.UsageCommitmentRecommender"]
terraform = '''
resource "google_compute_region_commitment" "steady" {
  project = {sub_account_id}
  region  = {region_id}
  name    = var.commitment_name
  plan    = "TWELVE_MONTH"
  type    = var.machine_series # such as ACCELERATOR_OPTIMIZED

  resources {
    type             = "ACCELERATOR"
    accelerator_type = var.accelerator_type
    amount           = var.accelerators_in_steady_use
  }
}
'''
risk     = "It is paid to its end whether the machine runs or not, is bound to series and region, and reserves no capacity."
effort   = "hours"

[remedy.azure]
summary  = "Cover what remains after idle and oversized machines are gone with a reservation or savings plan of one year"
commands = ["az consumption reservation recommendation list --scope Shared --look-back-period Last30Days --resource-type VirtualMachines"]
risk     = "It is paid to its end whether the machine runs or not; a reservation can be exchanged within limits, a savings plan cannot."
effort   = "hours"
*/
with running as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        sum(EffectiveCost - coalesce(committed_cost, 0)) as on_demand_cost,
        (sum(accelerator_hours) / coalesce(nullif(max(accelerator_count), 0), 1))::double as run_hours,
        -- what idles is to be stopped, not committed to
        (sum(case when class in ('idle', 'held') then 0 else accelerator_hours end) / coalesce(nullif(max(accelerator_count), 0), 1))::double as needed_hours,
        bool_or(standby) as standby
    from accelerator_hours
    where
        purchase_option = 'on_demand'
        and usage_kind <> 'accelerator.reserved_unused'  -- a reservation is steady by nature; whether it is used is another question
        and ResourceId is not null
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, BillingCurrency
    having max(hour) >= $window_end - interval 2 day  -- what has stopped running needs no commitment
),

resource_cost as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        sum(EffectiveCost) as effective_cost
    from charges
    where day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

machine_prices as (
    select
        provider,
        RegionId,
        lower(machine_type) as machine_type,
        currency,
        min(case when price_kind = 'on_demand' then low end)::double as on_demand,
        min(case when price_kind = 'commit_1y' then low end)::double as commit_1y,
        min(case when price_kind = 'commit_3y' then low end)::double as commit_3y,
        max(source || ' ' || as_of) as price_source
    from prices
    where machine_type is not null
    group by provider, RegionId, lower(machine_type), currency
),

-- a discount is a ratio, so it holds for a negotiated on-demand price too
discounts as (
    select
        provider,
        RegionId,
        machine_type,
        currency,
        price_source,
        1 - commit_1y / on_demand as discount,
        greatest(1 - commit_1y / on_demand, 1 - coalesce(commit_3y, commit_1y) / on_demand) as discount_high
    from machine_prices
    where on_demand > 0 and commit_1y > 0 and commit_1y < on_demand
),

-- what own commitments save against the bill's list price, else against the own on-demand rate of the same machine
committed as (
    select
        committed.provider,
        committed.RegionId,
        committed.machine_type,
        committed.machine_family,
        committed.BillingCurrency,
        committed.EffectiveCost::double as effective_cost,
        coalesce(committed.EffectiveCost::double / nullif(committed.list_ratio, 0), committed.machine_hours * on_demand.hourly_rate) as full_cost
    from paid_rates as committed
    left join paid_rates as on_demand
        on
            committed.provider = on_demand.provider
            and committed.RegionId = on_demand.RegionId
            and committed.machine_type = on_demand.machine_type
            and committed.BillingCurrency = on_demand.BillingCurrency
            and on_demand.purchase_option = 'on_demand'
    where committed.purchase_option = 'committed'
),

own_discounts as (
    select
        provider,
        machine_family,
        BillingCurrency,
        1 - sum(effective_cost) / sum(full_cost) as discount
    from committed
    where full_cost > effective_cost
    group by provider, machine_family, BillingCurrency
),

own_machines as (
    select
        provider,
        RegionId,
        machine_type,
        BillingCurrency,
        1 - sum(effective_cost) / sum(full_cost) as discount
    from committed
    where full_cost > effective_cost
    group by provider, RegionId, machine_type, BillingCurrency
),

families as (
    select
        provider,
        machine_type,
        any_value(machine_family) as machine_family
    from paid_rates
    group by provider, machine_type
),

weighed as (
    select
        running.provider,
        running.ResourceId,
        running.BillingCurrency,
        running.SubAccountId,
        running.RegionId,
        running.machine_type,
        running.accelerator_model,
        running.on_demand_cost,
        running.run_hours,
        running.needed_hours,
        running.standby,
        resource_cost.effective_cost,
        least(running.run_hours / $window_hours::double, 1) as run_share,
        least(running.needed_hours / $window_hours::double, 1) as needed_share,
        coalesce(discounts.discount, own_machines.discount, own_discounts.discount) as discount,
        coalesce(discounts.discount_high, own_machines.discount, own_discounts.discount) as discount_high,
        coalesce(discounts.discount, own_machines.discount) is not null as is_own_price,
        case
            when discounts.discount is not null then discounts.price_source
            when own_machines.discount is not null then 'own commitments on it in the bill'
            when own_discounts.discount is not null then 'own commitments on ' || families.machine_family || ' in the bill'
        end as price_source
    from running
    join resource_cost using (provider, ResourceId, BillingCurrency)
    left join discounts
        on
            running.provider = discounts.provider
            and running.RegionId = discounts.RegionId
            and lower(running.machine_type) = discounts.machine_type
            and running.BillingCurrency = discounts.currency
    left join families
        on
            running.provider = families.provider
            and lower(running.machine_type) = families.machine_type
    left join own_machines
        on
            running.provider = own_machines.provider
            and running.RegionId = own_machines.RegionId
            and lower(running.machine_type) = own_machines.machine_type
            and running.BillingCurrency = own_machines.BillingCurrency
    left join own_discounts
        on
            running.provider = own_discounts.provider
            and families.machine_family = own_discounts.machine_family
            and running.BillingCurrency = own_discounts.BillingCurrency
    where running.run_hours >= $min_run_hours and running.on_demand_cost > 0
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    0 as committed_cost,
    -- greatest passes over null: an unknown discount saves nothing
    on_demand_cost * greatest(1 - (1 - discount) / run_share, 0)::decimal(9, 8) as avoidable_cost,
    on_demand_cost * greatest(1 - (1 - discount) / run_share, 0)::decimal(9, 8) as avoidable_low,
    on_demand_cost * greatest(1 - (1 - coalesce(discount_high, $max_discount::double)) / run_share, 0)::decimal(9, 8) as avoidable_high,
    -- what a commitment saves on another size or in another region is a hint
    case when is_own_price then 'medium' else 'low' end as confidence,
    format('{} ran {:.1f} % of the hours on demand; ', coalesce(machine_type, accelerator_model, 'it'), 100 * run_share)
    || case
        when discount is null then 'no price of a commitment on it is known, so no saving is claimed'
        else format('a commitment at {:.1f} % off ({}) pays from {:.1f} %', 100 * discount, price_source, 100 * (1 - discount))
    end as reason,
    machine_type,
    accelerator_model,
    round(run_hours, 2) as run_hours,
    round(discount, 4) as discount,
    price_source,
    standby
from weighed
where needed_share > coalesce(1 - discount, $min_share)
order by avoidable_cost desc, ResourceId asc
