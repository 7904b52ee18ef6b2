"""What a report shows beside its document comes back as it was."""

from dataclasses import fields
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from auditor import render
from auditor.errors import LakeError
from auditor.stored import dump_extras, load_extras


def test_every_type_comes_back_as_itself() -> None:
    extras = render.Extras(
        daily_costs=(render.DailyCost("aws", None, "S3", "data", date(2026, 3, 1), "USD", Decimal("0.000000000001")),),
        gpu_by_day=(
            render.GpuSlice(date(2026, 3, 1), "idle", Decimal(24), Decimal("1.50"), "USD"),
            render.GpuSlice("data", "idle", Decimal(24), Decimal("1.50"), "USD"),
            render.GpuSlice(None, "idle", Decimal(24), Decimal("1.50"), "USD"),
        ),
        transfer_edges=(),
        rule_texts={
            "gpu.x": render.RuleText(
                "t", "w", "s", "b", {"idle_days": {"value": 7, "unit": "days"}, "r": Decimal("0.05")}
            )
        },
        notices=("the bill of aws stopped arriving",),
        generated_at=datetime(2026, 3, 1, 6, tzinfo=UTC),
    )
    back = load_extras(dump_extras(extras))
    assert back == extras
    assert [type(getattr(back, f.name)) for f in fields(back)] == [
        type(getattr(extras, f.name)) for f in fields(extras)
    ]
    assert isinstance(back.daily_costs[0], render.DailyCost)  # type: ignore[index]
    assert str(back.gpu_by_day[0].effective_cost) == "1.50"  # type: ignore[index]


def test_a_run_without_extras_has_an_empty_report_beside_its_document() -> None:
    assert load_extras(None) == render.Extras()


def test_fields_of_another_version_are_left_out() -> None:
    text = dump_extras(render.Extras(version="1")).replace('"version"', '"later":1,"version"')
    assert load_extras(text) == render.Extras(version="1")


@pytest.mark.parametrize("text", ['{"$":"Path","v":["/etc"]}', '{"$":"Any","v":[]}', "[1]"])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(LakeError, match="stored beside the report"):
        load_extras(text)
