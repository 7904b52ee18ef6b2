"""Google Cloud billing export (standard and detailed), nested or flattened, to FOCUS.

BilledCost is the cost with its credits, as the invoice has it; only promotional credits are charges of their own.
EffectiveCost is the same but for the fees of resource-based commitments, which are allocated to the rows that bear
their COMMITTED_USAGE_DISCOUNT credit: that moves cost between rows and leaves every total as it was.
"""

from collections.abc import Mapping

from auditor.landing import Shape
from auditor.normalise.billing import mapping
from auditor.normalise.billing.source import Source, literal, quote

_PAIR = "STRUCT(key VARCHAR, value VARCHAR)[]"
# Amounts are read as text: the JSON of a FLOAT64 has more digits than a binary double keeps through a sum.
JSON_COLUMNS = {
    "billing_account_id": "VARCHAR",
    "service": "STRUCT(id VARCHAR, description VARCHAR)",
    "sku": "STRUCT(id VARCHAR, description VARCHAR)",
    "usage_start_time": "VARCHAR",
    "usage_end_time": "VARCHAR",
    "project": 'STRUCT(id VARCHAR, "number" VARCHAR, name VARCHAR)',
    "labels": _PAIR,
    "system_labels": _PAIR,
    "location": "STRUCT(location VARCHAR, country VARCHAR, region VARCHAR, zone VARCHAR)",
    "seller_name": "VARCHAR",
    "export_time": "VARCHAR",
    "cost": "VARCHAR",
    "currency": "VARCHAR",
    "usage": "STRUCT(amount VARCHAR, unit VARCHAR, amount_in_pricing_units VARCHAR, pricing_unit VARCHAR)",
    "credits": "STRUCT(id VARCHAR, full_name VARCHAR, type VARCHAR, name VARCHAR, amount VARCHAR)[]",
    "invoice": "STRUCT(month VARCHAR, publisher_type VARCHAR)",
    "cost_type": "VARCHAR",
    "adjustment_info": "STRUCT(id VARCHAR, description VARCHAR, mode VARCHAR, type VARCHAR)",
    "resource": "STRUCT(name VARCHAR, global_name VARCHAR)",
    "price": "STRUCT(list_price VARCHAR, effective_price VARCHAR)",
    "cost_at_list": "VARCHAR",
    "cost_at_effective_price_default": "VARCHAR",
    "subscription": "STRUCT(instance_id VARCHAR)",
    "consumption_model": "STRUCT(id VARCHAR, description VARCHAR)",
}
_LISTS = {
    "credits": '[{"id":"VARCHAR","full_name":"VARCHAR","type":"VARCHAR","name":"VARCHAR","amount":"VARCHAR"}]',
    "labels": '[{"key":"VARCHAR","value":"VARCHAR"}]',
    "systemlabels": '[{"key":"VARCHAR","value":"VARCHAR"}]',
}
SAID_ALONE = {"service": "description", "sku": "description", "project": "id"}  # a column `service` with its name
_ONE_CREDIT = "struct_pack(id := null::varchar, full_name := null::varchar, type := null::varchar, name := null::varchar, amount := {amount})"
# Lines of machines that bear accelerators are kept by the hour, with the N1 lines a GPU may be attached to.
_ACCELERATOR_SKU = r"(?i)\b(gpu|tpu|tpuv?[0-9]+[a-z]*)\b|^nvidia|accelerator"
_ACCELERATOR_MACHINE = r"^(a[2-9][a-z]*|g[2-9]|ct[0-9a-z]+|tpu[0-9a-z]*|n1)-"
_PROMOTION = "coalesce(upper(c.type) = 'PROMOTION', c.name ilike '%promotion%' or c.name ilike '%free trial%')"


def recognises(names: Mapping[str, str], shape: Shape) -> bool:
    if (
        "cost" not in names
        or "usagestarttime" not in names
        or shape.form not in ("csv", "parquet", "avro", "jsonl", "json", "json_stream")
    ):
        return False
    return any(name in names for name in ("sku", "skuid", "skudescription")) and any(
        name in names for name in ("service", "serviceid", "servicedescription")
    )


def _column(source: Source, name: str) -> str | None:
    """The column of this snake-case name under the canonical or the JSON spelling."""
    flat = name.replace("_", "")
    return name if name in source.columns else flat if flat in source.columns else None


