from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY, SearchQa, SearchQaSettings
from evoprompt_search_qa.tiny.trl import TrlSettings, TrlTrainee
from evoprompt_search_qa.verl.configuration import checked
from evoprompt_search_qa.verl.rows import rows
from evoprompt_search_qa.verl.tiny import CHAT_TEMPLATE, VerlSettings, tiny
from omegaconf import DictConfig
from transformers import AutoConfig, AutoTokenizer

from evoprompt.attachment import Attachment, attach
from evoprompt.engine import Engine
from evoprompt.errors import AttachError, InputError
from evoprompt.plugins import build
from evoprompt.render import system_message
from evoprompt.runs import yamlfile
from evoprompt.tasks import Trial
from evoprompt.types import INSTRUCTION, Candidate, question_from_row

EXAMPLES = Path(__file__).parents[2]
SMALL = SearchQaSettings(train=64, validation=20, test=20)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> DictConfig:
    trial = Trial(5, tmp_path_factory.mktemp("trial"), 8000, 800)
    return checked(tiny(VerlSettings(), trial, SHIPPED_POLICY))


def test_a_prompt_is_the_same_tokens_as_under_trl() -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(SHIPPED_POLICY)
    tokenizer.chat_template = CHAT_TEMPLATE
    question = SearchQa(SMALL).questions("train")[0]
    candidate = Candidate("c", {INSTRUCTION: SearchQa(SMALL).seed_instructions[0]})
    messages = system_message([{"role": "user", "content": question.text}], candidate)
    ids = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]
    plain = protocol.plain_prompt(candidate.text, question.text)
    assert ids == tokenizer(plain, add_special_tokens=False)["input_ids"]


def test_the_numbers_are_those_of_the_host_trl(config: DictConfig, tmp_path: Path) -> None:
    theirs: Any = TrlTrainee(SearchQa(SMALL), Trial(5, tmp_path, 8000, 800)).trainer.args
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert actor.optim.lr == theirs.learning_rate
    assert actor.optim.lr_scheduler_type == theirs.lr_scheduler_type.value == "constant"
    assert list(actor.optim.betas) == [theirs.adam_beta1, theirs.adam_beta2]
    assert actor.optim.weight_decay == theirs.weight_decay
    assert actor.optim.clip_grad == theirs.max_grad_norm
    assert actor.clip_ratio == theirs.epsilon
    assert actor.use_kl_loss is (theirs.beta > 0)
    assert rollout.temperature == theirs.temperature
    assert rollout.n == theirs.num_generations
    assert (actor.loss_agg_mode, theirs.loss_type) == ("token-mean", "dapo")
    assert config.algorithm.norm_adv_by_std_in_grpo
    assert theirs.scale_rewards == "group"
    assert config.data.train_batch_size * rollout.n == theirs.per_device_train_batch_size
    assert config.trainer.total_training_steps == theirs.max_steps
    assert config.data.max_response_length == theirs.max_completion_length


def test_prompt_and_episode_fill_the_context_of_the_policy(config: DictConfig) -> None:
    context = AutoConfig.from_pretrained(SHIPPED_POLICY).max_position_embeddings
    assert config.data.max_prompt_length + protocol.TINY_LIMITS.response_tokens == context


def test_the_seed_reaches_everything_that_draws(config: DictConfig) -> None:
    assert config.data.seed == 5
    assert config.actor_rollout_ref.rollout.seed == 5
    assert config.actor_rollout_ref.actor.fsdp_config.seed == 5


def test_further_settings_win_and_wrong_ones_are_named(tmp_path: Path) -> None:
    trial = Trial(0, tmp_path, 8000, 800)
    settings = VerlSettings(arguments={"algorithm.gamma": 0.5})
    assert checked(tiny(settings, trial, SHIPPED_POLICY)).algorithm.gamma == 0.5
    wrong = build("host", {"name": "verl", "learning_rat": 1})
    with pytest.raises(InputError, match="host 'verl': unknown setting 'learning_rat'"):
        wrong.prepare(SearchQa(SMALL), trial)


def test_a_policy_without_room_for_the_instruction_is_refused_before_ray(tmp_path: Path) -> None:
    """The longest question decides, which only the task knows."""
    task = SearchQa(SMALL)
    usual = attached(task, tmp_path)
    usual.detach()
    with pytest.raises(AttachError, match=r"at most data\.max_prompt_length 40, or veRL cuts"):
        attached(task, tmp_path, **{"data.max_prompt_length": 40})


def attached(task: SearchQa, directory: Path, **arguments: Any) -> Attachment:
    host = build("host", {"name": "verl", "arguments": arguments})
    trainee = host.prepare(task, Trial(0, directory, 800, 800))
    return attach(trainee.trainer, Engine(task.seed_instructions), render=trainee.render)


def test_the_two_configurations_differ_by_the_host_alone() -> None:
    trl, verl = (yamlfile.read(EXAMPLES / name) for name in ("tiny.yaml", "tiny-verl.yaml"))
    assert verl.pop("host") == {**trl.pop("host"), "name": "verl"}  # type: ignore[dict-item]
    assert verl == trl
    fields = set(VerlSettings.model_fields) & set(TrlSettings.model_fields)
    for field in fields:
        assert VerlSettings.model_fields[field].default == TrlSettings.model_fields[field].default


def test_a_row_is_read_back_as_its_question() -> None:
    questions = SearchQa(SMALL).questions("validation")
    found = [
        question_from_row(row) for row in rows(questions, lambda question: "search-qa", "loop")
    ]
    assert [(q.id, q.text, q.answers) for q in found] == [
        (f"search-qa/{q.id}", q.text, q.answers) for q in questions
    ]
