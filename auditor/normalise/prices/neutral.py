"""The neutral `prices` table: a price a row, each with its unit, currency, date and source."""

import json

import duckdb

from auditor.landing import Recognised, Shape
from auditor.normalise.inventory.documents import read_foreign_table
from auditor.normalise.prices.quotes import Quote, Reading, amount

# Our column: the headers that mean it, in lower case without marks.
_HEADERS = {
    "provider": ("provider", "cloud"),
    "region_id": ("regionid", "region"),
    "zone": ("availabilityzone", "zone"),
    "machine_type": ("machinetype", "instancetype"),
    "accelerator_model": ("acceleratormodel", "accelerator", "gpu"),
    "accelerator_count": ("acceleratorcount", "gpucount"),
    "price_kind": ("pricekind",),
    "low": ("low", "price"),
    "high": ("high", "price"),
    "unit": ("unit",),
    "currency": ("currency", "billingcurrency"),
    "source": ("source",),
    "as_of": ("asof",),
}
_KINDS = {
    "on_demand": ("on_demand", "ondemand", "on-demand", "payg"),
    "spot": ("spot", "preemptible"),
    "commit_1y": ("commit_1y",),
    "commit_3y": ("commit_3y",),
}
_UNITS = {
    "hour": ("hour", "hours", "hrs", "h", "1 hour", "instance-hour", "machine-hour", "per hour"),
    "accelerator-hour": ("accelerator-hour", "device-hour", "gpu-hour", "chip-hour"),
}


def _plain(header: str) -> str:
    return "".join(letter for letter in header.lower() if letter.isalnum())


def is_prices(shape: Shape) -> bool:
    """Whether the columns are those of the table: kind, unit, currency and a figure for a machine or a device."""
    have = {_plain(str(column)) for column in shape.columns}
    wanted = ("provider", "region_id", "price_kind", "unit", "currency", "low")
    return all(have & set(_HEADERS[name]) for name in wanted) and bool(
        have & {*_HEADERS["machine_type"], *_HEADERS["accelerator_model"]}
    )


def read_table(con: duckdb.DuckDBPyConnection, one: Recognised) -> Reading:
    """The rows of a CSV, Parquet or JSON Lines table."""
    reading = Reading()
    shape, path = one.shape, str(one.file.path)
    if shape.form == "csv" and shape.encoding != "utf-8":
        contents = read_foreign_table(one)
        return Reading([_quote(row) for row in contents.values], damage=contents.damage)
    try:
        if shape.form == "parquet":
            cursor = con.execute(
                "select to_json(t)::varchar from read_parquet(?, hive_partitioning = false) as t", [path]
            )
        elif shape.form == "csv":
            cursor = con.execute(
                "select to_json(t)::varchar from read_csv(?, header = true, all_varchar = true, delim = ?, quote = ?, escape = ?, encoding = ?, skip = ?, compression = ?, strict_mode = false, null_padding = true) as t",
                [path, shape.delimiter, shape.quote, shape.quote, shape.encoding, shape.skip_lines, shape.compression],
            )
        else:
            cursor = con.execute(
                "select json::varchar from read_json_objects(?, format = 'auto', compression = ?)",
                [path, "auto_detect" if shape.compression == "none" else shape.compression],
            )
        rows = cursor.fetchall()
    except duckdb.Error as error:
        reading.damage = str(error).splitlines()[0]
        return reading
    for (text,) in rows:
        reading.quotes.append(_quote(json.loads(text)))
    return reading


def _quote(row: dict[str, object]) -> Quote:
    by_name = {_plain(name): value for name, value in row.items()}

    def text(name: str) -> str | None:
        for header in _HEADERS[name]:
            value = by_name.get(header)
            if value not in (None, ""):
                return str(value).strip()
        return None

    unit, kind = (text("unit") or "").lower(), (text("price_kind") or "").lower()
    machine_type, model = text("machine_type"), text("accelerator_model")
    low = amount(text("low"))
    high = amount(text("high")) if text("high") is not None else low
    named_unit = next((name for name, words in _UNITS.items() if unit in words), unit or None)
    per_device = machine_type is None or machine_type.lower().endswith(" chip")
    return Quote(
        provider=(text("provider") or "").lower() or None,
        region_id=text("region_id"),
        zone=text("zone"),
        machine_type=machine_type,
        price_kind=next((name for name, words in _KINDS.items() if kind in words), None),
        low=low,
        high=high,
        currency=text("currency"),
        as_of=text("as_of"),
        unit=named_unit,
        scope=("per_chip" if (model or "").startswith("TPU") else "accelerator_only")
        if per_device
        else "whole_instance",
        accelerator_model=model,
        accelerator_count=amount(text("accelerator_count")),
        source=text("source"),
    )
