"""Builds one task from one artefact, step by step; a step that fails names itself."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rl.data.artifacts import Artifact
from rl.data.task_format import FieldError, NodeRecord, TaskRecord, check_task
from rl.discovery.construction.answers import (
    Forest,
    Level,
    Opening,
    Requirements,
    Strict,
    read,
    schema_of,
)
from rl.discovery.construction.checks import (
    check_forest,
    check_level,
    check_opening,
    check_requirements,
)
from rl.discovery.construction.prompts import (
    Messages,
    forest_messages,
    level_messages,
    opening_messages,
    requirements_messages,
)
from rl.discovery.tree import IntentNode, IntentTree
from rl.llm.client import ChatClient, ChatError, ChatFailure, ChatRequest, ask

Answer = TypeVar("Answer", bound=Strict)


@dataclass(frozen=True)
class BuildSettings:
    """How the model is asked; ``attempts`` and ``deadline_s`` hold for each step."""

    attempts: int = 3
    deadline_s: float = 120.0
    max_tokens: int = 2048
    temperature: float = 0.6
    levels: int = 5  # broader levels at most (specification §1)
    seed: int = 0


class BuildError(RuntimeError):
    """An artefact without a tree: which step failed, and why, in one line."""

    def __init__(self, step: str, error: ChatError) -> None:
        super().__init__(f"{step}: {error}")
        self.step = step
        self.reason = error.reason


async def build_task(artifact: Artifact, client: ChatClient, settings: BuildSettings) -> TaskRecord:
    """Return the task of ``artifact``, in the bundled tasks' format and without replies.

    Raises:
        BuildError: a step got no acceptable answer.
    """
    builder = _Builder(artifact, client, settings)
    leaves = (await builder.requirements()).requirements
    levels = await builder.levels(leaves)
    statements = [text for level in levels for text in level]
    breadth = [depth for depth, level in enumerate(levels) for _ in level]
    forest = await builder.forest(statements, breadth)
    roots = _records(forest, statements, "")
    tree = IntentTree(tuple(map(_node, roots)))
    opening = await builder.opening(tree)
    task = TaskRecord(
        id=artifact.id,
        domain=artifact.domain,
        artifact_type=artifact.artifact_type,
        artifact=artifact.text,
        opening=opening.opening,
        known=list(opening.known),
        tree=roots,
    )
    try:
        check_task(task)  # what the steps' own checks let through must still load
    except FieldError as error:
        raise BuildError("task", ChatError(ChatFailure.OUT_OF_SCHEMA, str(error))) from None
    return task


class _Builder:
    """Asks the steps of one artefact."""

    def __init__(self, artifact: Artifact, client: ChatClient, settings: BuildSettings) -> None:
        self._artifact = artifact
        self._client = client
        self._settings = settings

    async def requirements(self) -> Requirements:
        messages = requirements_messages(self._artifact.artifact_type, self._artifact.text)
        return await self._ask("requirements", messages, Requirements, check_requirements)

    async def levels(self, leaves: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return all levels, the most specific first."""
        levels = [leaves]
        while len(levels) <= self._settings.levels and len(levels[-1]) > 1:
            answer = await self._ask(
                f"level {len(levels)}",
                level_messages(self._artifact.artifact_type, levels[-1]),
                Level,
                partial(check_level, levels=tuple(levels)),
            )
            if not answer.statements:
                break
            levels.append(tuple(statement.text for statement in answer.statements))
        return levels

    async def forest(self, statements: list[str], breadth: list[int]) -> Forest:
        messages = forest_messages(self._artifact.artifact_type, statements)
        return await self._ask(
            "forest", messages, Forest, lambda forest: check_forest(forest, statements, breadth)
        )

    async def opening(self, tree: IntentTree) -> Opening:
        roots = [(root.id, root.text) for root in tree.roots]
        messages = opening_messages(self._artifact.artifact_type, roots)
        return await self._ask(
            "opening", messages, Opening, lambda opening: check_opening(opening, tree)
        )

    async def _ask(
        self, step: str, messages: Messages, kind: type[Answer], check: Callable[[Answer], None]
    ) -> Answer:
        settings = self._settings

        def accept(text: str) -> Answer:
            answer = read(kind, text)
            check(answer)
            return answer

        request = ChatRequest(
            messages, schema_of(kind), settings.max_tokens, settings.temperature, settings.seed
        )
        try:
            return await ask(self._client, request, accept, settings.attempts, settings.deadline_s)
        except ChatError as error:
            raise BuildError(step, error) from error


def _records(forest: Forest, statements: list[str], parent: str) -> list[NodeRecord]:
    """Return the children of ``parent`` (roots for an empty one), ordered by their numbers."""
    here = [node for node in forest.nodes if node.id.rpartition(".")[0] == parent]
    return [
        NodeRecord(
            id=node.id,
            text=statements[node.statement - 1],
            dimension=node.dimension,
            cues=list(node.cues),
            alternatives=list(node.alternatives),
            children=_records(forest, statements, node.id),
        )
        for node in sorted(here, key=lambda node: [int(part) for part in node.id.split(".")])
    ]


def _node(record: NodeRecord) -> IntentNode:
    return IntentNode(
        record.id,
        record.text,
        record.dimension,
        tuple(record.cues),
        tuple(record.alternatives),
        tuple(map(_node, record.children)),
    )
