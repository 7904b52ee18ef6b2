"""Measures how fast bills are read, as ratios of what DuckDB alone needs in the same run and of what other programs need.

    python tools/bench/bills.py FOLDER [--full] [--rows 1000000] [--only cur,gcp]

Makes a month of each kind of bill below FOLDER (kept for the next time), runs every step in a process of its own on two cores, and
prints a table, also written to FOLDER/bills.md. With --full a tenfold CUR is added. Runs unattended; a bill of which a step fails,
or whose report does not add up to it, is left out of the table, and the exit status is 1.

`floor` sums the cost column, `rows` writes every row of a CUR as FOCUS by one plain query, `ingest` takes the bills in, `scan` is
the user's first command with its report, `rescan` the same command again, `export` writes FOCUS. CPU seconds are steadier than
wall seconds where other programs run; the ratios are of CPU. The start of Python and its libraries is taken off `floor` and
`rows`, not off what is compared with them.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import peers

HERE = Path(__file__).parent
CORES = 2
CUR_STEPS = ("floor", "rows", "ingest", "scan", "rescan", "export")
STEPS = ("floor", "ingest", "scan", "rescan")
LEAST = 0.1  # CPU seconds that a ratio may rest on; the clock is not finer
PLAIN = ("floor", "rows")  # measured without the start of Python


class Failed(Exception):
    """A step that ended with an error, or an audit that does not add up to the bill."""


@dataclass(frozen=True)
class Bill:
    """One month to make: its name, the generator, and what is measured of it."""

    name: str
    generator: str
    rows: int
    steps: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cost:
    """What one process took."""

    wall: float
    cpu: float
    mib: float


def bills(rows: int, *, full: bool) -> list[Bill]:
    made = [
        Bill("cur", "make_cur2.py", rows, CUR_STEPS),
        Bill("cur-csv", "make_cur2.py", rows, ("floor", "rows", "ingest", "scan", "rescan"), ("--csv",)),
        Bill("gcp", "make_gcp.py", rows, STEPS),
        Bill("azure", "make_azure.py", rows, STEPS),
    ]
    return [*made, Bill("cur-tenfold", "make_cur2.py", rows * 10, CUR_STEPS)] if full else made


def make(bill: Bill, base: Path) -> Path:
    """The bill's folder, made anew where its generator or its size is another than the last time."""
    folder, stamp = base / bill.name, base / f"{bill.name}.made"
    sources = b"".join((HERE / name).read_bytes() for name in (bill.generator, "making.py"))
    wanted = hashlib.sha256(sources + repr(bill).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text("ascii") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"making {bill.name}, {bill.rows:,} rows", flush=True)
        words = [sys.executable, str(HERE / bill.generator), str(folder), str(bill.rows), *bill.options]
        subprocess.run(words, check=True)
        stamp.write_text(wanted, "ascii")
    return folder


