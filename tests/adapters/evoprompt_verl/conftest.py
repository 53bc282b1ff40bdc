"""A configuration as veRL composes it, and the task of the tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from evoprompt.plugins import plugins

Compose = Callable[..., DictConfig]
Changed = Callable[[Mapping[str, object]], DictConfig]


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer in which every phrase of the colours is one token; no weights."""
    from cpu_support.world import make_tokenizer
    from transformers import Qwen2Config

    folder = tmp_path_factory.mktemp("model")
    make_tokenizer(folder)
    Qwen2Config(max_position_embeddings=2048).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A parquet file of questions."""
    from cpu_support.world import rows, write_rows

    file = tmp_path_factory.mktemp("questions") / "train.parquet"
    write_rows(file, rows(12))
    return file


@pytest.fixture(scope="session")
def compose(small_model: Path, questions: Path) -> Compose:
    """Composes veRL's configuration with overrides, as its command line does; takes a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import verl.trainer.ppo.v1.trainer_base  # noqa: F401
    from hydra import compose, initialize_config_module

    def composed(*overrides: str, preset: str = "inspo", hydra: bool = False) -> DictConfig:
        given = [
            *([f"+evoprompt={preset}"] if preset else []),
            "algorithm.adv_estimator=grpo",
            "critic.enable=False",
            "actor_rollout_ref.rollout.name=vllm",
            "actor_rollout_ref.rollout.n=4",
            f"actor_rollout_ref.model.path={small_model}",
            f"data.train_files={questions}",
            *overrides,
        ]
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer", given, return_hydra_config=hydra)
        assert isinstance(config, DictConfig)
        return config

    return composed


@pytest.fixture
def trainers() -> type:
    """The base of veRL's V1 trainers; what veRL imports warns about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from verl.trainer.ppo.v1.trainer_base import PPOTrainer
    found: type = PPOTrainer
    return found


@pytest.fixture(scope="session")
def sound(compose: Compose) -> DictConfig:
    """A run that would work: one static instruction."""
    return compose('evoprompt.instructions=["Name any colour."]', "evoprompt.proposer=null")


@pytest.fixture
def changed(sound: DictConfig) -> Changed:
    """The sound run with other values, by dotted key."""

    def change(values: Mapping[str, object]) -> DictConfig:
        config = sound.copy()
        for key, value in values.items():
            OmegaConf.update(config, key, value, merge=False)
        return config

    return change


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs the distribution ``evoprompt-colours``, which brings the task ``colours``."""
    from cpu_support.world import write_plugin

    write_plugin(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.cache_clear()
    yield
    plugins.cache_clear()
