/* rule
id       = "spend.untagged_accelerators"
title    = "Accelerator cost that no owner tag covers"
status   = "stable"
stage    = "inform"
severity = "low"
clouds   = ["aws", "gcp", "azure"]

why = """
Nobody stops a machine that belongs to nobody. Accelerators are the dearest things on the bill, so each should say who
answers for it."""

savings  = "none: this is cost without an owner"
blind_to = "owners that are known by account or project alone; tags that are not activated for billing, unless the inventory has them"

references = [
    "https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/cost-alloc-tags.html",
    "https://cloud.google.com/resource-manager/docs/creating-managing-labels",
    "https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources",
]

[needs]
charges = ["provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "EffectiveCost", "usage_kind", "machine_type", "accelerator_model", "owner", "day"]

[needs.optional]
resources = ["provider", "ResourceId", "owner"]

[parameters]
min_monthly_cost = { default = 0, unit = "BillingCurrency per month of 730 hours", about = "accelerators are worth an owner at any price" }

[remedy.aws]
summary  = "Tag the machine with its owner, activate the tag for cost allocation, and demand it by a tag policy"
commands = ["aws ec2 create-tags --region {region_id} --resources {resource_short_id} --tags Key=owner,Value=$OWNER"]
terraform = '''
resource "aws_ec2_tag" "{resource_label}_owner" {
  resource_id = {resource_short_id}
  key         = "owner"
  value       = var.owner
}
'''
risk     = "None; tags that automation reads should not change."
effort   = "minutes"

[remedy.gcp]
summary  = "Label the machine with its owner, and demand the label by an organization policy"
commands = ["gcloud compute instances add-labels {resource_short_id} --project {sub_account_id} --zone {zone} --labels owner=$OWNER"]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_compute_instance" "{resource_label}" {
  labels = {
    owner = var.owner # beside those it has
  }
}
'''
risk     = "None; labels that automation reads should not change."
effort   = "minutes"

[remedy.azure]
summary  = "Tag the machine or its resource group with its owner, and demand the tag by a policy"
commands = ["az tag update --resource-id {resource_id} --operation merge --tags owner=$OWNER"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  tags = {
    owner = var.owner # beside those it has
  }
}
'''
risk     = "None; tags that automation reads should not change."
effort   = "minutes"
*/
with accelerators as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model
    from charges
    where
        ResourceId is not null
        and usage_kind like 'accelerator.%'
        and usage_kind <> 'accelerator.reserved_unused'  -- capacity is not a machine
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

costs as (
    select
        charges.provider,
        charges.ResourceId,
        charges.BillingCurrency,
        max(charges.SubAccountId) as SubAccountId,
        max(charges.RegionId) as RegionId,
        max(charges.AvailabilityZone) as zone,
        max(accelerators.machine_type) as machine_type,
        max(accelerators.accelerator_model) as accelerator_model,
        max(charges.owner) as owner_on_bill,
        sum(charges.EffectiveCost) as effective_cost
    from charges
    inner join accelerators using (provider, ResourceId, BillingCurrency)
    where charges.day >= $window_start and charges.day < $window_end
    group by charges.provider, charges.ResourceId, charges.BillingCurrency
),

owners as (
    select
        provider,
        ResourceId,
        max(owner) as owner_in_inventory
    from resources
    group by provider, ResourceId
)

select
    costs.provider,
    costs.ResourceId,
    costs.SubAccountId,
    costs.RegionId,
    costs.BillingCurrency,
    costs.effective_cost,
    0 as committed_cost,
    0 as avoidable_cost,
    0 as avoidable_low,
    0 as avoidable_high,
    'high' as confidence,
    format('{} runs without a tag that names its owner', coalesce(costs.machine_type, costs.accelerator_model, 'an accelerator')) as reason,
    costs.zone,
    costs.machine_type,
    costs.accelerator_model
from costs
left join owners using (provider, ResourceId)
where
    costs.owner_on_bill is null
    and owners.owner_in_inventory is null
    and costs.effective_cost > 0
    and costs.effective_cost * 730 >= $min_monthly_cost * $window_hours
order by costs.effective_cost desc, costs.ResourceId asc
