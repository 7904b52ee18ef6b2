"""What ships beside the program: units, a cron line, a container, a configuration, secrets by reference."""

import json
import re
import shutil
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from auditor import secret
from auditor.errors import LakeError, SettingsError
from auditor.example import example
from auditor.schedule import Cron
from auditor.settings import Settings, load, parse
from auditor.state import State

CONFIG = Path(__file__).parents[1] / "config"
UNITS = sorted((CONFIG / "systemd").glob("*.service"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_exposed_to_2_at_most(unit: Path) -> None:
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)], capture_output=True, text=True, check=False
    )
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", said.stdout)
    assert level, said.stdout + said.stderr
    assert float(level.group(1)) <= 2.0


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_names_commands_and_options_that_exist(unit: Path) -> None:
    from typer.main import get_command

    from auditor.cli.app import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    lines = re.findall(r"^ExecStart=/opt/auditor/bin/auditor (.+)$", unit.read_text(), re.MULTILINE)
    assert lines
    for name, *words in (line.split() for line in lines):
        known = {option for each in commands[name].params for option in each.opts}
        assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_shows_what_a_dead_lock_is_known_by(unit: Path) -> None:
    assert not re.search(r"^ProcSubset=pid", unit.read_text(), re.MULTILINE)


def test_the_shipped_configuration_is_the_one_the_settings_make_and_changes_nothing() -> None:
    text = (CONFIG / "auditor.example.toml").read_text()
    assert text == example()
    assert parse(tomllib.loads(text), "here") == Settings()


def test_every_scheduled_time_of_the_cron_line_is_one() -> None:
    lines = [line for line in (CONFIG / "cron" / "auditor").read_text().splitlines() if re.match(r"[\d*]", line)]
    assert len(lines) == 2
    for line in lines:
        assert Cron(" ".join(line.split()[:5]), "UTC").next(datetime(2026, 3, 1, tzinfo=UTC))


def test_a_secret_is_read_from_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "smtp").write_text("hunter2\n")
    assert secret.resolve("env:KEY", {"KEY": "hunter2"}) == "hunter2"
    assert secret.resolve(f"file:{tmp_path}/smtp", {}) == "hunter2"
    assert secret.resolve("credential:smtp", {"CREDENTIALS_DIRECTORY": str(tmp_path)}) == "hunter2"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("env:KEY", "KEY is not set"),
        ("file:/nowhere/key", "cannot be read"),
        ("credential:smtp", "LoadCredential=smtp:PATH"),
        ("hunter2", "named, not written down"),
    ],
)
def test_a_secret_that_is_not_there_says_where_it_was_looked_for(reference: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as error:
        secret.resolve(reference, {})
    assert "hunter2" not in str(error.value)


MAIL = {"host": "mail.example.com", "sender": "a@example.com", "recipients": ["b@example.com"]}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"delivery": {"smtp": {**MAIL, "username": "a", "password": "hunter2"}}}, "named, not written down"),
        ({"delivery": {"smtp": {**MAIL, "security": "none"}}}, "relay on this machine"),
        ({"delivery": {"smtp": {**MAIL, "username": "a"}}}, "go together"),
        ({"delivery": {"smtp": {**MAIL, "recipient": []}}}, "did you mean 'recipients'"),
        ({"delivery": {"webhook": {"url": "http://example.com", "secret": "env:K"}}}, "wanted https"),
        ({"delivery": {"apprise": {"urls": ["slack://hunter2"]}}}, "named, not written down"),
        ({"state": {"url": "postgresql://a:hunter2@db/x"}}, "holds a password"),
        ({"schedule": {"audit": "5 * * *"}}, "five fields"),
        ({"schedule": {"audit": "61 * * * *"}}, "wanted 0 to 59"),
        ({"schedule": {"timezone": "Mars/Base"}}, "no time zone"),
        ({"mutes": [{"author": "a", "reason": "b"}]}, "needs a rule, resource, tag or account"),
        ({"mutes": [{"rule": "x", "author": "", "reason": "b"}]}, "author"),
    ],
)
def test_a_setting_that_would_be_unsafe_or_senseless_is_refused_without_repeating_it(
    table: dict[str, object], says: str
) -> None:
    with pytest.raises(SettingsError, match=says) as error:
        parse(table, "here")
    assert "hunter2" not in str(error.value)


