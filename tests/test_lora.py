"""LoRA as a baseline: what trains, that it resumes, and that merged weights act as the adapters did."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    GemmaConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    LlamaConfig,
    Qwen2Config,
    Qwen3MoeConfig,
)

import rl.test_agents as agents
from conftest import TINY, deep_copy, new_project, write_study
from onelayer import phases
from onelayer.adaptation import AdaptationError, apply_adaptation, check_moved, tensor_hashes
from onelayer.baseline_settings import LoraRuns
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.grid import Run, find_runs
from onelayer.lora import adapter_names, base_name, linear_modules, peft_config, read_lora, save_adapters
from onelayer.manifest import read_manifest
from onelayer.models import adapt, export_model, make_micro_model
from onelayer.records import read_records
from onelayer.rl.agents import AgentTrainer
from onelayer.rl.episodes import Arena
from onelayer.rl.grpo import OneLayerGRPOTrainer, grpo_config, prompt_dataset
from onelayer.state import StudyState
from onelayer.training import Workplace
from rl.test_agents import study_of
from rl.test_grpo import MODEL, TOKENIZER, reward
from rl.test_grpo import training as settings_of
from training_probes import gradient_asks, interrupted_at

RANK4 = LoraRuns(rank=4)
IDS = torch.tensor([[3, 4, 5, 6], [7, 8, 9, 3]])


def lora_run(lora: LoraRuns = RANK4) -> Run:
    return Run(f"lora-r{lora.rank}-s0", "lora", seed=0, family=f"lora-r{lora.rank}", lora=lora)


def drawn(model: Any, lora: LoraRuns) -> Any:
    """The model wrapped by PEFT, with adapters that do something."""
    wrapped = get_peft_model(model, peft_config(lora)).eval()
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.3)
    return wrapped


SHAPE = {"vocab_size": 16, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 2, "max_position_embeddings": 16, "pad_token_id": 0}  # fmt: skip
GROUPED = {**SHAPE, "num_key_value_heads": 1, "head_dim": 8}


def gpt2() -> Any:
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=16, n_embd=16, n_layer=2, n_head=2)).eval()


def built(config: Any) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


ARCHITECTURES = {
    "gpt2": gpt2,
    "qwen2": lambda: built(Qwen2Config(**SHAPE, num_key_value_heads=1)),
    "llama": lambda: built(LlamaConfig(**GROUPED)),
    "gemma": lambda: built(GemmaConfig(**GROUPED)),
    "gpt-neox": lambda: built(GPTNeoXConfig(**SHAPE)),
    "qwen3-moe": lambda: built(
        Qwen3MoeConfig(**GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, decoder_sparse_step=1)
    ),
}


def micro() -> Any:
    return make_micro_model(MODEL, TOKENIZER, 0).eval()


def test_all_linear_is_everything_but_the_head() -> None:
    assert len(linear_modules(micro())) == 4 * 7  # q, k, v, o, gate, up, down
    assert len(linear_modules(gpt2())) == 2 * 4  # GPT-2's own class of linear maps counts too
    assert "lm_head" not in linear_modules(micro())


def architecture(name: str) -> Any:
    return micro() if name == "micro" else ARCHITECTURES[name]()


SOME = LoraRuns(rank=2, alpha=3, targets=("q_proj", "layers.1.mlp.down_proj"))
# A mixture's router and its experts, each one tensor in the model.
FUSED = {f"model.layers.{index}.mlp.{part}" for index in (0, 1) for part in ("gate", "experts", "experts.base_layer")}


@pytest.mark.parametrize(
    ("name", "lora"), [*((name, RANK4) for name in ("micro", *ARCHITECTURES)), ("micro", SOME), ("llama", SOME)]
)
def test_the_adapters_are_two_parameters_of_every_target_and_no_more(name: str, lora: LoraRuns) -> None:
    plain = architecture(name)
    names = adapter_names(plain, lora)
    targets = set(linear_modules(plain))
    if lora is SOME:
        targets = {one for one in targets if one.endswith((".q_proj", "layers.1.mlp.down_proj"))}
    targets |= FUSED if name == "qwen3-moe" else set()
    assert names == {
        f"base_model.model.{target}.lora_{half}.default.weight" for target in targets for half in ("A", "B")
    }
    wrapped = get_peft_model(architecture(name), peft_config(lora))
    assert names == {name for name, parameter in wrapped.named_parameters() if parameter.requires_grad}
    rest = {base_name(name) for name, _ in wrapped.named_parameters() if name not in names}
    assert rest == {name for name, _ in plain.named_parameters()}


@pytest.mark.parametrize("name", ["micro", *ARCHITECTURES])
@pytest.mark.parametrize("lora", [RANK4, LoraRuns(rank=2, alpha=1)])
def test_merged_weights_give_the_logits_of_the_adapters(name: str, lora: LoraRuns, tmp_path: Path) -> None:
    make = partial(architecture, name)
    model = make()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    wrapped = drawn(model, lora)
    path = tmp_path / "adapted.safetensors"
    names = adapter_names(make(), lora)
    save_adapters(wrapped, names, lora, path)
    assert len(load_file(path)) == len(names)
    assert read_lora(path) == LoraRuns(rank=lora.rank, alpha=lora.alpha)
    merged = make()
    adapt(merged, path)
    assert type(merged) is type(make())
    assert merged.state_dict().keys() == before.keys()
    with torch.no_grad():
        torch.testing.assert_close(merged(IDS).logits, wrapped(input_ids=IDS).logits, atol=1e-5, rtol=0)
        assert (merged(IDS).logits - make()(IDS).logits).abs().max() > 0.01
    targets = {f"{name}.weight" for name in linear_modules(make())}
    if name == "qwen3-moe":
        targets |= {f"model.layers.{index}.mlp.{part}" for index in (0, 1)
                    for part in ("gate.weight", "experts.gate_up_proj", "experts.down_proj")}  # fmt: skip
    for key, tensor in merged.state_dict().items():
        assert torch.equal(tensor, before[key]) == (key not in targets), key


def test_the_file_is_named_as_peft_names_its_own(tmp_path: Path) -> None:
    wrapped = drawn(micro(), RANK4)
    save_adapters(wrapped, adapter_names(micro(), RANK4), RANK4, tmp_path / "one.safetensors")
    again = get_peft_model(micro(), peft_config(RANK4))
    loaded = set_peft_model_state_dict(again, load_file(tmp_path / "one.safetensors"))
    assert not loaded.unexpected_keys
    with torch.no_grad():
        assert torch.equal(again(input_ids=IDS).logits, wrapped(input_ids=IDS).logits)


def test_adapters_of_another_base_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "adapted.safetensors"
    save_adapters(drawn(micro(), RANK4), adapter_names(micro(), RANK4), RANK4, path)
    with pytest.raises(UserError, match="expected adapters for this base"):
        adapt(gpt2(), path)
    wide = {name: torch.zeros(tensor.shape[0], tensor.shape[1] + 1) for name, tensor in load_file(path).items()}
    save_file(wide, path, metadata={"lora": RANK4.model_dump_json(include={"rank", "alpha", "targets"})})
    with pytest.raises(UserError, match=r"of shape \[.*\] has no place in this base; found \[4, "):
        adapt(micro(), path)


def trainer_of(folder: Path, lora: LoraRuns, **more: Any) -> OneLayerGRPOTrainer:
    model = micro()
    run = lora_run(lora)
    args = grpo_config(settings_of(**more), 1e-2, Workplace("study", 0, run.name, "f", 1e9), "float32")
    args.output_dir = str(folder)
    return OneLayerGRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [f"{a}#{b}=" for a in range(1, 9) for b in range(4)]}),
        processing_class=TOKENIZER,
        trained_names=apply_adaptation(model, run),
        workplace=Workplace("study", 0, run.name, "f", 1e9),
        peft_config=peft_config(lora),
    )


@pytest.mark.parametrize("checkpointing", [False, True])
def test_frozen_embeddings_ask_for_no_gradient(tmp_path: Path, checkpointing: bool) -> None:
    """TRL asks the embeddings' output of a PEFT model for a gradient where there is gradient checkpointing."""
    trainer = trainer_of(tmp_path, LoraRuns(rank=4, targets=("layers.2.mlp.up_proj",)),
                         gradient_checkpointing=checkpointing)  # fmt: skip
    asks = gradient_asks(trainer.model.get_base_model().model.layers)
    trainer.train()
    assert trainer.model.is_gradient_checkpointing == checkpointing
    assert asks[0] == asks[1] == asks[2] == {False}
    assert True in asks[3]


