"""Tables that are bills and yet cannot be read: outdated layouts, and exports without a column they cannot do without."""

from auditor.focus import CHARGE_COLUMNS
from auditor.landing import Shape
from auditor.normalise.billing import aws_cur, azure_cost, focus_bill
from auditor.normalise.billing.source import canonical

_CUR = "export a Cost and Usage Report, legacy or 2.0, or FOCUS in its place"
_BIGQUERY = "export the billing data to BigQuery and extract its table in its place"
_AZURE = "export actual or amortized cost, or FOCUS, from Cost Management in its place"
# (columns that tell the layout, what it is, what would work)
_OUTDATED = (
    ({"recordtype", "linkedaccountid", "itemdescription"}, "AWS's detailed billing report, which it gave up", _CUR),
    ({"totalcosts", "service"}, "a chart that Cost Explorer downloads", _CUR),
    ({"unroundedcost", "skudescription"}, "the cost table of Google's console", _BIGQUERY),
    ({"lineitem", "measurement1", "starttime"}, "Google's file export, which it gave up", _BIGQUERY),
    ({"extendedcost", "metercategory"}, "Azure's usage report of before 2020", _AZURE),
    ({"usagedate", "costusd", "currency"}, "a chart that Azure's cost analysis downloads", _AZURE),
    ({"lineitemreferenceno", "costmycost"}, "Oracle's own cost report", "export FOCUS in its place"),
)
_FOCUS = {canonical(name) for name in CHARGE_COLUMNS if name[0].isupper()}
_OF_CHARGES = {"chargecategory", "chargeperiodstart", "chargeperiodend", "chargefrequency", "chargedescription"} | {
    "billingperiodstart",
    "billedcost",
    "effectivecost",
}
_OF_CUR = {"lineitemusagetype", "lineitemproductcode", "lineitemlineitemtype", "lineitemusageaccountid"}
_NAMES = {"lineitemunblendedcost": "lineItem/UnblendedCost", "lineitemusagestartdate": "lineItem/UsageStartDate"}


def why(shape: Shape) -> str | None:
    """What the table is, why it is not read and what would be, in one sentence; None where it looks like no bill."""
    names = {canonical(column): column for column in shape.columns}
    lacking = _from_focus(names)
    if lacking:
        return f"these are FOCUS columns, but {lacking}; export the file again with it"
    for told_by, what, remedy in _OUTDATED:
        if told_by <= names.keys():
            return f"this is {what}: it cannot be read; {remedy} (its header: {_header(shape)})"
    for vendor, found in (("a Cost and Usage Report", _from_cur(names)), ("an Azure cost export", _from_azure(names))):
        if found:
            return f"these are columns of {vendor}, but {' and '.join(found)} {'is' if len(found) == 1 else 'are'} missing; export the file again with it"
    if names.keys() & {"sku", "skuid"} and names.keys() & {"service", "serviceid"}:
        missing = [name for name in ("cost", "usage_start_time") if canonical(name) not in names]
        if len(missing) == 1:
            return f"these are columns of Google's billing export, but {missing[0]} is missing; extract the table again with it"
    return None


def _from_focus(names: dict[str, str]) -> str | None:
    """Inventories share ResourceId or RegionId with FOCUS, so that of its five columns two must be a charge's own."""
    if len(names.keys() & _FOCUS) < 5 or len(names.keys() & _OF_CHARGES) < 2:
        return None
    return focus_bill.missing(names)


def _from_cur(names: dict[str, str]) -> list[str]:
    missing = [_NAMES[name] for name in aws_cur.REQUIRED if name not in names]
    return missing if len(names.keys() & {*_OF_CUR, *aws_cur.REQUIRED}) >= 2 else []


def _from_azure(names: dict[str, str]) -> list[str]:
    if not names.keys() & {"metercategory", "meterid", "metername"}:
        return []
    has_cost, has_date = any(name in names for name in azure_cost.COST), any(name in names for name in azure_cost.DATE)
    if not has_cost and not has_date:
        return []  # a price list
    return [*([] if has_cost else ["CostInBillingCurrency"]), *([] if has_date else ["Date"])]


def _header(shape: Shape) -> str:
    shown = ", ".join(shape.columns[:8])
    return shown[:200] + (" …" if len(shape.columns) > 8 else "")
