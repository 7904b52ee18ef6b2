"""Azure Cost Management exports, actual and amortized, of every agreement, to FOCUS.

A row is written with its cost as both BilledCost and EffectiveCost and with its basis beside it. Where a subscription's
period has both exports, the lake takes BilledCost from the actual and EffectiveCost from the amortized rows.
"""

from collections.abc import Mapping

import duckdb

from auditor.normalise.billing import mapping
from auditor.normalise.billing.source import Source, literal

COST = ("costinbillingcurrency", "cost", "pretaxcost")
DATE = ("date", "usagedatetime", "usagedate")
_SUBSCRIPTION = ("subscriptionguid", "subscriptionid")
_RESOURCE = ("resourceid", "instanceid", "instancename")
_ACCELERATOR_SIZE = r"(?i)standard_n[cdgv]"


def recognises(names: Mapping[str, str]) -> bool:
    return (
        any(name in names for name in COST)
        and any(name in names for name in DATE)
        and any(name in names for name in ("metercategory", "meterid", "metername", "consumedservice"))
    )


def keys(source: Source) -> dict[str, str]:
    text = source.text
    date = source.time(*DATE)
    period = source.time("billingperiodstartdate", "billingperiodstart")
    # EA names the enrolment, MCA the billing profile; pay-as-you-go has neither, so the subscription stands for it.
    account = (
        f"lower({text('billingprofileid')})"
        if source.has("costinpricingcurrency", "previousinvoiceid")
        else text("billingaccountid", "billingprofileid")
    )
    subscription = f"lower(regexp_replace({text(*_SUBSCRIPTION)}, '(?i)^/subscriptions/', ''))"
    machine = f"info_value({text('additionalinfo')}, 'ServiceType')"
    return {
        "start_at": f"date_trunc('day', {date})",
        "end_at": f"date_trunc('day', {date}) + interval 1 day",
        "hourly": f"coalesce(regexp_matches({machine}, {literal(_ACCELERATOR_SIZE)}) or {text('consumedservice')} ilike 'microsoft.machinelearning%', false)",
        "period_start": f"coalesce(date_trunc('month', {period}), date_trunc('month', {date}))",
        "payer": f"coalesce({account}, {subscription})",
        "payer_name": text("billingprofilename", "billingaccountname")
        if source.has("costinpricingcurrency")
        else text("billingaccountname"),
        "account": subscription,
        "account_name": text("subscriptionname"),
        "currency": f"upper(coalesce({text('billingcurrencycode', 'billingcurrency', 'currency')}, 'XXX'))",
        "pricing_currency": text("pricingcurrency", "pricingcurrencycode"),
        "charge_type": text("chargetype"),
        "model": text("pricingmodel"),
        "frequency": text("frequency"),
        "publisher_type": text("publishertype"),
        "publisher": text("publishername"),
        "invoice": text("invoiceid"),
        "category": text("metercategory"),
        "subcategory": text("metersubcategory"),
        "meter": text("metername"),
        "meter_id": text("meterid"),
        "product": text("productname", "product"),
        "part_number": text("partnumber", "productid"),
        "consumed_service": text("consumedservice"),
        "resource_id": f"lower({text(*_RESOURCE)})",
        "resource_name": text("resourcename"),
        "resource_type": text("resourcetype"),
        "location": f"lower(replace({text('resourcelocation', 'resourcelocationnormalized', 'location')}, ' ', ''))",
        "zone": text("availabilityzone"),
        "unit": text("unitofmeasure"),
        "tags": text("tags"),
        "info": text("additionalinfo"),
        "reservation_id": text("benefitid", "reservationid"),
        "reservation_name": text("benefitname", "reservationname"),
        "order_id": text("productorderid"),
    }


def measures(source: Source, *, net: bool) -> dict[str, str]:
    return {
        "cost": f"coalesce({source.money(*COST)}, 0)",
        "list_cost": source.money("paygcostinbillingcurrency"),
        "quantity": source.quantity("quantity", "usagequantity"),
    }


