"""``python -m evoprompt_tiny FOLDER``: an untrained policy, for smoke runs of any task."""

from __future__ import annotations

import argparse
from pathlib import Path

from evoprompt_tiny.pretrain import Pretraining, build_policy, save
from evoprompt_tiny.vocabulary import build_tokenizer

_CONTEXT_TOKENS = 8192  # a token for each byte of a prompt


def main() -> None:
    """Write the folder that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m evoprompt_tiny",
        description="Write an untrained policy of some 200,000 weights, which reads bytes and "
        "answers with chance: a CPU trains it within seconds, so a smoke run shows that a task "
        "and a trainer work together.",
    )
    parser.add_argument("folder", type=Path, help="folder to write")
    folder = parser.parse_args().folder
    settings, tokenizer = Pretraining(), build_tokenizer([], context=_CONTEXT_TOKENS)
    save(folder, settings, build_policy(settings, tokenizer), tokenizer, [])
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
