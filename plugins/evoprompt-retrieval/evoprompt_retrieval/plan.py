"""What an index will need, told before it is built."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from evoprompt.agents.tasks import Need, Plan
from evoprompt.experiments import requirements
from evoprompt.experiments.requirements import GIB
from evoprompt_retrieval.corpus import COPIED, fingerprint
from evoprompt_retrieval.index import Backend, DenseSettings
from evoprompt_retrieval.manifest import CorpusManifest

_SAMPLED = 1000
_LAYERS = {"L6": 6, "large": 24}
_WIDTHS = {"small": 384, "MiniLM": 384, "base": 768, "large": 1024}
_UNPACKED = 3
"""Size of English text to that of its gzip file."""

_BM25_SHARE = 0.8
"""Size of a BM25 index to that of its corpus as JSON lines, as measured on real passages."""

_BM25_BUILDING_SHARE = 0.7
"""The same of what it takes besides while it is built."""

_TOKEN_BYTES = 4.3
"""Of English text."""

_H100 = {"float32": 67e12 * 0.8, "float16": 990e12 * 0.3, "bfloat16": 990e12 * 0.3}
"""Operations a second: 80 % of the peak, and 30 % where tensor cores have to be fed."""


def plan_index(corpus: Path, index: Path, backend: Backend, dense: DenseSettings) -> Plan:
    """The figures and needs of an index of ``corpus`` in the folder ``index``.

    Raises:
        InputError: ``index`` is damaged.
    """
    there, passages, text = _corpus(corpus)
    found = [there]
    figures = [("index", f"{backend} in {index}")]
    if passages:
        gib, building = _gib(passages, text, corpus.suffix in COPIED, backend, dense)
        figures += [
            ("passages", f"about {passages:,}, {text / GIB:.2f} GiB of text"),
            ("size", f"about {gib:.2f} GiB, mapped: memory holds what is in use"),
            ("while built", f"about {building:.2f} GiB"),
        ]
        found += [requirements.disk(index, building, "--index"), *_other_index(corpus, index)]
    if backend != "bm25":
        install = 'pip install "evoprompt-retrieval[dense]"'
        found += [
            requirements.package(name, install) for name in ("faiss", "sentence_transformers")
        ]
        found.append(requirements.model(dense.encoder))
        figures.append(("encoder", f"{dense.encoder}, {_width(dense.encoder)} numbers a passage"))
        if passages:
            operations = _encoding(text, dense.encoder)
            hours = operations / _H100[dense.dtype] / 3600
            told = f"{operations:.1e} operations, {hours:.1f} h on an H100 in {dense.dtype}"
            figures.append(("encoding", told))
    if dense.device == "cuda":
        found.append(requirements.gpus(1, None))
    return Plan(figures, found)


def _corpus(path: Path) -> tuple[Need, int, int]:
    """The corpus, and about how many passages and bytes of text it holds."""
    remedy = "download it, or check --corpus"
    if not path.is_file():
        return Need("corpus", f"{path} does not exist", remedy), 0, 0
    try:
        count, text = _count(path)
    except (OSError, EOFError, ValueError, zlib.error) as error:  # pyarrow's errors are among them
        return Need("corpus", f"{path} cannot be read ({error})", remedy), 0, 0
    if not count:
        return Need("corpus", f"{path} is empty", remedy), 0, 0
    return Need("corpus", f"{path} is here"), count, text


def _other_index(corpus: Path, index: Path) -> Iterator[Need]:
    """What has to go where the folder holds the index of another corpus."""
    manifest = CorpusManifest.load(index)
    if manifest is not None and manifest.fingerprint != fingerprint(corpus):
        text = f"{index} holds the index of another corpus, {manifest.source}"
        yield Need("index", text, "name another folder with --index, or delete this one")


def _count(path: Path) -> tuple[int, int]:
    """About how many passages the file holds, and in how many bytes of text.

    That of JSON lines is told from the length of the first ones.
    """
    if path.suffix == ".parquet":
        import pyarrow.parquet

        found = pyarrow.parquet.ParquetFile(path).metadata
        groups = (found.row_group(number) for number in range(found.num_row_groups))
        return found.num_rows, sum(group.total_byte_size for group in groups)
    packed = path.suffix == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        lines = list(islice(file, _SAMPLED))
    text = sum(map(len, lines))
    if len(lines) < _SAMPLED:
        return len(lines), text
    size = path.stat().st_size * (_UNPACKED if packed else 1)
    return round(size * len(lines) / text), size


def _gib(
    passages: int, text: int, copied: bool, backend: Backend, dense: DenseSettings
) -> tuple[float, float]:
    """Of the whole index folder in the end, and at most while it is built.

    A compressed kind of FAISS index adds little to its vectors.
    """
    copy = text if copied else 0
    words = text if backend != "dense" else 0
    vectors = passages * _width(dense.encoder) * 4 if backend != "bm25" else 0
    index = copy + _BM25_SHARE * words
    building = max(index + vectors, index + _BM25_BUILDING_SHARE * words)
    return (index + vectors) / GIB, building / GIB


def _encoding(text: int, encoder: str) -> float:
    """Operations to encode that many bytes: two a weight and token, embeddings left out."""
    width = _width(encoder)
    return 2.0 * (12 * _layers(encoder) * width**2) * text / _TOKEN_BYTES


def _layers(encoder: str) -> int:
    """Layers of the encoder: from its files, else from its name, else 12."""
    folder = requirements.model_folder(encoder)
    if folder is not None:
        from transformers import AutoConfig

        layers: int = AutoConfig.from_pretrained(folder).num_hidden_layers
        return layers
    return next((layers for name, layers in _LAYERS.items() if name in encoder), 12)


def _width(encoder: str) -> int:
    """Numbers a vector has: from the encoder's files, else from its name, else 768."""
    folder = requirements.model_folder(encoder)
    if folder is not None:
        from transformers import AutoConfig

        width: int = AutoConfig.from_pretrained(folder).hidden_size
        return width
    return next((width for name, width in _WIDTHS.items() if name in encoder), 768)
