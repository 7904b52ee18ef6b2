"""AWS Cost and Usage Report, legacy and 2.0, to FOCUS.

Line item types become FOCUS rows as AWS's amortisation formula and the FOCUS specification have it; it is not one to
one: a reservation fee also yields its unused part, a Savings Plan negation yields nothing but the remainder that it
fails to cancel. Amounts are all net where the export fills the net columns, else all gross.
"""

from auditor.normalise.billing import mapping, nested
from auditor.normalise.billing.source import Source, literal, quote

# Columns without which a file is no CUR, by canonical name.
REQUIRED = ("lineitemunblendedcost", "lineitemusagestartdate")

_ACCELERATORS = r"(^|[^a-z])(p[2-9]|g[2-9]|gr[2-9]|trn|inf|dl[12]|vt1|f[12])[a-z0-9-]*\.(metal|[0-9]*(nano|micro|small|medium|large|xlarge))"
_NEGATABLE = "('SavingsPlanCoveredUsage', 'SavingsPlanNegation')"


def is_net(source: Source) -> str | None:
    """SQL that is true where the net columns may be used for all rows; None where there are none."""
    if source.is_empty("lineitemnetunblendedcost"):
        return None
    net, gross = source.money("lineitemnetunblendedcost"), source.money("lineitemunblendedcost")
    return f"count({net}) > 0 and count(*) filter (where {net} is null and {gross} <> 0) = 0"


def keys(source: Source) -> dict[str, str]:
    """What one aggregated row is about: SQL over the source, by the names that `rows` reads."""
    text = source.text
    usage_type = text("lineitemusagetype")
    start = source.time("lineitemusagestartdate")
    return {
        "start_at": start,
        "end_at": source.end_time("lineitemusageenddate"),
        "hourly": f"coalesce(regexp_matches({usage_type}, {literal(_ACCELERATORS)}) or {text('lineitemlineitemtype')} = 'SavingsPlanRecurringFee', false)",
        "period_start": f"coalesce({source.time('billbillingperiodstartdate')}, date_trunc('month', {start}))",
        "period_end": source.time("billbillingperiodenddate"),
        "is_late": f"coalesce({text('lineitemlineitemtype')} = 'Refund' and {source.time('billbillingperiodenddate')} < date_trunc('day', {start}), false)",
        "payer": text("billpayeraccountid"),
        "payer_name": text("billpayeraccountname"),
        "account": text("lineitemusageaccountid", "billpayeraccountid"),
        "account_name": text("lineitemusageaccountname"),
        "currency": f"upper(coalesce({text('lineitemcurrencycode', 'pricingcurrency')}, 'USD'))",
        "kind": f"coalesce({text('lineitemlineitemtype')}, 'Usage')",
        "product_code": text("lineitemproductcode"),
        "usage_type": usage_type,
        "operation": text("lineitemoperation"),
        "description": text("lineitemlineitemdescription"),
        "resource_id": text("lineitemresourceid"),
        "zone": text("lineitemavailabilityzone"),
        "tags": _tags(source),
        "invoice": text("billinvoiceid"),
        "issuer": text("billinvoicingentity"),
        "entity": text("billbillingentity"),
        "legal_entity": text("lineitemlegalentity"),
        "rate_code": text("pricingratecode"),
        "unit": text("pricingunit"),
        "sku": text("productsku"),
        "region": _product(source, "productregioncode", "region", "productregion"),
        "service_name": _product(source, "productproductname", "product_name"),
        "instance_type": _product(source, "productinstancetype", "instance_type"),
        "from_location": _product(source, "productfromregioncode", "from_region_code", "productfromlocation"),
        "to_location": _product(source, "producttoregioncode", "to_region_code", "producttolocation"),
        "transfer_type": _product(source, "producttransfertype", "transfer_type"),
        "reservation": text("reservationreservationarn"),
        "savings_plan": text("savingsplansavingsplanarn"),
        "commitment_end": source.time("savingsplanendtime", "reservationendtime"),
        "capacity_reservation": text("capacityreservationcapacityreservationarn"),
        "capacity_status": text("capacityreservationcapacityreservationstatus"),
    }


