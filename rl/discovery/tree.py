"""Intent trees and the awareness a simulated user has of their nodes (specification §1)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Awareness(StrEnum):
    """How far the user has become aware of an intent."""

    UNDISCOVERED = "undiscovered"
    EMERGING = "emerging"
    DISCOVERED = "discovered"

    @property
    def value_in_sum(self) -> float:
        """The node's share in summed awareness: 0, 0.5 or 1."""
        return {"undiscovered": 0.0, "emerging": 0.5, "discovered": 1.0}[self.value]


@dataclass(frozen=True)
class IntentNode:
    """One intent. ``dimension`` names what it decides without giving it away."""

    id: str
    text: str
    dimension: str
    cues: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    children: tuple["IntentNode", ...] = ()


@dataclass(frozen=True)
class IntentTree:
    """A forest of intents with dotted ids; several roots are independent dimensions."""

    roots: tuple[IntentNode, ...]

    def __iter__(self) -> Iterator[IntentNode]:
        """Yield every node, parents before children."""
        stack = list(reversed(self.roots))
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def nodes(self) -> Mapping[str, IntentNode]:
        """Every node by id, parents before children."""
        return {node.id: node for node in self}

    @cached_property
    def parents(self) -> Mapping[str, str | None]:
        """The parent's id of every node; ``None`` for roots."""
        parents: dict[str, str | None] = {root.id: None for root in self.roots}
        for node in self:
            parents.update({child.id: node.id for child in node.children})
        return parents

    def root_of(self, node: str) -> str:
        """Return the id of the root above ``node`` (or ``node`` itself)."""
        while (parent := self.parents[node]) is not None:
            node = parent
        return node


@dataclass(frozen=True)
class TreeState:
    """What the user is aware of at one moment; treated as immutable.

    ``scores`` holds the tangential score that each node has gathered since its last move.
    """

    awareness: Mapping[str, Awareness]
    satisfied: frozenset[str] = frozenset()
    scores: Mapping[str, float] | None = None

    def is_discovered(self, node: str) -> bool:
        """Return whether ``node`` is in the discovered set I_t."""
        return self.awareness[node] is Awareness.DISCOVERED

    @property
    def discovered(self) -> frozenset[str]:
        """The discovered set I_t."""
        return frozenset(n for n, a in self.awareness.items() if a is Awareness.DISCOVERED)

    @property
    def emerging(self) -> frozenset[str]:
        """The nodes that the user can only hint at."""
        return frozenset(n for n, a in self.awareness.items() if a is Awareness.EMERGING)


def initial_state(tree: IntentTree, known: tuple[str, ...]) -> TreeState:
    """Return the start state: ``known`` roots discovered, everything else undiscovered."""
    awareness = {
        node.id: Awareness.DISCOVERED if node.id in known else Awareness.UNDISCOVERED
        for node in tree
    }
    return TreeState(awareness=awareness, scores={})


def frontier(tree: IntentTree, state: TreeState) -> tuple[str, ...]:
    """Return R(I_t): nodes not discovered whose parent is; a root's parent counts as discovered."""
    return tuple(
        node
        for node, parent in tree.parents.items()
        if not state.is_discovered(node) and (parent is None or state.is_discovered(parent))
    )
