"""The shipped facts: complete, dated, sourced and consistent with each other."""

import csv
import re
from decimal import Decimal
from pathlib import Path

from auditor.assets import room
from auditor.normalise.classify import usage_kinds

CONFIG = room("config")


def rows(name: str) -> list[dict[str, str]]:
    with (CONFIG / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_fact_has_a_source_and_a_date() -> None:
    for name in ("accelerators.csv", "prices/accelerators.csv", "prices/network.csv", "prices/storage.csv"):
        assert [row for row in rows(name) if not row["source"] or not row["as_of"]] == []


def test_a_machine_type_has_one_row_a_model_and_a_count() -> None:
    accelerators = rows("accelerators.csv")
    names = [(row["provider"], row["instance_type"].lower()) for row in accelerators]
    assert len(names) == len(set(names))
    assert all(row["accelerator_model"] and Decimal(row["accelerator_count"]) > 0 for row in accelerators)
    assert {row["launch_class"] for row in accelerators} == {"training", "inference", "both"}


def test_prices_are_positive_ordered_and_name_the_machines_of_the_table() -> None:
    known = {(row["provider"], row["instance_type"]): row for row in rows("accelerators.csv")}
    prices = rows("prices/accelerators.csv")
    for row in prices:
        assert 0 < Decimal(row["low"]) <= Decimal(row["high"])
        assert row["quality"] in ("ok", "derived")
        machine = known.get((row["provider"], row["machine_type"]))
        if machine:
            assert row["accelerator_model"] == machine["accelerator_model"]
    whole = [row for row in prices if row["scope"].startswith("whole")]
    listed = {
        (r["provider"], r["RegionId"], r["machine_type"]): Decimal(r["low"])
        for r in whole
        if r["price_kind"] == "on_demand"
    }
    for row in whole:
        place = (row["provider"], row["RegionId"], row["machine_type"])
        if row["price_kind"] == "spot" and place in listed:
            assert Decimal(row["low"]) < listed[place], f"spot above list price: {row}"


def test_every_pattern_file_is_rectangular_and_every_expression_compiles() -> None:
    for path in sorted(Path(CONFIG).glob("classification/**/*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
        assert {len(line) for line in lines} == {len(lines[0])}, path.name
        for line in lines[1:]:
            for column, cell in zip(lines[0], line, strict=True):
                if column not in ("note", "usage_kind", "provider"):
                    re.compile(cell)


def test_every_usage_kind_is_described() -> None:
    readme = (CONFIG / "classification" / "README.md").read_text(encoding="utf-8")
    assert [kind for kind in usage_kinds() if f"`{kind}`" not in readme] == []
