"""Extra fitting rows for the embedded judge, so that it does not lean on the listed values alone.

Authored replies nearly always use a listed alternative or a cue. What models write commits to
values that nobody listed, in other words, and mostly about nothing that the nodes ask. Two kinds
of rows make up for that: the same reply judged with its met alternatives and cues struck from the
node, and the same reply judged on nodes of other tasks, which it does not engage.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from rl.judging.interface import Engagement, NodeQuestion
from rl.judging.labelled import LabelledRequest
from rl.judging.reply_view import last_user_turn
from rl.judging.text import contains_phrase, content_stems, sentences, strip_markup

STRUCK_SHARE = 0.34  # share of its content stems from which on an alternative counts as used
FOREIGN_NODES = 4  # nodes of other tasks that a reply is paired with


def strike_listed_values(item: LabelledRequest, generator: random.Random) -> LabelledRequest:
    """Strike from each node the alternatives and cues that the reply uses.

    From half of the nodes that are not engaged some are struck at random, so that a shorter list
    does not give the label away.
    """
    stems = [content_stems(part.text) for part in sentences(item.request.reply)]
    plain = strip_markup(item.request.reply)
    asked = content_stems(last_user_turn(item.request))

    def used(alternative: str) -> bool:
        wanted = content_stems(alternative) - asked
        return bool(wanted) and any(
            len(wanted & held) / len(wanted) >= STRUCK_SHARE for held in stems
        )

    def struck(node: NodeQuestion, label: Engagement) -> NodeQuestion:
        alternatives = tuple(text for text in node.alternatives if not used(text))
        cues = tuple(cue for cue in node.cues if not contains_phrase(plain, cue))
        if label is Engagement.NONE and generator.random() < 0.5:
            keep = max(0, len(node.alternatives) - generator.choice((1, 1, 2, 3)))
            alternatives = tuple(generator.sample(node.alternatives, keep))
            cues = tuple(generator.sample(node.cues, max(1, len(node.cues) - 1)))
        return replace(node, alternatives=alternatives, cues=cues)

    nodes = tuple(map(struck, item.request.nodes, item.labels))
    return replace(item, request=replace(item.request, nodes=nodes))


def foreign_nodes(
    item: LabelledRequest, pool: Sequence[tuple[str, NodeQuestion]], generator: random.Random
) -> LabelledRequest:
    """Pair the reply with nodes of other tasks from ``pool``, (task, node) pairs; all are none."""
    others = [node for task, node in pool if task != item.task]
    nodes = tuple(generator.sample(others, min(FOREIGN_NODES, len(others))))
    return replace(
        item,
        request=replace(item.request, nodes=nodes),
        labels=(Engagement.NONE,) * len(nodes),
    )
