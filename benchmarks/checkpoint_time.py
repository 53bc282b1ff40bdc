"""What a checkpoint of an engine costs whose replay buffer is full: the first save, and later ones.

python benchmarks/checkpoint_time.py --capacity 100000 --rollouts 5
python benchmarks/checkpoint_time.py --capacity 1024 --row-mb 1    # rows that hold a page
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

from evoprompt import Engine, EngineConfig
from evoprompt.storage import STATE_FILE, saving, write_whole
from evoprompt.types import Question, Trajectory, Turn

QUESTIONS, SAVES = 512, 7
TURN = Turn("I look it up. " * 18, "It says so. " * 22)
"""Half a kilobyte."""


def train(engine: Engine, step: int, rollouts: int, everything: bool, row: int) -> None:
    """One step with questions never asked before; the first rollout of each fails."""
    questions = [
        Question(
            f"q{step}-{n}",
            f"who was number {n}?",
            (f"answer {n}",),
            {"page": f"{n:08d}" * (row // 8)},
        )
        for n in range(QUESTIONS)
    ]
    told = []
    for assignment in engine.ask(questions, rollouts):
        for rollout in range(rollouts):
            turns = (TURN, TURN) if everything or not rollout else ()
            metrics = {"tokens": 200.0, "observations": 3.0, "reward/exact": float(rollout > 0)}
            told.append(Trajectory(assignment, float(rollout > 0), rollout, turns, metrics))
    engine.tell(told)


def save(engine: Engine, folder: Path) -> tuple[float, float]:
    """Seconds of one save, as adapters do it: by the clock, and of this process."""
    clock, cpu = time.perf_counter(), time.process_time()
    with saving(folder, {"engine": engine.state_dict()}):
        pass
    return time.perf_counter() - clock, time.process_time() - cpu


def main() -> None:
    """Fills the buffer, saves, and saves again after each further step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacity", type=int, default=100_000)
    parser.add_argument("--rollouts", type=int, default=5, help="of each question")
    parser.add_argument(
        "--everything", action="store_true", help="every trajectory has text, not failures alone"
    )
    parser.add_argument("--row-mb", type=float, default=0.0003, help="size of a dataset row")
    given = parser.parse_args()
    row = int(given.row_mb * 1e6)
    engine = Engine(
        [f"look it up {n} times" for n in range(20)],
        config=EngineConfig(replay_capacity=given.capacity, prune_every=10**6, population_size=20),
        seed=1,
    )
    step = 0
    while len(engine.replay) < given.capacity:
        step += 1
        train(engine, step, given.rollouts, given.everything, row)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clock, cpu = save(engine, folder)
        print(f"first save: {clock:.2f} s, {cpu:.2f} s of CPU", flush=True)
        times = []
        for further in range(SAVES):
            train(engine, step + 1 + further, given.rollouts, given.everything, row)
            times.append(save(engine, folder))
        clock, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"later saves, median of {SAVES}: {clock:.2f} s, {cpu:.2f} s of CPU")
        size = (folder / STATE_FILE).stat().st_size
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(f"peak of memory: {peak:.2f} GB")
        started = time.perf_counter()
        write_whole(folder / "plain.txt", "x" * size)
        print(f"{size / 1e6:.0f} MB; a plain text as large: {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