def test_the_divergence_is_measured_from_the_base(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, RANK4, kl=0.1, steps=3)
    assert trainer.ref_model is None
    assert set(trainer.model.peft_config) == {"default"}  # no second adapter stands for the reference
    seen = []
    original = trainer._get_per_token_logps_and_entropies

    def watched(model: Any, ids: Any, mask: Any, keep: int, *args: Any, **kwargs: Any) -> Any:
        found = original(model, ids, mask, keep, *args, **kwargs)
        off = [module.disable_adapters for module in trainer.model.modules() if hasattr(module, "disable_adapters")]
        if off and all(off):
            seen.append((ids, mask, keep, found[0]))
        return found

    trainer._get_per_token_logps_and_entropies = watched
    trainer.train()
    divergences = [row["kl"] for row in trainer.state.log_history if "kl" in row]
    assert divergences[0] == pytest.approx(0, abs=1e-6)
    assert divergences[-1] > 1e-5
    assert len(seen) == 3
    for ids, mask, keep, logprobs in seen:
        with torch.no_grad():
            logits = micro()(input_ids=ids, attention_mask=mask).logits[:, -keep - 1 : -1]
        expected = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, -keep:, None])[..., 0]
        real = mask[:, -keep:].bool()
        torch.testing.assert_close(logprobs[real], expected[real], atol=1e-5, rtol=0)


