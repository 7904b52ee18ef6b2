"""FOCUS 1.0 to 1.3 cost and usage data of any vendor, as the vendor filled it."""

from collections.abc import Mapping

from auditor.focus import CHARGE_COLUMNS
from auditor.normalise.billing import mapping, nested
from auditor.normalise.billing.source import Source, literal

_COMPUTE = r"(?i)compute|ec2|virtual machines|sagemaker|machine learning|vertex|tpu"

JSON_COLUMNS = {name: "VARCHAR" for name in CHARGE_COLUMNS if name[0].isupper() or name.startswith("x_")}


def recognises(names: Mapping[str, str]) -> bool:
    return missing(names) is None


def missing(names: Mapping[str, str]) -> str | None:
    """Which of the columns that make a FOCUS bill are not there, as the end of a sentence; None where all are."""
    lacking = [column for column in ("BilledCost", "ChargeCategory") if column.lower() not in names]
    if not any(name in names for name in ("chargeperiodstart", "billingperiodstart")):
        lacking.append("ChargePeriodStart")
    return f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing" if lacking else None


def version(names: Mapping[str, str]) -> str:
    """The newest FOCUS version some of whose own columns are there."""
    if any(
        name in names for name in ("serviceprovidername", "hostprovidername", "contractapplied", "allocatedmethodid")
    ):
        return "1.3"
    if any(name in names for name in ("invoiceid", "billingaccounttype", "pricingcurrency")):
        return "1.2"
    if any(name in names for name in ("capacityreservationid", "skumeter", "servicesubcategory")):
        return "1.1"
    return "1.0"


_MAPPED = [
    "BillingAccountName",
    "BillingAccountType",
    "SubAccountName",
    "SubAccountType",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ConsumedUnit",
    "PricingCategory",
    "PricingCurrency",
    "PricingUnit",
    "InvoiceId",
    "InvoiceIssuerName",
    "ProviderName",
    "PublisherName",
    "ServiceProviderName",
    "HostProviderName",
    "RegionId",
    "RegionName",
    "AvailabilityZone",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceSubcategory",
    "ServiceName",
    "SkuId",
    "SkuMeter",
    "SkuPriceId",
]


def keys(source: Source) -> dict[str, str]:
    text = source.text
    # A line without a readable date of its own is counted as such, not dated by its period in silence.
    start = source.time("chargeperiodstart" if source.has("chargeperiodstart") else "billingperiodstart")
    provider = text("serviceprovidername", "providername", "publishername", "invoiceissuername")
    mapped = {f"f_{name}": text(name.lower()) for name in _MAPPED}
    return {
        **mapped,
        "start_at": start,
        "end_at": source.end_time("chargeperiodend"),
        "bill_day": f"({source.time('chargeperiodstart', 'billingperiodstart')})::date",
        "hourly": f"coalesce(regexp_matches(concat_ws(' ', {text('servicecategory')}, {text('servicename')}, {text('xservicecode')}), {literal(_COMPUTE)}), false)",
        "period_start": f"coalesce({source.time('billingperiodstart')}, date_trunc('month', {start}))",
        "period_end": source.time("billingperiodend"),
        "payer": text("billingaccountid"),
        "account": text("subaccountid"),
        "currency": f"upper(coalesce({text('billingcurrency')}, 'XXX'))",
        "provider": f"""case
            when {provider} ilike 'aws%' or {provider} ilike 'amazon%' then 'aws'
            when {provider} ilike 'google%' or {provider} ilike 'gcp%' then 'gcp'
            when {provider} ilike 'microsoft%' or {provider} ilike 'azure%' then 'azure'
            else lower(coalesce({provider}, 'unknown'))
        end""",
        "tags": _json(source, "tags"),
        "service_code": text("xservicecode", "xconsumedservice"),
        "usage_type": text("xusagetype", "skumeter"),
        "operation": text("xoperation"),
        "meter_category": text("xskumetercategory"),
        "meter_subcategory": text("xskumetersubcategory"),
        "meter_name": text("xskumetername"),
        "sku_details": _json(source, "xskudetails"),
        "price_details": _json(source, "skupricedetails"),
        "from_location": text("xfromlocation"),
        "to_location": text("xtolocation"),
        "transfer_type": text("xtransfertype"),
    }


