from __future__ import annotations

import subprocess
import sys

from evoprompt.plugins import plugins


def test_the_commands_are_found() -> None:
    assert "retriever" in [app.info.name for app in plugins().commands()]


def test_finding_the_commands_loads_no_library_of_a_server_or_an_index() -> None:
    slow = "('bm25s', 'faiss', 'httpx', 'pyarrow', 'starlette', 'torch', 'transformers', 'uvicorn')"
    code = (
        "import sys, evoprompt_retrieval.plugin as p; p.evoprompt_commands(); "
        f"print([m for m in {slow} if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_searching_by_words_needs_neither_the_encoder_nor_faiss() -> None:
    code = (
        "import sys, evoprompt_retrieval.backends, evoprompt_retrieval.server, "
        "evoprompt_retrieval.client, evoprompt_retrieval.plan; "
        "print({'faiss', 'sentence_transformers', 'torch'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
