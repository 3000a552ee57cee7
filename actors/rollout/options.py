"""How a rollout worker's vLLM engine is started: environment and engine arguments."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.config.schema import Config

# Blocks of the KV cache are the unit of prefix sharing; vLLM's CPU default of 128 tokens is longer
# than most turns and would share next to nothing between the turns of one dialogue.
CPU_BLOCK_TOKENS = 32

# Named and not imported: the module belongs into vLLM's own process.
CPU_WORKER_EXTENSION = "actors.rollout.cpu_lora.DenseLoraWorker"

# On a CPU vLLM turns "uni" into its multi-process executor, which costs one more process that
# imports vLLM, and two that wait busily for each other where cores are few; by its dotted name the
# executor stays. (vLLM's reason is the OpenMP setting, which this worker's environment makes.)
CPU_EXECUTOR = "vllm.v1.executor.uniproc_executor.UniProcExecutor"


@dataclass(frozen=True)
class RolloutOptions:
    """What a rollout worker needs to start, resolved from the configuration."""

    model: str
    dtype: str
    context_tokens: int
    max_loras: int
    max_lora_rank: int
    max_concurrent_sequences: int
    gpus: float
    threads: int
    kv_cache_gib: float
    dense_adapters: bool
    single_process: bool
    gpu_memory_utilization: float
    tensor_parallel: int
    enforce_eager: bool
    request_deadline_s: float
    seed: int

    @classmethod
    def from_config(cls, config: Config, model: str) -> "RolloutOptions":
        """Take the engine's options from ``config``; ``model`` is a local folder or a hub id."""
        rollout = config.rollout
        return cls(
            model=model,
            dtype=rollout.dtype,
            context_tokens=config.model.context_tokens,
            max_loras=rollout.max_loras,
            max_lora_rank=_supported_rank(config.lora.rank),
            max_concurrent_sequences=rollout.max_concurrent_sequences,
            gpus=rollout.gpus,
            threads=rollout.threads,
            kv_cache_gib=rollout.kv_cache_gib,
            dense_adapters=rollout.dense_adapters,
            single_process=rollout.single_process,
            gpu_memory_utilization=rollout.gpu_memory_utilization,
            tensor_parallel=rollout.tensor_parallel,
            enforce_eager=rollout.enforce_eager,
            request_deadline_s=rollout.request_deadline_s,
            seed=config.run.seed,
        )

    def environment(self) -> dict[str, str]:
        """Return the variables that vLLM reads when it is imported."""
        variables = {
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "TOKENIZERS_PARALLELISM": "false",
        }
        if self.gpus == 0:
            variables |= {
                "VLLM_CPU_KVCACHE_SPACE": str(max(1, round(self.kv_cache_gib))),
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "OMP_NUM_THREADS": str(self.threads),
            }
        if Path(self.model).is_dir():
            variables["HF_HUB_OFFLINE"] = "1"
        return variables

    def engine_arguments(self) -> dict[str, Any]:
        """Return the arguments of vLLM's ``AsyncEngineArgs``.

        Log-probs are those of the distribution that was sampled from (temperature applied), which
        is what the importance ratio of the learner needs.
        """
        arguments: dict[str, Any] = {
            "model": self.model,
            "dtype": self.dtype,
            "max_model_len": self.context_tokens,
            "enable_lora": True,
            "max_loras": self.max_loras,
            "max_cpu_loras": self.max_loras,
            "max_lora_rank": self.max_lora_rank,
            "max_num_seqs": self.max_concurrent_sequences,
            "logprobs_mode": "processed_logprobs",
            "enable_prefix_caching": True,
            "enforce_eager": self.enforce_eager,
            "tensor_parallel_size": self.tensor_parallel,
            "seed": self.seed,
            "disable_log_stats": True,
        }
        if self.gpus:
            arguments["gpu_memory_utilization"] = self.gpu_memory_utilization
        else:
            arguments["block_size"] = CPU_BLOCK_TOKENS
            if self.dense_adapters:
                arguments["worker_extension_cls"] = CPU_WORKER_EXTENSION
            if self.single_process:
                arguments["distributed_executor_backend"] = CPU_EXECUTOR
        return arguments


def _supported_rank(rank: int) -> int:
    """Return the smallest maximum rank that vLLM offers and that holds ``rank``."""
    offered = (1, 8, 16, 32, 64, 128, 256, 320, 512)
    return next(maximum for maximum in offered if maximum >= rank)
