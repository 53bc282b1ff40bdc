from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evoprompt_trl.checkpoint import CheckpointCallback
from transformers import TrainerControl, TrainerState

import evoprompt
from evoprompt.hosting.binding import Binding
from evoprompt.log.eventlog import EventLog
from evoprompt.support.errors import StateError
from evoprompt.support.storage import BEGUN_FILE, STATE_FILE

SENTINEL = "checkpoint-is-incomplete.txt"  # written by transformers before a save on SIGTERM


class Host:
    """A trainer as far as its checkpoints go; ``None`` as ``dies`` lets every save succeed."""

    def __init__(self, root: Path, *, is_leader: bool = True, **arguments: Any) -> None:
        self.args = SimpleNamespace(
            output_dir=str(root), save_total_limit=None, should_save=is_leader, **arguments
        )
        self.state = SimpleNamespace(global_step=2, best_model_checkpoint=None)
        self.log = EventLog()
        self.engine = evoprompt.Engine(["be brief"], log=self.log)
        self.collectives: Any = SimpleNamespace(
            is_leader=is_leader, world=1, wait=lambda: None, from_leader=lambda value: value
        )
        self.pushed: list[list[str]] = []
        self.resumed_from: Any = None
        self.binding = Binding(self.engine, self, is_leader)
        self.checkpoint = CheckpointCallback(self, self.binding, self.collectives)  # type: ignore[arg-type]

    def attach(self, **settings: Any) -> None:
        """Binds a new engine with other settings."""
        self.binding.detach()
        self.engine = evoprompt.Engine(["be brief"], log=self.log)
        self.binding = Binding(self.engine, self, **settings)
        self.checkpoint = CheckpointCallback(self, self.binding, self.collectives)  # type: ignore[arg-type]

    def wrapped(self, name: str, original: Any) -> Any:
        """``original`` as the checkpoint wraps it in the trainer."""
        return self.checkpoint.wrappers()[name](original)

    def _push_from_checkpoint(self, folder: str) -> None:
        self.pushed.append(sorted(file.name for file in Path(folder).iterdir()))

    def _save_checkpoint(self, model: object, trial: object) -> None:
        folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "weights").write_text("1")
        self._push_from_checkpoint(str(folder))
        assert self.args.save_total_limit is None, "older checkpoints would be removed too soon"

    def train(self, resume_from_checkpoint: Any = None) -> None:
        """Begins a training."""
        if resume_from_checkpoint is True:
            raise ValueError("No valid checkpoint found in output directory")
        self.resumed_from = resume_from_checkpoint
        state = TrainerState(global_step=self.state.global_step, max_steps=1_000)
        self.checkpoint.on_train_begin(self.args, state, TrainerControl())

    def save(self, step: int) -> None:
        """Saves at a step, as the trainer does."""
        self.state.global_step = step
        self.wrapped("_save_checkpoint", self._save_checkpoint)(None)

    def resume(self, asked: Any = True) -> None:
        """Trains on."""
        self.wrapped("train", self.train)(asked)


def moved_on(host: Host) -> Host:
    for _ in range(3):
        host.engine.tell([])
    return host


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    moved_on(Host(tmp_path)).save(2)
    return tmp_path


def half(root: Path, step: int) -> None:
    """What a kill within the save of ``step`` leaves."""
    (root / f"checkpoint-{step}").mkdir()
    (root / f"checkpoint-{step}" / BEGUN_FILE).write_text("{}")


def folders(root: Path) -> list[str]:
    return sorted(folder.name for folder in root.iterdir())


