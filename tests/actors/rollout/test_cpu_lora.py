"""The dense adapter product against one product for each token."""

import pytest
import torch

pytestmark = pytest.mark.stack

SLOTS, RANK, INPUT, SLICES = 3, 2, 5, (4, 6)


def test_each_token_gets_its_own_adapter_and_tokens_without_one_get_nothing() -> None:
    from actors.rollout.cpu_lora import add_dense_lora

    torch.manual_seed(0)
    a = [torch.randn(SLOTS, 1, RANK, INPUT, dtype=torch.float64) for _ in SLICES]
    b = [torch.randn(SLOTS, 1, width, RANK, dtype=torch.float64) for width in SLICES]
    states = torch.randn(6, INPUT, dtype=torch.float64)
    slot_of_token = torch.tensor([0, -1, 2, 2, 1, -1])
    before = torch.randn(6, sum(SLICES), dtype=torch.float64)
    output = before.clone()
    add_dense_lora(output, states, a, b, 0.5, SLICES, slot_of_token)

    for token, slot in enumerate(slot_of_token.tolist()):
        change = torch.zeros(sum(SLICES), dtype=torch.float64)
        if slot >= 0:
            change = torch.cat(
                [0.5 * b[i][slot, 0] @ (a[i][slot, 0] @ states[token]) for i in range(len(SLICES))]
            )
        torch.testing.assert_close(output[token], before[token] + change)


def test_importing_the_extension_replaces_vllms_product() -> None:
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    import actors.rollout.cpu_lora as cpu_lora
    from actors.rollout.options import CPU_WORKER_EXTENSION

    assert PunicaWrapperCPU.add_lora_linear.__module__ == cpu_lora.__name__
    module, _, name = CPU_WORKER_EXTENSION.rpartition(".")
    assert (module, name) == (cpu_lora.__name__, cpu_lora.DenseLoraWorker.__name__)
