"""Decides what a charge is: its usage kind, machine, accelerator and purchase option.

The knowledge is data under `config/classification` (its README tells what the columns mean); this module turns it into
one SQL statement over the distinct keys of a bill. A pattern is a constant in that statement, so that DuckDB compiles
it once; a join with a table of patterns would compile it for each row.
"""

import csv
import hashlib
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.assets import room
from auditor.errors import SettingsError
from auditor.focus import CLASSIFICATION_KEYS

if TYPE_CHECKING:
    import duckdb

PROVIDERS = ("aws", "gcp", "azure")

# A kind that stands for devices: its rows tell that their resource is an accelerator machine.
_DEVICE_KINDS = ("hours", "tpu", "notebook", "endpoint", "training_job", "batch", "reserved_unused")

# Types end in a size; what stands before the first dot may be a service's prefix (ml., db.).
_AWS_TYPE = r"(?:[a-z]+\.)?[a-z][a-z0-9]*(?:-[a-z0-9]+)*\.(?:\d*x?large|nano|micro|small|medium|metal(?:-\w+)?)"
_GCP_DEVICE = r"Nvidia|\bGPUs?\b|\bTPU|Gpu slice|Trillium|Ironwood"
_AZURE_TYPE = r"\b((?:Standard_)?N[CDGV]\d+\w*(?:[ _]\w+)*?[ _]v\d+)\b"


@dataclass(frozen=True)
class Pattern:
    """One row of a pattern file: what it means, for whom, and the regular expression of each key it looks at."""

    value: str
    provider: str
    machine: str
    conditions: tuple[tuple[str, str], ...]


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _patterns(path: Path, output: str) -> list[Pattern]:
    """Patterns of one file in its order. Raises SettingsError for a column that is no key."""
    found = []
    for number, row in enumerate(_read(path), start=2):
        conditions = []
        for column, expression in row.items():
            if column in (output, "provider", "machine", "note"):
                continue
            if column != "service" and column not in CLASSIFICATION_KEYS:
                raise SettingsError(f"{path}, line {number}: {column!r} is no classification key")
            if expression:
                conditions.append((column, expression))
        found.append(Pattern(row[output], row.get("provider") or "", row.get("machine") or "", tuple(conditions)))
    return found


@lru_cache(maxsize=1)
def _usage_kinds() -> tuple[Pattern, ...]:
    folder = room("config") / "classification" / "usage_kinds"
    return tuple(pattern for path in sorted(folder.glob("*.csv")) for pattern in _patterns(path, "usage_kind"))


def usage_kinds() -> tuple[str, ...]:
    """Every usage kind that the shipped patterns can give, and `other` and `refund`, sorted."""
    return tuple(sorted({pattern.value for pattern in _usage_kinds()} | {"other", "refund"}))


