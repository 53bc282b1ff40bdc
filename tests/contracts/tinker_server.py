"""A local stand-in for Tinker's service: a policy of a few thousand parameters behind its clients.

Every call is bound to the signature of the real client's method, what comes in is checked against
``tinker``'s own types, and answers are made of them. Samples depend on weights, prompt and how
often that prompt was asked with these weights alone, so that two runs can be compared.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import tinker
import torch
from tinker.types import LossFnOutput, SaveWeightsForSamplerResponse, SaveWeightsResponse
from transformers import LlamaConfig, LlamaForCausalLM

T = TypeVar("T")
POSITIONS = 128
END = 1
"""Id of the token that ends a turn."""


class Done(Generic[T]):
    """A result that is there, as the clients hand it out."""

    def __init__(self, value: T) -> None:
        self.value = value

    def result(self, timeout: float | None = None) -> T:
        return self.value

    def __await__(self) -> Generator[Any, None, T]:
        yield from ()
        return self.value


def as_in(real: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Refuses whatever the method ``real`` of a client would refuse to be called with."""

    def decorate(method: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(method)
        def called(self: object, *args: Any, **kwargs: Any) -> T:
            bound = inspect.signature(real).bind(self, *args, **kwargs)
            bound.apply_defaults()
            return method(self, **{k: v for k, v in bound.arguments.items() if k != "self"})

        return called

    return decorate


@dataclass
class Service:
    """What is behind the clients.

    Attributes:
        folder: where checkpoints are, so that another process finds them.
        vocabulary: tokens.
        ruin_in: the weights are ruined just before this optimizer step, counted from 1.
        losses: one an optimizer step.
        advantages: of each datum, one list an optimizer step.
        model: the policy at the end.
    """

    folder: Path
    vocabulary: int
    ruin_in: int | None = None
    losses: list[float] = field(default_factory=list)
    advantages: list[list[float]] = field(default_factory=list)
    model: LlamaForCausalLM | None = None

    def client(self, **arguments: Any) -> ServiceClient:
        """In the place of ``tinker.ServiceClient``."""
        inspect.signature(tinker.ServiceClient.__init__).bind(None, **arguments)
        return ServiceClient(self)


class ServiceClient:
    """``tinker.ServiceClient``."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    @as_in(tinker.ServiceClient.create_lora_training_client)
    def create_lora_training_client(
        self, base_model: str, rank: int, **others: Any
    ) -> Done[TrainingClient]:
        assert isinstance(base_model, str)
        assert 0 < rank <= 128
        return Done(TrainingClient(self.service))

    @as_in(tinker.ServiceClient.create_training_client_from_state_with_optimizer)
    def create_training_client_from_state_with_optimizer(
        self, path: str, **others: Any
    ) -> Done[TrainingClient]:
        return Done(TrainingClient(self.service, path))

    def create_rest_client(self) -> ServiceClient:
        return self

    @as_in(tinker.lib.public_interfaces.RestClient.get_training_run_by_tinker_path)
    def get_training_run_by_tinker_path(self, tinker_path: str, **others: Any) -> Done[Any]:
        raise ValueError(f"no training run is known of {tinker_path}")  # handled by the cookbook


class TrainingClient:
    """``tinker.TrainingClient``, which trains all weights."""

    def __init__(self, service: Service, path: str | None = None) -> None:
        self.service = service
        torch_state = torch.get_rng_state()
        torch.manual_seed(0)
        self.model = LlamaForCausalLM(  # type: ignore[no-untyped-call]
            LlamaConfig(
                vocab_size=service.vocabulary,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=POSITIONS,
                tie_word_embeddings=False,
                pad_token_id=0,
                eos_token_id=END,
                bos_token_id=None,
            )
        )
        torch.set_rng_state(torch_state)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.steps = 0
        if path is not None:
            saved = torch.load(self._file(path), weights_only=True)
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.steps = saved["steps"]
        service.model = self.model
        self._spoil()

    @as_in(tinker.TrainingClient.forward_backward)
    def forward_backward(
        self, data: list[tinker.Datum], loss_fn: str, loss_fn_config: Any, **others: Any
    ) -> Done[tinker.ForwardBackwardOutput]:
        assert data, "no data"
        assert loss_fn == "importance_sampling"
        assert not loss_fn_config
        outputs: list[LossFnOutput] = []
        total = torch.zeros(())
        seen: list[float] = []
        for datum in data:
            assert isinstance(datum, tinker.Datum)
            assert set(datum.loss_fn_inputs) == {"target_tokens", "logprobs", "advantages"}
            targets, sampled, advantages = (
                datum.loss_fn_inputs[name].to_torch()
                for name in ("target_tokens", "logprobs", "advantages")
            )
            assert targets.dtype == torch.int64
            tokens = _tokens(datum.model_input, self.service.vocabulary)
            assert len(tokens) == len(targets) == len(sampled) == len(advantages) <= POSITIONS
            logits = self.model(input_ids=torch.tensor([tokens])).logits[0]
            logprobs = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
            total = total - ((logprobs - sampled).exp() * advantages).sum()
            seen.append(float(advantages[-1]))  # the last target was said by the policy
            outputs.append(
                {"logprobs": tinker.TensorData(logprobs.tolist(), "float32", [len(targets)])}
            )
        if total.requires_grad:
            total.backward()  # type: ignore[no-untyped-call]
        self.service.losses.append(float(total.detach()))
        self.service.advantages.append(seen)
        return Done(tinker.ForwardBackwardOutput("TorchLossReturn", outputs))

    @as_in(tinker.TrainingClient.optim_step)
    def optim_step(
        self, optim_params: tinker.AdamParams, **others: Any
    ) -> Done[tinker.OptimStepResponse]:
        assert isinstance(optim_params, tinker.AdamParams)
        for group in self.optimizer.param_groups:
            group["lr"] = optim_params.learning_rate
            group["betas"] = (optim_params.beta1, optim_params.beta2)
            group["eps"] = optim_params.eps
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        self._spoil()
        return Done(tinker.OptimStepResponse())

    def _spoil(self) -> None:
        """Makes the policy say one long word for ever, which no reward likes."""
        if self.steps + 1 != self.service.ruin_in:
            return
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.fill_(1.0 if "norm" in name or "embed" in name else 0.0)
            self.model.lm_head.weight[3] = 10.0

    @as_in(tinker.TrainingClient.save_state)
    def save_state(self, name: str, **others: Any) -> Done[SaveWeightsResponse]:
        return Done(SaveWeightsResponse(path=self._save(f"tinker://run/weights/{name}")))

    @as_in(tinker.TrainingClient.save_weights_for_sampler)
    def save_weights_for_sampler(
        self, name: str, **others: Any
    ) -> Done[SaveWeightsForSamplerResponse]:
        path = self._save(f"tinker://run/sampler_weights/{name}")
        return Done(SaveWeightsForSamplerResponse(path=path))

    @as_in(tinker.TrainingClient.create_sampling_client)
    def create_sampling_client(self, model_path: str, **others: Any) -> Done[SamplingClient]:
        saved = torch.load(self._file(model_path), weights_only=True)
        return Done(SamplingClient(self.service, self.model, saved["model"]))

    @as_in(tinker.TrainingClient.save_weights_and_get_sampling_client)
    def save_weights_and_get_sampling_client(self, **others: Any) -> Done[SamplingClient]:
        return Done(SamplingClient(self.service, self.model, self.model.state_dict()))

    def _save(self, path: str) -> str:
        file = self._file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({**state, "steps": self.steps}, file)
        return path

    def _file(self, path: str) -> Path:
        assert path.startswith("tinker://run/"), path
        return self.service.folder / path.removeprefix("tinker://run/")


class SamplingClient:
    """``tinker.SamplingClient`` with the weights of one moment."""

    def __init__(
        self, service: Service, model: LlamaForCausalLM, weights: dict[str, torch.Tensor]
    ) -> None:
        self.service = service
        self.model = LlamaForCausalLM(model.config)  # type: ignore[no-untyped-call]
        self.model.load_state_dict({name: value.clone() for name, value in weights.items()})
        self.model.train(False)
        self.weights = digest(*self.model.state_dict().values())
        self.asked: Counter[tuple[int, ...]] = Counter()
        self.ids = itertools.count()

    @as_in(tinker.SamplingClient.sample)
    def sample(
        self,
        prompt: tinker.ModelInput,
        num_samples: int,
        sampling_params: tinker.SamplingParams,
        **others: Any,
    ) -> Done[tinker.SampleResponse]:
        assert isinstance(sampling_params, tinker.SamplingParams)
        assert sampling_params.max_tokens
        tokens = _tokens(prompt, self.service.vocabulary)
        assert len(tokens) + sampling_params.max_tokens <= POSITIONS, "the prompt is too long"
        sequences = [
            self._sequence(tokens, sampling_params.max_tokens, sampling_params.temperature)
            for _ in range(num_samples)
        ]
        return Done(tinker.SampleResponse(sequences=sequences))

    @torch.no_grad()
    def _sequence(self, prompt: list[int], most: int, temperature: float) -> tinker.SampledSequence:
        key = tuple(prompt)
        self.asked[key] += 1
        seed = hashlib.blake2b(
            f"{self.weights} {key} {self.asked[key]}".encode(), digest_size=4
        ).hexdigest()
        generator = torch.Generator().manual_seed(int(seed, 16))
        said: list[int] = []
        logprobs: list[float] = []
        while len(said) < most and (not said or said[-1] != END):
            logits = self.model(input_ids=torch.tensor([[*prompt, *said]])).logits[0, -1]
            chances = (logits / temperature).log_softmax(-1)
            said.append(int(torch.multinomial(chances.exp(), 1, generator=generator)))
            logprobs.append(float(chances[said[-1]]))
        return tinker.SampledSequence(
            stop_reason="stop" if said[-1] == END else "length",
            sequence_id=f"{self.weights}-{next(self.ids)}",
            _tokens_list=said,
            _logprobs_list=logprobs,
        )


def _tokens(given: tinker.ModelInput, vocabulary: int) -> list[int]:
    assert isinstance(given, tinker.ModelInput)
    assert all(isinstance(chunk, tinker.EncodedTextChunk) for chunk in given.chunks)
    tokens = list(given.to_ints())
    assert all(0 <= token < vocabulary for token in tokens)
    return tokens


def digest(*tensors: torch.Tensor) -> str:
    """One text for many tensors."""
    seen = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        seen.update(tensor.detach().contiguous().numpy().tobytes())
    return seen.hexdigest()