# `info` is JSON, in older exports without its braces; keys and values come with stray blanks.
MACROS = """
create or replace temp macro braced(x) as case when x is null or x like '{%' then x else '{' || rtrim(x, ',') || '}' end;
create or replace temp macro info_value(x, wanted) as
    nullif(trim(regexp_extract(x, '(?i)"\\s*' || wanted || '\\s*"\\s*:\\s*"([^"]*)"', 1)), '');
"""


CARRIED = ("kind",)
# Amounts leave a part the part it is.
DECIDES_PARTS = False


def parts(table: str) -> str:
    """SQL of the keys in the table; of a line of Azure comes one FOCUS row."""
    return f"""
    select
        *,
        pricing in ('reservation', 'savingsplan') or kind in ('unusedreservation', 'unusedsavingsplan') as is_committed,
        kind in ('purchase', 'refund') and pricing in ('reservation', 'savingsplan') as pays_commitment,
        'charge' as part
    from (
        select
            *,
            lower(coalesce(charge_type, 'usage')) as kind,
            lower(coalesce(model, '')) as pricing,
            info_value(info, 'ServiceType') as size,
            nullif(trim(reservation_id), '') as commitment
        from {table}
    )
"""


def amounts(parts: str, order: str = "") -> str:
    """SQL of the measures of FOCUS for lines with their part; `order` has no bearing on Azure."""
    return f"""
select
    *,
    cost as BilledCost,
    cost as EffectiveCost,
    coalesce(list_cost, cost) as ListCost,
    cost as ContractedCost,
    case when kind = 'usage' then quantity end as ConsumedQuantity,
    quantity as PricingQuantity,
    null::decimal(38,12) as CommitmentDiscountQuantity
from {parts}
"""


def rows(table: str) -> str:
    """SQL of the FOCUS rows of lines in a table with the columns of `keys` and `measures`."""
    return mapping.rows(amounts(f"({parts(table)})"), DESCRIBED)


