from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.task import (
    CHAT_TEMPLATE,
    SHIPPED_POLICY,
    SearchQa,
    SearchQaSettings,
)
from evoprompt_verl_cpu.settings import CpuSettings
from transformers import AutoTokenizer

from evoprompt.agents.tasks import Host, Trial
from evoprompt.engine import Engine
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.experiments.settings import merge
from evoprompt.hosting.attachment import Attachment, attach
from evoprompt.plugins import build
from evoprompt.support import yamlfile
from evoprompt.support.errors import AttachError
from evoprompt.types import INSTRUCTION, Candidate

EXAMPLES = Path(__file__).parents[2]
SMALL = SearchQaSettings(train=64, validation=20, test=20)


TASK = SearchQa(SMALL)


def host(**settings: Any) -> Host:
    chosen = {"name": "verl-cpu", **settings}
    host: Host = build("host", merge(TASK.host_defaults["verl-cpu"], chosen))
    return host


def trial(directory: Path) -> Trial:
    return Trial(
        5, directory, 8000, 800, task={"name": "search-qa", **SMALL.model_dump(mode="json")}
    )


def test_a_prompt_is_the_same_tokens_as_under_trl() -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(SHIPPED_POLICY)
    tokenizer.chat_template = CHAT_TEMPLATE
    question = TASK.questions("train")[0]
    candidate = Candidate("c", {INSTRUCTION: TASK.seed_instructions[0]})
    messages = TASK.render([{"role": "user", "content": question.text}], candidate)
    ids = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]
    plain = protocol.plain_prompt(candidate.text, question.text)
    assert ids == tokenizer(plain, add_special_tokens=False)["input_ids"]


def test_a_policy_without_room_for_the_instruction_is_refused_before_ray(tmp_path: Path) -> None:
    """The longest question decides, which only the task knows."""
    attached(tmp_path).detach()
    with pytest.raises(AttachError, match=r"at most 40, as data\.max_prompt_length says"):
        attached(tmp_path, prompt_tokens=40)


def attached(directory: Path, **settings: Any) -> Attachment:
    job = host(**settings).prepare(TASK, trial(directory))
    return attach(job.trainer, Engine(TASK.seed_instructions), render=job.render)


def test_the_two_configurations_differ_by_the_host_alone() -> None:
    files = ("tiny.yaml", "tiny-verl.yaml")
    trl, verl = (cast(dict[str, Any], yamlfile.read(EXAMPLES / name)) for name in files)
    assert verl.pop("host") == {**trl.pop("host"), "name": "verl-cpu"}
    assert verl == trl
    preferred = {**TrlSettings().model_dump(), **SearchQa().host_defaults["trl"]}
    for field in ("learning_rate", "questions_per_step", "rollouts_per_question", "save_every"):
        assert CpuSettings.model_fields[field].default == preferred[field]
