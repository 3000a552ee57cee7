"""Flat training samples: one view of a dialogue's token tree."""

from dataclasses import dataclass

from rl.episode.tokens import TokenTree


@dataclass(frozen=True)
class FlatSample:
    """One sampled span with everything before it.

    ``ids``, ``mask`` and ``logprobs`` have one entry for each token from the root to the end of
    the span. ``mask`` is 1 on the span's own tokens only: sampled spans above it are trained in
    samples of their own. ``logprobs`` are the behaviour log-probs, 0.0 where the mask is 0.
    """

    span: int
    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: str


def flat_sample(tree: TokenTree, span: int) -> FlatSample:
    """Return the sample of one sampled span; raise ``ValueError`` when ``span`` is not one."""
    own = tree.spans[span]
    if own.version is None or not own.sampled:
        raise ValueError(f"span {span} was not sampled by the trained seat")
    prefix = tree.prefix_ids(own.parent)
    return FlatSample(
        span=span,
        ids=prefix + own.ids,
        mask=(0,) * len(prefix) + own.mask,
        logprobs=(0.0,) * len(prefix) + own.logprobs,
        version=own.version,
    )


def flat_samples(tree: TokenTree) -> tuple[FlatSample, ...]:
    """Return one sample for each sampled span that has tokens, oldest first."""
    return tuple(flat_sample(tree, span.id) for span in tree.sampled() if span.ids)
