/* rule
id     = "purchase.on_demand_training"
title  = "Training runs at the on-demand price"
status = "stable"
stage  = "buy"
clouds = ["aws", "gcp", "azure"]
exclusive_group = "purchase option"

why = """
Training that writes checkpoints can be stopped and resumed, and spot capacity sells the same machine for a fraction of
the on-demand price. The price of a pool can also be no lower at all, so the pool decides, not a rule of thumb."""

savings  = "EffectiveCost of on-demand training hours x (1 - spot price / on-demand price x (1 + overhead)), the spot price being that of the pool in a price list, else the one paid in the bill for the same machine and region, else with low confidence that of another size of the family or with the same accelerators; where none is known, nothing, with a range up to max_discount"
blind_to = "whether the job writes checkpoints and may wait; whether the spot pool has capacity"

references = [
    "https://aws.amazon.com/ec2/spot/pricing/",
    "https://cloud.google.com/compute/docs/instances/spot",
    "https://learn.microsoft.com/azure/virtual-machines/spot-vms",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "hour", "machine_type", "accelerator_model", "accelerator_hours",
    "EffectiveCost", "committed_cost", "purchase_option", "workload_kind", "workload_signal", "job", "standby",
]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "day"]

[needs.optional]
prices     = ["provider", "RegionId", "machine_type", "accelerator_model", "accelerator_count", "price_kind", "low", "high", "unit", "currency", "source", "as_of"]
paid_rates = ["provider", "RegionId", "machine_type", "machine_family", "BillingCurrency", "purchase_option", "hourly_rate"]

[parameters]
overhead         = { default = 0.10, unit = "ratio of spot hours", about = "hours repeated and lost to interruptions and restarts" }
max_discount     = { default = 0.9, unit = "ratio of the on-demand price", about = "the most that the vendors state for spot: the far end of the range where no price of the pool is known" }

[remedy.aws]
summary  = "Make the job resumable from checkpoints, then run it on spot (managed spot training on SageMaker); compare pools by zone"
commands = ["aws ec2 describe-spot-price-history --region {region_id} --instance-types {machine_type} --product-descriptions Linux/UNIX --max-items 20"]
terraform = '''
# Makes the machine anew; for the next run.
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_instance" "{resource_label}" {
  instance_market_options {
    market_type = "spot"
  }
}
'''
risk     = "Spot is taken back with two minutes' notice; work since the last checkpoint is lost."
effort   = "days"

[remedy.gcp]
summary  = "Make the job resumable from checkpoints, then run it on Spot VMs"
commands = ["gcloud compute instances describe {resource_short_id} --project {sub_account_id} --zone {availability_zone} --format='value(scheduling.provisioningModel)'"]
terraform = '''
# Makes the machine anew; for the next run.
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/{availability_zone}/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_compute_instance" "{resource_label}" {
  scheduling {
    provisioning_model          = "SPOT"
    preemptible                 = true
    automatic_restart           = false
    instance_termination_action = "STOP"
  }
}
'''
risk     = "Spot is taken back with thirty seconds' notice; work since the last checkpoint is lost."
effort   = "days"

[remedy.gcp.variants.tpu]
when     = '//tpu\.|/nodes/'
commands = ["gcloud compute tpus tpu-vm describe {resource_short_id} --project {sub_account_id} --zone {availability_zone} --format='value(schedulingConfig)'"]
terraform = '''
# Makes the TPU anew; for the next run.
# In the block that `terraform state list -id=projects/{sub_account_id}/locations/{availability_zone}/nodes/{resource_short_id}` names; its other arguments stay as they are.
resource "google_tpu_v2_vm" "{resource_label}" {
  scheduling_config {
    spot = true
  }
}
'''

[remedy.azure]
summary  = "Make the job resumable from checkpoints, then run it on Spot VMs or low-priority compute"
commands = ["az vm show --ids {resource_id} --query priority"]
terraform = '''
# Makes the machine anew; for the next run.
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  priority        = "Spot"
  eviction_policy = "Deallocate"
}
'''
risk     = "Spot is taken back with thirty seconds' notice; work since the last checkpoint is lost."
effort   = "days"
*/
with training as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        max(workload_signal) as workload_signal,
        max(job) as job,
        sum(EffectiveCost - coalesce(committed_cost, 0)) as training_cost,
        sum(accelerator_hours) as accelerator_hours,
        bool_or(standby) as standby
    from accelerator_hours
    where
        workload_kind = 'training'
        and purchase_option = 'on_demand'
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

