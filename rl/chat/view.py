"""The trained assistant's view of one dialogue, grown turn by turn as a tree of token spans."""

from rl.chat.format import ChatFormat
from rl.episode.tokens import TokenTree, TokenTreeBuilder

Ids = tuple[int, ...]


class SeatView:
    """Grows the token tree of the trained seat: K candidates a turn, one of them committed.

    Where the sampled path is a prefix of the history (SmolLM2, Llama) the trunk runs through the
    committed candidate; ``close`` is left out when it is empty::

        opening ─ open ┬ candidate
                       ├ candidate ─ close ─ user ─ open ┬ …
                       └ candidate

    Where it is not, since the prompt ends in a generation suffix (Qwen 3's empty thinking block) or
    the committed reply holds thinking that the template strips, the candidates are side branches,
    and the committed ids are copied into the trunk, where they are context and not sampled::

        opening ─ open ┬ suffix ┬ candidate
                       │        └ candidate
                       └ copy and close ─ user ─ open ┬ …

    Only candidates are sampled spans (mask 1, pitfall 10); their ids are the sampler's own
    (pitfall 11). A reply cut at its length gets its end-of-turn token in ``close``.

    Turns go ``open``, then again and again ``generation_prefix``, ``add_candidate`` (K times),
    ``commit``, ``add_user``; another order raises :class:`ValueError`.
    """

    def __init__(self, chat: ChatFormat, builder: TokenTreeBuilder | None = None) -> None:
        self._chat = chat
        self._builder = builder or TokenTreeBuilder()
        self._trunk: int | None = None  # the last span of the history
        self._user_spoke = False  # the history ends with a user turn: a reply is due
        self._prefix: int | None = None  # what this turn's candidates hang off
        self._candidates: dict[int, Ids] = {}  # of this turn, by span

    def open(self, system: str | None, user_text: str) -> int:
        """Begin the dialogue and return the opening's span."""
        if self._trunk is not None:
            raise ValueError("the dialogue has been opened already")
        self._extend(self._chat.opening_ids(system, user_text))
        self._user_spoke = True
        assert self._trunk is not None
        return self._trunk

    def generation_prefix(self) -> tuple[int, Ids]:
        """Return the span that candidates hang off and all ids up to its end, to sample after.

        Asking again before the commit returns the same.
        """
        if not self._user_spoke:
            raise ValueError("no reply is due: the history does not end with a user turn")
        if self._prefix is None:
            self._extend(self._chat.assistant_open_ids)
            suffix = self._chat.generation_suffix_ids
            self._prefix = self._builder.add(self._trunk, suffix) if suffix else self._trunk
        assert self._prefix is not None
        return self._prefix, self._builder.prefix_ids(self._prefix)

    def add_candidate(self, ids: Ids, logprobs: tuple[float, ...], version: str) -> int:
        """Add one sampled reply and return its span; ``ids`` and ``logprobs`` as sampled."""
        if self._prefix is None:
            raise ValueError("candidates need a generation prefix first")
        span = self._builder.add_sampled(self._prefix, ids, logprobs, version)
        self._candidates[span] = ids
        return span

    def commit(self, candidate: int) -> int:
        """Let the dialogue go on with one of this turn's candidates; return the history's end."""
        if candidate not in self._candidates:
            raise ValueError(f"span {candidate} is no candidate of this turn")
        ids = self._candidates[candidate]
        kept = self._chat.kept_ids(ids)
        closing = self._chat.close_assistant_ids(kept)
        if self._prefix == self._trunk and kept == ids:
            self._trunk = candidate
            self._extend(closing)
        else:
            self._extend(kept + closing)
        self._user_spoke, self._prefix, self._candidates = False, None, {}
        assert self._trunk is not None
        return self._trunk

    def add_user(self, text: str) -> int:
        """Append a user turn and return its span."""
        if self._trunk is None or self._user_spoke:
            raise ValueError("a user turn follows a committed reply")
        self._extend(self._chat.user_turn_ids(text))
        self._user_spoke = True
        return self._trunk

    def tokens_used(self) -> int:
        """Return the length of the path so far: the history, and the generation prefix if asked."""
        return len(self._builder.prefix_ids(self._trunk if self._prefix is None else self._prefix))

    def build(self, rewards: dict[int, float] | None = None) -> TokenTree:
        """Return the tree so far, with the reward of each span in ``rewards``."""
        return self._builder.build(rewards)

    def _extend(self, ids: Ids) -> None:
        if ids:
            self._trunk = self._builder.add(self._trunk, ids)
