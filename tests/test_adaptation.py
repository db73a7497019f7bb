from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from onelayer.adaptation import (
    AdaptationError,
    apply_adaptation,
    block_prefixes,
    boost_rates,
    boosted_names,
    check_moved,
    check_rates,
    check_trainable,
    find_anatomy,
    tensor_hashes,
    trained_names,
)
from onelayer.grid import Ranked, Run

FULL = Run("full-s0", "full", seed=0)


def layer(index: int) -> Run:
    return Run(f"layer-{index:02d}-s0", "layer", layers=(index,), seed=0)


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=20, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=32, tie_word_embeddings=True, pad_token_id=0,
        eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def test_layers_are_disjoint_and_add_up_to_all_blocks(model: Any) -> None:
    sets = [trained_names(model, layer(index)) for index in range(3)]
    everything = trained_names(model, FULL)
    union = frozenset().union(*sets)
    assert sum(map(len, sets)) == len(union)
    assert everything - union == {"model.embed_tokens.weight", "model.norm.weight"}  # the head is tied
    assert {name.split(".", 3)[3] for name in sets[1]} >= {
        "self_attn.q_proj.weight",
        "mlp.down_proj.weight",
        "input_layernorm.weight",
    }


def test_only_the_layer_gets_a_gradient_and_the_backward_pass_ends_there(model: Any) -> None:
    names = apply_adaptation(model, layer(1))
    seen: dict[int, bool] = {}
    for index, block in enumerate(model.model.layers):
        block.register_forward_hook(lambda _m, args, _o, i=index: seen.update({i: args[0].requires_grad}))
    model(input_ids=torch.tensor([[2, 3, 4]]), labels=torch.tensor([[2, 3, 4]])).loss.backward()
    assert seen == {0: False, 1: False, 2: True}
    assert {name for name, p in model.named_parameters() if p.grad is not None} == names


def test_an_optimizer_with_other_parameters_is_refused(model: Any) -> None:
    names = apply_adaptation(model, layer(1))
    right = [p for n, p in model.named_parameters() if n in names]
    check_trainable(model, torch.optim.AdamW(right), names)
    with pytest.raises(AdaptationError, match="in the optimizer: missing"):
        check_trainable(model, torch.optim.AdamW(right[:-1]), names)
    with pytest.raises(AdaptationError, match=r"in the optimizer: missing .* unexpected"):
        check_trainable(model, torch.optim.AdamW(list(model.model.layers[0].parameters())), names)
    model.model.norm.weight.requires_grad_(True)
    with pytest.raises(AdaptationError, match=r"trainable: missing \[\], unexpected \['model\.norm\.weight'\]"):
        check_trainable(model, torch.optim.AdamW(right), names)


def step(model: Any, names: frozenset[str], rate: float) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW([p for n, p in model.named_parameters() if n in names], lr=rate)
    model(input_ids=torch.tensor([[2, 3, 4]]), labels=torch.tensor([[2, 3, 4]])).loss.backward()
    optimizer.step()
    return optimizer


def test_moved_and_only_that(model: Any) -> None:
    base = tensor_hashes(model)
    names = apply_adaptation(model, layer(2))
    optimizer = torch.optim.AdamW([p for n, p in model.named_parameters() if n in names])
    assert check_moved(model, base, optimizer, names) is False  # no step yet: nothing moved, and no gradient
    optimizer = step(model, names, 1e-3)
    assert check_moved(model, base, optimizer, names) is True
    with torch.no_grad():
        model.model.norm.weight[0] += 1e-7
    with pytest.raises(AdaptationError, match=r"model\.norm\.weight: frozen, yet it differs"):
        check_moved(model, base, optimizer, names)


def test_a_rate_below_resolution_is_an_error_not_a_result(model: Any) -> None:
    base = tensor_hashes(model)
    names = apply_adaptation(model, layer(0))
    optimizer = step(model, names, 1e-30)
    with pytest.raises(AdaptationError, match="had a gradient, yet it did not move"):
        check_moved(model, base, optimizer, names)


def test_blocks_must_be_found_once() -> None:
    class Strange(torch.nn.Module):
        def __init__(self, lists: int) -> None:
            super().__init__()
            self.config = Qwen3Config(num_hidden_layers=2)
            self.lists = torch.nn.ModuleDict(
                {str(i): torch.nn.ModuleList([torch.nn.Linear(1, 1) for _ in range(2)]) for i in range(lists)}
            )

    assert block_prefixes(Strange(1)) == ("lists.0.0.", "lists.0.1.")
    for lists in (0, 2):
        with pytest.raises(AdaptationError, match="expected one list of 2 decoder blocks"):
            block_prefixes(Strange(lists))


