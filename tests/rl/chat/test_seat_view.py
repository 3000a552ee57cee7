"""The trained seat's token tree: masks, forks, closings, on real tokenizers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.chat.format import ChatFormat
from rl.chat.template import assistant, user
from rl.chat.view import SeatView

VERSION = "assistant@0.1"


def logprobs(ids):
    return tuple(-0.5 - index for index, _ in enumerate(ids))


def sampled_replies(chat):
    """What a sampler may return: any ids (no text need lie behind them), ended or cut."""
    ids = st.lists(st.integers(3, chat.tokenizer.vocab_size - 1), max_size=12).map(tuple)
    plain = ids.filter(lambda i: chat.kept_ids(i) == i and not set(i) & set(chat.end_of_turn_ids))
    thought = plain.map(lambda i: chat.encode("<think>\nhm\n</think>\n\n") + i)
    body = plain | thought
    return st.builds(lambda i, ended: i + chat.end_of_turn_ids[:1] * ended, body, st.booleans())


@settings(deadline=None, max_examples=25)
@given(data=st.data(), turns=st.integers(1, 4), k=st.integers(2, 4))
def test_pitfall_10_mask_is_one_exactly_on_the_trained_seats_sampled_tokens(chat, data, turns, k):
    view, history, written = SeatView(chat), chat.opening_ids("S", "U0"), {}
    view.open("S", "U0")
    for turn in range(turns):
        parent, prefix = view.generation_prefix()
        assert view.generation_prefix() == (parent, prefix)
        assert prefix == history + chat.assistant_open_ids + chat.generation_suffix_ids
        assert view.tokens_used() == len(prefix)
        replies = [data.draw(sampled_replies(chat)) for _ in range(k)]
        spans = [view.add_candidate(ids, logprobs(ids), VERSION) for ids in replies]
        written |= {s: (prefix, ids) for s, ids in zip(spans, replies, strict=True)}
        choice = data.draw(st.integers(0, k - 1))
        view.commit(spans[choice])
        kept = chat.kept_ids(replies[choice])
        history += chat.assistant_open_ids + kept + chat.close_assistant_ids(kept)
        assert view.tokens_used() == len(history)
        if turn < turns - 1:
            view.add_user(f"U{turn + 1}")
            history += chat.user_turn_ids(f"U{turn + 1}")
    tree = view.build(dict.fromkeys(written, 1.5))
    assert tree.prefix_ids(len(tree.spans) - 1) in (history, written_path(written, tree))
    assert [span.id for span in tree.sampled()] == sorted(written)
    for span in tree.spans:
        assert span.mask == (int(span.id in written),) * len(span.ids)
    for span, (prefix, ids) in written.items():
        assert tree.prefix_ids(span) == prefix + ids  # sampled after exactly what is on the path
        assert tree.spans[span].logprobs == logprobs(ids)
        assert (tree.spans[span].version, tree.spans[span].reward) == (VERSION, 1.5)


def written_path(written, tree):
    """The last span's path when it is a candidate (its closing may be empty)."""
    prefix, ids = written.get(len(tree.spans) - 1, ((), ()))
    return prefix + ids


def finished(chat, text):
    return chat.encode(text) + chat.end_of_turn_ids[:1]


def run_one_turn(chat, *replies, commit=0):
    view = SeatView(chat)
    view.open(None, "Hi")
    view.generation_prefix()
    spans = [view.add_candidate(ids, logprobs(ids), VERSION) for ids in replies]
    view.commit(spans[commit])
    return view, spans


def parents(view):
    return [span.parent for span in view.build().spans]


def test_trunk_runs_through_the_committed_candidate(smollm2):
    chat = ChatFormat.from_tokenizer(smollm2)
    view, _ = run_one_turn(chat, finished(chat, "A"), finished(chat, "B"), commit=1)
    view.add_user("more")
    view.generation_prefix()
    # opening, open, A, B, close after B, user, open
    assert parents(view) == [None, 0, 1, 1, 3, 4, 5]
    spans = view.build().spans
    assert [smollm2.decode(span.ids) for span in spans[1:]] == [
        "<|im_start|>assistant\n",
        "A<|im_end|>",
        "B<|im_end|>",
        "\n",
        "<|im_start|>user\nmore<|im_end|>\n",
        "<|im_start|>assistant\n",
    ]


