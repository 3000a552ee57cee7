"""From finished episodes to a training batch: groups are scored, samples with weight are kept."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rl.config.schema import GrpoConfig
from rl.episode.records import Candidate, Episode, Group
from rl.episode.samples import flat_sample
from rl.episode.tokens import TokenTree
from rl.grpo.advantages import GroupStatus
from rl.grpo.batch_diagnostics import (
    BatchDiagnostics,
    ScoredGroup,
    add_failed,
    diagnose,
    sampled_tokens,
)
from rl.grpo.calibration import constrained_advantages


@dataclass(frozen=True)
class TrainingSample:
    """One candidate to train on: its tokens, from the root of the dialogue to its end.

    ``mask`` is 1 on the candidate's own tokens; ``behaviour_logprobs`` is aligned with ``ids``
    and 0.0 where the mask is 0. ``reward`` is the calibrated reward that ``advantage`` came from.
    """

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    behaviour_logprobs: tuple[float, ...]
    advantage: float
    reward: float
    episode: str
    group: str
    candidate: int
    version: str

    @property
    def trained_tokens(self) -> int:
        """How many tokens the loss counts."""
        return sum(self.mask)


@dataclass(frozen=True)
class TrainingBatch:
    """Samples of informative groups, by episode order, group and candidate; may be empty."""

    samples: tuple[TrainingSample, ...]
    diagnostics: BatchDiagnostics

    @property
    def trained_tokens(self) -> int:
        """The global token count of the batch."""
        return sum(sample.trained_tokens for sample in self.samples)


def build_training_batch(episodes: Sequence[Episode], config: GrpoConfig) -> TrainingBatch:
    """Score every group of ``episodes`` and return the samples that carry weight.

    ``Candidate.reward`` is the quality q before calibration; the calibration of ``config`` is
    applied here and nowhere else. Candidates without a reward, with a reward that is not finite
    or without tokens leave their group's statistics. Groups without weight (all equal, too small,
    skipped) give no sample and are counted. Of failed episodes nothing is trained: they, their
    groups and their tokens are counted. Raises ``ValueError`` when an episode occurs twice.
    """
    ordered = sorted(episodes, key=lambda episode: episode.id.order)
    seen: set[str] = set()
    played: list[Episode] = []
    failed: list[Episode] = []
    scored: list[ScoredGroup] = []
    samples: list[TrainingSample] = []
    for episode in ordered:
        if str(episode.id) in seen:
            raise ValueError(f"episode {episode.id} occurs twice in one batch")
        seen.add(str(episode.id))
        if episode.end.is_failure:
            failed.append(episode)
            continue
        played.append(episode)
        for group in episode.groups:
            scored.append(_score(group, episode.tokens, config))
            samples.extend(_samples(episode, scored[-1]))
    diagnostics = diagnose(
        scored,
        generated_tokens=sampled_tokens(played),
        trained_tokens=sum(sample.trained_tokens for sample in samples),
    )
    return TrainingBatch(tuple(samples), add_failed(diagnostics, failed))


def _score(group: Group, tree: TokenTree, config: GrpoConfig) -> ScoredGroup:
    usable = tuple(_is_usable(candidate, tree) for candidate in group.candidates)
    qualities = [c.reward if ok else None for c, ok in zip(group.candidates, usable, strict=True)]
    compliant = [c.compliant for c in group.candidates]
    return ScoredGroup(group, usable, constrained_advantages(qualities, compliant, config))


def _is_usable(candidate: Candidate, tree: TokenTree) -> bool:
    return (
        candidate.usable
        and candidate.reward is not None
        and math.isfinite(candidate.reward)
        and bool(tree.spans[candidate.span].ids)
    )


def _samples(episode: Episode, scored: ScoredGroup) -> Iterator[TrainingSample]:
    outcome = scored.scores.outcome
    if outcome.status is not GroupStatus.INFORMATIVE:
        return
    rewards = scored.scores.rewards.rewards
    rows = zip(scored.group.candidates, outcome.advantages, rewards, strict=True)
    for index, (candidate, advantage, reward) in enumerate(rows):
        if advantage is None or reward is None:
            continue
        flat = flat_sample(episode.tokens, candidate.span)
        yield TrainingSample(
            ids=flat.ids,
            mask=flat.mask,
            behaviour_logprobs=flat.logprobs,
            advantage=advantage,
            reward=reward,
            episode=str(episode.id),
            group=scored.group.id,
            candidate=index,
            version=flat.version,
        )
