"""Figures, texts and pictures, each on its own."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from auditor.render import charts, evidence, figures
from auditor.render.text import markdown_text, safe_url, visible
from tests.render import invented


@pytest.mark.parametrize(
    ("value", "places", "shown"),
    [
        ("1234567.895", 2, "1,234,567.90"),
        ("-1234.5", 0, "−1,235"),
        ("0.004", 2, "<0.01"),
        ("-0.004", 2, ">−0.01"),
        ("0", 2, "0.00"),
        (None, 2, "—"),
        ("123456789012345678.123456789012", 0, "123,456,789,012,345,678"),
    ],
)
def test_a_figure_is_rounded_once_and_never_to_a_false_zero(value: str | None, places: int, shown: str) -> None:
    assert figures.number(value, places) == shown


def test_a_period_names_its_last_day_included() -> None:
    assert figures.period(invented.WINDOW) == "1\xa0Mar\xa02026 to 30\xa0Mar\xa02026"
    assert figures.hours(invented.WINDOW) == 720


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "https://",
        "//evil.example",
        "http://a b",
        "https://x/\u202e",
        'https://x/"',
        None,
        "http://[::1",
    ],
)
def test_only_web_addresses_become_links(link: str | None) -> None:
    assert safe_url(link) is None


def test_invisible_characters_are_written_out_and_plain_text_is_not_touched() -> None:
    assert visible("a\x00b\u2066c\ufeff\U000e0041") == "a⟨U+0000⟩b⟨U+2066⟩c⟨U+FEFF⟩⟨U+E0041⟩"
    assert visible("Zürich\xa0名前 🚀") == "Zürich\xa0名前 🚀"
    assert markdown_text("a|b\n[x](y) <i>") == "a\\|b \\[x\\]\\(y\\) \\<i\\>"


def test_columns_reach_their_grid_and_corrections_hang_below_zero() -> None:
    day = date(2026, 3, 1)
    chart = charts.columns({(day, "a"): Decimal(30), (day, "b"): Decimal(-10)}, [("s1", "a"), ("s2", "b")], "USD")
    assert chart
    assert [text for _, text in chart.grid] == ["30", "20", "10", "0", "−10"]
    above, below = chart.parts
    assert (above.y, above.height) == (0, 150)
    assert (below.y, below.height) == (chart.zero, 50)


def test_a_year_of_days_is_drawn_by_week_without_losing_money() -> None:
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(365)]
    chart = charts.columns({(day, "a"): Decimal(7) for day in days}, [("s1", "a")], "USD")
    assert chart
    assert chart.by_week
    assert len(chart.parts) == 53
    assert len(chart.dates) <= 6


def test_arithmetic_ends_at_the_net_saving() -> None:
    for finding in invented.findings():
        value = Decimal(0)
        for step in evidence.arithmetic(finding):
            if step.sign == "=":
                assert value == step.value
            elif step.sign == "×":
                hours = figures.hours(finding["window"])
                assert hours is not None
                assert abs(value * 730 / hours - step.value) < Decimal("1e-9")
                value = step.value
            else:
                value += -step.value if step.sign == "−" else step.value
        assert value == Decimal(finding["monthly_savings_net"])


def test_evidence_is_written_for_people_with_the_exact_figure_beside() -> None:
    finding = invented.findings()[3] | {
        "evidence": {
            "bytes": 412_000_000_000_000,
            "avoidable_share": "0.50000000",
            "account": "0123",
            "members": [f"m{n}" for n in range(30)],
            "x": {"y": None},
        }
    }
    shown = {fact.name: (fact.text, fact.digits) for fact in evidence.facts(finding)}
    assert shown["bytes"] == ("412.0\xa0TB", "412000000000000")
    assert shown["avoidable share"] == ("50.0\xa0%", "0.5")
    assert shown["account"] == ("0123", None)
    assert shown["members"][0].endswith("m11 and 18 more")
    assert shown["x y"] == ("—", None)
