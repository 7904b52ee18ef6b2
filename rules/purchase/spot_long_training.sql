/* rule
id     = "purchase.spot_long_training"
title  = "Training of more than a week on spot capacity"
status = "stable"
stage  = "buy"
clouds = ["aws", "gcp", "azure"]
exclusive_group = "purchase option"

why = """
Every hour on spot may be the last one before a pause, and a long run meets many of them. Spot pays while the hours done
again stay below the gap to the price of a commitment; over weeks that gap is worth working out once."""

savings  = "EffectiveCost of the spot hours x (1 + overhead) less the same hours at the commitment price; nothing where spot stays the cheaper way"
blind_to = "interruptions and hours done again, which neither bill nor inventory counts; a negotiated commitment price; whether there is other work for the rest of the term"

references = [
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-best-practices.html",
    "https://cloud.google.com/compute/docs/instances/spot",
    "https://learn.microsoft.com/azure/virtual-machines/spot-vms",
]

[needs]
accelerator_hours = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "hour", "machine_type", "accelerator_count", "accelerator_hours", "EffectiveCost", "purchase_option", "workload_kind", "workload_signal", "job", "standby"]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "day"]

[needs.optional]
prices     = ["provider", "RegionId", "machine_type", "price_kind", "low", "currency", "source", "as_of"]

[parameters]
min_run_hours = { default = 168, unit = "hours within the window", about = "a week" }
overhead      = { default = 0.10, unit = "ratio of spot hours", about = "hours repeated and lost to interruptions and restarts" }

[remedy.aws]
summary  = "Compare the run with a savings plan or capacity block; stay on spot only with checkpoints and a date that can slip"
commands = ["aws ec2 describe-spot-price-history --region {region_id} --instance-types {machine_type} --product-descriptions Linux/UNIX --max-items 20", "aws ce get-savings-plans-purchase-recommendation --savings-plans-type COMPUTE_SP --term-in-years ONE_YEAR --payment-option NO_UPFRONT --lookback-period-in-days THIRTY_DAYS"]
terraform = '''
data "aws_ec2_capacity_block_offering" "{resource_label}" {
  instance_type           = {machine_type}
  instance_count          = 1
  capacity_duration_hours = var.hours_of_the_rest_of_the_run
}

resource "aws_ec2_capacity_block_reservation" "{resource_label}" {
  capacity_block_offering_id = data.aws_ec2_capacity_block_offering.{resource_label}.capacity_block_offering_id
  instance_platform          = "Linux/UNIX"
}
'''
risk     = "A commitment is paid to its end whether the training goes on or not."
effort   = "hours"

[remedy.gcp]
summary  = "Compare the run with a committed use discount or a future reservation; stay on spot only with checkpoints and a date that can slip"
commands = ["gcloud recommender recommendations list --project {sub_account_id} --location {region_id} --recommender google.compute.commitment.UsageCommitmentRecommender"]
terraform = '''
resource "google_compute_region_commitment" "{resource_label}" {
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
risk     = "A commitment is paid to its end whether the training goes on or not."
effort   = "hours"

[remedy.azure]
summary  = "Compare the run with a reservation or savings plan; stay on spot only with checkpoints and a date that can slip"
commands = ["az consumption reservation recommendation list --scope Shared --look-back-period Last30Days --resource-type VirtualMachines"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  priority = "Regular" # makes the machine anew; a reservation then covers it
}
'''
risk     = "A commitment is paid to its end whether the training goes on or not."
effort   = "hours"
*/
with training as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(machine_type) as machine_type,
        max(workload_signal) as workload_signal,
        max(job) as job,
        count(distinct hour) as run_hours,
        sum(accelerator_hours) / coalesce(nullif(max(accelerator_count), 0), 1) as machine_hours,
        sum(EffectiveCost) as spot_cost,
        bool_or(standby) as standby
    from accelerator_hours
    where
        workload_kind = 'training'
        and purchase_option = 'spot'
        and ResourceId is not null
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, BillingCurrency
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
        min(case when price_kind = 'commit_1y' then low end) as commit_1y,
        min(case when price_kind = 'commit_3y' then low end) as commit_3y,
        max(source || ' ' || as_of) as price_source
    from prices
    where machine_type is not null
    group by provider, RegionId, lower(machine_type), currency
),

priced as (
    select
        training.provider,
        training.ResourceId,
        training.BillingCurrency,
        training.SubAccountId,
        training.RegionId,
        training.machine_type,
        training.workload_signal,
        training.job,
        training.run_hours,
        training.spot_cost,
        training.standby,
        resource_cost.effective_cost,
        machine_prices.price_source,
        training.spot_cost * (1 + $overhead)::decimal(9, 8) as spot_need,
        (training.machine_hours::double * machine_prices.commit_1y::double)::decimal(30, 12) as commitment_cost,
        (training.machine_hours::double * coalesce(machine_prices.commit_3y, machine_prices.commit_1y)::double)::decimal(30, 12) as long_commitment_cost
    from training
    join resource_cost using (provider, ResourceId, BillingCurrency)
    left join machine_prices
        on
            training.provider = machine_prices.provider
            and training.RegionId = machine_prices.RegionId
            and lower(training.machine_type) = machine_prices.machine_type
            and training.BillingCurrency = machine_prices.currency
    where training.run_hours >= $min_run_hours and training.spot_cost > 0
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    0 as committed_cost,
    coalesce(greatest(spot_need - commitment_cost, 0), 0) as avoidable_cost,
    coalesce(greatest(spot_cost - commitment_cost, 0), 0) as avoidable_low,
    coalesce(greatest(spot_need - long_commitment_cost, 0), 0) as avoidable_high,
    case when commitment_cost is null then 'low' else 'medium' end as confidence,
    format('trained {} hours on spot; ', run_hours)
    || case
        when commitment_cost is null then 'no commitment price of this machine is known to compare with'
        when commitment_cost < spot_need then format('a one-year commitment would cost {:.1f} % of it', 100 * commitment_cost::double / spot_cost::double)
        else format(
            'spot stays cheaper than a one-year commitment until {:.1f} % of the hours are done again', 100 * (commitment_cost::double / spot_cost::double - 1)
        )
    end as reason,
    machine_type,
    run_hours,
    commitment_cost,
    long_commitment_cost,
    price_source,
    workload_signal,
    job,
    standby
from priced
order by spot_cost desc, ResourceId asc
