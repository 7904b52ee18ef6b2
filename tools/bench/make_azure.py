"""Writes a month of an Azure actual cost export for the benchmark, as plain CSV in the columns of a Microsoft Customer Agreement.

    python tools/bench/make_azure.py FOLDER ROWS

Daily rows of about one resource per 60 rows, in 120 subscriptions, with tags and additional info. The same arguments give the
same content.
"""

import argparse
from pathlib import Path

import duckdb

ROWS_A_FILE = 500_000
SIZES = ["Standard_D8s_v5", "Standard_E16ads_v5", "Standard_B2ms", "Standard_NC24ads_A100_v4", "Standard_F8s_v2"]
EMPTY = (
    "accountOwnerId accountName costCenter invoiceSectionId previousInvoiceId productOrderName reservationId reservationName benefitId "
    "benefitName term partnerName partnerTenantId resellerName resellerMpnId partnerEarnedCreditRate serviceInfo1 serviceInfo2"
).split()


def rows(first: int, count: int, total: int) -> str:
    resources = max(50, total // 60)
    empty = ", ".join(f"'' as {name}" for name in EMPTY)
    return f"""
    with numbered as (
        select i, hash(i) % {resources} as r, (i * 31 // {total})::bigint as day, i % 2 as k from range({first}, {first + count}) as t(i)
    ),
    described as (
        select *, list_extract({SIZES}, (r % 5 + 1)::bigint) as size, round(0.01 + (r % 977) / 31.1, 10) as price,
            lpad(to_hex(r % 120), 8, '0') || '-aaaa-bbbb-cccc-000000000000' as subscription
        from numbered
    )
    select
        'G1234567' as invoiceId, '99999999' as billingAccountId, 'Acme' as billingAccountName, 'ABCD-EFGH-1234' as billingProfileId, 'Acme ML' as billingProfileName,
        strftime(date '2026-10-01' + day::integer, '%m/%d/%Y') as date, '10/01/2026' as billingPeriodStartDate, '10/31/2026' as billingPeriodEndDate,
        subscription as SubscriptionId, 'sub ' || (r % 120) as subscriptionName, 'rg-' || (r % 900) as resourceGroupName,
        '/subscriptions/' || subscription || '/resourceGroups/rg-' || (r % 900) || '/providers/Microsoft.Compute/virtualMachines/vm-' || r as ResourceId,
        'eastus' as resourceLocation, 'Microsoft.Compute' as consumedService, 'DZH318Z0BQ' || k as productId,
        'Virtual Machines ' || size || ' - US East' as ProductName, 'Azure' as publisherType, 'Microsoft' as publisherName,
        md5(size || k)[:8] || '-0000-4000-8000-000000000000' as meterId, case when k = 0 then size else 'Premium disk' end as meterName,
        case when k = 0 then 'Virtual Machines' else 'Storage' end as meterCategory, 'Series' as meterSubCategory, 'US East' as meterRegion, '1 Hour' as unitOfMeasure,
        24 as quantity, price as effectivePrice, price as costInBillingCurrency, price as costInPricingCurrency, price as costInUsd,
        'USD' as billingCurrency, 'USD' as pricingCurrency, 1 as exchangeRatePricingToBilling, price as paygCostInBillingCurrency, 'Usage' as chargeType, 'OnDemand' as pricingModel,
        'UsageBased' as frequency,
        '"team": "team-' || (r % 60) || '","app": "app-' || (r % 25000) || '"' as tags,
        '{{"ServiceType":"' || size || '","ImageType":"","VMName":"vm-' || r || '"}}' as additionalInfo, {empty}
    from described
    order by hash(i + 1)
    """


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    con = duckdb.connect(config={"memory_limit": "4GB"})
    for number, first in enumerate(range(0, wanted.rows, ROWS_A_FILE)):
        query = rows(first, min(ROWS_A_FILE, wanted.rows - first), wanted.rows)
        con.execute(f"copy ({query}) to '{wanted.folder}/part_{number}_0001.csv' (format csv, header)")


if __name__ == "__main__":
    main()
