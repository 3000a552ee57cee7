"""Labelled replies as judge requests: what a judge is fitted on and compared with."""

from collections.abc import Iterable
from dataclasses import dataclass

from rl.data.tasks import LabelledReply, Task
from rl.discovery.tree import Awareness, IntentNode, TreeState, frontier
from rl.judging.interface import Engagement, JudgeRequest, NodeQuestion, ReplyKind


@dataclass(frozen=True)
class LabelledRequest:
    """A request with the gold label of each node, the reply's kind if labelled, and its source."""

    task: str
    domain: str
    request: JudgeRequest
    labels: tuple[Engagement, ...]
    kind: ReplyKind | None


def labelled_requests(tasks: Iterable[Task]) -> list[LabelledRequest]:
    """Turn every labelled reply of ``tasks`` into a request about its frontier nodes."""
    return [_labelled_request(task, reply) for task in tasks for reply in task.replies]


def node_question(node: IntentNode) -> NodeQuestion:
    """Return the part of ``node`` that a judge may see."""
    return NodeQuestion(node.id, node.text, node.dimension, node.cues, node.alternatives)


def _labelled_request(task: Task, reply: LabelledReply) -> LabelledRequest:
    """Ask about the frontier of the state in which the reply was given."""
    awareness = {
        node: Awareness.DISCOVERED if node in reply.discovered else Awareness.UNDISCOVERED
        for node in task.tree.nodes
    }
    asked = frontier(task.tree, TreeState(awareness))
    return LabelledRequest(
        task=task.id,
        domain=task.domain,
        request=JudgeRequest(
            history=(("user", reply.user),),
            reply=reply.reply,
            nodes=tuple(node_question(task.tree.nodes[node]) for node in asked),
        ),
        labels=tuple(reply.engaged.get(node, Engagement.NONE) for node in asked),
        kind=reply.kind,
    )
