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
terraform = '''
resource "aws_cloudfront_distribution" "{resource_label}" {
  enabled = true
  comment = "Before {resource_short_id}"

  origin {
    origin_id   = "origin"
    domain_name = var.origin_domain_name

    custom_origin_config {
      http_port              = 80
      https_port             = 443
      origin_protocol_policy = "https-only"
      origin_ssl_protocols   = ["TLSv1.2"]
    }
  }

  default_cache_behavior {
    target_origin_id       = "origin"
    allowed_methods        = ["GET", "HEAD"]
    cached_methods         = ["GET", "HEAD"]
    cache_policy_id        = var.cache_policy_id
    compress               = true
    viewer_protocol_policy = "redirect-to-https"
  }

  restrictions {
    geo_restriction {
      restriction_type = "none"
    }
  }

  viewer_certificate {
    cloudfront_default_certificate = true
  }
}
'''
risk     = "A cache can serve stale content; set its lifetimes on purpose."
effort   = "days"

[remedy.gcp]
summary  = "Put Cloud CDN before what is served repeatedly, compress, consider the Standard network tier or an interconnect"
commands = ["gcloud compute instances list --project {sub_account_id}"]
terraform = '''
resource "google_compute_backend_service" "{resource_label}" {
  project          = {sub_account_id}
  name             = var.backend_service_name
  enable_cdn       = true
  compression_mode = "AUTOMATIC"

  cdn_policy {
    cache_mode  = "CACHE_ALL_STATIC"
    default_ttl = 3600
  }
}
'''
risk     = "A cache can serve stale content; the Standard tier leaves Google's network early."
effort   = "days"

[remedy.azure]
summary  = "Put Azure Front Door before what is served repeatedly, compress, and use ExpressRoute for steady flows to known sites"
commands = ["az monitor metrics list --resource {resource_id} --metric 'Network Out Total' --interval P1D"]
terraform = '''
resource "azurerm_cdn_frontdoor_profile" "{resource_label}" {
  name                = "egress-cache"
  resource_group_name = var.resource_group_name
  sku_name            = "Standard_AzureFrontDoor"
}

resource "azurerm_cdn_frontdoor_origin_group" "{resource_label}" {
  name                     = "origins"
  cdn_frontdoor_profile_id = azurerm_cdn_frontdoor_profile.{resource_label}.id

  load_balancing {}
}

resource "azurerm_cdn_frontdoor_origin" "{resource_label}" {
  name                           = "origin"
  cdn_frontdoor_origin_group_id  = azurerm_cdn_frontdoor_origin_group.{resource_label}.id
  host_name                      = var.host_name_of_the_origin # that of {resource_id}
  certificate_name_check_enabled = true
  enabled                        = true
}
'''
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