def _field(source: Source, parent: str, child: str) -> str:
    """SQL text of `parent.child`, whether it is a struct, JSON text, or a flattened column of its own."""
    column = _column(source, parent)
    kind = source.columns.get(column, "") if column else ""
    if column and kind.startswith("STRUCT") and f"{child} " in kind.replace('"', "").lower():
        return f"nullif({quote(column)}.{quote(child)}::varchar, '')"
    flat = (parent + child).replace("_", "")
    if column and kind == "VARCHAR":
        plain = f"blank_to_null({quote(column)})" if child == SAID_ALONE.get(parent) else "null"
        inner = f"case when {quote(column)} like '{{%' then json_extract_string(json_text({quote(column)}), '$.{child}') else {plain} end"
        return f"coalesce({source.text(flat)}, {inner})" if flat in source.columns else inner
    return source.text(flat)


def _plain(source: Source, name: str) -> str:
    return source.text(_column(source, name) or name)


def _list(source: Source, name: str) -> str:
    """SQL list of structs, from a nested column or from its JSON text; of credits also from their sum, a plain number."""
    column = _column(source, name)
    if column is None:
        return "null"
    kind, text = source.columns[column], quote(column)
    is_sum = "false"
    if (
        kind.lower().replace('"', "").startswith("struct(list struct(element ")
    ):  # Parquet's own nesting of lists, unmarked
        return f"list_transform({text}.list, lambda e: e.element)"
    if kind != "VARCHAR":
        if kind.endswith("[]") or name != "credits":
            return text
        text, is_sum = f"{text}::varchar", f"{text} is not null"
    elif name == "credits":
        is_sum = f"blank_to_null({text}) is not null"
    structure = literal(_LISTS[name.replace("_", "")])
    listed = f"from_json(json_text({text}), {structure})"
    if name != "credits":  # a label that is no JSON ends no bill
        return f"case when ltrim({text}) like '[%' then try({listed}) end"
    return f"case when ltrim({text}) like '[%' then {listed} when {is_sum} then [{_ONE_CREDIT.format(amount=text)}] end"


MACROS = """
-- What Python prints of a list of dicts: `[{'name': "Bob's", 'id': None}]`. Texts with an apostrophe stand in double quotes.
create or replace temp macro without_apostrophe(x) as
    regexp_replace(x, '([\\[{:,]\\s*)"([^"'']*)''([^"]*)"', '\\1"\\2\\\\u0027\\3"', 'g');
create or replace temp macro in_single_quotes(x) as
    regexp_replace(without_apostrophe(without_apostrophe(without_apostrophe(replace(x, '\\''', '\\u0027')))), '([\\[{:,]\\s*)"([^"]*u0027[^"]*)"', '\\1''\\2''', 'g');
create or replace temp macro python_json(x) as
    replace(replace(replace(replace(replace(x, '"', '\\"'), '''', '"'), ': None', ': null'), ': True', ': true'), ': False', ': false');
create or replace temp macro json_text(x) as case when x like '%{''%' then python_json(in_single_quotes(x)) else x end;
-- DuckDB takes 1_0 for ten, which no bill means.
create or replace temp macro credit_amount(x) as
    case when not contains(x::varchar, '_') then try_cast(x::varchar as decimal(30,12)) end;
create or replace temp macro sum_of_credits(cs) as
    coalesce(list_sum(list_transform(cs, lambda c: coalesce(credit_amount(c.amount), 0))), 0)::decimal(30,12);
create or replace temp macro has_no_amount(cs) as
    coalesce(list_bool_or(list_transform(cs, lambda c: c.amount is not null and credit_amount(c.amount) is null)), false);
create or replace temp macro label(ls, wanted) as list_extract(list_filter(ls, lambda l: l.key = wanted), 1).value;
create or replace temp macro labels_json(ls) as
    case when len(ls) > 0 then
        '{' || array_to_string(list_sort(list_transform(ls, lambda l: to_json(l.key)::varchar || ':' || to_json(coalesce(l.value, ''))::varchar)), ',') || '}'
    end;
"""


def _credits(source: Source, condition: str) -> str:
    credits = _list(source, "credits")
    if credits == "null":
        flat = source.money("creditsamount")
        promotion = f"coalesce({source.text('creditstype')} = 'PROMOTION', false)"
        wanted = {"promotion": promotion, "committed": "false"}.get(condition, f"not {promotion}")
        return f"case when {wanted} then coalesce({flat}, 0) else 0 end"
    test = {
        "promotion": _PROMOTION,
        "committed": "(upper(c.type) = 'COMMITTED_USAGE_DISCOUNT' or (c.type is null and c.name ilike 'committed us%'))",
        "price": f"not coalesce({_PROMOTION}, false)",
    }[condition]
    return f"sum_of_credits(list_filter({credits}, lambda c: coalesce({test}, false)))"


