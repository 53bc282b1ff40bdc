"""What a full replay buffer with large dataset rows holds, writes and peaks at.

python benchmarks/replay_memory.py --row-mb 1
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from evoprompt.replay import ReplayBuffer
from evoprompt.storage import save_state
from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn

PASSES = 3
CANDIDATE = Candidate("c0", {"instruction": "x" * 6000})


def peak_gb() -> float:
    """Most memory this process has had so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    """Asks and fails the buffer's capacity of questions three times over, and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row-mb", type=float, default=1.0)
    size = int(parser.parse_args().row_mb * 1e6)
    replay = ReplayBuffer()
    for step in range(1, PASSES + 1):
        for number in range(replay.capacity):
            row = {"id": f"q{number}", "page": f"{number:08d}" * (size // 8)}
            asked = replay.known(Question(f"q{number}", "what?", ("a",), row))
            assignment = Assignment(f"a{step}-{number}", asked, CANDIDATE, 1, "g")
            replay.add(step, [Trajectory(assignment, 0.0, turns=(Turn("none"),))])
    print(f"held: {peak_gb():.2f} GB")
    with tempfile.TemporaryDirectory() as folder:
        path, started = Path(folder) / "state.json", time.perf_counter()
        save_state(path, {"replay": replay.state_dict()})
        seconds = time.perf_counter() - started
        print(f"saved: {path.stat().st_size / 1e9:.2f} GB in {seconds:.0f} s")
    print(f"peak: {peak_gb():.2f} GB")


if __name__ == "__main__":
    main()
