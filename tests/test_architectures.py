"""Every class of model: its parts are found, one layer trains, and what is exported comes back bit for bit.

The models are tiny and random. One stands for each way in which classes differ: where the blocks lie, how the head is
tied, what a checkpoint's files call a tensor, which layers look back over a window.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GenerationConfig

from conftest import TINY, deep_copy, write_params, write_study
from onelayer import phases
from onelayer.adaptation import apply_adaptation, check_moved, find_anatomy, tensor_hashes, trained_names
from onelayer.base import base_manifest
from onelayer.config import load_study
from onelayer.errors import UserError
from onelayer.grid import Run
from onelayer.manifest import write_manifest
from onelayer.models import adapt, export_model, load_base, make_micro_tokenizer, save_adapted
from onelayer.pinning import check_usable
from onelayer.rl.grpo import OneLayerGRPOTrainer, grpo_config
from onelayer.rl.rollout import Decoding, generate, row_seeds
from onelayer.training import Workplace
from onelayer.training_settings import Training

LAYERS = 3
TOKENIZER = make_micro_tokenizer("0123456789=+", 64)
COMMON: dict[str, Any] = {
    "vocab_size": len(TOKENIZER), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None, "initializer_range": 0.3,
}  # fmt: skip
SHAPE = COMMON | {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64,
}  # fmt: skip
GEMMA = SHAPE | {"head_dim": 8}
WINDOW = GEMMA | {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
EXPERTS = SHAPE | {"head_dim": 8, "num_experts": LAYERS, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
NEOX = {key: value for key, value in SHAPE.items() if key != "num_key_value_heads"}

# By name: the configuration, the module list of the blocks, the head's own parameters, and what else lies outside.
ARCHITECTURES: dict[str, tuple[str, dict[str, Any], str, set[str], set[str]]] = {
    "Qwen2.5": ("Qwen2Config", SHAPE, "model.layers", {"lm_head.weight"}, {"model.norm.weight"}),
    "Qwen3, tied": ("Qwen3Config", GEMMA | {"tie_word_embeddings": True}, "model.layers", set(), {"model.norm.weight"}),
    "Llama": ("LlamaConfig", SHAPE, "model.layers", {"lm_head.weight"}, {"model.norm.weight"}),
    "Gemma": ("GemmaConfig", GEMMA, "model.layers", set(), {"model.norm.weight"}),
    "Gemma 2": ("Gemma2Config", WINDOW, "model.layers", set(), {"model.norm.weight"}),
    "Gemma 3": ("Gemma3TextConfig", WINDOW, "model.layers", set(), {"model.norm.weight"}),
    "GPT-NeoX": (
        "GPTNeoXConfig", NEOX, "gpt_neox.layers", {"lm_head.weight"},
        {"gpt_neox.final_layer_norm.weight", "gpt_neox.final_layer_norm.bias"},
    ),
    "GPT-2": (
        "GPT2Config", COMMON | {"n_embd": 16, "n_layer": LAYERS, "n_head": 2, "n_positions": 64}, "transformer.h",
        set(), {"transformer.wpe.weight", "transformer.ln_f.weight", "transformer.ln_f.bias"},
    ),
    "Qwen3, experts": ("Qwen3MoeConfig", EXPERTS, "model.layers", {"lm_head.weight"}, {"model.norm.weight"}),
    "Mixtral": (
        "MixtralConfig", SHAPE | {"num_local_experts": LAYERS, "num_experts_per_tok": 2}, "model.layers",
        {"lm_head.weight"}, {"model.norm.weight"},
    ),
}  # fmt: skip
WITH_EXPERTS = ("Qwen3, experts", "Mixtral")
OTHER_NAMES_IN_FILES = ("GPT-NeoX", *WITH_EXPERTS)

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


def make(architecture: str) -> Any:
    name, settings, *_ = ARCHITECTURES[architecture]
    torch.manual_seed(0)
    config = getattr(transformers, name)(**settings)
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention(architecture)).eval()


def attention(architecture: str) -> str:
    """transformers has no other for Gemma 2, whose attention scores are soft-capped."""
    return "eager" if architecture == "Gemma 2" else "sdpa"


def layer(index: int) -> Run:
    return Run(f"layer-{index:02d}-s0", "layer", layers=(index,), seed=0)


@every_architecture
def test_layers_are_complete_disjoint_and_add_up_to_all_blocks(architecture: str) -> None:
    model = make(architecture)
    _, _, blocks, head, others = ARCHITECTURES[architecture]
    anatomy = find_anatomy(model)
    assert anatomy.blocks == tuple(f"{blocks}.{index}." for index in range(LAYERS))
    assert (anatomy.head, anatomy.others) == (head, others)
    sets = [trained_names(model, layer(index)) for index in range(LAYERS)]
    for index, names in enumerate(sets):
        block = model.get_submodule(f"{blocks}.{index}")
        assert names == {f"{blocks}.{index}.{name}" for name, _ in block.named_parameters()}
    union = frozenset().union(*sets)
    assert sum(map(len, sets)) == len(union)
    everything = {name for name, _ in model.named_parameters()}
    parts = [union, anatomy.embeddings, anatomy.head, anatomy.others]
    assert frozenset().union(*parts) == everything == trained_names(model, Run("full-s0", "full", seed=0))
    assert sum(map(len, parts)) == len(everything)
    # The head and the embeddings of a tied model are one tensor, which no layer run trains.
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert tied == (not anatomy.head)


def train_once(folder: Path, model: Any, run: Run, **more: Any) -> tuple[OneLayerGRPOTrainer, frozenset[str]]:
    names = apply_adaptation(model, run)
    settings = Training(
        learning_rates=(1e-2,), steps=1, prompts_per_batch=2, group_size=4, max_tokens=4, kl=0.0, **more
    )
    workplace = Workplace("study", 0, run.name, "f", 1e9)
    args = grpo_config(settings, 1e-2, workplace, "float32")
    args.output_dir = str(folder / "out")
    trainer = OneLayerGRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [float(row % 2) for row in range(len(completions))],
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["12+3=", "4=", "7+7=", "0="]}),
        processing_class=TOKENIZER,
        trained_names=names,
        workplace=workplace,
    )
    trainer.train()
    return trainer, names


@every_architecture
@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_step_of_the_middle_layer_moves_it_alone(tmp_path: Path, architecture: str, checkpointing: bool) -> None:
    model = make(architecture)
    base = tensor_hashes(model)
    asked: dict[int, set[bool]] = {index: set() for index in range(LAYERS)}
    for index, prefix in enumerate(find_anatomy(model).blocks):
        model.get_submodule(prefix.removesuffix(".")).register_forward_pre_hook(
            lambda _m, args, i=index: asked[i].add(args[0].requires_grad) if torch.is_grad_enabled() else None
        )
    trainer, names = train_once(tmp_path, model, layer(1), gradient_checkpointing=checkpointing)
    assert check_moved(model, base, trainer.optimizer, names) is True
    after = tensor_hashes(model)
    changed = {name for name in base if base[name] != after[name]}
    assert changed <= names
    # Experts that no token was sent to have no gradient; the rest of the block has.
    assert {name for name in names if "expert" not in name} <= changed
    assert asked[0] == asked[1] == {False}  # the backward pass ends at the layer
    assert True in asked[2]


@every_architecture
def test_training_all_of_a_tied_model_keeps_it_tied(tmp_path: Path, architecture: str) -> None:
    model = make(architecture)
    tied = not find_anatomy(model).head
    base = tensor_hashes(model)
    trainer, names = train_once(tmp_path, model, Run("full-s0", "full", seed=0))
    assert check_moved(model, base, trainer.optimizer, names) is True
    save_adapted(model, names, tmp_path / "adapted.safetensors")
    again = make(architecture)
    adapt(again, tmp_path / "adapted.safetensors")
    assert tensor_hashes(again) == tensor_hashes(model)
    assert (again.get_output_embeddings().weight is again.get_input_embeddings().weight) == tied


@every_architecture
def test_greedy_answers_are_those_of_transformers(architecture: str) -> None:
    """Ragged prompts, some longer than the attention's window, with the cache and the dropping of finished rows."""
    model = make(architecture)
    prompts = [[5, 6, 7, 8, 9, 10, 11], [9, 10], [9, 10], [3, 12, 13, 4, 5, 6], [4]]
    answers = generate(model, prompts, Decoding(14, (1,), 0, None), None)
    settings = GenerationConfig(max_new_tokens=14, do_sample=False, pad_token_id=0, eos_token_id=1)
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = torch.tensor([prompt])
        expected = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings, use_cache=False
        )
        assert answer == expected[0, len(prompt) :].tolist()
    assert len({tuple(answer) for answer in answers}) > 1


