"""Trains before SkyRL's server: ``tinker_service.py FOLDER PYTHON``, a Python that has ``skyrl``.

The cookbook trains a model of random weights for four steps with an engine attached, and another
process goes on to the sixth. Between the two stands ``skyrl_bridge.py``.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "contracts"))

import torch
from contract_runs import EVOLVING, Job
from tinker_cookbook.rl import train
from tinker_host import CapitalsBuilder, Observer, config, lines, note_tells, tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

import evoprompt
from evoprompt.log.eventlog import EventLog

SERVER, BRIDGE = 8123, 8124
TRANSLATOR = Path(__file__).parents[2] / "tests/integration/tinker/skyrl_bridge.py"
os.environ |= {"TINKER_API_KEY": "tml-dummy", "HF_HUB_OFFLINE": "1"}


@contextmanager
def running(*command: str, port: int, ready: str, folder: Path) -> Iterator[None]:
    """Runs a server until the block is left; starts when ``ready`` is answered."""
    with (folder / f"{port}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            while not _answers(f"http://127.0.0.1:{port}{ready}"):
                if process.poll() is not None:
                    sys.exit((folder / f"{port}.log").read_text())
                time.sleep(1)
            yield
        finally:
            process.terminate()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as found:
            return bool(found.status == 200)
    except OSError:
        return False


def continue_to(steps: int, folder: Path) -> None:
    """Trains to ``steps``, from the last checkpoint where there is one."""
    observer = Observer(Job(engine=EVOLVING))
    model = str(folder / "model")
    engine = EVOLVING.build(EventLog(folder / "events.jsonl"))
    told = note_tells(engine)
    given = config(
        folder,
        Job(engine=EVOLVING, steps=steps, save_every=2),
        observer,
        base_url=f"http://127.0.0.1:{BRIDGE}",
        model_name=model,
        lora_rank=4,
        dataset_builder=CapitalsBuilder(model=model, observer=observer, evaluates=False),
    )
    evoprompt.attach(given, engine)
    train.fetch_model_pricing = lambda name: None  # it asks the network
    asyncio.run(train.main(given))
    assert engine.step == steps
    assert {len(step) for step in told} == {8}
    assert all(one.reward is not None for step in told for one in step)
    print(f"step {engine.step}: {engine.metrics()}")


def main(folder: Path, python: str) -> None:
    """Makes the model, serves it and trains, in two processes of this program."""
    model = folder / "model"
    words = json.loads((Path(tokenizer(model)) / "tokenizer.json").read_text())["model"]["vocab"]
    torch.manual_seed(0)
    small = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        eos_token_id=1,
        pad_token_id=0,
    )
    LlamaForCausalLM(small).save_pretrained(model)  # type: ignore[no-untyped-call]
    uv = str(Path(python).with_name("uv"))
    os.environ["VIRTUAL_ENV"] = str(Path(python).parents[1])
    api = ("-m", "skyrl.tinker.api", "--base-model", str(model), "--backend", "jax")
    serve = (uv, "run", "--no-project", "--active", *api, "--host", "127.0.0.1", "--port")
    translate = (sys.executable, str(TRANSLATOR))
    with running(*serve, str(SERVER), port=SERVER, ready="/api/v1/healthz", folder=folder):
        address = f"http://127.0.0.1:{SERVER}"
        with running(
            *translate, address, str(BRIDGE), port=BRIDGE, ready="/api/v1/healthz", folder=folder
        ):
            for steps in ("4", "6"):
                subprocess.run([sys.executable, __file__, str(folder), steps], check=True)
    records = [line["batch"] for line in lines(folder / "log" / "checkpoints.jsonl")]
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    generations = [event for event in events if event["event"] == "verified"]
    assert {4, 6} <= set(records), records
    assert generations, "no generation was verified"
    print(f"checkpoints of {records}, {len(generations)} generations")


if __name__ == "__main__":
    if sys.argv[2].isdigit():
        continue_to(int(sys.argv[2]), Path(sys.argv[1]))
    else:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]).resolve(), str(Path(sys.argv[2]).absolute()))