DESCRIBED = """
    'azure' as provider,
    payer as BillingAccountId,
    payer_name as BillingAccountName,
    null as BillingAccountType,
    currency as BillingCurrency,
    period_start as BillingPeriodStart,
    period_start + interval 1 month as BillingPeriodEnd,
    account as SubAccountId,
    account_name as SubAccountName,
    null as SubAccountType,
    case
        when kind in ('usage', 'unusedreservation', 'unusedsavingsplan') then 'Usage'
        when kind in ('purchase', 'refund') then 'Purchase'
        when kind = 'tax' then 'Tax'
        when kind = 'credit' then 'Credit'
        else 'Adjustment'
    end as ChargeCategory,
    case when kind = 'refund' then 'Correction' end as ChargeClass,
    product as ChargeDescription,
    case when frequency ilike 'recurring' then 'Recurring' when frequency ilike 'onetime' or frequency ilike 'one-time' then 'One-Time' else 'Usage-Based' end as ChargeFrequency,
    case when not is_committed then null when pricing = 'savingsplan' or kind = 'unusedsavingsplan' then 'Spend' else 'Usage' end as CommitmentDiscountCategory,
    case when is_committed then coalesce(commitment, order_id) end as CommitmentDiscountId,
    case when is_committed then reservation_name end as CommitmentDiscountName,
    case when kind like 'unused%' then 'Unused' when is_committed and kind = 'usage' then 'Used' end as CommitmentDiscountStatus,
    case when not is_committed then null when pricing = 'savingsplan' or kind = 'unusedsavingsplan' then 'Savings Plan' else 'Reservation' end as CommitmentDiscountType,
    null as CommitmentDiscountUnit,
    case when resource_id like '%/capacityreservations/%' then resource_id end as CapacityReservationId,
    case when resource_id like '%/capacityreservations/%' then 'Unused' end as CapacityReservationStatus,
    case when kind = 'usage' then unit end as ConsumedUnit,
    case
        when kind in ('tax', 'credit') then null
        when pays_commitment then 'Standard'
        when is_committed then 'Committed'
        when pricing = 'spot' or regexp_matches(coalesce(meter, ''), '(?i) (spot|low priority)$') then 'Dynamic'
        else 'Standard'
    end as PricingCategory,
    pricing_currency as PricingCurrency,
    unit as PricingUnit,
    null::decimal(30,12) as ListUnitPrice,
    null::decimal(30,12) as ContractedUnitPrice,
    invoice as InvoiceId,
    'Microsoft' as InvoiceIssuerName,
    case when publisher_type ilike 'marketplace' then coalesce(publisher, 'Azure Marketplace') else 'Microsoft' end as ProviderName,
    coalesce(publisher, 'Microsoft') as PublisherName,
    case when publisher_type ilike 'marketplace' then coalesce(publisher, 'Azure Marketplace') else 'Microsoft' end as ServiceProviderName,
    'Microsoft' as HostProviderName,
    nullif(location, '') as RegionId,
    null as RegionName,
    zone as AvailabilityZone,
    case when pays_commitment or kind like 'unused%' then null else resource_id end as ResourceId,
    case when pays_commitment or kind like 'unused%' then null else coalesce(resource_name, nullif(regexp_extract(resource_id, '([^/]+)$', 1), '')) end as ResourceName,
    coalesce(
        lower(info_value(info, 'AMLResourceType')),
        lower(resource_type),
        -- namespace/type/child of .../providers/namespace/type/name/child/name
        nullif(regexp_replace(regexp_extract(resource_id, '/providers/([^/]+(?:/[^/]+/[^/]+)+)$', 1), '/([^/]+)/[^/]+', '/\\1', 'g'), '')
    ) as ResourceType,
    null as ServiceCategory,
    null as ServiceSubcategory,
    coalesce(category, consumed_service) as ServiceName,
    meter_id as SkuId,
    meter as SkuMeter,
    part_number as SkuPriceId,
    braced(tags) as Tags,
    consumed_service as x_ServiceCode,
    null as x_UsageType,
    null as x_Operation,
    coalesce(charge_type, 'Usage') as x_LineItemType,
    product as x_SkuDescription,
    category as x_SkuMeterCategory,
    subcategory as x_SkuMeterSubcategory,
    meter as x_SkuMeterName,
    size as x_InstanceType,
    location as x_FromLocation,
    null as x_ToLocation,
    null as x_TransferType,
    null as x_SubscriptionId,
    basis as x_CostBasis
"""


def basis(con: duckdb.DuckDBPyConnection, source: Source) -> str | None:
    """Whether the rows are actual or amortized costs, from what only one of them has; null where nothing tells.

    Amortized: unused commitments, or a cost on usage that a commitment covers. Actual: a commitment's purchase, or
    covered usage at no cost.
    """
    unused, covered, free, purchases = con.execute(basis_query(source)).fetchone() or (0, 0, 0, 0)
    if purchases and not unused and not covered:
        return "actual"
    if purchases:
        return None
    return "amortized" if unused or covered else "actual" if free else None


def basis_query(source: Source) -> str:
    """SQL that counts what tells the two kinds of export apart."""
    kind, model = (
        f"lower(coalesce({source.text('chargetype')}, 'usage'))",
        f"lower(coalesce({source.text('pricingmodel')}, ''))",
    )
    committed = f"{model} in ('reservation', 'savingsplan')"
    cost = source.money(*COST)
    return f"""
        select
            count(*) filter (where {kind} in ('unusedreservation', 'unusedsavingsplan')),
            count(*) filter (where {kind} = 'usage' and {committed} and {cost} <> 0),
            count(*) filter (where {kind} = 'usage' and {committed} and {cost} = 0),
            count(*) filter (where {kind} in ('purchase', 'refund') and {committed})
        from {source.relation}
    """
