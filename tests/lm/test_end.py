"""A process that ends in the middle of a call ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
from provider import openai

from evoprompt.testing.openai_server import Text

SCRIPT = """
import sys, time
from evoprompt.plugins import build
from evoprompt.testing.samples import request
proposer = build("proposer", {"name": "reflection", "lm": "openai/gpt-5-mini"})
proposer.anticipate(request())
time.sleep(float(sys.argv[1]))
print("the end")
"""


@pytest.mark.nightly
@pytest.mark.lm
@pytest.mark.parametrize("seconds", ["0.05", "0.5"])
def test_a_background_call_under_way_does_not_hang_the_end_of_a_process(seconds: str) -> None:
    """The libraries import in the middle of a call; a thread killed there used to hang for ever."""
    with openai(Text("late", seconds=60)):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, seconds],
            capture_output=True,
            text=True,
            timeout=1500,  # the import alone takes minutes on a busy machine
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the end\n"
