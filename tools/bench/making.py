"""What the generators of the benchmark share: their arguments, and writing a month file by file."""

import argparse
from collections.abc import Callable
from pathlib import Path

import duckdb


def wanted(about: str | None, *options: str) -> argparse.Namespace:
    """FOLDER, ROWS and the switches given."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    for option in options:
        parser.add_argument(option, action="store_true")
    return parser.parse_args()


def write(
    folder: Path, total: int, rows_a_file: int, query: Callable[[int, int], str], name: str, options: str
) -> None:
    """Files of at most `rows_a_file` rows; `query` makes the rows from the first on, `{number}` in `name` counts from 1."""
    folder.mkdir(parents=True, exist_ok=True)
    con = duckdb.connect(config={"memory_limit": "4GB"})
    for number, first in enumerate(range(0, total, rows_a_file), 1):
        made = query(first, min(rows_a_file, total - first))
        con.execute(f"copy ({made}) to '{folder / name.format(number=number)}' ({options})")


def listed(values: list[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"