def keys(source: Source) -> dict[str, str]:
    system = _list(source, "system_labels")
    labels = _list(source, "labels")
    spec = f"label({system}, 'compute.googleapis.com/machine_spec')" if system != "null" else "null::varchar"
    sku = _field(source, "sku", "description")
    start = source.time(_column(source, "usage_start_time") or "usagestarttime")
    invoice = _field(source, "invoice", "month")
    return {
        "start_at": start,
        "end_at": source.end_time(_column(source, "usage_end_time") or "usageendtime"),
        "bill_day": f"({source.time(_column(source, 'export_time') or 'exporttime')})::date",
        "hourly": f"coalesce(regexp_matches({sku}, {literal(_ACCELERATOR_SKU)}) or regexp_matches({spec}, {literal(_ACCELERATOR_MACHINE)}), false)",
        "period_start": f"coalesce(case when {invoice} like '20%' then try_strptime({invoice}, '%Y%m') end, date_trunc('month', {start}))",
        "is_late": f"coalesce({_field(source, 'adjustment_info', 'type')} like '%\\_CORRECTION' escape '\\' and {invoice} like '20%' and try_strptime({invoice}, '%Y%m') > date_trunc('month', {start}), false)",
        "payer": _plain(source, "billing_account_id"),
        "account": _field(source, "project", "id"),
        "account_name": _field(source, "project", "name"),
        "currency": f"upper(coalesce({_plain(source, 'currency')}, 'XXX'))",
        "kind": f"coalesce({_plain(source, 'cost_type')}, 'regular')",
        "adjustment": _field(source, "adjustment_info", "type"),
        "service_id": _field(source, "service", "id"),
        "service_name": _field(source, "service", "description"),
        "sku_id": _field(source, "sku", "id"),
        "sku": sku,
        "resource_id": f"coalesce({_field(source, 'resource', 'global_name')}, {_field(source, 'resource', 'name')})",
        "resource_name": _field(source, "resource", "name"),
        "region": _field(source, "location", "region"),
        "place": _field(source, "location", "location"),
        "zone": _field(source, "location", "zone"),
        "tags": f"labels_json({labels})" if labels != "null" else "null::varchar",
        "spec": spec,
        "unused_reservation": f"label({system}, 'compute.googleapis.com/is_unused_reservation')"
        if system != "null"
        else "null::varchar",
        "reservation": f"label({system}, 'compute.googleapis.com/reservation_name')"
        if system != "null"
        else "null::varchar",
        "pricing_unit": f"coalesce({_field(source, 'usage', 'pricing_unit')}, {_field(source, 'usage', 'unit')})",
        "subscription": _field(source, "subscription", "instance_id"),
        "model": _field(source, "consumption_model", "description"),
        "seller": _plain(source, "seller_name"),
        "is_committed": f"({_credits(source, 'committed')}) <> 0",
    }


def measures(source: Source, *, net: bool) -> dict[str, str]:
    def number(text: str, kind: str) -> str:
        return f"{kind}_of_text({text})"

    cost_column = _column(source, "cost") or "cost"
    quantity = f"coalesce({_field(source, 'usage', 'amount_in_pricing_units')}, {_field(source, 'usage', 'amount')})"
    return {
        "cost": f"coalesce({source.money(cost_column)}, 0)",
        "credits": _credits(source, "price"),
        "committed_credits": _credits(source, "committed"),
        "promotion": _credits(source, "promotion"),
        "list_cost": source.money(_column(source, "cost_at_list") or "costatlist"),
        "contracted": source.money(_column(source, "cost_at_effective_price_default") or "costateffectivepricedefault"),
        "quantity": number(quantity, "quantity"),
    }


# What `amounts` reads of a part beside the measures.
CARRIED = ("kind", "is_fee", "is_resource_fee", "covering")
# Which part a fee is, its amount decides.
DECIDES_PARTS = True