def measure(words: Sequence[str], log: Path) -> Cost:
    """Runs the command, what it prints going to `log`. Raises Failed where it fails."""
    start = time.perf_counter()
    with log.open("wb") as out, subprocess.Popen(words, stdout=out, stderr=out) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"{' '.join(words)} failed:\n{log.read_text('utf-8', 'replace')[-2000:]}")
    return Cost(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def command(step: str, folder: Path, work: Path) -> list[str]:
    """The step as a command: of `auditor` what a user types, else a part of steps.py."""
    if step not in ("scan", "rescan", "export"):
        return [sys.executable, str(HERE / "steps.py"), step, str(folder), str(work)]
    more = ["--as-of", "2026-11-01"] if step != "export" else ["--focus", "1.2"]
    target = ["--output", str(work / step), "--data-dir", str(work / ("exported" if step == "export" else "data"))]
    return [sys.executable, "-m", "auditor", step.removeprefix("re"), str(folder), *more, *target, "--no-progress"]


def run(bill: Bill, base: Path) -> dict[str, Cost]:
    """Every step of one bill, and for `start` what a process costs that does nothing."""
    folder, work = make(bill, base), base / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    log = base / "last-step.log"
    costs = {"start": measure(command("nothing", folder, work), log)}
    measure(command("floor", folder, work), log)  # so that no step is the first to read the disk
    for step in bill.steps:
        costs[step] = measure(command(step, folder, work), log)
        print(f"{bill.name:12} {step:7} {told(costs[step])}", flush=True)
        if step == "scan":
            check(folder, work)
    shutil.rmtree(work)
    return costs


def check(folder: Path, work: Path) -> None:
    """Raises Failed where the report does not add up to the bill, or to what the engine itself sums."""
    found = json.loads((work / "scan" / "findings.json").read_text("utf-8"))["reconciliation"]
    said = subprocess.run(command("billed", folder, work), check=True, capture_output=True, text=True).stdout
    wanted = Decimal(said)
    lake = sum((Decimal(row["lake_billed_cost"]) for row in found), Decimal(0))
    if not found or any(Decimal(row["difference"]) for row in found) or lake != wanted:
        raise Failed(f"{folder}: the audit has {lake}, the bill {wanted}: {found}")


def run_peers(base: Path, rows: int) -> dict[str, tuple[int, Cost]]:
    """Other programs over the CUR, or as much of it as they take in reasonable time: rows and cost."""
    costs: dict[str, tuple[int, Cost]] = {}
    for name, count in (("pandas", rows), ("focus-converter", min(rows, 500_000))):
        python = peers.environment(name, base)
        if python is None:
            continue
        source, target = base / "cur", base / "work"
        if name == "focus-converter":
            source = base / "legacy"
            peers.legacy_copy(base / "cur", source, count)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        try:
            costs[name] = count, measure(peers.command(name, python, source, target), base / "last-step.log")
        except Failed as error:
            print(f"{name} is not measured: {error}")
            continue
        print(f"{'cur':12} {name:15} {told(costs[name][1])}", flush=True)
        shutil.rmtree(target)
    return costs


def told(cost: Cost) -> str:
    return f"{cost.wall:8.1f} s wall {cost.cpu:8.1f} s CPU {cost.mib:8.0f} MiB"


def table(measured: dict[str, tuple[Bill, dict[str, Cost]]], others: dict[str, tuple[int, Cost]]) -> str:
    lines = [
        "| bill | rows | step | wall s | CPU s | MiB at most | CPU µs a row | CPU to `floor` | CPU to `rows` |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for bill, costs in measured.values():
        plain = {step: max(costs[step].cpu - costs["start"].cpu, 0.01) for step in PLAIN if step in costs}
        for step in bill.steps:
            cpu = plain.get(step, costs[step].cpu)
            ratios = [
                f"{cpu / plain[of]:.1f}" if plain.get(of, 0) >= LEAST and step != "rescan" else "" for of in PLAIN
            ]
            lines.append(_line(bill.name, bill.rows, step, costs[step], cpu, ratios))
    of_cur = measured["cur"][1] if "cur" in measured else {}
    lines += [_line("cur", count, name, cost, cost.cpu, ["", ""]) for name, (count, cost) in others.items()]
    text = "\n".join(lines) + "\n\n"
    for name, (count, cost) in others.items():
        bill = measured["cur"][0]
        for step in ("ingest", "export"):
            ratio = (cost.cpu / count) / (of_cur[step].cpu / bill.rows)
            text += f"- {name} needs {ratio:.1f} times the CPU of `{step}` for a row\n"
    if "cur-tenfold" in measured and of_cur:
        tenfold = measured["cur-tenfold"][1]
        for step in CUR_STEPS:
            ratio, memory = tenfold[step].cpu / of_cur[step].cpu, tenfold[step].mib / of_cur[step].mib
            text += f"- ten times the rows take `{step}` {ratio:.1f} times the CPU and {memory:.1f} times the memory\n"
    slow = [bill.name for bill, costs in measured.values() if costs["rescan"].wall >= 2]
    text += f"- the unchanged second scan takes {'2 s or more for ' + ', '.join(slow) if slow else 'less than 2 s everywhere'}\n"
    return text


def _line(name: str, rows: int, step: str, cost: Cost, cpu: float, ratios: Sequence[str]) -> str:
    figures = [f"{cost.wall:.1f}", f"{cpu:.1f}", f"{cost.mib:.0f}", f"{cpu / rows * 1e6:.2f}", *ratios]
    return f"| {name} | {rows:,} | {step} | " + " | ".join(figures) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--full", action="store_true", help="also ten times the rows of a CUR")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each bill")
    parser.add_argument("--only", default="", help="names of bills, by comma")
    asked = parser.parse_args()
    base = asked.folder.resolve()
    base.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    names = asked.only.split(",") if asked.only else []
    chosen = [bill for bill in bills(asked.rows, full=asked.full) if not names or bill.name in names]
    measured: dict[str, tuple[Bill, dict[str, Cost]]] = {}
    failures = []
    for bill in chosen:
        try:
            measured[bill.name] = bill, run(bill, base)
        except Failed as error:
            failures.append(f"{bill.name}: {error}")
            print(failures[-1], flush=True)
    text = table(measured, run_peers(base, asked.rows) if "cur" in measured else {})
    text += "".join(f"- not measured: {' '.join(failure.split())[-300:]}\n" for failure in failures)
    (base / "bills.md").write_text(text, "utf-8")
    print(f"\n{text}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
