"""Writes a month of an Azure actual cost export for the benchmark, as plain CSV in the columns of a Microsoft Customer Agreement.

    python tools/bench/make_azure.py FOLDER ROWS

Daily rows, two meters a resource and day (hours and bytes of a machine, capacity and operations of a disk), so about one resource
per 62 rows, in 120 subscriptions, with tags and additional info. The same arguments give the same content.
"""

from making import listed, wanted, write

ROWS_A_FILE = 500_000
SIZES = ["Standard_D8s_v5", "Standard_E16ads_v5", "Standard_B2ms", "Standard_NC24ads_A100_v4", "Standard_F8s_v2"]
EMPTY = (
    "accountOwnerId accountName costCenter invoiceSectionId previousInvoiceId productOrderName reservationId reservationName benefitId "
    "benefitName term partnerName partnerTenantId resellerName resellerMpnId partnerEarnedCreditRate serviceInfo1 serviceInfo2"
).split()


def rows(first: int, count: int, total: int) -> str:
    resources = max(50, total // 62)
    empty = ", ".join(f"'' as {name}" for name in EMPTY)
    return f"""
    with numbered as (
        select i, (i // 2) % {resources} as r, least(i // 2 // {resources}, 30)::bigint as day, i % 2 as k from range({first}, {first + count}) as t(i)
    ),
    described as (
        select
            *, r % 3 = 2 as is_disk, list_extract({listed(SIZES)}, (hash(r, 'size') % {len(SIZES)} + 1)::bigint) as size,
            lpad(to_hex(r % 120), 8, '0') || '-aaaa-bbbb-cccc-000000000000' as subscription,
            list_extract(['eastus', 'westeurope', 'southeastasia'], (r // 3 % 3 + 1)::bigint) as place,
            list_extract(['US East', 'EU West', 'AP Southeast'], (r // 3 % 3 + 1)::bigint) as meter_region
        from numbered
    ),
    metered as (
        select
            *, case when is_disk then if(k = 0, 'P30 LRS Disk', 'P30 LRS Disk Operations') when k = 0 then replace(replace(size, 'Standard_', ''), '_', ' ')
                else 'Intra Continent Data Transfer Out' end as meter,
            case when is_disk then 'Storage' when k = 0 then 'Virtual Machines' else 'Bandwidth' end as category,
            case when is_disk then if(k = 0, '1/Month', '10K') when k = 0 then '1 Hour' else '1 GB' end as unit,
            case when k = 0 then if(is_disk, 0.0322580645, 24) else round(hash(i, 'amount') % 1000003 / 9000.0, 6) end as quantity
        from described
    ),
    priced as (
        select *, round(case when unit = '1/Month' then 135.17 when unit = '1 Hour' then 0.05 + hash(meter, place) % 997 / 211.0 else 0.02 end, 6) as price from metered
    ),
    costed as (
        select *, round(price * quantity, 10) as cost, 'rg-' || (r % 900) as resource_group, if(is_disk, 'disk-', 'vm-') || r as named from priced
    )
    select
        'G1234567' as invoiceId, '99999999' as billingAccountId, 'Acme' as billingAccountName, 'ABCD-EFGH-1234' as billingProfileId, 'Acme ML' as billingProfileName,
        strftime(date '2026-10-01' + day::integer, '%m/%d/%Y') as date, '10/01/2026' as billingPeriodStartDate, '10/31/2026' as billingPeriodEndDate,
        subscription as SubscriptionId, 'sub ' || (r % 120) as subscriptionName, resource_group as resourceGroupName,
        '/subscriptions/' || subscription || '/resourceGroups/' || resource_group || '/providers/Microsoft.Compute/' || if(is_disk, 'disks/', 'virtualMachines/') || named as ResourceId,
        place as resourceLocation, 'Microsoft.Compute' as consumedService, 'DZH318Z0' || upper(md5(meter || place)[:4]) as productId,
        category || ' ' || meter || ' - ' || meter_region as ProductName, 'Azure' as publisherType, 'Microsoft' as publisherName,
        md5(meter || place)[:8] || '-0000-4000-8000-000000000000' as meterId, meter as meterName, category as meterCategory, category || ' Series' as meterSubCategory,
        meter_region as meterRegion, unit as unitOfMeasure, quantity, price as unitPrice, price as effectivePrice, cost as costInBillingCurrency, cost as costInPricingCurrency, cost as costInUsd,
        'USD' as billingCurrency, 'USD' as pricingCurrency, 1 as exchangeRatePricingToBilling, cost as paygCostInBillingCurrency, price as PayGPrice, 'Usage' as chargeType, 'OnDemand' as pricingModel,
        'UsageBased' as frequency, 'True' as isAzureCreditEligible,
        '"team": "team-' || (r % 60) || '","app": "app-' || (r % 25000) || '","env": "prod"' as tags,
        case when unit = '1 Hour' then '{{"UsageType":"ComputeHR","ImageType":"Canonical","ServiceType":"' || size || '","VMName":"' || named || '","VMProperties":"Linux","VCPUs":8}}' else '' end as additionalInfo,
        {empty}
    from costed
    order by hash(i + 1)
    """


def main() -> None:
    asked = wanted(__doc__)
    write(
        asked.folder,
        asked.rows,
        ROWS_A_FILE,
        lambda first, count: rows(first, count, asked.rows),
        "part_{number}_0001.csv",
        "format csv, header",
    )


if __name__ == "__main__":
    main()