pool_prices as (
    select
        provider,
        RegionId,
        machine_type,
        accelerator_model,
        unit,
        currency,
        string_agg(distinct source || ' ' || as_of, ' and ' order by source || ' ' || as_of) as price_source,
        min(case when price_kind = 'spot' then low end) as spot_low,
        max(case when price_kind = 'spot' then high end) as spot_high,
        max(case when price_kind = 'on_demand' then high end) as on_demand
    from prices
    group by provider, RegionId, machine_type, accelerator_model, unit, currency
),

-- a ratio has no unit, so it is right whether the prices are by machine or by device
ratios as (
    select
        provider,
        RegionId,
        machine_type,
        accelerator_model,
        price_source,
        least(spot_low::double / on_demand::double, 1) as ratio_low,
        least(spot_high::double / on_demand::double, 1) as ratio_high
    from pool_prices
    where spot_low > 0 and spot_high > 0 and on_demand > 0
),

machine_ratios as (
    select
        provider,
        RegionId,
        machine_type,
        max(price_source) as price_source,
        min(ratio_low) as ratio_low,
        max(ratio_high) as ratio_high
    from ratios
    where machine_type is not null
    group by provider, RegionId, machine_type
),

model_ratios as (
    select
        provider,
        RegionId,
        accelerator_model,
        max(price_source) as price_source,
        min(ratio_low) as ratio_low,
        max(ratio_high) as ratio_high
    from ratios
    where accelerator_model is not null
    group by provider, RegionId, accelerator_model
),

-- what spot machines of the type cost beside on-demand ones in the same bill and region
own_ratios as (
    select
        spot.provider,
        spot.RegionId,
        spot.machine_type,
        spot.machine_family,
        spot.BillingCurrency,
        least(spot.hourly_rate / on_demand.hourly_rate, 1) as ratio
    from paid_rates as spot
    join paid_rates as on_demand using (provider, RegionId, machine_type, BillingCurrency)
    where spot.purchase_option = 'spot' and on_demand.purchase_option = 'on_demand' and spot.hourly_rate > 0 and on_demand.hourly_rate > 0
),

-- another size of the family is a pool of its own, so its ratio is a hint
family_ratios as (
    select
        provider,
        RegionId,
        machine_family,
        BillingCurrency,
        min(ratio) as ratio_low,
        max(ratio) as ratio_high
    from own_ratios
    group by provider, RegionId, machine_family, BillingCurrency
),

-- where a list has the spot price of another size only, a device's share of it stands against the own on-demand rate
device_spots as (
    select
        provider,
        RegionId,
        accelerator_model,
        currency,
        max(source || ' ' || as_of) as price_source,
        min(low::double / case when unit = 'hour' then accelerator_count::double else 1 end) as low,
        max(high::double / case when unit = 'hour' then accelerator_count::double else 1 end) as high
    from prices
    where price_kind = 'spot' and low > 0 and high > 0 and accelerator_count > 0
    group by provider, RegionId, accelerator_model, currency
),

device_ratios as (
    select
        training.provider,
        training.ResourceId,
        training.BillingCurrency,
        device_spots.price_source,
        least(device_spots.low / (training.training_cost::double / training.accelerator_hours::double), 1) as ratio_low,
        least(device_spots.high / (training.training_cost::double / training.accelerator_hours::double), 1) as ratio_high
    from training
    inner join device_spots
        on
            training.provider = device_spots.provider
            and training.RegionId = device_spots.RegionId
            and training.accelerator_model = device_spots.accelerator_model
            and training.BillingCurrency = device_spots.currency
    where training.training_cost > 0 and training.accelerator_hours > 0
),