def test_nothing_closes_a_finished_llama_turn(llama):
    chat = ChatFormat.from_tokenizer(llama)
    view, _ = run_one_turn(chat, finished(chat, "A"), finished(chat, "B"))
    view.add_user("more")
    assert parents(view) == [None, 0, 1, 1, 2]  # opening, open, A, B, user after A


def test_pitfall_11_empty_thinking_block_forks(qwen):
    chat = ChatFormat.from_tokenizer(qwen)
    view, spans = run_one_turn(chat, finished(chat, "A"), finished(chat, "B"), commit=1)
    view.add_user("more")
    # opening, open, suffix, A, B, copy of B, user
    assert parents(view) == [None, 0, 1, 2, 2, 1, 5]
    tree = view.build()
    assert qwen.decode(tree.spans[2].ids) == "<think>\n\n</think>\n\n"
    assert tree.spans[5].ids == tree.spans[4].ids + chat.encode("\n")
    assert not tree.spans[5].sampled and tree.spans[5].logprobs == ()
    assert list(tree.sampled()) == [tree.spans[span] for span in spans]
    messages = [user("Hi"), assistant("B"), user("more")]
    assert tree.prefix_ids(6) == chat.messages_ids(messages, False)


def test_pitfall_11_thinking_forks_only_the_turn_that_thought(qwen):
    chat = ChatFormat.from_tokenizer(qwen, enable_thinking=True)
    thought, plain = finished(chat, "<think>\nhm\n</think>\n\nA"), finished(chat, "B")
    view, _ = run_one_turn(chat, thought, plain, commit=0)
    view.add_user("more")
    assert parents(view) == [None, 0, 1, 1, 1, 4]  # opening, open, A, B, copy of A, user
    messages = [user("Hi"), assistant("A"), user("more")]
    assert view.build().prefix_ids(5) == chat.messages_ids(messages, False)
    view, _ = run_one_turn(chat, thought, plain, commit=1)
    assert parents(view) == [None, 0, 1, 1, 3]  # close after B


def test_pitfall_13_a_cut_turn_is_closed_by_a_token_that_was_not_sampled(chat):
    cut = chat.encode("I would like to")
    view, (span,) = run_one_turn(chat, cut)
    view.add_user("go on")
    tree = view.build()
    messages = [user("Hi"), assistant("I would like to"), user("go on")]
    assert tree.prefix_ids(len(tree.spans) - 1) == chat.messages_ids(messages, False)
    assert tree.spans[span].ids == cut
    for sampled in tree.sampled():
        assert not set(sampled.ids) & set(chat.end_of_turn_ids)


def test_pitfall_13_every_turn_keeps_its_own_end(smollm2):
    """A cut turn and a finished one after it leave a history of two whole turns."""
    chat = ChatFormat.from_tokenizer(smollm2)
    view, _ = run_one_turn(chat, chat.encode("cut"))
    view.add_user("go on")
    view.generation_prefix()
    done = finished(chat, "done")
    view.commit(view.add_candidate(done, logprobs(done), VERSION))
    tree = view.build()
    messages = [user("Hi"), assistant("cut"), user("go on"), assistant("done")]
    assert tree.prefix_ids(len(tree.spans) - 1) == chat.messages_ids(messages, False)


def test_turns_go_in_order(smollm2):
    chat = ChatFormat.from_tokenizer(smollm2)
    view = SeatView(chat)
    with pytest.raises(ValueError, match="no reply is due"):
        view.generation_prefix()
    with pytest.raises(ValueError, match="follows a committed reply"):
        view.add_user("u")
    view.open(None, "u")
    with pytest.raises(ValueError, match="opened already"):
        view.open(None, "u")
    with pytest.raises(ValueError, match="follows a committed reply"):
        view.add_user("u")
    with pytest.raises(ValueError, match="need a generation prefix"):
        view.add_candidate((5,), (-1.0,), VERSION)
    view.generation_prefix()
    with pytest.raises(ValueError, match="no candidate of this turn"):
        view.commit(0)
    first = view.add_candidate((5,), (-1.0,), VERSION)
    view.commit(first)
    with pytest.raises(ValueError, match="no candidate of this turn"):
        view.commit(first)
    with pytest.raises(ValueError, match="need a generation prefix"):
        view.add_candidate((5,), (-1.0,), VERSION)
    with pytest.raises(ValueError, match="no reply is due"):
        view.generation_prefix()
    view.add_user("v")
    view.generation_prefix()
    with pytest.raises(ValueError, match="no candidate of this turn"):
        view.commit(first)