def parts(table: str) -> str:
    """SQL of the keys in the table, one row for each FOCUS row that a line of the key may become."""
    return f"""
    select
        *,
        -- A fee is borne by the usage that its commitment covers; where one of these is not known, by none.
        payer || chr(31) || currency || chr(31) || period_start::varchar || chr(31) || account || chr(31) || region || chr(31) || covered_kind || chr(31) || covered_family
            as covering,
        -- `unused` is a fee that no usage bears; which fees that are, only their amounts tell.
        unnest(case when is_fee then ['charge', 'unused', 'promotion'] else ['charge', 'promotion'] end) as part
    from (
        select
            *,
            coalesce(regexp_matches(sku, '(?i)^commitment\\b|\\bcommitment - dollar based|committed use discount.* fee|\\bCUDs? .*fee'), false) as is_fee,
            coalesce(regexp_matches(sku, '(?i)^commitment v[0-9]+:'), false) as is_resource_fee,
            coalesce(regexp_matches(sku, '(?i)\\b(spot )?preemptible\\b|\\bspot\\b'), false) as is_spot,
            -- What a resource-based commitment covers: its machine series and kind of resource, from either SKU's text.
            case
                when regexp_matches(sku, '(?i)\\bgpu\\b') then 'accelerator'
                when regexp_matches(sku, '(?i)local ssd|local storage') then 'ssd'
                when regexp_matches(sku, '(?i)\\b(cpu|core)s?\\b') then 'core'
                when regexp_matches(sku, '(?i)\\b(ram|memory)\\b') then 'ram'
            end as covered_kind,
            lower(case
                when regexp_matches(sku, '(?i)\\bgpu\\b') then trim(regexp_extract(regexp_replace(sku, '(?i)^commitment v[0-9]+: *', ''), '(?i)^(.*?)\\s*gpu', 1))
                when regexp_matches(sku, '(?i)local ssd|local storage') then 'ssd'
                else coalesce(nullif(regexp_extract(regexp_replace(sku, '(?i)^commitment v[0-9]+: *', ''), '^([A-Z][0-9]+[A-Za-z]*)\\s', 1), ''), 'n1')
            end) as covered_family
        from {table}
    )
"""


def amounts(parts: str, order: str = "resource_id desc, sku desc, tags desc, zone desc, spec desc") -> str:
    """SQL of the measures of FOCUS for lines with their part, and which parts they are when the fees are allocated.

    `order` settles which of several lines of one hour takes what the rounding of a fee's shares leaves over.
    """
    return f"""
with priced as (
    select
        *,
        case when part = 'promotion' then promotion else cost + credits end as billed,
        date_trunc('day', start_at) as fee_day
    from {parts}
    where part = 'charge' or (part = 'promotion' and promotion <> 0)
),

fees as (
    select covering, fee_day, sum(billed) as fee
    from priced
    where part = 'charge' and is_resource_fee
    group by all
),

weights as (
    select covering, fee_day, sum(committed_credits) as credit
    from priced
    where part = 'charge' and committed_credits <> 0
    group by all
    having sum(committed_credits) <> 0
),

allocatable as (
    select fees.*, weights.credit
    from fees
    join weights using (covering, fee_day)
),

bearing as (
    select
        priced.*,
        fee,
        round((fee * (committed_credits / credit)::decimal(18,15)), 12)::decimal(30,12) as share,
        row_number() over (partition by covering, fee_day order by start_at desc, {order}) as place_in_group
    from priced
    join allocatable using (covering, fee_day)
    where committed_credits <> 0 and part = 'charge' and not is_resource_fee
),

allocated as (
    select
        * exclude (fee, share, place_in_group),
        -- The last row takes what rounding left over, so that the shares add up to the fee.
        case
            when place_in_group = 1 then billed + fee - (sum(share) over (partition by covering, fee_day) - share)
            else billed + share
        end::decimal(30,12) as effective
    from bearing
    union all
    select
        priced.*,
        case when part = 'charge' and is_resource_fee and fee is not null then 0 else billed end::decimal(30,12) as effective
    from priced
    left join allocatable using (covering, fee_day)
    where fee is null or committed_credits = 0 or part <> 'charge' or is_resource_fee
)

select
    * replace (
        case when part = 'charge' and is_fee and effective <> 0 then 'unused' else part end as part,
        case when part = 'charge' then source_rows else 0 end as source_rows
    ),
    billed as BilledCost,
    case when part = 'promotion' then billed else effective end as EffectiveCost,
    case when part = 'promotion' then billed else coalesce(list_cost, cost) end as ListCost,
    case when part = 'promotion' then billed else coalesce(contracted, cost) end as ContractedCost,
    case when part = 'charge' and kind = 'regular' and not is_fee then quantity end as ConsumedQuantity,
    case when part = 'charge' and kind <> 'tax' then quantity end as PricingQuantity,
    null::decimal(38,12) as CommitmentDiscountQuantity
from allocated
"""


