"""What an index will need, told before it is built."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from evoprompt.tasks import Need, Plan
from evoprompt_search_qa import needs
from evoprompt_search_qa.needs import GIB
from evoprompt_search_qa.retrieval.corpus import fingerprint
from evoprompt_search_qa.retrieval.index import Backend, DenseSettings
from evoprompt_search_qa.retrieval.manifest import CorpusManifest

_SAMPLED = 1000
_WIDTHS = {"small": 384, "MiniLM": 384, "base": 768, "large": 1024}
_BM25_SHARE = 0.8
"""Size of a BM25 index to that of its corpus as JSON lines, as measured on real passages."""


def plan_index(corpus: Path, index: Path, backend: Backend, dense: DenseSettings) -> Plan:
    """The figures and needs of an index of ``corpus`` in the folder ``index``."""
    there, passages = _corpus(corpus)
    found = [there, needs.package("bm25s", 'pip install "evoprompt-search-qa[search]"')]
    figures = [("index", f"{backend} in {index}")]
    if passages:
        size = corpus.stat().st_size
        gib = _gib(passages, size, backend, dense)
        figures += [
            ("passages", f"about {passages:,} in {size / GIB:.2f} GiB"),
            ("size", f"about {gib:.2f} GiB, mapped: memory holds what is in use"),
        ]
        found += [needs.disk(index, gib), *_other_index(corpus, index)]
    if backend != "bm25":
        install = 'pip install "evoprompt-search-qa[retrieval]", or [gpu] for FAISS on a GPU'
        found.append(needs.package("faiss", install))
        found.append(needs.model(dense.encoder))
        figures.append(("encoder", f"{dense.encoder}, {_width(dense.encoder)} numbers a passage"))
    if dense.device == "cuda":
        found.append(needs.gpus(1, None))
    return Plan(figures, found)


def _corpus(path: Path) -> tuple[Need, int]:
    """The corpus, and about how many passages it holds."""
    remedy = "download it, see docs/search-qa.md"
    if not path.is_file():
        return Need("corpus", f"{path} does not exist", remedy), 0
    try:
        count = _count(path)
    except (OSError, EOFError, ValueError, zlib.error) as error:  # pyarrow's errors are among them
        return Need("corpus", f"{path} cannot be read ({error})", remedy), 0
    if not count:
        return Need("corpus", f"{path} is empty", remedy), 0
    return Need("corpus", f"{path} is here"), count


def _other_index(corpus: Path, index: Path) -> Iterator[Need]:
    """What has to go where the folder holds the index of another corpus."""
    manifest = CorpusManifest.load(index)
    if manifest is not None and manifest.fingerprint != fingerprint(corpus):
        text = f"{index} holds the index of another corpus, {manifest.source}"
        yield Need("index", text, "name another folder with --index, or delete this one")


def _count(path: Path) -> int:
    """About how many passages the file holds, from the length of the first lines."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        rows: int = pyarrow.parquet.ParquetFile(path).metadata.num_rows
        return rows
    packed = path.suffix == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        lines = list(islice(file, _SAMPLED))
    if len(lines) < _SAMPLED:
        return len(lines)
    length = sum(map(len, lines)) / len(lines)
    if packed:
        length /= 3  # what gzip makes of English text
    return round(path.stat().st_size / length)


def _gib(passages: int, size: int, backend: Backend, dense: DenseSettings) -> float:
    words = _BM25_SHARE * size if backend != "dense" else 0.0
    vectors = passages * _width(dense.encoder) * 4 if backend != "bm25" else 0
    return (words + vectors) / GIB


def _width(encoder: str) -> int:
    """Numbers a vector has: from the encoder's files, else from its name, else 768."""
    folder = needs.model_folder(encoder)
    if folder is not None:
        from transformers import AutoConfig

        width: int = AutoConfig.from_pretrained(folder).hidden_size
        return width
    return next((width for name, width in _WIDTHS.items() if name in encoder), 768)
