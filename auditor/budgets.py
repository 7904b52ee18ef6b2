"""The budgets of the configuration as a table that rules read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from auditor.tagging import KEY_PREFIXES
from auditor.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

    from auditor.settings import Budget


def create_table(con: DuckDBPyConnection, budgets: Sequence[Budget], providers: Iterable[str]) -> None:
    """Create `budgets`, one row a budget and provider it covers: the one it names, else every one of `providers`."""
    known = sorted(providers)
    rows = [
        {
            "provider": provider,
            "name": budget.title,
            "monthly": str(budget.monthly),
            "currency": budget.currency.upper(),
            "account": budget.account,
            "tag_key": _tag_key(budget.tag),
            "tag_value": _tag_value(budget.tag),
            "provider_count": len(covered),
        }
        for budget in budgets
        for covered in [[budget.provider.lower()] if budget.provider else known]
        for provider in covered
    ]
    columns = VIEWS["budgets"]
    shape = json.dumps([dict.fromkeys(columns, "VARCHAR")])
    values = ", ".join(f"row.{name}::{kind} as {name}" for name, kind in columns.items())
    con.execute(
        f"create or replace table budgets as select {values} from (select unnest(from_json($rows, '{shape}')) as row)",
        {"rows": json.dumps(rows)},
    )


def _tag_key(tag: str | None) -> str | None:
    """The key as tags are compared: lower case, without what exports put before it and without separators."""
    if tag is None:
        return None
    key = tag.partition("=")[0].strip().lower()
    for prefix in KEY_PREFIXES:
        key = key.removeprefix(prefix)
    return re.sub(r"[^a-z0-9]", "", key)


def _tag_value(tag: str | None) -> str | None:
    return None if tag is None else tag.partition("=")[2].strip().lower()