families as (
    select
        provider,
        machine_type,
        any_value(machine_family) as machine_family
    from paid_rates
    group by provider, machine_type
),

priced as (
    select
        training.provider,
        training.ResourceId,
        training.BillingCurrency,
        training.SubAccountId,
        training.RegionId,
        training.machine_type,
        training.accelerator_model,
        training.workload_signal,
        training.job,
        training.training_cost,
        training.accelerator_hours,
        training.standby,
        resource_cost.effective_cost,
        coalesce(machine_ratios.ratio_low, own_ratios.ratio, model_ratios.ratio_low, family_ratios.ratio_low, device_ratios.ratio_low)::decimal(9, 8) as ratio_low,
        coalesce(machine_ratios.ratio_high, own_ratios.ratio, model_ratios.ratio_high, family_ratios.ratio_high, device_ratios.ratio_high)::decimal(9, 8) as ratio_high,
        coalesce(machine_ratios.ratio_low, own_ratios.ratio, model_ratios.ratio_low) is not null as is_own_pool,
        case
            when machine_ratios.ratio_low is not null then machine_ratios.price_source
            when own_ratios.ratio is not null then 'own spot machines in the bill'
            when model_ratios.ratio_low is not null then model_ratios.price_source
            when family_ratios.ratio_low is not null then 'own spot machines of ' || families.machine_family || ' in the bill'
            else device_ratios.price_source
        end as price_source
    from training
    inner join resource_cost using (provider, ResourceId, BillingCurrency)
    left join machine_ratios using (provider, RegionId, machine_type)
    left join own_ratios
        on
            training.provider = own_ratios.provider
            and training.RegionId = own_ratios.RegionId
            and lower(training.machine_type) = own_ratios.machine_type
            and training.BillingCurrency = own_ratios.BillingCurrency
    left join model_ratios using (provider, RegionId, accelerator_model)
    left join families
        on
            training.provider = families.provider
            and lower(training.machine_type) = families.machine_type
    left join family_ratios
        on
            training.provider = family_ratios.provider
            and training.RegionId = family_ratios.RegionId
            and families.machine_family = family_ratios.machine_family
            and training.BillingCurrency = family_ratios.BillingCurrency
    left join device_ratios using (provider, ResourceId, BillingCurrency)
),

weighed as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        SubAccountId,
        RegionId,
        machine_type,
        accelerator_model,
        workload_signal,
        job,
        training_cost,
        accelerator_hours,
        standby,
        effective_cost,
        price_source,
        ratio_low,
        ratio_high,
        is_own_pool,
        ((ratio_low + ratio_high) / 2)::decimal(9, 8) as ratio
    from priced
    where training_cost > 0
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    0 as committed_cost,
    -- greatest passes over null: an unknown ratio saves nothing
    training_cost * greatest(1 - ratio * (1 + $overhead), 0)::decimal(9, 8) as avoidable_cost,
    training_cost * greatest(1 - ratio_high * (1 + $overhead), 0)::decimal(9, 8) as avoidable_low,
    training_cost * (case when ratio_low is null then $max_discount else greatest(1 - ratio_low * (1 + $overhead), 0) end)::decimal(9, 8) as avoidable_high,
    case when is_own_pool then 'medium' else 'low' end as confidence,
    format('{:.1f} accelerator hours of training on {} at the on-demand price; ', accelerator_hours::double, coalesce(machine_type, accelerator_model, 'it'))
    || case
        when ratio is null then 'no spot price of the pool is known, so no saving is claimed'
        when is_own_pool then format('spot there costs {:.1f} % of it', 100 * ratio::double)
        else format('spot of another size with the same accelerators costs {:.1f} % there', 100 * ratio::double)
    end as reason,
    machine_type,
    accelerator_model,
    accelerator_hours,
    workload_signal,
    job,
    ratio as spot_ratio,
    price_source,
    standby
from weighed
where coalesce(ratio_low * (1 + $overhead) < 1, true)
order by avoidable_cost desc, ResourceId asc