def test_a_base_that_moved_and_an_adapter_that_did_not_are_errors(tmp_path: Path) -> None:
    base = tensor_hashes(micro())
    trainer = trainer_of(tmp_path / "out", RANK4)
    trainer.train()
    model, names, start = trainer.model, trainer.trained_names, trainer.adapters_at_start
    assert start.keys() == names
    assert check_moved(model, base, trainer.optimizer, names, start) is True
    stuck = {name: sha for name, sha in tensor_hashes(model).items() if name in names}
    with pytest.raises(AdaptationError, match=r"lora_[AB].*had a gradient, yet it did not move"):
        check_moved(model, base, trainer.optimizer, names, stuck)
    with torch.no_grad():
        model.get_base_model().model.layers[1].mlp.up_proj.base_layer.weight[0] += 1e-7
    with pytest.raises(AdaptationError, match=r"up_proj\.base_layer\.weight: frozen, yet it differs"):
        check_moved(model, base, trainer.optimizer, names, start)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_agents_train_adapters_too(tmp_path: Path, precision: str) -> None:
    study, run = study_of("gigpo", kl=0.01), lora_run()
    model = make_micro_model(study.model, agents.TOKENIZER, 0)  # type: ignore[arg-type]
    base = tensor_hashes(model)
    workplace = Workplace("agents", 0, run.name, "f", 1e9)
    args = grpo_config(study.training, 1e-2, workplace, precision, "gigpo", 4)
    args.output_dir = str(tmp_path / "out")
    with closing(Arena(agents.TetheredTask(), 512, study.grading)) as arena:
        trainer = AgentTrainer(
            model=model,
            args=args,
            train_dataset=prompt_dataset(agents.PROBLEMS),
            processing_class=agents.TOKENIZER,
            trained_names=apply_adaptation(model, run),
            workplace=workplace,
            peft_config=peft_config(RANK4),
            study=study,
            arena=arena,
            problems=agents.PROBLEMS,
        )
        trainer.train()
    assert check_moved(trainer.model, base, trainer.optimizer, trainer.trained_names, trainer.adapters_at_start)
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


def tiny_settings(**lora: Any) -> dict[str, Any]:
    changed = deep_copy(TINY)
    changed["training"]["kl"] = 0.01
    changed["runs"]["lora"] = {"rank": 2, "learning_rates": [0.01], **lora}
    return changed


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora")
    with new_project(folder, tiny_settings()):
        study = load_study("tiny")
        phases.prepare_phase(study)
        phases.base_phase(study)
        phases.train_phase(study, find_runs(study, ["lora-r2-s0"]), None)
    return folder