class TestResuming:
    def test_half_a_checkpoint_is_removed_and_the_one_before_resumed(self, saved: Path) -> None:
        half(saved, 4)
        with pytest.raises(StateError, match="checkpoint-4 is not complete"):
            Host(saved).resume(str(saved / "checkpoint-4"))
        for step, file in ((6, ".evoprompt_state.begun.json.tmp"), (8, SENTINEL), (10, "")):
            (saved / f"checkpoint-{step}").mkdir()
            if file:
                (saved / f"checkpoint-{step}" / file).touch()
        host = Host(saved)
        with pytest.warns(UserWarning, match="removed checkpoint-4, checkpoint-6, checkpoint-8"):
            host.resume()
        assert host.engine.step == 3
        assert folders(saved) == ["checkpoint-2"]

    def test_auto_takes_the_newest_complete_checkpoint_or_none(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        host.attach(resume="auto")
        host.resume(None)
        assert host.resumed_from is None, "there is none yet"
        host.save(2)
        half(tmp_path, 4)
        with pytest.warns(UserWarning, match="removed checkpoint-4"):
            host.resume(None)
        assert host.resumed_from == str(tmp_path / "checkpoint-2")
        host.resume(False)
        assert host.resumed_from is False, "asked for by name"


class TestSaving:
    def test_only_rank_0_touches_engine_and_file(self, saved: Path) -> None:
        host = Host(saved, is_leader=False)
        host.resume()
        host.save(4)
        assert host.engine.step == 0
        assert folders(saved / "checkpoint-4") == ["weights"]

    def test_what_is_uploaded_holds_weights_and_engine(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        host.save(2)
        assert host.pushed == [[STATE_FILE, "weights"]]

    @pytest.mark.parametrize(
        ("limit", "best", "left"), [(None, None, [2, 4, 6]), (2, None, [4, 6]), (1, 2, [2, 6])]
    )
    def test_older_checkpoints_are_removed_once_the_new_one_is_complete(
        self, tmp_path: Path, limit: int | None, best: int | None, left: list[int]
    ) -> None:
        host = Host(tmp_path)
        if best:
            host.state.best_model_checkpoint = str(tmp_path / f"checkpoint-{best}")
        for step in (2, 4, 6):
            host.args.save_total_limit = limit
            host.save(step)
            assert host.args.save_total_limit == limit
        assert folders(tmp_path) == [f"checkpoint-{step}" for step in left]

    def test_a_second_save_of_a_step_is_half_until_it_ends(self, saved: Path) -> None:
        host = Host(saved)

        def full(model: object, trial: object) -> None:
            assert not (saved / "checkpoint-2" / STATE_FILE).exists()
            raise OSError("No space left on device")

        with pytest.raises(OSError, match="No space"):
            host.wrapped("_save_checkpoint", full)(None)
        assert host._push_from_checkpoint.__func__ is Host._push_from_checkpoint  # type: ignore[attr-defined]
        with (
            pytest.warns(UserWarning, match="removed checkpoint-2"),
            pytest.raises(ValueError, match="No valid checkpoint"),
        ):
            Host(saved).resume()

    @pytest.mark.parametrize("within", [True, False])
    def test_within_a_step_it_holds_the_engine_of_before_the_step(
        self, tmp_path: Path, within: bool
    ) -> None:
        """On SIGTERM the trainer saves after a batch was told and before the weights learn."""
        host = Host(tmp_path, enable_jit_checkpoint=True)
        host.checkpoint.before_batch()
        moved_on(host).save(2 if within else 3)
        resumed = Host(tmp_path)
        resumed.resume()
        assert resumed.engine.step == (0 if within else 3)


class TestTheBestWeights:
    def test_the_population_is_theirs_and_nothing_is_taken_back(self, saved: Path) -> None:
        host = Host(saved)
        host.resume()
        moved_on(host)
        events = len(host.log)
        host.state.best_model_checkpoint = str(saved / "checkpoint-2")
        host.wrapped("_load_best_model", lambda: None)()
        assert host.engine.step == 3
        assert [event["event"] for event in host.log][events:] == ["notice"]

    def test_without_an_engine_it_is_said(self, tmp_path: Path) -> None:
        host = moved_on(Host(tmp_path))
        host.state.best_model_checkpoint = str(tmp_path / "checkpoint-2")
        with pytest.warns(UserWarning, match="the best weights, of checkpoint-2"):
            host.wrapped("_load_best_model", lambda: None)()
        assert host.engine.step == 3