def implied(source: Source) -> dict[str, tuple[str, ...]]:
    """Product attributes are what AWS says of a SKU, or of a product code where there is none, with its usage type and operation.

    So the lines of one key have the same, and the long map need not be read for each of them.
    """
    decides = ("productsku", "lineitemproductcode", "lineitemusagetype", "lineitemoperation")
    return {"product": decides} if all(source.has(name) for name in decides) else {}


def measures(source: Source, *, net: bool) -> dict[str, str]:
    """What is added up over the rows of one key."""

    def money(gross: str, netted: str) -> str:
        amount = source.money(netted, gross) if net else source.money(gross)
        return f"coalesce({amount}, 0)"

    return {
        "unblended": money("lineitemunblendedcost", "lineitemnetunblendedcost"),
        "on_demand": source.money("pricingpubliconDemandcost".lower()),
        "contracted": f"coalesce({source.money('lineitemunblendedcost')}, 0)",
        "reservation_effective": money("reservationeffectivecost", "reservationneteffectivecost"),
        "reservation_unused": money(
            "reservationunusedamortizedupfrontfeeforbillingperiod",
            "reservationnetunusedamortizedupfrontfeeforbillingperiod",
        )
        + " + "
        + money("reservationunusedrecurringfee", "reservationnetunusedrecurringfee"),
        "savings_plan_effective": money(
            "savingsplansavingsplaneffectivecost", "savingsplannetsavingsplaneffectivecost"
        ),
        "reservation_upfront": money(
            "reservationamortizedupfrontfeeforbillingperiod", "reservationnetamortizedupfrontfeeforbillingperiod"
        ),
        "savings_plan_used": f"coalesce({source.money('savingsplanusedcommitment')}, 0)",
        "savings_plan_unused": f"coalesce({source.money('savingsplantotalcommitmenttodate')}, 0) - coalesce({source.money('savingsplanusedcommitment')}, 0)",
        "quantity": source.quantity("lineitemusageamount"),
    }


def _product(source: Source, column: str, key: str, fallback: str | None = None) -> str:
    """A product attribute: a column of its own, or a key of the product map."""
    found = [source.text(name) for name in (column, fallback) if name and source.has(name)]
    mapped = nested.value("product", source.columns.get("product", ""), key)
    if mapped is not None:
        found.append(mapped)
    return f"coalesce({', '.join(found)})" if found else "null::varchar"


def _tags(source: Source) -> str:
    kind = source.columns.get("resourcetags", "")
    mapped = nested.as_json("resourcetags", kind)
    if mapped is not None:
        return mapped
    if kind:
        return "case when resourcetags like '{%' and length(resourcetags) > 2 then resourcetags end"
    tags = [
        (name, header.partition("/")[2]) for name, header in source.headers.items() if name.startswith("resourcetags/")
    ]
    # A legacy report in Parquet or Athena spelling has lost the slash: resource_tags_user_team.
    tags += [
        (name, header[len("resource_tags_") :])
        for name, header in source.headers.items()
        if header.lower().startswith("resource_tags_")
    ]
    tags = [(name, key) for name, key in tags if not source.is_empty(name)]
    if not tags:
        return "null::varchar"
    entries = ", ".join(f"{{'k': {literal(key)}, 'v': nullif({quote(name)}, '')}}" for name, key in tags)
    # The JSON text is made once for each key of the aggregation, from the plain columns grouped here.
    return f"nullif(to_json(map_from_entries(list_filter([{entries}], lambda e: e.v is not null)))::varchar, '{{}}')"


# What `amounts` reads of a part beside the measures.
CARRIED = ("kind", "pays_commitment")
# Amounts leave a part the part it is.
DECIDES_PARTS = False


