"""Runs, deliveries, the files of the lake, the run lock."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from auditor.errors import SettingsError
from auditor.state import RunLocked, State
from tests.state.conftest import NOW, a_delivery, a_file, commit
from tests.state.test_database import python


def paths(state: State, table: str | None = "charges", run_id: str | None = None) -> list[str]:
    return [file.path for file in state.live_files(table, run_id)]


def test_a_run_keeps_its_document_in_order(state: State) -> None:
    run = state.begin_run(as_of=NOW, windows={"aws": {"start": "2026-02-01"}}, note="nightly")
    assert state.run_document(run) is None
    state.finish_run(
        run, "partial", {"schema_version": "1.0", "findings": [], "a": "é"}, exit_status=3, billing_currency="USD"
    )
    document = state.run_document()
    assert document == state.run_document(run) == {"schema_version": "1.0", "findings": [], "a": "é"}
    assert list(document) == ["schema_version", "findings", "a"]
    [record] = state.runs_list()
    assert (record.id, record.status, record.exit_status, record.as_of, record.ended_at) == (
        run,
        "partial",
        3,
        NOW,
        NOW,
    )
    assert (record.windows, record.note, record.billing_currency) == (
        {"aws": {"start": "2026-02-01"}},
        "nightly",
        "USD",
    )


def test_runs_are_listed_newest_first(state: State) -> None:
    runs = [state.begin_run(now=NOW - timedelta(days=day)) for day in range(3)]
    assert [run.id for run in state.runs_list(2)] == [runs[2], runs[1]]


def test_an_unknown_run_is_an_error(state: State) -> None:
    with pytest.raises(SettingsError, match="no run has the id 'x'"):
        state.finish_run("x", "complete", {})
    with pytest.raises(SettingsError, match="no run has the id 'x'"):
        state.run_document("x")


def test_old_documents_are_forgotten_and_their_runs_stay(state: State) -> None:
    run = state.begin_run(now=NOW - timedelta(days=400))
    state.finish_run(run, "complete", {"a": 1})
    assert state.forget_documents(NOW - timedelta(days=395)) == 1
    assert state.run_document(run) is None
    assert len(state.runs_list()) == 1


def test_a_delivery_comes_back_as_it_was_given(state: State) -> None:
    run = state.begin_run()
    commit(state, run, a_delivery(), [a_file("a.parquet")])
    assert state.deliveries() == [replace(a_delivery(), run_id=run)]
    assert state.live_files() == [a_file("a.parquet", delivery_id="d1", live_from_run=run)]


def test_a_new_delivery_replaces_facts_and_marts_of_its_source_and_period(state: State) -> None:
    first = state.begin_run()
    other = {"source": "aws/111122223333/daily"}
    commit(state, first, a_delivery("d1"), [a_file("1.parquet"), a_file("1m.parquet", "transfers")])
    commit(
        state, first, a_delivery("january", billing_period="2026-01"), [a_file("j.parquet", billing_period="2026-01")]
    )
    commit(state, first, a_delivery("other", **other), [a_file("o.parquet", **other)])
    second = state.begin_run()
    assert commit(state, second, a_delivery("d2"), [a_file("2.parquet"), a_file("2m.parquet", "transfers")]) == "d2"
    assert paths(state) == ["2.parquet", "j.parquet", "o.parquet"]
    assert paths(state, "transfers") == ["2m.parquet"]
    assert paths(state, run_id=first) == ["1.parquet", "j.parquet", "o.parquet"]
    assert paths(state, run_id=second) == paths(state)
    [old] = state.deliveries(status="superseded")
    assert (old.id, old.superseded_by) == ("d1", "d2")
    assert [delivery.id for delivery in state.deliveries(run_id=second)] == ["d2"]


def test_the_same_digest_again_changes_nothing(state: State) -> None:
    first = state.begin_run()
    commit(state, first, a_delivery("d1", digest="same"), [a_file("1.parquet")])
    second = state.begin_run()
    assert commit(state, second, a_delivery("d2", digest="same"), [a_file("2.parquet")]) == "d1"
    assert paths(state) == ["1.parquet"]
    assert state.unreferenced(["1.parquet", "2.parquet"]) == ["2.parquet"]
    assert len(state.deliveries(status=None)) == 1


def test_a_delivery_can_supersede_those_of_another_source(state: State) -> None:
    run = state.begin_run()
    other = {"source": "aws/111122223333/legacy"}
    commit(state, run, a_delivery("legacy", **other), [a_file("l.parquet", **other)])
    commit(state, run, a_delivery("d1"), [a_file("1.parquet")], supersedes=["legacy"])
    assert paths(state) == ["1.parquet"]
    assert [delivery.id for delivery in state.deliveries()] == ["d1"]


def test_a_delivery_that_does_not_count_is_recorded_and_replaces_nothing(state: State) -> None:
    run = state.begin_run()
    commit(state, run, a_delivery("d1"), [a_file("1.parquet")])
    commit(state, run, a_delivery("d2", status="not_counted"), [a_file("2.parquet")])
    assert paths(state) == ["1.parquet"]
    assert [delivery.id for delivery in state.deliveries(status="not_counted")] == ["d2"]


def test_a_superseded_delivery_can_come_back(state: State) -> None:
    runs = [state.begin_run() for _ in range(3)]
    for run, name in zip(runs, ("d1", "d2", "d1"), strict=True):
        commit(state, run, a_delivery(name), [a_file(f"{name}.parquet")])
    assert [paths(state, run_id=run) for run in runs] == [["d1.parquet"], ["d2.parquet"], ["d1.parquet"]]
    assert {delivery.id: delivery.superseded_by for delivery in state.deliveries(status=None)} == {
        "d1": None,
        "d2": "d1",
    }


def test_replaced_files_are_forgotten_when_old(state: State) -> None:
    long_ago = NOW - timedelta(days=100)
    for day, name in enumerate(("d1", "d2", "d3")):
        run = state.begin_run(now=long_ago + timedelta(days=day))
        commit(state, run, a_delivery(name), [a_file(f"{name}.parquet")])
    assert state.forget_files(long_ago + timedelta(days=2)) == ["d1.parquet"]
    assert state.unreferenced(["d1.parquet", "d2.parquet", "d3.parquet"]) == ["d1.parquet"]
    assert paths(state) == ["d3.parquet"]


def test_one_run_at_a_time(new_state: Callable[[], State]) -> None:
    left, right = new_state(), new_state()
    with left.run_lock("left") as lock:
        with pytest.raises(RunLocked, match="another run is going on: left"), right.run_lock("right"):
            pytest.fail("the lock was given twice")
        lock.check()
    with right.run_lock("right"):
        pass


def test_the_lock_is_given_back_when_the_body_fails(state: State) -> None:
    with pytest.raises(ZeroDivisionError), state.run_lock("one"):
        raise ZeroDivisionError
    with state.run_lock("two"):
        pass


def test_a_heartbeat_keeps_the_lock_of_a_long_run(url: str) -> None:
    short = timedelta(seconds=0.4)
    with State.open(url) as left, State.open(url) as right, left.run_lock("left", short) as lock:
        time.sleep(0.8)
        with pytest.raises(RunLocked), right.run_lock("right", short):
            pytest.fail("the lock expired although its owner lives")
        assert not lock.is_lost


def test_a_lock_that_was_taken_over_says_so(url: str) -> None:
    later = NOW + timedelta(hours=1)
    slow, other = State.open(url, clock=lambda: NOW), State.open(url, clock=lambda: later)
    with slow, other, slow.run_lock("slow", timedelta(seconds=0.4)) as lock:
        with other.run_lock("other"):
            time.sleep(0.3)
        with pytest.raises(RunLocked, match="taken over"):
            lock.check()


DIES = """
import os, signal, sys
from datetime import timedelta
from auditor.state import State
state = State.open(sys.argv[1])
with state.run_lock("dies", timedelta(seconds=0.3)):
    state.begin_run()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_lock_of_a_killed_run_expires_and_the_run_is_interrupted(url: str) -> None:
    process = python(DIES, url)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == -9, output
    with State.open(url) as state, state.run_lock(f"after {os.getpid()}", wait=timedelta(seconds=5)):
        assert [run.status for run in state.runs_list()] == ["interrupted"]


