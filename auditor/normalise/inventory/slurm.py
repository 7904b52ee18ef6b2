"""Slurm: the jobs that `sacct` accounts for, with the nodes they held and when.

`sacct --parsable` and `--parsable2` print a table with a header, `--json` one document. Slurm does not know in which cloud
its nodes are: a job takes the provider of the machines that bear its nodes' names.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from auditor.normalise.inventory.rows import Json, Row, first, inside, number, objects, timestamp

PROVIDER = "slurm"  # until a machine of the inventory bears the name of one of the job's nodes

_STATES = {"COMPLETED": "completed", "RUNNING": "running", "PENDING": "pending"}
_MOST_NODES = 100_000  # of one list: beyond it the text is no list of nodes


def match(document: Json) -> str | None:
    """Format of what sacct printed, None where it is something else."""
    keys = {key.lower() for key in document}
    if "jobid" in keys and keys & {"nodelist", "alloctres"} and keys & {"start", "elapsedraw", "elapsed"}:
        return "slurm-sacct"
    jobs = document.get("jobs")
    if (
        isinstance(jobs, list)
        and isinstance(document.get("meta"), dict)
        and "slurm" in {key.lower() for key in document["meta"]}
    ):
        return "slurm-sacct-json"
    if isinstance(jobs, list) and jobs and isinstance(jobs[0], dict) and {"job_id", "nodes", "time"} <= set(jobs[0]):
        return "slurm-sacct-json"
    return None


def begins(head: str) -> bool:
    """Whether a document too long to be looked at whole begins as Slurm's JSON does."""
    return head.lstrip().startswith("{") and bool(
        re.search(r'"meta"\s*:\s*\{.*"slurm"\s*:\s*\{', head, re.IGNORECASE | re.DOTALL)
    )


def read(document: Json, place: str) -> list[Row]:
    """One row a job; a job's steps and jobs that never held a node are left out."""
    if isinstance(document.get("jobs"), list):
        rows = [_from_json(one, place) for one in objects(document["jobs"])]
    else:
        rows = [_from_table({key.lower(): value for key, value in document.items()}, place)]
    return [row for row in rows if row is not None]


def _from_table(cells: Json, place: str) -> Row | None:
    identity = str(cells.get("jobid") or "").strip()
    if not identity or "." in identity:  # 1234.batch, 1234.0: steps of job 1234
        return None
    return _job(
        place,
        identity=identity,
        name=cells.get("jobname"),
        cluster=cells.get("cluster"),
        user=cells.get("user"),
        account=cells.get("account"),
        partition=cells.get("partition"),
        state=str(cells.get("state") or ""),
        started_at=_time(cells.get("start")),
        ended_at=_time(cells.get("end")),
        nodes=str(cells.get("nodelist") or ""),
        devices=_devices(_tres(str(cells.get("alloctres") or ""))),
    )


def _from_json(one: Json, place: str) -> Row | None:
    state = first((inside(one, "state", "current"), one.get("state")))
    allocated = (
        (
            f"{part.get('type')}/{part.get('name')}" if part.get("name") else str(part.get("type")),
            number(part.get("count")),
        )
        for part in objects(inside(one, "tres", "allocated"))
    )
    return _job(
        place,
        identity=str(one.get("job_id") or ""),
        name=one.get("name"),
        cluster=one.get("cluster"),
        user=first((one.get("user"), inside(one, "association", "user"))),
        account=first((one.get("account"), inside(one, "association", "account"))),
        partition=one.get("partition"),
        state=str(state[0] if isinstance(state, list) and state else state or ""),
        started_at=_time(inside(one, "time", "start")),
        ended_at=_time(inside(one, "time", "end")),
        nodes=str(one.get("nodes") or ""),
        devices=_devices(allocated),
    )


