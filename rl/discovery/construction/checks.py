"""What makes an answer unusable though it follows its schema; each message goes to the model."""

from collections.abc import Sequence

from rl.discovery.construction.answers import Forest, Level, Opening, Requirements
from rl.discovery.secrecy import leaks
from rl.discovery.tree import Awareness, IntentTree, TreeState
from rl.llm.client import OutOfSchemaError

MAX_REQUIREMENTS = 16
MAX_OPENING_WORDS = 40


def check_requirements(answer: Requirements) -> None:
    """Refuse blank or repeated requirements, none at all, or too many."""
    count = len(answer.requirements)
    if not 1 <= count <= MAX_REQUIREMENTS:
        raise OutOfSchemaError(f"{count} requirements; from 1 to {MAX_REQUIREMENTS} are wanted")
    check_distinct(answer.requirements)


def check_level(answer: Level, levels: Sequence[Sequence[str]]) -> None:
    """Refuse a level that is no superset: each statement below needs a broader one above it.

    ``levels`` are those so far, the most specific first.
    """
    below = levels[-1]
    texts = [statement.text for statement in answer.statements]
    check_distinct([*(text for level in levels for text in level), *texts])
    numbers = range(1, len(below) + 1)
    for statement in answer.statements:
        if not statement.covers:
            raise OutOfSchemaError(f"{statement.text!r} covers none of the statements below it")
        for number in statement.covers:
            if number not in numbers:
                raise OutOfSchemaError(
                    f"{statement.text!r} covers {number}, but the statements below are 1 to "
                    f"{len(below)}"
                )
    covered = {number for statement in answer.statements for number in statement.covers}
    if answer.statements and (bare := [n for n in numbers if n not in covered]):
        raise OutOfSchemaError(f"no broader statement covers {', '.join(map(str, bare))}")
    if len(texts) > len(below):
        raise OutOfSchemaError(
            f"{len(texts)} broader statements for {len(below)} specific ones; a broader level has "
            "no more statements than the one below"
        )


def check_forest(answer: Forest, statements: Sequence[str], breadth: Sequence[int]) -> None:
    """Refuse a forest that misses, repeats or orphans a statement, or puts it under a narrower one.

    ``breadth`` is each statement's level, 0 for the most specific.
    """
    placed = [node.statement for node in answer.nodes]
    wanted = range(1, len(statements) + 1)
    if unknown := sorted(set(placed) - set(wanted)):
        raise OutOfSchemaError(f"there is no statement {unknown[0]}; they are 1 to {wanted[-1]}")
    if missing := [number for number in wanted if number not in placed]:
        raise OutOfSchemaError(f"statement {missing[0]} is not in the tree")
    if repeated := sorted({number for number in placed if placed.count(number) > 1}):
        raise OutOfSchemaError(f"statement {repeated[0]} is in the tree twice")
    by_id = {node.id: node for node in answer.nodes}
    if len(by_id) < len(answer.nodes):
        raise OutOfSchemaError("two nodes have the same id")
    for node in answer.nodes:
        if not all(part.isdigit() for part in node.id.split(".")):
            raise OutOfSchemaError(f"{node.id!r} is no dotted id such as 1 or 1.2")
        parent = node.id.rpartition(".")[0]
        if parent and parent not in by_id:
            raise OutOfSchemaError(f"node {node.id} has no parent {parent}")
        if parent and breadth[by_id[parent].statement - 1] <= breadth[node.statement - 1]:
            raise OutOfSchemaError(
                f"node {parent} is not broader than its child {node.id}: what meets the specific "
                "must meet the general"
            )
        check_texts(node.id, node.dimension, node.cues, node.alternatives)


def check_texts(
    node: str, dimension: str, cues: Sequence[str], alternatives: Sequence[str]
) -> None:
    """Refuse a node without dimension, cue or alternative, or with a blank one."""
    for name, texts in (("dimension", [dimension]), ("cues", cues), ("alternatives", alternatives)):
        if not texts or not all(text.strip() for text in texts):
            raise OutOfSchemaError(f"node {node}: {name} must not be empty")


def check_opening(answer: Opening, tree: IntentTree) -> None:
    """Refuse an opening that names no root, names others than roots, is long, or leaks."""
    roots = [root.id for root in tree.roots]
    if not answer.known or not set(answer.known) <= set(roots):
        raise OutOfSchemaError(f"known is {list(answer.known)}; one or more of {roots} are wanted")
    words = len(answer.opening.split())
    if not 1 <= words <= MAX_OPENING_WORDS:
        raise OutOfSchemaError(f"the opening has {words} words; 1 to {MAX_OPENING_WORDS} wanted")
    state = TreeState(
        {
            node: Awareness.DISCOVERED if node in answer.known else Awareness.UNDISCOVERED
            for node in tree.nodes
        }
    )
    if leaked := leaks(answer.opening, tree, state):
        text = tree.nodes[leaked[0]].text
        raise OutOfSchemaError(f"the opening gives away what the user does not know yet: {text}")


def check_distinct(texts: Sequence[str]) -> None:
    """Refuse a blank text, or one that stands there twice, whatever case and end mark."""
    seen: set[str] = set()
    for text in texts:
        plain = " ".join(text.casefold().split()).rstrip(".!")
        if not plain:
            raise OutOfSchemaError("a statement is empty")
        if plain in seen:
            raise OutOfSchemaError(f"{text!r} stands there twice")
        seen.add(plain)
