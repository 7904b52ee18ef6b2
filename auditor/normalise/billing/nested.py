"""Maps of texts in a bill's column, in whatever shape the engine that wrote the file gave them.

AWS writes MAP; Spark, BigQuery and loaders make of it a STRUCT with a field a key, or a list of (key, value); a CSV has
the JSON text.
"""

from auditor.normalise.billing.source import literal


def is_pairs(kind: str) -> bool:
    """Whether a column of this DuckDB type is a list of (key, value)."""
    fields = kind.lower().replace('"', "")
    return fields.startswith("struct(") and fields.endswith(")[]") and "key " in fields and "value " in fields


def as_json(column: str, kind: str) -> str | None:
    """SQL of the map as JSON text, null where it is empty; None where the column is plain text or no map."""
    if kind.startswith("MAP"):
        return f"case when cardinality({column}) > 0 then to_json({column})::varchar end"
    if is_pairs(kind):
        filled = f"list_filter({column}, lambda e: e.value is not null)"
        entries = f"list_transform({filled}, lambda e: {{'k': e.key, 'v': e.value}})"
        return f"nullif(to_json(map_from_entries({entries}))::varchar, '{{}}')"
    if kind.startswith("STRUCT"):
        # A merge leaves out the fields that are null: keys that this line does not have.
        return f"nullif(json_merge_patch('{{}}', to_json({column}))::varchar, '{{}}')"
    return None


def value(column: str, kind: str, key: str) -> str | None:
    """SQL of the text under a key, null where it is empty; None where the column is no map."""
    if kind.startswith("MAP"):
        return f"nullif({column}[{literal(key)}], '')"
    if is_pairs(kind):
        return f"nullif(list_extract(list_filter({column}, lambda e: e.key = {literal(key)}), 1).value, '')"
    if kind.startswith("STRUCT"):
        return f"nullif(json_extract_string(to_json({column}), '$.{key}'), '')"
    if kind == "VARCHAR":
        return f"case when {column} like '{{%' then nullif(json_extract_string({column}, '$.{key}'), '') end"
    return None
