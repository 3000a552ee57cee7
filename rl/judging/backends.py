"""Makes the judge that a configuration names."""

from rl.config.schema import JudgeConfig
from rl.judging.cache import CachedJudge
from rl.judging.interface import Judge


def make_judge(config: JudgeConfig) -> Judge:
    """Return the judge that ``config`` names, behind a cache unless it is to have no entries."""
    judge = _backend(config)
    return CachedJudge(judge, config.cache_entries) if config.cache_entries else judge


def _backend(config: JudgeConfig) -> Judge:
    if config.backend == "cues":
        from rl.judging.cues import CueJudge

        return CueJudge()
    if config.backend == "llm":
        return _llm(config)
    from rl.judging.embedded import EmbeddedJudge

    return EmbeddedJudge()


def _llm(config: JudgeConfig) -> Judge:
    from rl.judging.llm import LlmJudge
    from rl.llm.endpoint import EndpointClient

    return LlmJudge(
        name=f"llm:{config.model or config.endpoint}",
        make_client=lambda: EndpointClient(
            config.endpoint, config.model, config.key_name, config.deadline_s, config.retries
        ),
        deadline_s=config.deadline_s,
        concurrency=config.concurrency,
        max_tokens=config.max_tokens,
    )
