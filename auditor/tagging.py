"""Which tags say who owns a resource, what it is for and which job it belongs to, and how their values are read."""

from dataclasses import dataclass

# What stands for "nobody filled this in".
EMPTY_VALUES = (
    "",
    "-",
    "n/a",
    "na",
    "nil",
    "none",
    "null",
    "tbd",
    "todo",
    "undefined",
    "unassigned",
    "unknown",
    "untagged",
)

# A standby tag with one of these says that the resource is no standby.
NEGATIVE_VALUES = (*EMPTY_VALUES, "0", "disabled", "f", "false", "inactive", "n", "no", "off")

# Put before a tag key by the provider or its export, never by the user.
KEY_PREFIXES = ("resourcetags/", "resource_tags_", "user:", "user_", "aws:", "aws_", "labels/", "label_", "goog-")


@dataclass(frozen=True)
class TagSettings:
    """Tag and label keys, most telling first, compared without case and separators; and words that values are made of.

    A word is a regular expression of lower-case letters that must match a whole word of the value: `train` finds
    `train-llm` and `train2`, not `constraint`.
    """

    owner_tags: tuple[str, ...] = (
        "owner", "owner email", "owned by", "business owner", "technical owner", "tech owner", "service owner",
        "team", "team name", "owner team", "owning team", "squad", "tribe", "crew", "group", "contact", "maintainer",
        "cost center", "cost centre", "cost code", "cost owner", "charge code", "billing code", "business unit", "bu",
        "department", "dept", "division", "org", "organization", "organisation", "org unit", "unit", "lab",
        "project", "project name", "project id", "project code", "product", "product line", "application owner", "user",
    )  # fmt: skip
    workload_tags: tuple[str, ...] = (
        "workload", "workload type", "workload kind", "workload class", "workload name", "ml workload", "ai workload",
        "job type", "job kind", "task type", "task", "usage", "usage type", "use case", "purpose", "stage", "ml stage",
        "phase", "lifecycle stage", "pipeline stage", "role", "function", "activity", "type", "kind", "tier",
        "component", "service", "app", "application",
    )  # fmt: skip
    job_tags: tuple[str, ...] = (
        "job", "job name", "job id", "training job", "training job name", "training job id", "run", "run id", "run name",
        "experiment", "experiment name", "experiment id", "slurm job", "slurm job id", "slurm job name", "ray job",
        "ray job id", "ray submission id", "batch job", "batch job id", "mlflow run id", "mlflow experiment", "wandb run",
        "wandb run id", "wandb project", "kubeflow run", "kubeflow run id", "pipeline run", "pipeline run id",
        "pytorch job", "pytorch job name", "k8s job", "k8s job name", "job group", "sweep", "sweep id", "trial", "trial id",
        # A cluster is the job of its members where nothing nearer is said.
        "ray cluster", "ray cluster name", "ray io cluster", "slurm cluster", "slurm cluster name", "training cluster",
        "parallelcluster cluster name", "cluster", "cluster name", "cluster id", "k8s cluster name",
    )  # fmt: skip
    standby_tags: tuple[str, ...] = (
        "standby", "stand by", "hot standby", "warm standby", "cold standby", "is standby", "dr", "dr standby", "is dr",
        "disaster recovery", "failover", "warm pool", "warmpool", "hot spare", "spare", "keep warm", "held on purpose",
        "hold", "held", "reserved on purpose", "capacity hold", "audit standby", "auditor standby",
    )  # fmt: skip
    training_words: tuple[str, ...] = (
        "trains?", "training", "trainings", "trainers?", "pre-?trains?", "pre-?training", "post-?training", "pre-?trained",
        "fine-?tun(?:e|es|ed|ing)", "ft", "tuning", "sft", "rlhf", "rlaif", "dpo", "ppo", "grpo", "q?lora", "distill(?:ation|ing)?",
        "hpo", "hyper-?param(?:eter)?s?", "hyper-?parameter-?(?:tuning|search)", "ddp", "fsdp",
    )  # fmt: skip
    inference_words: tuple[str, ...] = (
        "infer", "inferenc(?:e|es|ing)", "inferencing", "serv(?:e|ing)", "[a-z]*serve", "endpoints?", "predict(?:ion|ions|or)?",
        "prod(?:uction)?-?api", "api", "online", "real-?time", "vllm", "tgi", "triton", "tensorrt", "scoring", "batch-?transform",
        "generation", "chat(?:bot)?", "embeddings?",
    )  # fmt: skip
    notebook_words: tuple[str, ...] = (
        "notebooks?", "jupyter(?:lab|hub)?", "workbench", "colab", "interactive", "dev-?box", "ide", "vscode", "studio",
        "exploration", "workstation",
    )  # fmt: skip