def test_blocks_of_their_own(model: Any) -> None:
    anatomy = find_anatomy(model)
    assert anatomy.embeddings == {"model.embed_tokens.weight"}
    assert anatomy.head == frozenset()  # tied
    assert anatomy.others == {"model.norm.weight"}
    model.model.layers[2].mlp = model.model.layers[1].mlp
    with pytest.raises(AdaptationError, match=r"found one shared by model\.layers\.1\., model\.layers\.2\."):
        find_anatomy(model)


def test_a_block_without_parameters_is_refused(model: Any) -> None:
    model.model.layers[1] = torch.nn.Identity()
    with pytest.raises(AdaptationError, match=r"expected a parameter in every block, found none in model\.layers\.1"):
        find_anatomy(model)


def test_a_buffer_that_a_checkpoint_keeps_must_stay(model: Any) -> None:
    model.register_buffer("kept", torch.zeros(2))
    base = tensor_hashes(model)
    names = apply_adaptation(model, layer(2))
    optimizer = step(model, names, 1e-3)
    assert check_moved(model, base, optimizer, names) is True
    model.kept += 1
    with pytest.raises(AdaptationError, match="kept: a buffer, yet it differs"):
        check_moved(model, base, optimizer, names)


BOOST = Run("boost-best2-s0", "boost", layers=(0, 2), seed=0, ranked=Ranked("best", 2), boost=2.0)


def test_a_boost_trains_everything_and_some_of_it_faster(model: Any) -> None:
    assert trained_names(model, BOOST) == trained_names(model, FULL)
    assert boosted_names(model, BOOST) == trained_names(model, layer(0)) | trained_names(model, layer(2))
    assert boosted_names(model, FULL) == boosted_names(model, layer(1)) == frozenset()
    with pytest.raises(AdaptationError, match="its layers are not known yet"):
        trained_names(model, Run("only-best2-s0", "only", seed=0, ranked=Ranked("best", 2)))


def decaying(model: Any, rate: float) -> torch.optim.Optimizer:
    """An optimizer whose groups differ in weight decay, as transformers makes them."""
    norms = [p for n, p in model.named_parameters() if "norm" in n]
    others = [p for n, p in model.named_parameters() if "norm" not in n]
    return torch.optim.SGD([{"params": others, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}], lr=rate)


def test_every_parameter_has_the_rate_that_a_boost_gives_it(model: Any) -> None:
    optimizer, boosted = decaying(model, 0.5), boosted_names(model, BOOST)
    boost_rates(model, optimizer, boosted, 2.0)
    check_trainable(model, optimizer, trained_names(model, BOOST))
    names = {id(p): n for n, p in model.named_parameters()}
    found = {names[id(p)]: (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    assert found == {name: (1.0 if name in boosted else 0.5, 0.0 if "norm" in name else 0.1) for name in names.values()}
    assert optimizer.param_groups[0]["lr"] == 0.5  # the one that a trainer logs
    weights = check_rates(model, optimizer, 0.5, boosted, 2.0)
    faster = sum(p.numel() for n, p in model.named_parameters() if n in boosted)
    assert weights == {"0.5": sum(p.numel() for p in model.parameters()) - faster, "1": faster}


def test_a_wrong_rate_is_refused(model: Any) -> None:
    optimizer, boosted = decaying(model, 0.5), boosted_names(model, BOOST)
    with pytest.raises(AdaptationError, match=r"layers\.0\..*: found the learning rate 0\.5, expected 1"):
        check_rates(model, optimizer, 0.5, boosted, 2.0)
    boost_rates(model, optimizer, boosted, 2.0)
    with pytest.raises(AdaptationError, match=r"found the learning rate 1, expected 0\.5"):
        check_rates(model, optimizer, 0.5, frozenset(), 2.0)


def test_boosted_layers_move_as_many_times_as_far_and_a_schedule_scales_both(model: Any) -> None:
    boosted = boosted_names(model, BOOST)
    moves = []
    for factor in (1.0, 3.0):
        start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        boost_rates(model, optimizer, boosted, factor)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.5)
        assert schedule.get_last_lr() == [0.5, 0.5 * factor]
        model(input_ids=torch.tensor([[2, 3, 4]]), labels=torch.tensor([[2, 3, 4]])).loss.backward()
        optimizer.step()
        moves.append({name: parameter.detach() - start[name] for name, parameter in model.named_parameters()})
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(start[name])
        model.zero_grad()
    for name in start:
        expected = moves[0][name] * (3.0 if name in boosted else 1.0)
        assert torch.allclose(moves[1][name], expected, rtol=1e-4, atol=5e-7), name
        assert bool(expected.any()), name
