"""Chunked log-probs against a full log-softmax, in values, gradients and memory."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rl.policy.logprobs import (
    PolicyLogprobs,
    gather_trained_positions,
    linear_head,
    policy_logprobs,
    token_logprobs,
)

VOCABULARY = 101


def tiny_llama(vocabulary=VOCABULARY, dtype=torch.float64, **changes):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {
        "vocab_size": vocabulary,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    return LlamaForCausalLM(LlamaConfig(**(shape | changes))).to(dtype)


def with_lora(model, targets=("q_proj", "v_proj")):
    """An adapter whose two halves are both random, so that it does something."""
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(
        r=4, target_modules=list(targets), task_type="CAUSAL_LM", init_lora_weights=False
    )
    return get_peft_model(model, lora)


def batch(vocabulary=VOCABULARY, rows=3, tokens=12):
    """Right-padded rows of different lengths, with trained spans of different lengths."""
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(0, vocabulary, (rows, tokens), generator=g)
    attention, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for row in range(rows):
        length = tokens - 2 * row
        attention[row, :length] = 1
        mask[row, length - 3 - row : length] = 1
    return ids, attention, mask


def full_logprobs(model, ids, attention, mask, temperature):
    """The definition: all logits, a log-softmax, the target's entry; 0 where not trained."""
    logits = model(input_ids=ids, attention_mask=attention).logits[:, :-1] / temperature
    picked = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return picked * mask[:, 1:]


def gradients(model, values):
    """Gradients of a fixed random combination of log-probs, by parameter name."""
    weights = torch.randn(values.shape, generator=torch.Generator().manual_seed(2)).to(values)
    trainable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    slopes = torch.autograd.grad((values * weights).sum(), trainable.values())
    return dict(zip(trainable, slopes, strict=True))


MODELS = {
    "all parameters": tiny_llama,
    "tied head": lambda: tiny_llama(tie_word_embeddings=True),
    "adapter, frozen head": lambda: with_lora(tiny_llama()),
    "adapter on the head": lambda: with_lora(tiny_llama(), ("q_proj", "lm_head")),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("chunk_tokens", [1, 5, 1000])
def test_pitfall_23_chunked_equals_full_in_values_and_gradients(kind, chunk_tokens):
    model = MODELS[kind]()
    ids, attention, mask = batch()
    ours = policy_logprobs(model, ids, attention, mask, 0.7, chunk_tokens)
    full = full_logprobs(model, ids, attention, mask, 0.7)
    assert ours.shape == (3, 11)
    torch.testing.assert_close(ours, full, rtol=0, atol=1e-10)
    expected = gradients(model, full)
    assert any(slope.abs().max() > 1e-3 for slope in expected.values())
    for name, slope in gradients(model, ours).items():
        torch.testing.assert_close(slope, expected[name], rtol=0, atol=1e-10, msg=name)


@pytest.mark.parametrize("frozen", [False, True])
def test_gradcheck(frozen):
    g = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    hidden, weight, bias = draw(5, 3).requires_grad_(), draw(7, 3), draw(7)
    targets = torch.tensor([0, 6, 3, 3, 1])
    if frozen:
        assert torch.autograd.gradcheck(
            lambda h: token_logprobs(h, linear_head(weight, bias), targets, 0.7, 2), (hidden,)
        )
        return
    weight.requires_grad_(), bias.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda h, w, b: token_logprobs(h, linear_head(w, b), targets, 0.7, 2),
        (hidden, weight, bias),
    )


def test_two_tokens_by_hand():
    hidden = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    values = token_logprobs(hidden, linear_head(weight), torch.tensor([0, 2]), 0.5, 1)
    # logits / 0.5: (2, 0, 0) and (0, 4, 0)
    e = torch.tensor([2.0, 4.0], dtype=torch.float64).exp()
    expected = torch.stack([2 - torch.log(e[0] + 2), -torch.log(e[1] + 2)])
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-12)