def test_a_run_is_found_by_the_beginning_of_its_id_and_keeps_its_extras(state: State) -> None:
    assert state.get_run() is None
    runs = [state.begin_run(now=NOW + timedelta(days=day)) for day in range(2)]
    state.finish_run(runs[0], "complete", {"a": 1}, extras='{"b": 2}')
    newest = state.get_run()
    assert newest is not None
    assert newest.id == runs[0]  # the other left no document
    assert state.run_extras(runs[0]) == '{"b": 2}'
    assert state.run_extras(runs[1]) is None
    found = state.get_run(runs[1][:14])
    assert found is not None
    assert found.id == runs[1]
    for wrong, says in ((runs[0][:4], "several runs have"), ("x", "no run has"), ("%", "no run has")):
        with pytest.raises(SettingsError, match=says):
            state.get_run(wrong)
    assert state.forget_documents(NOW + timedelta(days=9)) == 1
    assert state.run_extras(runs[0]) is None


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_lock_taken_before_the_clock_was_set_back_is_taken_over_when_its_holder_is_still(url: str) -> None:
    ttl = timedelta(seconds=0.4)
    with State.open(url, clock=lambda: NOW + timedelta(days=9000)) as dead:
        held = dead.run_lock("dead", ttl=timedelta(hours=1))
        held.__enter__()  # its heart beats once in a quarter of an hour: as good as dead
        with State.open(url, clock=lambda: NOW) as state:
            with pytest.raises(RunLocked), state.run_lock("b", ttl=ttl):
                pass
            with state.run_lock("b", ttl=ttl, wait=timedelta(seconds=5)) as lock:
                lock.check()
        held.__exit__(None, None, None)