def _json(source: Source, name: str) -> str:
    kind = source.columns.get(name, "")
    mapped = nested.as_json(name, kind)
    if mapped is not None:
        return mapped
    return f"nullif({source.text(name)}, '{{}}')" if kind else "null::varchar"


def measures(source: Source, *, net: bool) -> dict[str, str]:
    billed = f"coalesce({source.money('billedcost')}, 0)"
    return {
        "billed": billed,
        "effective": f"coalesce({source.money('effectivecost')}, {billed})",
        "list_cost": f"coalesce({source.money('listcost')}, {billed})",
        "contracted": f"coalesce({source.money('contractedcost')}, {billed})",
        "consumed": source.quantity("consumedquantity"),
        "priced": source.quantity("pricingquantity"),
        "commitment_quantity": source.quantity("commitmentdiscountquantity"),
    }


MACROS = ""


CARRIED: tuple[str, ...] = ()
# Amounts leave a part the part it is.
DECIDES_PARTS = False


def parts(table: str) -> str:
    """SQL of the keys in the table; a line is a FOCUS row already."""
    return f"select *, 'charge' as part from {table}"


def amounts(parts: str, order: str = "") -> str:
    """SQL of the measures of FOCUS for lines with their part, as the vendor filled them."""
    return f"""
select
    *,
    billed as BilledCost,
    effective as EffectiveCost,
    list_cost as ListCost,
    contracted as ContractedCost,
    consumed as ConsumedQuantity,
    priced as PricingQuantity,
    commitment_quantity as CommitmentDiscountQuantity
from {parts}
"""


def rows(table: str) -> str:
    """SQL of the FOCUS rows of lines in a table with the columns of `keys` and `measures`."""
    return mapping.rows(amounts(f"({parts(table)})"), DESCRIBED)


def _described() -> str:
    machine = (
        "coalesce(json_extract_string(try_cast(price_details as json), '$.InstanceType'), "
        'nullif(regexp_extract(sku_details, \'(?i)"\\s*ServiceType\\s*"\\s*:\\s*"([^"]*)"\', 1), \'\'), '
        "nullif(regexp_extract(usage_type, ':((?:ml\\.)?[a-z][a-z0-9-]*\\.[a-z0-9-]+)$', 1), ''))"
    )
    copied = ",\n    ".join(
        f"f_{name} as {name}"
        for name in _MAPPED
        if name not in ("ResourceId", "ServiceProviderName", "HostProviderName")
    )
    return f"""
    provider,
    payer as BillingAccountId,
    currency as BillingCurrency,
    period_start as BillingPeriodStart,
    coalesce(period_end, period_start + interval 1 month) as BillingPeriodEnd,
    account as SubAccountId,
    {copied},
    -- Azure writes one id in several cases; compared ids must be one.
    case when provider = 'azure' then lower(f_ResourceId) else f_ResourceId end as ResourceId,
    coalesce(f_ServiceProviderName, f_ProviderName) as ServiceProviderName,
    coalesce(f_HostProviderName, f_ProviderName) as HostProviderName,
    null::decimal(30,12) as ListUnitPrice,
    null::decimal(30,12) as ContractedUnitPrice,
    tags as Tags,
    service_code as x_ServiceCode,
    usage_type as x_UsageType,
    operation as x_Operation,
    f_ChargeCategory as x_LineItemType,
    f_ChargeDescription as x_SkuDescription,
    meter_category as x_SkuMeterCategory,
    meter_subcategory as x_SkuMeterSubcategory,
    meter_name as x_SkuMeterName,
    {machine} as x_InstanceType,
    from_location as x_FromLocation,
    to_location as x_ToLocation,
    transfer_type as x_TransferType,
    null as x_SubscriptionId,
    null as x_CostBasis
"""


DESCRIBED = _described()