@every_architecture
def test_an_answer_does_not_depend_on_the_rows_beside_it(architecture: str) -> None:
    model = make(architecture)
    prompts = [[5, 6, 7, 8, 9, 10, 11], [9, 10], [3, 12, 13, 4, 5, 6], [4]]
    seeds = row_seeds(len(prompts), "x")
    decoding = Decoding(14, (1,), 0, 1.0)
    together = generate(model, prompts, decoding, seeds)
    assert together == [generate(model, [p], decoding, [s])[0] for p, s in zip(prompts, seeds, strict=True)]


@pytest.fixture
def folder_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a study of an architecture's model folder, in shards, with its base pinned."""
    monkeypatch.chdir(tmp_path)
    write_params(["tiny"])
    rows = Path("rows.jsonl")
    rows.write_text("".join(f'{{"question": "{n}", "answer": "{n}"}}\n' for n in range(60)))

    def build(architecture: str) -> Any:
        make(architecture).save_pretrained("model", max_shard_size="8KB")
        TOKENIZER.save_pretrained("model")
        settings = deep_copy(TINY)
        settings["model"] = {"kind": "folder", "path": "model", "attention": attention(architecture)}
        settings["task"] = {"kind": "questions", "sources": dict.fromkeys(("train", "select", "report"), str(rows)),
                            "sizes": {"train": 20, "select": 4, "report": 6}, "prompt": "{question}="}  # fmt: skip
        write_study("tiny", settings)
        study = load_study("tiny")
        phases.base_phase(study)
        return study

    return build