def test_a_password_joins_the_url_when_it_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DB", "p@ss/word")
    state = parse({"state": {"url": "postgresql://auditor@db/x", "password": "env:DB"}}, "here").state
    assert state.address(tmp_path) == "postgresql://auditor:p%40ss%2Fword@db/x"


def test_mutes_of_a_file_beside_the_configuration_count(tmp_path: Path) -> None:
    (tmp_path / "auditor.toml").write_text(
        '[state]\nmute_files = ["mutes.toml"]\n[[mutes]]\nrule = "a.b"\nauthor = "a"\nreason = "b"\n'
    )
    (tmp_path / "mutes.toml").write_text('[[mutes]]\ntag = "env=dev"\nauthor = "a"\nreason = "b"\nuntil = 2026-12-01\n')
    mutes = [mute.record() for mute in load(tmp_path / "auditor.toml").mutes]
    assert [(mute.rule, mute.tag, mute.until) for mute in mutes] == [
        ("a.b", None, None),
        (None, "env=dev", datetime(2026, 12, 1, tzinfo=UTC)),
    ]
    assert len({mute.id for mute in mutes}) == 2
    (tmp_path / "mutes.toml").write_text('[[mutes]]\ntags = "env=dev"\nauthor = "a"\nreason = "b"\n')
    with pytest.raises(SettingsError, match=r"mutes\.toml.*unknown key"):
        load(tmp_path / "auditor.toml")


def test_weekdays_are_those_of_cron() -> None:
    monday = datetime(2026, 3, 2, tzinfo=UTC)
    for expression, day in (
        ("0 7 * * 0", 8),
        ("0 7 * * 7", 8),
        ("0 7 * * 1", 2),
        ("0 7 * * sat-sun", 0),
        ("0 7 13 * 5", 6),
        ("0 7 */2 * 1", 9),
    ):
        if day:
            due = Cron(expression, "UTC").next(monday)
            assert due is not None
            assert (expression, due.at.day) == (expression, day)
        else:
            with pytest.raises(ValueError, match="runs backwards"):
                Cron(expression, "UTC")


def test_a_full_disk_is_told_and_leaves_the_state_whole(tmp_path: Path) -> None:
    with State.open(str(tmp_path / "state.db")) as state:
        run = state.begin_run()
        with state._database.write() as connection:
            connection.exec_driver_sql("pragma max_page_count = 1")  # it takes the size the file has: full from now on
        with pytest.raises(LakeError, match="full"):
            state.finish_run(run, "complete", {"big": "x" * 1_000_000})
    with State.open(str(tmp_path / "state.db")) as again:
        assert [each.status for each in again.runs_list()] == ["running"]
        again.finish_run(run, "complete", {"big": "x" * 1_000_000})


def test_the_container_is_given_all_that_the_program_is_packed_from() -> None:
    text = (CONFIG / "container" / "Containerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE) for word in line.split()[:-1]}
    project = tomllib.loads((CONFIG.parent / "pyproject.toml").read_text())
    assert copied >= set(project["tool"]["hatch"]["build"]["only-include"])
    assert copied >= {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert all((CONFIG.parent / name).exists() for name in copied)


def test_the_container_starts_with_options_that_exist() -> None:
    from typer.main import get_command

    from auditor.cli.app import app

    text = (CONFIG / "container" / "Containerfile").read_text()
    [command] = re.findall(r"^CMD (\[.+\])$", text, re.MULTILINE)
    name, *words = json.loads(command)
    known = {option for each in get_command(app).commands[name].params for option in each.opts}  # type: ignore[attr-defined]
    assert {word for word in words if word.startswith("-")} <= known
