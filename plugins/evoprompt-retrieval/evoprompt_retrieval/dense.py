"""Search by meaning: passages with vectors near the query's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from evoprompt.support.errors import InputError
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.disk_space import Manifest
from evoprompt_retrieval.hub import require_hub
from evoprompt_retrieval.index import Device, Dtype, Hit, IndexSettings, OnProgress
from evoprompt_retrieval.vectors import VectorFile, read_mapped

_BLOCK, _ADDED = 1024, 65_536
_SCORED = 262_144  # rows: with 256 queries 268 MB of scores on a GPU at a time
_COMPARED, _MIN_COSINE = 16, 0.98
_E5_PROMPTS = {"query": "query: ", "document": "passage: "}
_TRAINING_ROWS_PER_LIST = 64
_REFINE = ",RFlat"

_SEARCHED_LISTS = 3 / 8
"""Share that keeps 97 % of the nearest passages with 128 lists, more with finer ones (measured)."""

_REFINED_PER_RESULT = 16


class Encoder:
    """Encoder of queries and passages into unit vectors, by a sentence-transformers model.

    Models of the E5 family get their two prefixes; other models those of their own configuration. A
    bare transformer without pooling layer is pooled by the mean of its last hidden states.

    Args:
        name: of a model on the Hugging Face hub, or its folder.
        device: of the model.
        dtype: of its weights.

    Attributes:
        dimension: numbers per vector.
    """

    def __init__(self, name: str, device: Device = "cpu", dtype: Dtype = "float32") -> None:
        prompts = _E5_PROMPTS if "e5" in Path(name).name.lower().split("-") else None
        load = partial(
            SentenceTransformer,
            name,
            device=device,
            prompts=prompts,
            model_kwargs={"dtype": dtype},
        )
        try:
            try:  # without a network the hub's library would try each file for 25 s
                self._model = load(local_files_only=True)
            except (OSError, ValueError):
                require_hub(name)
                self._model = load()
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(
                f"the encoder {name!r} cannot be loaded ({error}); required: a model of the "
                "Hugging Face hub that was downloaded or can be, or a folder; check --encoder"
            ) from error
        except (AssertionError, RuntimeError) as error:
            raise InputError(
                f"the encoder {name!r} cannot be put on {device} ({error}); use --device cpu"
            ) from error
        self.dimension: int = self.encode_queries(["?"]).shape[1]

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """Return unit vectors ``(Q, D)``, 32-bit."""
        return self._encode(self._model.encode_query, queries)

    def encode_passages(self, passages: Sequence[str]) -> np.ndarray:
        """Return unit vectors ``(P, D)``, 32-bit."""
        return self._encode(self._model.encode_document, passages)

    def _encode(self, encode: Callable[..., object], texts: Sequence[str]) -> np.ndarray:
        vectors = encode(
            list(texts), batch_size=64, normalize_embeddings=True, show_progress_bar=False
        )
        return np.ascontiguousarray(vectors, np.float32)


class DenseIndex:
    """Index of passages by the inner product of unit vectors.

    Args:
        encoder: of the queries.
        index: of the passages.

    Attributes:
        faiss: the index of the passages.
    """

    def __init__(self, encoder: Encoder, index: faiss.Index | HalfIndex) -> None:
        self._encoder = encoder
        self.faiss = index

    @classmethod
    def open(cls, corpus: Corpus, settings: IndexSettings, on_progress: OnProgress) -> DenseIndex:
        """Return the index of ``corpus``; build it first if it is missing.

        An interrupted build continues. Several kinds of FAISS index share one directory and one set
        of vectors.

        Raises:
            InputError: the folder belongs to another corpus or encoder, or a setting is wrong.
        """
        path = settings.folder / "dense" / "dense.json"
        expected = corpus.manifest.model_copy(update={"settings": {"encoder": settings.encoder}})
        manifest = Manifest.load(path)
        if manifest is not None:
            manifest.require(expected, path)
        encoder = Encoder(settings.encoder, settings.device, settings.dtype)
        if manifest is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            expected.save(path)  # first, as a later process continues the vectors
        vectors = VectorFile(path.with_name("vectors.faiss"), len(corpus), encoder.dimension)
        if settings.vectors is not None:
            vectors.link_index(settings.vectors)
            _require_same(encoder, corpus, vectors)
        for block in corpus.blocks(_BLOCK, start=vectors.done):
            vectors.append(encoder.encode_passages([passage.contents for passage in block]))
            on_progress("encoding passages", vectors.done, vectors.rows)
        return cls(encoder, _open_faiss(vectors, settings, on_progress))

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Return the best ``topk`` hits of every query, best first; none for an empty query."""
        positions = [position for position, query in enumerate(queries) if query.strip()]
        answers: list[list[Hit]] = [[] for _ in queries]
        if positions:
            vectors = self._encoder.encode_queries([queries[position] for position in positions])
            scores, rows = self.faiss.search(vectors, min(topk, self.faiss.ntotal))
            for position, row_scores, row_rows in zip(positions, scores, rows, strict=True):
                answers[position] = [
                    Hit(int(row), float(score))
                    for row, score in zip(row_rows, row_scores, strict=True)
                    if row >= 0
                ]
        return answers


