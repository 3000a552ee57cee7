"""What a judgement points at: the sentence that met a node, and the option nearest to the user."""

from collections.abc import Sequence

import numpy as np

from rl.judging.encoder import SentenceEncoder
from rl.judging.features import NodeVectors, alternatives_met, new_cues
from rl.judging.interface import Engagement, NodeQuestion
from rl.judging.reply_view import ReplyView
from rl.judging.text import contains_phrase, content_stems


def evidence_sentence(
    view: ReplyView, node: NodeQuestion, vectors: NodeVectors, label: Engagement
) -> str:
    """Return the sentence that best shows why ``node`` got ``label``.

    A sentence that names a cue (direct) or a listed alternative (tangential) comes first; else
    the one whose clause is nearest to the node's text, dimension or alternatives.
    """
    if not view.sentences:
        return ""
    if label is Engagement.DIRECT:
        for cue in new_cues(view, node.cues):
            for part in view.sentences:
                if contains_phrase(part.text, cue):
                    return part.text
    else:
        for alternative in alternatives_met(view, node.alternatives):
            wanted = content_stems(alternative) - view.asked_stems
            held = [len(wanted & stems) for stems in view.stems]
            return view.sentences[int(np.argmax(held))].text
    targets = [vectors.dimension[None]]
    targets += [vectors.text[None]] if label is Engagement.DIRECT else [vectors.alternatives]
    nearest = (view.clauses @ np.concatenate(targets).T).max(axis=1)
    return view.sentences[int(view.clause_sentence[int(nearest.argmax())])].text


def closest_option(
    encoder: SentenceEncoder,
    options: Sequence[str],
    engaged: Sequence[tuple[NodeQuestion, NodeVectors]],
) -> int | None:
    """Return the index of the option nearest to what the user wants of the ``engaged`` nodes.

    The option with most of their cues wins; a tie goes to the highest cosine with a node's text,
    then to the first. ``None`` without options or without engaged nodes.
    """
    if not options or not engaged:
        return None
    cosines = encoder.vectors(options) @ np.stack([vectors.text for _, vectors in engaged]).T
    scores = [
        (sum(any(contains_phrase(option, cue) for cue in node.cues) for node, _ in engaged), cosine)
        for option, cosine in zip(options, cosines.max(axis=1).round(4).tolist(), strict=True)
    ]
    return max(range(len(options)), key=lambda index: (scores[index], -index))