def parts(table: str) -> str:
    """SQL of the keys in the table, one row for each FOCUS row that a line of the key may become."""
    return f"""
    select
        *,
        unnest(
            case
                when kind = 'SavingsPlanNegation' then ['negation']
                when kind = 'SavingsPlanCoveredUsage' then ['charge', 'negation']
                when kind in ('RIFee', 'SavingsPlanRecurringFee') then ['charge', 'unused']
                else ['charge']
            end
        ) as part,
        coalesce(savings_plan, reservation) as commitment,
        coalesce(nullif(instance_type, ''), regexp_extract(usage_type, ':((?:ml\\.)?[a-z][a-z0-9-]*\\.[a-z0-9-]+)$', 1)) as machine,
        -- A fee that buys future usage costs nothing effectively: its usage rows bear the cost as they happen.
        (kind in ('RIFee', 'SavingsPlanRecurringFee', 'SavingsPlanUpfrontFee'))
        or (kind = 'Fee' and (reservation is not null or resource_id like '%:reserved-instances/%'))
        or (
            kind = 'Refund'
            and (
                reservation is not null or savings_plan is not null or product_code like '%SavingsPlans'
                or regexp_matches(description, '(?i)refund for .*(savings plan|reserved|one-time fee)')
            )
        ) as pays_commitment
    from {table}
"""


def amounts(parts: str, order: str = "") -> str:
    """SQL of the measures of FOCUS for lines with their part; `order` has no bearing on AWS."""
    return f"""
with priced as (
    select
        *,
        case part
            when 'unused' then 0
            when 'negation' then unblended
            else case when kind = 'SavingsPlanCoveredUsage' then 0 else unblended end
        end as billed,
        case part
            when 'negation' then 0
            when 'unused' then case when kind = 'RIFee' then reservation_unused else savings_plan_unused end
            else case
                when kind = 'DiscountedUsage' then reservation_effective
                when kind = 'SavingsPlanCoveredUsage' then savings_plan_effective
                when pays_commitment then 0
                else unblended
            end
        end as effective
    from {parts}
)

select
    * replace (case when part = 'unused' or (part = 'negation' and kind <> 'SavingsPlanNegation') then 0 else source_rows end as source_rows),
    billed as BilledCost,
    effective as EffectiveCost,
    case
        when part <> 'charge' then 0
        when kind in ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') then coalesce(on_demand, contracted)
        else billed
    end as ListCost,
    case
        when part <> 'charge' then 0
        when kind = 'DiscountedUsage' then coalesce(on_demand, 0)
        when kind in ('Usage', 'SavingsPlanCoveredUsage') then contracted
        else billed
    end as ContractedCost,
    case when part = 'charge' and kind in ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') then quantity end as ConsumedQuantity,
    case when part = 'charge' and kind not in ('Tax', 'Credit', 'Refund') then quantity end as PricingQuantity,
    null::decimal(38,12) as CommitmentDiscountQuantity
from priced
where part <> 'unused' or effective <> 0
"""


def rows(table: str) -> str:
    """SQL of the FOCUS rows of lines in a table with the columns of `keys` and `measures`."""
    return mapping.rows(amounts(f"({parts(table)})"), DESCRIBED)


