/* rule
id     = "network.cross_region_transfer"
title  = "Traffic between regions, replication included, is billed by the gigabyte"
status = "stable"
stage  = "fix_path"
clouds = ["aws", "gcp", "azure"]
cost_line = ["transfer.inter_region"]

why = """
Every byte that leaves a region is billed at a price of its own. Services that call another region, whole-bucket
replication and backups copied at full size often move more than anybody asked for."""

savings  = "EffectiveCost of the inter-region lines x avoidable_share, range from nothing to all of it"
blind_to = "copies that law or disaster recovery demands; which end could move"

references = [
    "https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer",
    "https://cloud.google.com/vpc/network-pricing",
    "https://azure.microsoft.com/pricing/details/bandwidth/",
]

[needs]
transfers = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "ServiceName", "day", "usage_kind", "gigabytes", "EffectiveCost", "standby"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
avoidable_share  = { default = 0.5, unit = "ratio of EffectiveCost", about = "share that placement, filters or compression are taken to avoid" }

[remedy.aws]
summary  = "Move the caller or the data, replicate by prefix instead of whole buckets, compress before sending"
commands = ["aws s3api get-bucket-replication --bucket {resource_short_id}", "aws ec2 describe-instances --region {region_id} --instance-ids {resource_short_id}"]
terraform = '''
# Where replication causes it: only the prefixes that have to be elsewhere. Where a machine causes it, start it in the region of its peers.
resource "aws_s3_bucket_replication_configuration" "{resource_label}" {
  bucket = {resource_short_id}
  role   = var.replication_role_arn

  rule {
    id     = "only-what-must-be-elsewhere"
    status = "Enabled"

    filter {
      prefix = var.prefix_to_keep_elsewhere
    }

    delete_marker_replication {
      status = "Enabled"
    }

    destination {
      bucket = var.destination_bucket_arn
    }
  }
}
'''
risk     = "Narrower replication leaves less to recover from when a region is lost."
effort   = "days"

[remedy.aws.variants.instance]
when     = '^i-|:instance/'
summary  = "Move the machine to the region of its peers, or the data to it; compress before sending"
commands = ["aws ec2 describe-instances --region {region_id} --instance-ids {resource_short_id}"]
terraform = '''
# A machine in the region of its peers takes the place of the one here.
resource "aws_instance" "{resource_label}" {
  region = var.region_of_its_peers
}
'''
risk     = "Moving data or machines interrupts their users."

[remedy.gcp]
summary  = "Move the caller or the data into one region, or use a bucket location that covers both"
commands = ["gcloud compute instances list --project {sub_account_id}"]
terraform = '''
# A machine in the region of its peers takes the place of the one here.
resource "google_compute_instance" "{resource_label}" {
  project = {sub_account_id}
  zone    = var.zone_in_the_region_of_its_peers
}
'''
risk     = "Moving data or machines interrupts their users."
effort   = "days"

[remedy.gcp.variants.bucket]
when     = 'storage\.googleapis|/buckets/|^gs://'
summary  = "Read the bucket from its own region, or move it to a dual-region that covers both"
commands = ["gcloud storage buckets describe gs://{resource_last_part}"]
terraform = '''
resource "google_storage_bucket" "{resource_label}_both" {
  project  = {sub_account_id}
  name     = var.name_of_the_new_bucket
  location = var.dual_region # that holds readers and data
}
'''
risk     = "Moving data interrupts its users and is billed as a transfer once."

[remedy.azure]
summary  = "Move the caller or the data into one region, replicate only the containers that need it"
commands = ["az resource show --ids {resource_id}"]
terraform = '''
# A machine in the region of its peers takes the place of the one here.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  location = var.region_of_its_peers
}
'''
risk     = "Narrower replication leaves less to recover from when a region is lost."
effort   = "days"

[remedy.azure.variants.storage]
when     = 'storageaccounts'
summary  = "Replicate only the containers that need it, or read from a copy in the own region"
commands = ["az storage account or-policy list --account-name {resource_last_part}"]
terraform = '''
resource "azurerm_storage_object_replication" "{resource_label}" {
  source_storage_account_id      = {resource_id}
  destination_storage_account_id = var.destination_storage_account_id

  rules {
    source_container_name        = var.container
    destination_container_name   = var.container
    filter_out_blobs_with_prefix = [var.prefix_that_stays_here]
  }
}
'''
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
        usage_kind = 'transfer.inter_region'
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
    format('{:.1f} GB left {} for another region at a charge', gigabytes::double, coalesce(RegionId, 'their region')) as reason,
    gigabytes,
    standby
from talkers
where effective_cost * 730 >= $min_monthly_cost * $window_hours
order by effective_cost desc, ResourceId asc