@every_architecture
def test_what_is_exported_is_read_again_bit_for_bit(folder_study: Any, architecture: str) -> None:
    study = folder_study(architecture)
    base = base_manifest(study)
    assert sum(name.endswith(".safetensors") for name in base.files) > 1
    original, loaded = make(architecture), load_base(base, attention=attention(architecture))
    assert tensor_hashes(loaded) == tensor_hashes(original)

    # As a run of the middle layer leaves it.
    trained = load_base(base, attention=attention(architecture))
    names = trained_names(trained, layer(1))
    with torch.no_grad():
        for name, parameter in trained.named_parameters():
            if name in names:
                parameter += 0.01
    folder = Path("data/tiny/runs/layer-01-s0")
    save_adapted(trained, names, folder / "adapted.safetensors")
    write_manifest(folder, "tiny", "layer-01-s0", {}, [folder / "adapted.safetensors"], 0, 0, {})
    export_model(study, "layer-01-s0", Path("exported"))
    exported = AutoModelForCausalLM.from_pretrained(
        "exported", dtype=torch.float32, attn_implementation=attention(architecture)
    )
    assert type(exported) is type(original)
    found, expected = tensor_hashes(exported), tensor_hashes(trained)
    assert found == expected
    assert {name for name, sha in found.items() if sha != tensor_hashes(original)[name]} == names
    files = set()
    for path in Path("exported").glob("*.safetensors"):
        files |= set(load_file(path))
    assert (files == set(dict(trained.named_parameters()))) == (architecture not in OTHER_NAMES_IN_FILES)


def test_files_without_the_classes_own_prefix(folder_study: Any) -> None:
    """OpenAI's GPT-2 checkpoints name their tensors without ``transformer.``."""
    study = folder_study("GPT-2")
    tensors: dict[str, torch.Tensor] = {}
    for path in Path("model").glob("model*.safetensors"):
        tensors |= {name.removeprefix("transformer."): tensor.clone() for name, tensor in load_file(path).items()}
        path.unlink()
    Path("model/model.safetensors.index.json").unlink()
    save_file(tensors, "model/model.safetensors", metadata={"format": "pt"})
    assert "h.0.ln_1.weight" in tensors
    phases.base_phase(study)
    assert tensor_hashes(load_base(base_manifest(study))) == tensor_hashes(make("GPT-2"))


def test_dropout_is_off(folder_study: Any) -> None:
    """GPT-2 drops a tenth of its activations in training mode, in which the trainer samples."""
    study = folder_study("GPT-2")
    ids = torch.tensor([[5, 6, 7, 8]])
    for model, off in ((load_base(base_manifest(study)), True), (make("GPT-2"), False)):
        model.train()
        assert torch.equal(model(input_ids=ids).logits, model(input_ids=ids).logits) == off


def test_an_attention_that_a_class_lacks_is_said(folder_study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_architectures.attention", lambda _: "eager")
    study = folder_study("Gemma 2")
    model = study.model.model_copy(update={"attention": "sdpa"})
    with pytest.raises(UserError, match=r"model\.attention: Gemma2ForCausalLM .* expected eager, found sdpa"):
        check_usable(study.model_copy(update={"model": model}), Path("model"))


def test_episodes_need_attention_to_every_turn(folder_study: Any) -> None:
    """Where rows of different lengths take turns, a window counts their padding too."""
    study = folder_study("Gemma 3")
    settings = deep_copy(TINY)
    settings["model"] = {"kind": "folder", "path": "model"}
    settings["task"] = {"kind": "textworld-express", "sizes": TINY["task"]["sizes"]}
    write_study("agent", settings)
    check_usable(study, Path("model"))
    with pytest.raises(UserError, match="Gemma3ForCausalLM: its attention looks back over a window"):
        check_usable(load_study("agent"), Path("model"))
    make("Llama").save_pretrained("model")
    check_usable(load_study("agent"), Path("model"))
