"""One scripted episode through every host and evaluation: the same tokens, mask, text and score."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from evoprompt_search_qa import protocol, scoring
from evoprompt_search_qa.evaluation import measure
from evoprompt_search_qa.tiny.task import CHAT_TEMPLATE, SHIPPED_POLICY, SearchQa
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
from trl.trainer.grpo_trainer import GRPOTrainer
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from evoprompt.agents import Agent, Episode, play, split, turns
from evoprompt.agents.tasks import Score, Trial, scored
from evoprompt.experiments.answers import methods_of
from evoprompt.experiments.hosts.trl.samplers import TransformersSampler
from evoprompt.experiments.hosts.verl.configuration import configuration
from evoprompt.experiments.hosts.verl.loop import SCORE, TaskLoop
from evoprompt.experiments.hosts.verl.rows import rows
from evoprompt.experiments.policies import ServedModel
from evoprompt.experiments.trial import host_for
from evoprompt.prompts import Message
from evoprompt.testing.openai_server import Body, OpenAIServer
from evoprompt.turns import readable
from evoprompt.types import INSTRUCTION, Candidate, Turn

TASK = SearchQa()
QUESTION = next(one for one in TASK.questions("test") if one.row["stratum"] == "2")
SEED = TASK.seed_instructions[0]
PROMPT = protocol.plain_prompt(SEED, QUESTION.text)
FIRST = QUESTION.text.split(" of ", 1)[1].removesuffix(" ?")
ACTIONS = (
    f"<think> i need {FIRST} </think> <search> {FIRST} </search>",
    "<search> zzz </search>",  # which finds nothing
    f"<think> good </think> <answer> {QUESTION.answers[0]} </answer> <eos>",
)
torch.set_num_threads(1)


class Words:
    """The tokens of the episode, put together by hand."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.prompt = self._ids(tokenizer, PROMPT)
        self.actions = [
            self._ids(tokenizer, text.replace("<eos>", str(tokenizer.eos_token)))
            for text in ACTIONS
        ]
        around = protocol.TINY
        found = [protocol.joined(passages) for passages in (TASK.retriever.search(FIRST), ())]
        self.shown = [f"{around.opening}{one}{around.closing}" for one in found]
        pieces = [(self.actions[0], 1), (self._ids(tokenizer, self.shown[0]), 0)]
        pieces += [(self.actions[1], 1), (self._ids(tokenizer, self.shown[1]), 0)]
        pieces += [(self.actions[2], 1)]
        self.completion = [token for ids, _ in pieces for token in ids]
        self.mask = [own for ids, own in pieces for _ in ids]
        spoken = tokenizer.batch_decode(self.actions, skip_special_tokens=True)
        self.turns = [Turn(*pair) for pair in zip(spoken, [*self.shown, ""], strict=True)]

    @staticmethod
    def _ids(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    def next_action(self, context: Sequence[int]) -> list[int]:
        """What the policy says after ``context``, which must be the episode's own."""
        whole = [*self.prompt, *self.completion]
        assert list(context) == whole[: len(context)]
        said = len(context) - len(self.prompt)
        return self.actions[len(split(self.completion[:said], self.mask[:said]))]


class Positions(torch.nn.Module):
    """A model whose hidden states say where they are."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *given: Any, position_ids: torch.Tensor, **named: Any) -> Any:
        output = self.model(*given, position_ids=position_ids, **named)
        output.last_hidden_state = (
            position_ids[..., None].float().expand(output.last_hidden_state.shape)
        )
        return output


class Says(torch.nn.Module):
    """Gives the next token of the script all the weight."""

    def __init__(self, script: Sequence[int], words: int) -> None:
        super().__init__()
        self.script = torch.tensor([*script, 0])
        self.words = words

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        places = hidden[..., 0].long().clamp(max=len(self.script) - 2)
        return 1000.0 * torch.nn.functional.one_hot(self.script[places + 1], self.words).float()


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    found: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(SHIPPED_POLICY)
    return found


@pytest.fixture(scope="module")
def words(tokenizer: PreTrainedTokenizerFast) -> Words:
    return Words(tokenizer)


@pytest.fixture
def policy(words: Words) -> LlamaForCausalLM:
    """The tiny policy, made to say the script."""
    found = LlamaForCausalLM.from_pretrained(SHIPPED_POLICY)
    size = found.config.vocab_size
    found.model = Positions(found.model)
    found.lm_head = Says([*words.prompt, *words.completion], size)
    return found


def require_same(episode: Episode, words: Words) -> None:
    assert episode.prompt_ids == words.prompt
    assert episode.completion_ids == words.completion
    assert episode.policy_mask == words.mask
    # An own episode has its thoughts in one form, whichever marks and spaces the policy uses.
    assert [*map(readable, episode.turns)] == [*map(readable, words.turns)]
    assert episode.end == "answered"
    measured = measure(episode, QUESTION)
    assert measured["exact_match"] == measured["valid_format"] == 1.0
    assert measured["tool_calls"] == 2.0


def test_the_script_holds_what_the_tool_really_finds(words: Words) -> None:
    assert words.mask.count(0) > 20
    assert "nothing found" in words.shown[1]
    assert scoring.exact_match(words.turns, QUESTION.answers) == 1.0


def test_the_tiny_sampler(
    policy: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, words: Words
) -> None:
    sampler = TASK.sampler(policy, tokenizer, 1.0)
    assert sampler is not None
    agent = Agent(protocol.TINY, tokenizer, protocol.TINY_LIMITS)
    plays = [agent.play(words.prompt) for _ in range(3)]
    for episode in play(plays, sampler, TASK.caller("test")):
        require_same(episode, words)


def test_the_rollouts_of_trl(
    policy: LlamaForCausalLM, words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainee = host_for(TASK, {"name": "trl"}).prepare(TASK, Trial(0, tmp_path, 80, 80))
    trainer: Any = trainee.trainer
    monkeypatch.setattr(trainer.model, "model", policy.model)
    monkeypatch.setattr(trainer.model, "lm_head", policy.lm_head)
    fields = trainer.rollout_func([PROMPT] * 2, trainer)
    assert fields["prompt_ids"] == [words.prompt] * 2
    assert fields["completion_ids"] == [words.completion] * 2
    assert fields["env_mask"] == [words.mask] * 2
    for episode in fields["episode"]:
        require_same(episode, words)
    (reward,) = trainer.reward_funcs
    reward._questions = [QUESTION]
    logged: dict[str, list[Any]] = {}
    told = {"log_extra": logged.__setitem__, "answers": [list(QUESTION.answers)] * 2}
    assert reward(episode=fields["episode"], place=[0, 0], **told) == [1.0, 1.0]
    assert logged["tool_calls"] == [2.0, 2.0]


def test_the_transformers_sampler_of_trl(
    policy: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, words: Words
) -> None:
    accelerator = SimpleNamespace(
        unwrap_model=lambda wrapped, **_: wrapped, state=SimpleNamespace(deepspeed_plugin=None)
    )
    trainer = SimpleNamespace(
        model_wrapped=policy,
        accelerator=accelerator,
        args=SimpleNamespace(),
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        min_p=None,
        repetition_penalty=1.0,
    )
    sampler = TransformersSampler(cast(GRPOTrainer, trainer), tokenizer, 8)
    agent = Agent(protocol.TINY, tokenizer, protocol.TINY_LIMITS)
    for episode in play([agent.play(words.prompt)], sampler, TASK.caller("test")):
        require_same(episode, words)


def test_the_endpoint(words: Words) -> None:
    def complete(body: Mapping[str, Any]) -> Body:
        said = words.next_action(body["prompt"])
        return Body(json.dumps({"choices": [{"text": "", "token_ids": said}]}).encode())

    with OpenAIServer(default=complete) as server:
        served = ServedModel(TASK, "tiny", server.url, str(SHIPPED_POLICY))
        agent = methods_of(TASK, SEED)["agent"]
        plays = [agent.begin(served.tokenizer, served.limits, QUESTION, agent.instruction)]
        (episode,) = served.answer(plays, TASK.caller("test"))
        assert [one.body["max_tokens"] for one in server.requests] == [32] * 3
    require_same(episode, words)


def test_the_agent_loop_of_verl(tokenizer: PreTrainedTokenizerFast, words: Words) -> None:
    class Replica:
        async def generate(
            self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]
        ) -> TokenOutput:
            said = words.next_action(prompt_ids)
            return TokenOutput(
                token_ids=said,
                log_probs=[-0.5] * len(said),
                stop_reason="completed",
                num_preempted=0,
                extra_fields={},
            )

    config = configuration({"actor_rollout_ref.model.path": str(SHIPPED_POLICY)})
    chatting = PreTrainedTokenizerFast.from_pretrained(SHIPPED_POLICY)
    chatting.chat_template = CHAT_TEMPLATE
    (row,) = rows([QUESTION], "test", "evoprompt", "search-qa")
    messages = cast("list[Message]", row["prompt"])
    prompt = TASK.render(messages, Candidate("c", {INSTRUCTION: SEED}))
    columns: dict[str, Any] = {**row, "raw_prompt": prompt, "session_id": 0}

    async def run() -> AgentLoopOutput:
        loop = TaskLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=Replica(),
            tokenizer=chatting,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
            task={"name": "search-qa"},
        )
        return await loop.run({"temperature": 1.0}, **columns)

    output = asyncio.run(run())
    assert output.prompt_ids == words.prompt
    assert output.response_ids == words.completion
    assert output.response_mask == words.mask
    assert output.reward_score == 1.0
    episode = Episode(
        words.prompt,
        words.completion,
        words.mask,
        turns=words.turns,
        end="answered",
        answer=QUESTION.answers[0],
    )
    assert Score(**output.extra_fields[SCORE]) == scored(TASK, episode, QUESTION)

    def decode(spans: list[list[int]]) -> list[str]:
        return tokenizer.batch_decode(spans, skip_special_tokens=True)

    assert list(turns(output.response_ids, output.response_mask, decode)) == words.turns
