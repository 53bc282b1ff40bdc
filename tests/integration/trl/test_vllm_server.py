"""With ``vllm_mode="server"`` the rollouts of a question may have different instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny_trl
from accelerate import Accelerator
from contract_runs import ONE_BASELINE, note_tells
from trl.generation.vllm_generation import VLLMGeneration

import evoprompt

GROUP = 4


class Client:
    """The client of a server: notes the prompts that TRL sends, and answers each ``n`` times."""

    def __init__(self) -> None:
        self.prompts: list[list[int]] = []

    def generate(self, prompts: list[list[int]], n: int, **_: object) -> dict[str, Any]:
        self.prompts += prompts
        copies = [prompt for prompt in prompts for _ in range(n)]
        return {
            "prompt_ids": prompts,
            "completion_ids": [[5 + sum(prompt) % 3] for prompt in copies],
            "logprobs": [[[-0.5]] for _ in copies],
        }


def served(folder: Path, client: Client) -> Any:
    """A trainer whose sampling is TRL's own for a server, before a client that needs none."""
    trainer = tiny_trl.trainer(folder, max_steps=2, num_generations=GROUP)
    generation: Any = object.__new__(VLLMGeneration)
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs")
    vars(generation).update(
        dict.fromkeys((*names, "max_completion_length", "structured_outputs_regex")),
        accelerator=Accelerator(),
        mode="server",
        logprobs=0,
        vllm_client=client,
        sync_weights=lambda: None,
    )
    vars(trainer).update(
        use_vllm=True, vllm_mode="server", vllm_generation=generation, _last_loaded_step=-1
    )
    return trainer


def test_every_prompt_of_a_group_is_sent_and_answered(tmp_path: Path) -> None:
    client = Client()
    trainer = served(tmp_path, client)
    engine = ONE_BASELINE.build()
    told = note_tells(engine)
    evoprompt.attach(trainer, engine)
    assert engine.selection.candidates_per_question == GROUP
    trainer.train()
    rollouts = [trajectory for step in told for trajectory in step]
    trained = client.prompts[-len(told[-1]) :]
    texts = [trainer.processing_class.decode(prompt) for prompt in trained]
    assert all(
        trajectory.candidate.text in text for trajectory, text in zip(told[-1], texts, strict=True)
    )
    assert len({trajectory.candidate.id for trajectory in rollouts}) > 1


def test_the_sampling_is_trls_own_again_once_it_is_detached(tmp_path: Path) -> None:
    client = Client()
    trainer = served(tmp_path, client)
    evoprompt.attach(trainer, ONE_BASELINE.build()).detach()
    prompts = [[5], [6], [7], [8]]
    trainer.vllm_generation.generate(prompts=prompts, images=None, num_generations=GROUP)
    assert client.prompts == prompts[:1]
