"""``python -m evoprompt``, for launchers that start modules, such as ``accelerate launch -m``."""

from __future__ import annotations

from evoprompt.experiments.cli import main

main()
