import numpy as np
import pytest

from rl.judging.linear import LinearClassifier

TWO = LinearClassifier(
    labels=("no", "yes"),
    features=("x",),
    mean=np.array([1.0]),
    scale=np.array([2.0]),
    coefficients=np.array([[0.0], [1.0]]),
    intercepts=np.array([0.0, 0.5]),
)


def test_probabilities_by_hand():
    # x = 3: standardised 1, logits 0 and 1.5
    [[no, yes]] = TWO.probabilities(np.array([[3.0]]))
    assert yes == pytest.approx(np.exp(1.5) / (1 + np.exp(1.5)))
    assert no + yes == pytest.approx(1.0)


def test_large_logits_do_not_overflow():
    assert np.isfinite(TWO.probabilities(np.array([[1e6], [-1e6]]))).all()


def test_equals_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(60, 4)), np.arange(60) % 3
    model = LogisticRegression(C=0.5).fit(rows, labels)
    ours = LinearClassifier(
        ("a", "b", "c"), tuple("wxyz"), np.zeros(4), np.ones(4), model.coef_, model.intercept_
    )
    np.testing.assert_allclose(ours.probabilities(rows), model.predict_proba(rows), atol=1e-12)


def test_json_round_trip_keeps_six_decimals():
    again = LinearClassifier.from_dict(TWO.as_dict(), ["x"])
    np.testing.assert_allclose(again.coefficients, TWO.coefficients, atol=5e-7)
    assert again.labels == TWO.labels


def test_other_features_are_refused():
    with pytest.raises(ValueError, match="fit them again"):
        LinearClassifier.from_dict(TWO.as_dict(), ["y"])


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="coefficients has shape"):
        LinearClassifier(("a", "b"), ("x",), np.zeros(1), np.ones(1), np.zeros((1, 1)), np.zeros(2))
