/* rule
id     = "network.cross_zone_transfer"
title  = "Traffic between zones of a region is billed by the gigabyte"
status = "stable"
stage  = "fix_path"
clouds = ["aws", "gcp", "azure"]
cost_line = ["transfer.inter_zone"]

why = """
Bytes that cross a zone are billed although both ends sit in one region: on AWS at each end, on GCP at the sender. Chatty
pairs (shuffles, brokers and their consumers, caches) can often share a zone or prefer the replica in their own."""

savings  = "EffectiveCost of the inter-zone lines x avoidable_share, range from nothing to all of it: the bill does not name the peers"
blind_to = "which pairs talk; replication that keeps data safe and has to cross zones; traffic that the provider does not charge"

references = [
    "https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer_within_the_same_AWS_Region",
    "https://cloud.google.com/vpc/network-pricing",
    "https://azure.microsoft.com/pricing/details/bandwidth/",
]

[needs]
transfers = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "ServiceName", "day", "usage_kind", "gigabytes", "EffectiveCost", "standby"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
avoidable_share  = { default = 0.5, unit = "ratio of EffectiveCost", about = "share that placement is taken to avoid while the pairs are unknown" }

[remedy.aws]
summary  = "Keep chatty pairs in one Availability Zone: zone-aware clients, follower fetching, one zone for a training job and its data"
commands = ["aws ec2 describe-instances --region {region_id} --instance-ids {resource_short_id} --query 'Reservations[].Instances[].[InstanceId,Placement.AvailabilityZone]'"]
terraform = '''
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_instance" "{resource_label}" {
  availability_zone = var.zone_of_its_peers # makes the machine anew
}
'''
risk     = "A service in one zone does not survive the loss of that zone; keep replicas that guard data where they are."
effort   = "days"

[remedy.gcp]
summary  = "Keep chatty pairs in one zone: topology-aware routing, zonal clusters for batch work, rack-aware consumers"
commands = ["gcloud compute instances list --project {sub_account_id} --filter=\"zone ~ {region_id}\""]
terraform = '''
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/ZONE/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_compute_instance" "{resource_label}" {
  zone = var.zone_of_its_peers # makes the machine anew
}
'''
risk     = "A service in one zone does not survive the loss of that zone; keep replicas that guard data where they are."
effort   = "days"

[remedy.azure]
summary  = "Keep chatty pairs in one availability zone with zonal deployments or a proximity placement group"
commands = ["az vm list --subscription {sub_account_id} --output table"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  zone = var.zone_of_its_peers # makes the machine anew
}
'''
risk     = "A service in one zone does not survive the loss of that zone; keep replicas that guard data where they are."
effort   = "days"
*/
with charged as (
    select
        provider,
        ResourceId,
        SubAccountId,
        RegionId,
        BillingCurrency,
        ServiceName,
        gigabytes,
        EffectiveCost,
        standby,
        case when ResourceId is null then coalesce(RegionId, '') || '/' || coalesce(ServiceName, '') end as scope
    from transfers
    where
        usage_kind = 'transfer.inter_zone'
        and EffectiveCost > 0  -- free lines move most of the bytes in many accounts and would hide the charged ones
        and day >= $window_start and day < $window_end
),

talkers as (
    select
        provider,
        ResourceId,
        SubAccountId,
        BillingCurrency,
        scope,
        max(RegionId) as RegionId,
        max(ServiceName) as ServiceName,
        sum(EffectiveCost) as effective_cost,
        sum(gigabytes) as gigabytes,
        bool_or(standby) as standby
    from charged
    group by provider, ResourceId, SubAccountId, BillingCurrency, scope
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    ServiceName,
    effective_cost,
    0 as committed_cost,
    effective_cost * $avoidable_share as avoidable_cost,
    0 as avoidable_low,
    effective_cost as avoidable_high,
    'low' as confidence,
    coalesce(format('{:.1f} GB', gigabytes::double), 'traffic of a volume the bill does not state') || ' crossed a zone of ' || coalesce(RegionId, 'its region')
    || ' at a charge; which pairs could share a zone is not known from the bill'
        as reason,
    gigabytes,
    standby
from talkers
where effective_cost * 730 >= $min_monthly_cost * $window_hours
order by effective_cost desc, ResourceId asc
