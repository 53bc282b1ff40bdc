from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from evoprompt_trl.host import BUFFERS, TrlTrainer

import evoprompt
from evoprompt.hosting.attachment import methods_of
from evoprompt.support.errors import AttachError


class Trainer:
    """Stands for TRL's ``GRPOTrainer``, as far as a recogniser looks."""

    def _generate_and_score_completions(self, inputs: Any) -> None: ...
    def _generate(self, prompts: Any) -> None: ...
    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> None: ...
    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: Any
    ) -> None: ...
    def log(self, logs: Any, start_time: Any = None) -> None: ...
    def train(self, resume_from_checkpoint: Any = None) -> None: ...
    def _save_checkpoint(self, model: Any, trial: Any) -> None: ...
    def _push_from_checkpoint(self, checkpoint_folder: Any) -> None: ...
    def _load_best_model(self) -> None: ...
    def add_callback(self, callback: Any) -> None: ...
    def remove_callback(self, callback: Any) -> None: ...


@pytest.fixture
def trl(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A TRL in which :class:`Trainer` is the ``GRPOTrainer``."""
    found = ModuleType("trl")
    vars(found)["__version__"] = "1.16.0"
    home = ModuleType("trl.trainer.grpo_trainer")
    vars(home)["GRPOTrainer"] = Trainer
    monkeypatch.setitem(sys.modules, "trl", found)
    monkeypatch.setitem(sys.modules, "trl.trainer.grpo_trainer", home)
    return found


def engine() -> evoprompt.Engine:
    return evoprompt.Engine(["be brief"])


def test_a_trl_that_is_too_old_is_refused_with_the_remedy(trl: ModuleType) -> None:
    vars(trl)["__version__"] = "0.29.1"
    with pytest.raises(AttachError, match=r"trl 0.29.1 is too old; required: trl>=1.0; pip"):
        evoprompt.attach(Trainer(), engine())


def test_a_trl_that_moved_a_method_is_refused(trl: ModuleType) -> None:
    class Moved(Trainer):
        def _calculate_rewards(self, batch: Any) -> None: ...  # type: ignore[override]

    with pytest.raises(AttachError, match=r"Moved has _calculate_rewards\(batch\)"):
        evoprompt.attach(Moved(), engine())


def test_whatever_a_trl_lacks_is_named(trl: ModuleType) -> None:
    for name, arguments in methods_of(TrlTrainer).items():
        changed = type("Changed", (Trainer,), {name: None})
        required = rf"has no {name}; required: {name}\({', '.join(arguments)}\)"
        with pytest.raises(AttachError, match=required):
            evoprompt.attach(changed(), engine())
    for name in BUFFERS:
        trainer = Trainer()
        vars(trainer).update({other: {} for other in BUFFERS if other != name})
        with pytest.raises(AttachError, match=f"has no {name}; required: {name}; use a TRL that"):
            evoprompt.attach(trainer, engine())


def test_a_trl_newer_than_those_tested_is_announced(trl: ModuleType) -> None:
    vars(trl)["__version__"] = "1.17.0"
    with (
        pytest.warns(UserWarning, match=r"trl 1.17.0 is newer than 1.16, the newest that"),
        pytest.raises(AttachError, match="has no _metrics"),
    ):
        evoprompt.attach(Trainer(), engine())


@pytest.mark.parametrize("base", [object, Trainer], ids=["of its own", "derived"])
def test_the_asynchronous_trainer_is_refused_with_the_reason_whichever_module_it_is_in(
    base: type, trl: ModuleType
) -> None:
    asynchronous = type("AsyncGRPOTrainer", (base,), {"__module__": "somewhere.new"})
    derived = type("Mine", (asynchronous,), {})
    # The class in place of the trainer is refused by the same sentence.
    for trainer in (asynchronous(), derived(), asynchronous, derived):
        with pytest.raises(
            AttachError, match=r"samples and scores in a child process.*docs/gateway\.md"
        ) as refusal:
            evoprompt.attach(trainer, engine())
        message = str(refusal.value)
        assert "\n" not in message
        section = message.split('"')[1]
        assert f"## {section}\n" in (Path(__file__).parents[3] / "docs/gateway.md").read_text()


def test_another_trainer_is_left_to_other_adapters(trl: ModuleType) -> None:
    class SFTTrainer: ...

    with pytest.raises(
        AttachError, match=r"no adapter recognises a .*SFTTrainer \(adapters: .*trl"
    ):
        evoprompt.attach(SFTTrainer(), engine())
    with pytest.raises(AttachError, match="with adapter='verl'"):
        evoprompt.attach(Trainer(), engine(), adapter="verl")


def test_looking_for_a_trainer_imports_neither_trl_nor_torch() -> None:
    program = (
        "import sys, evoprompt\n"
        "try:\n"
        "    evoprompt.attach(object(), evoprompt.Engine(['be brief']))\n"
        "except evoprompt.EvopromptError:\n"
        "    print(sorted({'trl', 'verl', 'tinker', 'torch', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