def rows(table: str) -> str:
    """SQL of the FOCUS rows of lines in a table with the columns of `keys` and `measures`."""
    return mapping.rows(amounts(f"({parts(table)})"), DESCRIBED)


DESCRIBED = """
    'gcp' as provider,
    payer as BillingAccountId,
    null as BillingAccountName,
    null as BillingAccountType,
    currency as BillingCurrency,
    period_start as BillingPeriodStart,
    period_start + interval 1 month as BillingPeriodEnd,
    account as SubAccountId,
    account_name as SubAccountName,
    null as SubAccountType,
    case
        when part = 'promotion' then 'Credit'
        when kind = 'tax' then 'Tax'
        when kind = 'regular' or adjustment like '%\\_CORRECTION' escape '\\' then case when is_fee then 'Purchase' else 'Usage' end
        else 'Adjustment'
    end as ChargeCategory,
    case when is_late then 'Correction' end as ChargeClass,
    sku as ChargeDescription,
    case when is_fee then 'Recurring' when part = 'promotion' then 'One-Time' else 'Usage-Based' end as ChargeFrequency,
    case when is_resource_fee or (not is_fee and is_committed) then 'Usage' when is_fee or subscription is not null then 'Spend' end as CommitmentDiscountCategory,
    case when part = 'promotion' then null when subscription is not null then subscription when is_resource_fee then concat_ws('/', account, region, sku) end as CommitmentDiscountId,
    null as CommitmentDiscountName,
    case
        when part = 'promotion' then null
        when part = 'unused' then 'Unused'
        when not is_fee and (is_committed or subscription is not null) then 'Used'
    end as CommitmentDiscountStatus,
    case when is_resource_fee or is_committed then 'Resource-based CUD' when is_fee or subscription is not null then 'Spend-based CUD' end as CommitmentDiscountType,
    null as CommitmentDiscountUnit,
    reservation as CapacityReservationId,
    case when lower(unused_reservation) = 'true' then 'Unused' when reservation is not null then 'Used' end as CapacityReservationStatus,
    case when kind = 'regular' and not is_fee then pricing_unit end as ConsumedUnit,
    case
        when part = 'promotion' or kind = 'tax' then null
        when is_fee then 'Standard'
        when is_committed or (model is not null and lower(model) <> 'default' and subscription is not null) then 'Committed'
        when is_spot then 'Dynamic'
        else 'Standard'
    end as PricingCategory,
    null as PricingCurrency,
    pricing_unit as PricingUnit,
    null::decimal(30,12) as ListUnitPrice,
    null::decimal(30,12) as ContractedUnitPrice,
    null as InvoiceId,
    coalesce(seller, 'Google Cloud') as InvoiceIssuerName,
    'Google Cloud' as ProviderName,
    coalesce(seller, 'Google Cloud') as PublisherName,
    'Google Cloud' as ServiceProviderName,
    'Google Cloud' as HostProviderName,
    coalesce(region, case when regexp_matches(place, '^[a-z]+-[a-z]+[0-9]+$') then place end) as RegionId,
    null as RegionName,
    zone as AvailabilityZone,
    case when part <> 'promotion' then resource_id end as ResourceId,
    case when part <> 'promotion' then nullif(regexp_extract(resource_name, '([^/]+)$', 1), '') end as ResourceName,
    null as ResourceType,
    null as ServiceCategory,
    null as ServiceSubcategory,
    service_name as ServiceName,
    sku_id as SkuId,
    sku as SkuMeter,
    null as SkuPriceId,
    case when part <> 'promotion' then tags end as Tags,
    service_id as x_ServiceCode,
    null as x_UsageType,
    null as x_Operation,
    case when part = 'promotion' then 'credit' else kind end as x_LineItemType,
    sku as x_SkuDescription,
    null as x_SkuMeterCategory,
    null as x_SkuMeterSubcategory,
    null as x_SkuMeterName,
    spec as x_InstanceType,
    coalesce(region, place) as x_FromLocation,
    null as x_ToLocation,
    null as x_TransferType,
    subscription as x_SubscriptionId,
    null as x_CostBasis
"""
