"""What an index will need, told before it is built; and the same of the questions' preparation."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

from evoprompt.tasks import Need, Plan
from evoprompt_search_qa import needs
from evoprompt_search_qa.needs import GIB
from evoprompt_search_qa.retrieval.index import Backend, DenseSettings

_SAMPLED = 1000
_WIDTHS = {"small": 384, "MiniLM": 384, "base": 768, "large": 1024}
_BM25_SHARE = 0.8
"""Size of a BM25 index to that of its corpus as JSON lines, as measured on real passages."""


def plan_index(corpus: Path, index: Path, backend: Backend, dense: DenseSettings) -> Plan:
    """The figures and needs of an index of ``corpus`` in the folder ``index``."""
    found = [_corpus(corpus), needs.package("bm25s", 'pip install "evoprompt-search-qa[search]"')]
    figures = [("index", f"{backend} in {index}")]
    if corpus.is_file():
        passages, size = _count(corpus), corpus.stat().st_size
        gib = _gib(passages, size, backend, dense)
        figures += [
            ("passages", f"about {passages:,} in {size / GIB:.2f} GiB"),
            ("size", f"about {gib:.2f} GiB, mapped: memory holds what is in use"),
        ]
        found.append(needs.disk(index, gib))
    if backend != "bm25":
        install = 'pip install "evoprompt-search-qa[retrieval]", or [gpu] for FAISS on a GPU'
        found.append(needs.package("faiss", install))
        found.append(needs.model(dense.encoder))
        figures.append(("encoder", f"{dense.encoder}, {_width(dense.encoder)} numbers a passage"))
    if dense.device == "cuda":
        found.append(needs.gpus(1, None))
    return Plan(figures, found)


def plan_questions(source: str, output: Path) -> Plan:
    """What ``data prepare`` would read and write."""
    folder = Path(source)
    if folder.is_dir():
        there = Need("questions", f"the folder {folder} with {len(list(folder.iterdir()))} files")
    else:
        there = Need("questions", f"{source}, fetched from the Hugging Face hub")
    figures = [("files", ", ".join(f"{output / name}.parquet" for name in _PARTS))]
    return Plan(figures, [there, needs.disk(output, 1.0)])


_PARTS = ("train", "validation", "test")


def _corpus(path: Path) -> Need:
    if path.is_file():
        return Need("corpus", f"{path} is here")
    return Need("corpus", f"{path} does not exist", "download it, see docs/search-qa.md")


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
