"""Money keeps every digit."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor import money
from auditor.state import State
from tests.state.conftest import a_delivery, commit

LARGE = Decimal("12345678901234567890123456.123456789012")


@pytest.mark.parametrize("amount", ["1234567890.123456789012", "0.000000000001", "-0.1", "0", str(LARGE), f"-{LARGE}"])
def test_the_database_gives_money_back_to_the_last_digit(state: State, amount: str) -> None:
    run = state.begin_run()
    commit(state, run, a_delivery(source_billed_cost=Decimal(amount)), [])
    [delivery] = state.deliveries()
    assert delivery.source_billed_cost == Decimal(amount)


def test_a_float_and_a_thirteenth_decimal_are_refused(state: State) -> None:
    run = state.begin_run()
    for amount in (0.1, Decimal("0.0000000000001")):
        with pytest.raises(Exception, match="money"):
            commit(state, run, a_delivery(source_billed_cost=amount), [])
    assert state.deliveries() == []


def test_a_sum_is_exact_beyond_28_digits() -> None:
    assert money.total([LARGE, Decimal("0.000000000001"), LARGE.copy_negate()]) == Decimal("0.000000000001")
    assert money.difference(LARGE, Decimal("12345678901234567890123455.123456789012")) == 1


def test_a_half_is_rounded_away_from_zero() -> None:
    assert money.quantise(Decimal("0.0000000000005")) == Decimal("0.000000000001")
    assert money.quantise(Decimal("-0.0000000000005")) == Decimal("-0.000000000001")


@pytest.mark.parametrize(
    ("amount", "text"), [("1E+3", "1000"), ("1.50", "1.5"), ("-0.00", "0"), ("1E-12", "0.000000000001"), ("100", "100")]
)
def test_text_is_plain_digits(amount: str, text: str) -> None:
    assert money.text(Decimal(amount)) == text


@given(st.decimals(min_value=-(10**26), max_value=10**26, allow_nan=False, places=12))
def test_text_reads_back_as_the_same_amount(amount: Decimal) -> None:
    assert Decimal(money.text(amount)) == amount