def _job(
    place: str,
    *,
    identity: str,
    name: Any,
    cluster: Any,
    user: Any,
    account: Any,
    partition: Any,
    state: str,
    started_at: str | None,
    ended_at: str | None,
    nodes: str,
    devices: tuple[float | int | None, str | None],
) -> Row | None:
    names = expand(nodes)
    if not identity or not names or started_at is None:
        return None
    word = (state.split() or [""])[0].rstrip("+")  # `CANCELLED by 1000`
    row = Row(
        provider=PROVIDER,
        resource_id="/".join(str(part) for part in ("slurm", cluster, identity) if part),
        resource_type="training_job",
        name=str(name) if name else None,
        state=_STATES.get(word, word.lower() or None),
        created_at=started_at,
        place=place,
    )
    count, model = devices
    row.describe(
        vendor_type="slurm_job",
        scheduler="slurm",
        job=f"{name} (slurm {identity})" if name else f"slurm {identity}",
        started_at=started_at,
        ended_at=ended_at if word != "RUNNING" else None,
        accelerator_count=count,
        accelerator_model=model,
        instance_count=len(names),
        user=str(user) if user else None,
        scheduler_account=str(account) if account else None,
        partition=str(partition) if partition else None,
        nodes=names,
    )
    row.relate("nodes", names)
    return row


def _time(value: Any) -> str | None:
    """Unix seconds, or a text without a zone, which sacct writes in the cluster's own: it is read as UTC."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else None
    text = str(value or "").strip()
    return None if text in ("", "0", "Unknown", "None", "N/A") else timestamp(value)


def _tres(text: str) -> Iterable[tuple[str, float | int | None]]:
    for part in text.split(","):
        name, _, count = part.partition("=")
        yield name.strip(), number(count)


def _devices(tres: Iterable[tuple[str, float | int | None]]) -> tuple[float | int | None, str | None]:
    """How many accelerators, and their model where Slurm tells it: `gres/gpu=8`, `gres/gpu:h100=8`."""
    whole: float | int | None = None
    typed: dict[str, float | int] = {}
    for name, count in tres:
        found = re.fullmatch(r"gres/(?:gpu|tpu|neuron)(?::(.+))?", name)
        if found and count is not None:
            if found[1]:
                typed[found[1]] = count
            else:
                whole = count
    return first((whole, sum(typed.values()) or None)), next(iter(typed)).upper() if len(typed) == 1 else None


def expand(nodes: str) -> list[str]:
    """The names in a Slurm host list: `gpu-[001-003,7],login` means four of them and `login`."""
    if nodes.strip().lower() in ("", "none assigned", "none", "unknown", "(null)"):
        return []
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", nodes):
        names.extend(_expand_one(part.strip()))
        if len(names) > _MOST_NODES:
            return []
    return list(dict.fromkeys(name for name in names if name))


def _expand_one(part: str) -> list[str]:
    found = re.search(r"\[([^\]]*)\]", part)
    if not found:
        return [part]
    head, tails = part[: found.start()], _expand_one(part[found.end() :])
    middles: list[str] = []
    for one in found[1].split(","):
        span = re.fullmatch(r"(\d+)-(\d+)", one.strip())
        if span is None:
            middles.append(one.strip())
        elif int(span[2]) - int(span[1]) <= _MOST_NODES:
            middles.extend(str(at).zfill(len(span[1])) for at in range(int(span[1]), int(span[2]) + 1))
    return [f"{head}{middle}{tail}" for middle in middles for tail in tails]


def place_jobs(rows: Sequence[Row]) -> None:
    """Gives each job the provider, account and region of its nodes' machines; a name of two machines names neither."""
    jobs = [row for row in rows if row.provider == PROVIDER]
    if not jobs:
        return
    machines: dict[str, Row | None] = {}
    for row in rows:
        if row.provider != PROVIDER and row.resource_type in ("instance", "tpu_node"):
            for name in {key.lower() for key in (row.name, *row.aliases) if key}:
                known = machines.get(name, row)
                machines[name] = row if known is not None and known.resource_id == row.resource_id else None
    for job in jobs:
        found = [
            machine for node in job.related.get("nodes", []) if (machine := machines.get(node.lower())) is not None
        ]
        if not found:
            continue
        job.provider = found[0].provider
        job.account_id, job.region = found[0].account_id, found[0].region
        types = {str(machine.attributes["machine_type"]) for machine in found if machine.attributes.get("machine_type")}
        job.describe(machine_type=next(iter(types)) if len(types) == 1 else None)
        same = {machine.resource_id for machine in found if machine.provider == job.provider}
        job.related["nodes"] = sorted(same)