def _version() -> str:
    """Digest of the files, so that changed patterns derive the lake's columns anew."""
    config = room("config")
    digest = hashlib.sha256()
    for path in sorted([*config.glob("classification/**/*.csv"), config / "accelerators.csv"]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


CLASSIFIER_VERSION: str = _version()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _matches(column: str, expression: str) -> str:
    return f"regexp_matches(k.{column}, {_text(expression)}, 'i')"


def _condition(pattern: Pattern) -> str:
    tests = [_matches(column, expression) for column, expression in pattern.conditions]
    if pattern.machine:
        tests.insert(0, "k.is_accelerator")
    return " and ".join(tests) or "true"


def _first_match(patterns: tuple[Pattern, ...] | list[Pattern], providers: tuple[str, ...]) -> str:
    """SQL of the first matching pattern's value, or null; each provider tries only the patterns that concern it."""

    def case(chosen: list[Pattern]) -> str:
        if not chosen:
            return "null"
        return "case " + " ".join(f"when {_condition(p)} then {_text(p.value)}" for p in chosen) + " end"

    branches = " ".join(
        f"when {_text(provider)} then {case([p for p in patterns if p.provider in ('', provider)])}"
        for provider in providers
    )
    others = case([p for p in patterns if not p.provider])
    return f"case k.provider {branches} else {others} end" if branches else others


def _type_key(provider: str, machine_type: str) -> str:
    """SQL of the spelling under which a type is looked up: clouds and services write the same type differently."""
    return f"""case {provider}
        when 'aws' then regexp_replace(lower({machine_type}), '^ml\\.', '')
        when 'azure' then regexp_replace(regexp_replace(lower({machine_type}), '^(standard|basic)[ _]', ''), '[^a-z0-9]', '', 'g')
        else lower({machine_type})
    end"""


def _machine_type() -> str:
    """SQL of the machine type, as the provider writes it, from the first key that has it."""
    aws = _text(f"(?:^|[:\\s|$-])({_AWS_TYPE})(?:[^a-z0-9.]|$)")
    return f"""case k.provider
        when 'aws' then lower(coalesce(
            nullif(regexp_extract(k.x_InstanceType, {_text(f"^({_AWS_TYPE})")}, 1, 'i'), ''),
            nullif(regexp_extract(k.x_UsageType, {aws}, 1, 'i'), ''),
            nullif(regexp_extract(k.x_UsageType, 'Host(?:Box)?Usage:([\\w-]+)$', 1, 'i'), ''),
            nullif(regexp_extract(k.x_UsageType, ':(u-[\\w-]+)$', 1, 'i'), ''),
            nullif(regexp_extract(k.x_SkuDescription, {aws}, 1, 'i'), ''),
            nullif(k.x_InstanceType, '')))
        when 'azure' then coalesce(
            nullif(k.x_InstanceType, ''),
            case when regexp_matches(k.x_SkuMeterCategory, '^(Virtual Machines|Cloud Services)$', 'i') then 'Standard_' || replace(nullif(
                trim(regexp_replace(regexp_replace(k.x_SkuMeterName, '(?i) (Spot|Low Priority|Expired)$', ''), '/.*$', '')), ''), ' ', '_') end,
            'Standard_' || replace(regexp_replace(
                nullif(regexp_extract(k.x_SkuDescription, {_text(_AZURE_TYPE)}, 1), ''), '^Standard_', ''), ' ', '_'))
        else nullif(k.x_InstanceType, '')
    end"""


def _family_cases(providers: tuple[str, ...]) -> tuple[str, str, str]:
    """SQL of a type's place in the family table, its model and its device count."""
    rows = [
        row
        for row in _read(room("config") / "classification" / "accelerator_families.csv")
        if row["provider"] in providers
    ]
    if not rows:
        return "null::integer", "null::varchar", "null::varchar"
    places, models, counts = [], [], []
    for place, row in enumerate(rows):
        pattern = _text(row["pattern"])
        places.append(f"when provider = {_text(row['provider'])} and regexp_matches(type_key, {pattern}) then {place}")
        models.append(f"when {place} then nullif({_text(row['accelerator_model'])}, '')")
        if row["accelerator_count"]:
            counts.append(f"when {place} then {_text(row['accelerator_count'])}")
        elif "(\\d+)" in row["pattern"]:
            counts.append(f"when {place} then regexp_extract(families.type_key, {pattern}, 1)")
    return (
        "case " + " ".join(places) + " end",
        "case family " + " ".join(models) + " end",
        "case family " + " ".join(counts) + " end",
    )


def _sku_cases() -> tuple[str, str]:
    """SQL of a GCP SKU's place in the table of accelerator names, and of its model."""
    rows = _read(room("config") / "classification" / "gcp_accelerators.csv")
    places = [
        f"when regexp_matches(k.x_SkuDescription, {_text(r['pattern'])}, 'i') then {i}" for i, r in enumerate(rows)
    ]
    models = [f"when {i} then nullif({_text(r['accelerator_model'])}, '')" for i, r in enumerate(rows)]
    return "case " + " ".join(places) + " end", "case k.sku_place " + " ".join(models) + " end"


def _statement(keys: str, into: str, providers: tuple[str, ...]) -> str:
    accelerators = room("config") / "accelerators.csv"
    family, family_model, family_count = _family_cases(providers)
    sku_place, sku_model = _sku_cases()
    config = room("config") / "classification"
    columns = ", ".join(f"keys.{name}" for name in CLASSIFICATION_KEYS)
    filled = ", ".join(f"coalesce(keys.{name}, '') as {name}" for name in CLASSIFICATION_KEYS)
    known = f"""select provider, {_type_key("provider", "instance_type")} as type_key,
            any_value(accelerator_model) as accelerator_model,
            any_value(nullif(accelerator_count, '')) as accelerator_count
        from read_csv({_text(str(accelerators))}, header = true, all_varchar = true, nullstr = '')
        group by all"""
    return f"""
    create or replace temp table {into} as
    with numbered as materialized (
        select row_number() over () as key_number, {columns} from {keys} as keys
    ),
    filled as (
        select key_number, {filled}, concat_ws('|', nullif(ServiceName, ''), nullif(x_ServiceCode, '')) as service
        from numbered as keys
    ),
    typed as materialized (
        select k.*, {_machine_type()} as machine_type,
            case when k.provider = 'gcp' then {sku_place} end as sku_place
        from filled as k
    ),
    types as (
        select distinct provider, machine_type, {_type_key("provider", "machine_type")} as type_key
        from typed
        where machine_type is not null
    ),
    families as (
        select provider, machine_type, type_key, {family} as family from types
    ),
    known as ({known}),
    machines as materialized (
        select families.provider, families.machine_type,
            known.type_key is not null or family is not null as is_accelerator,
            coalesce(known.accelerator_model, {family_model}) as accelerator_model,
            try_cast(coalesce(known.accelerator_count, nullif({family_count}, '')) as decimal(9, 3)) as accelerator_count
        from families
        left join known on known.provider = families.provider and known.type_key = families.type_key
    ),
    looked_up as materialized (
        select k.* exclude (sku_place),
            coalesce(machines.is_accelerator, false) or k.sku_place is not null as is_accelerator,
            coalesce(machines.accelerator_model, {sku_model}) as accelerator_model,
            machines.accelerator_count
        from typed as k
        left join machines on machines.provider = k.provider and machines.machine_type = k.machine_type
    ),
    decided as materialized (
        select key_number, provider, x_SkuDescription, machine_type, accelerator_model, accelerator_count,
            coalesce({_first_match(_usage_kinds(), providers)}, 'other') as usage_kind,
            {_first_match(_patterns(config / "purchase_options.csv", "purchase_option"), providers)} as purchase_option,
            {_first_match(_patterns(config / "workload_kinds.csv", "workload_kind"), providers)} as service_workload_kind
        from looked_up as k
    )
    select {columns},
        d.usage_kind,
        case when {_is_machine()} or d.usage_kind like 'commitment.%' then d.machine_type end as machine_type,
        case when d.usage_kind like 'accelerator.%' or d.usage_kind like 'commitment.%' then d.accelerator_model end as accelerator_model,
        cast(case
            when d.usage_kind = 'accelerator.reserved_unused' and d.provider = 'gcp'
                and not regexp_matches(d.x_SkuDescription, {_text(_GCP_DEVICE)}, 'i') then 0
            when d.usage_kind like 'accelerator.%' or d.usage_kind like 'commitment.%' then d.accelerator_count
        end as decimal(9, 3)) as accelerator_count,
        case when {_is_machine()} then coalesce(d.purchase_option, 'on_demand') end as purchase_option,
        case when {_is_machine()} then d.service_workload_kind end as service_workload_kind
    from decided as d
    join numbered as keys using (key_number)
    """


def _is_machine() -> str:
    return "(d.usage_kind like 'accelerator.%' or d.usage_kind like 'compute.%')"


def classify(con: "duckdb.DuckDBPyConnection", keys: str, into: str) -> None:
    """Write table `into`: the rows of `keys` and what each of them is.

    `keys` has the columns CLASSIFICATION_KEYS, one row per distinct key. `into` has them too, and usage_kind (never
    null; `other` where no pattern matches), machine_type, accelerator_model, accelerator_count DECIMAL(9,3) of one
    machine (null where unknown, 0 on the core, RAM and disk lines of an unused GCP reservation, whose devices have a
    line of their own), purchase_option (null for what is no machine) and service_workload_kind, which is what the
    service itself says the machine is for. Join it back with `is not distinct from`: keys may be null.
    """
    _learn_classes(con, keys)
    names = ", ".join(f"known.{name}" for name in (*CLASSIFICATION_KEYS, *_CLASS_COLUMNS))
    con.execute(
        f"create or replace table {into} as select {names} from {keys} as k join known_classes as known on {_same_key()}"
    )


_CLASS_COLUMNS = {
    "usage_kind": "VARCHAR",
    "machine_type": "VARCHAR",
    "accelerator_model": "VARCHAR",
    "accelerator_count": "DECIMAL(9,3)",
    "purchase_option": "VARCHAR",
    "service_workload_kind": "VARCHAR",
}


def _same_key() -> str:
    return " and ".join(f"k.{name} is not distinct from known.{name}" for name in CLASSIFICATION_KEYS)


def _learn_classes(con: "duckdb.DuckDBPyConnection", keys: str) -> None:
    """Adds what is new in `keys` to the temp table `known_classes`.

    Planning the statement takes longer than running it: hundreds of small deliveries share most of their keys, and the
    providers that are not there are left out.
    """
    columns = ", ".join(
        [*(f"{name} varchar" for name in CLASSIFICATION_KEYS), *(f"{n} {kind}" for n, kind in _CLASS_COLUMNS.items())]
    )
    con.execute(f"create temp table if not exists known_classes ({columns})")
    con.execute(
        f"create or replace temp table new_keys as select k.* from {keys} as k where not exists (select 1 from known_classes as known where {_same_key()})"
    )
    present = {provider for (provider,) in con.execute("select distinct provider from new_keys").fetchall()}
    if present:
        con.execute(_statement("new_keys", "new_classes", tuple(name for name in PROVIDERS if name in present)))
        con.execute("insert into known_classes by name select * from new_classes")


# Azure Machine Learning bills plain machine meters; the resource's id says what runs on them.
_AZURE_SERVICES = (
    ("%/onlineendpoints/%", "endpoint", "inference"),
    ("%/batchendpoints/%", "batch", "inference"),
    ("%/jobs/%", "training_job", "training"),
    ("%/computes/%", "notebook", "notebook"),
)


def settled(rows: str) -> str:
    """SQL of the relation `rows` with the kinds that the line type, a service's label or the resource's id decides.

    Refunds become `refund`, whatever they give back. Compute Engine machines that bear the label of Vertex AI Workbench
    become `accelerator.notebook`; machines of an Azure Machine Learning workspace what their id names. Settling twice
    changes nothing.
    """
    is_refund = "lower(x_LineItemType) = 'refund' and usage_kind not in ('tax', 'credit')"
    is_workbench = "provider = 'gcp' and usage_kind = 'accelerator.hours' and contains(Tags, '\"goog-caip-notebook\"')"
    is_azure = "provider = 'azure' and usage_kind = 'accelerator.hours' and lower(ResourceId) like '%/providers/microsoft.machinelearningservices{}'"
    kinds = " ".join(
        f"when {is_azure.format(pattern)} then 'accelerator.{kind}'" for pattern, kind, _ in _AZURE_SERVICES
    )
    works = " ".join(f"when {is_azure.format(pattern)} then '{work}'" for pattern, _, work in _AZURE_SERVICES)
    return f"""(
        select * replace (
            case when {is_refund} then 'refund' when {is_workbench} then 'accelerator.notebook' {kinds} else usage_kind end as usage_kind,
            case when {is_refund} then null else purchase_option end as purchase_option,
            case when {is_refund} then service_workload_kind when {is_workbench} then 'notebook' {works} else service_workload_kind end
                as service_workload_kind
        )
        from {rows}
    )"""


def find_machines(con: "duckdb.DuckDBPyConnection", rows: str, into: str) -> None:
    """Table `into` of the resources of the settled relation `rows` that have a device line, with what it tells of them."""
    kinds = ", ".join(_text(f"accelerator.{kind}") for kind in _DEVICE_KINDS)
    con.execute(f"""
    create or replace temp table {into} as
    select provider as machine_provider, ResourceId as machine_id, max(machine_type) as device_machine_type,
        max(accelerator_model) as device_model, max(accelerator_count) as device_count
    from {rows}
    where ResourceId is not null and ResourceId <> '' and usage_kind in ({kinds})
    group by provider, ResourceId
    """)


def with_parts(rows: str, machines: str) -> str:
    """SQL of the relation `rows` with the lines that belong to an accelerator machine settled.

    GCP bills a machine as device, core, RAM and local SSD lines: those lines of a resource that also has a device line
    become `accelerator.core`, `.ram`, `.local_ssd` (or `.reserved_unused`, without devices of their own) and take over
    its model, and its machine type where they have none.
    """
    is_part = """(machine_id is not null and usage_kind in (
        'compute.core', 'compute.ram', 'compute.local_ssd', 'compute.reserved_unused',
        'accelerator.core', 'accelerator.ram', 'accelerator.local_ssd'))"""
    return f"""(
        select * exclude (machine_provider, machine_id, device_machine_type, device_model, device_count) replace (
            case
                when not {is_part} then usage_kind
                when usage_kind = 'compute.reserved_unused' then 'accelerator.reserved_unused'
                else replace(usage_kind, 'compute.', 'accelerator.')
            end as usage_kind,
            case when {is_part} then coalesce(machine_type, device_machine_type) else machine_type end as machine_type,
            case when {is_part} then coalesce(accelerator_model, device_model) else accelerator_model end as accelerator_model,
            case
                when not {is_part} then accelerator_count
                when usage_kind = 'compute.reserved_unused' then 0
                else coalesce(accelerator_count, device_count)
            end as accelerator_count
        )
        from {rows}
        left join {machines} on machine_provider = provider and machine_id = ResourceId
    )"""


def other_share(con: "duckdb.DuckDBPyConnection", charges: str) -> dict[str, tuple[Decimal, Decimal]]:
    """EffectiveCost of the charges that no pattern knows, and of all charges, by BillingCurrency."""
    rows = con.execute(f"""
    select BillingCurrency, coalesce(sum(EffectiveCost) filter (where usage_kind = 'other'), 0), sum(EffectiveCost)
    from {charges}
    group by BillingCurrency
    """).fetchall()
    return {currency: (other, total) for currency, other, total in rows}
