"""The wheel holds all that a checkout has, and works where there is no checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from auditor.assets import ROOMS, room

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def tracked(name: str) -> set[str]:
    """Files of a room, without what tools leave behind."""
    folder = ROOT / name
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {
        path.as_posix()
        for path in files
        if not any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    }


@pytest.mark.parametrize("name", ROOMS)
def test_the_wheel_holds_every_file_of_the_room(wheel: Path, name: str) -> None:
    prefix = f"auditor/_assets/{name}/"
    packed = {member[len(prefix) :] for member in zipfile.ZipFile(wheel).namelist() if member.startswith(prefix)}
    assert packed == tracked(name)


def test_the_wheel_holds_the_migrations(wheel: Path) -> None:
    members = zipfile.ZipFile(wheel).namelist()
    assert any(member.startswith("auditor/state/migrations/versions/") for member in members)


def test_the_wheel_finds_its_rooms_by_itself(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = "from auditor.assets import room; print(room('rules'))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str((tmp_path / "auditor" / "_assets" / "rules").resolve())


def test_an_unknown_room_is_named() -> None:
    with pytest.raises(ValueError, match="no room is called 'kitchen'"):
        room("kitchen")