class LargestTensor(TorchDispatchMode):
    """Records the most elements that any operation's output has, forward and backward."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.numel())
        return result


def largest(model, tokens, scored):
    """The largest tensor of one forward and backward pass over two rows of ``tokens``."""
    ids = torch.randint(0, 8192, (2, tokens), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[:, 0] = 0
    with LargestTensor() as seen:
        scored(model, ids, torch.ones_like(ids), mask).sum().backward()
    return seen.elements


@pytest.mark.parametrize("wrap", [with_lora, lambda model: model], ids=["frozen", "trainable"])
def test_pitfall_23_the_largest_tensor_does_not_grow_with_sequence_times_vocabulary(wrap):
    vocabulary, hidden, chunk = 8192, 64, 16
    model = wrap(tiny_llama(vocabulary, torch.float32))

    def chunked(model, ids, attention, mask):
        return policy_logprobs(model, ids, attention, mask, 1.0, chunk)

    def full(model, ids, attention, mask):
        return full_logprobs(model, ids, attention, mask, 1.0)

    bound = vocabulary * max(hidden, chunk)  # the head itself, or one chunk of logits
    assert largest(model, 80, chunked) <= bound
    assert largest(model, 160, chunked) == largest(model, 80, chunked)
    assert largest(model, 80, full) >= 2 * 79 * vocabulary  # the measure does see logits


def test_pitfall_23_chunks_of_logits_are_not_kept_for_the_backward_pass():
    hidden = torch.randn(64, 8, requires_grad=True)
    weight = torch.randn(1000, 8)
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        values = token_logprobs(hidden, linear_head(weight), torch.zeros(64, dtype=int), 1.0, 16)
    assert max(kept, default=0) < 16 * 1000
    values.sum().backward()
    assert hidden.grad.abs().sum() > 0


def test_pitfall_06_the_ratio_is_one_at_the_samplers_temperature_only():
    model = with_lora(tiny_llama())
    ids, attention, mask = batch()
    with torch.no_grad():
        behaviour = full_logprobs(model, ids, attention, mask, 0.6)  # what the sampler reports
        same = policy_logprobs(model, ids, attention, mask, 0.6, 4)
        other = policy_logprobs(model, ids, attention, mask, 1.0, 4)
    trained = mask[:, 1:].bool()
    ratio = (same - behaviour).exp()[trained]
    torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=0, atol=1e-10)
    assert ((other - behaviour).exp()[trained] - 1).abs().max() > 0.05


def test_padding_changes_nothing():
    model = with_lora(tiny_llama())
    ids, attention, mask = batch()
    together = policy_logprobs(model, ids, attention, mask, 0.8, 4)
    for row in range(3):
        n = int(attention[row].sum())
        cut = [t[row : row + 1, :n] for t in (ids, attention, mask)]
        alone = policy_logprobs(model, *cut, 0.8, 4)
        torch.testing.assert_close(together[row : row + 1, : n - 1], alone, rtol=0, atol=1e-10)


def test_the_reference_is_the_policy_without_its_adapter():
    ids, attention, mask = batch()
    base = policy_logprobs(tiny_llama(), ids, attention, mask, 0.8, 4)
    model = with_lora(tiny_llama())
    with model.disable_adapter():
        reference = policy_logprobs(model, ids, attention, mask, 0.8, 4)
    torch.testing.assert_close(reference, base, rtol=0, atol=1e-10)
    assert (policy_logprobs(model, ids, attention, mask, 0.8, 4) - base).abs().max() > 1e-3


def test_low_precision_logits_are_normalised_in_float32():
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(6, 16, generator=g).bfloat16()
    weight = torch.randn(5000, 16, generator=g).bfloat16()
    targets = torch.arange(6)
    values = token_logprobs(hidden, linear_head(weight), targets, 1.0, 4)
    assert values.dtype is torch.float32
    logits = (hidden @ weight.T).double()  # the head's own rounding stays; the sum must not add any
    expected = logits.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)
    torch.testing.assert_close(values.double(), expected, rtol=0, atol=1e-4)


def test_pitfall_30_a_batch_without_trained_tokens_stays_on_the_graph():
    model = with_lora(tiny_llama())
    ids, attention, mask = batch()
    values = policy_logprobs(model, ids, attention, torch.zeros_like(mask), 0.8, 4)
    assert torch.equal(values, torch.zeros(3, 11, dtype=torch.float64))
    values.sum().backward()
    slopes = [p.grad for p in model.parameters() if p.requires_grad]
    assert all(torch.equal(slope, torch.zeros_like(slope)) for slope in slopes)


def test_the_module_gives_the_same():
    model = with_lora(tiny_llama())
    module = PolicyLogprobs(model, temperature=0.8, chunk_tokens=4)
    expected = policy_logprobs(model, *batch(), 0.8, 4)
    assert torch.equal(module(*batch()), expected)


def test_positions_that_predict_trained_tokens():
    hidden = torch.arange(2 * 4 * 1, dtype=torch.float64).reshape(2, 4, 1)
    ids = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23]])
    mask = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]])
    trained = gather_trained_positions(hidden, ids, mask)
    assert trained.hidden[:, 0].tolist() == [1, 2, 4]
    assert trained.targets.tolist() == [12, 13, 21]
    assert trained.where.tolist() == [[False, True, True], [True, False, False]]


def test_pitfall_10_a_trained_first_token_is_refused():
    with pytest.raises(ValueError, match="first token of a row"):
        gather_trained_positions(torch.zeros(1, 2, 3), torch.zeros(1, 2), torch.ones(1, 2))


def test_models_that_change_logits_after_the_head_are_refused():
    from transformers import Gemma2Config, Gemma2ForCausalLM

    shape = {"vocab_size": 11, "hidden_size": 16, "intermediate_size": 16, "head_dim": 8}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = Gemma2ForCausalLM(Gemma2Config(**shape, **heads, pad_token_id=0))
    ids, attention, mask = batch(vocabulary=11)
    with pytest.raises(ValueError, match=r"Gemma2ForCausalLM: final_logit_softcapping is 30"):
        policy_logprobs(model, ids, attention, mask, 1.0, 4)
    model.config.final_logit_softcapping = None
    model.double()
    ours = policy_logprobs(model, ids, attention, mask, 1.0, 4)
    torch.testing.assert_close(
        ours, full_logprobs(model, ids, attention, mask, 1.0), rtol=0, atol=1e-10
    )


def test_bad_input_is_named():
    model = tiny_llama()
    with pytest.raises(ValueError, match="LlamaModel has no output head"):
        policy_logprobs(model.model, *batch(), 1.0, 4)
    with pytest.raises(ValueError, match="temperature is 0"):
        policy_logprobs(model, *batch(), 0.0, 4)
    with pytest.raises(ValueError, match="chunk_tokens is 0"):
        policy_logprobs(model, *batch(), 1.0, 0)
