"""Groups billing files into deliveries: what was exported together, and which of several deliveries counts."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from auditor.landing import Recognised, Shape
from auditor.normalise.billing import answers
from auditor.normalise.billing.manifests import Manifest
from auditor.normalise.billing.source import canonical

_GUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.IGNORECASE)
_PERIOD = re.compile(
    r"^(billing_?period=)?\d{4}-?\d{2}(-?\d{2})?([-_]\d{8}|[-_]\d{4}-?\d{2}(-?\d{2})?)?$", re.IGNORECASE
)
_RUN = re.compile(r"^(\d{4})-?(\d{2})-?(\d{2})[T_-]?(\d{2}):?(\d{2}):?(\d{2})?", re.IGNORECASE)


@dataclass(frozen=True)
class Delivery:
    """Files that were exported together.

    `source` names the export (manifest's export name, else folder and header), the same from month to month; `time` is
    the manifest's or the run folder's; `role` is actual or amortized where an Azure manifest says so; `missing` are
    data files that the manifest names and nobody delivered.
    """

    provider: str | None
    family: str
    format: str
    source: str
    files: tuple[Recognised, ...]
    time: datetime | None = None
    role: str | None = None
    period: str | None = None
    missing: tuple[str, ...] = ()
    expected_rows: int | None = None
    depth: int = 0  # of its manifest's folder: an export's own lies above those of its assemblies
    is_listed: bool = False  # a manifest says which files belong to it
    problem: str | None = None  # why these are not all the files of the delivery, where they tell so themselves

    @property
    def names(self) -> list[str]:
        return [file.file.name for file in self.files]


@dataclass(frozen=True)
class Superseded:
    """A delivery that is not read because a newer one of the same export and period is there."""

    delivery: Delivery
    reason: str


def group(files: Sequence[Recognised], manifests: Iterable[Manifest]) -> tuple[list[Delivery], list[Superseded]]:
    """Deliveries to read, and those that a manifest shows to be outdated."""
    by_manifest, listed = _by_manifest(files, list(manifests))
    loose = [file for file in files if file.file.name not in listed]
    kept, outdated = _newest(by_manifest)
    outdated_exports = {_export_folder(name) for delivery in by_manifest for name in delivery.names}
    rest: list[Delivery] = []
    for delivery in _by_folder(loose):
        if delivery.family == "cur" and _export_folder(delivery.names[0]) in outdated_exports:
            outdated.append(
                Superseded(delivery, "no manifest of its export lists these files: they belong to an earlier assembly")
            )
        else:
            rest.append(delivery)
    return kept + rest, outdated


def _export_folder(name: str) -> str:
    """Folder of an AWS period: an assembly folder lies in it, an overwritten export is it."""
    folder = _slashes(name).rpartition("/")[0]
    parent, _, last = folder.rpartition("/")
    return parent if _GUID.match(last) else folder


def _slashes(name: str) -> str:
    return name.replace("!", "/")


def _by_manifest(files: Sequence[Recognised], manifests: list[Manifest]) -> tuple[list[Delivery], set[str]]:
    deliveries: list[Delivery] = []
    listed: set[str] = set()
    taken: set[tuple[str, ...]] = set()
    # A manifest in the period's own folder comes before those in assembly folders: it names the newest assembly.
    for manifest in sorted(manifests, key=lambda m: (_slashes(m.folder).count("/"), m.name)):
        found = [(key, _find(key, manifest, files)) for key in manifest.keys]
        present = [file for _, file in found if file is not None]
        names = tuple(sorted(file.file.name for file in present))
        if not present or names in taken:
            continue
        taken.add(names)
        listed.update(names)
        missing = tuple(key for key, file in found if file is None)
        deliveries.append(
            Delivery(
                provider=manifest.provider,
                family=present[0].details["family"],
                format=present[0].format,
                source=manifest.export or _folder_source(present[0]),
                files=tuple(present),
                time=manifest.time or _run_time(manifest.name),
                role=manifest.role,
                period=manifest.period,
                missing=missing,
                expected_rows=manifest.rows,
                depth=_slashes(manifest.folder).count("/"),
                is_listed=True,
            )
        )
    return deliveries, listed


def _find(key: str, manifest: Manifest, files: Sequence[Recognised]) -> Recognised | None:
    """The delivered file of a manifest's key: the longest common tail of the paths decides, two parts at least."""
    wanted = _slashes(key).split("/")
    best: tuple[int, Recognised] | None = None
    for file in files:
        have = _slashes(file.file.name).split("/")
        common = 0
        while common < min(len(wanted), len(have)) and wanted[-1 - common] == have[-1 - common]:
            common += 1
        same_folder = common >= 1 and file.file.folder == manifest.folder
        if (common >= 2 or same_folder) and (best is None or common > best[0]):
            best = (common, file)
    return best[1] if best else None


def _newest(deliveries: list[Delivery]) -> tuple[list[Delivery], list[Superseded]]:
    """Of several manifests of one export and period the newest counts: by time, for AWS the one in the period's folder."""
    by_key: dict[tuple[object, ...], list[Delivery]] = {}
    for delivery in deliveries:
        by_key.setdefault(
            (delivery.provider, delivery.source, delivery.role, delivery.period, _account_folder(delivery)), []
        ).append(delivery)
    kept: list[Delivery] = []
    outdated: list[Superseded] = []
    for group_ in by_key.values():
        if group_[0].period is None:
            kept.extend(group_)
            continue
        if all(d.time for d in group_):
            newest = max(group_, key=lambda d: d.time)  # type: ignore[arg-type, return-value]
        else:
            newest, *others = sorted(group_, key=lambda d: d.depth)
            if others and others[0].depth == newest.depth:
                kept.extend(group_)  # manifests of assemblies alone do not tell; their charges do
                continue
        kept.append(newest)
        outdated.extend(
            Superseded(
                delivery, f"an earlier delivery of {delivery.source} for {delivery.period}: {newest.names[0]} is newer"
            )
            for delivery in group_
            if delivery is not newest
        )
    return kept, outdated


def _account_folder(delivery: Delivery) -> str:
    return _folder_source(delivery.files[0])


def _by_folder(files: Sequence[Recognised]) -> list[Delivery]:
    groups: dict[tuple[object, ...], list[Recognised]] = {}
    for file in files:
        together = file.details.get("pages") or file.details.get("respelled") or _header(file.shape)
        groups.setdefault((file.file.folder, file.details["family"], file.format, together), []).append(file)
    return [
        Delivery(
            provider=members[0].provider,
            family=members[0].details["family"],
            format=members[0].format,
            source=_folder_source(members[0]),
            files=tuple(members),
            time=_run_time(members[0].file.name),
            is_listed="pages" in members[0].details,
            problem=answers.missing_page(members) if "pages" in members[0].details else None,
        )
        for members in groups.values()
    ]


def _header(shape: Shape) -> str:
    if shape.form in ("jsonl", "json", "json_stream", "avro"):
        return ""  # a JSON row leaves out what is null, so its keys tell nothing
    return hashlib.sha256("\n".join(sorted(canonical(column) for column in shape.columns)).encode()).hexdigest()[:8]


def _folder_source(file: Recognised) -> str:
    """The folder without the parts that change from period to period and from run to run, and the header."""
    kept = [
        part
        for part in _slashes(file.file.folder).split("/")
        if part and not (_GUID.match(part) or _PERIOD.match(part) or _RUN.match(part))
    ]
    pages = file.details.get("pages")
    mark = hashlib.sha256(pages.encode()).hexdigest()[:8] if pages else _header(file.shape)
    return "/".join([*kept, mark]).strip("/")


def _run_time(name: str) -> datetime | None:
    """Time of the run in a folder's name such as 20261103T061244Z, the innermost first."""
    for part in reversed(_slashes(name).split("/")[:-1]):
        run = _RUN.match(part)
        if run and not _PERIOD.match(part):
            try:
                return datetime(*(int(x or 0) for x in run.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
            except ValueError:
                continue
    return None
