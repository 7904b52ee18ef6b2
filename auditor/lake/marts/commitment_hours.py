"""Commitment hours: what each reservation, savings plan or committed use paid for, used and unused."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# `commitment_charges` details the bill by the hour; a lake without it has days.
_COMMITMENT_HOURS = """
create or replace table commitment_hours as
select
    provider,
    CommitmentDiscountId,
    max(CommitmentDiscountType) as CommitmentDiscountType,
    BillingAccountId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    {hour} as hour,
    coalesce(sum(EffectiveCost) filter (where CommitmentDiscountStatus = 'Used'), 0)::decimal(30, 12) as used_cost,
    coalesce(sum(EffectiveCost) filter (where CommitmentDiscountStatus = 'Unused'), 0)::decimal(30, 12) as unused_cost
from {table}
where CommitmentDiscountId is not null and CommitmentDiscountStatus in ('Used', 'Unused')
group by provider, CommitmentDiscountId, BillingAccountId, SubAccountId, RegionId, BillingCurrency, {hour}
"""

_HAS_HOURS = "select count(*) from information_schema.tables where table_name = 'commitment_charges'"


def build(con: DuckDBPyConnection) -> None:
    """Create `commitment_hours`, one row per commitment, account that used it and hour (midnight where the bill has days)."""
    found = con.execute(_HAS_HOURS).fetchone()
    if found and found[0]:
        con.execute(_COMMITMENT_HOURS.format(table="commitment_charges", hour="hour"))
    else:
        con.execute(_COMMITMENT_HOURS.format(table="charges", hour="day::timestamp"))
