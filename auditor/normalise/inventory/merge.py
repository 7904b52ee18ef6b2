"""What one file leaves out and another tells: account, region, machine type, the project's number; one row a resource."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from auditor.normalise.inventory.aws import arn_tail, volume_or_instance_arn
from auditor.normalise.inventory.rows import Row
from auditor.normalise.inventory.slurm import place_jobs

# A subnet and its network may be shared between accounts, so neither tells the account of what lies in it; they come last.
_TELLING = ("instance", "volumes", "nat_gateways", "subnet", "subnets", "network")
_STRONG = re.compile(
    r"[/:]|^(?:i|vol|nat|fs|vpce|rtb|subnet|vpc|eipalloc|cr|snap|pg|cb)-[0-9a-f]{8,}$|^\d{12,}$|^[0-9a-f]{8}-[0-9a-f]{4}-"
)
# A disk often bears its machine's name, a subnet its neighbour's: the name tells nobody apart.
_NAMED_ALIKE = {
    "volume",
    "snapshot",
    "subnet",
    "network",
    "route_table",
    "address",
    "capacity_reservation",
    "commitment",
    "other",
}
_REFERENCES = (
    "network_id",
    "subnet_id",
    "subnet_ids",
    "instance_id",
    "attached_to",
    "volume_id",
    "nat_gateway_id",
    "route_table_id",
    "route_table_ids",
    "associations",
)
_PROJECT_PATH = re.compile(r"(projects/)([^/]+)(/.*)")


def complete(rows: Sequence[Row]) -> list[Row]:
    """The rows, completed from each other, those of one resource joined; order of first sight is kept."""
    _fill_places(rows)
    _fill_endpoint_machines(rows)
    _drop_loose_placement(rows)
    _spell_project_numbers(rows)
    _give_notebooks_their_machines(rows)
    joined = _join(rows)
    for row in joined:
        arn = volume_or_instance_arn(row)
        row.also_known_as(arn, arn_tail(row.resource_id))
        if row.provider != "aws" and row.resource_type in _NAMED_ALIKE:
            row.aliases = [one for one in row.aliases if one != row.name]
    place_jobs(joined)
    _point_at_full_ids(joined)
    return joined


def _point_at_full_ids(rows: Sequence[Row]) -> None:
    """Every reference in the spelling of its target's own `resource_id`, so that rows join without aliases."""
    ids: dict[tuple[str, str], str] = {}
    for row in rows:
        for key in (*row.aliases, row.resource_id):
            if key == row.resource_id or _STRONG.search(key):
                ids[(row.provider, key.lower())] = row.resource_id
    for row in rows:
        for relation, named in row.related.items():
            if (
                relation != "network_interfaces"
            ):  # an interface is an alias of what it belongs to, but stays itself here
                row.related[relation] = list(dict.fromkeys(ids.get((row.provider, one.lower()), one) for one in named))
        for name in _REFERENCES:
            value = row.attributes.get(name)
            if isinstance(value, str):
                row.attributes[name] = ids.get((row.provider, value.lower()), value)
            elif isinstance(value, list):
                row.attributes[name] = [ids.get((row.provider, str(one).lower()), one) for one in value]


def _fill_places(rows: Sequence[Row]) -> None:
    """Account and region of an AWS row from the resources it hangs on, else from the other files of its folder."""
    known = {row.resource_id: row for row in rows if row.provider == "aws" and row.account_id and row.region}
    by_folder: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in known.values():
        by_folder[row.place.rpartition("/")[0]].add((row.account_id or "", row.region or ""))
    for row in rows:
        if row.provider != "aws" or (row.account_id and row.region):
            continue
        for relation in _TELLING:
            other = next((known[one] for one in row.related.get(relation, []) if one in known), None)
            if other is not None:
                row.account_id = row.account_id or other.account_id
                row.region = row.region or other.region
        neighbours = by_folder.get(row.place.rpartition("/")[0], set())
        accounts, regions = {account for account, _ in neighbours}, {region for _, region in neighbours}
        if row.account_id is None and len(accounts) == 1:
            row.account_id = next(iter(accounts))
        # A bucket's region is its own affair: the folder's other resources say nothing about it.
        if row.region is None and len(regions) == 1 and row.resource_type != "bucket":
            row.region = next(iter(regions))


def _fill_endpoint_machines(rows: Sequence[Row]) -> None:
    """A SageMaker endpoint names its configuration, which alone names the machine type."""
    configurations = {
        (row.account_id, row.region, row.name): row
        for row in rows
        if row.attributes.get("vendor_type") == "AWS::SageMaker::EndpointConfig"
    }
    for row in rows:
        if row.resource_type == "endpoint" and row.provider == "aws" and "machine_type" not in row.attributes:
            found = configurations.get((row.account_id, row.region, row.attributes.get("endpoint_config")))
            if found is not None:
                row.describe(machine_type=found.attributes.get("machine_type"))
                row.attributes.setdefault("instance_count", found.attributes.get("instance_count"))


def _drop_loose_placement(rows: Sequence[Row]) -> None:
    """`placement_group` means close together: a spread or partition group is named `placement_strategy` only."""
    strategies = {
        (row.account_id, row.region, row.name): row.attributes.get("strategy")
        for row in rows
        if row.resource_type == "placement_group" and row.provider == "aws"
    }
    for row in rows:
        group = row.attributes.get("placement_group")
        if row.provider == "aws" and row.resource_type == "instance" and group:
            strategy = strategies.get((row.account_id, row.region, group))
            row.describe(placement_strategy=strategy)
            if strategy not in (None, "cluster"):
                row.attributes["placement_group"] = None