@pytest.fixture
def study(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    shutil.copytree(trained, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return load_study("tiny")


FILE = Path("data/tiny/runs/lora-r2-s0/adapted.safetensors")


def test_a_run_leaves_its_adapters_and_what_rebuilds_them(study: Study) -> None:
    tensors = load_file(FILE)
    assert len(tensors) == 2 * 2 * 7
    assert all(("lora_A" in name) != ("lora_B" in name) for name in tensors)
    assert all(tensor.dtype == torch.float32 and bool(tensor.any()) for tensor in tensors.values())
    manifest = read_manifest(FILE.parent)
    assert manifest is not None
    lora = {"rank": 2, "alpha": 4.0, "targets": "all-linear"}
    assert manifest.details["lora"] == manifest.settings["lora"] == lora
    assert manifest.details["trained_parameters"] == sum(tensor.numel() for tensor in tensors.values())
    base = load_file("data/tiny/runs/base/model.safetensors")
    assert manifest.details["parameters"] == sum(tensor.numel() for tensor in base.values())
    assert manifest.settings["learning_rate"] == 0.01
    assert manifest.details["moved"] is True
    assert "peft" in manifest.versions


def test_an_interrupted_run_resumes_to_the_same_result(study: Study) -> None:
    whole, history = load_file(FILE), (FILE.parent / "history.json").read_bytes()
    whole = {name: tensor.clone() for name, tensor in whole.items()}
    shutil.rmtree(FILE.parent)
    run = find_runs(study, ["lora-r2-s0"])
    with interrupted_at(2):
        phases.train_phase(study, run, None)
    saves = sorted(Path(".work/tiny/lora-r2-s0").glob("*/checkpoint-*"))
    assert [save.name for save in saves] == ["checkpoint-1", "checkpoint-2"]
    assert load_file(saves[1] / "adapted.safetensors").keys() == {
        n.replace(".weight", ".default.weight") for n in whole
    }
    phases.train_phase(study, run, None)
    again = load_file(FILE)
    assert again.keys() == whole.keys()
    assert all(torch.equal(again[name], tensor) for name, tensor in whole.items())
    assert (FILE.parent / "history.json").read_bytes() == history


def test_export_and_evaluation_use_merged_weights(study: Study) -> None:
    export_model(study, "lora-r2-s0", Path("out"))
    exported = AutoModelForCausalLM.from_pretrained("out")
    base = AutoModelForCausalLM.from_pretrained("data/tiny/runs/base")
    assert exported.state_dict().keys() == base.state_dict().keys()
    assert exported.config.tie_word_embeddings
    wrapped = get_peft_model(base, peft_config(LoraRuns(rank=2)))
    set_peft_model_state_dict(wrapped, load_file(FILE))
    with torch.no_grad():
        torch.testing.assert_close(exported(IDS).logits, wrapped(input_ids=IDS).logits, atol=1e-5, rtol=0)
    phases.evaluate_phase(study, find_runs(study, ["lora-r2-s0"]), None)
    assert len(read_records("tiny", "lora-r2-s0")) == (8 + 14) * (2 + 1)
    assert StudyState(study, thorough=True).evaluation(find_runs(study, ["lora-r2-s0"])[0]).done


def test_its_settings_decide_its_fingerprint_and_no_other_run(study: Study) -> None:
    def reason(**lora: Any) -> str:
        write_study("tiny", tiny_settings(**lora))
        changed = load_study("tiny")
        return StudyState(changed).training(find_runs(changed, ["lora-r2-s0"])[0]).reason

    assert reason() == "done"
    assert reason(alpha=4) == "done"  # its default, said aloud
    assert reason(alpha=8) == "lora.alpha 4.0 → 8.0"
    assert reason(targets=["q_proj"]) == "lora.targets all-linear → ['q_proj']"
    assert reason(learning_rates=[0.02]) == "learning_rate 0.01 → 0.02"


def test_targets_that_name_nothing_are_refused_before_any_run_trains(study: Study) -> None:
    for target, found in (("query", "names no module"), ("mlp", "not linear, or the head"), ("lm_head", "or the head")):
        write_study("tiny", tiny_settings(targets=["q_proj", target]))
        changed = load_study("tiny")
        with pytest.raises(UserError, match=rf"tiny\.yaml: runs\.lora\.targets\[1\]: .*{found}.*q_proj, up_proj"):
            phases.train_phase(changed, find_runs(changed, ["full-s0"]), None)
        assert not Path("data/tiny/runs/full-s0").exists()


def test_settings_that_say_two_things_are_refused(study: Study) -> None:
    for lora, message in (
        ({"rate_factor": 3}, "runs.lora: expected learning_rates or rate_factor"),
        ({"targets": "some"}, "runs.lora.targets: expected all-linear or a list, found 'some'"),
        ({"rank": 0}, "runs.lora.rank: found 0"),
        ({"dropout": 0.1}, "runs.lora.dropout: unknown key"),
    ):
        write_study("tiny", tiny_settings(**lora))
        with pytest.raises(UserError) as error:
            load_study("tiny")
        assert message in str(error.value), json.dumps(lora)
    write_study("tiny", tiny_settings() | {"generation": {"backend": "vllm"}})
    with pytest.raises(UserError, match=r"generation\.backend: found vllm, whose copy of the model has no adapters"):
        load_study("tiny")
