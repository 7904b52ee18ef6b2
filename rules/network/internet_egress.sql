/* rule
id       = "network.internet_egress"
title    = "Internet egress is billed by the gigabyte"
status   = "stable"
stage    = "fix_path"
severity = "medium"
clouds   = ["aws", "gcp", "azure"]
cost_line = ["transfer.internet"]

why = """
Bytes to the internet are the dearest that a cloud moves. A content delivery network serves repeated content at a lower
price, compression shrinks it, and a private interconnect carries steady flows to known sites for less."""

savings  = "none is claimed: how much a cache, compression or a private path would avoid depends on the content; range up to all of it"
blind_to = "what the bytes are and who asks for them; free tiers and tiers already reached"

references = [
    "https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer",
    "https://cloud.google.com/vpc/network-pricing",
    "https://azure.microsoft.com/pricing/details/bandwidth/",
]

[needs]
transfers = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "ServiceName", "day", "usage_kind", "gigabytes", "EffectiveCost", "standby"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }

[remedy.aws]
summary  = "Put CloudFront before what is served repeatedly, compress, and use Direct Connect for steady flows to known sites"
commands = ["aws cloudwatch get-metric-statistics --region {region_id} --namespace AWS/EC2 --metric-name NetworkOut --dimensions Name=InstanceId,Value={resource_short_id} --period 86400 --statistics Sum --start-time $START --end-time $END"]
risk     = "A cache can serve stale content; set its lifetimes on purpose."
effort   = "days"

[remedy.gcp]
summary  = "Put Cloud CDN before what is served repeatedly, compress, consider the Standard network tier or an interconnect"
commands = ["gcloud compute instances list --project {sub_account_id}"]
risk     = "A cache can serve stale content; the Standard tier leaves Google's network early."
effort   = "days"

[remedy.azure]
summary  = "Put Azure Front Door before what is served repeatedly, compress, and use ExpressRoute for steady flows to known sites"
commands = ["az monitor metrics list --resource {resource_id} --metric 'Network Out Total' --interval P1D"]
risk     = "A cache can serve stale content; set its lifetimes on purpose."
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
        usage_kind = 'transfer.internet'
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
    0 as avoidable_cost,
    0 as avoidable_low,
    effective_cost as avoidable_high,
    'low' as confidence,
    format('{:.1f} GB left {} for the internet', gigabytes::double, coalesce(RegionId, 'the region')) as reason,
    gigabytes,
    standby
from talkers
where effective_cost * 730 >= $min_monthly_cost * $window_hours
order by effective_cost desc, ResourceId asc
