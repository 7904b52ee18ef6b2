"""Folders and archives as people send them: walked in a stable order, unpacked into a spool, never trusted."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from auditor.collect.local import gather
from auditor.errors import SettingsError


def names(paths: list[str], spool: Path) -> list[str]:
    return [file.name for file in gather(paths, spool)[0]]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def pack(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_folder_is_walked_in_the_order_of_names_without_system_files(inbox: Path, spool: Path) -> None:
    for name in ("b/2.csv", "a/1.csv", "a/.DS_Store", "__MACOSX/x.csv", "a/._1.csv"):
        (inbox / name).parent.mkdir(exist_ok=True)
        (inbox / name).write_text("x")
    assert names([str(inbox)], spool) == ["a/1.csv", "b/2.csv"]


def test_a_file_reached_twice_is_one_file(inbox: Path, spool: Path) -> None:
    (inbox / "a.csv").write_text("x")
    (inbox / "link.csv").symlink_to(inbox / "a.csv")
    assert names([str(inbox), str(inbox / "a.csv")], spool) == ["a.csv"]


def test_a_path_that_does_not_exist_is_wrong_usage(inbox: Path, spool: Path) -> None:
    with pytest.raises(SettingsError, match="no such file or folder"):
        gather([str(inbox / "nothing")], spool)


def test_members_of_archives_in_archives_are_named_by_their_whole_way(inbox: Path, spool: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("cur.csv", "x")
    pack(inbox / "outer.zip", {"deep/inner.zip": inner.getvalue()})
    assert names([str(inbox)], spool) == ["outer.zip!deep/inner.zip!cur.csv"]


def test_a_member_s_name_never_leaves_the_spool(inbox: Path, spool: Path) -> None:
    pack(inbox / "evil.zip", {"../../../escaped.csv": b"x", "/etc/passwd": b"x", "a\\..\\b.csv": b"x"})
    with tarfile.open(inbox / "evil.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("../../escaped.csv")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    files, failed = gather([str(inbox)], spool)
    assert len(files) == 4 and not failed
    assert all(file.path.parent == spool and not file.path.is_symlink() for file in files)
    assert not list(spool.parent.glob("escaped.csv"))


def test_an_archive_that_would_fill_the_disk_is_refused_and_the_rest_is_read(inbox: Path, spool: Path) -> None:
    pack(inbox / "bomb.zip", {"zeros.csv": bytes(80 * 1024 * 1024)})
    pack(inbox / "good.zip", {"cur.csv": b"x"})
    files, failed = gather([str(inbox)], spool)
    assert [file.name for file in files] == ["good.zip!cur.csv"]
    assert [name for name, _ in failed] == ["bomb.zip"]
    assert "zip bomb" in failed[0][1]


def test_archives_in_archives_without_end_are_refused(inbox: Path, spool: Path) -> None:
    content = b"x"
    for _ in range(12):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("next.zip" if content != b"x" else "x.csv", content)
        content = out.getvalue()
    (inbox / "matryoshka.zip").write_bytes(content)
    files, failed = gather([str(inbox)], spool)
    assert not files
    assert "archives inside archives" in failed[0][1]


def test_a_damaged_or_locked_archive_is_named(inbox: Path, spool: Path) -> None:
    pack(inbox / "cut.zip", {"cur.csv": b"x" * 1000})
    (inbox / "cut.zip").write_bytes((inbox / "cut.zip").read_bytes()[:60])
    files, failed = gather([str(inbox)], spool)
    assert (files, [name for name, _ in failed]) == ([], ["cut.zip"])


def test_an_office_document_is_one_file(inbox: Path, spool: Path) -> None:
    pack(inbox / "sheet.xlsx", {"[Content_Types].xml": b"<x/>", "xl/workbook.xml": b"<x/>"})
    assert names([str(inbox)], spool) == ["sheet.xlsx"]


@pytest.mark.parametrize("name", ["bill[1].csv", "x*.csv", "q[1]/a?.csv", "{a}.csv"])
def test_a_name_that_reads_as_a_pattern_is_handed_on_under_a_plain_path(inbox: Path, spool: Path, name: str) -> None:
    (inbox / name).parent.mkdir(exist_ok=True)
    (inbox / name).write_text("the file itself")
    files, _ = gather([str(inbox)], spool)
    assert [file.name for file in files] == [name]
    assert not set("*?[]{}") & set(str(files[0].path))
    assert files[0].path.suffix == ".csv"
    assert files[0].path.read_text() == "the file itself"


def test_a_member_whose_suffix_is_a_pattern_gets_a_plain_path(inbox: Path, spool: Path) -> None:
    pack(inbox / "a.zip", {"x.c*[v]": b"x"})
    files, _ = gather([str(inbox)], spool)
    assert (files[0].name, files[0].path.suffix) == ("a.zip!x.c*[v]", ".cv")


def test_a_name_that_is_no_utf8_is_shown_printable_and_read(inbox: Path, spool: Path) -> None:
    Path(os.fsdecode(os.fsencode(inbox) + b"/k\xf6ln.csv")).write_text("x")
    files, failed = gather([str(inbox)], spool)
    assert not failed
    assert [file.name for file in files] == ["k\\xf6ln.csv"]
    str(files[0].path).encode()
    assert files[0].path.read_text() == "x"


def test_a_damaged_lzma_member_is_named_and_the_other_members_are_read(inbox: Path, spool: Path) -> None:
    with zipfile.ZipFile(inbox / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("bad.csv", os.urandom(4000).hex())
        archive.writestr("good.csv", "x")
    content = bytearray((inbox / "a.zip").read_bytes())
    content[60:300] = b"\xff" * 240
    (inbox / "a.zip").write_bytes(content)
    files, failed = gather([str(inbox)], spool)
    assert [file.name for file in files] == ["a.zip!good.csv"]
    assert [name for name, _ in failed] == ["a.zip"]
    assert "bad.csv" in failed[0][1]


def test_a_damaged_tar_xz_fails_alone(inbox: Path, spool: Path) -> None:
    (inbox / "member.txt").write_text(os.urandom(200_000).hex())
    with tarfile.open(inbox / "a.tar.xz", "w:xz") as archive:
        archive.add(inbox / "member.txt", "member.txt")
    content = bytearray((inbox / "a.tar.xz").read_bytes())
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    (inbox / "a.tar.xz").write_bytes(content)
    files, failed = gather([str(inbox)], spool)
    assert [file.name for file in files] == ["member.txt"]
    assert [name for name, _ in failed] == ["a.tar.xz"]
