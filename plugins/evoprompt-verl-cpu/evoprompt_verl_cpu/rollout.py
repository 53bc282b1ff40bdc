"""Rollout backend for veRL that runs transformers on a CPU.

It is registered as ``transformers`` in veRL's two rollout registries. A server is a Ray actor that
batches the requests waiting at a moment; it sleeps, wakes, aborts and loads new weights exactly on
veRL's requests, and refuses requests while asleep.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import torch
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from evoprompt_verl_cpu import ROLLOUT
from evoprompt_verl_cpu.sampling import SamplingRequest, Stops, decode

_GATHER_SECONDS = 0.02
_MAX_BATCH = 256


@dataclass(slots=True)
class _Waiting:
    request: SamplingRequest
    stops: Stops
    answer: asyncio.Future[SamplingRequest]


@ray.remote(num_cpus=0)
class PolicyServer:
    """Server with a copy of the policy, which continues prompts.

    Its samples depend on the prompt, on the version of the weights and on the request's ``seed``,
    or without a seed on how often the prompt was sampled under that version: a resumed run repeats
    an uninterrupted one.
    """

    def __init__(
        self, model_path: str, tokenizer: Any, max_tokens: int, max_length: int, seed: int
    ) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        model: Any = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._max_tokens, self._max_length, self._seed = max_tokens, max_length, seed
        self._stops: dict[tuple[frozenset[int], tuple[str, ...]], Stops] = {}
        self._version: int | None = None
        self._num_samples: Counter[tuple[int, ...]] = Counter()
        self._waiting: list[_Waiting] = []
        self._draining: asyncio.Task[None] | None = None
        self._awake = asyncio.Event()
        self._open = asyncio.Event()
        self._awake.set()
        self._open.set()

    async def wait_until_ready(self) -> bool:
        return True

    async def wake_up(self, tags: Sequence[str] | None = None) -> None:
        self._awake.set()

    async def sleep(self) -> None:
        self._awake.clear()

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        self._open.clear()
        if self._draining is not None:
            await asyncio.wait([self._draining])

    async def resume_generation(self) -> None:
        self._open.set()

    async def clear_kv_cache(self) -> None: ...

    async def release_kv_cache(self) -> None: ...

    async def resume_kv_cache(self) -> None: ...

    async def load_weights(self, weights: dict[str, torch.Tensor], version: int | None) -> None:
        unknown = self._model.load_state_dict(weights, strict=False).unexpected_keys
        assert not unknown, f"the trainer sent weights the policy does not have: {unknown}"
        self._version = version
        self._num_samples.clear()

    async def generate(
        self,
        request_id: str,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        **_others: object,
    ) -> TokenOutput:
        await self._open.wait()
        assert self._awake.is_set(), "a request to generate while asleep"
        prompt = tuple(prompt_ids)
        room = self._max_length - len(prompt)
        limit = min(int(sampling_params.get("max_tokens") or self._max_tokens), room)
        request = SamplingRequest(
            prompt=prompt,
            seed=self._seed_of(prompt, sampling_params.get("seed")),
            temperature=float(sampling_params.get("temperature", 1.0)),
            max_tokens=max(limit, 1),
        )
        stops = self._stops_of(sampling_params)
        answer: asyncio.Future[SamplingRequest] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(request, stops, answer))
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain())
        done = await answer
        return TokenOutput(
            token_ids=done.tokens,
            log_probs=done.log_probs if sampling_params.get("logprobs") else None,
            stop_reason="completed" if done.finished else "aborted",
            num_preempted=0,
            extra_fields={"global_steps": self._version},
        )

    def _stops_of(self, sampling_params: dict[str, Any]) -> Stops:
        """Return the stops of an action; requests with equal stops share one object."""
        ids = frozenset(
            [self._tokenizer.eos_token_id, *(sampling_params.get("stop_token_ids") or ())]
        )
        texts = tuple(sampling_params.get("stop") or ())
        if (ids, texts) not in self._stops:
            self._stops[ids, texts] = Stops(ids, texts, self._tokenizer)
        return self._stops[ids, texts]

    def _seed_of(self, prompt: tuple[int, ...], request_seed: int | None) -> int:
        number = self._num_samples[prompt] if request_seed is None else request_seed
        key = (self._seed, self._version, number, prompt)
        self._num_samples[prompt] += 1
        return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=7).digest())

    async def _drain(self) -> None:
        while self._waiting:
            await asyncio.sleep(_GATHER_SECONDS)
            stops = self._waiting[0].stops
            batch = [waiting for waiting in self._waiting if waiting.stops is stops][:_MAX_BATCH]
            self._waiting = [
                waiting for waiting in self._waiting if all(waiting is not b for b in batch)
            ]
            requests = [waiting.request for waiting in batch]
            try:
                await asyncio.to_thread(
                    decode, self._model, requests, stops, lambda: not self._open.is_set()
                )
                for waiting in batch:
                    waiting.answer.set_result(waiting.request)
            except Exception as error:
                for waiting in batch:
                    waiting.answer.set_exception(error)


class Replica(RolloutReplica):  # type: ignore[misc]
    """Replica that launches one :class:`PolicyServer`."""

    async def launch_servers(self) -> None:
        from verl.utils.config import omega_conf_to_dataclass

        model = omega_conf_to_dataclass(self.model_config)
        length = self.config.prompt_length + self.config.response_length
        name = _server_name(self.replica_rank)
        actor: Any = PolicyServer
        server = actor.options(name=name, max_concurrency=1000).remote(
            model.local_path,
            model.tokenizer,
            self.config.response_length,
            self.config.max_model_len or length,
            self.config.seed + self.replica_rank,
        )
        await server.wait_until_ready.remote()
        self.servers = [server]
        self._server_handle, self._server_address = server, name


class ServerAdapter(BaseRollout):  # type: ignore[misc]
    """Adapter of the trainer worker: sends memory commands and weights to its replica's server."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        rank = int(os.environ.get("RANK", 0))
        world = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        self.replica_rank = rank // world if replica_rank == -1 else replica_rank
        self.is_leader_rank = rank % world == 0

    @property
    def _server(self) -> Any:
        return ray.get_actor(_server_name(self.replica_rank))

    async def resume(self, tags: list[str]) -> None:
        if self.is_leader_rank:
            await self._server.wake_up.remote(tags=tags)

    async def release(self) -> None:
        if self.is_leader_rank:
            await self._server.sleep.remote()

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]] | AsyncIterator[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        **settings: Any,
    ) -> None:
        if isinstance(weights, AsyncIterator):
            pairs = [pair async for pair in weights]
        else:
            pairs = list(weights)
        # Every rank must walk through the weights: gathering a shard is a collective operation.
        copies = {name: weight.detach().float().cpu().clone() for name, weight in pairs}
        if self.is_leader_rank:
            await self._server.load_weights.remote(copies, settings.get("global_steps"))


def _server_name(rank: int) -> str:
    return f"transformers_server_{rank}"


RolloutReplicaRegistry.register(ROLLOUT, lambda: Replica)
_ROLLOUT_REGISTRY[ROLLOUT, "async"] = f"{__name__}.{ServerAdapter.__name__}"