def _spell_project_numbers(rows: Sequence[Row]) -> None:
    """The bill writes a project's number where gcloud writes its id; each row gets both spellings.

    The pair is told by a neutral row (account beside id), by the default service account of a machine, or by a bucket.
    """
    numbers = _project_numbers(rows)
    ids = {number: project for project, number in numbers.items()}
    for row in rows:
        if row.provider != "gcp":
            continue
        if row.account_id in ids:
            row.account_id = ids[row.account_id]
        number = numbers.get(row.account_id or "")
        if number is None or row.account_id is None:
            continue
        spelled = [
            other for one in (row.resource_id, *row.aliases) for other in _spellings(one, row.account_id, number)
        ]
        if row.resource_id.startswith("//") and f"projects/{row.account_id}/" in row.resource_id:
            plain = row.resource_id
            row.resource_id = plain.replace(f"projects/{row.account_id}/", f"projects/{number}/", 1)
            row.also_known_as(plain)
        row.aliases = [one for one in row.aliases if one != row.resource_id]
        row.also_known_as(*spelled)


def _project_numbers(rows: Iterable[Row]) -> dict[str, str]:
    numbers: dict[str, str] = {}
    for row in rows:
        if row.provider != "gcp" or not row.account_id or row.account_id.isdigit():
            continue
        found = _PROJECT_PATH.search(row.resource_id)
        number = found.group(2) if found and found.group(2).isdigit() else row.attributes.get("project_number")
        if number:
            numbers.setdefault(row.account_id, str(number))
    return numbers


def _spellings(identity: str, project: str, number: str) -> list[str]:
    found = _PROJECT_PATH.search(identity)
    if found is None or found.group(2) not in (project, number):
        return []
    return [identity[: found.start()] + found.group(1) + one + found.group(3) for one in (project, number)]


def _give_notebooks_their_machines(rows: Sequence[Row]) -> None:
    """A Google notebook is billed as the machine under it, so it takes that machine's id; its own stays as alias."""
    machines: dict[str, Row] = {}
    for row in rows:
        if row.provider == "gcp" and row.resource_type == "instance":
            machines.update({key.lower(): row for key in (row.resource_id, *row.aliases) if "/" in key})
    for row in rows:
        if row.provider != "gcp" or row.resource_type != "notebook":
            continue
        machine = next((machines[key.lower()] for key in row.aliases if key.lower() in machines), None)
        identity = machine.resource_id if machine is not None else next(iter(row.related.get("instance", [])), None)
        if identity:
            own = row.resource_id
            row.resource_id = str(identity)
            row.aliases = [one for one in row.aliases if one != identity]
            row.also_known_as(own)


def _join(rows: Sequence[Row]) -> list[Row]:
    """Rows that share a full id, at one time of observation, as one. Names and addresses do not make two rows one."""
    leader: dict[tuple[str, str | None, str], int] = {}
    joined: list[Row | None] = []
    for row in rows:
        keys = [
            (row.provider, row.observed_at, key.lower())
            for key in (row.resource_id, *row.aliases)
            if key == row.resource_id or _STRONG.search(key)
        ]
        met = sorted({leader[key] for key in keys if key in leader})
        same = [place for place in met if _one_thing(joined[place], row)]
        into = row
        if same:
            into = _merged(joined[same[0]], row)
            for place in same[1:]:
                into = _merged(into, joined[place])
                joined[place] = None
            joined[same[0]] = into
            at = same[0]
        else:
            joined.append(row)
            at = len(joined) - 1
        for key in (into.resource_id, *into.aliases):
            if key == into.resource_id or _STRONG.search(key):
                leader[(into.provider, into.observed_at, key.lower())] = at
    return [row for row in joined if row is not None]


def _one_thing(one: Row | None, other: Row) -> bool:
    if one is None:
        return False
    kinds = {one.resource_type, other.resource_type}
    return len(kinds) == 1 or "other" in kinds or kinds in ({"notebook", "instance"}, {"notebook", "ml_compute"})


def _merged(one: Row | None, other: Row | None) -> Row:
    assert one is not None and other is not None
    strong, weak = (other, one) if one.neutral and not other.neutral else (one, other)
    kinds = {one.resource_type, other.resource_type}
    row = Row(
        provider=strong.provider,
        resource_id=_billed_spelling(strong, weak),
        resource_type="notebook"
        if "notebook" in kinds
        else next((kind for kind in (strong.resource_type, weak.resource_type) if kind != "other"), "other"),
        account_id=strong.account_id or weak.account_id,
        region=strong.region or weak.region,
        zone=strong.zone or weak.zone,
        name=strong.name or weak.name,
        state=strong.state or weak.state,
        created_at=strong.created_at or weak.created_at,
        observed_at=strong.observed_at or weak.observed_at,
        tags={**weak.tags, **strong.tags},
        attributes={
            **weak.attributes,
            **{
                key: value
                for key, value in strong.attributes.items()
                if value is not None or key not in weak.attributes
            },
        },
        related={},
        place=strong.place,
        neutral=strong.neutral,
    )
    for part in (strong, weak):
        for relation, ids in part.related.items():
            row.relate(relation, ids)
        row.also_known_as(part.resource_id, *part.aliases)
    return row


def _billed_spelling(strong: Row, weak: Row) -> str:
    """The project's number goes before its name; else the stronger row's id stands."""
    for row in (strong, weak):
        if row.provider == "gcp" and re.search(r"projects/\d+/", row.resource_id):
            return row.resource_id
    return strong.resource_id
