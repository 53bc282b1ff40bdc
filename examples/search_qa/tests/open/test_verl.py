"""The recipes of veRL take steps on a CPU, at tiny width: real Ray, FSDP, queue and agent loops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import requests
from evoprompt_search_qa import protocol
from pydantic import JsonValue
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

pytestmark = [pytest.mark.verl, pytest.mark.nightly, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).parents[2]
TRAIN = Path(__file__).with_name("verl_training.py")
HERE = (
    "host.questions_per_step=4",
    "host.questions_per_update=2",
    "host.micro_batch=5",
    "host.learning_rate=1e-3",
    "task.observation_tokens=192",
    "budget=40",
)


RECIPES = [
    *((path.name, ()) for path in sorted(EXAMPLES.glob("qwen*-verl*.yaml"))),
    ("qwen2.5-3b-verl-lora.yaml", ("host.lora=null", "host.offload=true")),
]


@pytest.mark.parametrize(("name", "changes"), RECIPES)
def test_a_recipe_trains_on_what_the_policy_wrote_and_on_nothing_else(
    name: str,
    changes: tuple[str, ...],
    settings: dict[str, JsonValue],
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
) -> None:
    own = [f"task.{key}={json.dumps(value)}" for key, value in settings.items()]
    # veRL pins a separate reference's memory for an accelerator; that of adapters is the policy.
    adapters = "lora" in name and not changes
    reference = () if adapters else ("host.kl=0",)
    _train(EXAMPLES / name, tmp_path, *own, *HERE, *changes, *reference)
    rollouts = _read(tmp_path / "trained.jsonl")
    assert len(rollouts) == 2 * 4 * 5
    kinds: Counter[str] = Counter()
    for rollout in rollouts:
        assert rollout["loss_mask"] == rollout["response_mask"]
        assert (
            len(rollout["responses"]) == len(rollout["response_mask"]) == len(rollout["advantages"])
        )
        pieces = _pieces(rollout, tokenizer)
        assert pieces[0][0] == pieces[-1][0] == 1  # the policy begins and ends
        for (_, said), (_, told) in zip(pieces[::2], pieces[1::2], strict=False):
            query = protocol.find_query(_text(tokenizer, said))
            kinds["search" if query is not None else "retry"] += 1
            text = _answer(str(settings["retriever"]), query)
            assert told == tokenizer.encode(text, add_special_tokens=False)
        last = _text(tokenizer, pieces[-1][1])
        answered = protocol.SEARCHING.find_answer(last) is not None
        assert answered or len(pieces) == 2 * int(str(settings["searches"])) + 1
        assert (sum(rollout["rm_scores"]) > 0) <= answered
    assert kinds["search"]
    assert kinds["retry"]
    heard = _read(tmp_path / "told.jsonl")
    assert Counter(one["reward"] for one in heard) == Counter(
        sum(rollout["rm_scores"]) for rollout in rollouts
    )
    assert sum(one["calls"] for one in heard) == kinds.total()
    first = AutoModelForCausalLM.from_pretrained(str(settings["model"])).state_dict()
    policy = AutoModelForCausalLM.from_pretrained(tmp_path / "policy").state_dict()
    changed = {
        name for name, weight in policy.items() if not weight.equal(first[name].to(weight.dtype))
    }
    assert any("q_proj" in one for one in changed)
    assert adapters == (not any("embed_tokens" in one for one in changed))


def _train(recipe: Path, folder: Path, *overrides: str) -> None:
    """Trains in a process of its own, again where Ray did not start on a busy machine."""
    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as ray:
            done = subprocess.run(
                [sys.executable, str(TRAIN), str(recipe), str(folder), *overrides],
                env={**os.environ, "RAY_TMPDIR": ray, "HF_HUB_OFFLINE": "1"},
                capture_output=True,
                text=True,
                timeout=1700,
                check=False,
            )
        if "node timed out during startup" not in done.stderr:
            break
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def _pieces(
    rollout: dict[str, Any], tokenizer: PreTrainedTokenizerFast
) -> list[tuple[int, list[int]]]:
    """Runs of tokens that are trained on (1) and that are not (0), in turn."""
    pairs = zip(rollout["response_mask"], rollout["responses"], strict=True)
    return [
        (mine, [token for _, token in run])
        for mine, run in groupby(pairs, key=lambda pair: pair[0])
    ]


def _text(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True))


def _answer(retriever: str, query: str | None) -> str:
    """What the policy is to be told after an action."""
    if query is None:
        return f"\n\nError: {protocol.RETRYING.retry}\n\n"
    asked: dict[str, Any] = {"queries": [query], "topk": 1, "return_scores": True}
    found = requests.post(f"{retriever}/retrieve", json=asked, timeout=60).json()["result"]
    passages = [one["document"]["contents"] for one in found[0]]
    return f"{protocol.SEARCHING.opening}{protocol.listed(passages)}{protocol.SEARCHING.closing}"


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
