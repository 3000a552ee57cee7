"""Every configuration key with its type and default; ``configs/`` and ``key=value`` override these."""

from dataclasses import dataclass, field


@dataclass
class RunConfig:
    """Where a run lives and how it starts."""

    name: str = "discover"
    dir: str = ""  # empty: runs/NAME-TIMESTAMP under the working directory
    seed: int = 0
    resume: str = ""  # a run folder to continue; its own resolved config is used
    overwrite: bool = False  # true: an existing run folder is emptied first
    wandb_mode: str = "offline"  # offline | online | disabled
    wandb_project: str = "discern"


@dataclass
class ModelConfig:
    """The base model of every seat."""

    name: str = "smollm2-135m-instruct"
    source: str = "package"  # package | tiny | path (a folder or a hub id in `path`)
    path: str = ""
    context_tokens: int = 1024
    system_prompt: str = ""
    enable_thinking: bool = False  # passed to chat templates that know it (Qwen 3)


@dataclass
class LoraConfig:
    """The trained adapter's shape (peft LoraConfig)."""

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0
    target_modules: list[str] = field(default_factory=lambda: ["q_proj", "v_proj"])


@dataclass
class SamplingConfig:
    """How one seat samples. A trained seat must use the whole distribution: top_p = 1, top_k = -1."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_tokens: int = 48


@dataclass
class TaskConfig:
    """Which tasks are trained on."""

    files: list[str] = field(default_factory=list)  # empty: the bundled tasks of `domains`
    domains: list[str] = field(
        default_factory=lambda: ["creative_writing", "technical_writing", "svg"]
    )


@dataclass
class DiscoveryConfig:
    """The simulated user's rules (specification §2, §3, §5)."""

    gating: str = "strict"  # strict (paper) | cascade (release)
    focus: str = "all"  # all (paper) | single_root (release)
    tangential_probability: float = 0.25
    reward: str = "count"  # count (paper) | half_credit (release)
    length_penalty: float = 1e-3  # λ
    length_free_tokens: int = 250  # τ
    horizon: str = "turn"  # turn | window
    window: int = 0  # further turns whose state change is credited when horizon=window
    assistant_turns: int = 5
    user_turn: str = "vllm"  # vllm | scripted
    user_adapter: str = ""  # a frozen adapter folder for the user seat; empty: the base
    user_max_words: int = 40
    user_leak_retries: int = 1
    commit: str = "sample"  # sample | best


@dataclass
class JudgeConfig:
    """Who judges replies, and how long an answer may take."""

    backend: str = "embedded"
    workers: int = 1
    cpus: float = 0.0
    gpus: float = 0.0
    threads: int = 1
    deadline_s: float = 60.0
    max_batch: int = 32
    cache_entries: int = 100_000


@dataclass
class GrpoConfig:
    """Group-relative policy optimisation (specification §6; calibration: directives §4)."""

    group_size: int = 4  # K
    min_group_size: int = 2  # smaller groups get weight 0
    normalise: str = "std"  # std | mean (subtract the mean only)
    epsilon: float = 1e-6
    clip_low: float = 0.2
    clip_high: float = 0.28
    aggregation: str = "token_mean"  # token_mean | sequence_mean
    kl_beta: float = 0.0
    updates_per_batch: int = 1
    importance_cap: float = 2.0  # C of the truncated importance weight π_prox / π_behaviour
    calibration: str = "quality_only"  # quality_only | fixed_bonus | calibrated
    calibration_margin: float = 0.1  # m
    fixed_bonus: float = 0.5  # λ_b
    clamp_violators: bool = False
    skip_all_violating: bool = False


@dataclass
class OptimizerConfig:
    """AdamW and its schedule."""

    learning_rate: float = 5e-6
    weight_decay: float = 0.0
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    epsilon: float = 1e-8
    max_grad_norm: float = 1.0
    warmup_steps: int = 0
    schedule: str = "cosine"  # cosine | constant


@dataclass
class LearnerConfig:
    """The DeepSpeed learner."""

    world_size: int = 1
    cpus: float = 1.0  # a rank
    gpus: float = 0.0  # a rank
    threads: int = 2
    dtype: str = "float32"  # float32 | bfloat16 | float64 (tests)
    backend: str = "gloo"  # gloo | nccl
    zero_stage: int = 0
    micro_batch_tokens: int = 2048  # padded tokens in one forward pass
    logprob_chunk_tokens: int = 256  # positions whose logits are held at once
    gradient_checkpointing: bool = True
    start_deadline_s: float = 300.0
    step_deadline_s: float = 1800.0


@dataclass
class RolloutConfig:
    """The vLLM rollout workers."""

    workers: int = 1
    cpus: float = 1.0
    gpus: float = 0.0
    threads: int = 2
    dtype: str = "float32"
    kv_cache_gib: float = 1.0  # CPU only
    gpu_memory_utilization: float = 0.9  # GPU only
    tensor_parallel: int = 1
    max_loras: int = 4
    max_concurrent_sequences: int = 64
    enforce_eager: bool = True
    start_deadline_s: float = 300.0
    request_deadline_s: float = 300.0
    publish_deadline_s: float = 120.0
    probe_tolerance: float = 1e-3  # largest |log-prob difference| of the arrival check


@dataclass
class SimulatorConfig:
    """The actors that run dialogues."""

    workers: int = 1
    cpus: float = 0.0
    concurrent_episodes: int = 16
    episode_deadline_s: float = 900.0
    max_attempts: int = 2  # an episode whose actor died is issued again up to this often


@dataclass
class TrainConfig:
    """The loop: how many steps, how much a step holds, how stale a sample may be."""

    steps: int = 6
    episodes_per_step: int = 2  # B
    staleness: int = 0  # S; 0 is synchronous
    checkpoint_every: int = 1
    keep_checkpoints: int = 2
    max_mismatch_kl: float = 0.05  # sampler-learner mismatch that stops the run
    max_failed_episodes: int = 20  # failures in a row that stop the run
    seat: str = "assistant"


@dataclass
class ClusterConfig:
    """How to reach Ray."""

    address: str = ""  # empty: the running job's cluster, or a local Ray; else an address or "auto"
    connect_deadline_s: float = 30.0
    placement_deadline_s: float = 120.0
    placement_strategy: str = "PACK"


@dataclass
class Config:
    """One resolved configuration of a run."""

    recipe: str = "discover"
    run: RunConfig = field(default_factory=RunConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    assistant: SamplingConfig = field(default_factory=SamplingConfig)
    user: SamplingConfig = field(default_factory=SamplingConfig)
    tasks: TaskConfig = field(default_factory=TaskConfig)
    discovery: DiscoveryConfig = field(default_factory=DiscoveryConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    grpo: GrpoConfig = field(default_factory=GrpoConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    simulator: SimulatorConfig = field(default_factory=SimulatorConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
