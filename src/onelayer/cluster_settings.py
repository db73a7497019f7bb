"""Settings of a study's jobs on a cluster: what each asks of Slurm. They decide no result."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from onelayer.settings import PositiveInt, Settings

Phase = Literal["prepare", "base", "train", "evaluate", "weigh", "suite", "analyze"]

_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.,-]*$")]


class Asked(Settings):
    """What a job asks of Slurm; what is not given is left to the cluster.

    Attributes:
        partition: where it runs.
        account: what it is charged to.
        qos: the quality of service it runs under.
        constraint: features of a node that it needs, as sbatch's ``--constraint``.
        gres: devices by kind, such as ``gpu:a100:1``, in place of a bare number of GPUs.
        gpus: devices; ``resources.gpus`` where not given, and none for work that uses none.
        cpus: cores; ``resources.threads`` where not given.
        memory_mb: memory of the node in MB; ``resources.memory_mb`` where not given.
        minutes: time limit of the first attempt; each later attempt gets as much again.
        most_minutes: time limit that no attempt goes beyond: the partition's own.
    """

    partition: _Name | None = None
    account: _Name | None = None
    qos: _Name | None = None
    constraint: str | None = None
    gres: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+(:[A-Za-z0-9_.]+)?(:\d+[TGM]?)?$")] | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    cpus: PositiveInt | None = None
    memory_mb: PositiveInt | None = None
    minutes: PositiveInt | None = None
    most_minutes: PositiveInt | None = None

    @model_validator(mode="after")
    def _one_way_to_ask_for_devices(self) -> Self:
        if self.gres is not None and self.gpus is not None:
            raise ValueError(f"expected gres or gpus, found both (gres {self.gres}, gpus {self.gpus})")
        return self


class ClusterSettings(Asked):
    """What a study's jobs ask of Slurm, and what one phase's ask instead, key by key.

    Attributes:
        minutes: a time limit is always asked for, as many clusters refuse a job without one.
        together: what is done of a run is one job of Slurm, from training on, for work that takes less time than it
            waits in the queue.
        prepare, base, train, evaluate, weigh, suite, analyze: of one phase.
    """

    minutes: PositiveInt | None = 120
    together: bool = False
    prepare: Asked = Asked()
    base: Asked = Asked()
    train: Asked = Asked()
    evaluate: Asked = Asked()
    weigh: Asked = Asked()
    suite: Asked = Asked()
    analyze: Asked = Asked()

    def of(self, phase: Phase) -> Asked:
        """What the jobs of a phase ask for: a kind of device there takes the place of a number here, and vice versa."""
        own: Asked = getattr(self, phase)
        values = {key: getattr(self, key) for key in Asked.model_fields}
        given = {key: getattr(own, key) for key in own.model_fields_set}
        for one, other in (("gres", "gpus"), ("gpus", "gres")):
            if one in given:
                values[other] = None
        return Asked(**{**values, **given})

    @model_validator(mode="after")
    def _attempts_only_grow(self) -> Self:
        for phase in get_args(Phase):
            asked = self.of(phase)
            if asked.minutes is not None and asked.most_minutes is not None and asked.most_minutes < asked.minutes:
                raise ValueError(
                    f"of {phase}: expected most_minutes of at least minutes ({asked.minutes}), found"
                    f" {asked.most_minutes}"
                )
        return self
