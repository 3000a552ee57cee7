"""One learner process: runs scenarios one after another and writes what every call returned.

``python learner_worker.py JOB RESULTS RANK WORLD_SIZE PORT``: pickled scenarios in, results out.
"""

import io
import pickle
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from learner_scenarios import Result, Scenario, exact_norm
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm

from actors.learner.distributed import join
from actors.learner.engine import LearnerEngine
from actors.learner.state import load_state, save_state

LOOPBACK = "127.0.0.1"
COLLECTIVE_DEADLINE_S = 180.0


class GatheredElements(TorchDispatchMode):
    """Counts the elements of tensors that all-gathers fill on this rank."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "c10d" and "allgather" in str(function):
            filled = (leaf for leaf in tree_leaves(args[0]) if isinstance(leaf, torch.Tensor))
            self.elements += sum(tensor.numel() for tensor in filled)
        return function(*args, **(kwargs or {}))


class LayerPasses:
    """Counts how often decoder layers run with gradients on, recomputation included."""

    def __init__(self, model):
        self.count = 0
        layers = [m for m in model.modules() if isinstance(m, LlamaDecoderLayer)]
        # Not the layer itself: checkpointing wraps its call, and what is wrapped runs again.
        self._hooks = [layer.self_attn.register_forward_hook(self._seen) for layer in layers]

    def _seen(self, *_):
        self.count += torch.is_grad_enabled()

    def remove(self):
        for hook in self._hooks:
            hook.remove()


class Session:
    """One scenario's engine; a method is a call."""

    def __init__(self, scenario: Scenario, adapter: Any, rank: int):
        self._rank = rank
        self._stage = scenario.options.learner.zero_stage
        self._engine = LearnerEngine(scenario.options, adapter)
        self.logprobs = self._engine.logprobs
        self.probe = self._engine.probe
        self.export = self._engine.export
        self.canary = self._engine.canary

    def train(self, samples, micro_batches, counts, first_update):
        """Return reports of all updates, and how often a layer ran with gradients on.

        Under ZeRO 0 also the gradients that each step worked with.
        """
        seen, passes = [], LayerPasses(self._engine.engine.module.model)
        hook = None
        if self._stage == 0 and hasattr(self._engine.engine.optimizer, "register_step_pre_hook"):
            hook = self._engine.engine.optimizer.register_step_pre_hook(
                lambda *_: seen.append({n: p.grad.clone() for n, p in self._trained()})
            )
        reports = self._engine.train(samples, micro_batches[self._rank], counts, first_update)
        if hook is not None:
            hook.remove()
        passes.remove()
        return {"reports": reports, "gradients": seen, "layer_passes": passes.count}

    def parameters(self):
        """Return the trained parameters in the learner's own precision (not under ZeRO 3)."""
        return {name: p.detach().clone() for name, p in self._trained()}

    def save(self):
        """Return the union of all ranks' state files, as the group makes it."""
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, save_state(self._engine.engine))
        return {name: content for part in parts for name, content in part.items()}

    def saved_names(self, files):
        """Return the names of the model's tensors in state files."""
        names = set()
        for name, content in files.items():
            if name.endswith("model_states.pt"):
                names |= set(torch.load(io.BytesIO(content), weights_only=False)["module"] or ())
        return names

    def load(self, files):
        load_state(self._engine.engine, files)

    def refusal(self, call, *arguments):
        """Return the error with which a call fails."""
        try:
            getattr(self, call)(*arguments)
        except (ValueError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def gathered(self, call, *arguments):
        """Return how many elements a call gathers from other ranks."""
        with GatheredElements() as counter:
            getattr(self, call)(*arguments)
        return counter.elements

    def close(self):
        self._engine.engine.destroy()

    def _trained(self):
        model = self._engine.engine.module.model
        return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def run(scenario: Scenario, results: dict[str, dict[str, Any]], rank: int) -> None:
    """Make every call of ``scenario`` and keep what it returned."""
    own = results.setdefault(scenario.name, {})

    def resolve(value: Any) -> Any:
        return results[value.scenario][value.call] if isinstance(value, Result) else value

    session = Session(scenario, resolve(scenario.adapter), rank)
    for label, (call, *arguments) in scenario.calls.items():
        own[label] = getattr(session, call)(*map(resolve, arguments))
    session.close()


def main() -> None:
    job, target = Path(sys.argv[1]), Path(sys.argv[2])
    rank, world_size, port = map(int, sys.argv[3:])
    torch.set_num_threads(1)
    LlamaRMSNorm.forward = exact_norm
    join(
        rank=rank,
        world_size=world_size,
        address=LOOPBACK,
        port=port,
        own_address=LOOPBACK,
        backend="gloo",
        deadline_s=COLLECTIVE_DEADLINE_S,
    )
    results: dict[str, dict[str, Any]] = {}
    for scenario in pickle.loads(job.read_bytes()):
        print(f"scenario: {scenario.name}", flush=True)
        run(scenario, results, rank)
    target.write_bytes(pickle.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
