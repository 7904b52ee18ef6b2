"""Turns the paths a user names into landing files: folders walked, archives unpacked into a spool."""

import logging
import os
import re
import shutil
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path, PurePosixPath
from typing import IO

from auditor.errors import SettingsError, SourceError
from auditor.journal import JOURNAL
from auditor.landing import LandingFile

log = logging.getLogger(__name__)

_JUNK = {".DS_Store", "Thumbs.db", "desktop.ini"}
_REMOTE = ("s3://", "gs://", "az://")
# An export packs 10 to 30 times; a thousandfold expansion is an attack, as is one that would fill the disk.
_MAX_EXPANSION = 1000
_MAX_DEPTH = 5
_TAR_NAMES = (".tar", ".tar.gz", ".tgz")
_PACKED = (b"BZh", b"\xfd7zXZ")
_NUMBERS = count()  # of files in the spool; a run has its own
_SMALL = 64 * 1024 * 1024
# DuckDB takes a path for a pattern where it holds one of these, for the home folder where it begins with `~`.
_PATTERN = re.compile(r"[*?\[\]{}]|^~")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


def gather(paths: Iterable[str], spool: Path) -> tuple[list[LandingFile], list[tuple[str, str]]]:
    """Landing files under the given paths, in a stable order, and the (name, reason) of what could not be opened.

    Archives are unpacked into `spool`; their members are named `archive!member`. A file in a folder is named from there;
    of several folders, and in a collected one, with the folder's name in front, so that no two files share a name. Raises
    SettingsError for a path that does not exist or whose kind is not supported here.
    """
    files: list[LandingFile] = []
    failed: list[tuple[str, str]] = []
    for path, name in list_files(list(paths)):
        try:
            files.extend(_open(path, name, spool))
        except Exception as error:  # each packer's library fails in its own way, and one file ends no scan
            failed.append((_printable(name), f"cannot be opened: {_printable(str(error))}"))
    return files, failed


