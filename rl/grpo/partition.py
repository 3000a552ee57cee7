"""Cutting a batch into micro-batches and spreading it over ranks, by tokens and without chance."""

from collections.abc import Sequence

from rl.grpo.batch import TrainingSample


def pack_micro_batches(samples: Sequence[TrainingSample], max_tokens: int) -> list[list[int]]:
    """Return indices into ``samples``, longest samples first, grouped into micro-batches.

    Rows of a micro-batch are padded to its longest, and rows · longest ≤ ``max_tokens``; a sample
    longer than that stands alone. Every sample is in exactly one micro-batch. Raises
    ``ValueError`` when ``max_tokens`` is below 1.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}; allowed: at least 1")
    micro_batches: list[list[int]] = []
    longest = 0
    for index in _longest_first(samples):
        if micro_batches and (len(micro_batches[-1]) + 1) * longest <= max_tokens:
            micro_batches[-1].append(index)
        else:
            micro_batches.append([index])
            longest = len(samples[index].ids)
    return micro_batches


def split_over_ranks(samples: Sequence[TrainingSample], world_size: int) -> list[list[int]]:
    """Return each rank's indices into ``samples``, in order, with nearly equal token sums.

    The longest sample not placed yet goes to the rank with the fewest tokens, the lowest rank
    first among equals. With fewer samples than ranks some ranks get none. Raises ``ValueError``
    when ``world_size`` is below 1.
    """
    if world_size < 1:
        raise ValueError(f"world_size is {world_size}; allowed: at least 1")
    ranks: list[list[int]] = [[] for _ in range(world_size)]
    loads = [0] * world_size
    for index in _longest_first(samples):
        rank = loads.index(min(loads))
        ranks[rank].append(index)
        loads[rank] += len(samples[index].ids)
    return [sorted(indices) for indices in ranks]


def _longest_first(samples: Sequence[TrainingSample]) -> list[int]:
    """Return indices by falling length, equal lengths in their given order."""
    return sorted(range(len(samples)), key=lambda index: -len(samples[index].ids))
