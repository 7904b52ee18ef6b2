"""Derives owner, job, workload kind and standby of charges from their tags, their service and their names."""

import json
from typing import TYPE_CHECKING

from auditor.tagging import EMPTY_VALUES, KEY_PREFIXES, NEGATIVE_VALUES, TagSettings

if TYPE_CHECKING:
    import duckdb

# Prefixes may follow each other (resourceTags/user:team); two rounds strip what exports write.
_PREFIX = "^(?:" + "|".join(KEY_PREFIXES) + ")"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _key(expression: str) -> str:
    """SQL of a tag key without prefix, case and separators."""
    stripped = f"regexp_replace(regexp_replace(lower({expression}), {_text(_PREFIX)}, ''), {_text(_PREFIX)}, '')"
    return f"regexp_replace({stripped}, '[^a-z0-9]', '', 'g')"


def _kind(expression: str, settings: TagSettings) -> str:
    """SQL of the workload kind that a text names by whole words, or null.

    Training is asked first: a name such as `finetune-serving-model` tells of work that makes a model.
    """
    # camelCase hides the border between two words
    text = f"lower(regexp_replace({expression}, '([a-z0-9])([A-Z])', '\\1-\\2', 'g'))"
    text = f"regexp_replace({text}, '[^a-z0-9]+', '-', 'g')"
    branches = []
    for kind, words in (
        ("training", settings.training_words),
        ("inference", settings.inference_words),
        ("notebook", settings.notebook_words),
    ):
        if words:
            pattern = f"(^|-)[0-9]*(?:{'|'.join(words)})[0-9]*(-|$)"
            branches.append(f"when regexp_matches({text}, {_text(pattern)}) then '{kind}'")
    return f"case {' '.join(branches)} end" if branches else "null::varchar"


def _roles(settings: TagSettings) -> str:
    """The configured keys as JSON rows of role, key and rank; a key given twice keeps its first rank."""
    roles = {
        "owner": settings.owner_tags,
        "workload": settings.workload_tags,
        "job": settings.job_tags,
        "standby": settings.standby_tags,
    }
    return json.dumps(
        [{"role": role, "key": key, "rank": rank} for role, keys in roles.items() for rank, key in enumerate(keys)]
    )


def learn(con: "duckdb.DuckDBPyConnection", rows: str, tag_settings: TagSettings) -> None:
    """Temp tables `tag_facts` and `name_facts`: what each distinct tag text and each distinct resource name tells.

    Reads Tags (JSON object as text; what is no JSON counts as no tags), ResourceName and ResourceId of the relation.
    """
    con.execute(
        f"""
    create or replace temp table tag_facts as
    with texts as (
        select distinct Tags from {rows} where Tags is not null and Tags <> '' and Tags <> '{{}}'
    ),
    maps as (
        select Tags, try_cast(Tags as json) as tag_map from texts
    ),
    pairs as (
        select maps.Tags, pair.key as raw_key, json_extract_string(pair.value, '$') as tag_value, {_key("pair.key")} as tag_key
        from maps, lateral json_each(maps.tag_map) as pair
        where json_type(maps.tag_map) = 'OBJECT'
    ),
    named as (
        select Tags, regexp_replace(regexp_replace(raw_key, {_text("(?i)" + _PREFIX)}, ''), {_text("(?i)" + _PREFIX)}, '') as shown_key,
            trim(coalesce(tag_value, '')) as tag_value, tag_key
        from pairs
    ),
    settings as (
        select role, {_key("key")} as tag_key, min(rank) as rank
        from (select unnest(from_json($roles::json, '[{{"role": "VARCHAR", "key": "VARCHAR", "rank": "INTEGER"}}]'), recursive := true))
        group by all
    ),
    matched as (
        select named.*, role, rank, {_kind("tag_value", tag_settings)} as kind
        from named
        join settings using (tag_key)
        where role = 'standby' or not list_contains({list(EMPTY_VALUES)}, lower(tag_value))
    )
    select Tags,
        arg_min(tag_value, rank) filter (where role = 'owner') as owner,
        arg_min(tag_value, rank) filter (where role = 'job') as job,
        arg_min(kind, rank) filter (where role = 'job' and kind is not null) as job_kind,
        arg_min(shown_key || '=' || tag_value, rank) filter (where role = 'job' and kind is not null) as job_signal,
        arg_min(kind, rank) filter (where role = 'workload' and kind is not null) as workload_kind,
        arg_min(shown_key || '=' || tag_value, rank) filter (where role = 'workload' and kind is not null) as workload_signal,
        coalesce(bool_or(role = 'standby' and not list_contains({list(NEGATIVE_VALUES)}, lower(tag_value))), false) as standby
    from matched
    group by Tags
    """,
        {"roles": _roles(tag_settings)},
    )
    con.execute(f"""
    create or replace temp table name_facts as
    with names as (
        select distinct ResourceName, ResourceId from {rows}
    ),
    last_parts as (
        -- GCP and Azure ids end in the name; an AWS id in a random word
        select *, regexp_extract(coalesce(nullif(ResourceName, ''), ResourceId), '([^/]+)/*$', 1) as shown_name from names
    )
    select ResourceName, ResourceId, shown_name, {_kind("shown_name", tag_settings)} as kind from last_parts
    """)


def owned(rows: str) -> str:
    """SQL of the relation `rows` with owner, job, workload_kind, workload_signal and standby filled from what was learnt.

    The workload kind is the first of: a workload tag whose value names one, the service itself, the job's tag, the
    resource's name; workload_signal says which (`tag workload=train`, `service Amazon SageMaker`, `name train-llm-1`). A
    machine that GCP labels as a notebook is one by its service. owner, job and workload_kind stay null where nothing
    tells; standby is false then. The rows must be settled (`classify.settled`): services are a signal.
    """
    is_workbench = "(provider = 'gcp' and contains(charge.Tags, '\"goog-caip-notebook\"'))"
    service_kind = f"case when {is_workbench} then 'notebook' else charge.service_workload_kind end"
    return f"""(
        select charge.* replace (
            tag_facts.owner as owner,
            tag_facts.job as job,
            coalesce(tag_facts.workload_kind, {service_kind}, tag_facts.job_kind, name_facts.kind) as workload_kind,
            case
                when tag_facts.workload_kind is not null then 'tag ' || tag_facts.workload_signal
                when {is_workbench} then 'label goog-caip-notebook'
                when charge.service_workload_kind is not null
                    then 'service ' || coalesce(nullif(charge.ServiceName, ''), nullif(charge.x_ServiceCode, ''), charge.provider)
                when tag_facts.job_kind is not null then 'tag ' || tag_facts.job_signal
                when name_facts.kind is not null then 'name ' || name_facts.shown_name
            end as workload_signal,
            coalesce(tag_facts.standby, false) as standby
        )
        from {rows} as charge
        left join tag_facts on tag_facts.Tags = charge.Tags
        left join name_facts on name_facts.ResourceName is not distinct from charge.ResourceName
            and name_facts.ResourceId is not distinct from charge.ResourceId
    )"""
