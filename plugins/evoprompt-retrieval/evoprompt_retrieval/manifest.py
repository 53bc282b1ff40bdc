"""What an index directory says of itself; written last, so that it vouches for the other files."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from evoprompt.errors import InputError


class Manifest(BaseModel):
    """A small JSON file in an index directory."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    file: ClassVar[str]

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """The manifest in ``directory``, or None if there is none.

        Raises:
            InputError: it cannot be read.
        """
        path = directory / cls.file
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValidationError as error:
            raise InputError(
                f"{path} is damaged or of another version ({error.error_count()} errors, first: "
                f"{error.errors()[0]['msg']}); delete {directory} to build it anew"
            ) from error

    def save(self, directory: Path) -> None:
        """Writes the manifest into ``directory``, whole or not at all."""
        partial = directory / f"{self.file}.partial"
        partial.write_text(self.model_dump_json(indent=2) + "\n")
        partial.replace(directory / self.file)


class CorpusManifest(Manifest):
    """The index of a corpus file.

    Attributes:
        fingerprint: of the source file.
        source: its name.
        passages: number of good records.
        skipped: number of records left out.
        copied: whether the passages were copied because the source cannot be memory-mapped.
    """

    file = "corpus.json"
    fingerprint: str
    source: str
    passages: int
    skipped: int
    copied: bool


class Bm25Manifest(Manifest):
    """A BM25 index.

    Attributes:
        fingerprint: of the corpus file it was built from.
        passages: number of passages indexed.
        k1: saturation of the term frequency.
        b: strength of the length normalisation, in [0, 1].
        title_weight: how often the title counts.
    """

    file = "bm25.json"
    fingerprint: str
    passages: int
    k1: float
    b: float
    title_weight: int


class DenseManifest(Manifest):
    """The vectors of all passages.

    Attributes:
        fingerprint: of the corpus file they were encoded from.
        passages: number of vectors.
        encoder: name or folder of the model that encoded them.
        dimension: numbers per vector.
    """

    file = "dense.json"
    fingerprint: str
    passages: int
    encoder: str
    dimension: int
