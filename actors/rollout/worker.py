"""The rollout worker: one vLLM engine that samples for every seat and adapter version."""

import asyncio
import itertools
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.rollout.adapter_folder import AdapterFolder
from actors.rollout.options import RolloutOptions
from rl.episode.outcome import FinishReason
from rl.policy.adapter import AdapterFiles, read_adapter, write_adapter
from rl.policy.version import AdapterVersion
from rl.sampling import Completion, SampleRequest, SampleResult, SamplingError

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest
    from vllm.outputs import RequestOutput

LATEST = "latest"


@dataclass(frozen=True)
class Arrival:
    """Proof that an adapter arrived: the digest of the files that the engine was given, and the
    log-probs of the probe's tokens at temperature 1 (each given those before it)."""

    version: str
    digest: str
    probe_logprobs: tuple[float, ...]


class RolloutWorker:
    """Samples K completions of one token prefix for any seat and adapter version.

    Invariant: all completions of one request are written by one immutable adapter version, which
    the result names; loading a newer version never touches a running request.

    When it dies, requests in flight fail with an actor error and the pool sends them elsewhere;
    the next publish cannot reach it and stops the run, which ``run.resume`` continues.
    """

    def __init__(self, options: RolloutOptions) -> None:
        self._options = options
        self._adapters: dict[str, LoRARequest] = {}
        self._latest: dict[str, AdapterVersion] = {}
        self._running: Counter[str] = Counter()
        self._retired: set[str] = set()
        self._adapter_ids = itertools.count(1)
        self._request_ids = itertools.count()
        self._folder: AdapterFolder | None = None  # only when there is something to put in
        self._counters: Counter[str] = Counter()
        self._engine: Any = None

    async def start(self) -> None:
        """Start the engine; call once, before anything else."""
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = AsyncEngineArgs(**self._options.engine_arguments())
        self._engine = AsyncLLM.from_engine_args(arguments)

    async def sample(self, request: SampleRequest) -> SampleResult:
        """Sample ``len(request.seeds)`` completions of one prefix.

        Raises:
            SamplingError: the prompt leaves no room for a turn, the version is not here, or the
                engine did not answer before its deadline.
        """
        room = self._options.context_tokens - len(request.prompt_ids)
        if room < request.max_tokens:
            raise SamplingError(
                f"prompt of {len(request.prompt_ids)} tokens leaves {room} of the "
                f"{request.max_tokens} wanted (context {self._options.context_tokens})"
            )
        version, adapter = self._resolve(request)
        self._running[version or ""] += 1
        try:
            outputs = await asyncio.wait_for(
                asyncio.gather(*(self._complete(request, seed, adapter) for seed in request.seeds)),
                self._options.request_deadline_s,
            )
        except TimeoutError:
            self._counters["request_deadline"] += 1
            raise SamplingError(f"no answer within {self._options.request_deadline_s} s") from None
        finally:
            self._running[version or ""] -= 1
            await self._drop_unused()
        completions = tuple(_completion(output) for output in outputs)
        cached = sum(output.num_cached_tokens or 0 for output in outputs)
        self._counters["prompt_tokens"] += len(request.prompt_ids) * len(outputs)
        self._counters["cached_prompt_tokens"] += cached
        self._counters["generated_tokens"] += sum(len(c.ids) for c in completions)
        return SampleResult(version, completions, cached)

    async def load_adapter(self, files: AdapterFiles, probe_ids: Sequence[int]) -> Arrival:
        """Load ``files`` as a new version, make it the seat's latest, and prove that it serves.

        Raises:
            ValueError: the version is already here; versions are immutable.
        """
        if files.version in self._adapters:
            raise ValueError(f"adapter {files.version} is loaded already; versions are immutable")
        self._folder = self._folder or AdapterFolder.create()
        folder = self._folder.path / files.version
        await asyncio.to_thread(write_adapter, files, folder)
        adapter = self._lora_request(files.version, folder)
        if not await self._engine.add_lora(adapter):
            raise RuntimeError(f"vLLM did not load adapter {files.version} from {folder}")
        self._adapters[files.version] = adapter
        arrived = await asyncio.to_thread(read_adapter, folder, files.version)
        logprobs = await self.probe(files.version, probe_ids)
        version = AdapterVersion.parse(files.version)
        if version.seat not in self._latest or self._latest[version.seat] < version:
            self._latest[version.seat] = version
        return Arrival(files.version, arrived.digest, logprobs)

    async def probe(self, version: str | None, ids: Sequence[int]) -> tuple[float, ...]:
        """Return the log-prob of ``ids[1:]``, each given the tokens before it, at temperature 1.

        One request a token, each asking what the next token would be, so that the answer comes
        by the way that samples. (vLLM's prompt log-probs would be one request, but with adapters
        on a CPU they kill the engine when other requests share their batch.) The prefix cache is
        not read, so that the answer comes from this version's own weights.
        """
        adapter = None if version is None else self._adapters[version]
        return tuple(
            await asyncio.wait_for(
                asyncio.gather(
                    *(
                        self._next_token_logprob(tuple(ids[:end]), ids[end], adapter)
                        for end in range(1, len(ids))
                    )
                ),
                self._options.request_deadline_s,
            )
        )

    async def retire(self, keep: Sequence[str]) -> None:
        """Drop every version not in ``keep`` as soon as no running request uses it."""
        self._retired = set(self._adapters) - set(keep)
        await self._drop_unused()

    async def versions(self) -> tuple[str, ...]:
        """Return the versions that can be sampled from."""
        return tuple(self._adapters)

    async def counters(self) -> dict[str, int]:
        """Return the counts since the start."""
        return dict(self._counters)

    async def shutdown(self) -> None:
        """Stop the engine's processes and remove the adapter files."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.shutdown)
        if self._folder is not None:
            self._folder.remove()

    def _resolve(self, request: SampleRequest) -> "tuple[str | None, LoRARequest | None]":
        if request.adapter is None:
            return None, None
        name = request.adapter
        if name == LATEST:
            latest = self._latest.get(request.seat)
            if latest is None:
                raise SamplingError(f"no adapter of seat {request.seat!r} was published here")
            name = str(latest)
        if name not in self._adapters:
            raise SamplingError(f"adapter {name} is not loaded here")
        return name, self._adapters[name]

    def _lora_request(self, version: str, folder: Path) -> "LoRARequest":
        from vllm.lora.request import LoRARequest

        return LoRARequest(version, next(self._adapter_ids), str(folder))

    async def _complete(
        self, request: SampleRequest, seed: int, adapter: "LoRARequest | None"
    ) -> "RequestOutput":
        from vllm import SamplingParams

        params = SamplingParams(
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            stop_token_ids=list(request.stop_ids),
            seed=seed,
            logprobs=0,
            detokenize=False,
        )
        return await self._final_output(request.prompt_ids, params, adapter)

    async def _next_token_logprob(
        self, ids: tuple[int, ...], token: int, adapter: "LoRARequest | None"
    ) -> float:
        from vllm import SamplingParams

        params = SamplingParams(
            max_tokens=1,
            temperature=1.0,
            seed=0,
            logprob_token_ids=[token],
            detokenize=False,
            skip_reading_prefix_cache=True,
        )
        output = await self._final_output(ids, params, adapter)
        logprobs = output.outputs[0].logprobs
        if logprobs is None:
            raise SamplingError("vLLM gave no log-probs")
        return float(logprobs[0][token].logprob)

    async def _final_output(
        self, ids: tuple[int, ...], params: "SamplingParams", adapter: "LoRARequest | None"
    ) -> "RequestOutput":
        from vllm.sampling_params import RequestOutputKind

        params.output_kind = RequestOutputKind.FINAL_ONLY
        final: RequestOutput | None = None
        async for output in self._engine.generate(
            {"prompt_token_ids": list(ids)},
            params,
            str(next(self._request_ids)),
            lora_request=adapter,
        ):
            final = output
        if final is None:
            raise SamplingError("the engine ended a request without an answer")
        return final

    async def _drop_unused(self) -> None:
        for version in [v for v in self._retired if not self._running[v]]:
            self._retired.discard(version)
            adapter = self._adapters.pop(version, None)
            if adapter is not None:
                await self._engine.remove_lora(adapter.lora_int_id)
                await asyncio.to_thread(shutil.rmtree, adapter.lora_path, True)


def _completion(output: "RequestOutput") -> Completion:
    """Take ids, log-probs and the reason for stopping from vLLM's answer."""
    sampled = output.outputs[0]
    if sampled.logprobs is None:
        raise SamplingError("vLLM gave no log-probs")
    pairs = zip(sampled.token_ids, sampled.logprobs, strict=True)
    logprobs = tuple(entry[token].logprob for token, entry in pairs)
    finish = FinishReason.STOP if sampled.finish_reason == "stop" else FinishReason.LENGTH
    return Completion(tuple(sampled.token_ids), logprobs, finish)