class HalfIndex:
    """Exact index by inner products in half precision, with an equal share of rows on each GPU.

    Search-R1 serves its index like this. Without a GPU, a query takes about a second of a core for
    every million vectors.

    Args:
        vectors: all of them, ``(rows, D)``.
        device: all GPUs, or the CPU.

    Attributes:
        ntotal: number of rows.
    """

    def __init__(self, vectors: np.ndarray, device: Device) -> None:
        gpus = range(torch.cuda.device_count()) if device == "cuda" else ()
        torch_devices = [torch.device("cuda", number) for number in gpus] or [torch.device("cpu")]
        self.ntotal = len(vectors)
        bounds = np.linspace(0, self.ntotal, len(torch_devices) + 1, dtype=int)
        self._shares = [
            (int(start), _to_half(vectors[start:stop], torch_device))
            for start, stop, torch_device in zip(
                bounds[:-1], bounds[1:], torch_devices, strict=True
            )
        ]

    def search(self, queries: np.ndarray, topk: int) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and rows of the best for each query, best first, as FAISS returns them."""
        parts = []
        for first, share in self._shares:  # the GPUs work at the same time: nothing is read yet
            block_queries = torch.from_numpy(queries).to(share.device, share.dtype)
            for start in range(0, len(share), _SCORED):
                scores = (block_queries @ share[start : start + _SCORED].T).float()
                best, rows = scores.topk(min(topk, scores.shape[1]))
                parts.append((best, rows + first + start))
        scores = torch.cat([best.cpu() for best, _ in parts], dim=1)
        rows = torch.cat([row.cpu() for _, row in parts], dim=1)
        best, order = scores.topk(topk)
        return best.numpy(), rows.gather(1, order).numpy()


def _to_half(vectors: np.ndarray, torch_device: torch.device) -> torch.Tensor:
    """Return the vectors in half precision on a device, without a second copy in memory."""
    halves = torch.empty(vectors.shape, dtype=torch.float16, device=torch_device)
    for start in range(0, len(vectors), _ADDED):
        block = torch.from_numpy(np.array(vectors[start : start + _ADDED]))
        halves[start : start + len(block)] = block.to(torch_device)
    return halves


def _require_same(encoder: Encoder, corpus: Corpus, vectors: VectorFile) -> None:
    """Raise InputError unless a sample of the vectors agrees with the encoder's vectors."""
    rows = np.unique(np.linspace(0, len(corpus) - 1, _COMPARED, dtype=int))
    encoded = encoder.encode_passages([corpus[int(row)].contents for row in rows])
    cosines = (encoded * vectors.array()[rows]).sum(axis=1)
    if cosines.min() < _MIN_COSINE:
        row = int(rows[cosines.argmin()])
        vectors.path.unlink()
        raise InputError(
            f"row {row:,} of --vectors is not what the encoder makes of passage {row:,} (cosine "
            f"{cosines.min():.3f}); required: the same passages in the same order, and the same "
            "encoder; check --corpus and --encoder"
        )


