"""Domains: one file each, one contract."""

from __future__ import annotations

from onelayer.config import Study
from onelayer.study_sources import held_out
from onelayer.task_settings import (
    AlfworldTask,
    ArithmeticTask,
    CodeTask,
    ExpressionsTask,
    HouseholdTask,
    QuestionsTask,
    ReasoningGymTask,
    ScienceWorldTask,
    TextWorldExpressTask,
)
from onelayer.tasks.alfworld import Alfworld
from onelayer.tasks.arithmetic import Arithmetic
from onelayer.tasks.code import Code
from onelayer.tasks.contract import AgentTask, Corpus, Domain, Task
from onelayer.tasks.expressions import Expressions
from onelayer.tasks.household import Household
from onelayer.tasks.questions import Questions
from onelayer.tasks.reasoning_gym import ReasoningGym
from onelayer.tasks.scienceworld import ScienceWorld
from onelayer.tasks.textworld_express import TextWorldExpress


def make_domain(study: Study) -> Domain:
    """The study's domain."""
    match study.task:
        case ArithmeticTask():
            return Arithmetic(study.task, study.seed)
        case QuestionsTask():
            return Questions(study.task, study.seed, held_out(study))
        case CodeTask():
            return Code(study.task, study.seed, held_out(study))
        case ReasoningGymTask():
            return ReasoningGym(study.task, study.seed)
        case ExpressionsTask():
            return Expressions(study.task, study.seed)
        case HouseholdTask():
            return Household(study.task, study.seed)
        case TextWorldExpressTask():
            return TextWorldExpress(study.task, study.seed)
        case ScienceWorldTask():
            return ScienceWorld(study.task, study.seed)
        case AlfworldTask():
            return Alfworld(study.task, study.seed)


def make_task(study: Study) -> Task:
    """The study's domain of single answers; `study.is_agent` says that it is none."""
    domain = make_domain(study)
    assert isinstance(domain, Task)
    return domain


def make_agent_task(study: Study) -> AgentTask:
    """The study's domain of worlds; `study.is_agent` says that it is one."""
    domain = make_domain(study)
    assert isinstance(domain, AgentTask)
    return domain


def make_corpus(study: Study) -> Corpus:
    """The study's domain as the teacher of a micro model; the settings allow no other there."""
    domain = make_domain(study)
    assert isinstance(domain, Corpus)
    return domain
