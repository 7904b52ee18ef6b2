"""Programs that do part of the same, for comparison, each in an environment of its own below the benchmark's folder.

`focus-converter` 1.0.0 starts only with older libraries, and knows the column names of legacy reports only: it is given the same
rows under those names, without maps. It is asked to leave the source's columns out, which is the faster way.
"""

import subprocess
import sys
from pathlib import Path

import duckdb

ENVIRONMENTS = {
    "pandas": ["pandas==3.1.1", "pyarrow==26.0.1"],
    "focus-converter": ["focus-converter==1.0.0", "multimethod<2", "click<8.2"],
}
_PARTS = {"identity", "bill", "line_item", "product", "pricing", "reservation", "savings_plan"}
# Columns that legacy reports write with a small letter.
_SMALL = {"unit", "term", "currency", "public_on_demand_cost", "public_on_demand_rate"}


def environment(name: str, base: Path) -> Path | None:
    """The Python of the environment, made when it is not there; None, with the reason printed, where it cannot be made."""
    folder = base / f"venv-{name}"
    python, made = folder / "bin" / "python", folder / "made"
    if not made.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
            install = [str(python), "-m", "pip", "install", "--quiet", *ENVIRONMENTS[name]]
            subprocess.run(install, check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            print(f"{name} is not measured, its environment cannot be made: {str(error.stderr).strip()[-300:]}")
            return None
        made.touch()
    return python


def legacy_copy(folder: Path, target: Path, count: int) -> None:
    """The first `count` rows of a CUR 2.0 in Parquet under legacy names."""
    source = f"read_parquet('{folder}/*.parquet')"
    kinds = {name: kind for name, kind, *_ in duckdb.execute(f"describe select * from {source}").fetchall()}
    wanted = [f'"{name}" as "{_legacy(name)}"' for name, kind in kinds.items() if _part(name) and "MAP" not in kind]
    wanted += ["product['region'] as \"product/region\"", "product['product_name'] as \"product/ProductName\""]
    target.mkdir(parents=True, exist_ok=True)
    duckdb.execute(
        f"copy (select {', '.join(wanted)} from {source} limit {count}) to '{target}/legacy.parquet' (format parquet)"
    )


def command(name: str, python: Path, source: Path, target: Path) -> list[str]:
    if name == "pandas":
        return [str(python), str(Path(__file__).with_name("by_pandas.py")), str(source), str(target)]
    words = "convert --provider aws-cur --data-format parquet --parquet-data-format dataset --export-format parquet --no-export-include-source-columns"
    paths = ["--data-path", f"{source}/legacy.parquet", "--export-path", str(target)]
    return [str(python.with_name("focus-converter")), *words.split(), *paths]


def _part(name: str) -> str | None:
    return next((part for part in _PARTS if name.startswith(f"{part}_")), None)


def _legacy(name: str) -> str:
    """`line_item_usage_type` is `lineItem/UsageType` there."""
    part = _part(name) or ""
    rest = name.removeprefix(f"{part}_")
    words = "".join(word.title() for word in rest.split("_"))
    is_small = part == "product" or rest in _SMALL
    return f"{_small(part.title().replace('_', ''))}/{_small(words) if is_small else words}"


def _small(word: str) -> str:
    return word[:1].lower() + word[1:]
