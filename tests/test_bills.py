"""Which deliveries count, from their sums by account and day alone."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from auditor import bills
from auditor.bills import AccountTotal, Bill
from auditor.records import DeliveryRecord


def bill(
    name: str,
    days: range | tuple[int, ...],
    subs: tuple[str | None, ...] = ("444455556666",),
    rows: int = 10,
    delivered: int | None = None,
    **more: object,
) -> Bill:
    totals = tuple(
        AccountTotal("111122223333", sub, "2026-10", "USD", Decimal(1), Decimal(1), rows, f"2026-10-{day:02d}")
        for sub in subs
        for day in days
    )
    made = Bill(
        id=name,
        provider="aws",
        source=f"aws/111122223333/{name}",
        format="legacy-cur-csv",
        role=None,
        billing_period="2026-10",
        paths=(f"{name}.csv",),
        rows=sum(total.rows for total in totals),
        totals=totals,
        has_resource_ids=True,
        is_net=False,
        newest_charge=datetime(2026, 10, max(days), tzinfo=UTC),
        delivered_at=datetime(2026, 11, delivered, tzinfo=UTC) if delivered else None,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def counted(*given_bills: Bill) -> dict[str, int]:
    """Bill -> how many of its (sub account, day) sums count."""
    choice = bills.choose(given_bills)
    return {each.id: sum(choice.counts(each, total) for total in each.totals) for each in given_bills}


def test_the_bill_with_resource_ids_comes_first() -> None:
    assert counted(bill("plain", range(1, 11), rows=99, has_resource_ids=False), bill("ids", range(1, 11))) == {
        "plain": 0,
        "ids": 10,
    }


def test_another_export_of_the_same_weeks_gives_way_whole() -> None:
    assert counted(bill("ids", range(5, 11)), bill("plain", range(1, 13), has_resource_ids=False)) == {
        "ids": 6,
        "plain": 0,
    }


def test_two_exports_of_different_weeks_both_count() -> None:
    assert counted(bill("new", range(16, 31)), bill("old", range(1, 16), has_resource_ids=False)) == {
        "new": 15,
        "old": 15,
    }


def test_a_single_quiet_day_of_the_better_bill_is_not_filled_from_the_other() -> None:
    assert counted(bill("ids", (1, 2, 4, 5)), bill("plain", range(1, 6), has_resource_ids=False)) == {
        "ids": 4,
        "plain": 0,
    }


def test_sub_accounts_that_only_one_bill_has_count() -> None:
    assert counted(bill("a", range(1, 6), ("x", "y")), bill("b", range(1, 6), ("y", "z"))) == {
        "a": 5,
        "b": 10,
    } or counted(bill("a", range(1, 6), ("x", "y")), bill("b", range(1, 6), ("y", "z"))) == {"a": 10, "b": 5}


def test_actual_and_amortized_stand_together_against_a_third() -> None:
    actual, amortized = (
        bill("actual", range(1, 6), role="actual"),
        bill("amortized", range(1, 6), role="amortized", rows=9),
    )
    assert counted(actual, amortized, bill("focus", range(1, 6), rows=5)) == {"actual": 5, "amortized": 5, "focus": 0}
    assert counted(actual, amortized, bill("focus", range(1, 6), rows=50)) == {"actual": 0, "amortized": 0, "focus": 5}


def test_every_loser_has_a_note_and_the_winner_is_named_primary() -> None:
    choice = bills.choose([bill("a", range(1, 6), rows=20), bill("b", range(1, 6))])
    assert [(each.id, note) for each, note in choice.notes] == [
        ("b", "not counted for account 111122223333, 2026-10: legacy-cur-csv a.csv covers it with 100 rows against 50")
    ]
    assert [each.id for each, _ in choice.primaries] == ["a"]


def test_bills_without_an_account_are_never_compared() -> None:
    nameless = [
        replace(each, totals=tuple(replace(total, billing_account_id=bills.UNKNOWN) for total in each.totals))
        for each in (bill("a", range(1, 4)), bill("b", range(1, 4)))
    ]
    assert counted(*nameless) == {"a": 3, "b": 3}


def test_a_newer_delivery_takes_the_place_of_the_older_one() -> None:
    old, new = bill("old", range(1, 6), delivered=1, source="s"), bill("new", range(1, 9), delivered=2, source="s")
    assert bills.place(new, [old]) == bills.Placement("s", (old,))
    assert bills.place(old, [new]).outdated_by == new


def test_a_newer_delivery_without_some_days_stands_beside_the_older_one() -> None:
    old, new = bill("old", range(1, 21), delivered=1, source="s"), bill("new", range(10, 31), delivered=2, source="s")
    placement = bills.place(new, [old])
    assert (placement.supersedes, placement.outdated_by) == ((), None)
    assert counted(old, replace(new, source=placement.source)) == {"old": 9, "new": 21}


def test_a_damaged_delivery_never_outdates_a_sound_one() -> None:
    sound, damaged = (
        bill("sound", range(1, 6), delivered=1, source="s"),
        bill("bad", range(1, 6), delivered=2, source="s", is_damaged=True),
    )
    assert bills.place(damaged, [sound]).outdated_by == sound
    assert bills.place(sound, [damaged]).supersedes == (damaged,)


def test_a_bill_comes_back_from_the_state_as_it_was() -> None:
    before = bill("a", range(1, 4), is_monthly=True, messages=("m",))
    record = DeliveryRecord(
        id=before.id,
        provider=before.provider,
        source=before.source,
        billing_account_id="111122223333",
        format=before.format,
        role=before.role,
        billing_period=before.billing_period,
        digest="d",
        delivered_at=before.delivered_at,
        rows=before.rows,
        identities=json.loads(json.dumps(bills.to_summary(before))),
    )
    assert bills.from_record(record) == before


deliveries = st.lists(
    st.tuples(
        st.sets(st.integers(1, 28), min_size=1, max_size=8),
        st.booleans(),
        st.sampled_from([None, "actual", "amortized"]),
    ),
    min_size=1,
    max_size=5,
)


@given(deliveries)
def test_no_day_counts_twice_on_one_side_and_none_is_lost(drawn: list[tuple[set[int], bool, str | None]]) -> None:
    given_bills = [
        bill(f"b{at}", tuple(sorted(days)), has_resource_ids=ids, role=role)
        for at, (days, ids, role) in enumerate(drawn)
    ]
    choice = bills.choose(given_bills)
    for side in ("actual", "amortized"):
        taken = [
            total.bill_day
            for each in given_bills
            for total in each.totals
            if each.role in (None, side) and choice.counts(each, total)
        ]
        assert len(taken) == len(set(taken))
    counting = {each.id: each for each in given_bills for total in each.totals if choice.counts(each, total)}
    for each in given_bills:
        for total in each.totals:
            assert choice.counts(each, total) or any(
                bills._tells(other, each, total.bill_day, total.billing_account_id)
                for other in counting.values()
                if other is not each
            )
    assert bills.choose(list(reversed(given_bills))).counted == choice.counted
