"""Turns queries and passages into unit vectors with a sentence-transformers model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from sentence_transformers import SentenceTransformer

from evoprompt.errors import InputError
from evoprompt_retrieval.index import Dtype

_E5_PROMPTS = {"query": "query: ", "document": "passage: "}


class Encoder:
    """A model that maps a query near the passages that answer it.

    Models of the E5 family get their two prefixes; others what their own configuration says. A
    bare transformer without pooling layer is pooled by the mean of its last hidden states.

    Args:
        name: of a model on the Hugging Face hub, or its folder.
        device: where it runs.
        dtype: of its weights.
        batch: texts encoded at a time.

    Attributes:
        dimension: numbers per vector.
    """

    def __init__(
        self,
        name: str,
        device: Literal["cpu", "cuda"] = "cpu",
        dtype: Dtype = "float32",
        batch: int = 64,
    ) -> None:
        prompts = _E5_PROMPTS if "e5" in Path(name).name.lower().split("-") else None
        try:
            self._model = SentenceTransformer(
                name, device=device, prompts=prompts, model_kwargs={"dtype": dtype}
            )
        except (OSError, ValueError) as error:
            raise InputError(
                f"the encoder {name!r} cannot be loaded ({error}); required: a model of the "
                "Hugging Face hub that was downloaded or can be, or a folder; check --encoder"
            ) from error
        except (AssertionError, RuntimeError) as error:
            raise InputError(
                f"the encoder {name!r} cannot be put on {device} ({error}); use --device cpu"
            ) from error
        self._batch = batch
        self.name = name
        self.dimension: int = self.encode_queries(["?"]).shape[1]

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """Unit vectors ``(Q, D)``, 32-bit."""
        return self._encode(self._model.encode_query, queries)

    def encode_passages(self, passages: Sequence[str]) -> np.ndarray:
        """Unit vectors ``(P, D)``, 32-bit."""
        return self._encode(self._model.encode_document, passages)

    def _encode(self, encode: Callable[..., object], texts: Sequence[str]) -> np.ndarray:
        vectors = encode(
            list(texts),
            batch_size=self._batch,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return np.ascontiguousarray(vectors, np.float32)
