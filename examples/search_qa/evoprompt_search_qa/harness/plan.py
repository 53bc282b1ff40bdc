"""What an evaluation would ask and what it needs, found without asking or loading anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evoprompt_retrieval.requirements import search_server

from evoprompt.agents.tasks import Need, Plan
from evoprompt.experiments import requirements
from evoprompt_search_qa.harness.sources import HOPS, NoQuestionsError, OnSkip, find_data_sets
from evoprompt_search_qa.methods.registry import METHODS
from evoprompt_search_qa.policies.choose import endpoint_address, kind_of
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line.

    Attributes:
        methods: by name.
        data_sets: as they were named.
        data: folder of the seven sets, if one was given.
        limit: most questions per set, None for all.
        policy: as it was named.
        base_url: of an endpoint, if one was given.
        retriever: address of the search server, if one was given.
        device: of a transformers policy.
        instruction: file of the agent's instruction, if one was given.
    """

    methods: Sequence[str]
    data_sets: Sequence[str]
    data: Path | None
    limit: int | None
    policy: str
    base_url: str | None
    retriever: str | None
    device: str
    instruction: Path | None


def plan_evaluation(wanted: Wanted, on_skip: OnSkip) -> Plan:
    """The questions to ask, and whether policy, questions, search and instruction are there.

    Raises:
        InputError: a policy or data set is none that there could be.
    """
    found = [_policy(wanted)]
    figures = [("methods", ", ".join(METHODS[method].title for method in wanted.methods))]
    try:
        sets = find_data_sets(wanted.data_sets, wanted.data, wanted.limit, on_skip)
    except NoQuestionsError as error:
        remedy = f"evoprompt search-qa data prepare --output {wanted.data or 'FOLDER'}"
        found.append(Need("questions", str(error), remedy))
    else:
        count = sum(len(one.questions) for one in sets)
        sizes = ", ".join(f"{one.name} {len(one.questions):,}" for one in sets)
        figures += [
            ("questions", f"{count:,}: {sizes}"),
            ("to answer", f"{count * len(wanted.methods):,}, each question by each method"),
        ]
    searching = any(METHODS[method].searches for method in wanted.methods)
    if searching and not {"tiny", *HOPS}.issuperset(wanted.data_sets):
        found.append(_search(wanted.retriever))
    if wanted.instruction is not None:
        found.append(_instruction(wanted.instruction))
    return Plan(figures, found)


def _policy(wanted: Wanted) -> Need:
    kind, name = kind_of(wanted.policy), wanted.policy.partition(":")[2]
    if kind == "openai":
        return _endpoint(name, endpoint_address(wanted.policy, wanted.base_url))
    if kind == "transformers":
        model = requirements.model(name)
        return (
            requirements.gpus(1, None) if wanted.device == "cuda" and not model.missing else model
        )
    folder = Path(name) if name else SHIPPED_POLICY
    if (folder / "config.json").is_file():
        return Need("policy", f"{folder} is here")
    return Need("policy", f"{folder} holds none", "give the folder that a run or pretrain wrote")


def _endpoint(model: str, base_url: str) -> Need:
    """A server of OpenAI's protocol that serves ``model``."""
    import openai

    from evoprompt.agents.endpoint import KEY
    from evoprompt_search_qa.policies.endpoint import models

    remedy = f"start it, as with 'vllm serve {model}'; check --base-url and {KEY}"
    try:
        served = [one.id for one in models(base_url)]
    except openai.OpenAIError as error:
        return Need("endpoint", f"{base_url}: {error}", remedy)
    if model not in served:
        return Need("endpoint", f"{base_url} serves {', '.join(served)}, not {model}", remedy)
    return Need("endpoint", f"{base_url} serves {model}")


def _search(retriever: str | None) -> Need:
    if retriever is None:
        return Need("search server", "none is named", "give its address as --retriever")
    return search_server(retriever)


def _instruction(path: Path) -> Need:
    if path.is_file():
        return Need("instruction", f"{path} is here")
    return Need("instruction", f"{path} does not exist", f"evoprompt best RUN > {path}")
