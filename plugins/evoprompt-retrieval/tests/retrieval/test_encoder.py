from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from evoprompt_retrieval.encoder import Encoder
from evoprompt_retrieval.index import Dtype
from transformers import AutoModel, AutoTokenizer

from evoprompt.errors import InputError

DTYPES: tuple[Dtype, Dtype] = ("float32", "bfloat16")


@pytest.fixture(scope="module")
def e5(encoder_name: str, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The small encoder as a bare transformer whose name says that it is of the E5 family."""
    folder = tmp_path_factory.mktemp("models") / "e5-small-v2"
    folder.mkdir()
    for file in Path(encoder_name).iterdir():
        if file.name in ("config.json", "model.safetensors") or "token" in file.name:
            (folder / file.name).symlink_to(file)
    return Encoder(str(folder))


def pooled(folder: str, texts: list[str]) -> np.ndarray:
    """Mean of the last hidden states over real tokens, normalised: E5's own recipe."""
    tokens = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(folder)(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    means = (hidden * mask).sum(1) / mask.sum(1)
    found: np.ndarray = torch.nn.functional.normalize(means, dim=1).numpy()
    return found


def test_the_e5_family_gets_its_prefixes_mean_pooling_and_unit_length(
    e5: Encoder, encoder_name: str
) -> None:
    texts = ["who built Ulm Minster", "Ulm Minster is a church, and a rather tall one at that."]
    queries, passages = e5.encode_queries(texts), e5.encode_passages(texts)
    assert queries.shape == (2, e5.dimension)
    assert queries.dtype == np.float32
    for vectors, prefix in ((queries, "query: "), (passages, "passage: ")):
        expected = pooled(encoder_name, [prefix + text for text in texts])
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_other_models_get_no_prefix(encoder_name: str) -> None:
    encoder = Encoder(encoder_name)
    texts = ["the Danube"]
    np.testing.assert_array_equal(encoder.encode_queries(texts), encoder.encode_passages(texts))


def test_half_precision_gives_nearly_the_same_unit_vectors(encoder_name: str) -> None:
    texts = ["who built Ulm Minster", "the Danube"]
    exact, half = (Encoder(encoder_name, dtype=d).encode_passages(texts) for d in DTYPES)
    assert half.dtype == np.float32
    assert 1e-6 < np.abs(exact - half).max() < 0.02
    np.testing.assert_allclose(np.linalg.norm(half, axis=1), 1, atol=1e-2)


def test_an_unknown_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="check --encoder"):
        Encoder(str(tmp_path / "none"))


def test_a_missing_gpu_is_an_error(encoder_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr("evoprompt_retrieval.encoder.SentenceTransformer", refuse)
    with pytest.raises(InputError, match=r"cannot be put on cuda .*; use --device cpu"):
        Encoder(encoder_name, "cuda")
