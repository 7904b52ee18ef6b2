"""Commands answer at once, however long the history."""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from auditor.state import State
from tests.state.conftest import a_finding

ROOT = Path(__file__).parents[2]
FINDINGS = 100_000
MANY = """
    insert into findings
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {count})
    select {columns} from findings cross join numbers
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a hundred thousand open findings."""
    with State.open(str(tmp_path / "state.db")) as state:
        run = state.begin_run()
        state.record_findings(run, [a_finding()], {("gpu.idle_instance", "aws")})
        state.finish_run(run, "complete", {})
    own = {"id": "printf('%016x', n)", "monthly_savings_net": "cast(n % 9973 as text)", "resource_id": "'i-' || n"}
    with sqlite3.connect(tmp_path / "state.db") as connection:
        names = [row[1] for row in connection.execute("pragma table_info(findings)")]
        columns = ", ".join(own.get(name, name) for name in names)
        connection.execute(MANY.format(count=FINDINGS - 1, columns=columns))
    return tmp_path


def processor_seconds(*words: str) -> tuple[float, str]:
    """The least that a command took of five times, and what it printed."""
    spent: list[float] = []
    for _ in range(5):
        before = os.times()
        done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True)
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(spent), done.stdout


@pytest.mark.slow
def test_a_hundred_thousand_findings_are_listed_within_a_second(data: Path) -> None:
    spent, said = processor_seconds("-m", "auditor", "findings", "list", "--data-dir", str(data))
    assert "USD 9,972.00" in said.splitlines()[1]
    assert "more than 100" in said
    # 0.73 where it was measured: 0.11 the query, the rest imports, of which SQLAlchemy's own is 0.3. A machine that is
    # busy with other things counts more for the same work.
    yardstick, _ = processor_seconds("-c", "import sqlalchemy")
    assert spent < max(0.9, 3 * yardstick)


@pytest.mark.slow
def test_the_query_itself_takes_little_of_it(data: Path) -> None:
    with State.open(str(data / "state.db")) as state:
        begin = time.process_time()
        found = state.list_findings(status=("new", "open", "reopened", "acknowledged"), limit=101)
        assert time.process_time() - begin < 0.4
        assert sum(state.count_findings().values()) == FINDINGS
    assert len(found) == 101


@pytest.mark.slow
def test_all_of_them_are_listed_in_seconds(data: Path) -> None:
    words = [sys.executable, "-m", "auditor", "findings", "list", "--data-dir", str(data), "--limit", "1000000"]
    begin = os.times().children_user
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == FINDINGS + 1
    assert os.times().children_user - begin < 15  # a table of rich would take minutes
