"""Every configuration key, its type and default; ``configs/`` and ``key=value`` override these."""

from dataclasses import dataclass, field


@dataclass
class RunConfig:
    """Where a run lives and how it starts."""

    name: str = "discover"  # used in the folder's name and as the wandb run name
    dir: str = ""  # empty: runs/NAME-TIMESTAMP under the working directory
    seed: int = 0  # every random draw of the run derives from it
    resume: str = ""  # a run folder to continue; its own resolved config is used
    overwrite: bool = False  # true: an existing run folder is emptied first
    wandb_mode: str = "offline"  # offline | online | disabled
    wandb_project: str = "discern"  # unused when wandb_mode=disabled


@dataclass
class ModelConfig:
    """The base model of every seat."""

    name: str = "smollm2-135m-instruct"  # how logs and tables call it
    source: str = "package"  # package | tiny | path (a folder or a hub id in `path`)
    path: str = ""  # only with source=path
    context_tokens: int = 1024  # longest dialogue in tokens, replies included
    system_prompt: str = ""  # of the assistant; empty: whatever the chat template does without
    enable_thinking: bool = False  # passed to chat templates that know it (Qwen 3)


@dataclass
class LoraConfig:
    """The trained adapter's shape (peft LoraConfig)."""

    rank: int = 8  # r
    alpha: int = 16  # the adapter is scaled by alpha / rank
    dropout: float = 0.0  # on the adapter's input, while training
    target_modules: list[str] = field(  # names of the linear layers that get an adapter
        default_factory=lambda: ["q_proj", "v_proj"]
    )


@dataclass
class SamplingConfig:
    """How one seat samples. A trained seat needs the whole distribution: top_p = 1, top_k = -1."""

    temperature: float = 1.0  # above 0 in a trained seat; 0 is greedy elsewhere
    top_p: float = 1.0  # nucleus; 1 in a trained seat
    top_k: int = -1  # -1 (off) in a trained seat
    max_tokens: int = 48  # new tokens in one turn


@dataclass
class TaskConfig:
    """Which tasks are trained on."""

    files: list[str] = field(default_factory=list)  # empty: the bundled tasks of `domains`
    domains: list[str] = field(  # bundled tasks; unused when `files` is set
        default_factory=lambda: ["creative_writing", "technical_writing", "svg"]
    )


@dataclass
class DiscoveryConfig:
    """The simulated user's rules (specification §2, §3, §5)."""

    gating: str = "strict"  # strict (paper) | cascade (release)
    focus: str = "all"  # all (paper) | single_root (release)
    tangential_probability: float = 0.25  # p: score of one near miss
    reward: str = "count"  # count (paper) | half_credit (release)
    length_penalty: float = 1e-3  # λ
    length_free_tokens: int = 250  # τ
    horizon: str = "turn"  # turn | window (refused in on-policy GRPO)
    window: int = 0  # further turns whose state change is credited when horizon=window
    assistant_turns: int = 5  # most assistant turns in one dialogue
    user_turn: str = "vllm"  # vllm | scripted
    user_adapter: str = ""  # a frozen adapter folder for the user seat; empty: the base
    user_max_words: int = 40  # the longest user turn
    user_leak_retries: int = 1  # then the scripted phrasing is used
    commit: str = "sample"  # sample | best


@dataclass
class JudgeConfig:
    """Who judges replies, and how long an answer may take."""

    backend: str = "embedded"  # embedded (offline) | cues (word matching only) | llm (an endpoint)
    endpoint: str = ""  # OpenAI-compatible base URL, such as http://127.0.0.1:8000/v1
    model: str = ""  # the model's name there; empty: the first that it serves
    key_name: str = "OPENAI_API_KEY"  # the environment variable that holds the endpoint's key
    retries: int = 2  # for each request that the endpoint refuses for now
    concurrency: int = 16  # requests to the endpoint at once, a worker
    max_tokens: int = 1024  # the longest answer of a language model
    workers: int = 1  # judge actors
    cpus: float = 0.0  # a worker, reserved with Ray
    gpus: float = 0.0  # a worker, reserved with Ray
    threads: int = 1  # a worker
    deadline_s: float = 60.0  # a reply not judged by then is left out of its group
    max_batch: int = 32  # replies judged at once
    cache_entries: int = 100_000  # judgements kept by content; 0: none


