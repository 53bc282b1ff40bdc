"""Plans of an index and of a client, before anything is built or sent."""

from __future__ import annotations

import gzip
import zlib
from itertools import islice
from pathlib import Path

import httpx

from evoprompt.agents.tasks import Need, Plan
from evoprompt.experiments import requirements
from evoprompt.experiments.requirements import GIB
from evoprompt_retrieval.corpus import MANIFEST, fingerprint
from evoprompt_retrieval.disk_space import Manifest
from evoprompt_retrieval.index import IndexSettings

_SAMPLED = 1000
_UNPACKED = 3
"""Size of English text to that of its gzip file."""

_BM25_SHARE = 0.8
"""Size of a BM25 index to that of its corpus as JSON lines, as measured on real passages."""

_NUMBERS = 768
"""Numbers in a vector, if the encoder's files are not on this machine."""


def plan_index(settings: IndexSettings) -> Plan:
    """Return the figures and needs of an index.

    Raises:
        InputError: its folder is damaged.
    """
    corpus, folder = settings.corpus, settings.folder
    figures, needs = [("index", f"{settings.backend} in {folder}")], []
    try:
        passages, text = _count(corpus)
        needs.append(Need("corpus", f"{corpus} is here"))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        passages = text = 0
        remedy = "download it, or check --corpus"
        needs.append(Need("corpus", f"{corpus} cannot be read ({error})", remedy))
    if passages:
        size = text * (corpus.suffix == ".gz") + text * _BM25_SHARE * (settings.backend != "dense")
        size += passages * _numbers(settings.encoder) * 4 * (settings.backend != "bm25")
        figures.append(("passages", f"about {passages:,}, {text / GIB:.2f} GiB of text"))
        figures.append(("size", f"about {size / GIB:.2f} GiB, mapped: memory holds what is in use"))
        needs.append(requirements.disk(folder, size / GIB, "--index"))
        manifest = Manifest.load(folder / MANIFEST)
        if manifest is not None and manifest.fingerprint != fingerprint(corpus):
            problem = f"{folder} holds the index of another corpus, {manifest.source}"
            needs.append(Need("index", problem, "name another folder with --index, or delete it"))
    if settings.backend != "bm25":
        install = 'pip install -e "plugins/evoprompt-retrieval[dense]"'
        needs += [
            requirements.package(library, install) for library in ("faiss", "sentence_transformers")
        ]
        needs.append(requirements.model(settings.encoder))
    if settings.device == "cuda":
        needs.append(requirements.gpus(1, None))
    return Plan(figures, needs)


def search_server(url: str) -> Need:
    """Return the need of a search server that responds, with its index."""
    remedy = "evoprompt retriever serve --corpus FILE --index DIR, or give another address"
    address = url.removesuffix("/retrieve").rstrip("/")
    body = {"queries": ["test"], "topk": 1, "return_scores": True}
    try:
        answer = httpx.post(f"{address}/retrieve", json=body, timeout=10.0).raise_for_status()
        if not answer.json()["result"]:
            raise ValueError("no results")
        health = httpx.get(f"{address}/health", timeout=10.0)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Need("search server", f"{url}: {error or type(error).__name__}", remedy)
    except (ValueError, KeyError, TypeError):
        return Need("search server", f"{url} answers garbage", remedy)
    # Other servers may have no such page.
    served = f" from {health.text[:200]}" if health.is_success else ""
    return Need("search server", f"{url} answers{served}")


def _count(path: Path) -> tuple[int, int]:
    """Return the approximate number of passages in a file, and their bytes, by its first lines."""
    packed = path.suffix == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        lines = list(islice(file, _SAMPLED))
    text = sum(map(len, lines))
    if not text:
        raise ValueError("it is empty")
    if len(lines) < _SAMPLED:
        return len(lines), text
    size = path.stat().st_size * (_UNPACKED if packed else 1)
    return round(size * len(lines) / text), size


def _numbers(encoder: str) -> int:
    folder = requirements.model_folder(encoder)
    if folder is None:
        return _NUMBERS
    from transformers import AutoConfig

    width: int = AutoConfig.from_pretrained(folder).hidden_size
    return width
