"""Tasks that even a model with random weights meets now and then: their cues are common words.

The bundled tasks give a random model no reward at all, so no group of its replies is informative.
"""

import json
from collections.abc import Sequence
from pathlib import Path

CUES_PER_NODE = 1200
NODES = 6
TASKS = 4


def write_word_tasks(path: Path, words: Sequence[str]) -> Path:
    """Write tasks whose nodes are met by any of many ``words``; return ``path``."""
    rows = []
    for task in range(TASKS):
        nodes = []
        for index in range(NODES):
            start = (task * NODES + index) * 97
            cues = [words[(start + 7 * k) % len(words)] for k in range(CUES_PER_NODE)]
            nodes.append(
                {
                    "id": str(index + 1),
                    "text": f"It is about matter number {index + 1}.",
                    "dimension": f"matter number {index + 1}",
                    "cues": sorted(set(cues)),
                    "alternatives": [],
                    "children": [],
                }
            )
        rows.append(
            {
                "id": f"words-{task}",
                "domain": "words",
                "artifact_type": "text",
                "artifact": "A text.",
                "opening": f"write text number {task}",
                "known": ["1"],
                "tree": nodes,
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def common_words(tokenizer_dir: Path) -> list[str]:
    """Return the vocabulary's whole lower-case words, in the order of their ids."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    texts = (tokenizer.decode([index]) for index in range(len(tokenizer)))
    return [t.strip() for t in texts if t.startswith(" ") and t.strip().isalpha() and t.islower()]
