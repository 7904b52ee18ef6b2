"""What a dead process of this machine held is free at once; of any other nobody knows."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from auditor.state import RunLocked, State
from auditor.state.process import is_dead, this_process
from tests.state.conftest import NOW

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(this_process() is None, reason="this system does not tell when a process began")

HOLDS = """
import sys, time
from datetime import datetime
from auditor.state import State
from tests.state.conftest import NOW
with State.open(sys.argv[1], clock=lambda: NOW) as state, state.run_lock("another process"):
    state.begin_run()
    state.claim_job("audit", "2026-03-01T05:00", NOW, "another process")
    state.claim_slot("smtp", "a@example.com", "report 1", message_id="<1@example.com>")
    state.slot_sending(state.claim_slot("smtp", "a@example.com", "report 2", message_id="<2@example.com>"))
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def a_holder(url: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the run lock, a slot and two reports."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", HOLDS, url], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_a_killed_process_held_is_free_at_once(url: str) -> None:
    with State.open(url, clock=lambda: NOW) as state, a_holder(url) as holder:
        with pytest.raises(RunLocked, match="another process"), state.run_lock("me"):
            pass
        assert state.unfinished_jobs() == []
        assert state.claim_slot("smtp", "a@example.com", "report 1", message_id="<1@example.com>") is None
        assert state.settle_unknown() == 0
        holder.kill()
        holder.wait()
        with state.run_lock("me"):
            assert [run.status for run in state.runs_list()] == ["interrupted"]
        assert [slot.slot for slot in state.unfinished_jobs()] == ["2026-03-01T05:00"]
        assert state.claim_job("audit", "2026-03-01T05:00", NOW, "me") is not None
        assert state.claim_slot("smtp", "a@example.com", "report 1", message_id="<1@example.com>") is not None
        assert state.settle_unknown() == 1
        assert [each.status for each in state.notifications(slot="report 2")] == ["unknown"]


def test_a_slot_in_another_hand_is_looked_at_again_and_one_that_is_over_is_not(state: State) -> None:
    claim = state.claim_slot("smtp", "a@example.com", "report 1", message_id="<1@example.com>")
    assert claim is not None
    assert state.slot_free_at("smtp", "a@example.com", "report 1") == NOW + timedelta(minutes=15)
    assert state.slot_free_at("smtp", "a@example.com", "report 1", now=NOW - timedelta(days=9)) == NOW - timedelta(
        days=9
    ) + timedelta(minutes=15)
    state.slot_failed(claim, "odd", retry_at=NOW + timedelta(minutes=2))
    assert state.slot_free_at("smtp", "a@example.com", "report 1") == NOW + timedelta(minutes=2)
    state.slot_failed(claim, "odd")
    assert state.slot_free_at("smtp", "a@example.com", "report 1") is None
    state.slot_sent(claim)
    assert state.slot_free_at("smtp", "a@example.com", "report 1") is None


def test_a_process_is_dead_once_it_ended_even_before_anybody_asked_how() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "from auditor.state.process import this_process; print(this_process()); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    assert not is_dead(name)
    child.kill()
    child.stdout.read()  # its end of the pipe closes with it: from here on it is a zombie
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(name)
    child.wait()
    assert is_dead(name)


def test_a_number_that_another_process_bears_now_is_not_the_dead_one() -> None:
    me = this_process()
    assert me is not None
    assert not is_dead(me)
    assert is_dead(me[: me.rindex("/")] + "/1")


@pytest.mark.parametrize("part", [0, 1])
def test_of_another_boot_or_container_nothing_is_known(part: int) -> None:
    parts = str(this_process()).split("/")
    parts[part], parts[3] = "another", "1"
    assert not is_dead("/".join(parts))


@pytest.mark.parametrize("name", [None, "", "x", "a/b/c/d", "///"])
def test_a_holder_without_a_name_is_not_judged(name: str | None) -> None:
    assert not is_dead(name)


def test_somebody_elses_process_that_is_hidden_from_us_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = str(this_process()).split("/")
    parts[2], parts[3] = "1", "1"

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    monkeypatch.setattr("auditor.state.process._start", lambda _: None)
    assert not is_dead("/".join(parts))
