"""One rank of the learner: a policy under DeepSpeed that trains and exports its adapter."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from actors.learner.options import LearnerOptions, clips_itself, deepspeed_config
from rl.grpo.batch import TrainingSample
from rl.grpo.collate import MicroBatch, collate
from rl.grpo.loss import LossCounts, PolicyLossInput, policy_loss
from rl.grpo.loss_metrics import add_sums, current_mismatch_sums
from rl.grpo.schedule import learning_rate
from rl.policy.adapter import AdapterFiles, add_adapter, export_adapter, import_adapter
from rl.policy.logprobs import PolicyLogprobs, causal_lm

if TYPE_CHECKING:
    from peft import PeftModel


@dataclass(frozen=True)
class UpdateReport:
    """One optimiser update on one rank: sums that add up over ranks, and the gradient's norm."""

    sums: dict[str, float]
    grad_norm: float
    learning_rate: float


class LearnerEngine:
    """The policy of one rank.

    Invariant: after :meth:`train` all ranks hold the same adapter. Every method is a collective:
    all ranks call it, in the same order.
    """

    def __init__(self, options: LearnerOptions, adapter: AdapterFiles | None = None) -> None:
        """Load the model and its adapter (a fresh one without ``adapter``); start DeepSpeed."""
        import deepspeed

        self._options = options
        self._stage = options.learner.zero_stage
        self._model = _load_policy(options)
        if adapter is not None:
            import_adapter(self._model, adapter)
        parameters = [p for p in self._model.parameters() if p.requires_grad]
        self.trained_parameters = sum(p.numel() for p in parameters)
        optimizer = torch.optim.AdamW(
            parameters,
            lr=0.0,  # every step sets it
            betas=(options.optimizer.betas[0], options.optimizer.betas[1]),
            eps=options.optimizer.epsilon,
            weight_decay=options.optimizer.weight_decay,
        )
        self._grad_norm = float("nan")
        if clips_itself(options):
            optimizer.register_step_pre_hook(self._clip)
        if options.dtype is torch.float64:
            _allow_float64()
        self._module = PolicyLogprobs(
            self._model, options.temperature, options.learner.logprob_chunk_tokens
        )
        self._module.register_state_dict_post_hook(_drop_frozen)
        if self._stage == 3:
            # The output head's weight is read by this module's forward, not by the head's own.
            for parameter in causal_lm(self._model).get_output_embeddings().parameters():
                deepspeed.zero.register_external_parameter(self._module, parameter)
        self.engine, *_ = deepspeed.initialize(
            model=self._module,
            optimizer=optimizer,
            model_parameters=parameters,
            config=deepspeed_config(options),
            dist_init_required=False,
        )
        # DeepSpeed steps on zeros while it wraps a bfloat16 optimiser without ZeRO. At a rate of 0
        # that moved nothing; it is forgotten here, since Adam's bias correction counts steps.
        optimizer.state.clear()
        if options.dtype is torch.float64:
            self.engine.communication_data_type = torch.float64  # else summed in float32

    def train(
        self,
        samples: Sequence[TrainingSample],
        micro_batches: Sequence[Sequence[int]],
        counts: LossCounts,
        first_update: int,
        version: str | None = None,
    ) -> list[UpdateReport]:
        """Run every update of one batch on this rank's share.

        ``micro_batches`` are indices into ``samples``; every rank has as many of them, some empty.
        ``version`` is the policy's name: the mismatch over samples of this version is told apart.
        With several updates π_prox is recomputed before the first one; with one update it is the
        policy itself, detached. A batch without trained tokens makes no update and no report: the
        optimiser's momentum would move the policy even on a gradient of 0.
        """
        if counts.tokens == 0:
            return []
        batches = [self._collate([samples[i] for i in micro], version) for micro in micro_batches]
        updates = self._options.grpo.updates_per_batch
        prox = [self._score(batch) for batch in batches] if updates > 1 else None
        beta = self._options.grpo.kl_beta
        with self._reference():
            reference = [self._score(batch) for batch in batches] if beta > 0 else None
        reports = []
        for update in range(first_update, first_update + updates):
            sums = [
                self._accumulate(
                    batch,
                    None if prox is None else prox[index],
                    None if reference is None else reference[index],
                    counts,
                )
                for index, batch in enumerate(batches)
            ]
            rate = learning_rate(update, self._options.total_updates, self._options.optimizer)
            reports.append(UpdateReport(add_sums(sums), self._step(rate), rate))
        return reports

    def logprobs(self, samples: Sequence[TrainingSample]) -> list[tuple[float, ...]]:
        """Return the policy's log-prob of each trained token of each sample, one by one."""
        result = []
        for sample in samples:
            batch = self._collate([sample])
            values = self._score(batch)[batch.mask[:, 1:]]
            result.append(tuple(values.tolist()))
        return result

    def probe(self, ids: Sequence[int]) -> tuple[float, ...]:
        """Return the log-prob of ``ids[1:]``, each given the tokens before it, at temperature 1."""
        tokens = torch.tensor([list(ids)], device=self._options.device)
        mask = torch.ones_like(tokens, dtype=torch.bool)
        mask[:, 0] = False
        temperature, self._module.temperature = self._module.temperature, 1.0
        try:
            with self._scoring():
                values = self.engine(tokens, torch.ones_like(tokens), mask)
        finally:
            self._module.temperature = temperature
        return tuple(values[0].tolist())

    def export(self, version: str) -> AdapterFiles:
        """Return the adapter as files; only adapter parameters are gathered from other ranks."""
        with self._gathered():
            return export_adapter(
                self._model, version, self._options.export_dtype, self._options.model
            )

    def canary(
        self, version: str, seed: int, probe_ids: Sequence[int]
    ) -> tuple[AdapterFiles, tuple[float, ...]]:
        """Return an adapter that changes the policy visibly, and the probe's log-probs under it.

        It is never trained or kept. A fresh adapter changes nothing, and a trained one little, so
        neither can prove that adapters reach the sampler.
        """
        with self._gathered(write=True):
            parameters = [p for p in self._model.parameters() if p.requires_grad]
            saved = [p.detach().clone() for p in parameters]
            generator = torch.Generator().manual_seed(seed)
            for p in parameters:
                noise = torch.randn(p.shape, generator=generator) * 0.1
                p.data.copy_(noise.to(p.device, p.dtype))
        files, logprobs = self.export(version), self.probe(probe_ids)
        with self._gathered(write=True):
            for p, old in zip(parameters, saved, strict=True):
                p.data.copy_(old)
        return files, logprobs

    def _collate(self, samples: Sequence[TrainingSample], version: str | None = None) -> MicroBatch:
        precise = torch.promote_types(self._options.dtype, torch.float32)
        return collate(samples, precise, self._options.device, version)

    def _score(self, batch: MicroBatch) -> Tensor:
        with self._scoring():
            return self.engine(batch.ids, batch.attention_mask, batch.mask)

    @contextmanager
    def _scoring(self) -> Iterator[None]:
        """No gradient and no dropout: what is measured is the policy that the sampler runs."""
        self._model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self._model.train()

    def _accumulate(
        self,
        batch: MicroBatch,
        prox: Tensor | None,
        reference: Tensor | None,
        counts: LossCounts,
    ) -> dict[str, float]:
        logprobs = self.engine(batch.ids, batch.attention_mask, batch.mask)
        prox = logprobs.detach() if prox is None else prox
        behaviour = batch.behaviour_logprobs[:, 1:]
        output = policy_loss(
            PolicyLossInput(
                logprobs=logprobs,
                prox_logprobs=prox,
                behaviour_logprobs=behaviour,
                ref_logprobs=reference,
                advantages=batch.advantages[:, 1:],
                mask=batch.mask[:, 1:],
            ),
            counts,
            self._options.grpo,
        )
        # DeepSpeed averages gradients over ranks; the loss is already divided by global counts.
        self.engine.backward(output.loss * self._options.learner.world_size)
        return output.metrics | current_mismatch_sums(prox - behaviour, batch.current[:, 1:])

    def _step(self, rate: float) -> float:
        for group in self.engine.optimizer.param_groups:
            group["lr"] = rate
        self.engine.step()
        norm = self.engine.get_global_grad_norm()
        return self._grad_norm if norm is None else float(norm)

    def _clip(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Clip the reduced gradients; DeepSpeed does it too, but then does not tell their norm."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        limit = self._options.optimizer.max_grad_norm
        self._grad_norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit))

    def _reference(self) -> Any:
        return self._model.disable_adapter() if self._options.grpo.kl_beta > 0 else nullcontext()

    @contextmanager
    def _gathered(self, write: bool = False) -> Iterator[None]:
        if self._stage < 3:
            yield
            return
        import deepspeed

        parameters = [p for p in self._model.parameters() if p.requires_grad]
        rank = 0 if write else None
        with deepspeed.zero.GatheredParameters(parameters, modifier_rank=rank):
            yield


def _drop_frozen(module: torch.nn.Module, state: dict[str, Tensor], *_: Any) -> None:
    """Keep the base model out of checkpoints, tied weights included."""
    trained = {name for name, p in module.named_parameters() if p.requires_grad}
    for name in [name for name in state if name not in trained]:
        del state[name]


def _allow_float64() -> None:
    """Let DeepSpeed reduce float64 gradients, which it does not list for CPUs; for exact tests."""
    from deepspeed.accelerator import get_accelerator

    accelerator = get_accelerator()
    listed = accelerator.supported_dtypes()
    if torch.float64 not in listed:
        accelerator.supported_dtypes = lambda: [*listed, torch.float64]


def _load_policy(options: LearnerOptions) -> "PeftModel":
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=options.dtype)
    model.config.use_cache = False
    policy = add_adapter(model, options.lora, options.seed)
    if options.learner.gradient_checkpointing:
        policy.enable_input_require_grads()
        policy.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy.train()
    return policy
