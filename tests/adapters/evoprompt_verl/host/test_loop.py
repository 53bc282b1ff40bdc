"""The agent loop without Ray: a scripted replica answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cpu_support.plugin import Colours, look_up
from cpu_support.world import CALL, FIRST
from evoprompt_verl.outcomes import FEEDBACK
from omegaconf import DictConfig, OmegaConf
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from evoprompt.agents import Tools, ToolUnavailable, encode
from evoprompt.agents.tasks import Score
from evoprompt.experiments.hosts.verl import loop as loops
from evoprompt.experiments.hosts.verl.rows import GREEDY, rows

pytestmark = pytest.mark.usefixtures("colours")

END = "<|im_end|>"
Play = Callable[..., tuple[AgentLoopOutput, "Replica"]]
OBSERVATION = "\n<|im_start|>tool\nblue<|im_end|>\n<|im_start|>assistant\n"
INSTRUCTED = [
    {"role": "system", "content": FIRST},
    {"role": "user", "content": "What colour is item 3?"},
]


class Replica:
    """Says what it was told to say, and remembers what it was asked."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, actions: Sequence[str], stops: str, told: bool
    ) -> None:
        self._said = [tokenizer.encode(text, add_special_tokens=False) for text in actions]
        self._stops, self._told = stops, told
        self.asked: list[Mapping[str, Any]] = []

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]
    ) -> TokenOutput:
        ids = self._said[len(self.asked)]
        self.asked.append({"request": request_id, "prompt": prompt_ids, **sampling_params})
        version = len(self.asked)
        return TokenOutput(
            token_ids=ids,
            log_probs=[-0.5] * len(ids) if self._told else None,
            stop_reason=self._stops,
            num_preempted=0,
            extra_fields={"min_global_steps": version, "max_global_steps": version},
        )


@pytest.fixture
def tokenizer(small_model: Path) -> PreTrainedTokenizerBase:
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(small_model)
    return found


@pytest.fixture(autouse=True)
def fresh_workers() -> None:
    """What a worker keeps is built anew for each test."""
    for kept in (loops._task, loops._caller, loops._runner):
        kept.cache_clear()


def played(
    config: DictConfig,
    tokenizer: PreTrainedTokenizerBase,
    actions: Sequence[str],
    columns: Mapping[str, object] | None = None,
    stops: str = "completed",
    told: bool = True,
    **settings: object,
) -> tuple[AgentLoopOutput, Replica]:
    replica = Replica(tokenizer, actions, stops, told)
    row = rows(Colours().questions("train"), "train", "evoprompt", "colours")[3]
    definition = OmegaConf.create({"task": {"name": "colours"}, **settings})

    async def run() -> AgentLoopOutput:
        made = loops.TaskLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=replica,
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
            **{str(name): value for name, value in definition.items()},
        )
        given = {**row, "raw_prompt": INSTRUCTED, "session_id": 3, **(columns or {})}
        return await made.run({"temperature": 1.0, "top_p": 1.0}, **given)

    return asyncio.run(run()), replica


@pytest.fixture
def play(sound: DictConfig, tokenizer: PreTrainedTokenizerBase) -> Play:
    return partial(played, sound, tokenizer)


def test_each_action_continues_what_was_said_and_shown_which_is_masked(
    sound: DictConfig, tokenizer: PreTrainedTokenizerBase
) -> None:
    strict = sound.copy()
    OmegaConf.update(strict, "actor_rollout_ref.rollout.repetition_penalty", 1.2, force_add=True)
    output, replica = played(strict, tokenizer, [CALL + END, "blue" + END], seeded=True)
    pairs = list(zip(output.response_ids, output.response_mask, strict=True))
    assert tokenizer.decode([token for token, own in pairs if own]) == f"{CALL}{END}blue{END}"
    assert tokenizer.decode([token for token, own in pairs if not own]) == OBSERVATION
    assert len(output.response_logprobs or []) == len(pairs)
    first, second = replica.asked
    assert first["prompt"] == output.prompt_ids
    said = len(second["prompt"]) - len(first["prompt"])
    assert second["prompt"] == [*output.prompt_ids, *output.response_ids[:said]]
    assert (first["max_tokens"], first["temperature"]) == (Colours.limits.turn_tokens, 1.0)
    assert first["repetition_penalty"] == 1.2
    assert "stop" not in first  # the end of the text ends an action
    assert first["seed"] == 3, "the number of the rollout, for a backend that repeats itself"
    assert output.extra_fields["min_global_steps"] == 1
    assert output.extra_fields["max_global_steps"] == 2


def test_the_prompt_shows_the_tools_as_every_other_driver_does(
    play: Play, tokenizer: PreTrainedTokenizerBase
) -> None:
    tokenizer.chat_template = "{{ tools | tojson if tools else '-' }}" + str(
        tokenizer.chat_template
    )
    output, _ = play(["blue" + END])
    schemas = Tools([look_up]).schemas
    assert output.prompt_ids == encode(tokenizer, INSTRUCTED, schemas)
    assert "Finds the colour of an item." in tokenizer.decode(output.prompt_ids)
    without, _ = play(["blue" + END], max_calls=0)
    assert str(tokenizer.decode(without.prompt_ids)).startswith("-")


def test_the_task_scores_its_own_question_and_says_why(play: Play) -> None:
    output, _ = play([CALL + END, "red" + END])
    told = "expected blue, got red"
    assert output.reward_score == 0.1
    assert output.extra_fields["reward_extra_info"] == {"accuracy": 0.0, FEEDBACK: told}
    metrics = {"tool_calls": 1.0, "response_tokens": 4.0, "accuracy": 0.0}
    score = Score(0.1, told, metrics, "odd")
    assert json.loads(json.dumps(output.extra_fields[loops.SCORE])) == asdict(score)


def test_an_evaluation_is_greedy_and_may_ask_for_fewer_calls(play: Play) -> None:
    columns: dict[str, object] = {GREEDY: True}
    output, replica = play([CALL + END], columns, told=False, max_calls=0, turn_tokens=7)
    assert [asked["temperature"] for asked in replica.asked] == [0.0]
    assert [asked["max_tokens"] for asked in replica.asked] == [7]
    assert "seed" not in replica.asked[0]
    assert output.reward_score == 0.0
    assert output.response_logprobs is None, "nobody told them"


def test_a_broken_tool_leaves_no_trajectory_and_a_reason(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "unscored.txt"
    with pytest.raises(ToolUnavailable, match="the colours are gone"):
        play(
            [CALL + END, "blue" + END],
            task={"name": "no-colours"},
            failures=str(file),
        )
    assert "the colours are gone" in file.read_text()
