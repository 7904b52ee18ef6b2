/* rule
id     = "network.public_ip_same_region"
title  = "Machines of one region talk over public addresses"
status = "stable"
stage  = "fix_path"
clouds = ["aws", "gcp", "azure"]
cost_line = ["transfer.public_ip_same_region"]

why = """
Traffic to a public or Elastic IP is billed at each end even when both machines stand in the same zone. Over their
private addresses the same bytes are free inside a zone, and no dearer across zones."""

savings  = "EffectiveCost of the lines x avoidable_share; all of it where the peers share a zone, nothing where they do not"
blind_to = "whether the peers share a zone; peers of other accounts that cannot route privately"

references = [
    "https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer_within_the_same_AWS_Region",
    "https://cloud.google.com/vpc/network-pricing",
    "https://azure.microsoft.com/pricing/details/bandwidth/",
]

[needs]
transfers = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "ServiceName", "day", "usage_kind", "gigabytes", "EffectiveCost", "standby"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
avoidable_share  = { default = 0.5, unit = "ratio of EffectiveCost", about = "share taken to stay inside a zone while the peers are unknown" }

[remedy.aws]
summary  = "Let the peers use private addresses or private DNS names; peer the VPCs where they differ"
commands = ["aws ec2 describe-instances --region {region_id} --instance-ids {resource_short_id} --query 'Reservations[].Instances[].[PrivateIpAddress,PrivateDnsName]'"]
terraform = '''
# A private name for the machine, which its peers use from now on.
resource "aws_route53_record" "{resource_label}" {
  zone_id = var.private_zone_id
  name    = var.private_name
  type    = "A"
  ttl     = 300
  records = [var.private_address] # that of {resource_short_id}
}
'''
risk     = "Security groups that admit the public address have to admit the private one."
effort   = "hours"

[remedy.gcp]
summary  = "Let the peers use internal addresses or internal DNS names"
commands = ["gcloud compute instances list --project {sub_account_id} --format='table(name,zone,networkInterfaces[0].networkIP)'"]
terraform = '''
# A private name for the machine, which its peers use from now on.
resource "google_dns_record_set" "{resource_label}" {
  project      = {sub_account_id}
  managed_zone = var.private_zone
  name         = var.private_name
  type         = "A"
  ttl          = 300
  rrdatas      = [var.internal_address] # that of {resource_short_id}
}
'''
risk     = "Firewall rules that admit the external address have to admit the internal one."
effort   = "hours"

[remedy.azure]
summary  = "Let the peers use private addresses or a private DNS zone"
commands = ["az vm list-ip-addresses --ids {resource_id}"]
terraform = '''
# A private name for the machine, which its peers use from now on.
resource "azurerm_private_dns_a_record" "{resource_label}" {
  name                = var.private_name
  zone_name           = var.private_zone
  resource_group_name = var.resource_group_name
  ttl                 = 300
  records             = [var.private_address] # that of {resource_id}
}
'''
risk     = "Network security groups that admit the public address have to admit the private one."
effort   = "hours"
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
        usage_kind = 'transfer.public_ip_same_region'
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
    format('{:.1f} GB went to public addresses inside {}', gigabytes::double, coalesce(RegionId, 'the region')) as reason,
    gigabytes,
    standby
from talkers
where effective_cost * 730 >= $min_monthly_cost * $window_hours
order by effective_cost desc, ResourceId asc
