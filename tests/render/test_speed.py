"""The largest report anybody should ask for is made in two seconds and 300 MiB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own, so that its memory is the report's alone; its own time, so that a busy machine does not matter.
MAKE = """
import json, resource, sys, time
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from auditor.render import DailyCost, DayTotal, render
from tests.render import invented

document, extras = invented.document(), invented.extras()
heaviest = document["findings"][0]
document["findings"] = [heaviest | {"id": f"{n:016x}", "owner": f"team-{n % 40}"} for n in range(500)]
days = [date(2025, 4, 1) + timedelta(days=n) for n in range(365)]
daily = tuple(
    DailyCost(cloud, f"{cloud}-{n % 12}", f"service {n % 15}", f"team-{n % 40}", day, "USD", Decimal(f"{n + 1}.25"))
    for day in days for cloud in ("aws", "gcp", "azure") for n in range(40)
)
samples = next(iter(extras.samples.values()))
extras = replace(
    extras,
    daily_costs=daily,
    history=tuple(DayTotal("aws", day, "USD", Decimal(100)) for day in days),
    samples={finding["id"]: samples for finding in document["findings"]},
)
started = time.process_time()
(path,) = render(document, extras, ["html"], Path(sys.argv[1]))
took = time.process_time() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": took, "mib": peak, "bytes": path.stat().st_size, "rows": len(daily)}))
"""


@pytest.mark.slow
def test_five_hundred_findings_and_a_year_of_days_are_quick_and_light(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", MAKE, str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    seen = json.loads(done.stdout)
    assert seen["rows"] == 365 * 3 * 40
    assert seen["seconds"] < 2, seen
    assert seen["mib"] < 300, seen
    assert seen["bytes"] < 1_500_000, seen
    source = (tmp_path / "report.html").read_text("utf-8")
    assert all(f'id="f-{n:016x}"' in source for n in range(500))