def _open_faiss(
    vectors: VectorFile, settings: IndexSettings, on_progress: OnProgress
) -> faiss.Index | HalfIndex:
    """Return the FAISS index of ``settings``, with parameters for good rather than fast search.

    By default an inverted file searches three of eight lists, and a second stage ranks 16 times the
    requested hits. Exact vectors stay in the vector file; an inverted file reads them there.
    """
    kind = settings.faiss
    if kind == "Half":
        if settings.faiss_search:
            raise InputError(
                f"--faiss-search is {settings.faiss_search!r} with --faiss Half; required: none, "
                "as it is exact; drop it"
            )
        return HalfIndex(vectors.array(), settings.device)
    index = read_mapped(vectors.path, vectors.rows, vectors.dimension)
    if kind != "Flat":
        name = re.sub(r"\W+", "_", kind)
        path = vectors.path.with_name(f"kind-{name}.faiss")
        if not path.exists():
            _build_inverted(kind, vectors, path, on_progress)
        inverted = read_mapped(path, vectors.rows, vectors.dimension)
        lists = faiss.extract_index_ivf(inverted)
        lists.nprobe = max(8, round(lists.nlist * _SEARCHED_LISTS))
        if kind.endswith(_REFINE):
            index = faiss.IndexRefine(inverted, index)
            index.k_factor = _REFINED_PER_RESULT
        else:
            index = inverted
    if settings.faiss_search:
        try:
            faiss.ParameterSpace().set_index_parameters(index, settings.faiss_search)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise InputError(
                f"--faiss-search is {settings.faiss_search!r}, which FAISS refuses for "
                f"{kind!r} ({error}); required: such as 'nprobe=64'"
            ) from error
    return index


def _build_inverted(kind: str, vectors: VectorFile, path: Path, on_progress: OnProgress) -> None:
    if not re.fullmatch(r"IVF\d+,[^,]+(,RFlat)?", kind):
        raise InputError(
            f"--faiss is {kind!r}; required: 'Flat', 'Half', or an inverted file such as "
            "'IVF512,PQ96x4fs,RFlat'"
        )
    array = vectors.array()
    try:
        index = faiss.index_factory(
            vectors.dimension, kind.removesuffix(_REFINE), faiss.METRIC_INNER_PRODUCT
        )
        on_progress("training the FAISS index", 0, vectors.rows)
        lists = faiss.extract_index_ivf(index).nlist
        count = min(vectors.rows, max(_ADDED, _TRAINING_ROWS_PER_LIST * lists))
        rows = np.random.default_rng(0).choice(vectors.rows, count, replace=False)
        index.train(np.ascontiguousarray(array[np.sort(rows)]))
        for start in range(0, vectors.rows, _ADDED):
            index.add(np.ascontiguousarray(array[start : start + _ADDED]))
            on_progress("adding to the FAISS index", index.ntotal, vectors.rows)
    except RuntimeError as error:
        raise InputError(
            f"--faiss is {kind!r}, which FAISS cannot build over {vectors.rows:,} vectors of "
            f"{vectors.dimension} numbers ({str(error).rsplit(': ', 1)[-1]}); required: no more "
            "lists than passages and sub-vectors that divide the dimension"
        ) from error
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:  # FAISS's own writer says nothing if closing fails
            writer = faiss.PyCallbackIOWriter(file.write)  # type: ignore[attr-defined]
            faiss.write_index(index, writer)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