DESCRIBED = """
    'aws' as provider,
    payer as BillingAccountId,
    payer_name as BillingAccountName,
    null as BillingAccountType,
    currency as BillingCurrency,
    period_start as BillingPeriodStart,
    coalesce(period_end, period_start + interval 1 month) as BillingPeriodEnd,
    account as SubAccountId,
    account_name as SubAccountName,
    null as SubAccountType,
    case
        when part = 'negation' then 'Adjustment'
        when part = 'unused' then 'Usage'
        when kind in ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') then 'Usage'
        when kind in ('RIFee', 'Fee', 'SavingsPlanRecurringFee', 'SavingsPlanUpfrontFee', 'FlatRateSubscription') then 'Purchase'
        when kind = 'Credit' then 'Credit'
        when kind = 'Tax' then 'Tax'
        when kind = 'Refund' then case when pays_commitment then 'Purchase' else 'Usage' end
        else 'Adjustment'
    end as ChargeCategory,
    case when is_late and invoice is not null then 'Correction' end as ChargeClass,
    case when part = 'negation' then 'Savings Plan usage that its negation does not cancel' else description end as ChargeDescription,
    case
        when kind in ('RIFee', 'SavingsPlanRecurringFee', 'FlatRateSubscription') then 'Recurring'
        when kind in ('Fee', 'SavingsPlanUpfrontFee', 'Credit', 'Refund') then 'One-Time'
        else 'Usage-Based'
    end as ChargeFrequency,
    case
        when part = 'negation' or commitment is null then null
        when savings_plan is not null then 'Spend'
        else 'Usage'
    end as CommitmentDiscountCategory,
    case when part = 'negation' then null else coalesce(commitment, case when pays_commitment and kind = 'Fee' then resource_id end) end as CommitmentDiscountId,
    null as CommitmentDiscountName,
    case
        when part = 'unused' then 'Unused'
        when part = 'charge' and kind in ('DiscountedUsage', 'SavingsPlanCoveredUsage') then 'Used'
    end as CommitmentDiscountStatus,
    case
        when part = 'negation' or commitment is null then null
        when savings_plan is not null then 'Savings Plan'
        else 'Reserved Instance'
    end as CommitmentDiscountType,
    null as CommitmentDiscountUnit,
    case when part <> 'negation' then commitment_end end as x_CommitmentDiscountEnd,
    capacity_reservation as CapacityReservationId,
    case
        when capacity_reservation is null then null
        when regexp_matches(usage_type, '(^|-)Unused(Box|Ded)') then 'Unused'
        else 'Used'
    end as CapacityReservationStatus,
    case when part = 'charge' and kind in ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') then unit end as ConsumedUnit,
    case
        when kind in ('Tax', 'Credit', 'Refund') or part = 'negation' then null
        when part = 'unused' or kind in ('DiscountedUsage', 'SavingsPlanCoveredUsage') then 'Committed'
        when regexp_matches(usage_type, '(^|-|:)SpotUsage') then 'Dynamic'
        else 'Standard'
    end as PricingCategory,
    null as PricingCurrency,
    unit as PricingUnit,
    null::decimal(30,12) as ListUnitPrice,
    null::decimal(30,12) as ContractedUnitPrice,
    invoice as InvoiceId,
    issuer as InvoiceIssuerName,
    case when entity like 'AWS Marketplace%' then coalesce(legal_entity, 'AWS Marketplace') else 'AWS' end as ProviderName,
    legal_entity as PublisherName,
    case when entity like 'AWS Marketplace%' then coalesce(legal_entity, 'AWS Marketplace') else 'AWS' end as ServiceProviderName,
    'AWS' as HostProviderName,
    coalesce(
        region,
        nullif(regexp_extract(zone, '^([a-z]+(?:-[a-z]+)+-[0-9]+)', 1), ''),
        case when resource_id like 'arn:%' then nullif(split_part(resource_id, ':', 4), '') end
    ) as RegionId,
    null as RegionName,
    zone as AvailabilityZone,
    case when part = 'charge' and not pays_commitment then resource_id end as ResourceId,
    null as ResourceName,
    null as ResourceType,
    null as ServiceCategory,
    null as ServiceSubcategory,
    coalesce(service_name, product_code) as ServiceName,
    sku as SkuId,
    usage_type as SkuMeter,
    rate_code as SkuPriceId,
    case when part = 'charge' then tags end as Tags,
    product_code as x_ServiceCode,
    usage_type as x_UsageType,
    operation as x_Operation,
    case when part = 'negation' then 'SavingsPlanNegation' else kind end as x_LineItemType,
    null as x_SkuDescription,
    null as x_SkuMeterCategory,
    null as x_SkuMeterSubcategory,
    null as x_SkuMeterName,
    nullif(machine, '') as x_InstanceType,
    from_location as x_FromLocation,
    to_location as x_ToLocation,
    transfer_type as x_TransferType,
    null as x_SubscriptionId,
    null as x_CostBasis
"""