@dataclass
class GrpoConfig:
    """Group-relative policy optimisation (specification §6; calibration: directives §4)."""

    group_size: int = 4  # K
    min_group_size: int = 2  # smaller groups get weight 0
    normalise: str = "std"  # std | mean (subtract the mean only)
    epsilon: float = 1e-6  # keeps the division by a group's deviation finite
    clip_low: float = 0.2  # the ratio is clipped from below at 1 - clip_low
    clip_high: float = 0.28  # and from above at 1 + clip_high
    aggregation: str = "token_mean"  # token_mean | sequence_mean
    kl_beta: float = 0.0  # weight of the KL to the reference; 0: no reference
    updates_per_batch: int = 1  # optimiser steps on each batch
    importance_cap: float = 2.0  # C of the truncated importance weight π_prox / π_behaviour
    calibration: str = "quality_only"  # quality_only | fixed_bonus | calibrated
    calibration_margin: float = 0.1  # m
    fixed_bonus: float = 0.5  # λ_b
    clamp_violators: bool = False  # true: a violator's advantage is at most 0
    skip_all_violating: bool = False  # true: groups without a compliant turn get weight 0


@dataclass
class OptimizerConfig:
    """AdamW and its schedule."""

    learning_rate: float = 5e-6  # at the schedule's peak; 0 is allowed (drift test)
    weight_decay: float = 0.0  # decoupled
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])  # two
    epsilon: float = 1e-8  # in AdamW's denominator
    max_grad_norm: float = 1.0  # gradients are scaled down to this norm
    warmup_steps: int = 0  # linear, counted in optimiser steps
    schedule: str = "cosine"  # cosine | constant


@dataclass
class LearnerConfig:
    """The DeepSpeed learner."""

    world_size: int = 1  # ranks
    cpus: float = 1.0  # a rank
    gpus: float = 0.0  # a rank; 0 trains on the CPU
    threads: int = 2  # a rank
    dtype: str = "float32"  # float32 | bfloat16 | float64 (tests)
    backend: str = "gloo"  # gloo | nccl (needs GPUs)
    zero_stage: int = 0  # DeepSpeed ZeRO: 0 | 1 | 2 | 3
    micro_batch_tokens: int = 2048  # padded tokens in one forward pass
    logprob_chunk_tokens: int = 256  # positions whose logits are held at once
    gradient_checkpointing: bool = True  # true: less memory, one more forward pass
    start_deadline_s: float = 300.0  # all ranks ready by then, or the run stops
    step_deadline_s: float = 1800.0  # one training step, all ranks


@dataclass
class RolloutConfig:
    """The vLLM rollout workers."""

    workers: int = 1  # vLLM engines
    cpus: float = 1.0  # a worker
    gpus: float = 0.0  # a worker; 0 samples on the CPU
    threads: int = 2  # a worker, CPU only
    dtype: str = "float32"  # float32 | bfloat16 | float16
    kv_cache_gib: float = 1.0  # CPU only
    gpu_memory_utilization: float = 0.9  # GPU only
    tensor_parallel: int = 1  # GPUs that share one engine's model
    dense_adapters: bool = False  # CPU only: adapters by dense products instead of copied weights
    single_process: bool = False  # CPU only: vLLM's engine and its worker in one process
    max_loras: int = 4  # adapters held at once; trained seats × (S + 2) + frozen adapters at least
    max_concurrent_sequences: int = 64  # a worker; more wait in its queue
    enforce_eager: bool = True  # false: compile and capture graphs at start (GPU)
    start_deadline_s: float = 300.0  # engines ready by then, or the run stops
    request_deadline_s: float = 300.0  # one turn's K completions
    publish_deadline_s: float = 120.0  # a new adapter version served by every worker
    probe_tolerance: float = 1e-3  # largest |log-prob difference| of the arrival check


@dataclass
class SimulatorConfig:
    """The actors that run dialogues."""

    workers: int = 1  # simulator actors
    cpus: float = 0.0  # a worker
    concurrent_episodes: int = 16  # dialogues that one worker runs at once
    episode_deadline_s: float = 900.0  # an episode not finished by then has failed, and is counted
    max_attempts: int = 2  # an episode whose actor died is issued again up to this often


@dataclass
class TrainConfig:
    """The loop: how many steps, how much a step holds, how stale a sample may be."""

    steps: int = 6  # training steps of the whole run
    episodes_per_step: int = 2  # B
    staleness: int = 0  # S; 0 is synchronous
    checkpoint_every: int = 1  # steps
    keep_checkpoints: int = 2  # the newest ones
    max_mismatch_kl: float = 0.05  # sampler-learner mismatch that stops the run
    max_failed_episodes: int = 20  # failures in a row that stop the run
    seat: str = "assistant"  # who is trained


@dataclass
class ClusterConfig:
    """How to reach Ray."""

    address: str = ""  # empty: the running job's cluster, or a local Ray; else an address or "auto"
    connect_deadline_s: float = 30.0  # Ray answers by then, or the run stops
    placement_deadline_s: float = 120.0  # CPUs and GPUs granted by then, or the run stops
    placement_strategy: str = "PACK"  # PACK | SPREAD | STRICT_PACK | STRICT_SPREAD


@dataclass
class Config:
    """One resolved configuration of a run."""

    recipe: str = "discover"  # the chosen file of configs/recipe
    hardware: str = "cpu"  # the chosen file of configs/hardware
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