def list_files(paths: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Each file under the paths with the name that reports give it; archives stay closed. Raises as `gather` does."""
    named = _names(paths)
    seen: set[Path] = set()
    for text in paths:
        for path, name in _walk(text, named[text]):
            resolved = path.resolve()
            if resolved not in seen:  # else the same file named twice, or reached through a link
                seen.add(resolved)
                yield path, name


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Path -> what its files' names begin with."""
    folders = {text: Path(text).expanduser() for text in paths if Path(text).expanduser().is_dir()}
    ends = Counter(folder.resolve().name for folder in folders.values())
    named = dict.fromkeys(paths, "")
    for text, folder in folders.items():
        end = folder.resolve().name
        if len(folders) > 1 or (folder / JOURNAL).is_file():
            named[text] = f"{end}/" if ends[end] == 1 else f"{folder.as_posix().strip('/')}/"
    return named


def _walk(text: str, prefix: str) -> Iterator[tuple[Path, str]]:
    if text.startswith(_REMOTE):
        raise SettingsError(f"{text}: an object store is read by `auditor scan`; name the folder that it fetched into")
    path = Path(text).expanduser()
    if not path.exists():
        raise SettingsError(f"{text}: no such file or folder")
    if path.is_file():
        yield path, path.name if path.is_absolute() else path.as_posix()
        return
    for folder, folders, names in path.walk(on_error=_refuse) if hasattr(path, "walk") else _os_walk(path):
        folders[:] = sorted(name for name in folders if name != "__MACOSX")
        for name in sorted(names):
            file = folder / name
            if name in _JUNK or name.startswith("._") or not file.is_file():
                continue
            yield file, prefix + file.relative_to(path).as_posix()


def _os_walk(path: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    # Path.walk came with Python 3.12
    for folder, folders, names in os.walk(path, onerror=_refuse):
        yield Path(folder), folders, names


def _refuse(error: OSError) -> None:
    log.warning("folder cannot be read path=%s reason=%s", error.filename, error.strerror)


def _open(path: Path, name: str, spool: Path) -> Iterator[LandingFile]:
    with path.open("rb") as stream:
        head = stream.read(tarfile.BLOCKSIZE)
    if head.startswith(b"PK\x03\x04"):
        yield from _unzip(path, name, spool)
    elif _is_tar(path, head):
        yield from _untar(path, name, spool)
    else:
        yield LandingFile(_plain(path, spool), _printable(name), path.stat().st_size)


def _printable(text: str) -> str:
    """The text with bytes that are no UTF-8 written out, as reports and the state can hold it."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _plain(path: Path, spool: Path) -> Path:
    """A path that DuckDB takes literally: the file's own, or that of a link (at worst a copy) in the spool."""
    if not _PATTERN.search(str(path)) and _printable(str(path)) == str(path):
        return path
    target = _fresh(path.name, spool)
    # A hard link would count as a change of the file itself, which then would be read again in every run.
    for put in (os.symlink, os.link, shutil.copyfile):
        try:
            put(path.resolve(), target)
        except OSError as error:  # another disk, a file of another owner, a file system without links
            log.debug("file cannot be linked path=%s reason=%s", target, error)
        else:
            return target
    raise SourceError(f"{_printable(path.name)}: its name holds *, ?, [ or the like and no copy of it can be made")


def _fresh(name: str, spool: Path) -> Path:
    """A new path in the spool; only the suffixes are of the name, and only their plain characters."""
    suffixes = _NOT_PLAIN.sub("", "".join(PurePosixPath(name).suffixes[-2:])[-20:])
    return spool / f"{next(_NUMBERS):06d}{suffixes}"


def _is_tar(path: Path, head: bytes) -> bool:
    # Looking into every .gz for a tar would inflate each of them once, and four ways of opening every file take longest.
    looks_so = head[257:262] == b"ustar" or head.startswith(_PACKED) or path.name.endswith(_TAR_NAMES)
    return looks_so and tarfile.is_tarfile(path)


def _unzip(path: Path, name: str, spool: Path) -> Iterator[LandingFile]:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if any(member.filename == "[Content_Types].xml" for member in members):
            yield LandingFile(_plain(path, spool), _printable(name), path.stat().st_size)  # an office document
            return
        _check_expansion(name, path.stat().st_size, sum(member.file_size for member in members), spool)
        broken: list[str] = []
        for member in members:
            if _is_junk(member.filename):
                continue
            try:
                with archive.open(member) as stream:
                    yield from _spool(stream, name, member.filename, spool)
            except Exception as error:  # zlib, bz2, lzma and zipfile each have their own; the other members are sound
                broken.append(f"{member.filename}: {error or type(error).__name__}")
        if broken:
            raise SourceError(f"{len(broken)} of {len(members)} members cannot be read, first {broken[0]}")


def _untar(path: Path, name: str, spool: Path) -> Iterator[LandingFile]:
    with tarfile.open(path) as archive:
        total = 0
        for member in archive:
            if not member.isfile() or _is_junk(member.name):
                continue
            total += member.size
            _check_expansion(name, path.stat().st_size, total, spool)
            stream = archive.extractfile(member)
            if stream is not None:
                yield from _spool(stream, name, member.name, spool)


def _is_junk(member: str) -> bool:
    parts = PurePosixPath(member).parts
    return "__MACOSX" in parts or (bool(parts) and (parts[-1] in _JUNK or parts[-1].startswith("._")))


def _check_expansion(name: str, packed: int, unpacked: int, spool: Path) -> None:
    if unpacked > _SMALL and unpacked > packed * _MAX_EXPANSION:
        raise SourceError(
            f"{name} would unpack to {unpacked:,} bytes from {packed:,}: refused as a likely zip bomb; unpack it yourself and name the folder"
        )
    free = shutil.disk_usage(spool).free
    if unpacked > free:
        raise SourceError(f"{name} unpacks to {unpacked:,} bytes, {free:,} are free under {spool}")


def _spool(stream: IO[bytes], archive: str, member: str, spool: Path) -> Iterator[LandingFile]:
    # The member's own name never becomes a path: `../../etc/passwd` is only text here.
    target = _fresh(member, spool)
    with target.open("wb") as out:
        shutil.copyfileobj(stream, out)
    name = _printable(f"{archive}!{PurePosixPath(member)}")
    if target.suffix == ".zip":
        if name.count("!") > _MAX_DEPTH:
            raise SourceError(
                f"{archive}: more than {_MAX_DEPTH} archives inside archives; unpack it yourself and name the folder"
            )
        yield from _unzip(target, name, spool)
    else:
        yield LandingFile(target, name, target.stat().st_size)
